/* src/client/conn.c: gRPC's machine on a carrier. */
#include "client/conn.h"

#include <stdlib.h>

#include "base/clock.h"
#include "net/carrier.h"

struct belfry_conn {
    /* fixed */
    const struct belfry_conn_events *events;
    void *user;
    struct belfry_carrier *carrier; /* owns `grpc` */
    struct belfry_grpc *grpc;
};

static enum belfry_err machine_receive(void *machine, struct belfry_bytes bytes, uint64_t now_ms)
{
    return belfry_grpc_receive(machine, bytes, now_ms);
}

static enum belfry_err machine_pull(void *machine, uint64_t now_ms, struct belfry_bytes *out)
{
    return belfry_grpc_pull(machine, now_ms, out);
}

static bool machine_wants_write(void *machine)
{
    return belfry_grpc_wants_write(machine);
}

static void machine_lost(void *machine, const char *why)
{
    belfry_grpc_lost(machine, why);
}

static enum belfry_err machine_tick(void *machine, uint64_t now_ms)
{
    return belfry_grpc_tick(machine, now_ms);
}

static uint64_t machine_due(const void *machine)
{
    return belfry_grpc_due(machine);
}

static bool machine_draining(const void *machine)
{
    return belfry_grpc_state(machine) == BELFRY_GRPC_DRAINING;
}

static void machine_destroy(void *machine)
{
    belfry_grpc_destroy(machine);
}

static const struct belfry_machine grpc_machine = {
    .receive = machine_receive,
    .pull = machine_pull,
    .wants_write = machine_wants_write,
    .lost = machine_lost,
    .tick = machine_tick,
    .due = machine_due,
    .draining = machine_draining,
    .destroy = machine_destroy,
    .nonsense = "it does not speak HTTP/2 as gRPC needs it",
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
    enum belfry_err err = belfry_grpc_create(&opts, belfry_clock_ms(), &conn->grpc);
    if (err == BELFRY_OK)
        err = belfry_carrier_open(transport, &grpc_machine, conn->grpc, &carrier_events, conn, &conn->carrier);
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

struct belfry_grpc *belfry_conn_grpc(struct belfry_conn *conn)
{
    return conn->grpc;
}

void belfry_conn_flush(struct belfry_conn *conn)
{
    belfry_carrier_flush(conn->carrier);
}

const struct belfry_endpoint *belfry_conn_endpoint(const struct belfry_conn *conn)
{
    return belfry_carrier_endpoint(conn->carrier);
}
