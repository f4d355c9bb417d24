/* src/client/conn.h
 *
 * conn: one connection to one endpoint: a transport with gRPC on it, and the timer gRPC needs.
 *
 * Thread: owner (the loop's).
 */
#ifndef BELFRY_CLIENT_CONN_H
#define BELFRY_CLIENT_CONN_H

#include "net/grpc.h"
#include "net/transport.h"

struct belfry_conn;

struct belfry_conn_events {
    void (*up)(struct belfry_conn *conn, void *user);
    /* It failed or ended; its calls have been closed. No further callback: close it. */
    void (*lost)(struct belfry_conn *conn, enum belfry_err err, const char *why, void *user);
    /* The peer takes no new calls; those that run go on. */
    void (*draining)(struct belfry_conn *conn, void *user);
};

/* grpc->scheme and grpc->authority come from the endpoint. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err belfry_conn_open(const struct belfry_transport_opts *transport,
                                                  const struct belfry_grpc_opts *grpc,
                                                  const struct belfry_conn_events *events, void *user,
                                                  struct belfry_conn **out);

/* Ends every call (with its callback), then the connection. From inside a callback of a call it takes effect when that
 * has returned. NULL is fine. */
void belfry_conn_close(struct belfry_conn *conn);

/* The gRPC side; calls may be opened on it as soon as the connection exists: they go out when it is up. After using it,
 * say belfry_conn_flush(). */
const struct belfry_grpc *belfry_conn_grpc(const struct belfry_conn *conn);
void belfry_conn_flush(struct belfry_conn *conn);

const struct belfry_endpoint *belfry_conn_endpoint(const struct belfry_conn *conn);

#endif
