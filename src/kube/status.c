/* src/kube/status.c */
#include "kube/status.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "json/json.h"

static const struct {
    int code;
    const char *name;
} reasons[] = {
    [KUBE_BAD_REQUEST] = {400, "BadRequest"},
    [KUBE_UNAUTHORIZED] = {401, "Unauthorized"},
    [KUBE_FORBIDDEN] = {403, "Forbidden"},
    [KUBE_NOT_FOUND] = {404, "NotFound"},
    [KUBE_METHOD_NOT_ALLOWED] = {405, "MethodNotAllowed"},
    [KUBE_NOT_ACCEPTABLE] = {406, "NotAcceptable"},
    [KUBE_EXPIRED] = {410, "Expired"},
    [KUBE_UNSUPPORTED_MEDIA_TYPE] = {415, "UnsupportedMediaType"},
    [KUBE_INVALID] = {422, "Invalid"},
    [KUBE_TOO_MANY_REQUESTS] = {429, "TooManyRequests"},
    [KUBE_INTERNAL_ERROR] = {500, "InternalError"},
    [KUBE_SERVICE_UNAVAILABLE] = {503, "ServiceUnavailable"},
    [KUBE_TIMEOUT] = {504, "Timeout"},
};

int kube_reason_code(enum kube_reason reason)
{
    return reasons[reason].code;
}

const char *kube_reason_name(enum kube_reason reason)
{
    return reasons[reason].name;
}

void kube_status_set(struct kube_status *status, enum kube_reason reason, const char *format, ...)
{
    va_list args;
    *status = (struct kube_status){.reason = reason};
    va_start(args, format);
    vsnprintf(status->message, sizeof(status->message), format, args);
    va_end(args);
}

void kube_status_cause(struct kube_status *status, const char *reason, const char *message, const char *field)
{
    assert(status->n_causes < KUBE_CAUSES_MAX);
    status->causes[status->n_causes++] = (struct kube_cause){.reason = reason, .message = message, .field = field};
}

static void write_known(struct belfry_json *json, const char *name, struct belfry_bytes value)
{
    if (value.len > 0)
        belfry_json_text(json, name, value);
}

static void write_causes(struct belfry_json *json, const struct kube_status *status)
{
    if (status->n_causes == 0)
        return;
    belfry_json_open(json, "causes", '[');
    for (size_t i = 0; i < status->n_causes; i++) {
        const struct kube_cause *cause = &status->causes[i];
        belfry_json_open(json, NULL, '{');
        belfry_json_str(json, "reason", cause->reason);
        belfry_json_str(json, "message", cause->message);
        if (cause->field != NULL && cause->field[0] != '\0')
            belfry_json_str(json, "field", cause->field);
        belfry_json_close(json, '}');
    }
    belfry_json_close(json, ']');
}

static void write_details(struct belfry_json *json, const struct kube_status *status)
{
    bool about = status->name.len > 0 || status->group.len > 0 || status->kind.len > 0;
    if (!about && status->n_causes == 0 && status->retry_after_s == 0)
        return;
    belfry_json_open(json, "details", '{');
    write_known(json, "name", status->name);
    write_known(json, "group", status->group);
    write_known(json, "kind", status->kind);
    write_causes(json, status);
    if (status->retry_after_s > 0)
        belfry_json_uint(json, "retryAfterSeconds", status->retry_after_s);
    belfry_json_close(json, '}');
}

enum belfry_err kube_status_write(const struct kube_status *status, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "kind", "Status");
    belfry_json_str(&json, "apiVersion", "v1");
    belfry_json_open(&json, "metadata", '{');
    write_known(&json, "continue", status->continue_with);
    belfry_json_close(&json, '}');
    belfry_json_str(&json, "status", "Failure");
    belfry_json_str(&json, "message", status->message);
    belfry_json_str(&json, "reason", kube_reason_name(status->reason));
    write_details(&json, status);
    belfry_json_int(&json, "code", kube_reason_code(status->reason));
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}

void kube_status_expired(struct kube_status *status, int64_t asked, int64_t oldest)
{
    kube_status_set(status, KUBE_EXPIRED, "too old resource version: %lld (%lld)", (long long)asked, (long long)oldest);
}

void kube_status_too_large(struct kube_status *status, int64_t asked, int64_t current)
{
    kube_status_set(status, KUBE_TIMEOUT, "Timeout: Too large resource version: %lld, current: %lld", (long long)asked,
                    (long long)current);
    kube_status_cause(status, "ResourceVersionTooLarge", "Too large resource version", NULL);
    status->retry_after_s = 1;
}
