/* src/net/grpc_head.h
 *
 * grpc_head: the request head of a gRPC call.
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_NET_GRPC_HEAD_H
#define BELFRY_NET_GRPC_HEAD_H

#include <stdint.h>

#include "net/grpc.h"

#define BELFRY_GRPC_TIMEOUT_BYTES 10 /* eight digits, a unit, NUL */

/* The caller ends *out with belfry_http_ask_destroy().
 * Errors: BELFRY_ERR_INVALID (a name or value that HTTP/2 or gRPC does not allow, or over BELFRY_HTTP_ASK_BYTES),
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_grpc_head_create(const struct belfry_http_common *common,
                                                         const struct belfry_grpc_call_opts *opts,
                                                         struct belfry_http_ask **out);

/* A grpc-timeout of at least `ms`: the finest unit that fits eight digits, rounded up. */
void belfry_grpc_timeout(uint64_t ms, char to[BELFRY_GRPC_TIMEOUT_BYTES]);

#endif
