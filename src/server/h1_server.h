/* src/server/h1_server.h
 *
 * h1_server: the server side of one HTTP/1.1 connection, without the socket; llhttp does the parsing. One exchange is
 * open at a time; pipelined requests wait unread.
 *
 * Responses: without content-length the body is chunked (HTTP/1.0: ended by closing). exchange_answer() sends
 * content-length. HEAD has no body. "Expect: 100-continue" is answered when begin() has returned with the exchange open
 * and no response begun.
 *
 * Requests: names of header fields become lower case; :authority is Host. A head over H1_SERVER_HEAD_BYTES is answered
 * 431. Obsolete folding, a bare CR, content-length together with transfer-encoding, and anything else that llhttp
 * (strict) cannot parse is answered 400. Both close the connection.
 *
 * Thread: owner. Pure: no socket.
 * Memory: between two requests a connection holds no buffer; goal: an idle watch connection takes at most 4 KiB in all.
 */
#ifndef BELFRY_SERVER_H1_SERVER_H
#define BELFRY_SERVER_H1_SERVER_H

#include "base/buf.h"
#include "server/exchange.h"

#define H1_SERVER_HEAD_BYTES (32 * 1024)

struct h1_server;

struct h1_server_opts {
    struct exchange_conn *conn;
    exchange_begin_fn begin;
    void *user;
    void (*wants_flush)(void *user); /* as in h2_server.h */
    void *flush_user;
};

BELFRY_NODISCARD enum belfry_err h1_server_create(const struct h1_server_opts *opts, struct h1_server **out);
void h1_server_destroy(struct h1_server *h1); /* the exchange receives `gone`; NULL is fine */

/* Takes all bytes. Those of a later request, or of a body that the handler does not take, are kept;
 * h1_server_wants_read() is false until they are used. Errors: BELFRY_ERR_PROTOCOL (answered already: pull, then
 * close), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err h1_server_receive(struct h1_server *h1, struct belfry_bytes bytes);
bool h1_server_wants_read(const struct h1_server *h1);

/* The peer sends no more (a half-closed socket). A response that has begun goes on. */
void h1_server_input_ended(struct h1_server *h1);

/* Appends all that is to be sent. */
BELFRY_NODISCARD enum belfry_err h1_server_pull(struct h1_server *h1, size_t enough, struct belfry_buf *out);
bool h1_server_wants_write(const struct h1_server *h1);
bool h1_server_over(const struct h1_server *h1); /* everything was pulled: write it and close the socket */

/* As in h2_server.h. shut: "connection: close". No request follows the one that runs, or the first if there was
 * none. */
void h1_server_unhold(struct h1_server *h1);
void h1_server_hold(struct h1_server *h1);
void h1_server_shut(struct h1_server *h1);
bool h1_server_in_head(const struct h1_server *h1); /* a request's head is begun and not complete */
size_t h1_server_open(const struct h1_server *h1);
size_t h1_server_bytes(const struct h1_server *h1);

#endif
