/* src/serve/kube/kube.c: passes requests to the part that answers them, and what happens to the tier to all parts. */
#include "serve/kube/kube.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/owner.h"
#include "kube/request.h"
#include "serve/kube/kube_answer.h"
#include "serve/kube/kube_call.h"
#include "serve/kube/kube_discovery.h"

struct kube_service {
    struct kube_state state;
    struct kube_room room; /* unless it is shared */
    struct kube_discovery discovery;
    struct kube_calls calls;
    struct kube_watches *watches; /* owned */
    void (*work)(void *user);
    void *user;
    BELFRY_OWNER;
};

/* ---- create and destroy ---- */

static size_t own_core_bytes(const void *of)
{
    const struct kube_service *service = of;
    struct worker_stats core;
    worker_stats(service->state.worker, &core);
    return core.bytes;
}

enum belfry_err kube_create(const struct kube_service_opts *opts, struct kube_service **out)
{
    struct kube_service *service = calloc(1, sizeof(*service));
    if (service == NULL)
        return BELFRY_ERR_NOMEM;
    service->work = opts->work;
    service->user = opts->user;
    service->state.rights = opts->rights;
    service->room = (struct kube_room){.memory_max = opts->memory_max, .core_bytes = own_core_bytes, .of = service};
    service->state.room = opts->room != NULL ? opts->room : &service->room;
    service->state.extent = KUBE_CATALOG_PART; /* until a catalog is set */
    snprintf(service->state.reason, sizeof(service->state.reason), "starting");
    struct kube_watches_opts watches = {.permit = opts->permit,
                                        .rights = opts->rights,
                                        .lists = opts->lists,
                                        .fence = opts->fence,
                                        .now = opts->now,
                                        .work = opts->work,
                                        .user = opts->user,
                                        .seed = opts->seed,
                                        .room = service->state.room,
                                        .forms_bytes = opts->forms_bytes,
                                        .unread_ms = opts->unread_ms,
                                        .log = opts->log};
    enum belfry_err err = kube_discovery_init(&service->discovery, &service->state, opts->permit);
    if (err == BELFRY_OK)
        err = kube_watches_create(&watches, &service->watches);
    kube_calls_init(&service->calls, &(struct kube_calls_opts){.state = &service->state,
                                                               .permit = opts->permit,
                                                               .lists = opts->lists,
                                                               .watches = service->watches,
                                                               .now = opts->now,
                                                               .user = opts->user,
                                                               .scope = opts->scope});
    if (err != BELFRY_OK) {
        kube_destroy(service);
        return err;
    }
    BELFRY_OWNER_INIT(service);
    *out = service;
    return BELFRY_OK;
}

void kube_destroy(struct kube_service *service)
{
    struct kube_status status;
    if (service == NULL)
        return;
    kube_status_set(&status, KUBE_SERVICE_UNAVAILABLE, "belfry: stopping; connect anew");
    status.retry_after_s = 1;
    kube_calls_fail_all(&service->calls, &status);
    kube_discovery_fini(&service->discovery, &status);
    kube_watches_destroy(service->watches);
    kube_catalog_unref(service->state.catalog);
    free(service);
}

void kube_set_unread_time(struct kube_service *service, uint64_t unread_ms)
{
    BELFRY_OWNER_CHECK(service);
    kube_watches_set_unread_time(service->watches, unread_ms);
}

void kube_set_worker(struct kube_service *service, struct worker *worker)
{
    BELFRY_OWNER_CHECK(service);
    service->state.worker = worker;
    kube_watches_set_worker(service->watches, worker);
}

bool kube_attribute(void *user, const struct batch *batch, uint32_t event, struct belfry_bytes name,
                    struct belfry_bytes *before, struct belfry_bytes *after)
{
    const struct kube_service *service = user;
    return kube_watches_attribute(service->watches, batch, event, name, before, after);
}

/* ---- requests and turns ---- */

bool kube_is(struct belfry_bytes path)
{
    return kube_discovery_is_api(path);
}

void kube_begin(struct kube_service *service, struct exchange *x, const struct exchange_head *head, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(service);
    struct belfry_bytes query, path = exchange_path(head, &query);
    struct kube_target target;
    kube_target_read(head->method, path, false, &target);
    if (target.is_resource)
        kube_call_begin(&service->calls, x, head, now_ms);
    else
        kube_discover(&service->discovery, x, head, now_ms);
}

void kube_after_turn(struct kube_service *service, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(service);
    kube_calls_after_turn(&service->calls, now_ms);
    kube_watches_after_turn(service->watches, now_ms);
}

bool kube_is_going_round(const struct kube_service *service)
{
    return kube_watches_are_going_round(service->watches);
}

uint64_t kube_due(const struct kube_service *service)
{
    return belfry_min_time(kube_calls_due(&service->calls), kube_watches_due(service->watches));
}

/* ---- catalog, standing and drain ---- */

/* A turn is due if requests that are held can go on or end. */
static void look_at_held(struct kube_service *service)
{
    if (kube_calls_due(&service->calls) == 0)
        service->work(service->user);
}

void kube_set_catalog(struct kube_service *service, const struct kube_catalog *catalog, enum kube_catalog_extent extent)
{
    BELFRY_OWNER_CHECK(service);
    const struct kube_catalog *before = service->state.catalog;
    service->state.extent = extent;
    service->state.catalog = catalog == NULL ? NULL : kube_catalog_ref(catalog);
    kube_watches_set_catalog(service->watches, service->state.catalog);
    kube_discovery_forget(&service->discovery);
    kube_catalog_unref(before);
}

void kube_stand(struct kube_service *service, bool ready, const char *reason)
{
    BELFRY_OWNER_CHECK(service);
    service->state.ready = ready;
    snprintf(service->state.reason, sizeof(service->state.reason), "%s", reason);
    look_at_held(service);
}

void kube_drain(struct kube_service *service, uint64_t now_ms, uint64_t drain_ms)
{
    BELFRY_OWNER_CHECK(service);
    service->state.draining = true;
    kube_watches_drain(service->watches, now_ms, drain_ms);
    look_at_held(service);
}

void kube_announce_drain(struct kube_service *service)
{
    BELFRY_OWNER_CHECK(service);
    service->state.announced = true;
}

/* ---- numbers ---- */

void kube_stats(const struct kube_service *service, struct kube_stats *out)
{
    const struct kube_calls_stats *calls = &service->calls.stats;
    struct kube_watches_stats watches;
    kube_watches_stats(service->watches, &watches);
    *out = (struct kube_stats){.watches = watches.watches,
                               .held = calls->held,
                               .bytes = watches.bytes,
                               .opened = watches.opened,
                               .lines = watches.lines,
                               .bookmarks = watches.bookmarks,
                               .expired = watches.expired,
                               .refused = calls->refused + service->discovery.refused,
                               .too_many = calls->too_many + watches.too_many,
                               .undecodable = watches.undecodable,
                               .skipped = watches.skipped,
                               .slow = watches.slow,
                               .expelled = watches.expelled,
                               .forms_made = watches.forms_made,
                               .forms_shared = watches.forms_shared,
                               .forms_bytes = watches.forms_bytes};
}

bool kube_next(struct kube_service *service, uint64_t after, uint64_t *number, struct kube_watch_view *out)
{
    BELFRY_OWNER_CHECK(service);
    return kube_watches_next(service->watches, after, number, out);
}
