/* src/serve/kube/kube_discovery.c */
#include "serve/kube/kube_discovery.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pack.h"
#include "kube/accept.h"
#include "serve/kube/kube_answer.h"
#include "serve/kube/kube_ask.h"

#define TYPE_AGGREGATED "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

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

bool kube_discovery_is_api(struct belfry_bytes path)
{
    return is_under(path, "/api") || is_under(path, "/apis") || is_under(path, "/openapi") || is_probe(path);
}

/* ---- probes ---- */

/* A tier that only waits for upstream is alive: restarting it would not help. */
static void answer_probe(const struct kube_state *state, struct exchange *x, struct belfry_bytes path,
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

/* ---- documents ---- */

static void answer_no_resource(const struct kube_state *state, struct exchange *x)
{
    struct kube_status status;
    kube_status_no_resource(&status, state->extent);
    kube_answer_status(x, &status);
}

static void answer_failure(struct exchange *x, enum kube_reason reason, const char *text)
{
    struct kube_status status;
    kube_status_set(&status, reason, "%s", text);
    kube_answer_status(x, &status);
}

/* True: the client has it already, and 304 was sent. */
static bool answer_unchanged(struct exchange *x, struct belfry_bytes known, struct belfry_bytes etag)
{
    const struct belfry_http_field field = {belfry_bytes_str("etag"), etag};
    if (!belfry_bytes_equal(known, etag))
        return false;
    exchange_answer(x, 304, &field, 1, (struct belfry_bytes){0});
    return true;
}

static void answer_busy(struct exchange *x, const char *why)
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
static enum belfry_err answer_document(const struct kube_catalog *catalog, struct exchange *x,
                                       const struct wanted *wanted)
{
    struct belfry_buf body;
    char etag[32];
    snprintf(etag, sizeof(etag), "\"%016llx%s\"", (unsigned long long)kube_catalog_hash(catalog),
             wanted->aggregated ? "a" : "");
    belfry_buf_init(&body);
    enum belfry_err err = kube_catalog_document(catalog, wanted->path, wanted->aggregated, &body);
    if (err != BELFRY_OK && err != BELFRY_ERR_NOT_FOUND)
        answer_busy(x, "belfry: memory limit reached");
    else if (err == BELFRY_OK && !answer_unchanged(x, wanted->known, belfry_bytes_str(etag)))
        kube_answer_json(x, belfry_bytes_str(wanted->aggregated ? TYPE_AGGREGATED : "application/json"),
                         belfry_bytes_str(etag),
                         wanted->head_only ? (struct belfry_bytes){0} : belfry_buf_bytes(&body));
    belfry_buf_fini(&body);
    return err == BELFRY_ERR_NOT_FOUND ? err : BELFRY_OK;
}

/* ---- visits: while upstream is asked what the client may see ---- */

struct kube_visit {
    struct belfry_list link; /* of kube_discovery.visits */
    struct kube_discovery *discovery;
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

static bool has_document(const struct kube_catalog *catalog, const struct wanted *wanted)
{
    struct belfry_buf body;
    belfry_buf_init(&body);
    bool found = kube_catalog_document(catalog, wanted->path, wanted->aggregated, &body) == BELFRY_OK;
    belfry_buf_fini(&body);
    return found;
}

/* The document is not there, or this client may not see it. */
static void kube_visit_forbid(struct kube_visit *visit)
{
    struct kube_status status;
    const struct kube_state *state = visit->discovery->state;
    visit->discovery->refused++;
    if (state->catalog == NULL || !has_document(state->catalog, &visit->wanted))
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
        if (answer_document(seen, visit->x, &visit->wanted) == BELFRY_OK)
            kube_visit_free(visit);
        else
            kube_visit_forbid(visit);
        return;
    case KUBE_SIGHT_NOTHING:
        kube_visit_forbid(visit);
        return;
    case KUBE_SIGHT_NO_TOKEN:
        visit->discovery->refused++;
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

static void begin_visit(struct kube_discovery *discovery, struct exchange *x, const struct identity *who,
                        const struct wanted *wanted, uint64_t now_ms)
{
    size_t own = sizeof(struct kube_visit) + wanted->path.len + wanted->known.len;
    struct kube_state *state = discovery->state;
    size_t bytes = own + kube_sight_bytes(state->catalog, who);
    struct shares_conn *share = exchange_share(x);
    bool has_room = shares_make_room(share, SHARES_REQUESTS, bytes);
    struct kube_visit *visit = has_room ? calloc(1, own) : NULL;
    if (visit == NULL) {
        answer_busy(x, "belfry: too many requests wait");
        return;
    }
    char *to = visit->text;
    visit->discovery = discovery;
    visit->x = x;
    visit->wanted = *wanted;
    visit->wanted.path = belfry_pack(&to, wanted->path);
    visit->wanted.known = belfry_pack(&to, wanted->known);
    visit->bytes = bytes;
    visit->share = share;
    shares_count(share, SHARES_REQUESTS, 0, bytes);
    belfry_list_append(&discovery->visits, &visit->link);
    if (kube_sight_ask(discovery->sight, state->catalog, who, now_ms, on_sight, visit, &visit->asker) != BELFRY_OK) {
        answer_busy(x, "belfry: too many requests wait for their rights");
        kube_visit_free(visit);
        return;
    }
    exchange_handle(x, &visit_events, visit);
}

void kube_discover(struct kube_discovery *discovery, struct exchange *x, const struct exchange_head *head,
                   uint64_t now_ms)
{
    const struct kube_state *state = discovery->state;
    struct belfry_bytes query, path = exchange_path(head, &query);
    bool is_head = belfry_bytes_equal(head->method, belfry_bytes_str("HEAD"));
    while (path.len > 1 && path.data[path.len - 1] == '/')
        path.len--;
    if (!is_head && !belfry_bytes_equal(head->method, belfry_bytes_str("GET"))) {
        answer_failure(x, KUBE_METHOD_NOT_ALLOWED, "the server does not allow this method on the requested resource");
        return;
    }
    if (is_probe(path)) {
        answer_probe(state, x, path, query);
        return;
    }
    struct identity who = identity_read(x, head, IDENTITY_OF_KUBE);
    bool has_two = is_path(path, "/api") || is_path(path, "/apis");
    unsigned forms = 1u << KUBE_FORM_JSON | (has_two ? 1u << KUBE_FORM_DISCOVERY : 0);
    enum kube_form form = kube_accept(exchange_field(head, "accept"), forms);
    struct wanted wanted = {.path = path,
                            .known = exchange_field(head, "if-none-match"),
                            .aggregated = form == KUBE_FORM_DISCOVERY,
                            .head_only = is_head};
    if (is_under(path, "/openapi/v2"))
        answer_failure(x, KUBE_NOT_FOUND, "the server could not find the requested resource");
    else if (state->catalog == NULL)
        answer_no_resource(state, x);
    else if (form == KUBE_FORM_NONE)
        answer_failure(x, KUBE_NOT_ACCEPTABLE, "only the following media types are accepted: application/json");
    else if (!permit_is_open_to(discovery->permit, &who, now_ms))
        begin_visit(discovery, x, &who, &wanted, now_ms);
    else if (answer_document(state->catalog, x, &wanted) != BELFRY_OK)
        answer_no_resource(state, x);
}

/* ---- create and destroy ---- */

enum belfry_err kube_discovery_init(struct kube_discovery *discovery, struct kube_state *state, struct permit *permit)
{
    *discovery = (struct kube_discovery){.state = state, .permit = permit};
    belfry_list_init(&discovery->visits);
    return kube_sight_create(permit, &discovery->sight);
}

void kube_discovery_fini(struct kube_discovery *discovery, const struct kube_status *status)
{
    while (!belfry_list_empty(&discovery->visits))
        kube_visit_fail(belfry_container(discovery->visits.next, struct kube_visit, link), status);
    kube_sight_destroy(discovery->sight);
}

void kube_discovery_forget(struct kube_discovery *discovery)
{
    kube_sight_forget(discovery->sight);
}
