/* belfry/informer.h: a local copy of a range of keys in etcd, or of a resource in Kubernetes, that is always right.
 *
 * An informer lists, watches, resumes, and lists anew when history was lost. It keeps what it has seen in a store that
 * can be read at any time, and tells handlers what changed: added, updated with the old and the new object, removed.
 * Both sources have the same API.
 *
 *     belfry_informer_keys(b, belfry_prefix("/services/"), NULL, on_news, NULL, &services);
 *     belfry_informer_resource(k, belfry_resource("v1", "pods", NULL), NULL, on_news, NULL, &pods);
 *
 * What handlers are told, in the order it comes, always leads to the store as it is: the store is moved first, then
 * every handler is told, then the next change is looked at. An object that is listed anew and did not change is not
 * told. There is no queue between store and handlers: a handler that is slow holds up its own session, and one that
 * must wait for something pauses the informer.
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
struct belfry_handler; /* one who is told */

enum belfry_news_kind {
    BELFRY_NEWS_ADDED = 1,
    BELFRY_NEWS_UPDATED,
    BELFRY_NEWS_REMOVED,
    BELFRY_NEWS_SYNCED, /* this handler has been told everything there is; again after each listing anew */
    BELFRY_NEWS_LINK,   /* for a status line: .why = "connected to ...", "403: ... is forbidden"; nothing to do */
    BELFRY_NEWS_END     /* the last call: .err and .why; the informer is gone when the last handler's returns */
};

struct belfry_news {
    enum belfry_news_kind kind;
    const struct belfry_object *object; /* ADDED, UPDATED: as it is now. REMOVED: as it was last known. Else NULL */
    const struct belfry_object *old;    /* UPDATED: as it was before; the same as .object in a resync. Else NULL */
    int initial;                        /* ADDED: it was there before this handler, or came before the first SYNCED */
    int resync;                         /* UPDATED: nothing changed; "resync" says it again */
    int missed;                         /* REMOVED: it went while history was lost: .object may not be its last state */
    int err;                            /* END; 0 in LINK means connected */
    const char *why;                    /* LINK, END: a sentence, never NULL there; else NULL */
};                                      /* may grow at its end */

/* BELFRY_PAUSE holds the whole informer, after all handlers were told this, until belfry_informer_resume(); its store
 * stays as it is. BELFRY_STOP removes this handler. */
typedef enum belfry_next (*belfry_news_fn)(struct belfry_informer *informer, const struct belfry_news *news,
                                           void *user);

/* Opens an informer with its first handler; `fn` NULL: none yet. `opts` and `out` may be NULL.
 *
 *   for both           resync         0s      tell the first handler everything again this often, from the store
 *                      max-bytes      1GiB    a store over it ends the informer with BELFRY_ERR_LIMIT
 *   on keys            page-bytes     1MiB
 *   on a resource      selector, field-selector, metadata-only, chunk-size (500)
 *                      watch-list     true    have the state streamed where the server can; else it is listed
 *                      watch-timeout  5m      watches are ended by the server after this and up to twice this
 *
 * On keys it ends (BELFRY_NEWS_END) as a follow does, on a resource only with BELFRY_ERR_LIMIT, _NOMEM or _CANCELED:
 * whatever the server says, it tries again, at most every 30 s, and LINK tells why.
 * Errors: BELFRY_ERR_INVALID (empty interval, an option that is not for this, no etcd in the session),
 *         BELFRY_ERR_NOMEM, BELFRY_ERR_CANCELED (being closed). */
BELFRY_API int belfry_informer_keys(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts,
                                    belfry_news_fn fn, void *user, struct belfry_informer **out);
BELFRY_API int belfry_informer_resource(struct belfry_kube *k, struct belfry_resource resource,
                                        const struct belfry_opts *opts, belfry_news_fn fn, void *user,
                                        struct belfry_informer **out);

/* Any time, also inside a callback of its own: no callback comes after it. NULL is fine. */
BELFRY_API void belfry_informer_close(struct belfry_informer *informer);

/* After BELFRY_PAUSE: go on. Without a pause it does nothing. */
BELFRY_API void belfry_informer_resume(struct belfry_informer *informer);

