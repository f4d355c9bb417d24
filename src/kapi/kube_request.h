/* src/kapi/kube_request.h
 *
 * request: one get, list or watch in progress: sent, retried where the rules allow it, decoded, a list page by page.
 *
 *     RESTING --(retry, next page)--> SENT --200--> BODY --end--> RESTING, or over
 *                 ^                    |
 *                 |                    `--another status--> REFUSAL (its body is read) --> RESTING, or over
 *                 `--------------------------'
 *
 * Thread: owner (the loop's). Hooks are called only from the loop.
 */
#ifndef BELFRY_KAPI_KUBE_REQUEST_H
#define BELFRY_KAPI_KUBE_REQUEST_H

#include <belfry/kube.h>

#include "kapi/decoder.h"
#include "kapi/retry.h"
#include "kapi/target.h"

struct belfry_ended {
    const struct belfry_failure *failure; /* err BELFRY_OK: success */
    enum belfry_broke broke;
    const char *version; /* of a list; otherwise "" */
};

struct belfry_request_hooks {
    /* ITEM to ERROR; PAGE is not passed on. The object is lent. */
    enum belfry_next (*decoded)(struct belfry_kube_request *request, const struct belfry_decoded *decoded, void *user);
    /* A list starts again: discard its items so far. */
    enum belfry_next (*restart)(struct belfry_kube_request *request, void *user);
    /* For a status line: the stream has begun (200), or it failed and will be sent again. May be NULL. */
    void (*opened)(struct belfry_kube_request *request, void *user);
    void (*retrying)(struct belfry_kube_request *request, const struct belfry_failure *failure, void *user);
    /* The last call, unless the request was canceled or stopped; the request is freed when it returns. */
    void (*ended)(struct belfry_kube_request *request, const struct belfry_ended *ended, void *user);
    /* In every case: no hook is on the stack, and `user` is not used any more. May be NULL. */
    void (*gone)(void *user);
};

struct belfry_request_ask {
    enum belfry_decoder_mode mode;
    struct belfry_target target; /* its texts are copied */
    bool metadata_only;
    uint32_t timeout_ms;
    /* True: timeout_ms bounds a get, or the time until a page or a watch begins, including all retries. False: it
     * bounds each try, for callers that retry themselves and wait as long as the server says. */
    bool bounded;
    uint64_t link; /* of another request of this client: on the same connection, if it can be; 0: on any */
};

/* Errors: BELFRY_ERR_INVALID (the target), BELFRY_ERR_LIMIT, BELFRY_ERR_NOMEM, BELFRY_ERR_CANCELED. */
BELFRY_NODISCARD enum belfry_err belfry_request_open(struct belfry_kube *k, const struct belfry_request_ask *ask,
                                                     const struct belfry_request_hooks *hooks, void *user,
                                                     struct belfry_kube_request **out);

/* In `opened` and `decoded`: the link on which this page or watch comes (kapi/api_calls.h). */
uint64_t belfry_request_link(const struct belfry_kube_request *request);

/* Pauses the hooks until belfry_kube_resume(). May also be called outside of a hook. */
void belfry_request_pause(struct belfry_kube_request *request);

/* belfry_kube_cancel() and belfry_kube_resume() are implemented here. */

/* The request in belfry_kube.requests. */
struct belfry_list;
struct belfry_kube_request *belfry_request_of_node(struct belfry_list *node);

/* For belfry_kube_close(): ends the request with `err`. */
void belfry_request_end(struct belfry_kube_request *request, enum belfry_err err, const char *why);

#endif
