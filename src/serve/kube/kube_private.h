/* src/serve/kube/kube_private.h
 *
 * kube_private: what kube.c (the service: whose turn it is), kube_call.c (a request until it is answered or has become
 * a list or a watch), kube_watch.c (a watch) and kube_discovery.c share.
 *
 * Thread: owner.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_PRIVATE_H
#define BELFRY_SERVE_KUBE_KUBE_PRIVATE_H

#include "base/list.h"
#include "base/rng.h"
#include "base/treap.h"
#include "kube/request.h"
#include "serve/kube/kube.h"
#include "serve/kube/kube_forms.h"
#include "serve/kube/kube_sight.h"

#define KUBE_REASON_MAX  160
#define KUBE_CLIENT_MAX  63                 /* bytes of a user-agent */
#define KUBE_CALLS_BYTES (32 * 1024 * 1024) /* of requests that wait; one beyond is answered 429 at once */

struct kube_service {
    struct kube_service_opts opts;
    struct worker *worker;
    const struct kube_catalog *catalog; /* NULL: none */
    enum kube_catalog_extent extent;    /* of it */
    struct kube_sight *sight;
    struct kube_forms *forms;
    struct belfry_rng rng;

    struct belfry_treap_node *by_number; /* every watch */
    uint64_t numbers;                    /* given out */
    struct belfry_treap_node *by_due;    /* those that have something to do at some time */
    struct belfry_list wrote;            /* those that were written to in this turn, or are to be looked at */
    struct belfry_list inside;           /* those who have been given a part of a line */
    uint64_t look_ms;                    /* at which they are looked at next */

    struct belfry_list held;   /* calls that wait for the tier, in the order of their time */
    struct belfry_list asking; /* calls that wait for upstream's word on their rights */
    struct belfry_list visits; /* requests for documents that do */
    size_t calls_bytes;

    bool ready;
    bool announced; /* a drain has begun */
    bool draining;  /* what is on connections that were told to leave ends */
    char reason[KUBE_REASON_MAX];
    uint64_t drain_end_ms, catalog_end_ms; /* until when those that must end have ended */
    bool rounding;                         /* drain or another catalog, and not every watch has been told */
    uint64_t round_at;                     /* the last that has */

    uint64_t undecodable_told, undecodable_told_ms; /* as logged, and when */
    struct kube_stats stats;
};

static inline void kube_work(const struct kube_service *service)
{
    service->opts.work(service->opts.user);
}

static inline uint64_t kube_now(const struct kube_service *service)
{
    return service->opts.now(service->opts.user);
}

/* Its connection was told to leave, and the time for that has come. */
static inline bool kube_must_leave(const struct kube_service *service, const struct exchange *x)
{
    return service->draining && exchange_conn(x)->leaving;
}

/* ---- kube_discovery.c ---- */

/* Answers whatever is not about a resource, or asks about rights before. `path` is without its query. */
void kube_discover(struct kube_service *service, struct exchange *x, const struct exchange_head *head,
                   struct belfry_bytes path, struct belfry_bytes query, uint64_t now_ms);

/* A request for a document that waits for upstream's word on its rights. */
struct kube_visit;

/* The last word to it. */
void kube_visit_fail(struct kube_visit *visit, const struct kube_status *status);
struct kube_visit *kube_visit_of(struct belfry_list *link);

/* 404; or, while the catalog is a part of what is to come, 429. */
void kube_status_no_resource(const struct kube_service *service, struct kube_status *status);

/* ---- kube_call.c ---- */

enum kube_call_state {
    KUBE_CALL_READ,  /* what it asks for is known */
    KUBE_CALL_HELD,  /* the tier is not ready */
    KUBE_CALL_ASKING /* upstream is asked about its rights */
};

/* A request about a resource, as far as it has been understood. */
struct kube_call {
    struct belfry_list link; /* HELD, ASKING: in the service's list of that name */
    struct kube_service *service;
    struct exchange *x;
    enum kube_call_state state; /* moved by move() alone */
    uint64_t until_ms;          /* HELD */
    struct permit_question *question;
    size_t bytes; /* as counted in the service's */

