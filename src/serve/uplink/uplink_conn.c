/* src/serve/uplink/uplink_conn.c */
#include "serve/uplink/uplink_conn.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "serve/uplink/uplink_call.h"

#define GATHER_BYTES  (64 * 1024) /* given to the transport in one write */
#define IDLE_BYTES    (16 * 1024) /* an output buffer over this is not kept while nothing is sent */
#define GAP_MS        1000        /* a timer that is later than this means that the process did not run */
#define READ_FIRST_MS 20
#define WHY_BYTES     512

enum conn_state { DIALING, UP, DRAINING, GONE };

struct uplink_conn {
    /* fixed */
    const struct uplink_conn_events *events;
    void *user;
    struct belfry_endpoint endpoint;
    struct belfry_transport *transport;
    struct belfry_h2 *h2;
    uv_timer_t timer;
    /* owner */
    struct belfry_list node; /* of the owner's connections */
    enum conn_state state;
    unsigned depth; /* calls into HTTP/2 on the stack: freeing waits until the outermost is left */
    bool serves;
    bool has_name; /* UP and later: the certificate that it presented has a common name */
    struct belfry_list running;
    size_t n_running;
    struct belfry_buf out;
    size_t lent; /* of `out`: the transport has it */
    /* PING */
    uint64_t ping_ms; /* the last one */
    bool ping_unanswered, late;
    uint64_t armed_ms; /* what the timer is set to, while it is active */
};

static void move(struct uplink_conn *conn, enum conn_state to)
{
    static const unsigned legal[] = {
        [DIALING] = 1u << UP | 1u << GONE, [UP] = 1u << DRAINING | 1u << GONE, [DRAINING] = 1u << GONE, [GONE] = 0};
    assert(legal[conn->state] & 1u << to);
    (void)legal;
    conn->state = to;
}

static void free_conn(uv_handle_t *timer)
{
    free(timer->data);
}

static void free_parts(struct uplink_conn *conn)
{
    belfry_transport_close(conn->transport);
    belfry_h2_destroy(conn->h2);
    belfry_buf_fini(&conn->out);
    belfry_list_remove(&conn->node);
    uv_close((uv_handle_t *)&conn->timer, free_conn);
}

static void enter(struct uplink_conn *conn)
{
    conn->depth++;
}

/* It drains, and what it had to say has been written. */
static bool is_done(const struct uplink_conn *conn)
{
    return conn->state == DRAINING && conn->n_running == 0 && conn->lent == 0 && !belfry_h2_wants_write(conn->h2);
}

static void leave(struct uplink_conn *conn)
{
    if (conn->depth == 1 && is_done(conn))
        move(conn, GONE);
    if (--conn->depth == 0 && conn->state == GONE)
        free_parts(conn);
}

/* ---- calls ---- */

static void take_off(struct uplink_call *call)
{
    call->conn->n_running--;
    call->conn = NULL;
    belfry_list_remove(&call->node);
}

/* Ends those in `calls`, a list made for that, or gives them back if they never left. Each callback may close any other. */
static void end_all(struct uplink_conn *conn, struct belfry_list *calls, struct uplink_end end)
{
    char text[WHY_BYTES];
    snprintf(text, sizeof(text), "%s: %s", conn->endpoint.url, end.why);
    end.why = text;
    while (!belfry_list_empty(calls)) {
        struct uplink_call *call = belfry_container(calls->next, struct uplink_call, node);
        take_off(call);
        if (call->stream.pulled)
            uplink_call_end(call, &end);
        else
            conn->events->returned(call, conn->user);
    }
}

static void lose(struct uplink_conn *conn, const char *why)
{
    if (conn->state == GONE)
        return;
    char text[WHY_BYTES]; /* `why` may be HTTP/2's own */
    snprintf(text, sizeof(text), "%s", why);
    bool known = conn->state != DRAINING;
    enter(conn);
    move(conn, GONE);
    uv_timer_stop(&conn->timer);
    belfry_h2_abandon(conn->h2);
    if (known)
        conn->events->lost(conn, text, conn->user);
    struct belfry_list calls;
    belfry_list_init(&calls);
    belfry_list_move_all(&calls, &conn->running);
    end_all(conn, &calls, (struct uplink_end){.lost = true, .why = text});
    leave(conn);
}

