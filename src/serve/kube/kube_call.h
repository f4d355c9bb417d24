/* src/serve/kube/kube_call.h
 *
 * kube_call: a request about a resource, from its head until it is answered or a list or watch takes over.
 *
 *     READ --the tier is not ready--> HELD --it is--> READ       10 s: 429
 *      |  `--auth is on--> ASKING --granted--> taken over        refused: 401, 403; upstream is unavailable: 503
 *      `--> taken over
 *
 * Thread: owner (the worker's).
 * Memory: a request that waits counts as SHARES_REQUESTS (shares.h); one for which there is no room is answered 429.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_CALL_H
#define BELFRY_SERVE_KUBE_KUBE_CALL_H

#include "base/list.h"
#include "serve/kube/kube_list.h"
#include "serve/kube/kube_state.h"
#include "serve/kube/kube_watch.h"
#include "serve/rights/permit.h"

#define KUBE_HOLD_MS 10000 /* not ready: a request is held for so long */

struct kube_calls_opts {
    struct kube_state *state;
    struct permit *permit;
    struct kube_lists *lists;
    struct kube_watches *watches;
    uint64_t (*now)(void *user);
    void *user;
    struct belfry_bytes scope;
};

struct kube_calls_stats {
    size_t held;
    uint64_t refused, too_many;
};

/* The calls of one worker that wait. */
struct kube_calls {
    struct kube_calls_opts opts;
    struct belfry_list held;   /* for the tier, in the order of their time */
    struct belfry_list asking; /* for upstream's answer about their rights */
    struct kube_calls_stats stats;
};

void kube_calls_init(struct kube_calls *calls, const struct kube_calls_opts *opts);
void kube_calls_fail_all(struct kube_calls *calls, const struct kube_status *status);

/* Takes over an exchange whose path is a resource's. */
void kube_call_begin(struct kube_calls *calls, struct exchange *x, const struct exchange_head *head, uint64_t now_ms);

/* Continues calls that were held, when the tier is ready, and ends those whose time is up. Bounded. */
void kube_calls_after_turn(struct kube_calls *calls, uint64_t now_ms);
uint64_t kube_calls_due(const struct kube_calls *calls); /* when to call it; BELFRY_NEVER: nothing is held */

#endif
