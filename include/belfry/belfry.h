/* belfry/belfry.h: follow keys in etcd, or a belfryd, from C. No threads, no printing; no state outside of sessions
 * except one sentence per thread (belfry_why()).
 *
 * A session (struct belfry) holds endpoints and credentials. It connects, fails over and reconnects by itself. Watches
 * (changes from a revision), follows (state first, then changes) and calls (get, put, txn, ...) run on a session. The
 * caller drives all of them through ONE descriptor in the program's own event loop, or through belfry_run():
 *
 *     struct belfry *b;
 *     int err = belfry_open("http://127.0.0.1:2379", NULL, &b);
 *     if (!err) err = belfry_follow_open(b, belfry_prefix("/services/"), NULL, on_batch, NULL, NULL);
 *     if (!err) err = belfry_run(b, -1);
 *
 * Thread:   owner. A session and everything on it belong to one thread at a time; different sessions are independent.
 * Callback: only from belfry_dispatch(), belfry_run() and belfry_close(), never from inside another call. A callback
 *           may call any function here, and may close its own watch or cancel its own call. It must not call
 *           belfry_close() on its own session.
 * Memory:   arguments of a callback are lent until it returns. Arguments of a function are copied. Structs that the
 *           library fills may grow at their end in later versions; never allocate or copy them by their size.
 * Errors:   functions returning int return 0 (BELFRY_OK) or a value of enum belfry_err. They write out parameters only
 *           on success. belfry_why() has a sentence about the failure.
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
struct belfry_watch; /* one range, watched or followed through faults of servers and connections */
struct belfry_call;  /* one request in progress */
struct belfry_opts;  /* a set of options; belfry_opts_set() lists them */
struct belfry_txn;   /* a transaction under construction */

/* ---- options ---- */

/* Sets one option; *opts NULL creates the set. Names are belfryctl's flags without the dashes; options for Kubernetes
 * have the names of kubectl's flags. Durations take a unit (500ms, 10s, 1m), sizes may have one (65536, 64KiB, 1MiB,
 * 1GB), flags take "true" or "false" (NULL is "true"). The value after a name is its default.
 *
 *   for belfry_open     cacert, cert, key        PEM files, used with https:// endpoints
 *                       server-name              the name that the server's certificate must carry (default: the host)
 *                       insecure-skip-tls-verify flag: accept any certificate; for tests only
 *                       user                     name, or name:password
 *                       password, password-file  the password, or a file whose first line it is, read at every log-in
 *                       dial-timeout    2s       for one endpoint: resolve its name and connect
 *                       command-timeout 5s       for one call, including all retries
 *                       keepalive-time  10s      send a ping this often while a watch or call is open; at least 10s
 *                       keepalive-timeout 5s     without an answer in this time, change to another endpoint
 *                       hasleader       true     leave a member that has no leader; false: stay. Serializable gets and
 *                                                transactions never need one
 *                       max-message     512MiB   at least 4MiB. A fragmented revision over this size ends its watch; a
 *                                                message over it (without "fragment") ends all watches of the session
 *   for a watch         rev             0        the first revision to watch; 0: changes from now on
 *                                                (belfry_watch_open() defines "now")
 *                       prev-kv, progress-notify flags
 *                       created-notify           flag: BELFRY_CREATED once, when the server has the watch
 *                       no-put, no-delete        flags: filters
 *                       fragment        true     let the server split responses over 32 MiB. The library joins them ...
 *                       unmerged        false    ... or, if true, passes on the parts of a revision (.part)
 *                       pause-bytes     1MiB     bytes that a paused watch may hold before it keeps only its revision
 *   for a follow        prev-kv, pause-bytes, page-bytes (1MiB), once (flag: end with BELFRY_OK when synced)
 *   for a get           rev, limit, keys-only, count-only, serializable, sort-by (key, version, create, mod, value),
 *                       order (ascend, descend), min-mod-rev, max-mod-rev, min-create-rev, max-create-rev
 *   for a put           lease (its id, in decimal digits, or by belfry_opts_set_int()), prev-kv, ignore-value,
 *                       ignore-lease
 *   for a del           prev-kv
 *   for a compact       physical
 *   for a lease_ttl     keys
 *   for every call      command-timeout
 *
 * Options for Kubernetes and informers, which belfry/kube.h and belfry/informer.h explain:
 *
 *   for belfry_kube_open    server, kubeconfig, context, namespace, token, token-file, cacert, cert, key, server-name,
 *                           insecure-skip-tls-verify, dial-timeout, command-timeout, max-message
 *   for belfry_kube_get     command-timeout, metadata-only
 *   for belfry_kube_list    as for get, and selector, field-selector, resource-version, resource-version-match,
 *                           chunk-size
 *   for belfry_kube_watch   as for list without chunk-size, and bookmarks, send-initial, watch-timeout
 *   for an informer         resync, max-bytes; on keys page-bytes; on a resource selector, field-selector,
 *                           metadata-only, chunk-size, watch-list, watch-timeout
 *   for belfry_informer_add resync
 *
 * Errors: BELFRY_ERR_INVALID (unknown name, or bad value: belfry_opts_why() says which, and what is valid),
 *         BELFRY_ERR_NOMEM. */
