/* belfry/kube.h: get, list and watch objects of a Kubernetes API server, or of a belfryd that serves as one.
 *
 *     struct belfry *b;
 *     struct belfry_kube *k;
 *     char why[256];
 *     int err = belfry_open(NULL, NULL, &b);                             // a session; no etcd is needed
 *     if (!err) err = belfry_kube_open(b, NULL, &k, why, sizeof(why));   // as kubectl would find the server
 *     if (!err) err = belfry_kube_list(k, belfry_resource("v1", "pods", "default"), NULL, on_event, NULL, NULL);
 *     if (!err) err = belfry_run(b, -1);
 *
 * To keep a consistent local copy, use an informer (belfry/informer.h). This header is the layer below it: one request,
 * which is retried until its answer begins, and whose stream ends when the server ends it.
 *
 * Thread, callbacks, memory and errors: as belfry/belfry.h says. The client uses HTTP/2 if TLS offers it, otherwise
 * HTTP/1.1. It reads certificate and token files again when they change.
 */
#ifndef BELFRY_KUBE_H
#define BELFRY_KUBE_H

#include <belfry/belfry.h>
#include <belfry/object.h>

#ifdef __cplusplus
extern "C" {
#endif

struct belfry_kube;         /* one API server, and our credentials there */
struct belfry_kube_request; /* a get, list or watch in progress */

/* Opens a client on the session. Server and credentials come from:
 *     the option kubeconfig (a file), if set; else the files in $KUBECONFIG, if set; else ~/.kube/config, if it exists;
 *     else, inside a pod, its service account.
 * The options server, cacert, cert, key, server-name, insecure-skip-tls-verify, token and token-file replace single
 * values of that. With the option server, nothing else is taken from a file.
 * Further options:
 *
 *   context                   default: the file's current context
 *   namespace                 the result of belfry_kube_namespace(), for the caller's use; default: the context's
 *   dial-timeout       2s     to resolve the server's name and connect
 *   command-timeout    30s    for a get; for each page of a list, and for a watch, until the answer begins. It includes
 *                             all retries and the waits between them: a retry that would come later is not made. After
 *                             a list's answer has begun, it is the longest time without a byte. An informer retries
 *                             by itself, without limit; there it applies to each try. 0 is rejected
 *   max-message        16MiB  limit for one object; at least 64KiB
 *
 * It reads files, but resolves and connects nothing, so it never blocks. It rejects log-in plug-ins (exec,
 * auth-provider). It sends a token over plain http only to loopback.
 * Errors: BELFRY_ERR_INVALID (why[0, len) holds the cause; `why` may be NULL), BELFRY_ERR_TLS (a certificate cannot be
 *         used; likewise), BELFRY_ERR_NOT_FOUND (no server is configured), BELFRY_ERR_NOMEM,
 *         BELFRY_ERR_CANCELED (the session is being closed). */
BELFRY_API int belfry_kube_open(struct belfry *b, const struct belfry_opts *opts, struct belfry_kube **out, char *why,
                                size_t len);

/* Ends every request and informer on the client (BELFRY_KUBE_END, BELFRY_NEWS_END, with BELFRY_ERR_CANCELED) and frees
 * it. `k` may be NULL. Do not call it from a callback of this client. belfry_close() also does this. */
BELFRY_API void belfry_kube_close(struct belfry_kube *k);

/* The server's URL. This string, and the one below, are lent until the client is closed. */
BELFRY_API const char *belfry_kube_server(const struct belfry_kube *k);

/* The context's namespace; "default" if it has none. Only for the caller's use: each resource names its own. */
BELFRY_API const char *belfry_kube_namespace(const struct belfry_kube *k);

/* Counters since the client was opened. */
struct belfry_kube_stats {
    uint64_t requests;      /* sent, retries included */
    uint64_t retries;       /* sent again: the server said when, or the connection broke before the answer */
    uint64_t connects;      /* connections made */
    uint64_t losses;        /* connections lost during a request */
    uint64_t events;        /* objects, bookmarks and errors given to callbacks */
    uint64_t decode_errors; /* streams that are not JSON or not events; objects without a name, which are skipped */
    uint64_t token_reads;   /* reads of the token file */
    uint64_t connections;   /* open now */
    uint64_t http2;         /* connections open now that use HTTP/2 */
    uint64_t warnings;      /* warnings from the server, repeated ones included */
};                          /* may grow at its end */
BELFRY_API const struct belfry_kube_stats *belfry_kube_get_stats(struct belfry_kube *k); /* lent until the next call */

/* A warning in a Warning field of the server's answer, for example about a deprecated API. */
struct belfry_kube_warning {
    int code;           /* usually 299 */
    const char *text;   /* printable, UTF-8; cut after 511 bytes */
    const char *target; /* path and query of the request */
};                      /* may grow at its end */
typedef void (*belfry_kube_warning_fn)(struct belfry_kube *k, const struct belfry_kube_warning *warning, void *user);

/* From now on `fn` receives each warning text once per client; `fn` NULL, the default: none. The log has the same lines
 * (belfry_set_log(), event kube_warning). After 256 different texts, further ones are dropped. */
BELFRY_API void belfry_kube_set_warning(struct belfry_kube *k, belfry_kube_warning_fn fn, void *user);

/* A kind of objects. Functions that take it copy its strings. */
struct belfry_resource {
    const char *group_version; /* "v1", "apps/v1" */
    const char *plural;        /* "pods" */
    const char *ns;            /* NULL: all namespaces, or a kind that has none */
};
BELFRY_API struct belfry_resource belfry_resource(const char *group_version, const char *plural, const char *ns);

enum belfry_kube_kind {
    BELFRY_KUBE_ITEM = 1, /* get: the object. list: one of them */
    BELFRY_KUBE_RESTART,  /* list: expired between two pages and starts again: discard all items so far */
    BELFRY_KUBE_ADDED,    /* watch */
    BELFRY_KUBE_MODIFIED,
    BELFRY_KUBE_DELETED,  /* .object is its last state, with the resourceVersion of the deletion */
    BELFRY_KUBE_BOOKMARK, /* you have received everything up to .version */
    BELFRY_KUBE_ERROR,    /* sent in the stream, or the stream is malformed; END follows */
    BELFRY_KUBE_END       /* the last callback: the request is freed when it returns */
};

struct belfry_kube_event {
    enum belfry_kube_kind kind;
    const struct belfry_object *object; /* ITEM, ADDED, MODIFIED, DELETED; else NULL */
    struct belfry_bytes version;        /* of the object; BOOKMARK: its own; END of a list: the list's */
    int initial_end;                    /* BOOKMARK: the initial state ("send-initial") is now complete */
    int err;                            /* ERROR, END; see below */
    const char *why;        /* ERROR, END: a sentence, never NULL there. After retries: of the last and the first try */
    int code;               /* ERROR, END: the HTTP status or the Status object's code; 0: none */
    const char *reason;     /* ERROR, END: the Status object's, such as "Expired"; "" if none */
    int64_t retry_after_ms; /* ERROR, END: the server's Retry-After; -1: none */
};                          /* may grow at its end */

/* .err of END says how the request ended:
 *     BELFRY_OK              a get or list is complete; the server ended a watch normally
 *     BELFRY_ERR_UNAVAILABLE connecting failed, the connection broke, or the last try was answered with 429 or 5xx
 *     BELFRY_ERR_RESOLVE, _TLS, _LIMIT   no connection because of the name, a certificate, or a lack of descriptors
 *     BELFRY_ERR_COMPACTED   410: the resourceVersion is too old: list again
 *     BELFRY_ERR_FUTURE      504: the resourceVersion is too new for this server
 *     BELFRY_ERR_AUTH, _DENIED, _NOT_FOUND, _REFUSED   401, 403, 404, any other 4xx
 *     BELFRY_ERR_TIMEOUT     no answer in time
 *     BELFRY_ERR_PROTOCOL    the answer is malformed (an ERROR before END has the details)
 *     BELFRY_ERR_TOO_LARGE   an object is over "max-message"
 *     BELFRY_ERR_INVALID     selectors and token together are too long to send
 *     BELFRY_ERR_CANCELED, BELFRY_ERR_NOMEM
 * BELFRY_STOP ends the request without an END. BELFRY_PAUSE pauses it until belfry_kube_resume(); the server waits. */
typedef enum belfry_next (*belfry_kube_fn)(struct belfry_kube_request *request, const struct belfry_kube_event *event,
                                           void *user);

/* Each function starts one request and returns. `fn` receives events; the last is BELFRY_KUBE_END. `opts` and `out` may
 * be NULL.
 *
 *   for all                command-timeout, metadata-only (flag: without spec and status)
 *   for a list or a watch  selector, field-selector   as for kubectl
 *                          resource-version           "", "0" or one received before
 *                          resource-version-match     Exact or NotOlderThan
 *   for a list             chunk-size      500        objects per page; 0: all in one page
 *   for a watch            bookmarks       true
 *                          send-initial    false      first the state, as ADDED, then a bookmark with .initial_end
 *                          watch-timeout   0s         the server ends the watch after this time; 0: when it likes
 *
 * A request is retried if the server answers with 429 or 5xx and a Retry-After, or if the connection breaks before the
 * answer: at most ten times and within command-timeout, with jittered waits. No other failure is retried.
 * Errors: BELFRY_ERR_INVALID (no such option here; an invalid name), BELFRY_ERR_LIMIT (10,000 requests in progress),
 *         BELFRY_ERR_NOMEM, BELFRY_ERR_CANCELED (being closed). */
BELFRY_API int belfry_kube_get(struct belfry_kube *k, struct belfry_resource resource, const char *name,
                               const struct belfry_opts *opts, belfry_kube_fn fn, void *user,
                               struct belfry_kube_request **out);
BELFRY_API int belfry_kube_list(struct belfry_kube *k, struct belfry_resource resource, const struct belfry_opts *opts,
                                belfry_kube_fn fn, void *user, struct belfry_kube_request **out);
BELFRY_API int belfry_kube_watch(struct belfry_kube *k, struct belfry_resource resource, const struct belfry_opts *opts,
                                 belfry_kube_fn fn, void *user, struct belfry_kube_request **out);

/* Continues after BELFRY_PAUSE; otherwise it does nothing. */
BELFRY_API void belfry_kube_resume(struct belfry_kube_request *request);

/* Ends the request and frees it; no callback comes after it. May be called any time, also in its own callback. NULL is
 * fine. */
BELFRY_API void belfry_kube_cancel(struct belfry_kube_request *request);

#ifdef __cplusplus
}
#endif
#endif
