/* src/serve/kube/kube.c: requests until they are answered or taken over, and what happens to the tier to all parts. */
#include "serve/kube/kube.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"
#include "base/pack.h"
#include "kube/accept.h"
#include "kube/request.h"
#include "serve/kube/kube_answer.h"
#include "serve/kube/kube_ask.h"
#include "serve/kube/kube_sight.h"
#include "serve/rights/review_subject.h"

#define TURN_RESUMED 128 /* calls that were held and continue in one turn */
#define TURN_ENDED   256 /* calls that were held too long and end in one turn */

#define TYPE_AGGREGATED "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

struct kube_service {
    /* fixed at creation */
    struct permit *permit;
    struct kube_lists *lists;
    struct kube_watches *watches; /* owned */
    struct kube_sight *sight;     /* owned */
    uint64_t (*now)(void *user);
    void (*work)(void *user);
    void *user;
    struct belfry_bytes scope;
    struct kube_room room; /* unless it is shared */
    /* owner */
    struct kube_state state;
    struct belfry_list held;   /* calls that wait for the tier, in the order of their time */
    struct belfry_list asking; /* calls that wait for upstream's answer about their rights */
    struct belfry_list visits; /* of documents, which wait for the same */
    struct {
        size_t held;
        uint64_t refused, too_many;
    } stats;
    BELFRY_OWNER;
};

/* ---- requests about a resource ---- */

/*     READ --the tier is not ready--> HELD --it is--> READ       10 s: 429
 *      |  `--auth is on--> ASKING --granted--> taken over        refused: 401, 403; upstream is unavailable: 503
 *      `--> taken over
 */
enum kube_call_state {
    KUBE_CALL_READ,  /* what it asks for is known */
    KUBE_CALL_HELD,  /* the tier is not ready */
    KUBE_CALL_ASKING /* upstream is asked about its rights */
};

/* A request about a resource, from its head until it is answered or a list or watch takes over. */
struct kube_call {
    struct belfry_list link; /* HELD, ASKING: in the list of that name */
    struct kube_service *service;
    struct exchange *x;
    struct shares_conn *share;  /* its connection's */
    enum kube_call_state state; /* moved by kube_call_move_to() alone */
    uint64_t until_ms;          /* HELD */
    struct permit_question *question;
    struct kube_ask *ask; /* owned */
};

static struct kube_call *kube_first_held(const struct kube_service *service)
{
    return belfry_list_empty(&service->held) ? NULL : belfry_container(service->held.next, struct kube_call, link);
}

static void kube_call_move_to(struct kube_call *call, enum kube_call_state to)
{
    struct kube_service *service = call->service;
    assert(call->state != to);
    belfry_list_remove(&call->link);
    if (call->state == KUBE_CALL_HELD)
        service->stats.held--;
    call->state = to;
    switch (to) {
    case KUBE_CALL_READ:
        break;
    case KUBE_CALL_HELD:
        service->stats.held++;
        belfry_list_append(&service->held, &call->link);
        break;
    case KUBE_CALL_ASKING:
        belfry_list_append(&service->asking, &call->link);
        break;
    }
}

/* The exchange has ended, or has another handler. */
static void kube_call_free(struct kube_call *call)
{
    if (call->question != NULL)
        permit_cancel(call->question);
    if (call->state != KUBE_CALL_READ)
        kube_call_move_to(call, KUBE_CALL_READ);
    shares_count(call->share, SHARES_REQUESTS, sizeof(*call) + call->ask->bytes, 0);
    kube_ask_free(call->ask);
    free(call);
}

static void kube_count_status(struct kube_service *service, const struct kube_status *status)
{
    service->stats.too_many += status->reason == KUBE_TOO_MANY_REQUESTS;
}

static void kube_call_fail(struct kube_call *call, const struct kube_status *status)
{
    kube_count_status(call->service, status);
    kube_answer_status(call->x, status);
    kube_call_free(call);
}

static void kube_call_fail_busy(struct kube_call *call, const char *why)
{
    struct kube_status status;
    kube_status_busy(&status, why);
    kube_call_fail(call, &status);
}

/* True: its connection was told to leave, and it was answered. */
static bool kube_call_fail_if_leaving(struct kube_call *call)
{
    struct kube_status status;
    if (!kube_state_must_leave(&call->service->state, call->x))
        return false;
    kube_status_drain(&status);
    kube_call_fail(call, &status);
    return true;
}

