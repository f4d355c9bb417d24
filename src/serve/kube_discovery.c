/* src/serve/kube_discovery.c: what is served, and whether: the documents that clients read first, and the probes. */
#include <stdio.h>

#include "kube/accept.h"
#include "serve/kube_answer.h"
#include "serve/kube_private.h"

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

bool kube_is(struct belfry_bytes path)
{
    return is_under(path, "/api") || is_under(path, "/apis") || is_under(path, "/openapi") || is_probe(path);
}

/* ---- probes ---- */

static bool wants_more(struct belfry_bytes query)
{
    return belfry_bytes_begins(query, belfry_bytes_str("verbose"));
}

/* A tier that only waits for upstream is alive: to start it again would help nobody. */
static void answer_probe(const struct kube_service *service, struct exchange *x, struct belfry_bytes path,
                         struct belfry_bytes query)
{
    const struct exchange_field type = {belfry_bytes_str("content-type"),
                                        belfry_bytes_str("text/plain; charset=utf-8")};
    bool well = is_path(path, "/livez") || (service->ready && !service->announced);
    char text[KUBE_REASON_MAX + 64];
    if (!well)
        snprintf(text, sizeof(text), "[-]upstream failed: %s\n%.*s check failed\n",
                 service->announced ? "draining" : service->reason, (int)path.len - 1, path.data + 1);
    else if (wants_more(query))
        snprintf(text, sizeof(text), "[+]upstream ok\n%.*s check passed\n", (int)path.len - 1, path.data + 1);
    else
        snprintf(text, sizeof(text), "ok");
    exchange_answer(x, well ? 200 : 500, &type, 1, belfry_bytes_str(text));
}

/* ---- documents ---- */

void kube_status_no_resource(const struct kube_service *service, struct kube_status *status)
{
    if (service->extent == KUBE_CATALOG_PART)
        kube_status_busy(status, "belfry: not all definitions have been read");
    else
        kube_status_set(status, KUBE_NOT_FOUND, "the server could not find the requested resource");
}

static void answer_no_resource(const struct kube_service *service, struct exchange *x)
{
    struct kube_status status;
    kube_status_no_resource(service, &status);
    kube_answer_status(x, &status);
}

static void answer_not_found(struct exchange *x)
{
    struct kube_status status;
    kube_status_set(&status, KUBE_NOT_FOUND, "the server could not find the requested resource");
    kube_answer_status(x, &status);
}

static void answer_not_acceptable(struct exchange *x)
{
    struct kube_status status;
    kube_status_set(&status, KUBE_NOT_ACCEPTABLE, "only the following media types are accepted: application/json");
    kube_answer_status(x, &status);
}

/* True: the client has it already, and was told so. */
static bool answer_unchanged(struct exchange *x, const struct exchange_head *head, struct belfry_bytes etag)
{
    const struct exchange_field field = {belfry_bytes_str("etag"), etag};
    if (!belfry_bytes_equal(exchange_field(head, "if-none-match"), etag))
        return false;
    exchange_answer(x, 304, &field, 1, (struct belfry_bytes){0});
    return true;
}

static void answer_document(const struct kube_service *service, struct exchange *x, const struct exchange_head *head,
                            struct belfry_bytes path, bool aggregated)
{
    bool head_only = belfry_bytes_equal(head->method, belfry_bytes_str("HEAD"));
    struct belfry_buf body;
    char etag[32];
    snprintf(etag, sizeof(etag), "\"%016llx%s\"", (unsigned long long)kube_catalog_hash(service->catalog),
             aggregated ? "a" : "");
    belfry_buf_init(&body);
    enum belfry_err err = kube_catalog_document(service->catalog, path, aggregated, &body);
    if (err == BELFRY_ERR_NOT_FOUND) {
        answer_no_resource(service, x);
    } else if (err != BELFRY_OK) {
        struct kube_status status;
        kube_status_busy(&status, "belfry: memory limit reached");
        kube_answer_status(x, &status);
    } else if (!answer_unchanged(x, head, belfry_bytes_str(etag))) {
        kube_answer_json(x, belfry_bytes_str(aggregated ? TYPE_AGGREGATED : "application/json"), belfry_bytes_str(etag),
                         head_only ? (struct belfry_bytes){0} : belfry_buf_bytes(&body));
    }
    belfry_buf_fini(&body);
}

static bool may_read(const struct exchange_head *head)
{
    return belfry_bytes_equal(head->method, belfry_bytes_str("GET")) ||
           belfry_bytes_equal(head->method, belfry_bytes_str("HEAD"));
}

void kube_discover(struct kube_service *service, struct exchange *x, const struct exchange_head *head,
                   struct belfry_bytes path, struct belfry_bytes query)
{
    while (path.len > 1 && path.data[path.len - 1] == '/')
        path.len--;
    bool has_two = is_path(path, "/api") || is_path(path, "/apis");
    if (!may_read(head)) {
        struct kube_status status;
        kube_status_set(&status, KUBE_METHOD_NOT_ALLOWED,
                        "the server does not allow this method on the requested resource");
        kube_answer_status(x, &status);
        return;
    }
    if (is_probe(path)) {
        answer_probe(service, x, path, query);
        return;
    }
    unsigned forms = 1u << KUBE_FORM_JSON | (has_two ? 1u << KUBE_FORM_DISCOVERY : 0);
    enum kube_form form = kube_accept(exchange_field(head, "accept"), forms);
    if (is_under(path, "/openapi/v2"))
        answer_not_found(x);
    else if (service->catalog == NULL)
        answer_no_resource(service, x);
    else if (form == KUBE_FORM_NONE)
        answer_not_acceptable(x);
    else
        answer_document(service, x, head, path, form == KUBE_FORM_DISCOVERY);
}
