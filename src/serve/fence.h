/* src/serve/fence.h
 *
 * fence: where is upstream now? A read that must not be older than its own beginning asks upstream for its revision (a
 * linearizable Range of a key that nobody has) and waits until the tier has that much.
 *
 * Who asks while a question is under way waits for the next one: an answer that was already on its way may be older than
 * he is. So a thousand who ask at once cost two questions.
 *
 * With auth on upstream the question is asked with the client's token (permit.h's who), one for each who.
 *
 * Thread: owner (the loop's). The answer comes from the loop, never from inside fence_ask().
 */
#ifndef BELFRY_SERVE_FENCE_H
#define BELFRY_SERVE_FENCE_H

#include "serve/permit.h"
#include "serve/uplink.h"

#define FENCE_TIMEOUT_MS 3000  /* as Kubernetes waits */
#define FENCE_WAITING    10000 /* askers at once */

struct fence;
struct fence_wait;

/* BELFRY_OK: upstream was at `rev` at some time after the question. Otherwise BELFRY_ERR_UNAVAILABLE, _TIMEOUT, _DENIED
 * or _AUTH. The wait is gone when it returns. */
typedef void (*fence_fn)(enum belfry_err err, int64_t rev, void *user);

BELFRY_NODISCARD enum belfry_err fence_create(struct uplink *uplink, uv_loop_t *loop, struct fence **out);
void fence_destroy(struct fence *fence); /* waits are dropped without an answer; NULL is fine */

/* `who` is looked at only when auth is on: pass what the request has; everything is copied. Errors: BELFRY_ERR_NOMEM,
 * BELFRY_ERR_LIMIT. */
BELFRY_NODISCARD enum belfry_err fence_ask(struct fence *fence, const struct permit_who *who, fence_fn fn, void *user,
                                           struct fence_wait **out);
void fence_cancel(struct fence_wait *wait);

struct fence_stats {
    uint64_t asked, questions, failed;
};
void fence_stats(const struct fence *fence, struct fence_stats *out);

#endif
