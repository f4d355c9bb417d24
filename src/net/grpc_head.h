/* src/net/grpc_head.h
 *
 * grpc_head: the request headers of a call, kept from the time it is opened until they can be sent.
 *
 * Thread: owner. Pure.
 * Memory: one allocation, of at most about BELFRY_GRPC_HEAD_BYTES.
 */
#ifndef BELFRY_NET_GRPC_HEAD_H
#define BELFRY_NET_GRPC_HEAD_H

#include <stddef.h>
#include <stdint.h>

#include <nghttp2/nghttp2.h>

#include "base/err.h"
#include "net/grpc.h"

#define BELFRY_GRPC_HEAD_BYTES    (48 * 1024) /* names, values and 32 each; nghttp2 sends blocks of up to 64 KiB */
#define BELFRY_GRPC_TIMEOUT_BYTES 10          /* eight digits, a unit, NUL */

struct belfry_grpc_head;

/* What all calls of a connection have in common. */
struct belfry_grpc_origin {
    char *scheme, *authority, *user_agent; /* owned by the connection */
    char *via;                             /* likewise; NULL: none */
};

/* Copies everything it is given. The caller ends *out with free().
 * Errors: BELFRY_ERR_INVALID (a name or value that HTTP/2 or gRPC does not allow, or over BELFRY_GRPC_HEAD_BYTES),
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_grpc_head_create(const struct belfry_grpc_origin *origin,
                                                         const struct belfry_grpc_call_opts *opts,
                                                         struct belfry_grpc_head **out);

/* The fields, to be sent at `now_ms`: what is left until the deadline is written then. Lent until the next call. */
const nghttp2_nv *belfry_grpc_head_fields(struct belfry_grpc_head *head, uint64_t deadline_ms, uint64_t now_ms,
                                          size_t *out_n);

/* A grpc-timeout of at least `ms`: the finest unit that fits eight digits, rounded up. */
void belfry_grpc_timeout(uint64_t ms, char to[BELFRY_GRPC_TIMEOUT_BYTES]);

#endif
