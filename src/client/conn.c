/* src/client/conn.c */
#include "client/conn.h"

#include <stdlib.h>

#include "base/clock.h"

#define GAP_MS        1000 /* a timer that is later than this means that the process did not run */
#define READ_FIRST_MS 20

struct belfry_conn {
    /* fixed */
    const struct belfry_conn_events *events;
    void *user;
    struct belfry_endpoint endpoint;
    struct belfry_transport *transport;
    struct belfry_grpc *grpc;
    uv_timer_t timer;
    /* owner */
    unsigned depth; /* calls into grpc on the stack: closing waits until the outermost is left */
    bool closing, lost, draining;
    uint64_t armed_ms; /* what the timer is set to, while it is active */
    bool late;         /* the timer came much too late, and the socket is being read first */
};

static void on_timer(uv_timer_t *timer);

static void free_conn(uv_handle_t *timer)
{
    free(timer->data);
}

static void really_close(struct belfry_conn *conn)
{
    belfry_transport_close(conn->transport);
    conn->depth++; /* the callbacks of its calls may say close once more */
    belfry_grpc_destroy(conn->grpc);
    uv_close((uv_handle_t *)&conn->timer, free_conn);
}

static void enter(struct belfry_conn *conn)
{
    conn->depth++;
}

static void leave(struct belfry_conn *conn)
{
    if (--conn->depth == 0 && conn->closing)
        really_close(conn);
}

static void lose(struct belfry_conn *conn, enum belfry_err err, const char *why)
{
    if (conn->lost)
        return;
    conn->lost = true;
    uv_timer_stop(&conn->timer);
    enter(conn);
    belfry_grpc_lost(conn->grpc, why);
    if (!conn->closing)
        conn->events->lost(conn, err, why, conn->user);
    leave(conn);
}

/* After anything that may have changed what gRPC waits for. */
static void rearm(struct belfry_conn *conn)
{
    if (conn->closing || conn->lost)
        return;
    if (!conn->draining && belfry_grpc_state(conn->grpc) == BELFRY_GRPC_DRAINING) {
        conn->draining = true;
        conn->events->draining(conn, conn->user);
        if (conn->closing)
            return;
    }
    uint64_t due = belfry_grpc_due(conn->grpc), now;
    if (due == BELFRY_NEVER) {
        uv_timer_stop(&conn->timer);
    } else if (due != conn->armed_ms || !uv_is_active((uv_handle_t *)&conn->timer)) {
        now = belfry_clock_ms();
        conn->armed_ms = due;
        uv_update_time(conn->timer.loop);
        uv_timer_start(&conn->timer, on_timer, due > now ? due - now : 0, 0);
    }
}

/* After a gap (the process was stopped, the machine slept) libuv runs timers before it reads sockets: what the peer
 * sent meanwhile must be seen before it is judged by the clock. */
static bool read_first(struct belfry_conn *conn, uint64_t now)
{
    bool gap = now > belfry_grpc_due(conn->grpc) + GAP_MS;
    conn->late = gap && !conn->late;
    if (conn->late)
        uv_timer_start(&conn->timer, on_timer, READ_FIRST_MS, 0);
    return conn->late;
}

static void on_timer(uv_timer_t *timer)
{
    struct belfry_conn *conn = timer->data;
    uint64_t now = belfry_clock_ms();
    if (read_first(conn, now))
        return;
    enter(conn);
    enum belfry_err err = belfry_grpc_tick(conn->grpc, now);
    if (err != BELFRY_OK)
        lose(conn, err, err == BELFRY_ERR_TIMEOUT ? "it does not answer pings" : belfry_strerror(err));
    else
        belfry_conn_flush(conn);
    leave(conn);
}

static void on_up(struct belfry_transport *transport, void *user)
{
    struct belfry_conn *conn = user;
    (void)transport;
    enter(conn);
    conn->events->up(conn, conn->user);
    belfry_conn_flush(conn);
    leave(conn);
}

static void on_bytes(struct belfry_transport *transport, struct belfry_bytes bytes, void *user)
{
    struct belfry_conn *conn = user;
    (void)transport;
    if (conn->lost || conn->closing)
        return;
    enter(conn);
    enum belfry_err err = belfry_grpc_receive(conn->grpc, bytes, belfry_clock_ms());
    if (err != BELFRY_OK)
        lose(conn, err, "it does not speak HTTP/2 as gRPC needs it");
    else
        belfry_conn_flush(conn);
    leave(conn);
}

static struct belfry_bytes on_pull(struct belfry_transport *transport, void *user)
{
    struct belfry_conn *conn = user;
    struct belfry_bytes bytes = {NULL, 0};
    (void)transport;
    if (conn->lost || conn->closing)
        return bytes;
    enter(conn);
    enum belfry_err err = belfry_grpc_pull(conn->grpc, belfry_clock_ms(), &bytes);
    if (err != BELFRY_OK) {
        bytes = (struct belfry_bytes){NULL, 0};
        lose(conn, err, belfry_strerror(err));
    }
    rearm(conn);
    if (conn->closing || conn->lost)
        bytes = (struct belfry_bytes){NULL, 0};
    leave(conn);
    return bytes;
}

static void on_lost(struct belfry_transport *transport, enum belfry_err err, const char *why, void *user)
{
    (void)transport;
    lose(user, err, why);
}

static const struct belfry_transport_events transport_events = {
    .up = on_up, .bytes = on_bytes, .pull = on_pull, .lost = on_lost};

enum belfry_err belfry_conn_open(const struct belfry_transport_opts *transport, const struct belfry_grpc_opts *grpc,
                                 const struct belfry_conn_events *events, void *user, struct belfry_conn **out)
{
    struct belfry_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return BELFRY_ERR_NOMEM;
    conn->events = events;
    conn->user = user;
    conn->endpoint = *transport->endpoint;
    struct belfry_grpc_opts opts = *grpc;
    opts.scheme = conn->endpoint.tls ? "https" : "http";
    opts.authority = conn->endpoint.authority;
    enum belfry_err err = belfry_grpc_create(&opts, belfry_clock_ms(), &conn->grpc);
    if (err == BELFRY_OK)
        err = belfry_transport_open(transport, &transport_events, conn, &conn->transport);
    if (err != BELFRY_OK) {
        belfry_grpc_destroy(conn->grpc);
        free(conn);
        return err;
    }
    uv_timer_init(transport->loop, &conn->timer);
    conn->timer.data = conn;
    *out = conn;
    return BELFRY_OK;
}

void belfry_conn_close(struct belfry_conn *conn)
{
    if (conn == NULL || conn->closing)
        return;
    conn->closing = true;
    if (conn->depth == 0)
        really_close(conn);
}

struct belfry_grpc *belfry_conn_grpc(struct belfry_conn *conn)
{
    return conn->grpc;
}

void belfry_conn_flush(struct belfry_conn *conn)
{
    if (conn->closing || conn->lost)
        return;
    if (belfry_grpc_wants_write(conn->grpc))
        belfry_transport_kick(conn->transport);
    rearm(conn);
}

const struct belfry_endpoint *belfry_conn_endpoint(const struct belfry_conn *conn)
{
    return &conn->endpoint;
}
