/* belfry/informer.h: a local copy of an etcd key range, or of a Kubernetes resource, that is always consistent.
 *
 * An informer lists, watches, resumes, and lists again when history was lost. It keeps the objects in a store that can
 * be read at any time. It reports changes to handlers: added, updated (with the old and the new object), removed.
 * Both sources have the same API.
 *
 *     belfry_informer_keys(b, belfry_prefix("/services/"), NULL, on_news, NULL, &services);
 *     belfry_informer_resource(k, belfry_resource("v1", "pods", NULL), NULL, on_news, NULL, &pods);
 *
 * A handler that applies all its news in order always has the state of the store: the informer changes the store first,
 * then calls every handler, then takes the next change. It does not report an object that was listed again unchanged.
 * There is no queue between store and handlers: a slow handler delays its own session, and a handler that must wait for
 * something should pause the informer.
 *
 * Thread, callbacks, memory and errors: as belfry/belfry.h says.
 */
#ifndef BELFRY_INFORMER_H
#define BELFRY_INFORMER_H

#include <belfry/belfry.h>
#include <belfry/kube.h>
#include <belfry/object.h>

#ifdef __cplusplus
extern "C" {
#endif

struct belfry_informer;
struct belfry_handler; /* one callback that receives news */

enum belfry_news_kind {
    BELFRY_NEWS_ADDED = 1,
    BELFRY_NEWS_UPDATED,
    BELFRY_NEWS_REMOVED,
    BELFRY_NEWS_SYNCED, /* this handler has received the whole state; comes again after each new listing */
    BELFRY_NEWS_LINK,   /* for a status line: .why = "connected to ...", "403: ... is forbidden"; needs no action */
    BELFRY_NEWS_END     /* the last callback: .err and .why; after the last handler's, the informer is freed */
};

struct belfry_news {
    enum belfry_news_kind kind;
    const struct belfry_object *object; /* ADDED, UPDATED: the new state. REMOVED: the last known state. Else NULL */
    const struct belfry_object *old;    /* UPDATED: the previous state; equal to .object in a resync. Else NULL */
    int initial;                        /* ADDED: it existed before this handler, or came before the first SYNCED */
    int resync;                         /* UPDATED: not a change, but a repetition by "resync" */
    int missed;                         /* REMOVED: removed while history was lost: .object may not be its last state */
    int err;                            /* END; 0 in LINK means connected */
    const char *why;                    /* LINK, END: a sentence, never NULL there; else NULL */
};                                      /* may grow at its end */

/* BELFRY_PAUSE pauses the whole informer, after all handlers have received this news, until belfry_informer_resume();
 * its store stays unchanged meanwhile. BELFRY_STOP removes this handler. */
typedef enum belfry_next (*belfry_news_fn)(struct belfry_informer *informer, const struct belfry_news *news,
                                           void *user);

/* Opens an informer with its first handler (`fn` NULL: with none). `opts` and `out` may be NULL.
 *
 *   for both           resync         0s      how often the first handler receives the whole store again (0s: never)
 *                      max-bytes      1GiB    a store over this size ends the informer with BELFRY_ERR_LIMIT
 *   on keys            page-bytes     1MiB
 *   on a resource      selector, field-selector, metadata-only, chunk-size (500)
 *                      watch-list     true    let the server stream the state if it can; otherwise it is listed
 *                      watch-timeout  5m      the server ends each watch after this time to twice this time
 *
 * An informer on keys ends (BELFRY_NEWS_END) as a follow does. An informer on a resource ends only with
 * BELFRY_ERR_LIMIT, _NOMEM or _CANCELED: whatever the server answers, it retries, with waits of at most 30 s, and LINK
 * gives the reason.
 * Errors: BELFRY_ERR_INVALID (empty interval, an option that is not for this, session without etcd),
 *         BELFRY_ERR_NOMEM, BELFRY_ERR_CANCELED (being closed). */
BELFRY_API int belfry_informer_keys(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts,
                                    belfry_news_fn fn, void *user, struct belfry_informer **out);
BELFRY_API int belfry_informer_resource(struct belfry_kube *k, struct belfry_resource resource,
                                        const struct belfry_opts *opts, belfry_news_fn fn, void *user,
                                        struct belfry_informer **out);

/* Ends the informer; no callback comes after it. May be called any time, also in one of its callbacks. NULL is fine. */
BELFRY_API void belfry_informer_close(struct belfry_informer *informer);

/* Continues after BELFRY_PAUSE; otherwise it does nothing. */
BELFRY_API void belfry_informer_resume(struct belfry_informer *informer);

/* ---- handlers ---- */

/* Adds a handler to the same watch. It receives everything in the store as ADDED (.initial), in slices, then SYNCED;
 * changes that happen meanwhile come in their place. The option resync is per handler. `out` may be NULL.
 * Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM, BELFRY_ERR_CANCELED (the informer has ended). */
BELFRY_API int belfry_informer_add(struct belfry_informer *informer, const struct belfry_opts *opts, belfry_news_fn fn,
                                   void *user, struct belfry_handler **out);

/* Removes the handler, which receives nothing more. May be called any time, also in its own callback. NULL is fine. */
BELFRY_API void belfry_handler_remove(struct belfry_handler *handler);

/* 1 once the store has been complete; 1 once this handler has received all of it. */
BELFRY_API int belfry_informer_synced(const struct belfry_informer *informer);
BELFRY_API int belfry_handler_synced(const struct belfry_handler *handler);

/* ---- the store ---- */

/* Objects returned here are lent until the informer next changes, which happens only in belfry_dispatch(), _run() and
 * _close(). Hold an object to keep it longer. */

/* The object with this key, or NULL. */
BELFRY_API const struct belfry_object *belfry_informer_get(const struct belfry_informer *informer,
                                                           struct belfry_bytes key);

/* Walks the objects whose key begins with `prefix` ("default/" is a namespace), in key order: `after` NULL gives the
 * first; the result is NULL after the last. `after` may have left the store, if it is held. */
BELFRY_API const struct belfry_object *belfry_informer_next(const struct belfry_informer *informer,
                                                            struct belfry_bytes prefix,
                                                            const struct belfry_object *after);

BELFRY_API size_t belfry_informer_count(const struct belfry_informer *informer);

/* Counters since the informer was opened. */
struct belfry_informer_stats {
    size_t objects;
    size_t bytes;        /* memory of the store: objects, keys, indexes; without the allocator's overhead */
    size_t object_bytes; /* the part of it for keys and values */
    uint64_t changes;    /* reported: added, updated, removed */
    uint64_t lists;      /* times the state was read: listed, or streamed by the server */
    uint64_t relists;    /* lists after the first: history was lost */
    uint64_t watches;    /* watches opened */
    uint64_t retries;    /* waits before trying again */
    uint64_t undecoded;  /* objects that could not be decoded, and were skipped */
};                       /* may grow at its end */
BELFRY_API const struct belfry_informer_stats *belfry_informer_get_stats(struct belfry_informer *informer); /* lent */

/* ---- indexes ---- */

struct belfry_index_values; /* receives the values that an index function finds */

/* Reports the values under which an object is found, by any number of calls of belfry_index_add(). Called once per
 * object, when it enters the store. It must not call any other function of the informer. */
typedef void (*belfry_index_fn)(const struct belfry_object *object, struct belfry_index_values *values, void *user);
BELFRY_API void belfry_index_add(struct belfry_index_values *values, struct belfry_bytes value);

/* Adds an index, at any time. Objects that are already in the store are indexed immediately. At most 16 indexes.
 * Errors: BELFRY_ERR_INVALID (the name is taken; a bad path), BELFRY_ERR_LIMIT, BELFRY_ERR_NOMEM. If memory runs out
 * later, the informer ends with BELFRY_ERR_NOMEM instead of keeping an incomplete index. */
BELFRY_API int belfry_informer_index(struct belfry_informer *informer, const char *name, belfry_index_fn fn,
                                     void *user);

/* The same for the value that belfry_json_at() finds at `path`, or each value of a "[*]". Objects that are not JSON
 * have no value. */
BELFRY_API int belfry_informer_index_path(struct belfry_informer *informer, const char *name, const char *path);

/* Walks the objects with this value in an index, in key order; `after` as above. NULL also if the index is unknown. */
BELFRY_API const struct belfry_object *belfry_informer_by(const struct belfry_informer *informer, const char *name,
                                                          struct belfry_bytes value, const struct belfry_object *after);

#ifdef __cplusplus
}
#endif
#endif
