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
 * To keep a local copy that is always right, use an informer (belfry/informer.h); this is what it stands on: one
 * request, tried again while opening, whose stream ends when the server ends it.
 *
 * Thread, callbacks, memory and errors: as belfry/belfry.h says. HTTP/2 where TLS offers it, else HTTP/1.1. Certificate
 * and token files are read again when they change.
 */
#ifndef BELFRY_KUBE_H
#define BELFRY_KUBE_H

#include <belfry/belfry.h>
#include <belfry/object.h>

#ifdef __cplusplus
extern "C" {
#endif

struct belfry_kube;         /* one API server, and who we are to it */
struct belfry_kube_request; /* a get, list or watch under way */

/* Opens a client on the session. Where the server is and who we are comes from, in this order:
 *     the options server, cacert, cert, key, server-name, insecure-skip-tls-verify, token, token-file, which replace
 *     what the following say; a server given by option takes nothing else from a file;
 *     the option kubeconfig, a file; else the files in $KUBECONFIG; else ~/.kube/config, if it is there;
 *     else, inside a pod, its service account.
 * Further options:
 *
 *   context                   default: the file's current one
 *   namespace                 what belfry_kube_namespace() shall say, for you to use; default: the context's
 *   dial-timeout       2s     from resolving the server's name to being connected
 *   command-timeout    30s    for a get; for each page of a list, and for a watch, until its answer begins. All tries and
 *                             the waits between them are inside it: a try that would come later is not made. Once the
 *                             answer of a list has begun: the longest time without a byte of it. An informer tries again
 *                             by itself, and without end: there it is for each try. 0 is refused
 *   max-message        16MiB  one object; at least 64KiB
 *
 * Reads files, resolves and connects nothing: it never blocks. Logging in by a plug-in (exec, auth-provider) is refused.
 * A token is not sent over plain http but to loopback.
 * Errors: BELFRY_ERR_INVALID (what was wrong is in why[0, len), which may be NULL), BELFRY_ERR_TLS (a certificate cannot
 *         be used; likewise), BELFRY_ERR_NOT_FOUND (no server is named anywhere), BELFRY_ERR_NOMEM,
 *         BELFRY_ERR_CANCELED (the session is being closed). */
BELFRY_API int belfry_kube_open(struct belfry *b, const struct belfry_opts *opts, struct belfry_kube **out, char *why,
                                size_t len);

/* Ends every request and informer on it (BELFRY_KUBE_END, BELFRY_NEWS_END, with BELFRY_ERR_CANCELED) and frees it. NULL
 * is fine. Not from inside one of its own callbacks. belfry_close() does it too. */
BELFRY_API void belfry_kube_close(struct belfry_kube *k);

/* Its URL. Lent until the client is closed, as the next one. */
BELFRY_API const char *belfry_kube_server(const struct belfry_kube *k);

/* Of the context; "default" if it has none. Nothing uses it by itself: a resource names its own. */
BELFRY_API const char *belfry_kube_namespace(const struct belfry_kube *k);

/* Numbers since it was opened. */
struct belfry_kube_stats {
    uint64_t requests;      /* sent, tries included */
    uint64_t retries;       /* sent again: the server said when, or the connection broke before an answer */
    uint64_t connects;      /* connections made */
    uint64_t losses;        /* connections lost while something was under way */
    uint64_t events;        /* objects, bookmarks and errors given to callbacks */
    uint64_t decode_errors; /* streams that were no JSON or no events, and objects without a name, which are left out */
    uint64_t token_reads;   /* of the token file */
    uint64_t connections;   /* open now */
    uint64_t http2;         /* of them over HTTP/2 */
    uint64_t warnings;      /* the server sent, repeated ones included */
};                          /* may grow at its end */
BELFRY_API const struct belfry_kube_stats *belfry_kube_get_stats(struct belfry_kube *k); /* lent until the next call */

/* What the server warns of, in Warning fields of its answers: a deprecated API, for example. */
struct belfry_kube_warning {
    int code;           /* 299, as a rule */
    const char *text;   /* printable, UTF-8; cut after 511 bytes */
    const char *target; /* path and query of the request whose answer has it */
};                      /* may grow at its end */
typedef void (*belfry_kube_warning_fn)(struct belfry_kube *k, const struct belfry_kube_warning *warning, void *user);

/* From now on `fn` receives every text that this client has not seen before, once; `fn` NULL: none, which is the default.
 * The log (belfry_set_log(), event kube_warning) has the same lines. After 256 different texts the rest is dropped. */
BELFRY_API void belfry_kube_set_warning(struct belfry_kube *k, belfry_kube_warning_fn fn, void *user);

/* A kind of objects. Texts are copied by whatever takes it. */
struct belfry_resource {
    const char *group_version; /* "v1", "apps/v1" */
    const char *plural;        /* "pods" */
    const char *ns;            /* NULL: all namespaces, or a kind that has none */
};
BELFRY_API struct belfry_resource belfry_resource(const char *group_version, const char *plural, const char *ns);

enum belfry_kube_kind {
    BELFRY_KUBE_ITEM = 1, /* get: the object. list: one of them */
    BELFRY_KUBE_RESTART, /* list: it became too old between two pages and begins anew, whole: forget the items so far */
    BELFRY_KUBE_ADDED,   /* watch */
    BELFRY_KUBE_MODIFIED,
    BELFRY_KUBE_DELETED,  /* .object is its last state, with the resourceVersion of the deletion */
    BELFRY_KUBE_BOOKMARK, /* everything up to .version was given */
    BELFRY_KUBE_ERROR,    /* said in the stream, or the stream could not be read; END follows */
    BELFRY_KUBE_END       /* the last call: the request is gone when the callback returns */
};

struct belfry_kube_event {
    enum belfry_kube_kind kind;
    const struct belfry_object *object; /* ITEM, ADDED, MODIFIED, DELETED; else NULL */
    struct belfry_bytes version;        /* of the object; BOOKMARK: what it says; END of a list: the list's */
    int initial_end;    /* BOOKMARK: with it the state that was asked for ("send-initial") is complete */
    int err;            /* ERROR, END; see below */
    const char *why;    /* ERROR, END: a sentence; never NULL there. After several tries: of the last, and the first */
    int code;           /* ERROR, END: the HTTP status or the Status object's code; 0: none came */
    const char *reason; /* ERROR, END: of the Status object: "Expired"; "" when there was none */
    int64_t retry_after_ms; /* ERROR, END: what the server asked for; -1: nothing */
};                          /* may grow at its end */

/* END says with .err how it ended:
 *     BELFRY_OK              a get or list is complete; a watch was ended by the server in good order
 *     BELFRY_ERR_UNAVAILABLE the connection could not be made, or broke; or the server said 429 or 5xx to the last try
 *     BELFRY_ERR_RESOLVE, _TLS, _LIMIT   no connection: the name, a certificate, no descriptors are left
 *     BELFRY_ERR_COMPACTED   410: the resourceVersion is too old: list anew
 *     BELFRY_ERR_FUTURE      504: the resourceVersion is too new for this server
 *     BELFRY_ERR_AUTH, _DENIED, _NOT_FOUND, _REFUSED   401, 403, 404, any other 4xx
 *     BELFRY_ERR_TIMEOUT     nothing came in time
 *     BELFRY_ERR_PROTOCOL    what came is not what this is about (an ERROR told why)
 *     BELFRY_ERR_TOO_LARGE   an object is over "max-message"
 *     BELFRY_ERR_INVALID     selectors and token together are too long to be sent
 *     BELFRY_ERR_CANCELED, BELFRY_ERR_NOMEM
 * BELFRY_STOP ends the request without an END; BELFRY_PAUSE holds it until belfry_kube_resume(): the server waits. */
typedef enum belfry_next (*belfry_kube_fn)(struct belfry_kube_request *request, const struct belfry_kube_event *event,
                                           void *user);

/* Each starts one request and returns; events come to `fn`, the last is BELFRY_KUBE_END. `opts` and `out` may be NULL.
 *
 *   for all                command-timeout, metadata-only (flag: no spec and no status)
 *   for a list or a watch  selector, field-selector   as kubectl's
 *                          resource-version           "", "0" or one that was seen
 *                          resource-version-match     Exact or NotOlderThan
 *   for a list             chunk-size      500        objects a page; 0: all at once
 *   for a watch            bookmarks       true
 *                          send-initial    false      the state first, as ADDED, and a bookmark with .initial_end
 *                          watch-timeout   0s         that the server shall end it after; 0: as the server likes
 *
 * A request that the server answers with 429 or 5xx and a Retry-After, and one whose connection breaks before an
 * answer, is tried again, at most ten times and within command-timeout, the waits jittered. Nothing else is.
 * Errors: BELFRY_ERR_INVALID (no such option here; a name that cannot be one), BELFRY_ERR_LIMIT (10,000 requests under
 *         way), BELFRY_ERR_NOMEM, BELFRY_ERR_CANCELED (being closed). */
BELFRY_API int belfry_kube_get(struct belfry_kube *k, struct belfry_resource resource, const char *name,
                               const struct belfry_opts *opts, belfry_kube_fn fn, void *user,
                               struct belfry_kube_request **out);
BELFRY_API int belfry_kube_list(struct belfry_kube *k, struct belfry_resource resource, const struct belfry_opts *opts,
                                belfry_kube_fn fn, void *user, struct belfry_kube_request **out);
BELFRY_API int belfry_kube_watch(struct belfry_kube *k, struct belfry_resource resource, const struct belfry_opts *opts,
                                 belfry_kube_fn fn, void *user, struct belfry_kube_request **out);

/* After BELFRY_PAUSE: go on. Without a pause it does nothing. */
BELFRY_API void belfry_kube_resume(struct belfry_kube_request *request);

/* Any time, also inside its own callback: no callback comes after it, and the request is gone. NULL is fine. */
BELFRY_API void belfry_kube_cancel(struct belfry_kube_request *request);

#ifdef __cplusplus
}
#endif
#endif
