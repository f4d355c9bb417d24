/* src/serve/kube/kube_ask.h
 *
 * kube_ask: a request about a resource, read and checked: what it asks for, of which keys, in which form. Everything
 * that can be wrong with a request is found here, before it waits for anything.
 *
 * Thread: owner. Pure.
 * Memory: one allocation, its options, its selector, its range and its subject; `bytes` is their sum.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_ASK_H
#define BELFRY_SERVE_KUBE_KUBE_ASK_H

#include "base/buf.h"
#include "kube/render.h"
#include "kube/request.h"
#include "kube/selector.h"
#include "serve/kube/kube_state.h"
#include "serve/rights/permit.h"

struct kube_ask {
    const struct kube_resource *resource; /* a reference */
    const struct kube_version *version;
    struct kube_selector *selector; /* a reference; NULL: everything */
    enum kube_verb verb;
    enum kube_view view;
    bool gzip, head_only;
    struct kube_list_plan list;   /* GET, LIST */
    struct kube_watch_plan watch; /* WATCH */
    struct kube_options options;
    struct belfry_buf key, end; /* the range as the core reads it; an empty end: one key */
    struct belfry_buf subject;  /* KUBE_RIGHTS_REVIEW: what permit is asked about */
    bool filter;                /* the range has objects of other namespaces */
    size_t bytes;
    struct belfry_bytes namespace, name; /* of the path, or pinned by the selector; this and the rest: in `text` */
    struct identity who;
    const char *client; /* user-agent, cut to 63 bytes */
    char text[];
};

/* Reads a request for a resource within `scope`; its verb is never KUBE_VERB_WRITE. Errors: BELFRY_ERR_INVALID and
 * BELFRY_ERR_NOMEM, with the answer in *status. */
BELFRY_NODISCARD enum belfry_err kube_ask_read(const struct kube_state *state, struct belfry_bytes scope,
                                               const struct exchange *x, const struct exchange_head *head,
                                               struct kube_ask **out, struct kube_status *status);
void kube_ask_free(struct kube_ask *ask); /* NULL is fine */

/* What permit is asked about: the range, or the subject of a review, which has no end. Lent. */
struct belfry_bytes kube_ask_right_key(const struct kube_ask *ask);
struct belfry_bytes kube_ask_right_end(const struct kube_ask *ask);

#endif
