/* src/kapi/pool.c */
#include "kapi/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"
#include "net/carrier.h"
#include "net/loop.h"

#define PING_MS         30000 /* as Go's client */
#define PING_TIMEOUT_MS 15000

struct pool_conn {
    struct belfry_list node;  /* in pool.conns */
    struct belfry_list calls; /* that are on it */
    struct belfry_pool *pool;
    struct belfry_carrier *carrier;
    struct belfry_http *http; /* owned by the carrier */
    bool up;
    bool used;        /* a call ended on it: it is one that the server may be ending */
    bool lost;        /* and counted as such */
    uint64_t idle_ms; /* since when it has no call */
};

struct belfry_pool {
    /* fixed */
    struct belfry_pool_opts opts;
    /* owner */
    struct belfry_list conns;
    struct belfry_list waiting; /* calls */
    struct belfry_timer idle_timer, place_timer;
    size_t n_conns, n_dialing, n_waiting;
    enum belfry_http_version version; /* of the last that came up; 0: not known */
    uint64_t requests, connects, losses;
    BELFRY_OWNER;
};

struct belfry_pool_call {
    struct belfry_list node; /* in pool.waiting or conn.calls */
    struct belfry_pool *pool;
    struct pool_conn *conn;    /* NULL: QUEUED */
    struct belfry_fetch *http; /* of conn; while there is one */
    const char *target;
    const struct belfry_pool_events *events;
    void *user;
    bool answered; /* a head came */
    bool held;
    bool moved; /* to another connection once, because the server had not looked at it */
};

/* Calls are given to connections from the loop alone, so that none fails inside the call that opened or cancelled one.
 */
static void place_soon(struct belfry_pool *pool)
{
    belfry_session_set_timer(pool->opts.b, &pool->place_timer, 0);
}

/* ---- connections ---- */

/* Nobody is on it any more. */
static void drop(struct pool_conn *conn)
{
    struct belfry_pool *pool = conn->pool;
    assert(belfry_list_empty(&conn->calls));
    belfry_list_remove(&conn->node);
    pool->n_conns--;
    pool->n_dialing -= !conn->up;
    struct belfry_carrier *carrier = conn->carrier;
    free(conn);
    belfry_carrier_close(carrier);
}

static bool is_dead(const struct pool_conn *conn)
{
    return belfry_http_state(conn->http) == BELFRY_HTTP_DEAD;
}

/* Lets go of a connection that is of no use any more. A dead one, too, stays until its last call has been told: one
 * that is held is when it goes on, and what came before the end is not lost. */
static void review(struct pool_conn *conn)
{
    if (conn->up && belfry_list_empty(&conn->calls) && belfry_http_state(conn->http) >= BELFRY_HTTP_DRAINING)
        drop(conn);
}

static bool is_idle(const struct pool_conn *conn)
{
    return conn->up && belfry_list_empty(&conn->calls);
}

/* Closes those that idled long enough, and the oldest beyond those that may be kept. */
static void on_idle_timer(struct belfry_timer *timer)
{
    struct belfry_pool *pool = belfry_container(timer, struct belfry_pool, idle_timer);
    uint64_t now = belfry_clock_ms(), next = BELFRY_NEVER;
    size_t kept = 0;
    belfry_list_each_safe (node, &pool->conns) {
        struct pool_conn *conn = belfry_container(node, struct pool_conn, node);
        if (!is_idle(conn))
            continue;
        if (now >= conn->idle_ms + BELFRY_POOL_IDLE_MS || kept >= BELFRY_POOL_IDLE) {
            drop(conn);
            continue;
        }
        kept++;
        next = belfry_min_time(next, conn->idle_ms + BELFRY_POOL_IDLE_MS);
    }
    belfry_session_set_timer(pool->opts.b, timer, next);
}

static void rest(struct pool_conn *conn)
{
    struct belfry_pool *pool = conn->pool;
    conn->used = true;
    conn->idle_ms = belfry_clock_ms();
    belfry_list_remove(&conn->node); /* the one used last is used first */
    belfry_list_prepend(&pool->conns, &conn->node);
    if (pool->idle_timer.due_ms == BELFRY_NEVER)
        belfry_session_set_timer(pool->opts.b, &pool->idle_timer, conn->idle_ms + BELFRY_POOL_IDLE_MS);
}

