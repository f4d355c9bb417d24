/* src/net/h1.h
 *
 * h1: the client side of one HTTP/1.1 connection, without the socket; llhttp reads the responses.
 *
 * It tells a response by the events of net/h2.h (field, block, data, end), so that a call need not know which version
 * carries it. One response at a time: belfry_h1_begin() says that its request was written. Names of fields are told in
 * lower case, values without blanks around them; trailers are not told.
 *
 * Thread: owner. Pure.
 * Memory: one field. Whatever is not body (heads, chunk sizes and their extensions, trailers) may come to
 *         BELFRY_H1_OVERHEAD_BYTES in one stretch; a peer that sends more is not answering.
 */
#ifndef BELFRY_NET_H1_H
#define BELFRY_NET_H1_H

#include "net/h2.h"

#define BELFRY_H1_OVERHEAD_BYTES (64 * 1024)

struct belfry_h1;

/* `leaving`: the server closes the connection after the response that is being received. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_h1_create(const struct belfry_h2_events *events, void (*leaving)(void *user),
                                                  void *user, struct belfry_h1 **out);
void belfry_h1_destroy(struct belfry_h1 *h1); /* NULL is fine */

/* A request was written; its response is told of `stream`. `is_head`: the method is HEAD, the response has no body. */
void belfry_h1_begin(struct belfry_h1 *h1, struct belfry_h2_stream *stream, bool is_head);

/* Errors: BELFRY_ERR_PROTOCOL, _TOO_LARGE (a head), _NOMEM, what an event returned; *why says it, lent. */
BELFRY_NODISCARD enum belfry_err belfry_h1_receive(struct belfry_h1 *h1, struct belfry_bytes bytes, const char **why);

/* The peer sends no more: the end of a response that has no other. */
void belfry_h1_finish(struct belfry_h1 *h1);

/* Nothing more is told of the stream. True when it was being received: the connection cannot be used any more. */
bool belfry_h1_forget(struct belfry_h1 *h1, const struct belfry_h2_stream *stream);

/* The stream whose response is being received; NULL: none. */
struct belfry_h2_stream *belfry_h1_current(const struct belfry_h1 *h1);

#endif
