/* src/net/grpc_head.c */
#include "net/grpc_head.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_MAX 99999999u

/* gRPC keeps names that begin with "grpc-" for itself. */
static bool is_allowed(const struct belfry_http_field *field)
{
    return field->name.len > 0 && field->name.data[0] != ':' &&
           nghttp2_check_header_name((const uint8_t *)field->name.data, field->name.len) != 0 &&
           !belfry_bytes_begins(field->name, belfry_bytes_str("grpc-")) && belfry_http_is_value(field->value);
}

enum belfry_err belfry_grpc_head_create(const struct belfry_http_common *common,
                                        const struct belfry_grpc_call_opts *opts, struct belfry_http_ask **out)
{
    for (size_t i = 0; i < opts->n_metadata; i++) {
        if (!is_allowed(&opts->metadata[i]))
            return BELFRY_ERR_INVALID;
    }
    const struct belfry_http_field fields[] = {
        {belfry_bytes_str("content-type"), belfry_bytes_str("application/grpc")},
        {belfry_bytes_str("te"), belfry_bytes_str("trailers")},
        {belfry_bytes_str("grpc-accept-encoding"), belfry_bytes_str("gzip,identity")},
        {belfry_bytes_str("user-agent"), belfry_bytes_str(common->user_agent)},
        {belfry_bytes_str("belfry-via"), belfry_bytes_str(common->via != NULL ? common->via : "")},
    };
    struct belfry_http_ask_opts ask = {.method = belfry_bytes_str("POST"),
                                       .target = belfry_bytes_str(opts->path),
                                       .fields = fields,
                                       .n_fields = sizeof(fields) / sizeof(fields[0]) - (common->via == NULL),
                                       .more = opts->metadata,
                                       .n_more = opts->n_metadata};
    return belfry_http_ask_create(&ask, out);
}

void belfry_grpc_timeout(uint64_t ms, char to[BELFRY_GRPC_TIMEOUT_BYTES])
{
    static const struct {
        char unit;
        uint64_t ms;
    } units[] = {{'m', 1}, {'S', 1000}, {'M', 60 * 1000}, {'H', 60 * 60 * 1000}};
    size_t i = 0;
    uint64_t n = ms;
    while (n > TIMEOUT_MAX && i + 1 < sizeof(units) / sizeof(units[0])) {
        i++;
        n = ms / units[i].ms + (ms % units[i].ms != 0);
    }
    /* 99,999,999 hours are 11,000 years. */
    snprintf(to, BELFRY_GRPC_TIMEOUT_BYTES, "%" PRIu32 "%c", (uint32_t)(n > TIMEOUT_MAX ? TIMEOUT_MAX : n),
             units[i].unit);
}
