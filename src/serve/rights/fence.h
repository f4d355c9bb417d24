/* src/serve/rights/fence.h
 *
 * fence: the revision at which upstream is now. A read that must not return data older than its own beginning asks
 * upstream for its revision (a linearizable Range of one key, count only) and waits until the tier has that revision.
 *
 * A wait that comes while a question is under way is answered by the next question, because an answer that is already
 * on its way may be older than the wait. So a thousand waits at once cost two questions.
 *
 * Unless auth is known to be off (permit.h), the question carries the client's own token and a key of the client's own
 * range, because upstream refuses any other. Waits with the same token and key share it. For the user of a client
 * certificate the tier vouches (vouch.h). For a client without a token on an open listener (listen_policy.h) the tier
 * asks for itself.
 *
 * Thread: owner (the loop's). The answer comes from the loop, never from inside fence_ask().
 */
#ifndef BELFRY_SERVE_RIGHTS_FENCE_H
#define BELFRY_SERVE_RIGHTS_FENCE_H

#include "serve/rights/permit.h"
#include "serve/uplink/uplink.h"

#define FENCE_TIMEOUT_MS 3000               /* as Kubernetes waits */
#define FENCE_WAITING    10000              /* waits at once */
#define FENCE_BYTES      (32 * 1024 * 1024) /* of keys and tokens in their questions */

struct fence;
struct fence_wait;

/* BELFRY_OK: upstream was at `rev` at some time after the question. Otherwise BELFRY_ERR_UNAVAILABLE, _TIMEOUT,
 * _DENIED or _AUTH. The wait is gone when it returns. */
typedef void (*fence_fn)(enum belfry_err err, int64_t rev, void *user);

struct fence_opts {
    struct uplink *uplink; /* this and the next two outlive it */
    struct permit *permit; /* NULL: auth is taken to be on */
    struct vouch *vouch;   /* NULL: users of client certificates are refused */
    uv_loop_t *loop;
};

BELFRY_NODISCARD enum belfry_err fence_create(const struct fence_opts *opts, struct fence **out);
void fence_destroy(struct fence *fence); /* waits are dropped without an answer; NULL is fine */

/* `who` and `key` (one that the client may read, such as the first of its range; not empty) are used only when auth is
 * on. Everything is copied. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT, BELFRY_ERR_AUTH (the token cannot be sent in a
 * header, or the user of the certificate is refused), BELFRY_ERR_UNAVAILABLE (the tier cannot vouch for the user). */
BELFRY_NODISCARD enum belfry_err fence_ask(struct fence *fence, const struct identity *who, struct belfry_bytes key,
                                           fence_fn fn, void *user, struct fence_wait **out);
void fence_cancel(struct fence_wait *wait); /* no answer will come */

struct fence_stats {
    uint64_t asked, questions, failed; /* waits, Ranges sent, waits without an answer */
};
void fence_stats(const struct fence *fence, struct fence_stats *out);

#endif