static void on_call_gone(struct exchange *x, void *user)
{
    (void)x;
    kube_call_free(user);
}

static const struct exchange_events waiting_events = {
    .body = exchange_drop_body, .body_end = exchange_ignore, .writable = exchange_ignore, .gone = on_call_gone};

/* It was granted, or needs no right. */
static void kube_call_take_over(struct kube_call *call, uint64_t now_ms)
{
    struct kube_service *service = call->service;
    const struct kube_ask *ask = call->ask;
    if (ask->verb == KUBE_VERB_WATCH) {
        kube_watch_open(service->watches, call->x, ask, now_ms);
        kube_call_free(call);
        return;
    }
    struct kube_list_ask list_ask = {.x = call->x,
                                     .resource = ask->resource,
                                     .version = ask->version,
                                     .selector = ask->selector,
                                     .namespace = ask->namespace,
                                     .name = ask->name,
                                     .view = ask->view,
                                     .include = ask->options.include,
                                     .as = ask->verb == KUBE_VERB_GET ? KUBE_PAGE_OBJECT : KUBE_PAGE_ITEMS,
                                     .plan = ask->list,
                                     .continue_token = ask->options.continue_token,
                                     .who = ask->who,
                                     .gzip = ask->gzip,
                                     .head_only = ask->head_only};
    struct kube_list *list;
    struct kube_status status;
    enum belfry_err err = kube_list_begin(service->lists, &list_ask, &list, &status);
    if (err == BELFRY_OK)
        kube_call_free(call);
    else if (err == BELFRY_ERR_INVALID)
        kube_call_fail(call, &status);
    else
        kube_call_fail_busy(call, "belfry: too many lists at once");
}

static void kube_call_refuse(struct kube_call *call, const char *reason)
{
    const struct kube_resource *resource = call->ask->resource;
    const char *sentence = permit_sentence(reason);
    struct review_subject subject;
    struct kube_status status;
    if (permit_is_about_token(reason))
        kube_status_set(&status, KUBE_UNAUTHORIZED, "%s", permit_unauthorized(reason));
    else if (sentence != NULL)
        kube_status_set(&status, KUBE_FORBIDDEN, "%s", sentence);
    else
        kube_status_set(&status, KUBE_FORBIDDEN,
                        "%s is forbidden: upstream does not allow the keys of API group \"%s\" to this user",
                        resource->plural, resource->group);
    if (status.reason == KUBE_FORBIDDEN) {
        status.kind = belfry_bytes_str(resource->plural);
        status.group = belfry_bytes_str(resource->group);
    }
    if (sentence != NULL && review_subject_read(kube_ask_right_key(call->ask), &subject) == BELFRY_OK)
        status.name = subject.name;
    call->service->stats.refused++;
    kube_call_fail(call, &status);
}

static void on_call_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct kube_call *call = user;
    struct kube_service *service = call->service;
    struct kube_status status;
    call->question = NULL;
    kube_call_move_to(call, KUBE_CALL_READ);
    switch (verdict) {
    case PERMIT_GRANTED:
    case PERMIT_HELD: /* never: it is asked once */
        call->ask->who.accepted = !permit_is_open(service->permit, service->now(service->user));
        if (!kube_call_fail_if_leaving(call))
            kube_call_take_over(call, service->now(service->user));
        break;
    case PERMIT_REFUSED:
        kube_call_refuse(call, reason);
        break;
    case PERMIT_UNAVAILABLE:
        kube_status_set(&status, KUBE_SERVICE_UNAVAILABLE, "upstream cannot be asked about rights: %s", reason);
        status.retry_after_s = 1;
        kube_call_fail(call, &status);
        break;
    }
}

/* The tier is ready. */
static void kube_call_go_on(struct kube_call *call, uint64_t now_ms)
{
    struct permit *permit = call->service->permit;
    const struct kube_ask *ask = call->ask;
    if (permit_is_open_to(permit, &ask->who, now_ms)) {
        kube_call_take_over(call, now_ms);
        return;
    }
    enum belfry_err err = permit_ask(permit, &ask->who, kube_ask_right_key(ask), kube_ask_right_end(ask), now_ms,
                                     on_call_verdict, call, &call->question);
    if (err != BELFRY_OK) {
        kube_call_fail_busy(call, "belfry: too many requests wait for their rights");
        return;
    }
    exchange_handle(call->x, &waiting_events, call);
    kube_call_move_to(call, KUBE_CALL_ASKING);
}

