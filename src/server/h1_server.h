/* src/server/h1_server.h
 *
 * h1_server: the server side of one HTTP/1.1 connection, without the socket; llhttp does the parsing. One exchange at a
 * time: what is pipelined behind it waits unread.
 *
 * A response without content-length is chunked (HTTP/1.0: ended by closing). exchange_answer() sends content-length. HEAD
 * gets no body. "Expect: 100-continue" is answered when the handler first takes or when begin() returned with a handler
 * that did not end the exchange. A head over H1_SERVER_HEAD_BYTES is answered 431, one that cannot be parsed 400, and the
 * connection closes. Header fields: names to lower case; :authority is Host; obsolete folding, bare CR, both
 * content-length and transfer-encoding: 400 (llhttp strict).
 *
 * Thread: owner. Pure: no socket.
 * Memory: a connection between two requests holds no buffer; goal: idle watch connection <= 4 KiB in all.
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
void h1_server_destroy(struct h1_server *h1); /* the exchange is told `gone`; NULL is fine */

/* Takes bytes, all of them: what belongs to a later request, or to a body that is not taken, is kept, and
 * h1_server_wants_read() says no until it was used. Errors: BELFRY_ERR_PROTOCOL (answered already: pull, then close),
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err h1_server_receive(struct h1_server *h1, struct belfry_bytes bytes);
bool h1_server_wants_read(const struct h1_server *h1);

/* The peer sends no more (a half-closed socket): a response under way goes on. */
void h1_server_input_ended(struct h1_server *h1);

/* Appends all that is to be sent. */
BELFRY_NODISCARD enum belfry_err h1_server_pull(struct h1_server *h1, size_t enough, struct belfry_buf *out);
bool h1_server_wants_write(const struct h1_server *h1);
bool h1_server_over(const struct h1_server *h1); /* all was said: close the socket when it is written */

/* As in h2_server.h. shut: no further request after the one that runs, or the first if there was
 * none yet ("connection: close"). */
void h1_server_unhold(struct h1_server *h1);
void h1_server_hold(struct h1_server *h1);
void h1_server_shut(struct h1_server *h1);
bool h1_server_in_head(const struct h1_server *h1); /* a request's head is begun and not complete */
size_t h1_server_open(const struct h1_server *h1);
size_t h1_server_bytes(const struct h1_server *h1);

#endif