static void drain(struct uplink_conn *conn, const char *why)
{
    if (conn->state != UP)
        return;
    move(conn, DRAINING);
    conn->events->draining(conn, why, conn->user);
}

/* ---- HTTP/2 ---- */

static struct uplink_call *call_of(struct belfry_h2_stream *stream)
{
    return belfry_container(stream, struct uplink_call, stream);
}

static enum belfry_err on_field(struct belfry_h2_stream *stream, struct belfry_bytes name, struct belfry_bytes value,
                                void *user)
{
    (void)user;
    struct uplink_call *call = call_of(stream);
    call->events->field(call, name, value, call->user);
    return BELFRY_OK;
}

/* The response is complete, whatever became of the request. */
static void complete(struct uplink_conn *conn, struct uplink_call *call)
{
    belfry_h2_finish(conn->h2, &call->stream);
    take_off(call);
    uplink_call_over(call);
}

static enum belfry_err on_block(struct belfry_h2_stream *stream, bool last, void *user)
{
    struct uplink_conn *conn = user;
    struct uplink_call *call = call_of(stream);
    if (!conn->serves) {
        conn->serves = true;
        if (conn->state == UP)
            conn->events->serves(conn, conn->user);
    }
    if (last)
        complete(conn, call);
    call->events->block(call, last, call->user);
    return BELFRY_OK;
}

static enum belfry_err on_data(struct belfry_h2_stream *stream, struct belfry_bytes bytes, void *user)
{
    (void)user;
    struct uplink_call *call = call_of(stream);
    call->events->data(call, bytes, call->user);
    return BELFRY_OK;
}

static enum belfry_err on_end(struct belfry_h2_stream *stream, void *user)
{
    struct uplink_call *call = call_of(stream);
    complete(user, call);
    call->events->end(call, call->user);
    return BELFRY_OK;
}

static void on_closed(struct belfry_h2_stream *stream, uint32_t code, const char *why, void *user)
{
    struct uplink_conn *conn = user;
    struct uplink_call *call = call_of(stream);
    char text[WHY_BYTES];
    snprintf(text, sizeof(text), "%s: %s", conn->endpoint.url, why);
    take_off(call);
    uplink_call_end(call,
                    &(struct uplink_end){.h2_code = code, .unprocessed = code == NGHTTP2_REFUSED_STREAM, .why = text});
}

/* Calls that the peer will not look at: what it said so of, and what can no longer be sent. */
static void on_goaway(int32_t last_id, uint32_t code, struct belfry_bytes debug, void *user)
{
    struct uplink_conn *conn = user;
    (void)debug; /* the peer's text: not for other people's clients */
    char why[WHY_BYTES];
    snprintf(why, sizeof(why), "the server is going away (%s)", nghttp2_http2_strerror(code));
    drain(conn, why);
    struct belfry_list unseen;
    belfry_list_init(&unseen);
    belfry_list_each_safe (node, &conn->running) {
        struct uplink_call *call = belfry_container(node, struct uplink_call, node);
        if (call->stream.pulled && call->stream.id <= last_id)
            continue;
        belfry_h2_reset(conn->h2, &call->stream, NGHTTP2_CANCEL);
        belfry_list_remove(&call->node);
        belfry_list_append(&unseen, &call->node);
    }
    end_all(conn, &unseen, (struct uplink_end){.lost = true, .unprocessed = true, .why = why});
}

static size_t on_read(struct belfry_h2_stream *stream, uint8_t *to, size_t cap, bool *out_end, void *user)
{
    (void)user;
    struct uplink_call *call = call_of(stream);
    uplink_head_destroy(call->head); /* it has left */
    call->head = NULL;
    return call->events->read(call, to, cap, out_end, call->user);
}

static const struct belfry_h2_events h2_events = {.field = on_field,
                                                  .block = on_block,
                                                  .data = on_data,
                                                  .end = on_end,
                                                  .closed = on_closed,
                                                  .goaway = on_goaway,
                                                  .read = on_read};

/* ---- PING ---- */

static void on_timer(uv_timer_t *timer);