/* ---- calls ---- */

static void finish(struct belfry_pool_call *call)
{
    struct pool_conn *conn = call->conn;
    struct belfry_pool *pool = call->pool;
    pool->n_waiting -= conn == NULL;
    belfry_list_remove(&call->node);
    free(call);
    if (conn != NULL) {
        if (belfry_list_empty(&conn->calls))
            rest(conn);
        review(conn);
    }
    if (pool->n_waiting > 0)
        place_soon(pool);
}

static void on_head(struct belfry_fetch *http, const struct belfry_fetch_head *head, void *user)
{
    struct belfry_pool_call *call = user;
    (void)http;
    call->answered = true;
    call->events->head(head, call->user);
}

static void on_body(struct belfry_fetch *http, struct belfry_bytes bytes, void *user)
{
    struct belfry_pool_call *call = user;
    (void)http;
    call->events->body(bytes, call->user);
}

static void on_end(struct belfry_fetch *http, void *user)
{
    struct belfry_pool_call *call = user;
    const struct belfry_pool_events *events = call->events;
    void *owner = call->user;
    (void)http;
    finish(call);
    events->end(owner);
}

static void enqueue(struct belfry_pool_call *call)
{
    call->conn = NULL;
    call->http = NULL;
    belfry_list_append(&call->pool->waiting, &call->node);
    call->pool->n_waiting++;
    place_soon(call->pool);
}

static void count_loss(struct pool_conn *conn)
{
    if (conn->lost || !is_dead(conn))
        return;
    conn->lost = true;
    conn->pool->losses++;
}

/* Sends the call once more if the connection is to blame: one that was used before may be ended by the server whenever
 * it is, and as each of them does it once there is an end to that; a server that looks at no call has one more try. */
static bool send_elsewhere(struct belfry_pool_call *call, enum belfry_err err, bool unprocessed)
{
    struct pool_conn *conn = call->conn;
    bool stale = conn->used && is_dead(conn) && !call->answered && err == BELFRY_ERR_UNAVAILABLE;
    if (!stale && (!unprocessed || call->moved))
        return false;
    call->moved = call->moved || !stale;
    belfry_list_remove(&call->node);
    enqueue(call);
    review(conn);
    return true;
}

static void on_failed(struct belfry_fetch *http, enum belfry_err err, const char *why, bool unprocessed, void *user)
{
    struct belfry_pool_call *call = user;
    const struct belfry_pool_events *events = call->events;
    void *owner = call->user;
    (void)http;
    count_loss(call->conn);
    if (send_elsewhere(call, err, unprocessed))
        return;
    finish(call);
    events->failed(err, why, BELFRY_BROKE_OFF, owner);
}

static const struct belfry_fetch_events http_events = {
    .head = on_head, .body = on_body, .end = on_end, .failed = on_failed};

static enum belfry_err send_on(struct pool_conn *conn, struct belfry_pool_call *call)
{
    struct belfry_http_field fields[BELFRY_POOL_FIELDS];
    struct belfry_fetch_request request = {.method = "GET", .target = call->target, .fields = fields};
    request.n_fields = call->events->fields(fields, call->user);
    enum belfry_err err = belfry_fetch_open(conn->http, &request, &http_events, call, &call->http);
    if (err != BELFRY_OK)
        return err;
    conn->pool->requests++;
    conn->pool->n_waiting--;
    call->conn = conn;
    belfry_list_remove(&call->node);
    belfry_list_append(&conn->calls, &call->node);
    if (call->held)
        belfry_fetch_hold(call->http, true);
    belfry_carrier_flush(conn->carrier);
    return BELFRY_OK;
}

/* Fails the call that has waited longest, if there is one. */
static void fail_first(struct belfry_pool *pool, enum belfry_err err, const char *why)
{
    struct belfry_list *node = belfry_list_pop(&pool->waiting);
    if (node == NULL)
        return;
    struct belfry_pool_call *call = belfry_container(node, struct belfry_pool_call, node);
    const struct belfry_pool_events *events = call->events;
    void *owner = call->user;
    pool->n_waiting--;
    free(call);
    events->failed(err, why, BELFRY_BROKE_REFUSED, owner);
}