/* ---- handlers ---- */

/* One more on the same watch. It is told everything in the store as ADDED (.initial) in slices, then SYNCED, and what
 * changes meanwhile in its place. The option resync is its own. `out` may be NULL. Errors: BELFRY_ERR_INVALID,
 * BELFRY_ERR_NOMEM, BELFRY_ERR_CANCELED (the informer has ended). */
BELFRY_API int belfry_informer_add(struct belfry_informer *informer, const struct belfry_opts *opts, belfry_news_fn fn,
                                   void *user, struct belfry_handler **out);

/* Any time, also inside its own callback: it is not told anything more. NULL is fine. */
BELFRY_API void belfry_handler_remove(struct belfry_handler *handler);

/* 1 when the state has been complete once; and when this handler has been told all of it. */
BELFRY_API int belfry_informer_synced(const struct belfry_informer *informer);
BELFRY_API int belfry_handler_synced(const struct belfry_handler *handler);

/* ---- the store ---- */

/* What is given is lent until the informer next changes, which it does only in belfry_dispatch(), _run() and _close():
 * hold an object to keep it longer. */

/* The object with this key; NULL: there is none. */
BELFRY_API const struct belfry_object *belfry_informer_get(const struct belfry_informer *informer,
                                                           struct belfry_bytes key);

/* Those whose key begins with `prefix` ("default/" is a namespace), in the order of keys; `after` NULL gives the first;
 * NULL when there are no more. `after` need not be in the store any more, only held. */
BELFRY_API const struct belfry_object *belfry_informer_next(const struct belfry_informer *informer,
                                                            struct belfry_bytes prefix,
                                                            const struct belfry_object *after);

BELFRY_API size_t belfry_informer_count(const struct belfry_informer *informer);

/* Numbers since it was opened. */
struct belfry_informer_stats {
    size_t objects;
    size_t bytes;        /* memory of the store: objects, keys, indexes; what the allocator adds is not known here */
    size_t object_bytes; /* of it: keys and values alone */
    uint64_t changes;    /* told: added, updated, removed */
    uint64_t lists;      /* the state was read: listed, or streamed by the server */
    uint64_t relists;    /* of them after the first: history was lost */
    uint64_t watches;    /* watches opened */
    uint64_t retries;    /* waits before trying again */
    uint64_t undecoded;  /* objects that could not be read, and were left out */
};                       /* may grow at its end */
BELFRY_API const struct belfry_informer_stats *belfry_informer_get_stats(struct belfry_informer *informer); /* lent */

/* ---- indexes ---- */

struct belfry_index_values; /* where an index function puts what it finds */

/* Says under which values an object is found: any number of calls of belfry_index_add(). Called when an object comes
 * into the store, and never for the same object again; it must not call anything else of the informer. */
typedef void (*belfry_index_fn)(const struct belfry_object *object, struct belfry_index_values *values, void *user);
BELFRY_API void belfry_index_add(struct belfry_index_values *values, struct belfry_bytes value);

/* Adds an index, at any time; what is in the store already is indexed at once. At most 16.
 * Errors: BELFRY_ERR_INVALID (the name is taken; a path that cannot be read), BELFRY_ERR_LIMIT, BELFRY_ERR_NOMEM. When
 * memory ends later, the informer ends with BELFRY_ERR_NOMEM rather than with an index that lies. */
BELFRY_API int belfry_informer_index(struct belfry_informer *informer, const char *name, belfry_index_fn fn,
                                     void *user);

/* The same for what belfry_json_at() finds at `path`, each value of a "[*]"; of an object that is no JSON: nothing. */
BELFRY_API int belfry_informer_index_path(struct belfry_informer *informer, const char *name, const char *path);

/* Those with this value in an index, in the order of keys; `after` as above. NULL also when there is no such index. */
BELFRY_API const struct belfry_object *belfry_informer_by(const struct belfry_informer *informer, const char *name,
                                                          struct belfry_bytes value, const struct belfry_object *after);

#ifdef __cplusplus
}
#endif
#endif
