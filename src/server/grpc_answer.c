/* src/server/grpc_answer.c */
#include "server/grpc_answer.h"

#include <stdio.h>

#include "net/grpc_frame.h"
#include "net/percent.h"

#define MESSAGE_MAX 1024 /* of a grpc-message, before it is encoded; a longer one is cut */
#define TYPE        "application/grpc"

static struct belfry_http_field field(const char *name, struct belfry_bytes value)
{
    return (struct belfry_http_field){belfry_bytes_str(name), value};
}

/* ---- answers ---- */

/* Storage for the texts of the two status fields. */
struct status_room {
    char code[12], message[3 * MESSAGE_MAX + 1];
};

static size_t status_fields(int code, const char *message, struct status_room *room, struct belfry_http_field *out)
{
    int code_len = snprintf(room->code, sizeof(room->code), "%d", code);
    size_t len = belfry_percent_encode(belfry_bytes_of(message, strnlen(message, MESSAGE_MAX)), room->message);
    out[0] = field("grpc-status", belfry_bytes_of(room->code, (size_t)code_len));
    out[1] = field("grpc-message", belfry_bytes_of(room->message, len));
    return 2;
}

/* more: NULL, or one more field. */
static void answer_status(struct exchange *x, int http_status, int code, const char *message,
                          const struct belfry_http_field *more)
{
    struct status_room room;
    struct belfry_http_field fields[4] = {field("content-type", belfry_bytes_str(TYPE))};
    size_t n = 1 + status_fields(code, message, &room, fields + 1);
    if (more != NULL)
        fields[n++] = *more;
    exchange_answer(x, http_status, fields, n, (struct belfry_bytes){0});
}

void grpc_fail(struct exchange *x, enum grpc_headers headers, int code, const char *message)
{
    if (headers == GRPC_HEADERS_NOT_SENT) {
        answer_status(x, 200, code, message, NULL);
        return;
    }
    struct status_room room;
    struct belfry_http_field trailers[2];
    exchange_end(x, trailers, status_fields(code, message, &room, trailers));
}

void grpc_fail_with(struct exchange *x, int code, const char *message, const struct belfry_http_field *more)
{
    answer_status(x, 200, code, message, more);
}

void grpc_begin(struct exchange *x, struct belfry_bytes content_type)
{
    struct belfry_http_field fields[1] = {field("content-type", content_type)};
    exchange_respond(x, 200, fields, 1);
}

void grpc_reply(struct exchange *x, struct belfry_bytes content_type, struct belfry_bytes message)
{
    uint8_t prefix[BELFRY_GRPC_PREFIX_BYTES];
    belfry_grpc_frame_prefix(prefix, message.len);
    grpc_begin(x, content_type);
    exchange_write(x, prefix, sizeof(prefix));
    exchange_write(x, message.data, message.len);
    grpc_fail(x, GRPC_HEADERS_SENT, 0, "");
}

/* ---- heads ---- */

/* "application/grpc", alone or with "+subtype" or ";parameters". */
static bool is_grpc_type(struct belfry_bytes type)
{
    struct belfry_bytes wanted = belfry_bytes_str(TYPE);
    if (!belfry_bytes_begins(type, wanted))
        return false;
    return type.len == wanted.len || type.data[wanted.len] == '+' || type.data[wanted.len] == ';';
}

static bool is_post(const struct exchange_head *head)
{
    return belfry_bytes_equal(head->method, belfry_bytes_str("POST"));
}

bool grpc_is(const struct exchange_head *head)
{
    return is_post(head) && is_grpc_type(exchange_field(head, "content-type"));
}

/* Nanoseconds in a unit of grpc-timeout; 0: no such unit. */
static uint64_t unit_ns(char unit)
{
    switch (unit) {
    case 'H':
        return 3600000000000u;
    case 'M':
        return 60000000000u;
    case 'S':
        return 1000000000u;
    case 'm':
        return 1000000u;
    case 'u':
        return 1000u;
    case 'n':
        return 1u;
    default:
        return 0;
    }
}

#define TIMEOUT_DIGITS 8
#define NS_IN_MS       1000000u

static bool parse_timeout(struct belfry_bytes text, uint64_t *out_ms)
{
    if (text.len < 2 || text.len > TIMEOUT_DIGITS + 1)
        return false;
    uint64_t value = 0, ns = unit_ns(text.data[text.len - 1]);
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text.data[i] - '0');
    }
    if (ns == 0)
        return false;
    if (ns >= NS_IN_MS) /* 99,999,999 hours are more nanoseconds than 64 bits hold, but not more milliseconds */
        *out_ms = value * (ns / NS_IN_MS);
    else
        *out_ms = (value * ns + NS_IN_MS - 1) / NS_IN_MS;
    return true;
}

#define QUOTED_MAX 64 /* bytes of a peer's text that are quoted to it */

static void answer_refusal(struct exchange *x, int http_status, int code, const char *before,
                           struct belfry_bytes quoted, const char *after)
{
    char text[192];
    int len = (int)(quoted.len < QUOTED_MAX ? quoted.len : QUOTED_MAX);
    snprintf(text, sizeof(text), "%s\"%.*s\"%s", before, len, len == 0 ? "" : quoted.data, after);
    answer_status(x, http_status, code, text, NULL);
}

/* Checks in etcd's order. */
bool grpc_refuse_head(struct exchange *x, const struct exchange_head *head, uint64_t *timeout_ms)
{
    struct belfry_bytes type = exchange_field(head, "content-type"), timeout = exchange_field(head, "grpc-timeout");
    *timeout_ms = UINT64_MAX;
    if (!is_grpc_type(type))
        answer_refusal(x, 415, 3, "invalid gRPC request content-type ", type, "");
    else if (timeout.data != NULL && !parse_timeout(timeout, timeout_ms))
        answer_refusal(x, 400, 13, "malformed grpc-timeout: ", timeout, "");
    else if (!is_post(head))
        answer_refusal(x, 405, 13, "Received a HEADERS frame with :method ", head->method, " which should be POST");
    else
        return false;
    return true;
}