/* Fails all that wait now. Callbacks may queue new ones: those are not meant. */
static void fail_all(struct belfry_pool *pool, enum belfry_err err, const char *why)
{
    for (size_t n = pool->n_waiting; n > 0; n--)
        fail_first(pool, err, why);
}

/* ---- dialling ---- */

static void on_up(struct belfry_carrier *carrier, const char *alpn, void *user)
{
    struct pool_conn *conn = user;
    struct belfry_pool *pool = conn->pool;
    enum belfry_http_version version = strcmp(alpn, "h2") == 0 ? BELFRY_HTTP_2 : BELFRY_HTTP_1;
    (void)carrier;
    if (belfry_http_start(conn->http, version, belfry_clock_ms()) != BELFRY_OK) {
        drop(conn);
        fail_all(pool, BELFRY_ERR_NOMEM, belfry_strerror(BELFRY_ERR_NOMEM));
        return;
    }
    conn->up = true;
    pool->n_dialing--;
    pool->connects++;
    pool->version = version;
    rest(conn);
    conn->used = false;
    place_soon(pool);
}

static void on_lost(struct belfry_carrier *carrier, enum belfry_err err, const char *why, void *user)
{
    struct pool_conn *conn = user;
    struct belfry_pool *pool = conn->pool;
    (void)carrier;
    if (conn->up) {
        review(conn);
    } else {
        drop(conn);
        if (pool->version == BELFRY_HTTP_1) /* each is dialled for by itself */
            fail_first(pool, err, why);
        else
            fail_all(pool, err, why);
    }
    if (pool->n_waiting > 0)
        place_soon(pool);
}

static void on_draining(struct belfry_carrier *carrier, void *user)
{
    (void)carrier;
    review(user);
}

static const struct belfry_carrier_events carrier_events = {.up = on_up, .lost = on_lost, .draining = on_draining};

static enum belfry_err dial(struct belfry_pool *pool)
{
    struct belfry_http_opts http = {.scheme = pool->opts.endpoint->tls ? "https" : "http",
                                    .authority = pool->opts.endpoint->authority,
                                    .common = {.user_agent = pool->opts.user_agent},
                                    .window = BELFRY_FETCH_WINDOW,
                                    .ping_ms = PING_MS,
                                    .ping_timeout_ms = PING_TIMEOUT_MS};
    struct belfry_carrier_opts carrier = {.transport = {.loop = belfry_loop_uv(pool->opts.b->loop),
                                                        .dns = pool->opts.b->dns,
                                                        .endpoint = pool->opts.endpoint,
                                                        .tls = pool->opts.tls,
                                                        .dial_timeout_ms = pool->opts.dial_timeout_ms},
                                          .nonsense = "it does not speak HTTP as it should",
                                          .events = &carrier_events};
    struct pool_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return BELFRY_ERR_NOMEM;
    conn->pool = pool;
    belfry_list_init(&conn->node);
    belfry_list_init(&conn->calls);
    enum belfry_err err = belfry_http_create(&http, belfry_clock_ms(), &conn->http);
    carrier.http = conn->http;
    carrier.user = conn;
    if (err == BELFRY_OK)
        err = belfry_carrier_open(&carrier, &conn->carrier);
    if (err != BELFRY_OK) {
        free(conn);
        return err;
    }
    if (pool->opts.tls != NULL)
        belfry_tls_log_refresh(pool->opts.tls, &pool->opts.b->log);
    belfry_list_append(&pool->conns, &conn->node);
    pool->n_conns++;
    pool->n_dialing++;
    return BELFRY_OK;
}

/* How many more connections are worth dialling for those that wait. */
static size_t wanted(const struct belfry_pool *pool)
{
    size_t most = pool->version == BELFRY_HTTP_1 ? BELFRY_POOL_DIALING : 1;
    size_t need = pool->n_waiting < most ? pool->n_waiting : most;
    return need > pool->n_dialing && pool->n_conns < BELFRY_POOL_CONNECTIONS ? need - pool->n_dialing : 0;
}

static struct pool_conn *with_room(struct belfry_pool *pool)
{
    belfry_list_each (node, &pool->conns) {
        struct pool_conn *conn = belfry_container(node, struct pool_conn, node);
        if (conn->up && belfry_http_state(conn->http) == BELFRY_HTTP_OPEN && belfry_http_room(conn->http) > 0)
            return conn;
    }
    return NULL;
}