static uint64_t ping_due(const struct uplink_conn *conn)
{
    return conn->ping_unanswered || conn->n_running > 0 ? conn->ping_ms + UPLINK_CONN_PING_MS : BELFRY_NEVER;
}

static void rearm(struct uplink_conn *conn)
{
    if (conn->state != UP && conn->state != DRAINING)
        return;
    uint64_t due = ping_due(conn);
    if (due == BELFRY_NEVER) {
        uv_timer_stop(&conn->timer);
    } else if (due != conn->armed_ms || !uv_is_active((uv_handle_t *)&conn->timer)) {
        uint64_t now = belfry_clock_ms();
        conn->armed_ms = due;
        uv_update_time(conn->timer.loop);
        uv_timer_start(&conn->timer, on_timer, due > now ? due - now : 0, 0);
    }
}

/* After a gap (the process was stopped, the machine slept) libuv runs timers before it reads sockets: what the peer
 * sent meanwhile must be seen before it is judged by the clock. */
static bool read_first(struct uplink_conn *conn, uint64_t now)
{
    bool gap = now > conn->armed_ms + GAP_MS;
    conn->late = gap && !conn->late;
    if (conn->late)
        uv_timer_start(&conn->timer, on_timer, READ_FIRST_MS, 0);
    return conn->late;
}

static void on_timer(uv_timer_t *timer)
{
    struct uplink_conn *conn = timer->data;
    uint64_t now = belfry_clock_ms();
    if (read_first(conn, now))
        return;
    enter(conn);
    if (now < ping_due(conn)) {
        rearm(conn);
    } else if (conn->ping_unanswered) {
        lose(conn, "it does not answer pings");
    } else {
        conn->ping_ms = now;
        conn->ping_unanswered = true;
        if (belfry_h2_ping(conn->h2) != BELFRY_OK)
            lose(conn, belfry_h2_why(conn->h2));
        uplink_conn_flush(conn);
    }
    leave(conn);
}

/* ---- the transport ---- */

static void on_up(struct belfry_transport *transport, void *user)
{
    struct uplink_conn *conn = user;
    enter(conn);
    move(conn, UP);
    conn->has_name = belfry_transport_has_name(transport);
    conn->ping_ms = belfry_clock_ms();
    conn->events->up(conn, conn->user);
    uplink_conn_flush(conn);
    leave(conn);
}

static void on_bytes(struct belfry_transport *transport, struct belfry_bytes bytes, void *user)
{
    struct uplink_conn *conn = user;
    (void)transport;
    if (conn->state == GONE)
        return;
    enter(conn);
    conn->ping_unanswered = false;
    enum belfry_err err = belfry_h2_receive(conn->h2, bytes);
    if (err != BELFRY_OK)
        lose(conn, belfry_h2_why(conn->h2));
    uplink_conn_flush(conn);
    leave(conn);
}

static struct belfry_bytes on_pull(struct belfry_transport *transport, void *user)
{
    struct uplink_conn *conn = user;
    (void)transport;
    if (conn->state == GONE)
        return (struct belfry_bytes){0};
    enter(conn);
    belfry_buf_take(&conn->out, conn->lent);
    if (conn->state == UP)
        conn->events->feed(conn, conn->user);
    enum belfry_err err = belfry_h2_pull(conn->h2, GATHER_BYTES, &conn->out);
    if (err != BELFRY_OK)
        lose(conn, belfry_h2_why(conn->h2));
    conn->lent = conn->state == GONE ? 0 : belfry_buf_len(&conn->out);
    if (conn->lent == 0 && conn->out.cap > IDLE_BYTES)
        belfry_buf_fini(&conn->out);
    struct belfry_bytes bytes = conn->lent > 0 ? belfry_buf_bytes(&conn->out) : (struct belfry_bytes){0};
    rearm(conn);
    leave(conn);
    return bytes;
}

static void on_lost(struct belfry_transport *transport, enum belfry_err err, const char *why, void *user)
{
    (void)transport;
    (void)err;
    lose(user, why);
}

static const struct belfry_transport_events transport_events = {
    .up = on_up, .bytes = on_bytes, .pull = on_pull, .lost = on_lost};

