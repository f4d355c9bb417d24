/* src/server/grpc_answer.h
 *
 * grpc_answer: gRPC responses that the tier makes itself.
 *
 * Thread: owner (the exchange's).
 */
#ifndef BELFRY_SERVER_GRPC_ANSWER_H
#define BELFRY_SERVER_GRPC_ANSWER_H

#include "server/exchange.h"

enum grpc_headers { GRPC_HEADERS_NOT_SENT, GRPC_HEADERS_SENT };

/* The exchange's last word: grpc-status and grpc-message (percent-encoded), trailers-only when no head was sent yet. */
void grpc_fail(struct exchange *x, enum grpc_headers headers, int code, const char *message);

/* The same, trailers-only, with one more field. */
void grpc_fail_with(struct exchange *x, int code, const char *message, const struct belfry_http_field *more);

/* Sends the head: 200, content-type as the request's (application/grpc with its subtype). */
void grpc_begin(struct exchange *x, struct belfry_bytes content_type);

/* A whole unary answer with status 0: head, one message, trailers. */
void grpc_reply(struct exchange *x, struct belfry_bytes content_type, struct belfry_bytes message);

/* Is it a gRPC request? POST and application/grpc (with or without a subtype; not gRPC-Web). */
bool grpc_is(const struct exchange_head *head);

/* Refuses a head that is not valid gRPC, or whose grpc-timeout is malformed, as etcd does (docs/spec/etcd-watch.md
 * 1.1). True: it was refused, which was the exchange's last word. Otherwise *timeout_ms receives grpc-timeout, rounded
 * up; UINT64_MAX: there is none. */
bool grpc_refuse_head(struct exchange *x, const struct exchange_head *head, uint64_t *timeout_ms);

#endif