static void kube_call_begin(struct kube_service *service, struct exchange *x, const struct exchange_head *head,
                            uint64_t now_ms)
{
    struct kube_status status;
    struct kube_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        kube_status_busy(&status, "belfry: memory limit reached");
    if (call == NULL || kube_ask_read(&service->state, service->scope, x, head, &call->ask, &status) != BELFRY_OK) {
        kube_count_status(service, &status);
        kube_answer_status(x, &status);
        free(call);
        return;
    }
    call->service = service;
    call->x = x;
    belfry_list_init(&call->link);
    call->share = exchange_share(x);
    shares_count(call->share, SHARES_REQUESTS, 0, sizeof(*call) + call->ask->bytes);
    if (kube_call_fail_if_leaving(call))
        return;
    if (!shares_make_room(call->share, SHARES_REQUESTS, 0)) {
        kube_call_fail_busy(call, "belfry: too many requests wait");
    } else if (kube_state_can_serve(&service->state)) {
        kube_call_go_on(call, now_ms);
    } else {
        call->until_ms = now_ms + KUBE_HOLD_MS;
        exchange_handle(x, &waiting_events, call);
        kube_call_move_to(call, KUBE_CALL_HELD);
    }
}

/* ---- documents and probes ---- */

static bool is_path(struct belfry_bytes path, const char *text)
{
    return belfry_bytes_equal(path, belfry_bytes_str(text));
}

/* `text` itself, or what lies under it. */
static bool is_under(struct belfry_bytes path, const char *text)
{
    struct belfry_bytes prefix = belfry_bytes_str(text);
    return belfry_bytes_begins(path, prefix) && (path.len == prefix.len || path.data[prefix.len] == '/');
}

static bool is_probe(struct belfry_bytes path)
{
    return is_path(path, "/healthz") || is_path(path, "/livez") || is_path(path, "/readyz");
}

bool kube_is(struct belfry_bytes path)
{
    return is_under(path, "/api") || is_under(path, "/apis") || is_under(path, "/openapi") || is_probe(path);
}

/* A tier that only waits for upstream is alive: restarting it would not help. */
static void kube_answer_probe(const struct kube_state *state, struct exchange *x, struct belfry_bytes path,
                              struct belfry_bytes query)
{
    const struct belfry_http_field type = {belfry_bytes_str("content-type"),
                                           belfry_bytes_str("text/plain; charset=utf-8")};
    bool well = is_path(path, "/livez") || (state->ready && !state->announced);
    char text[KUBE_REASON_MAX + 64];
    if (!well)
        snprintf(text, sizeof(text), "[-]upstream failed: %s\n%.*s check failed\n",
                 state->announced ? "draining" : state->reason, (int)path.len - 1, path.data + 1);
    else if (belfry_bytes_begins(query, belfry_bytes_str("verbose")))
        snprintf(text, sizeof(text), "[+]upstream ok\n%.*s check passed\n", (int)path.len - 1, path.data + 1);
    else
        snprintf(text, sizeof(text), "ok");
    exchange_answer(x, well ? 200 : 500, &type, 1, belfry_bytes_str(text));
}

static void kube_answer_busy(struct exchange *x, const char *why)
{
    struct kube_status status;
    kube_status_busy(&status, why);
    kube_answer_status(x, &status);
}

/* Which document, and in what form. */
struct wanted {
    struct belfry_bytes path, known; /* known: the client's If-None-Match */
    bool aggregated, head_only;
};