BELFRY_API int belfry_opts_set(struct belfry_opts **opts, const char *name, const char *value);

/* Sets an option to a number: a count or an id ("limit", "rev", "lease"), a duration in milliseconds, a size in bytes,
 * or a flag (0 or 1). Errors as for belfry_opts_set().
 *
 *     err = belfry_opts_set_int(&opts, "lease", belfry_lease_id(lease));
 */
BELFRY_API int belfry_opts_set_int(struct belfry_opts **opts, const char *name, int64_t number);

/* A sentence about the last failure of belfry_opts_set(), or about the option for which a call with these options
 * returned BELFRY_ERR_INVALID. "" when there was none. `opts` may be NULL. belfry_why() has the same sentence. */
BELFRY_API const char *belfry_opts_why(const struct belfry_opts *opts);

/* `opts` may be NULL, as for free(). Free options any time after the call that took them has returned. */
BELFRY_API void belfry_opts_free(struct belfry_opts *opts);

/* ---- a session ---- */

/* Opens a session on `endpoints`, separated by commas: host:port, http://host:port, https://host:port, unix:///path.
 * It reads the certificate files, but resolves and connects nothing, so it never blocks. The session connects when
 * first needed. Each session shuffles its endpoints, so that many clients spread over the members.
 * `endpoints` NULL opens a session without etcd, only for Kubernetes clients (belfry/kube.h).
 * Errors: BELFRY_ERR_INVALID (a bad endpoint or option), BELFRY_ERR_TLS (a file cannot be used),
 *         BELFRY_ERR_LIMIT (no descriptors left), BELFRY_ERR_NOMEM. */
BELFRY_API int belfry_open(const char *endpoints, const struct belfry_opts *opts, struct belfry **out);

/* A sentence about the last call on `b` that returned an error: which option, which file, which range. With `b` NULL it
 * is about this thread's last failed belfry_open(), belfry_opts_set() or belfry_opts_set_int(), which have no session.
 * "" before the first failure. Lent until the next call.
 *
 *     if (belfry_open(endpoints, opts, &b) != BELFRY_OK)
 *         fprintf(stderr, "%s\n", belfry_why(NULL));
 *
 * Failures that come later arrive in a callback, with a sentence in .why. */
BELFRY_API const char *belfry_why(const struct belfry *b);

/* belfry_open(). On failure it also stores the sentence of belfry_why(NULL) in why[0, len). */
BELFRY_API int belfry_open_why(const char *endpoints, const struct belfry_opts *opts, struct belfry **out, char *why,
                               size_t len);

/* Ends everything on the session and frees it: each watch receives BELFRY_END, and each call its reply, with
 * BELFRY_ERR_CANCELED. `b` may be NULL. Do not call it from a callback of the session. */