/* ---- the owner's side ---- */

enum belfry_err uplink_conn_open(const struct belfry_transport_opts *transport, struct belfry_list *all,
                                 const struct uplink_conn_events *events, void *user, struct uplink_conn **out)
{
    struct uplink_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return BELFRY_ERR_NOMEM;
    conn->events = events;
    conn->user = user;
    conn->endpoint = *transport->endpoint;
    belfry_list_init(&conn->running);
    enum belfry_err err = belfry_h2_create(UPLINK_CONN_WINDOW, &h2_events, conn, &conn->h2);
    if (err == BELFRY_OK)
        err = belfry_transport_open(transport, &transport_events, conn, &conn->transport);
    if (err != BELFRY_OK) {
        belfry_h2_destroy(conn->h2);
        free(conn);
        return err;
    }
    uv_timer_init(transport->loop, &conn->timer);
    conn->timer.data = conn;
    belfry_list_init(&conn->node);
    belfry_list_append(all, &conn->node);
    *out = conn;
    return BELFRY_OK;
}

void uplink_conn_close_all(struct belfry_list *all, const char *why)
{
    struct belfry_list *node;
    while ((node = belfry_list_pop(all)) != NULL) {
        struct uplink_conn *conn = belfry_container(node, struct uplink_conn, node);
        if (conn->state == UP)
            move(conn, DRAINING); /* so that the owner hears nothing of it */
        else if (conn->state == DIALING)
            move(conn, GONE);
        enter(conn);
        lose(conn, why);
        leave(conn);
    }
}

void uplink_conn_retire(struct uplink_conn *conn)
{
    enter(conn);
    move(conn, DRAINING);
    leave(conn);
}

/* There is no memory to go on with: the pull that is asked for here finds it over, from the loop. */
static void give_up(struct uplink_conn *conn)
{
    belfry_h2_terminate(conn->h2, NGHTTP2_INTERNAL_ERROR);
    belfry_transport_kick(conn->transport);
}

bool uplink_conn_has_name(const struct uplink_conn *conn)
{
    return conn->has_name;
}

enum belfry_err uplink_conn_start(struct uplink_conn *conn, struct uplink_call *call, enum uplink_head_as as)
{
    if (conn->state != UP || belfry_h2_room(conn->h2) == 0)
        return BELFRY_ERR_AGAIN;
    size_t n;
    const nghttp2_nv *fields = uplink_head_fields(call->head, &conn->endpoint, as, &n);
    enum belfry_err err = belfry_h2_submit(conn->h2, fields, n, &call->stream);
    if (err == BELFRY_ERR_LIMIT) {
        drain(conn, "its stream ids are used up");
        return BELFRY_ERR_AGAIN;
    }
    if (err != BELFRY_OK) {
        give_up(conn);
        return BELFRY_ERR_AGAIN;
    }
    call->state = CALL_RUNNING;
    call->conn = conn;
    belfry_list_append(&conn->running, &call->node);
    conn->n_running++;
    return BELFRY_OK;
}

void uplink_conn_cancel(struct uplink_conn *conn, struct uplink_call *call)
{
    enter(conn);
    take_off(call);
    if (conn->state != GONE)
        belfry_h2_reset(conn->h2, &call->stream, NGHTTP2_CANCEL);
    uplink_conn_flush(conn);
    leave(conn);
}

void uplink_conn_resume(struct uplink_conn *conn, struct uplink_call *call)
{
    if (conn->state == GONE)
        return;
    if (belfry_h2_resume(conn->h2, &call->stream) != BELFRY_OK)
        give_up(conn);
    uplink_conn_flush(conn);
}

void uplink_conn_taken(struct uplink_conn *conn, struct uplink_call *call, size_t n)
{
    if (conn->state == GONE)
        return;
    belfry_h2_taken(conn->h2, &call->stream, n);
    uplink_conn_flush(conn);
}

void uplink_conn_flush(struct uplink_conn *conn)
{
    if (conn->state == UP)
        conn->events->feed(conn, conn->user);
    if ((conn->state == UP || conn->state == DRAINING) && belfry_h2_wants_write(conn->h2))
        belfry_transport_kick(conn->transport);
    rearm(conn);
}
