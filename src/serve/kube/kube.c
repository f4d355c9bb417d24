/* src/serve/kube/kube.c: the requests and watches of a worker together: what is asked, whose turn it is, whose time it is.
 *
 * As in watch.c nothing goes over all watches at once; a drain, or another catalog, goes round in steps.
 */
#include "serve/kube/kube.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "serve/kube/kube_answer.h"
#include "serve/kube/kube_private.h"

#define ROUND_STEP 512   /* watches that are told of a change in one turn */
#define TURN_CALLS 128   /* that were held and go on in one turn */
#define TURN_DUE   256   /* watches and calls whose time has come in one turn */
#define CATALOG_MS 10000 /* in which watches of what is not served any more end */
#define TELL_MS    60000 /* between two lines about what cannot be decoded */
#define LOOK_MS    1000  /* between two looks at those inside a line */
#define LOOK_MAX   1024  /* of them at one look */

/* ---- life ---- */

enum belfry_err kube_create(const struct kube_service_opts *opts, struct kube_service **out)
{
    struct kube_service *service = calloc(1, sizeof(*service));
    if (service == NULL)
        return BELFRY_ERR_NOMEM;
    service->opts = *opts;
    service->rng.state = opts->seed;
    belfry_list_init(&service->wrote);
    belfry_list_init(&service->inside);
    belfry_list_init(&service->held);
    belfry_list_init(&service->asking);
    belfry_list_init(&service->visits);
    service->extent = KUBE_CATALOG_PART; /* whatever comes first */
    kube_stand(service, false, "starting");
    enum belfry_err err = kube_forms_create(KUBE_FORMS_BYTES, opts->seed, &service->forms);
    if (err == BELFRY_OK)
        err = kube_sight_create(opts->permit, &service->sight);
    if (err != BELFRY_OK) {
        kube_destroy(service);
        return err;
    }
    *out = service;
    return BELFRY_OK;
}

static void fail_all(struct kube_service *service)
{
    struct kube_status status;
    kube_status_set(&status, KUBE_SERVICE_UNAVAILABLE, "belfry: stopping; connect anew");
    status.retry_after_s = 1;
    while (!belfry_list_empty(&service->held))
        kube_call_fail(belfry_container(service->held.next, struct kube_call, link), &status);
    while (!belfry_list_empty(&service->asking))
        kube_call_fail(belfry_container(service->asking.next, struct kube_call, link), &status);
    while (!belfry_list_empty(&service->visits))
        kube_visit_fail(kube_visit_of(service->visits.next), &status);
}

void kube_destroy(struct kube_service *service)
{
    if (service == NULL)
        return;
    fail_all(service);
    for (struct belfry_treap_node *node; (node = belfry_treap_first(service->by_number)) != NULL;)
        kube_watch_end(belfry_container(node, struct kube_watch, by_number));
    kube_forms_destroy(service->forms);
    kube_sight_destroy(service->sight);
    kube_catalog_unref(service->catalog);
    free(service);
}

void kube_set_worker(struct kube_service *service, struct worker *worker)
{
    assert(service->worker == NULL);
    service->worker = worker;
}

bool kube_attribute(void *service, const struct batch *batch, uint32_t event, struct belfry_bytes name,
                    struct belfry_bytes *before, struct belfry_bytes *after)
{
    return kube_forms_attribute(((struct kube_service *)service)->forms, batch, event, name, before, after);
}

/* ---- beginning ---- */

void kube_begin(struct kube_service *service, struct exchange *x, const struct exchange_head *head, uint64_t now_ms)
{
    struct belfry_bytes query, path = exchange_path(head, &query);
    struct kube_target target;
    kube_target_read(head->method, path, false, &target);
    if (target.is_resource)
        kube_call_begin(service, x, head, path, query, now_ms);
    else
        kube_discover(service, x, head, path, query, now_ms);
}

/* ---- turns ---- */

static void see_who_wrote(struct kube_service *service)
{
    for (struct belfry_list *node; (node = belfry_list_pop(&service->wrote)) != NULL;)
        kube_watch_wrote(belfry_container(node, struct kube_watch, wrote));
}