/* One that cannot be sent is no reason for the others to wait. */
static void place(struct belfry_pool *pool, struct pool_conn *conn)
{
    enum belfry_err err = send_on(conn, belfry_container(pool->waiting.next, struct belfry_pool_call, node));
    if (err == BELFRY_ERR_INVALID)
        fail_first(pool, err, "the request is too long: selectors, token and all may have 48 KiB");
    else if (err != BELFRY_OK)
        fail_first(pool, err, belfry_strerror(err));
}

/* Gives those that wait to connections that have room, and dials for the rest. */
static void on_place_timer(struct belfry_timer *timer)
{
    struct belfry_pool *pool = belfry_container(timer, struct belfry_pool, place_timer);
    struct pool_conn *conn;
    enum belfry_err err = BELFRY_OK;
    while (!belfry_list_empty(&pool->waiting) && (conn = with_room(pool)) != NULL)
        place(pool, conn);
    for (size_t n = wanted(pool); err == BELFRY_OK && n > 0; n--)
        err = dial(pool);
    if (err != BELFRY_OK && pool->n_dialing == 0) /* else one of those tries again when it is up, or fails them */
        fail_all(pool, err, belfry_strerror(err));
}

/* ---- from outside ---- */

enum belfry_err belfry_pool_create(const struct belfry_pool_opts *opts, struct belfry_pool **out)
{
    struct belfry_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL)
        return BELFRY_ERR_NOMEM;
    pool->opts = *opts;
    belfry_list_init(&pool->conns);
    belfry_list_init(&pool->waiting);
    belfry_timer_init(&pool->idle_timer, on_idle_timer);
    belfry_timer_init(&pool->place_timer, on_place_timer);
    BELFRY_OWNER_INIT(pool);
    *out = pool;
    return BELFRY_OK;
}

void belfry_pool_destroy(struct belfry_pool *pool)
{
    if (pool == NULL)
        return;
    BELFRY_OWNER_CHECK(pool);
    assert(pool->n_waiting == 0);
    while (!belfry_list_empty(&pool->conns))
        drop(belfry_container(pool->conns.next, struct pool_conn, node));
    belfry_session_set_timer(pool->opts.b, &pool->idle_timer, BELFRY_NEVER);
    belfry_session_set_timer(pool->opts.b, &pool->place_timer, BELFRY_NEVER);
    belfry_session_poke(pool->opts.b); /* what was closed is freed on the loop's next turn */
    free(pool);
}

enum belfry_err belfry_pool_call_open(struct belfry_pool *pool, const char *target,
                                      const struct belfry_pool_events *events, void *user,
                                      struct belfry_pool_call **out)
{
    BELFRY_OWNER_CHECK(pool);
    struct belfry_pool_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        return BELFRY_ERR_NOMEM;
    call->pool = pool;
    call->target = target;
    call->events = events;
    call->user = user;
    belfry_list_init(&call->node);
    enqueue(call);
    *out = call;
    return BELFRY_OK;
}

void belfry_pool_call_cancel(struct belfry_pool_call *call)
{
    if (call->conn != NULL) {
        belfry_fetch_cancel(call->http);
        belfry_carrier_flush(call->conn->carrier);
        belfry_session_poke(call->pool->opts.b); /* from outside the loop, too, the server is told now */
    }
    finish(call);
}

void belfry_pool_call_hold(struct belfry_pool_call *call, bool hold)
{
    call->held = hold;
    if (call->conn == NULL)
        return;
    struct belfry_carrier *carrier = call->conn->carrier;
    belfry_carrier_enter(carrier); /* what was held back is told from inside, and may end anything */
    belfry_fetch_hold(call->http, hold);
    belfry_carrier_flush(carrier);
    belfry_carrier_leave(carrier);
}

struct belfry_pool_counts belfry_pool_counts(const struct belfry_pool *pool)
{
    struct belfry_pool_counts counts = {.requests = pool->requests, .connects = pool->connects, .losses = pool->losses};
    belfry_list_each (node, &pool->conns) {
        const struct pool_conn *conn = belfry_container(node, struct pool_conn, node);
        bool open = conn->up && !is_dead(conn);
        counts.connections += open;
        counts.http2 += open && belfry_http_version(conn->http) == BELFRY_HTTP_2;
    }
    return counts;
}
