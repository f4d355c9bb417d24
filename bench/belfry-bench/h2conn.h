/* bench/belfry-bench/h2conn.h
 *
 * h2conn: the client's end of one HTTP/2 connection with gRPC calls on it, and as little as a load generator needs, so
 * that thousands of them cost less than the server that they measure.
 *
 * It behaves as grpc-go does by default, because a softer client would flatter the server: windows of 65,535 bytes that
 * never grow, given back when a quarter is used; and after the first DATA with no such ping under way a PING that
 * estimates the bandwidth, with the connection's window given back before it. Messages are handed on as they are
 * complete, from the read buffer if they lie in it whole.
 *
 *                    connected                 any fault
 *     H2CONN_CONNECTING ----> H2CONN_OPEN ----------------> H2CONN_CLOSED
 *             `-> H2CONN_SHAKING --^  with TLS
 *
 * Thread: owner, that of its poller.
 * Memory: a few hundred bytes, a header table once the server has answered, and what is not complete yet.
 */
#ifndef BENCH_H2CONN_H
#define BENCH_H2CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "net/tls_conn.h"
#include "poller.h"
#include "target.h"

struct h2conn;

enum h2conn_state { H2CONN_CONNECTING, H2CONN_SHAKING, H2CONN_OPEN, H2CONN_CLOSED };

struct h2conn_events {
    /* A gRPC message came on the call. Lent for the call. */
    void (*message)(void *user, uint32_t call, struct belfry_bytes message);
    /* The call ended: grpc-status, -1 when there was none; `text` is grpc-message or what else is known. The call's
     * number may be used again from here on. */
    void (*ended)(void *user, uint32_t call, int status, const char *text);
    /* The connection has failed; no event comes after this one. */
    void (*failed)(void *user, const char *why);
};

/* Begins to connect. Up to `max_calls` calls can be open at a time. Dies when no socket can be had. `events` and `user`
 * are lent until h2conn_destroy(). */
struct h2conn *h2conn_create(int poll, const struct target *target, uint32_t max_calls,
                             const struct h2conn_events *events, void *user);

/* For tests: as h2conn_create(), on a stream socket that is connected, and with `tls`, which may be NULL; consuming
 * both. */
struct h2conn *h2conn_create_on(int poll, int fd, struct belfry_tls_conn *tls, uint32_t max_calls,
                                const struct h2conn_events *events, void *user);
void h2conn_destroy(struct h2conn *conn);
enum h2conn_state h2conn_state(const struct h2conn *conn);
uint64_t h2conn_bytes_read(const struct h2conn *conn);

/* Every call from here on has `token` in its metadata, as etcd's clients send it. Copied; an empty one: none. */
void h2conn_set_token(struct h2conn *conn, struct belfry_bytes token);

/* Opens a call of `path` (a literal shorter than 127 bytes). Returns its number, counted from 0 in the order of
 * opening; UINT32_MAX when its place is still taken by an older one. */
uint32_t h2conn_call(struct h2conn *conn, const char *path);

/* Sends one message on the call; `last`: half-closes. What the server's windows do not allow waits in memory. */
enum h2conn_more { H2CONN_MORE, H2CONN_LAST };
void h2conn_send(struct h2conn *conn, uint32_t call, struct belfry_bytes message, enum h2conn_more more);

/* Writes what was queued by h2conn_call() and h2conn_send(). */
void h2conn_flush(struct h2conn *conn);

/* A paused connection is not read from, as by a client that hangs: its socket fills up. */
void h2conn_pause(struct h2conn *conn);
void h2conn_resume(struct h2conn *conn);

#endif
