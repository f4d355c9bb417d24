/* src/informer/reflector.h
 *
 * reflector: what to ask a Kubernetes API server next so that a store follows a resource for ever; client-go's
 * Reflector as a machine: how requests end goes in, the next request and when to send it come out.
 *
 *                .--listed: watch next------.
 *                v                          |
 *     .----> RESTING --next: list---> LISTING
 *     |        | |                                       INITIAL: a watch that sends the state first (watch-list) and
 *     |        | `-----next: watch--> WATCHING           goes on as WATCHING on the same stream
 *     |        |                         ^
 *     |        `--next: watch-list--> INITIAL --initial_end
 *     |                                  |
 *     `--- ended: at once or after a backoff, from any of them; what comes next is said below
 *
 * Versions: the first list asks for "0" (anything), a relist for the last version seen, and for "" (the newest) when
 * that is expired or too large, or when a part of the state was told before it broke off; the first watch-list for "". Pages (chunk) only for "" and "0", and not again when
 * their token expired. A watch asks for the last version, which every event moves; in a watch-list none does before its
 * initial_end.
 *
 * Backoff: 800 ms, doubled up to 30 s, each jittered to between once and twice; forgotten after 2 minutes without use,
 * and when a watch gave events and lasted 10 s: a server that was restarted is not waited for as one that is down.
 *
 * How a list ended decides: expired or too large: again at "", at once. Any other failure: backoff, again.
 * How a watch ended: refused, 429: backoff, watch again from the same version. Well, or broken off, after 1 s or with
 * events: at once. Within 1 s without events: backoff, relist. 410: relist at the last version, at once, unless no
 * watch held since the last time the state was read: then with backoff. Any other failure: backoff, relist. What goes on
 * at once does so a second after the watch began, when that is the fourth in a row or a later one that did not last one.
 * Watch-list: 410 or too large: again at "". Refused or 429: backoff, again. A watch-list that ends before its
 * initial_end: again, the state from the beginning, with backoff when it lasted less than 1 s; when the server ended
 * three in a row so, it does not offer it. Any other failure: list instead, at once; the server is not asked for it
 * again, unless the answer was 5xx, 401 or 403. A server that ignores the wish (no initial_end, and nothing at all for
 * 10 s) is taken for one that does not offer it: the owner is told to cancel (belfry_reflector_stalled).
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

#define BELFRY_REFLECTOR_VERSION 63 /* bytes of a version at most; an object's that is longer does not move it */

enum belfry_reflector_state {
    BELFRY_REFLECTOR_RESTING,
    BELFRY_REFLECTOR_LISTING,
    BELFRY_REFLECTOR_INITIAL,
    BELFRY_REFLECTOR_WATCHING
};

struct belfry_reflector_opts {
    bool watch_list;           /* try it */
    uint32_t chunk;            /* objects a page; 0: none */
    uint32_t watch_timeout_ms; /* watches last this long, and up to twice; 0: 5 minutes */
    uint64_t seed;
};

struct belfry_reflector; /* opaque, heap */

BELFRY_NODISCARD enum belfry_err belfry_reflector_create(const struct belfry_reflector_opts *opts,
                                                         struct belfry_reflector **out);
void belfry_reflector_destroy(struct belfry_reflector *reflector); /* NULL is fine */

struct belfry_reflector_request {
    bool watch;          /* else a list */
    bool initial;        /* watch: send the state first */
    bool fresh;          /* the state will be told anew: belfry_store_begin() */
    const char *version; /* "", "0", or what was seen; lent until the next call */
    uint32_t chunk;      /* list; 0: no limit */
    uint32_t timeout_s;  /* watch */
};

/* The next request to send, when it is time; it is under way from then on. Errors: BELFRY_ERR_AGAIN (one is under way, or
 * it is not time yet: see due). */
BELFRY_NODISCARD enum belfry_err belfry_reflector_next(struct belfry_reflector *reflector, uint64_t now_ms,
                                                       struct belfry_reflector_request *out);
uint64_t belfry_reflector_due(const struct belfry_reflector *reflector); /* when to ask next(), or stalled(), again */

/* Something came in the watch; `version` of the object or bookmark ("" does not move it); an ERROR is no event, but how
 * it ended. True: with this the state is complete. */
bool belfry_reflector_event(struct belfry_reflector *reflector, enum belfry_decoded_kind kind, const char *version,
                            bool initial_end, uint64_t now_ms);

/* An object of the list came. */
void belfry_reflector_item(struct belfry_reflector *reflector);

/* The list is complete at `version`; the request is over. True: with this the state is complete. A list whose version
 * is "" or "0", or over BELFRY_REFLECTOR_VERSION, cannot be watched on: that is a failure, relist. */
bool belfry_reflector_listed(struct belfry_reflector *reflector, const char *version, uint64_t now_ms);

/* How the request under way ended. failure->err BELFRY_OK: a watch was ended by the server in good order. */
struct belfry_reflector_outcome {
    const struct belfry_failure *failure;
    bool refused;   /* no connection could be made */
    bool broke_off; /* it broke in the middle, or before the answer, for the last time */
};
void belfry_reflector_ended(struct belfry_reflector *reflector, const struct belfry_reflector_outcome *outcome,
                            uint64_t now_ms);

/* Nobody listened for a while: silence counts from now on. */
void belfry_reflector_resumed(struct belfry_reflector *reflector, uint64_t now_ms);

/* True: the watch-list under way is ignored by the server: cancel it, then say ended() with BELFRY_ERR_UNSUPPORTED. */
bool belfry_reflector_stalled(const struct belfry_reflector *reflector, uint64_t now_ms);

enum belfry_reflector_state belfry_reflector_state(const struct belfry_reflector *reflector);

struct belfry_reflector_counts {
    uint64_t lists;   /* the state was complete, listed or streamed */
    uint64_t relists; /* of them after the first */
    uint64_t watches; /* asked for, those that send the state first included */
    uint64_t retries; /* rests with a backoff */
};
struct belfry_reflector_counts belfry_reflector_counts(const struct belfry_reflector *reflector);

#endif
