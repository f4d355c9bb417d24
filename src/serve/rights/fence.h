/* src/serve/rights/fence.h
 *
 * fence: where is upstream now? A read that must not be older than its own beginning asks upstream for its revision (a
 * linearizable Range of one key, of which only the count is wanted) and waits until the tier has that much.
 *
 * Who asks while a question is under way waits for the next one: an answer that was already on its way may be older
 * than he is. So a thousand who ask at once cost two questions.
 *
 * With auth on upstream (permit.h does not say that it is off) the question is asked with the client's own token and
 * about a key of the client's own range, since upstream refuses any other; then those share it who have both in
 * common.
 *
 * Thread: owner (the loop's). The answer comes from the loop, never from inside fence_ask().
 */
#ifndef BELFRY_SERVE_RIGHTS_FENCE_H
#define BELFRY_SERVE_RIGHTS_FENCE_H

#include "serve/rights/permit.h"
#include "serve/uplink/uplink.h"

#define FENCE_TIMEOUT_MS 3000               /* as Kubernetes waits */
#define FENCE_WAITING    10000              /* askers at once */
#define FENCE_BYTES      (32 * 1024 * 1024) /* of keys and tokens in their questions */

struct fence;
struct fence_wait;

/* BELFRY_OK: upstream was at `rev` at some time after the question. Otherwise BELFRY_ERR_UNAVAILABLE, _TIMEOUT,
 * _DENIED or _AUTH. The wait is gone when it returns. */
typedef void (*fence_fn)(enum belfry_err err, int64_t rev, void *user);

/* `uplink` and `permit` outlive it. permit NULL: auth is taken to be on. */
BELFRY_NODISCARD enum belfry_err fence_create(struct uplink *uplink, struct permit *permit, uv_loop_t *loop,
                                              struct fence **out);
void fence_destroy(struct fence *fence); /* waits are dropped without an answer; NULL is fine */

/* `who` and `key` (one that he may read, such as the first of his range; not empty) are looked at only when auth is
 * on: pass what the request has; everything is copied. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT, BELFRY_ERR_AUTH (a
 * token that cannot even be sent). */
BELFRY_NODISCARD enum belfry_err fence_ask(struct fence *fence, const struct permit_who *who, struct belfry_bytes key,
                                           fence_fn fn, void *user, struct fence_wait **out);
void fence_cancel(struct fence_wait *wait); /* no answer will come */

struct fence_stats {
    uint64_t asked, questions, failed; /* askers, what it cost, askers that were not told */
};
void fence_stats(const struct fence *fence, struct fence_stats *out);

#endif