/* Errors: BELFRY_ERR_NOT_FOUND: the catalog has no such document, and there was no answer. */
static enum belfry_err kube_answer_document(const struct kube_catalog *catalog, struct exchange *x,
                                            const struct wanted *wanted)
{
    struct belfry_buf body;
    char etag[32];
    snprintf(etag, sizeof(etag), "\"%016llx%s\"", (unsigned long long)kube_catalog_hash(catalog),
             wanted->aggregated ? "a" : "");
    belfry_buf_init(&body);
    enum belfry_err err = kube_catalog_document(catalog, wanted->path, wanted->aggregated, &body);
    if (err != BELFRY_OK && err != BELFRY_ERR_NOT_FOUND)
        kube_answer_busy(x, "belfry: memory limit reached");
    else if (err == BELFRY_OK && belfry_bytes_equal(wanted->known, belfry_bytes_str(etag)))
        exchange_answer(x, 304, &(struct belfry_http_field){belfry_bytes_str("etag"), belfry_bytes_str(etag)}, 1,
                        (struct belfry_bytes){0}); /* the client has it already */
    else if (err == BELFRY_OK)
        kube_answer_json(x, belfry_bytes_str(wanted->aggregated ? TYPE_AGGREGATED : "application/json"),
                         belfry_bytes_str(etag),
                         wanted->head_only ? (struct belfry_bytes){0} : belfry_buf_bytes(&body));
    belfry_buf_fini(&body);
    return err == BELFRY_ERR_NOT_FOUND ? err : BELFRY_OK;
}

/* ---- visits: while upstream is asked what the client may see ---- */

struct kube_visit {
    struct belfry_list link; /* of kube_service.visits */
    struct kube_service *service;
    struct exchange *x;
    struct shares_conn *share; /* its connection's */
    struct kube_sight_asker *asker;
    struct wanted wanted; /* in text */
    size_t bytes;         /* as counted as SHARES_REQUESTS */
    char text[];
};

static void kube_visit_free(struct kube_visit *visit)
{
    if (visit->asker != NULL)
        kube_sight_cancel(visit->asker);
    belfry_list_remove(&visit->link);
    shares_count(visit->share, SHARES_REQUESTS, visit->bytes, 0);
    free(visit);
}

static void kube_visit_fail(struct kube_visit *visit, const struct kube_status *status)
{
    kube_answer_status(visit->x, status);
    kube_visit_free(visit);
}

/* The document is not there, or this client may not see it. */
static void kube_visit_forbid(struct kube_visit *visit)
{
    struct kube_status status;
    struct kube_service *service = visit->service;
    const struct kube_state *state = &service->state;
    const struct wanted *wanted = &visit->wanted;
    struct belfry_buf body;
    belfry_buf_init(&body);
    bool is_there = state->catalog != NULL &&
                    kube_catalog_document(state->catalog, wanted->path, wanted->aggregated, &body) == BELFRY_OK;
    belfry_buf_fini(&body);
    service->stats.refused++;
    if (!is_there)
        kube_status_no_resource(&status, state->extent);
    else
        kube_status_set(&status, KUBE_FORBIDDEN,
                        "forbidden: upstream does not allow the keys of these definitions to this user");
    kube_visit_fail(visit, &status);
}

static void on_sight(enum kube_sight_verdict verdict, const struct kube_catalog *seen, const char *why, void *user)
{
    struct kube_visit *visit = user;
    struct kube_status status;
    visit->asker = NULL;
    switch (verdict) {
    case KUBE_SIGHT_SEES:
        if (kube_answer_document(seen, visit->x, &visit->wanted) == BELFRY_OK)
            kube_visit_free(visit);
        else
            kube_visit_forbid(visit);
        return;
    case KUBE_SIGHT_NOTHING:
        kube_visit_forbid(visit);
        return;
    case KUBE_SIGHT_NO_TOKEN:
        visit->service->stats.refused++;
        kube_status_set(&status, KUBE_UNAUTHORIZED, "%s", permit_unauthorized(why));
        break;
    case KUBE_SIGHT_UNAVAILABLE:
        kube_status_set(&status, KUBE_SERVICE_UNAVAILABLE, "upstream cannot be asked about rights: %s", why);
        status.retry_after_s = 1;
        break;
    case KUBE_SIGHT_BUSY:
        kube_status_busy(&status, "belfry: too many requests wait for their rights");
        break;
    }
    kube_visit_fail(visit, &status);
}

static void on_visit_gone(struct exchange *x, void *user)
{
    (void)x;
    kube_visit_free(user);
}

static const struct exchange_events visit_events = {
    .body = exchange_drop_body, .body_end = exchange_ignore, .writable = exchange_ignore, .gone = on_visit_gone};

