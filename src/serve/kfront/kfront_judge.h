/* src/serve/kfront/kfront_judge.h
 *
 * kfront_judge: is a request answered here, or by the API server?
 *
 * Answered here, of a resource that is followed:
 *
 *     watch    always
 *     list     resourceVersion 0, exact, not older than; `continue` that a tier has written
 *     get      resourceVersion 0 or not older than
 *
 * if the answer can have a form that is made here: compact JSON, or the metadata alone. Everything else is passed on:
 * what must be consistent (no resourceVersion), a `continue` of the API server, protobuf alone, tables, subresources,
 * writes, other resources, and whatever is not understood here: then the API server says what is wrong with it. So are
 * lists and watches with a shardSelector, all of them: a server may obey it or not, and a client's list and watch must
 * not disagree.
 *
 * Impersonation is passed on, and is refused where the answer would be made here: only the API server knows who may
 * impersonate whom. A connection that is to become another protocol (exec, attach, port-forward) is refused.
 *
 * Thread: any. Pure.
 * Memory: that of a query and its selectors, until it returns.
 */
#ifndef BELFRY_SERVE_KFRONT_KFRONT_JUDGE_H
#define BELFRY_SERVE_KFRONT_KFRONT_JUDGE_H

#include "kube/resource.h"
#include "serve/kfront/kfront_fields.h"
#include "server/exchange.h"

struct kube_service;

/* A resource that is followed, and what answers for it. */
struct kfront_followed {
    const struct kube_resource *resource;
    struct kube_service *service;
};

enum kfront_way {
    KFRONT_ANSWER,       /* here */
    KFRONT_PASS,         /* to the API server */
    KFRONT_UPGRADES,     /* refused: it asks for another protocol */
    KFRONT_IMPERSONATES, /* refused */
    KFRONT_NO_MEMORY
};

/* Why a request is passed on. The names of metrics: kfront_kind_name(). */
enum kfront_kind {
    KFRONT_WRITE,
    KFRONT_CONSISTENT, /* a get or list of a followed resource that must be consistent, or continues upstream's */
    KFRONT_FORM,       /* in a form, or with a selector or option, that is not made here */
    KFRONT_DOCUMENT,   /* discovery, OpenAPI */
    KFRONT_OTHER,      /* of another resource, of a subresource, or of none */
    KFRONT_WATCH,      /* a watch that is passed on */
    KFRONT_KINDS
};
const char *kfront_kind_name(enum kfront_kind kind);

struct kfront_judgement {
    enum kfront_way way;
    const struct kfront_followed *followed; /* ANSWER, or with a field; lent */
    enum kfront_kind kind;                  /* PASS */
    bool lasts;                             /* PASS: the answer may take as long as the client likes */
    char field[KFRONT_FIELD_BYTES];         /* PASS: because it selects by this, which is not known here; "": not so */
};

void kfront_judge(const struct exchange_head *head, const struct kfront_followed *followed, size_t n_followed,
                  struct kfront_judgement *out);

#endif
