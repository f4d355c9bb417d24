/* src/informer/reflector.h
 *
 * reflector: which request to send to a Kubernetes API server next, so that a store follows a resource indefinitely. It
 * is client-go's Reflector as a machine: results of requests go in; the next request, and when to send it, come out.
 *
 *                .--listed: watch next------.
 *                v                          |
 *     .----> RESTING --next: list---> LISTING
 *     |        | |                                       INITIAL: a watch that sends the state first (watch-list) and
 *     |        | `-----next: watch--> WATCHING           goes on as WATCHING on the same stream
 *     |        |                         ^
 *     |        `--next: watch-list--> INITIAL --initial_end
 *     |                                  |
 *     `--- ended: immediately or after a backoff, from any state; the rules are below
 *
 * Versions. The first list requests "0" (any state), later lists the last version seen. They request "" (the newest) if
 * that version is expired or too large, or if a part of the state was reported before a request broke off. The first
 * watch-list requests "". Only requests for "" and "0" are paged (chunk), and not again after a page token expired. A
 * watch requests the last version, which every event advances; in a watch-list, events before initial_end do not.
 *
 * Backoff. 800 ms, doubled up to 30 s; jitter makes each wait up to twice as long. It is reset after 2 minutes without
 * use, and after a watch that had events and lasted 10 s, so that a restarted server does not count as one that is
 * down.
 *
 * After a list:
 *     expired or too large              list again at "", immediately
 *     any other failure                 list again, with backoff
 * After a watch:
 *     connection refused, or 429        watch again from the same version, with backoff
 *     ended or broken off, with events
 *     or after at least 1 s             watch again, immediately
 *     the same without events, in 1 s   relist, with backoff
 *     410                               relist at the last version, immediately; with backoff if no watch has worked
 *                                       since the state was last read
 *     any other failure                 relist, with backoff
 * "Immediately" becomes one second after the watch began, from the fourth watch in a row on that lasted less than 1 s.
 * After a watch-list, before its initial_end:
 *     410 or too large                  watch-list again at ""
 *     connection refused, or 429        again, with backoff
 *     ended or broken off               again, from the beginning; with backoff if it lasted less than 1 s. When the
 *                                       server has ended three in a row, it counts as not supporting watch-lists
 *     any other failure                 list, immediately. Unless it was 5xx, 401 or 403, no more watch-lists
 *     no initial_end, 10 s of silence   the server counts as not supporting watch-lists; the owner must cancel the
 *                                       request (belfry_reflector_stalled)
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_INFORMER_REFLECTOR_H
#define BELFRY_INFORMER_REFLECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "kapi/decoder.h"
#include "kapi/failure.h"

#define BELFRY_REFLECTOR_VERSION 63 /* most bytes of a version; a longer one of an object is ignored */

enum belfry_reflector_state {
    BELFRY_REFLECTOR_RESTING,
    BELFRY_REFLECTOR_LISTING,
    BELFRY_REFLECTOR_INITIAL,
    BELFRY_REFLECTOR_WATCHING
};

struct belfry_reflector_opts {
    bool watch_list;           /* try watch-lists */
    uint32_t chunk;            /* objects per page; 0: not paged */
    uint32_t watch_timeout_ms; /* watches last this long to twice this long; 0: 5 minutes */
    uint64_t seed;
};

struct belfry_reflector; /* opaque, heap */

BELFRY_NODISCARD enum belfry_err belfry_reflector_create(const struct belfry_reflector_opts *opts,
                                                         struct belfry_reflector **out);
void belfry_reflector_destroy(struct belfry_reflector *reflector); /* NULL is fine */

struct belfry_reflector_request {
    bool watch;          /* else a list */
    bool initial;        /* watch: send the state first */
    bool fresh;          /* the whole state will be reported: call belfry_store_begin() */
    const char *version; /* "", "0", or one seen before; lent until the next call */
    uint32_t chunk;      /* of a list; 0: no limit */
    uint32_t timeout_s;  /* of a watch */
};

/* The next request, when it is due; from then on it is in progress. Errors: BELFRY_ERR_AGAIN (one is in progress, or it
 * is too early: see due). */
BELFRY_NODISCARD enum belfry_err belfry_reflector_next(struct belfry_reflector *reflector, uint64_t now_ms,
                                                       struct belfry_reflector_request *out);
uint64_t belfry_reflector_due(const struct belfry_reflector *reflector); /* when to call next() or stalled() again */

/* The watch delivered an event; `version` is that of the object or bookmark ("" is ignored). Report an ERROR by
 * ended(), not here. True: the state is now complete. */
bool belfry_reflector_event(struct belfry_reflector *reflector, enum belfry_decoded_kind kind, const char *version,
                            bool initial_end, uint64_t now_ms);

/* The list delivered an object. */
void belfry_reflector_item(struct belfry_reflector *reflector);

/* The list is complete at `version`; its request has ended. True: the state is now complete. If the version is "" or
 * "0", or over BELFRY_REFLECTOR_VERSION, no watch can start from it: that counts as a failure, and it relists. */
bool belfry_reflector_listed(struct belfry_reflector *reflector, const char *version, uint64_t now_ms);

/* How the current request ended. failure->err BELFRY_OK: the server ended a watch normally. */
struct belfry_reflector_outcome {
    const struct belfry_failure *failure;
    bool refused;   /* no connection could be made */
    bool broke_off; /* it broke during the answer, or before it and all retries failed */
};
void belfry_reflector_ended(struct belfry_reflector *reflector, const struct belfry_reflector_outcome *outcome,
                            uint64_t now_ms);

/* After a pause of the owner: silence counts from now on. */
void belfry_reflector_resumed(struct belfry_reflector *reflector, uint64_t now_ms);

/* True: the server ignores the current watch-list: cancel it, then call ended() with BELFRY_ERR_UNSUPPORTED. */
bool belfry_reflector_stalled(const struct belfry_reflector *reflector, uint64_t now_ms);

/* False: the server has refused a watch-list, so the state is listed from now on. */
bool belfry_reflector_offers(const struct belfry_reflector *reflector);
enum belfry_reflector_state belfry_reflector_state(const struct belfry_reflector *reflector);

struct belfry_reflector_counts {
    uint64_t lists;   /* times the state was complete, listed or streamed */
    uint64_t relists; /* lists after the first */
    uint64_t watches; /* requested, including watch-lists */
    uint64_t retries; /* waits with backoff */
};
struct belfry_reflector_counts belfry_reflector_counts(const struct belfry_reflector *reflector);

#endif