static struct kube_call *first_held(const struct kube_service *service)
{
    if (belfry_list_empty(&service->held))
        return NULL;
    return belfry_container(service->held.next, struct kube_call, link);
}

static bool can_serve(const struct kube_service *service)
{
    return service->ready && worker_position(service->worker) > 0;
}

static void resume_held(struct kube_service *service, uint64_t now_ms)
{
    struct kube_call *call;
    for (size_t n = 0; n < TURN_CALLS && can_serve(service) && (call = first_held(service)) != NULL; n++)
        kube_call_resume(call, now_ms);
}

static void end_held(struct kube_service *service, uint64_t now_ms)
{
    struct kube_call *call;
    struct kube_status status;
    char why[KUBE_REASON_MAX + 32];
    snprintf(why, sizeof(why), "belfry: not ready: %s", service->reason);
    for (size_t n = 0; n < TURN_DUE && (call = first_held(service)) != NULL; n++) {
        bool leaves = kube_must_leave(service, call->x);
        if (call->until_ms > now_ms && !leaves)
            return;
        if (leaves)
            kube_status_drain(&status);
        else
            kube_status_busy(&status, why);
        kube_call_fail(call, &status);
    }
}

static struct kube_watch *first_due(const struct kube_service *service)
{
    struct belfry_treap_node *node = belfry_treap_first(service->by_due);
    return node == NULL ? NULL : belfry_container(node, struct kube_watch, by_due);
}

static void see_due(struct kube_service *service, uint64_t now_ms)
{
    struct kube_watch *watch;
    for (size_t n = 0; n < TURN_DUE && (watch = first_due(service)) != NULL && watch->due_ms <= now_ms; n++)
        kube_watch_due(watch, now_ms);
}

bool kube_is_over_memory(const struct kube_service *service)
{
    struct worker_stats core;
    if (service->opts.memory_max == 0)
        return false;
    worker_stats(service->worker, &core);
    return core.bytes + service->stats.bytes > service->opts.memory_max;
}

/* Who has been inside a line for long holds what nobody else can have; a few at a time, the longest unseen first. */
static void look_inside(struct kube_service *service, uint64_t now_ms)
{
    if (belfry_list_empty(&service->inside) || now_ms < service->look_ms)
        return;
    service->look_ms = now_ms + LOOK_MS;
    for (size_t n = 0; n < LOOK_MAX && !belfry_list_empty(&service->inside) && kube_is_over_memory(service); n++) {
        struct belfry_list *node = belfry_list_pop(&service->inside);
        struct kube_watch *watch = belfry_container(node, struct kube_watch, inside);
        belfry_list_append(&service->inside, node);
        if (now_ms < kube_watch_inside_since(watch) + KUBE_INSIDE_MS)
            continue;
        service->stats.slow++;
        kube_watch_end(watch);
    }
}

static int seek_number(const void *key, const struct belfry_treap_node *node)
{
    uint64_t wanted = *(const uint64_t *)key;
    uint64_t number = belfry_container_const(node, struct kube_watch, by_number)->number;
    return (wanted > number) - (wanted < number);
}

static struct kube_watch *watch_after(const struct kube_service *service, uint64_t after)
{
    struct belfry_treap_walk walk;
    uint64_t from = after + 1;
    belfry_treap_walk(&walk, service->by_number, &from, seek_number);
    struct belfry_treap_node *node = belfry_treap_next(&walk);
    return node == NULL ? NULL : belfry_container(node, struct kube_watch, by_number);
}

static void go_round(struct kube_service *service, uint64_t now_ms)
{
    for (size_t n = 0; service->rounding && n < ROUND_STEP; n++) {
        struct kube_watch *watch = watch_after(service, service->round_at);
        service->rounding = watch != NULL;
        if (watch == NULL)
            return;
        service->round_at = watch->number;
        if (kube_must_leave(service, watch->x))
            kube_watch_end_within(watch, now_ms, service->drain_end_ms);
        else if (!kube_watch_is_current(watch))
            kube_watch_end_within(watch, now_ms, service->catalog_end_ms);
    }
}

