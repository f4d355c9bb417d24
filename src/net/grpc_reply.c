/* src/net/grpc_reply.c */
#include "net/grpc_reply.h"

#include <stdlib.h>

#include <nghttp2/nghttp2.h>

#include "net/percent.h"

void belfry_grpc_reply_init(struct belfry_grpc_reply *reply)
{
    *reply = (struct belfry_grpc_reply){.code = -1};
}

void belfry_grpc_reply_fini(struct belfry_grpc_reply *reply)
{
    free(reply->message);
    belfry_grpc_reply_init(reply);
}

/* -1 when `text` is not one to nine digits. */
static int digits(struct belfry_bytes text)
{
    if (text.len == 0 || text.len > 9)
        return -1;
    int n = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return -1;
        n = n * 10 + (text.data[i] - '0');
    }
    return n;
}

enum belfry_err belfry_grpc_reply_field(struct belfry_grpc_reply *reply, struct belfry_bytes name,
                                        struct belfry_bytes value)
{
    if (belfry_bytes_equal(name, belfry_bytes_str(":status"))) {
        reply->http_status = digits(value);
    } else if (belfry_bytes_equal(name, belfry_bytes_str("content-type"))) {
        size_t n = value.len < sizeof(reply->type) - 1 ? value.len : sizeof(reply->type) - 1;
        memcpy(reply->type, value.data, n);
        reply->type[n] = '\0';
    } else if (belfry_bytes_equal(name, belfry_bytes_str("grpc-encoding"))) {
        reply->encoding = belfry_bytes_equal(value, belfry_bytes_str("gzip"))       ? BELFRY_GRPC_GZIP
                          : belfry_bytes_equal(value, belfry_bytes_str("identity")) ? BELFRY_GRPC_IDENTITY
                                                                                    : BELFRY_GRPC_OTHER_ENCODING;
    } else if (belfry_bytes_equal(name, belfry_bytes_str("grpc-status"))) {
        int code = digits(value);
        reply->code_malformed = code < 0;
        reply->code = code < 0 || code > BELFRY_GRPC_UNAUTHENTICATED ? BELFRY_GRPC_UNKNOWN : code;
    } else if (belfry_bytes_equal(name, belfry_bytes_str("grpc-message"))) {
        char *message = malloc(value.len + 1);
        if (message == NULL)
            return BELFRY_ERR_NOMEM;
        belfry_percent_decode(value, message);
        free(reply->message);
        reply->message = message;
    }
    return BELFRY_OK;
}

bool belfry_grpc_reply_is_grpc(const struct belfry_grpc_reply *reply)
{
    static const char grpc[] = "application/grpc";
    size_t n = sizeof(grpc) - 1;
    if (strncmp(reply->type, grpc, n) != 0)
        return false;
    return reply->type[n] == '\0' || reply->type[n] == '+' || reply->type[n] == ';';
}

int belfry_grpc_code_of_http(int http_status)
{
    switch (http_status) {
    case 400:
    case 431:
        return BELFRY_GRPC_INTERNAL;
    case 401:
        return BELFRY_GRPC_UNAUTHENTICATED;
    case 403:
        return BELFRY_GRPC_PERMISSION_DENIED;
    case 404:
        return BELFRY_GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return BELFRY_GRPC_UNAVAILABLE;
    default:
        return BELFRY_GRPC_UNKNOWN;
    }
}

int belfry_grpc_code_of_h2(uint32_t error_code)
{
    switch (error_code) {
    case NGHTTP2_REFUSED_STREAM:
        return BELFRY_GRPC_UNAVAILABLE;
    case NGHTTP2_CANCEL:
        return BELFRY_GRPC_CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM:
        return BELFRY_GRPC_RESOURCE_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY:
        return BELFRY_GRPC_PERMISSION_DENIED;
    case NGHTTP2_NO_ERROR:
    case NGHTTP2_PROTOCOL_ERROR:
    case NGHTTP2_INTERNAL_ERROR:
    case NGHTTP2_FLOW_CONTROL_ERROR:
    case NGHTTP2_SETTINGS_TIMEOUT:
    case NGHTTP2_FRAME_SIZE_ERROR:
    case NGHTTP2_COMPRESSION_ERROR:
    case NGHTTP2_CONNECT_ERROR:
        return BELFRY_GRPC_INTERNAL;
    default:
        return BELFRY_GRPC_UNKNOWN;
    }
}
