/* src/serve/kube/kube_watch.h
 *
 * kube_watch: a watch, from the head of its response to the end of its body. It is a stream of lines in the worker's
 * core (core/lines.h), like every other stream: parked when it is slow, never killed, resumed from history, backfilled
 * from upstream.
 *
 *     NEW --state first--> STATE --all written--.
 *      |  `--from where upstream is--> FENCING --+--> LIVE --lost, deadline, drain, another catalog--> ended
 *      `---------- from a revision -------------´
 *
 * The head is sent before anything is waited for, because clients give up on a head that does not come. Later failures
 * are sent as an ERROR line. A body ends cleanly, because informers take a broken connection for an error. It ends
 * after the last line of a revision, if the client takes that within a few seconds, because a client that resumes
 * inside a revision receives all of it again. If not, the client receives an ERROR and lists again. A watch inside a
 * line is cut off (RST_STREAM, or the connection), so that no client takes half a line for a whole one.
 *
 * While auth is on upstream, a watch is live only as long as its right is (permit_hold()): in doubt it is parked, and
 * when it is lost the watch ends with an ERROR, 403 for its range and 401 for its token.
 *
 * An object that cannot be decoded counts as absent, on both sides of a change. It is counted, and logged once per
 * minute.
 *
 * Thread: owner (the worker's).
 * Memory: a watch is one small allocation, its selector, its exchange and the core's stream; idle it has no buffer.
 * All of it and the right to it count as SHARES_WATCH_BYTES (shares.h): one for which there is no room is answered 429.
 * While watches and cores hold more than the room's memory_max, a watch that stays inside a line for KUBE_INSIDE_MS is
 * cut off.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_WATCH_H
#define BELFRY_SERVE_KUBE_KUBE_WATCH_H

#include "core/lines.h"
#include "core/worker.h"
#include "serve/kube/kube_ask.h"
#include "serve/kube/kube_list.h"
#include "serve/rights/fence.h"
#include "server/exchange.h"

#define KUBE_BOOKMARK_MS 60000            /* between two bookmarks; jitter is added */
#define KUBE_WATCH_MS    (30 * 60 * 1000) /* a watch without timeoutSeconds lasts so long, up to twice that */
#define KUBE_INSIDE_MS   60000            /* inside one line for so long while memory is over the limit: cut off */

struct kube_watches; /* those of one worker */

struct kube_watches_opts {
    struct permit *permit;
    enum kube_rights rights; /* REVIEW: auth is always on, so permit need not say when that changes */
    struct kube_lists *lists;
    struct fence *fence;
    uint64_t (*now)(void *user);
    void (*work)(void *user); /* the core has something to do */
    void *user;
    uint64_t seed;
    struct kube_room *room; /* its watch_bytes are counted here */
    size_t forms_bytes;     /* of kube_forms.h; 0: KUBE_FORMS_BYTES */
    uint64_t unread_ms;     /* 0: KUBE_INSIDE_MS */
    const struct belfry_log *log;
};

BELFRY_NODISCARD enum belfry_err kube_watches_create(const struct kube_watches_opts *opts, struct kube_watches **out);
void kube_watches_destroy(struct kube_watches *watches); /* every watch ends cleanly; NULL is fine */
void kube_watches_set_unread_time(struct kube_watches *watches, uint64_t unread_ms); /* as in the options */
void kube_watches_set_worker(struct kube_watches *watches, struct worker *worker);

/* lines_attribute_fn. */
bool kube_watches_attribute(struct kube_watches *watches, const struct batch *batch, uint32_t event,
                            struct belfry_bytes name, struct belfry_bytes *before, struct belfry_bytes *after);

/* Another catalog is served, lent until the next one; NULL: none. Watches end whose resource is not the same in it. */
void kube_watches_set_catalog(struct kube_watches *watches, const struct kube_catalog *catalog);

/* Watches of connections that were told to leave end within drain_ms. */
void kube_watches_drain(struct kube_watches *watches, uint64_t now_ms, uint64_t drain_ms);

/* Makes a watch of a request that was granted, or answers it. `ask` is lent. */
void kube_watch_open(struct kube_watches *watches, struct exchange *x, const struct kube_ask *ask, uint64_t now_ms);

/* After each worker_turn(). Bounded: the rest is due immediately. */
void kube_watches_after_turn(struct kube_watches *watches, uint64_t now_ms);
uint64_t kube_watches_due(const struct kube_watches *watches);
bool kube_watches_are_going_round(const struct kube_watches *watches); /* as watch_is_going_round() */

struct kube_watches_stats {
    size_t watches;
    size_t bytes; /* of watches and their selectors */
    uint64_t opened, lines, bookmarks, expired, too_many;
    uint64_t slow;     /* cut off inside a line while memory was over the limit */
    uint64_t expelled; /* for lack of rights */
    uint64_t undecodable, skipped;
    uint64_t forms_made, forms_shared; /* events parsed, and used again */
    size_t forms_bytes;
};
void kube_watches_stats(const struct kube_watches *watches, struct kube_watches_stats *out);

/* One watch, for /debug/watchers. Lent until the service is next called or receives an event. */
struct kube_watch_view {
    const struct stream *stream; /* NULL: its state is still being written */
    const struct exchange_conn *conn;
    const struct identity *who;
    const char *client;            /* user-agent, cut to 63 bytes */
    const char *resource;          /* its plural name */
    struct belfry_bytes namespace; /* "": all */
    struct belfry_bytes selector;  /* as kube_selector_text() writes it; "": everything */
    uint64_t opened_ms, sent_bytes;
};

/* As watch_next() in watch.h. */
bool kube_watches_next(const struct kube_watches *watches, uint64_t after, uint64_t *number,
                       struct kube_watch_view *out);

#endif