static void kube_visit_begin(struct kube_service *service, struct exchange *x, const struct identity *who,
                             const struct wanted *wanted, uint64_t now_ms)
{
    const struct kube_catalog *catalog = service->state.catalog;
    size_t own = sizeof(struct kube_visit) + wanted->path.len + wanted->known.len;
    size_t bytes = own + kube_sight_bytes(catalog, who);
    struct shares_conn *share = exchange_share(x);
    bool has_room = shares_make_room(share, SHARES_REQUESTS, bytes);
    struct kube_visit *visit = has_room ? calloc(1, own) : NULL;
    if (visit == NULL) {
        kube_answer_busy(x, "belfry: too many requests wait");
        return;
    }
    char *to = visit->text;
    visit->service = service;
    visit->x = x;
    visit->wanted = *wanted;
    visit->wanted.path = belfry_pack(&to, wanted->path);
    visit->wanted.known = belfry_pack(&to, wanted->known);
    visit->bytes = bytes;
    visit->share = share;
    shares_count(share, SHARES_REQUESTS, 0, bytes);
    belfry_list_append(&service->visits, &visit->link);
    if (kube_sight_ask(service->sight, catalog, who, now_ms, on_sight, visit, &visit->asker) != BELFRY_OK) {
        kube_answer_busy(x, "belfry: too many requests wait for their rights");
        kube_visit_free(visit);
        return;
    }
    exchange_handle(x, &visit_events, visit);
}

/* A request that is not about a resource. */
static void kube_discover(struct kube_service *service, struct exchange *x, const struct exchange_head *head,
                          uint64_t now_ms)
{
    const struct kube_state *state = &service->state;
    struct belfry_bytes query, path = exchange_path(head, &query);
    bool is_head = belfry_bytes_equal(head->method, belfry_bytes_str("HEAD"));
    while (path.len > 1 && path.data[path.len - 1] == '/')
        path.len--;
    if (!is_head && !belfry_bytes_equal(head->method, belfry_bytes_str("GET"))) {
        kube_answer_failure(x, KUBE_METHOD_NOT_ALLOWED,
                            "the server does not allow this method on the requested resource");
        return;
    }
    if (is_probe(path)) {
        kube_answer_probe(state, x, path, query);
        return;
    }

    /* which document, and in what form */
    struct identity who = identity_read(x, head, IDENTITY_OF_KUBE);
    bool has_two = is_path(path, "/api") || is_path(path, "/apis");
    unsigned forms = 1u << KUBE_FORM_JSON | (has_two ? 1u << KUBE_FORM_DISCOVERY : 0);
    enum kube_form form = kube_accept(exchange_field(head, "accept"), forms);
    struct wanted wanted = {.path = path,
                            .known = exchange_field(head, "if-none-match"),
                            .aggregated = form == KUBE_FORM_DISCOVERY,
                            .head_only = is_head};
    bool is_there = state->catalog != NULL;
    if (is_under(path, "/openapi/v2")) {
        kube_answer_failure(x, KUBE_NOT_FOUND, "the server could not find the requested resource");
        return;
    }
    if (is_there && form == KUBE_FORM_NONE) {
        kube_answer_failure(x, KUBE_NOT_ACCEPTABLE, "only the following media types are accepted: application/json");
        return;
    }
    if (is_there && !permit_is_open_to(service->permit, &who, now_ms)) {
        kube_visit_begin(service, x, &who, &wanted, now_ms);
        return;
    }
    if (is_there)
        is_there = kube_answer_document(state->catalog, x, &wanted) == BELFRY_OK;
    if (!is_there) {
        struct kube_status status;
        kube_status_no_resource(&status, state->extent);
        kube_answer_status(x, &status);
    }
}

/* ---- requests and turns ---- */

void kube_begin(struct kube_service *service, struct exchange *x, const struct exchange_head *head, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(service);
    struct belfry_bytes query, path = exchange_path(head, &query);
    struct kube_target target;
    kube_target_read(head->method, path, false, &target);
    if (target.is_resource)
        kube_call_begin(service, x, head, now_ms);
    else
        kube_discover(service, x, head, now_ms);
}

