/* belfry/belfry.h: follow keys in etcd, or a belfryd, from C. No threads, no globals, no printing.
 *
 * A session (struct belfry) knows endpoints and credentials, connects, fails over and reconnects by itself. On it live
 * watches (changes from a revision), follows (state first, then changes) and calls (get, put, txn, ...). The caller
 * drives everything through ONE descriptor, in whatever loop the program has, or through belfry_run():
 *
 *     struct belfry *b;
 *     int err = belfry_open("http://127.0.0.1:2379", NULL, &b);
 *     if (!err) err = belfry_follow_open(b, belfry_prefix("/services/"), NULL, on_batch, NULL, NULL);
 *     if (!err) err = belfry_run(b, -1);
 *
 * Thread:   owner. A session and all that is on it belong to one thread at a time; different sessions are independent.
 * Callback: only from belfry_dispatch(), belfry_run() and belfry_close(), never from inside another call. A callback
 *           may call anything here, also close its own watch or cancel its own call; not belfry_close() of its session.
 * Memory:   what a callback is given is lent until it returns. What is passed in is copied. Structs that the library
 *           fills may grow at their end in later versions; never allocate or copy them by their size.
 * Errors:   functions returning int return 0 (BELFRY_OK) or a value of enum belfry_err; out parameters are written only
 *           on success.
 */
#ifndef BELFRY_BELFRY_H
#define BELFRY_BELFRY_H

#include <stddef.h>
#include <stdint.h>

#include <belfry/bytes.h>
#include <belfry/err.h>

