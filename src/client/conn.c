/* src/client/conn.c: gRPC on a carrier. */
#include "client/conn.h"

#include <stdlib.h>

#include "base/clock.h"
#include "net/carrier.h"

struct belfry_conn {
    /* fixed */
    const struct belfry_conn_events *events;
    void *user;
    struct belfry_carrier *carrier; /* owns grpc.http */
    struct belfry_grpc grpc;
};

static void on_up(struct belfry_carrier *carrier, const char *alpn, void *user)
{
    struct belfry_conn *conn = user;
    (void)carrier, (void)alpn;
    conn->events->up(conn, conn->user);
}

static void on_lost(struct belfry_carrier *carrier, enum belfry_err err, const char *why, void *user)
{
    struct belfry_conn *conn = user;
    (void)carrier;
    conn->events->lost(conn, err, why, conn->user);
}

static void on_draining(struct belfry_carrier *carrier, void *user)
{
    struct belfry_conn *conn = user;
    (void)carrier;
    conn->events->draining(conn, conn->user);
}

static void on_gone(void *user)
{
    free(user);
}

static const struct belfry_carrier_events carrier_events = {
    .up = on_up, .lost = on_lost, .draining = on_draining, .gone = on_gone};

enum belfry_err belfry_conn_open(const struct belfry_transport_opts *transport, const struct belfry_grpc_opts *grpc,
                                 const struct belfry_conn_events *events, void *user, struct belfry_conn **out)
{
    struct belfry_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return BELFRY_ERR_NOMEM;
    conn->events = events;
    conn->user = user;
    struct belfry_grpc_opts opts = *grpc;
    opts.scheme = transport->endpoint->tls ? "https" : "http";
    opts.authority = transport->endpoint->authority;
    enum belfry_err err = belfry_grpc_init(&conn->grpc, &opts, belfry_clock_ms());
    if (err == BELFRY_OK)
        err = belfry_carrier_open(transport, conn->grpc.http, "it does not speak HTTP/2 as gRPC needs it",
                                  &carrier_events, conn, &conn->carrier);
    if (err != BELFRY_OK) {
        free(conn);
        return err;
    }
    *out = conn;
    return BELFRY_OK;
}

void belfry_conn_close(struct belfry_conn *conn)
{
    if (conn != NULL)
        belfry_carrier_close(conn->carrier);
}

const struct belfry_grpc *belfry_conn_grpc(const struct belfry_conn *conn)
{
    return &conn->grpc;
}

void belfry_conn_flush(struct belfry_conn *conn)
{
    belfry_carrier_flush(conn->carrier);
}

const struct belfry_endpoint *belfry_conn_endpoint(const struct belfry_conn *conn)
{
    return belfry_carrier_endpoint(conn->carrier);
}