void kube_after_turn(struct kube_service *service, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(service);
    struct kube_call *call;

    /* calls that were held go on, if the tier is ready */
    for (size_t n = 0; n < TURN_RESUMED && kube_state_can_serve(&service->state); n++) {
        if ((call = kube_first_held(service)) == NULL)
            break;
        kube_call_move_to(call, KUBE_CALL_READ);
        kube_call_go_on(call, now_ms);
    }

    /* others end, if they must leave or their time is up */
    for (size_t n = 0; n < TURN_ENDED && (call = kube_first_held(service)) != NULL; n++) {
        if (kube_call_fail_if_leaving(call))
            continue;
        if (call->until_ms > now_ms)
            break;
        char why[KUBE_REASON_MAX + 32];
        snprintf(why, sizeof(why), "belfry: not ready: %s", service->state.reason);
        kube_call_fail_busy(call, why);
    }
    kube_watches_after_turn(service->watches, now_ms);
}

bool kube_is_going_round(const struct kube_service *service)
{
    return kube_watches_are_going_round(service->watches);
}

/* When the first of the calls that are held can go on or must end. */
static uint64_t kube_held_due(const struct kube_service *service)
{
    const struct kube_call *call = kube_first_held(service);
    const struct kube_state *state = &service->state;
    if (call == NULL)
        return BELFRY_NEVER;
    return kube_state_can_serve(state) || kube_state_must_leave(state, call->x) ? 0 : call->until_ms;
}

uint64_t kube_due(const struct kube_service *service)
{
    return belfry_min_time(kube_held_due(service), kube_watches_due(service->watches));
}

/* ---- catalog, standing and drain ---- */

/* A turn is due if requests that are held can go on or end. */
static void kube_look_at_held(struct kube_service *service)
{
    if (kube_held_due(service) == 0)
        service->work(service->user);
}

void kube_set_catalog(struct kube_service *service, const struct kube_catalog *catalog, enum kube_catalog_extent extent)
{
    BELFRY_OWNER_CHECK(service);
    const struct kube_catalog *before = service->state.catalog;
    service->state.extent = extent;
    service->state.catalog = catalog == NULL ? NULL : kube_catalog_ref(catalog);
    kube_watches_set_catalog(service->watches, service->state.catalog);
    kube_sight_forget(service->sight);
    kube_catalog_unref(before);
}

void kube_stand(struct kube_service *service, bool ready, const char *reason)
{
    BELFRY_OWNER_CHECK(service);
    service->state.ready = ready;
    snprintf(service->state.reason, sizeof(service->state.reason), "%s", reason);
    kube_look_at_held(service);
}

void kube_drain(struct kube_service *service, uint64_t now_ms, uint64_t drain_ms)
{
    BELFRY_OWNER_CHECK(service);
    service->state.draining = true;
    kube_watches_drain(service->watches, now_ms, drain_ms);
    kube_look_at_held(service);
}

void kube_announce_drain(struct kube_service *service)
{
    BELFRY_OWNER_CHECK(service);
    service->state.announced = true;
}

/* ---- numbers ---- */

void kube_stats(const struct kube_service *service, struct kube_stats *out)
{
    struct kube_watches_stats watches;
    kube_watches_stats(service->watches, &watches);
    *out = (struct kube_stats){.watches = watches.watches,
                               .held = service->stats.held,
                               .bytes = watches.bytes,
                               .opened = watches.opened,
                               .lines = watches.lines,
                               .bookmarks = watches.bookmarks,
                               .expired = watches.expired,
                               .refused = service->stats.refused,
                               .too_many = service->stats.too_many + watches.too_many,
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
    service->permit = opts->permit;
    service->lists = opts->lists;
    service->now = opts->now;
    service->work = opts->work;
    service->user = opts->user;
    service->scope = opts->scope;
    belfry_list_init(&service->held);
    belfry_list_init(&service->asking);
    belfry_list_init(&service->visits);
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
    enum belfry_err err = kube_sight_create(opts->permit, &service->sight);
    if (err == BELFRY_OK)
        err = kube_watches_create(&watches, &service->watches);
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
    while (!belfry_list_empty(&service->held))
        kube_call_fail(kube_first_held(service), &status);
    while (!belfry_list_empty(&service->asking))
        kube_call_fail(belfry_container(service->asking.next, struct kube_call, link), &status);
    while (!belfry_list_empty(&service->visits))
        kube_visit_fail(belfry_container(service->visits.next, struct kube_visit, link), &status);
    kube_sight_destroy(service->sight);
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