BELFRY_API void belfry_close(struct belfry *b);

/* ONE descriptor for the life of the session. Readable means that belfry_dispatch() has work, timers included; an idle
 * session does not make it readable. Poll it level-triggered. Never read or close it. */
BELFRY_API int belfry_fd(const struct belfry *b);

/* Does the work that is due, calls back, never blocks. Errors: BELFRY_ERR_IO (the event loop itself failed). */
BELFRY_API int belfry_dispatch(struct belfry *b);

/* Waits and dispatches until `timeout_ms` have passed (-1: no limit), belfry_stop() was called, or nothing is left on
 * the session. Errors: BELFRY_ERR_TIMEOUT (the time passed; nothing has failed, and a further call goes on),
 * BELFRY_ERR_IO. */
BELFRY_API int belfry_run(struct belfry *b, int timeout_ms);

/* Makes belfry_run() return BELFRY_OK. If none is running, the next one returns immediately. Callable from a callback,
 * from any thread and from a signal handler: it is async-signal-safe and preserves errno. The session must not be
 * closed at the same time: restore the old signal handler before belfry_close(). */
BELFRY_API void belfry_stop(struct belfry *b);

enum belfry_level { BELFRY_ERROR, BELFRY_WARN, BELFRY_INFO, BELFRY_DEBUG };

/* Reports what the session does: one event name and key=value text per line. `fn` NULL, the default: no log. */
typedef void (*belfry_log_fn)(enum belfry_level level, const char *event, const char *text, void *user);
BELFRY_API void belfry_set_log(struct belfry *b, enum belfry_level level, belfry_log_fn fn, void *user);

