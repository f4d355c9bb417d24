/* src/serve/json/gateway_error.c */
#include "serve/json/gateway_error.h"

#include "net/grpc.h"
#include "json/json.h"

int gateway_error_status(int code)
{
    static const int statuses[] = {[BELFRY_GRPC_OK] = 200,
                                   [BELFRY_GRPC_CANCELLED] = 499,
                                   [BELFRY_GRPC_UNKNOWN] = 500,
                                   [BELFRY_GRPC_INVALID_ARGUMENT] = 400,
                                   [BELFRY_GRPC_DEADLINE_EXCEEDED] = 504,
                                   [BELFRY_GRPC_NOT_FOUND] = 404,
                                   [BELFRY_GRPC_ALREADY_EXISTS] = 409,
                                   [BELFRY_GRPC_PERMISSION_DENIED] = 403,
                                   [BELFRY_GRPC_RESOURCE_EXHAUSTED] = 429,
                                   [BELFRY_GRPC_FAILED_PRECONDITION] = 400,
                                   [BELFRY_GRPC_ABORTED] = 409,
                                   [BELFRY_GRPC_OUT_OF_RANGE] = 400,
                                   [BELFRY_GRPC_UNIMPLEMENTED] = 501,
                                   [BELFRY_GRPC_INTERNAL] = 500,
                                   [BELFRY_GRPC_UNAVAILABLE] = 503,
                                   [BELFRY_GRPC_DATA_LOSS] = 500,
                                   [BELFRY_GRPC_UNAUTHENTICATED] = 401};
    return code >= 0 && code < (int)(sizeof(statuses) / sizeof(statuses[0])) ? statuses[code] : 500;
}

static const char *status_text(int status)
{
    switch (status) {
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 409:
        return "Conflict";
    case 429:
        return "Too Many Requests";
    case 501:
        return "Not Implemented";
    case 503:
        return "Service Unavailable";
    case 504:
        return "Gateway Timeout";
    default:
        return "Internal Server Error";
    }
}

enum belfry_err gateway_error_write(struct belfry_buf *out, bool is_line, int code, const char *message)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    if (is_line)
        belfry_json_open(&json, "error", '{');
    else
        belfry_json_str(&json, "error", message);
    belfry_json_str(&json, "message", message);
    belfry_json_int(&json, "code", code);
    belfry_json_int(&json, "grpc_code", code);
    if (is_line) {
        belfry_json_int(&json, "http_code", gateway_error_status(code));
        belfry_json_str(&json, "http_status", status_text(gateway_error_status(code)));
        belfry_json_close(&json, '}');
    }
    belfry_json_close(&json, '}');
    enum belfry_err err = belfry_json_finish(&json);
    return err == BELFRY_OK && is_line ? belfry_buf_append(out, "\n", 1) : err;
}