static void tell_undecodable(struct kube_service *service, uint64_t now_ms)
{
    struct kube_forms_stats forms;
    kube_forms_stats(service->forms, &forms);
    bool told_lately = service->undecodable_told > 0 && now_ms < service->undecodable_told_ms + TELL_MS;
    if (forms.undecodable == service->undecodable_told || told_lately)
        return;
    belfry_logf(service->opts.log, BELFRY_LOG_WARN, "kube_undecodable", "n=%llu key=\"%s\"",
                (unsigned long long)(forms.undecodable - service->undecodable_told), forms.undecodable_key);
    service->undecodable_told = forms.undecodable;
    service->undecodable_told_ms = now_ms;
}

void kube_after_turn(struct kube_service *service, uint64_t now_ms)
{
    kube_forms_next_turn(service->forms);
    see_who_wrote(service);
    resume_held(service, now_ms);
    end_held(service, now_ms);
    go_round(service, now_ms);
    see_due(service, now_ms);
    look_inside(service, now_ms);
    tell_undecodable(service, now_ms);
}

uint64_t kube_due(const struct kube_service *service)
{
    const struct kube_watch *watch = first_due(service);
    const struct kube_call *call = first_held(service);
    if (service->rounding || !belfry_list_empty(&service->wrote) || (call != NULL && can_serve(service)))
        return 0;
    if (call != NULL && kube_must_leave(service, call->x))
        return 0;
    uint64_t due_ms = watch == NULL ? BELFRY_NEVER : watch->due_ms;
    if (!belfry_list_empty(&service->inside))
        due_ms = belfry_min_time(due_ms, service->look_ms);
    return call == NULL ? due_ms : belfry_min_time(due_ms, call->until_ms);
}

/* ---- how the tier stands ---- */

static void begin_round(struct kube_service *service)
{
    if (service->by_number == NULL && belfry_list_empty(&service->held))
        return;
    service->rounding = true;
    service->round_at = 0;
    kube_work(service);
}

void kube_set_catalog(struct kube_service *service, const struct kube_catalog *catalog, enum kube_catalog_extent extent)
{
    const struct kube_catalog *before = service->catalog;
    service->extent = extent;
    service->catalog = catalog == NULL ? NULL : kube_catalog_ref(catalog);
    kube_catalog_unref(before);
    kube_sight_forget(service->sight);
    service->catalog_end_ms = kube_now(service) + CATALOG_MS;
    begin_round(service);
}

void kube_stand(struct kube_service *service, bool ready, const char *reason)
{
    service->ready = ready;
    snprintf(service->reason, sizeof(service->reason), "%s", reason);
    if (ready && !belfry_list_empty(&service->held))
        kube_work(service);
}

void kube_drain(struct kube_service *service, uint64_t now_ms, uint64_t drain_ms)
{
    service->draining = true;
    service->drain_end_ms = now_ms + drain_ms;
    begin_round(service);
}

void kube_announce_drain(struct kube_service *service)
{
    service->announced = true;
}

/* ---- numbers ---- */

void kube_stats(const struct kube_service *service, struct kube_stats *out)
{
    struct kube_forms_stats forms;
    kube_forms_stats(service->forms, &forms);
    *out = service->stats;
    out->undecodable = forms.undecodable;
    out->skipped = forms.skipped;
    out->forms_made = forms.made;
    out->forms_shared = forms.shared;
    out->forms_bytes = forms.bytes;
}

bool kube_next(struct kube_service *service, uint64_t after, uint64_t *number, struct kube_watch_view *out)
{
    const struct kube_watch *watch = watch_after(service, after);
    if (watch == NULL)
        return false;
    *number = watch->number;
    *out = (struct kube_watch_view){.stream = watch->stream,
                                    .conn = exchange_conn(watch->x),
                                    .client = watch->client,
                                    .resource = watch->lens->resource->plural,
                                    .namespace = watch->namespace,
                                    .selector = watch->selector != NULL ? kube_selector_text(watch->selector)
                                                                        : (struct belfry_bytes){0},
                                    .opened_ms = watch->opened_ms,
                                    .sent_bytes = watch->sent_bytes};
    return true;
}