    const struct kube_resource *resource; /* a reference */
    const struct kube_version *version;
    struct kube_selector *selector; /* a reference; NULL: everything */
    enum kube_view view;
    bool gzip, head_only;
    enum kube_verb verb;
    struct kube_list_plan list;   /* GET, LIST */
    struct kube_watch_plan watch; /* WATCH */
    struct kube_options options;
    struct belfry_buf key, end;          /* the range as upstream and the core read it; an empty end: one key */
    bool filter;                         /* the range has objects of other namespaces */
    struct belfry_bytes namespace, name; /* of the path, or pinned by the selector; this and what follows: in text */
    struct permit_who who;
    const char *client;
    char text[];
};

/* The token of "Authorization: Bearer TOKEN", lent from the head; {NULL, 0}: there is none. */
struct belfry_bytes kube_bearer(const struct exchange_head *head);

/* Answers it, or holds it. `path` and `query` are the two parts of head->path. */
void kube_call_begin(struct kube_service *service, struct exchange *x, const struct exchange_head *head,
                     struct belfry_bytes path, struct belfry_bytes query, uint64_t now_ms);

/* Goes on with one that was held: the tier is ready. */
void kube_call_resume(struct kube_call *call, uint64_t now_ms);

/* The last word to one that waits. */
void kube_call_fail(struct kube_call *call, const struct kube_status *status);

/* ---- kube_watch.c ---- */

/* FENCING and STATE: where it begins is being found; the head of the response has been sent. */
enum kube_watch_state { KUBE_WATCH_NEW, KUBE_WATCH_FENCING, KUBE_WATCH_STATE, KUBE_WATCH_LIVE };

struct kube_watch {
    struct kube_service *service;
    struct exchange *x;
    enum kube_watch_state state; /* moved by move() alone */
    struct fence_wait *wait;     /* FENCING */
    struct kube_list *list;      /* STATE */
    struct stream *stream;       /* LIVE: the core's */
    const struct kube_lens *lens;
    struct kube_selector *selector; /* a reference; NULL: everything */
    enum kube_view view;
    enum kube_include include;
    bool bookmarks, mark_end;
    bool headed;         /* the head of the response is out */
    bool pinned;         /* it is found by an attribute of its selector */
    bool filter;         /* the range has objects of other namespaces */
    bool resumed;        /* the client named `from`, and may have seen a part of it (core/lines.h) */
    bool ending;         /* its time has come; it ends behind what it was inside of */
    int64_t from;        /* changes above this revision: as asked for, or the state's */
    int64_t told_rev;    /* of the last line that the core was given; 0: none */
    int64_t columns_rev; /* of a table: the event that defines its columns; 0: none has yet */
    uint64_t columns_sub;
    uint64_t cuts; /* STATE: as the core had counted when it began */

    uint64_t number, opened_ms, sent_bytes;
    struct belfry_treap_node by_number, by_due;
    struct belfry_list wrote, inside;
    uint64_t deadline_ms, farewell_ms, end_ms, due_ms; /* end_ms: drain, another catalog; due_ms: the smallest */
    size_t told;                                       /* bytes the core may still write */
    size_t bytes;                                      /* as counted in the service's stats */

    struct belfry_bytes key, end, namespace; /* this and client: in text */
    const char *client;
    char text[];
};

/* Makes a watch of a call, which stays the caller's but for its exchange; that is answered when there is no watch. */
void kube_watch_open(struct kube_call *call, uint64_t now_ms);

/* The end of its body, now: clean, unless it is inside a line. */
void kube_watch_end(struct kube_watch *watch);

/* Inside a line since then; 0: it is not. */
uint64_t kube_watch_inside_since(const struct kube_watch *watch);

/* It was written to: asks for more room, and ends when its last line is out. */
void kube_watch_wrote(struct kube_watch *watch);

/* Its time has come, for whatever it was. */
void kube_watch_due(struct kube_watch *watch, uint64_t now_ms);

/* It is to end by then at the latest, at a time of its own. */
void kube_watch_end_within(struct kube_watch *watch, uint64_t now_ms, uint64_t end_ms);

/* Over opts.memory_max? */
bool kube_is_over_memory(const struct kube_service *service);

/* Is its resource served as it was when it began? */
bool kube_watch_is_current(const struct kube_watch *watch);

int kube_order_number(const struct belfry_treap_node *a, const struct belfry_treap_node *b);
int kube_order_due(const struct belfry_treap_node *a, const struct belfry_treap_node *b);

#endif
