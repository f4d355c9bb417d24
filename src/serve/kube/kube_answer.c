/* src/serve/kube/kube_answer.c */
#include "serve/kube/kube_answer.h"

#include <stdio.h>

static struct belfry_http_field field(const char *name, struct belfry_bytes value)
{
    return (struct belfry_http_field){belfry_bytes_str(name), value};
}

static const char json_type[] = "application/json";

void kube_answer_status(struct exchange *x, const struct kube_status *status)
{
    struct belfry_http_field fields[4] = {field("content-type", belfry_bytes_str(json_type)),
                                          field("cache-control", belfry_bytes_str("no-cache, private"))};
    struct belfry_buf body;
    char seconds[16];
    size_t n = 2;
    if (status->retry_after_s > 0) {
        snprintf(seconds, sizeof(seconds), "%u", status->retry_after_s);
        fields[n++] = field("retry-after", belfry_bytes_str(seconds));
    }
    if (status->reason == KUBE_METHOD_NOT_ALLOWED)
        fields[n++] = field("allow", belfry_bytes_str("GET, HEAD"));
    belfry_buf_init(&body);
    if (kube_status_write(status, &body) != BELFRY_OK || belfry_buf_append(&body, "\n", 1) != BELFRY_OK)
        belfry_buf_clear(&body);
    exchange_answer(x, kube_reason_code(status->reason), fields, n, belfry_buf_bytes(&body));
    belfry_buf_fini(&body);
}

void kube_answer_failure(struct exchange *x, enum kube_reason reason, const char *why)
{
    struct kube_status status;
    kube_status_set(&status, reason, "%s", why);
    status.retry_after_s = reason == KUBE_SERVICE_UNAVAILABLE || reason == KUBE_TOO_MANY_REQUESTS;
    kube_answer_status(x, &status);
}

void kube_answer_json(struct exchange *x, struct belfry_bytes type, struct belfry_bytes etag, struct belfry_bytes body)
{
    struct belfry_http_field fields[] = {field("content-type", type), field("vary", belfry_bytes_str("Accept")),
                                         field("etag", etag)};
    exchange_answer(x, 200, fields, etag.len == 0 ? 2 : 3, body);
}

void kube_answer_begin(struct exchange *x)
{
    struct belfry_http_field fields[] = {field("content-type", belfry_bytes_str(json_type)),
                                         field("cache-control", belfry_bytes_str("no-cache, private"))};
    exchange_respond(x, 200, fields, 2);
}

void kube_status_no_resource(struct kube_status *status, enum kube_catalog_extent extent)
{
    if (extent == KUBE_CATALOG_PART)
        kube_status_busy(status, "belfry: not all definitions have been read");
    else
        kube_status_set(status, KUBE_NOT_FOUND, "the server could not find the requested resource");
}

void kube_status_no_fence(struct kube_status *status, enum belfry_err err, const struct identity *who)
{
    if (who->rights == LISTEN_RIGHTS_OPEN && who->kind != IDENTITY_TOKEN)
        kube_status_set(status, KUBE_FORBIDDEN,
                        "belfry: upstream does not tell this tier its newest revision: add resourceVersion=0 to the "
                        "request, or give the tier a certificate with the name of its user");
    else if (err == BELFRY_ERR_AUTH)
        kube_status_set(status, KUBE_UNAUTHORIZED, "Unauthorized");
    else
        kube_status_set(status, KUBE_FORBIDDEN, "upstream does not allow these keys to this user");
}

void kube_status_drain(struct kube_status *status)
{
    kube_status_set(status, KUBE_SERVICE_UNAVAILABLE, "belfry: draining; connect anew");
    status->retry_after_s = 1;
}

void kube_status_busy(struct kube_status *status, const char *why)
{
    kube_status_set(status, KUBE_TOO_MANY_REQUESTS, "%s, please try again later", why);
    status->retry_after_s = 1;
}