#ifdef __cplusplus
extern "C" {
#endif

struct belfry;       /* a session */
struct belfry_watch; /* one range, watched or followed through any fault */
struct belfry_call;  /* one request under way */
struct belfry_opts;  /* name = value; belfry_opts_set() has the list */
struct belfry_txn;   /* a transaction being put together */

/* ---- options ---- */

/* Sets one option; *opts NULL creates the set. Names are those of belfryctl's flags, of kubectl's where it is about
 * Kubernetes, without the dashes. Durations take a unit (500ms, 10s, 1m), sizes may have one (65536, 64KiB, 1MiB, 1GB),
 * flags take "true" or "false" (NULL is "true"). Behind a name stands what it is when nobody sets it.
 *
 *   for belfry_open     cacert, cert, key        files in PEM; with https:// endpoints
 *                       server-name              the name the server's certificate must carry (default: the host)
 *                       insecure-skip-tls-verify flag: take any certificate; for tests only
 *                       user                     name, or name:password
 *                       password, password-file  it, or the file whose first line it is, read at every log-in
 *                       dial-timeout    2s       for one endpoint, from resolving its name to being connected
 *                       command-timeout 5s       for one call, all tries together
 *                       keepalive-time  10s      a ping this often while a watch or a call is open; at least 10s
 *                       keepalive-timeout 5s     no answer in this time: the endpoint is left for another
 *                       hasleader       true     a member without a leader is left for another
 *                       max-message     512MiB   at least 4MiB. A revision in fragments over it ends its watch; a message
 *                                                over it (without "fragment") ends all watches of the session
 *   for a watch         rev             0        start here; 0: what is written from now on (belfry_watch_open() says when
 *                                                that is)
 *                       prev-kv, progress-notify flags
 *                       created-notify           flag: BELFRY_CREATED once, when the server has the watch
 *                       no-put, no-delete        flags: filters
 *                       fragment        true     what is over 32 MiB is asked for in pieces; put together again here ...
 *                       unmerged        false    ... or not: batches of one revision in several parts (.part)
 *                       pause-bytes     1MiB     what a paused watch may hold before it only remembers its place
 *   for a follow        prev-kv, pause-bytes, page-bytes (1MiB), once (flag: end with BELFRY_OK when synced)
 *   for a get           rev, limit, keys-only, count-only, serializable, sort-by (key, version, create, mod, value),
 *                       order (ascend, descend), min-mod-rev, max-mod-rev, min-create-rev, max-create-rev
 *   for a put           lease (its id, in decimal digits), prev-kv, ignore-value, ignore-lease
 *   for a del           prev-kv
 *   for a compact       physical
 *   for a lease_ttl     keys
 *   for every call      command-timeout
 *
 * Those for Kubernetes and for informers; belfry/kube.h and belfry/informer.h say what they mean:
 *
 *   for belfry_kube_open    server, kubeconfig, context, namespace, token, token-file, cacert, cert, key, server-name,
 *                           insecure-skip-tls-verify, dial-timeout, command-timeout, max-message
 *   for belfry_kube_get     command-timeout, metadata-only
 *   for belfry_kube_list    those, and selector, field-selector, resource-version, resource-version-match, chunk-size
 *   for belfry_kube_watch   those but chunk-size, and bookmarks, send-initial, watch-timeout
 *   for an informer         resync, max-bytes; on keys page-bytes; on a resource selector, field-selector,
 *                           metadata-only, chunk-size, watch-list, watch-timeout
 *   for a further handler   resync
 *
 * Errors: BELFRY_ERR_INVALID (unknown name, or a value it cannot take: belfry_opts_why() says which and what would do),
 *         BELFRY_ERR_NOMEM. */
BELFRY_API int belfry_opts_set(struct belfry_opts **opts, const char *name, const char *value);

/* What was wrong, in a sentence: with the last belfry_opts_set(), or with these options in a call that they are not for
 * and that said BELFRY_ERR_INVALID. "" when nothing was. NULL is fine. */
BELFRY_API const char *belfry_opts_why(const struct belfry_opts *opts);

/* NULL is fine, as for free(). Options may be freed as soon as the call they were given to has returned. */
BELFRY_API void belfry_opts_free(struct belfry_opts *opts);

/* ---- a session ---- */

/* Opens a session on `endpoints`, separated by commas: host:port, http://host:port, https://host:port, unix:///path.
 * Reads the certificate files, resolves and connects nothing: it never blocks. Connecting happens when first needed.
 * Endpoints are tried in an order that is shuffled for each session, so that a fleet spreads over the members.
 * `endpoints` NULL opens a session without etcd, for the Kubernetes clients on it (belfry/kube.h) alone.
 * Errors: BELFRY_ERR_INVALID (an endpoint or an option makes no sense), BELFRY_ERR_TLS (a file cannot be used),
 *         BELFRY_ERR_LIMIT (no descriptors left), BELFRY_ERR_NOMEM. */
BELFRY_API int belfry_open(const char *endpoints, const struct belfry_opts *opts, struct belfry **out);

/* The same, and on failure stores a sentence that names what was wrong (a file, an endpoint) in why[0, len). */
BELFRY_API int belfry_open_why(const char *endpoints, const struct belfry_opts *opts, struct belfry **out, char *why,
                               size_t len);

/* Ends everything on the session (each watch gets BELFRY_END with BELFRY_ERR_CANCELED, each call its reply with the
 * same) and frees it. NULL is fine. Not from inside a callback of the session. */
BELFRY_API void belfry_close(struct belfry *b);

/* ONE descriptor for the life of the session: readable means that belfry_dispatch() has work, timers included.
 * Never read or close it. Level-triggered polling is meant; idle, it does not become readable. */
BELFRY_API int belfry_fd(const struct belfry *b);

/* Does what is due, calls back, never blocks. Errors: BELFRY_ERR_IO (the loop itself failed). */
BELFRY_API int belfry_dispatch(struct belfry *b);

/* Waits and dispatches until `timeout_ms` have passed (-1: for ever), or belfry_stop() was called, or nothing is left
 * on the session. Errors: BELFRY_ERR_TIMEOUT (the time passed), BELFRY_ERR_IO. */
BELFRY_API int belfry_run(struct belfry *b, int timeout_ms);

/* From a callback: makes belfry_run() return BELFRY_OK after it. */
BELFRY_API void belfry_stop(struct belfry *b);

enum belfry_level { BELFRY_ERROR, BELFRY_WARN, BELFRY_INFO, BELFRY_DEBUG };

/* What the session is doing, line by line: an event name and key=value text. `fn` NULL: nothing, which is the default. */
typedef void (*belfry_log_fn)(enum belfry_level level, const char *event, const char *text, void *user);
BELFRY_API void belfry_set_log(struct belfry *b, enum belfry_level level, belfry_log_fn fn, void *user);

/* Numbers since the session was opened. */
struct belfry_stats {
    uint64_t connects;     /* connections made */
    uint64_t losses;       /* connections lost */
    uint64_t resumes;      /* watches created again after a break */
    uint64_t creates;      /* watches created, resumes included */
    uint64_t parked;       /* paused watches that let go of their place upstream */
    uint64_t lists;        /* times a follow read the state */
    uint64_t events;       /* events given to callbacks */
    uint64_t stale_events; /* events dropped because they were given before (old servers may repeat) */
    uint64_t held_bytes;   /* held now for paused watches and unfinished revisions */
    uint64_t log_ins;      /* tokens fetched */
};                         /* may grow at its end */
BELFRY_API const struct belfry_stats *belfry_get_stats(struct belfry *b); /* lent until the next call on the session */

/* ---- ranges ---- */

enum belfry_range_kind {
    BELFRY_KEY,     /* one key */
    BELFRY_PREFIX,  /* every key that begins with .key; "" is the whole keyspace */
    BELFRY_FROM,    /* .key and every key after it; "" is the whole keyspace */
    BELFRY_INTERVAL /* .key <= k < .end */
};
struct belfry_range {
    struct belfry_bytes key, end;
    enum belfry_range_kind kind;
};
/* For keys that are texts; for others fill the struct. The texts are lent until the range was given to a call. */
BELFRY_API struct belfry_range belfry_key(const char *key);
BELFRY_API struct belfry_range belfry_prefix(const char *prefix);
BELFRY_API struct belfry_range belfry_from(const char *key);
BELFRY_API struct belfry_range belfry_interval(const char *key, const char *end);

/* ---- watch and follow ---- */

enum belfry_op { BELFRY_PUT = 1, BELFRY_DELETE };

struct belfry_event {
    enum belfry_op op;
    struct belfry_bytes key, value, prev;        /* prev.data NULL: unknown (not asked for, created, or compacted) */
    int64_t create_rev, mod_rev, version, lease; /* of a delete only mod_rev */
    int64_t prev_create_rev, prev_mod_rev;       /* valid when prev.data is not NULL */
    int64_t prev_version, prev_lease;            /* likewise */
    struct belfry_bytes raw;                     /* the event as it came: mvccpb.Event, or KeyValue in listed state */
};                                               /* may grow at its end */

struct belfry_header { /* of the response that something came in */
    uint64_t cluster_id, member_id, raft_term;
    int64_t revision; /* the server's at that moment: NOT a place to resume at; use .rev of the batch */
};

enum belfry_kind {
    BELFRY_CHANGES = 1, /* one revision, whole */
    BELFRY_STATE,    /* a slice of the state, puts; after lost history also deletes: what has vanished. Follow only */
    BELFRY_SYNCED,   /* the state is complete at .rev; every later CHANGES is one whole revision. Follow only */
    BELFRY_PROGRESS, /* you have everything up to .rev */
    BELFRY_LINK,     /* for a status line: .why = "connected to ...", "no endpoint answers: ..."; nothing to do */
    BELFRY_END,      /* the last call: .err and .why; the watch is gone when the callback returns */
    BELFRY_CREATED   /* "created-notify": it has begun; it starts at .rev + 1, so every later write will come */
};

struct belfry_batch {
    enum belfry_kind kind;
    int64_t rev; /* resume at rev + 1, on any member, replica or tier */
    size_t n_events;
    int err;                     /* BELFRY_END; BELFRY_LINK: 0 when connected */
    const char *why;             /* BELFRY_LINK, BELFRY_END: a sentence, never NULL there; else NULL */
    int64_t compact_rev;         /* END with BELFRY_ERR_COMPACTED: nothing before this revision can be had any more */
    int part;                    /* "unmerged" only: 1 when more of this revision follows in the next batch */
    int last;                    /* 1 when nothing more of the same server response follows */
    struct belfry_header header; /* all but LINK, and of END only one that the server sent; else zeroes */
};                               /* may grow at its end */

enum belfry_next {
    BELFRY_MORE = 0, /* go on */
    BELFRY_PAUSE,    /* nothing more until belfry_watch_resume(); the batch at hand counts as taken */
    BELFRY_STOP      /* as belfry_watch_close() */
};

typedef enum belfry_next (*belfry_batch_fn)(struct belfry_watch *w, const struct belfry_batch *batch, void *user);

/* Watches `range`: every change from revision "rev" on, or from now on, each revision whole, in order, once, through
 * any fault. It ends (BELFRY_END) only for what cannot be mended here:
 *     BELFRY_ERR_COMPACTED    history from its place on is gone (.compact_rev): read the state, or use a follow
 *     BELFRY_ERR_REWOUND      the cluster was restored from an older backup: likewise
 *     BELFRY_ERR_CLUSTER      every endpoint now answers for another cluster
 *     BELFRY_ERR_DENIED, BELFRY_ERR_AUTH   rights or credentials
 *     BELFRY_ERR_REFUSED      the server will not have this range; .why is its word
 *     BELFRY_ERR_TOO_LARGE    a revision, or a message, is over "max-message"
 *     BELFRY_ERR_UNSUPPORTED  no etcd there
 *     BELFRY_ERR_CANCELED     belfry_close()
 * When a server ends the stream that carries the watches, its gRPC status decides what happens to all of them:
 *     0, 1, 4, 8, 10, 13, 14  the session goes to the next endpoint and resumes them there, as often as it takes; waits
 *                             between tries grow to 3 s. 8 ends them if a message is over "max-message" (TOO_LARGE)
 *     2, 6, 9, 11, 15, and numbers that gRPC does not know   likewise, but the eleventh of them in a row ends them
 *                             (REFUSED); once a server has served, not before a minute of them has passed. A stream that
 *                             has served for a second, or another status, starts a new count
 *     5, 12                   end them when every endpoint says so and none has ever served (UNSUPPORTED); else as 14
 *     3, 7, 16                end them at once (REFUSED, DENIED, AUTH). A token that is refused is renewed five times first
 * A lost connection, and an HTTP status of a proxy in place of a gRPC status, count as 14; but HTTP 401 counts as 16, 403
 * as 7 and 404 as 12.
 * Without "rev" it starts after the revision that the store has when the session asks for it: in a dispatch after this
 * call, with a linearizable read, when a server is reached. What is written before that is not seen. So a program that
 * opens a watch, writes elsewhere (on another session, by another process) and expects to see it sets "created-notify"
 * and writes after BELFRY_CREATED. That comes once, before the watch's first changes, also when "rev" is set; not again
 * after a break, because a watch that is resumed goes on where it was.
 * A watch closed with belfry_watch_close() or BELFRY_STOP gets no BELFRY_END.
 * `opts` and `out` may be NULL.
 * Errors: BELFRY_ERR_INVALID (empty interval, option not for a watch, no etcd in the session), BELFRY_ERR_NOMEM,
 *         BELFRY_ERR_CANCELED (the session is being closed). */
BELFRY_API int belfry_watch_open(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts,
                                 belfry_batch_fn fn, void *user, struct belfry_watch **out);

/* Follows `range`: BELFRY_STATE slices, BELFRY_SYNCED, then BELFRY_CHANGES for ever. Applying what comes, in the order
 * it comes (puts set, deletes remove), always gives a state that is the server's at BELFRY_SYNCED and at each later
 * batch. Changes may already come between the slices of a long listing. When history is lost (compaction while away, a
 * restored backup) the state is given anew, what has vanished as deletes among it, and BELFRY_SYNCED again: nothing to
 * do for the caller. It keeps the keys, not the values, in memory. Ends and errors as for a watch, without COMPACTED
 * and REWOUND, and with NOMEM (its keys do not fit) and PROTOCOL (a page cannot be read).
 * When a compaction overtook the listing, and the server is one that belfry_request_progress() does not ask,
 * BELFRY_SYNCED waits for the next change in the range or for the server's periodic progress (10 minutes unless it is
 * set otherwise). */
BELFRY_API int belfry_follow_open(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts,
                                  belfry_batch_fn fn, void *user, struct belfry_watch **out);

/* After BELFRY_PAUSE: go on. A paused watch is a revision, not a queue: it costs its neighbours and the server nothing.
 * Without a pause it does nothing. */
BELFRY_API void belfry_watch_resume(struct belfry_watch *w);

/* Any time, also inside its own callback: no callback comes after it, and `w` is gone. NULL is fine. */
BELFRY_API void belfry_watch_close(struct belfry_watch *w);

/* Asks the server how far everybody is: each watch that has everything up to some revision gets BELFRY_PROGRESS when
 * the server can tell. Asked again every second until it answers. Never wait for it without a timer of your own.
 * Servers whose answer may overtake events are not asked: etcd before 3.4.25 and from 3.5.0 to 3.5.7, and those that do
 * not tell their version. There it does nothing until the session is on another member; a line in the log
 * (progress_not_asked) says so. "progress-notify" works with all of them.
 * Errors: BELFRY_ERR_INVALID (no etcd in the session). */
BELFRY_API int belfry_request_progress(struct belfry *b);

/* The events of a batch, one after another; `after` NULL gives the first; NULL when there are no more. */
BELFRY_API const struct belfry_event *belfry_batch_next(const struct belfry_batch *batch,
                                                        const struct belfry_event *after);

/* ---- calls ---- */

struct belfry_member {
    uint64_t id;
    const char *name;
    const char *const *peer_urls, *const *client_urls; /* each ended by NULL */
    int is_learner;
}; /* may grow at its end */

struct belfry_status {
    const char *version;
    int64_t db_size, db_size_in_use;
    uint64_t leader, raft_index, raft_term, raft_applied_index;
    int is_learner;
    const char *const *errors; /* ended by NULL */
};                             /* may grow at its end */

struct belfry_reply {
    int err;
    const char *why; /* err set: a sentence with the endpoint and the server's words, of the last try and, when that was
                        something else, of the first; never NULL then */
    struct belfry_header header;
    size_t n_kvs;                       /* get: kvs; put and del with prev-kv: the previous ones. Empty for the rest */
    int64_t count;                      /* get: keys in the range, whatever the limit */
    int more;                           /* get: cut by the limit */
    int64_t deleted;                    /* del */
    int succeeded;                      /* txn: which branch ran */
    int64_t lease;                      /* leases: the id */
    int64_t ttl_s, granted_ttl_s;       /* leases: what is left, 0 or less: gone; and, lease_ttl, what was granted */
    const struct belfry_status *status; /* status only */
    const char *endpoint;               /* that answered, or was tried last; "" when none was */
};                                      /* may grow at its end */

/* Comes exactly once for every call that was not cancelled; the call is gone when it returns. */
typedef void (*belfry_reply_fn)(const struct belfry_reply *reply, void *user);

/* Each starts one request and returns; the reply comes to `fn`. `opts` and `out` may be NULL.
 *
 * Reads are tried again, elsewhere, until command-timeout. A write is never sent twice: it is tried again only when it
 * certainly did not reach a server, and otherwise fails with BELFRY_ERR_UNCERTAIN.
 * Errors: BELFRY_ERR_INVALID (an argument, an option that is not for it, no etcd in the session), BELFRY_ERR_LIMIT
 *         (10,000 calls under way), BELFRY_ERR_NOMEM, BELFRY_ERR_CANCELED (the session is being closed).
 * In the reply, besides: BELFRY_ERR_UNAVAILABLE, _TIMEOUT, _UNCERTAIN, _DENIED, _AUTH, _COMPACTED, _FUTURE, _NOT_FOUND,
 * _REFUSED, _TOO_LARGE, _UNSUPPORTED, _CLUSTER, _CANCELED, _PROTOCOL, _NOMEM. */
BELFRY_API int belfry_get(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts,
                          belfry_reply_fn fn, void *user, struct belfry_call **out);
BELFRY_API int belfry_put(struct belfry *b, struct belfry_bytes key, struct belfry_bytes value,
                          const struct belfry_opts *opts, belfry_reply_fn fn, void *user, struct belfry_call **out);
BELFRY_API int belfry_del(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts,
                          belfry_reply_fn fn, void *user, struct belfry_call **out);
BELFRY_API int belfry_compact(struct belfry *b, int64_t rev, const struct belfry_opts *opts, belfry_reply_fn fn,
                              void *user, struct belfry_call **out);
BELFRY_API int belfry_lease_grant(struct belfry *b, int64_t ttl_s, int64_t id, const struct belfry_opts *opts,
                                  belfry_reply_fn fn, void *user,
                                  struct belfry_call **out); /* id 0: the server chooses */
BELFRY_API int belfry_lease_revoke(struct belfry *b, int64_t id, const struct belfry_opts *opts, belfry_reply_fn fn,
                                   void *user, struct belfry_call **out);
BELFRY_API int belfry_lease_keepalive(struct belfry *b, int64_t id, const struct belfry_opts *opts, belfry_reply_fn fn,
                                      void *user, struct belfry_call **out); /* renews once */
BELFRY_API int belfry_lease_ttl(struct belfry *b, int64_t id, const struct belfry_opts *opts, belfry_reply_fn fn,
                                void *user, struct belfry_call **out);
BELFRY_API int belfry_lease_list(struct belfry *b, const struct belfry_opts *opts, belfry_reply_fn fn, void *user,
                                 struct belfry_call **out);
BELFRY_API int belfry_status(struct belfry *b, const struct belfry_opts *opts, belfry_reply_fn fn, void *user,
                             struct belfry_call **out);
BELFRY_API int belfry_member_list(struct belfry *b, const struct belfry_opts *opts, belfry_reply_fn fn, void *user,
                                  struct belfry_call **out);

/* No reply will come; what was sent may still happen. `call` is gone. Not when its reply has returned. NULL is fine. */
BELFRY_API void belfry_call_cancel(struct belfry_call *call);

/* What a reply holds, one after another; `after` NULL gives the first; NULL when there are no more.
 * Key-values come as puts, in the order of the server. */
BELFRY_API const struct belfry_event *belfry_reply_kv(const struct belfry_reply *reply,
                                                      const struct belfry_event *after);
BELFRY_API const struct belfry_member *belfry_reply_member(const struct belfry_reply *reply,
                                                           const struct belfry_member *after);
BELFRY_API const int64_t *belfry_reply_lease(const struct belfry_reply *reply, const int64_t *after);
BELFRY_API const struct belfry_bytes *belfry_reply_key(const struct belfry_reply *reply,
                                                       const struct belfry_bytes *after);
BELFRY_API const struct belfry_reply *belfry_reply_op(const struct belfry_reply *reply,
                                                      const struct belfry_reply *after);

/* ---- transactions ---- */

/* A transaction is put together in any order and may be sent more than once. A failed step is remembered and reported
 * by belfry_txn_commit(), so that the steps need no checks.
 *
 *     struct belfry_txn *t = belfry_txn_create();
 *     belfry_txn_if_mod_rev(t, key, '=', 0);              // the key does not exist
 *     belfry_txn_put(t, BELFRY_THEN, key, value, 0);
 *     err = belfry_txn_commit(b, t, NULL, on_reply, NULL, NULL);
 *     belfry_txn_free(t);
 */
enum belfry_branch { BELFRY_THEN, BELFRY_ELSE };
BELFRY_API struct belfry_txn *belfry_txn_create(void); /* the others take NULL: commit then says BELFRY_ERR_NOMEM */
BELFRY_API void belfry_txn_free(struct belfry_txn *txn);
/* `is` is one of '=' '!' '<' '>'; all conditions must hold for BELFRY_THEN. */
BELFRY_API void belfry_txn_if_version(struct belfry_txn *txn, struct belfry_bytes key, char is, int64_t version);
BELFRY_API void belfry_txn_if_create_rev(struct belfry_txn *txn, struct belfry_bytes key, char is, int64_t rev);
BELFRY_API void belfry_txn_if_mod_rev(struct belfry_txn *txn, struct belfry_bytes key, char is, int64_t rev);
BELFRY_API void belfry_txn_if_value(struct belfry_txn *txn, struct belfry_bytes key, char is,
                                    struct belfry_bytes value);
BELFRY_API void belfry_txn_if_lease(struct belfry_txn *txn, struct belfry_bytes key, char is, int64_t lease);
BELFRY_API void belfry_txn_put(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_bytes key,
                               struct belfry_bytes value, int64_t lease);
BELFRY_API void belfry_txn_del(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_range range);
BELFRY_API void belfry_txn_get(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_range range);
/* The same with the options of belfry_put(), belfry_del() and belfry_get(); "command-timeout" is the transaction's. */
BELFRY_API void belfry_txn_put_with(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_bytes key,
                                    struct belfry_bytes value, const struct belfry_opts *opts);
BELFRY_API void belfry_txn_del_with(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_range range,
                                    const struct belfry_opts *opts);
BELFRY_API void belfry_txn_get_with(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_range range,
                                    const struct belfry_opts *opts);
/* Errors, besides those of every call: the first that a step met: BELFRY_ERR_INVALID (a comparison, branch, range or
 * option that makes no sense), BELFRY_ERR_NOMEM. In the reply belfry_reply_op() walks the answers of the branch that
 * ran, each as if its step had been a call of its own. */
BELFRY_API int belfry_txn_commit(struct belfry *b, const struct belfry_txn *txn, const struct belfry_opts *opts,
                                 belfry_reply_fn fn, void *user, struct belfry_call **out);

/* "0.1.0". Thread: any. */
BELFRY_API const char *belfry_version(void);

#ifdef __cplusplus
}
#endif
#endif
