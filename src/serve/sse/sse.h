/* src/serve/sse/sse.h
 *
 * sse: Server-Sent Events over exchanges.
 *
 *     GET  /v1/events?...      a stream: sse_query.h says what may be asked for, sse_stream.h how it is served
 *     POST /v1/ticket          a ticket for the credential of the request (ticket.h), for ?ticket= of the first
 *     GET  /belfry.js          a client of it for web pages
 *     OPTIONS of the same      what a page of another origin may ask for (CORS)
 *
 * The Last-Event-ID of the head wins over that of the query, and both over snapshot=1.
 *
 * A page of another origin may read an answer only if its origin is one of opts.origins.
 *
 * Thread: owner (the worker's).
 */
#ifndef BELFRY_SERVE_SSE_SSE_H
#define BELFRY_SERVE_SSE_SSE_H

#include "serve/sse/sse_stream.h"
#include "server/cors.h"

struct sse;

struct sse_opts {
    struct sse_streams_opts streams;
    struct belfry_bytes scope;   /* as in watch.h */
    struct cors_origins origins; /* lent */
};

BELFRY_NODISCARD enum belfry_err sse_create(const struct sse_opts *opts, struct sse **out);
void sse_destroy(struct sse *sse); /* every stream ends; before its worker; NULL is fine */
struct sse_streams *sse_streams(struct sse *sse);

bool sse_is(struct belfry_bytes path);
void sse_begin(struct sse *sse, struct exchange *x, const struct exchange_head *head, uint64_t now_ms);

/* A tier that cannot serve tells clients to come again. */
void sse_stand(struct sse *sse, bool serves);

#endif
