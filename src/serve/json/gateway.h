/* src/serve/json/gateway.h
 *
 * gateway: etcd's JSON gateway: POST /v3/... with JSON instead of gRPC. It is a translator in front of the parts that
 * serve gRPC, and nothing else: to them a call of the gateway is an exchange like any other, with the connection, the
 * rights and the shares of its client.
 *
 *     client <--JSON--> exchange <--> gateway_call <--gRPC--> exchange <--> watch, reads, relay
 *
 * Requests are read value by value (json_values.h, json_read.h). Responses are translated as they are written
 * (json_pour.h), whatever their size. A response that goes on is a line for each message: {"result": ...}. A line is
 * one chunk of HTTP/1.1, unless more than GATEWAY_LINE_BYTES of it come before its end.
 *
 * Errors have what both forms of etcd's gateway have, with its HTTP status:
 *
 *     one answer   {"error": TEXT, "message": TEXT, "code": N, "grpc_code": N}
 *     lines        {"error": {"message": TEXT, "code": N, "grpc_code": N, "http_code": N, "http_status": TEXT}}
 *
 * Thread: owner (the worker's).
 * Memory: a call; of a request at most GATEWAY_VALUE_BYTES and what json_read() takes for it, counted to its client as
 * unfinished (shares.h); of a line that is under way at most GATEWAY_LINE_BYTES, counted as bytes of calls. Where these
 * are used up, a line is not kept for its end.
 */
#ifndef BELFRY_SERVE_JSON_GATEWAY_H
#define BELFRY_SERVE_JSON_GATEWAY_H

#include <uv.h>

#include "server/exchange.h"

#define GATEWAY_VALUE_BYTES ((size_t)4 * 1024 * 1024) /* of one request: etcd's largest in base64, with room */
#define GATEWAY_LINE_BYTES  ((size_t)16 * 1024)

struct gateway;

BELFRY_NODISCARD enum belfry_err gateway_create(uv_loop_t *loop, struct gateway **out);
void gateway_set_methods(struct gateway *gateway, exchange_begin_fn begin, void *user); /* who serves gRPC */
void gateway_destroy(struct gateway *gateway); /* after the last call; NULL is fine */

/* Is the path one of the gateway's, whether there is something there or not? */
bool gateway_is(struct belfry_bytes path);

void gateway_begin(struct gateway *gateway, struct exchange *x, const struct exchange_head *head);

struct gateway_stats {
    uint64_t calls, refused; /* refused: requests that are no JSON of their message */
};
void gateway_stats(const struct gateway *gateway, struct gateway_stats *out);

#endif
