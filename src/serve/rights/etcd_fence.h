/* src/serve/rights/etcd_fence.h
 *
 * etcd_fence: the fence (fence.h) of a tier in front of etcd. The question is a linearizable Range of one key, count
 * only.
 *
 * A wait that comes while a question is under way is answered by the next question, because an answer that is already
 * on its way may be older than the wait. So a thousand waits at once cost two questions.
 *
 * Unless auth is known to be off (permit.h), the question carries the client's own token and a key of the client's own
 * range, because upstream refuses any other. Waits with the same token and key share it. For the user of a client
 * certificate the tier vouches (vouch.h); if it cannot, the question is refused with BELFRY_ERR_UNAVAILABLE. For a
 * client without a token on an open listener (listen_policy.h) the tier asks for itself.
 *
 * Thread: owner (the loop's).
 */
#ifndef BELFRY_SERVE_RIGHTS_ETCD_FENCE_H
#define BELFRY_SERVE_RIGHTS_ETCD_FENCE_H

#include "serve/rights/fence.h"
#include "serve/rights/permit.h"
#include "serve/uplink/uplink.h"

#define FENCE_BYTES (32 * 1024 * 1024) /* of keys and tokens in questions */

struct etcd_fence_opts {
    struct uplink *uplink; /* this and the next two outlive it */
    struct permit *permit; /* NULL: auth is taken to be on */
    struct vouch *vouch;   /* NULL: users of client certificates are refused */
    uv_loop_t *loop;
};

BELFRY_NODISCARD enum belfry_err etcd_fence_create(const struct etcd_fence_opts *opts, struct fence **out);

#endif
