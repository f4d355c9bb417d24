/* src/serve/rights/fence.h
 *
 * fence: the revision at which upstream is now. A read that must not return data older than its own beginning asks the
 * fence, and waits until the tier has the revision that it answers. An interface: etcd_fence.h asks etcd.
 *
 * Thread: owner (the loop's). The answer comes from the loop, never from inside fence_ask().
 */
#ifndef BELFRY_SERVE_RIGHTS_FENCE_H
#define BELFRY_SERVE_RIGHTS_FENCE_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "serve/rights/identity.h"

#define FENCE_TIMEOUT_MS 3000  /* as Kubernetes waits */
#define FENCE_WAITING    10000 /* waits at once */

struct fence_api;

/* The first field of an implementation. */
struct fence {
    const struct fence_api *api;
};

/* The first field of what an implementation keeps of a wait. */
struct fence_wait {
    const struct fence_api *api;
};

/* BELFRY_OK: upstream was at `rev` at some time after the question. Otherwise BELFRY_ERR_UNAVAILABLE, _TIMEOUT,
 * _DENIED or _AUTH. The wait is gone when it returns. */
typedef void (*fence_fn)(enum belfry_err err, int64_t rev, void *user);

struct fence_stats {
    uint64_t asked, questions, failed; /* waits, requests sent, waits without an answer */
};

struct fence_api {
    enum belfry_err (*ask)(struct fence *fence, const struct identity *who, struct belfry_bytes key, fence_fn fn,
                           void *user, struct fence_wait **out);
    void (*cancel)(struct fence_wait *wait);
    void (*stats)(const struct fence *fence, struct fence_stats *out);
    void (*destroy)(struct fence *fence);
};

/* `who` and `key` (one that the client may read, such as the first of its range; not empty) are used only when upstream
 * has to be asked as the client. Everything is copied. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT, BELFRY_ERR_AUTH (the
 * token cannot be sent in a header, or the user of the certificate is refused), BELFRY_ERR_UNAVAILABLE. */
BELFRY_NODISCARD static inline enum belfry_err fence_ask(struct fence *fence, const struct identity *who,
                                                         struct belfry_bytes key, fence_fn fn, void *user,
                                                         struct fence_wait **out)
{
    return fence->api->ask(fence, who, key, fn, user, out);
}

/* No answer will come. */
static inline void fence_cancel(struct fence_wait *wait)
{
    wait->api->cancel(wait);
}

static inline void fence_stats(const struct fence *fence, struct fence_stats *out)
{
    fence->api->stats(fence, out);
}

/* Waits are dropped without an answer. NULL is fine. */
static inline void fence_destroy(struct fence *fence)
{
    if (fence != NULL)
        fence->api->destroy(fence);
}

#endif