/* Counters since the session was opened. */
struct belfry_stats {
    uint64_t connects;     /* connections made */
    uint64_t losses;       /* connections lost */
    uint64_t resumes;      /* watches created again after a lost connection */
    uint64_t creates;      /* watches created, resumes included */
    uint64_t parked;       /* times a paused watch was canceled upstream and kept only its revision */
    uint64_t lists;        /* times a follow read the state */
    uint64_t events;       /* events given to callbacks */
    uint64_t stale_events; /* repeated events, dropped (old servers may repeat) */
    uint64_t held_bytes;   /* bytes held now for paused watches and incomplete revisions */
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
/* For keys that are C strings. The strings must live until a call takes the range. */
BELFRY_API struct belfry_range belfry_key(const char *key);
BELFRY_API struct belfry_range belfry_prefix(const char *prefix);
BELFRY_API struct belfry_range belfry_from(const char *key);
BELFRY_API struct belfry_range belfry_interval(const char *key, const char *end);
/* For keys of any bytes, zero bytes included. For other ranges of such keys fill the struct. */
BELFRY_API struct belfry_range belfry_key_bytes(const void *key, size_t len);
BELFRY_API struct belfry_range belfry_prefix_bytes(const void *prefix, size_t len);

/* ---- watch and follow ---- */

enum belfry_op { BELFRY_PUT = 1, BELFRY_DELETE };

struct belfry_event {
    enum belfry_op op;
    struct belfry_bytes key, value, prev;        /* prev.data NULL: none (not asked for, created, or compacted) */
    int64_t create_rev, mod_rev, version, lease; /* a delete has only mod_rev */
    int64_t prev_create_rev, prev_mod_rev;       /* valid when prev.data is not NULL */
    int64_t prev_version, prev_lease;            /* also */
    struct belfry_bytes raw;                     /* as received: an mvccpb.Event, or a KeyValue in listed state */
};                                               /* may grow at its end */

struct belfry_header { /* of the server's response */
    uint64_t cluster_id, member_id, raft_term;
    int64_t revision; /* the server's current one: do NOT resume there; use .rev of the batch */
};

enum belfry_kind {
    BELFRY_CHANGES = 1, /* one complete revision */
    BELFRY_STATE,       /* part of the state: puts; after lost history also deletes of vanished keys. Follow only */
    BELFRY_SYNCED,      /* the state is complete at .rev; every later CHANGES is one complete revision. Follow only */
    BELFRY_PROGRESS,    /* you have received everything up to .rev */
    BELFRY_LINK,        /* for a status line: .why = "connected to ...", "no endpoint answers: ..."; needs no action */
    BELFRY_END,         /* the last callback: .err and .why; the watch is freed when it returns */
    BELFRY_CREATED      /* "created-notify": the watch starts at .rev + 1, so it receives every later write */
};

struct belfry_batch {
    enum belfry_kind kind;
    int64_t rev; /* resume at rev + 1, on any member, replica or tier */
    size_t n_events;
    int err;                     /* BELFRY_END; BELFRY_LINK: 0 when connected */
    const char *why;             /* BELFRY_LINK, BELFRY_END: a sentence, never NULL there; else NULL */
    int64_t compact_rev;         /* END with BELFRY_ERR_COMPACTED: the server has nothing before this revision */
    int part;                    /* "unmerged" only: 1 when more of this revision follows in the next batch */
    int last;                    /* 1 when nothing more of the same server response follows */
    struct belfry_header header; /* zeroes in LINK, and in an END that no server sent */
};                               /* may grow at its end */

enum belfry_next {
    BELFRY_MORE = 0, /* go on */
    BELFRY_PAUSE,    /* no callback except END until belfry_watch_resume(); this batch counts as delivered */
    BELFRY_STOP      /* close the watch, like belfry_watch_close() */
};

typedef enum belfry_next (*belfry_batch_fn)(struct belfry_watch *w, const struct belfry_batch *batch, void *user);

/* Watches `range`: every change from revision "rev" on, or from now on. Each revision comes complete, in order and
 * once, through faults of servers and connections. The watch ends (BELFRY_END) only for faults that the session cannot
 * repair:
 *     BELFRY_ERR_COMPACTED    the next revision is gone from history (.compact_rev): read the state, or use a follow
 *     BELFRY_ERR_REWOUND      the cluster was restored from an older backup: likewise
 *     BELFRY_ERR_CLUSTER      every endpoint now belongs to another cluster
 *     BELFRY_ERR_DENIED, BELFRY_ERR_AUTH   rights or credentials
 *     BELFRY_ERR_REFUSED      the server rejects this range; .why has its message
 *     BELFRY_ERR_TOO_LARGE    a revision or a message is over "max-message"
 *     BELFRY_ERR_UNSUPPORTED  the servers are not etcd
 *     BELFRY_ERR_CANCELED     belfry_close()
 * When a server ends the stream that carries the watches, its gRPC status decides what happens to all of them:
 *     0, 1, 4, 8, 10, 13, 14  the session resumes them on the next endpoint, and retries without limit; waits between
 *                             tries grow to 3 s. Status 8 ends them if a message is over "max-message" (TOO_LARGE)
 *     2, 6, 9, 11, 15, and numbers unknown to gRPC   likewise, but the eleventh in a row ends the watches (REFUSED). If
 *                             any server has served before, the row must also be a minute long. A stream that has
 *                             served for a second, or another status, starts a new count
 *     5, 12                   end them if every endpoint says so and none has ever served (UNSUPPORTED); else as 14
 *     3, 7, 16                end them immediately (REFUSED, DENIED, AUTH). A rejected token is renewed 5 times first
 * A lost connection, and a proxy's HTTP status in place of a gRPC status, count as 14; but HTTP 401 counts as 16, 403
 * as 7 and 404 as 12.
 *
 * Without "rev", the watch starts after the store's current revision, which the session reads (linearizably) in a
 * dispatch after this call, as soon as it reaches a server. The watch does not see earlier writes. So a program that
 * opens a watch, writes elsewhere (on another session, in another process) and expects to see that write should set
 * "created-notify" and write after BELFRY_CREATED. BELFRY_CREATED comes once, before the watch's first changes, also
 * when "rev" is set. It does not come again after a lost connection, because the watch continues where it was.
 *
 * A watch closed with belfry_watch_close() or BELFRY_STOP receives no BELFRY_END.
 * `opts` and `out` may be NULL.
 * Errors: BELFRY_ERR_INVALID (empty interval, option not for a watch, session without etcd), BELFRY_ERR_NOMEM,
 *         BELFRY_ERR_CANCELED (the session is being closed). */
BELFRY_API int belfry_watch_open(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts,
                                 belfry_batch_fn fn, void *user, struct belfry_watch **out);

/* Follows `range`: BELFRY_STATE slices, BELFRY_SYNCED, then BELFRY_CHANGES indefinitely. Apply every batch in the order
 * received (puts set, deletes remove), and your copy equals the server's state at BELFRY_SYNCED and each later batch.
 * During a long listing, changes may come between the slices. When history is lost (compaction while disconnected, a
 * restored backup), the follow lists the state again, with deletes for vanished keys, and then sends BELFRY_SYNCED
 * again; the caller needs no special code. A follow keeps the keys, not the values, in memory. It ends with the same
 * errors as a watch, except COMPACTED and REWOUND, and also with NOMEM (its keys do not fit) and PROTOCOL (a page
 * cannot be read). The errors returned are those of belfry_watch_open().
 *
 * If a compaction overtakes the listing on a server that belfry_request_progress() does not ask, BELFRY_SYNCED waits
 * for the next change in the range or for the server's periodic progress (by default every 10 minutes). */
BELFRY_API int belfry_follow_open(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts,
                                  belfry_batch_fn fn, void *user, struct belfry_watch **out);

/* Continues after BELFRY_PAUSE; otherwise it does nothing. A long pause costs other watches and the server nothing: the
 * watch then keeps only its revision ("pause-bytes"). */
BELFRY_API void belfry_watch_resume(struct belfry_watch *w);

/* Ends the watch and frees `w`. No callback comes after it. May be called any time, also in the watch's own callback.
 * `w` may be NULL. */
BELFRY_API void belfry_watch_close(struct belfry_watch *w);

/* Asks the server for progress: each watch that has received everything up to some revision gets BELFRY_PROGRESS when
 * the server can tell. The session repeats the request every second until it is answered. Never wait for the answer
 * without a timer of your own.
 * The session does not ask servers whose answer may overtake events: etcd before 3.4.25, from 3.5.0 to 3.5.7, and
 * servers that do not report their version. On such a member the function has no effect, and the log says so
 * (progress_not_asked); it takes effect when the session moves to another member. "progress-notify" works with all.
 * Errors: BELFRY_ERR_INVALID (session without etcd). */
BELFRY_API int belfry_request_progress(struct belfry *b);

/* Walks the events of a batch: `after` NULL gives the first; the result is NULL after the last. */
BELFRY_API const struct belfry_event *belfry_batch_next(const struct belfry_batch *batch,
                                                        const struct belfry_event *after);

/* ---- calls ---- */

struct belfry_member {
    uint64_t id;
    const char *name;
    const char *const *peer_urls, *const *client_urls; /* each list ends with NULL */
    int is_learner;
}; /* may grow at its end */

struct belfry_status {
    const char *version;
    int64_t db_size, db_size_in_use;
    uint64_t leader, raft_index, raft_term, raft_applied_index;
    int is_learner;
    const char *const *errors; /* the list ends with NULL */
};                             /* may grow at its end */

struct belfry_reply {
    int err;
    const char *why; /* if err is set: a sentence with the endpoint and the server's words, of the last try and, if it
                        differs, the first; then never NULL */
    struct belfry_header header;
    size_t n_kvs;                       /* get: kvs; put and del with prev-kv: the previous ones; else 0 */
    int64_t count;                      /* get: keys in the range, whatever the limit */
    int more;                           /* get: the limit cut the result */
    int64_t deleted;                    /* del */
    int succeeded;                      /* txn: 1 if BELFRY_THEN ran */
    int64_t lease;                      /* leases: the id */
    int64_t ttl_s, granted_ttl_s;       /* leases: time left (0 or less: expired); lease_ttl: time granted */
    const struct belfry_status *status; /* belfry_status() only */
    const char *endpoint;               /* the one that answered, or was tried last; "" if none */
};                                      /* may grow at its end */

/* Called exactly once for every call that was not canceled. The call is freed when it returns. */
typedef void (*belfry_reply_fn)(const struct belfry_reply *reply, void *user);

/* Each function starts one request and returns; `fn` receives the reply. `opts` and `out` may be NULL.
 *
 * Reads are retried on other endpoints until command-timeout. A write is never sent twice: it is retried only if it
 * certainly did not reach a server, and otherwise fails with BELFRY_ERR_UNCERTAIN.
 * Errors: BELFRY_ERR_INVALID (a bad argument, an option that is not for it, session without etcd), BELFRY_ERR_LIMIT
 *         (10,000 calls in progress), BELFRY_ERR_NOMEM, BELFRY_ERR_CANCELED (the session is being closed).
 * Further errors in the reply: BELFRY_ERR_UNAVAILABLE, _TIMEOUT, _UNCERTAIN, _DENIED, _AUTH, _COMPACTED, _FUTURE,
 * _NOT_FOUND, _REFUSED, _TOO_LARGE, _UNSUPPORTED, _CLUSTER, _CANCELED, _PROTOCOL, _NOMEM. */
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

/* Frees `call`; no reply comes. A request that was already sent may still take effect. Do not call it after the reply
 * callback has returned. `call` may be NULL. */
BELFRY_API void belfry_call_cancel(struct belfry_call *call);

/* Walk the parts of a reply: `after` NULL gives the first; the result is NULL after the last.
 * Key-values come as puts, in the server's order. */
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

/* Add conditions and operations in any order; a transaction may be sent more than once. belfry_txn_commit() reports the
 * first failed step, so the steps need no checks.
 *
 *     struct belfry_txn *t = belfry_txn_create();
 *     belfry_txn_if_mod_rev(t, key, '=', 0);              // the key does not exist
 *     belfry_txn_put(t, BELFRY_THEN, key, value, 0);
 *     err = belfry_txn_commit(b, t, NULL, on_reply, NULL, NULL);
 *     belfry_txn_free(t);
 */
enum belfry_branch { BELFRY_THEN, BELFRY_ELSE };
BELFRY_API struct belfry_txn *belfry_txn_create(void); /* NULL is allowed below: commit then returns BELFRY_ERR_NOMEM */
BELFRY_API void belfry_txn_free(struct belfry_txn *txn);
/* `is` is one of '=' '!' '<' '>'; BELFRY_THEN runs if all conditions hold, else BELFRY_ELSE. */
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
/* The same with the options of belfry_put(), belfry_del() and belfry_get(). Set "command-timeout" on the commit. */
BELFRY_API void belfry_txn_put_with(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_bytes key,
                                    struct belfry_bytes value, const struct belfry_opts *opts);
BELFRY_API void belfry_txn_del_with(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_range range,
                                    const struct belfry_opts *opts);
BELFRY_API void belfry_txn_get_with(struct belfry_txn *txn, enum belfry_branch branch, struct belfry_range range,
                                    const struct belfry_opts *opts);
/* Errors: those of every call, and the first that a step met: BELFRY_ERR_INVALID (a bad comparison, branch, range or
 * option), BELFRY_ERR_NOMEM. In the reply, belfry_reply_op() walks the answers of the branch that ran, each as if its
 * step had been a call of its own. */
BELFRY_API int belfry_txn_commit(struct belfry *b, const struct belfry_txn *txn, const struct belfry_opts *opts,
                                 belfry_reply_fn fn, void *user, struct belfry_call **out);

/* The library's version, such as "0.3.0". Thread: any. */
BELFRY_API const char *belfry_version(void);

#ifdef __cplusplus
}
#endif
#endif
