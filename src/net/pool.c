/* src/net/pool.c */
#include "net/pool.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/owner.h"

#define LOOK_MS     100 /* at least, between two looks at all waiters */
#define WHY_BYTES   160 /* of one endpoint */
#define WHY_ALL     512
#define TAG_BYTES   40
#define LONG_LEAVES 16 /* of so many streams, one is never used by a call that lasts */

enum conn_state { DIALING, UP, RETIRED };

struct pool_conn {
    struct belfry_list node; /* in route.conns until it is RETIRED */
    struct route *route;
    struct belfry_carrier *carrier;
    uint64_t number; /* fixed; of this pool, given once */
    enum conn_state state;
    bool used;        /* it had a call, and then none */
    bool lost;        /* and counted */
    uint64_t idle_ms; /* with opts.idle_ms: since when it has no call; 0: it has one */
};

enum route_state { READY, FULL, RESTING };

struct route {
    /* fixed */
    struct belfry_pool *pool;
    size_t first, n; /* its endpoints */
    /* owner */
    enum route_state state;
    size_t at;                     /* the endpoint in use, or dialled next */
    size_t failures;               /* endpoints that failed since one served */
    struct belfry_backoff backoff; /* counts rounds of failures */
    struct belfry_list conns;      /* DIALING and UP; the one that became idle last is first */
    size_t n_dialing, n_up;
    struct belfry_list waiting; /* not while RESTING */
    uv_timer_t timer;           /* of FULL and RESTING */
};

/* What is known against an endpoint. */
struct complaint {
    char why[WHY_BYTES]; /* "": nothing */
    bool was_up;         /* there was a connection, and it was lost or left */
};

struct belfry_pool {
    /* fixed */
    struct belfry_pool_opts opts;
    const struct belfry_pool_events *events;
    void *user;
    struct route *routes; /* owned */
    size_t n_routes;
    struct complaint *complaints; /* owned; one per endpoint */
    char tag[TAG_BYTES];          /* at the front of log lines */
    /* owner */
    bool wanted, destroyed;
    size_t turn;                      /* the route that gets the next waiter without a pin */
    enum belfry_http_version version; /* of the connection that came up last; 0: not known */
    struct belfry_list carriers;      /* all, RETIRED ones too */
    struct belfry_list stranded;      /* waiters while every route rests or is barred */
    struct belfry_list refused;       /* waiters that the timer refuses */
    struct belfry_rng rng;
    uv_timer_t timer; /* for waiters that waited too long or are refused, and for idle connections */
    size_t n_handles, n_conns;
    uint64_t connects, losses;
    uint64_t numbers; /* of connections, given so far */
    BELFRY_OWNER;
};

static void pool_place_all(struct belfry_pool *pool, struct belfry_list *waiters);
static void pool_on_timer(uv_timer_t *timer);
static bool route_dial(struct route *route);
static void route_on_full(uv_timer_t *timer);
static void route_on_rested(uv_timer_t *timer);
static const struct belfry_carrier_events carrier_events;

static struct belfry_waiter *waiter_of(struct belfry_list *node)
{
    return belfry_container(node, struct belfry_waiter, node);
}

/* From now on they wait for an endpoint, no longer for a stream. */
static void restart_waits(struct belfry_list *waiters)
{
    belfry_list_each (node, waiters)
        waiter_of(node)->since_ms = belfry_clock_ms();
}

static struct pool_conn *conn_of(struct belfry_list *node)
{
    return belfry_container(node, struct pool_conn, node);
}

static void pool_arm(struct belfry_pool *pool, uint64_t ms)
{
    if (uv_is_active((uv_handle_t *)&pool->timer) && uv_timer_get_due_in(&pool->timer) <= ms)
        return;
    uv_update_time(pool->opts.loop);
    uv_timer_start(&pool->timer, pool_on_timer, ms, 0);
}

static void pool_refuse_all(struct belfry_pool *pool, struct belfry_list *waiters, enum belfry_err err, const char *why)
{
    struct belfry_list *node, now;
    belfry_list_init(&now);
    belfry_list_move_all(&now, waiters); /* the owner may enqueue others meanwhile, which are not refused */
    while ((node = belfry_list_pop(&now)) != NULL)
        pool->events->refuse(waiter_of(node), err, why, pool->user);
}

/* From the timer, so that no waiter is refused from inside belfry_pool_enqueue(). */
static void pool_refuse_soon(struct belfry_pool *pool, struct belfry_waiter *waiter, enum belfry_err err)
{
    waiter->err = err;
    belfry_list_append(&pool->refused, &waiter->node);
    pool_arm(pool, 0);
}

/* ---- a connection ---- */

static void conn_move(struct pool_conn *conn, enum conn_state to)
{
    assert(to > conn->state);
    conn->route->n_dialing -= conn->state == DIALING;
    conn->route->n_up -= conn->state == UP;
    conn->route->n_up += to == UP;
    conn->state = to;
    if (to == RETIRED)
        belfry_list_remove(&conn->node);
}

static void conn_retire(struct pool_conn *conn)
{
    conn_move(conn, RETIRED);
    belfry_carrier_retire(conn->carrier);
}

static enum belfry_err conn_open(struct route *route)
{
    struct belfry_pool *pool = route->pool;
    const struct belfry_endpoint *endpoint = &pool->opts.endpoints[route->at];
    struct pool_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return BELFRY_ERR_NOMEM;
    struct belfry_http_opts http = pool->opts.http;
    http.scheme = endpoint->tls ? "https" : "http";
    http.authority = endpoint->authority;
    struct belfry_carrier_opts carrier = {.transport = {.loop = pool->opts.loop,
                                                        .dns = pool->opts.dns,
                                                        .endpoint = endpoint,
                                                        .tls = endpoint->tls ? pool->opts.tls : NULL,
                                                        .dial_timeout_ms = pool->opts.dial_timeout_ms},
                                          .nonsense = pool->opts.nonsense,
                                          .all = &pool->carriers,
                                          .events = &carrier_events,
                                          .user = conn};
    enum belfry_err err = belfry_http_create(&http, belfry_clock_ms(), &carrier.http);
    if (err == BELFRY_OK)
        err = belfry_carrier_open(&carrier, &conn->carrier);
    if (carrier.transport.tls != NULL)
        belfry_tls_log_refresh(carrier.transport.tls, pool->opts.log);
    if (err != BELFRY_OK) {
        free(conn);
        return err;
    }
    conn->route = route;
    conn->number = ++pool->numbers;
    conn->state = DIALING;
    belfry_list_init(&conn->node);
    belfry_list_append(&route->conns, &conn->node);
    route->n_dialing++;
    pool->n_conns++;
    return BELFRY_OK;
}

static void conn_begin_idle(struct pool_conn *conn)
{
    struct belfry_pool *pool = conn->route->pool;
    conn->idle_ms = belfry_clock_ms();
    belfry_list_remove(&conn->node);
    belfry_list_prepend(&conn->route->conns, &conn->node);
    pool_arm(pool, pool->opts.idle_ms);
}

/* A connection that is draining stays UP until its last call has ended, if routes do not rest. */
static void conn_check_idle(struct pool_conn *conn)
{
    struct belfry_pool *pool = conn->route->pool;
    struct belfry_http *http = belfry_carrier_http(conn->carrier);
    if (belfry_http_n_calls(http) > 0)
        return;
    if (pool->opts.wait_ms == 0 && belfry_http_state(http) >= BELFRY_HTTP_DRAINING) {
        conn_retire(conn);
    } else if (conn->idle_ms == 0) {
        conn->used = true;
        conn_begin_idle(conn);
    }
}

/* Closes connections that idled long enough, and the oldest of too many; returns when the next one has. */
static uint64_t pool_close_idle(struct belfry_pool *pool, uint64_t now)
{
    uint64_t next = BELFRY_NEVER;
    size_t kept = 0;
    for (size_t i = 0; i < pool->n_routes; i++) {
        belfry_list_each_safe (node, &pool->routes[i].conns) {
            struct pool_conn *conn = conn_of(node);
            if (conn->state != UP || conn->idle_ms == 0)
                continue;
            uint64_t due = conn->idle_ms + pool->opts.idle_ms;
            if (now >= due || kept >= BELFRY_POOL_IDLE) {
                conn_retire(conn);
            } else {
                kept++;
                next = belfry_min_time(next, due);
            }
        }
    }
    return next;
}

/* ---- a route ---- */

/* `ms`: of the timer, FULL and RESTING. */
static void route_move(struct route *route, enum route_state to, uint32_t ms)
{
    static const unsigned legal[] = {
        [READY] = 1u << FULL | 1u << RESTING, [FULL] = 1u << READY | 1u << RESTING, [RESTING] = 1u << READY};
    assert(legal[route->state] & 1u << to);
    (void)legal;
    route->state = to;
    if (to == READY) {
        uv_timer_stop(&route->timer);
        return;
    }
    uv_update_time(route->pool->opts.loop);
    uv_timer_start(&route->timer, to == FULL ? route_on_full : route_on_rested, ms, 0);
}

/* `why`: NULL: none. */
static void route_log(const struct route *route, enum belfry_log_level level, const char *event, const char *why)
{
    const struct belfry_pool *pool = route->pool;
    const char *url = pool->opts.endpoints[route->at].url;
    if (why == NULL)
        belfry_logf(pool->opts.log, level, event, "%sendpoint=%s", pool->tag, url);
    else
        belfry_logf(pool->opts.log, level, event, "%sendpoint=%s why=\"%s\"", pool->tag, url, why);
}

static bool route_is_barred(const struct route *route)
{
    return route->pool->opts.barred != NULL && route->pool->opts.barred[route->at];
}

/* How gladly a waiter is given to it: 0 is best; RANKS: not at all. A route that failed since it last served gets
 * waiters only when there is no other; whether it is back is found out without them. */
#define RANKS 3
static unsigned route_rank(const struct route *route)
{
    if (route->state == RESTING || route_is_barred(route))
        return RANKS;
    if (route->n_up > 0 || route->failures == 0)
        return 0;
    return route->n_dialing == 0 ? 1 : 2;
}

/* After a failure: the next endpoint, immediately while there are untried ones, else after a wait. */
static void route_go_on(struct route *route)
{
    struct belfry_pool *pool = route->pool;
    bool round_done = ++route->failures % route->n == 0;
    route->at = route->first + (route->at - route->first + 1) % route->n;
    route_move(route, RESTING, round_done ? belfry_backoff_next(&route->backoff, &pool->rng) : 0);
}

/* A connection was lost (`was_up`) or could not be made. */
static void route_fail(struct route *route, bool was_up, const char *why)
{
    struct belfry_pool *pool = route->pool;
    const struct belfry_pool_words *words = pool->opts.words;
    bool news = was_up || strcmp(pool->complaints[route->at].why, why) != 0;
    snprintf(pool->complaints[route->at].why, WHY_BYTES, "%s", why);
    pool->complaints[route->at].was_up = was_up;
    if (words != NULL)
        route_log(route, news ? BELFRY_LOG_INFO : words->again, was_up ? words->lost : words->failed, why);
    route_go_on(route);
    if (was_up)
        restart_waits(&route->waiting);
    pool_place_all(pool, &route->waiting);
}

/* False: it could not, and what that means for those that wait has been done. */
static bool route_dial(struct route *route)
{
    struct belfry_pool *pool = route->pool;
    if (route_is_barred(route)) {
        snprintf(pool->complaints[route->at].why, WHY_BYTES, "barred");
        route_go_on(route);
        return false;
    }
    enum belfry_err err = conn_open(route);
    if (err == BELFRY_OK)
        return true;
    if (pool->opts.wait_ms > 0) {
        route_fail(route, false, belfry_strerror((int)err));
    } else if (route->n_dialing == 0) { /* else they wait for those */
        struct belfry_list *node;
        while ((node = belfry_list_pop(&route->waiting)) != NULL)
            pool_refuse_soon(pool, waiter_of(node), err);
    }
    return false;
}

/* Its connections have no room for those that wait. */
static void route_grow(struct route *route)
{
    struct belfry_pool *pool = route->pool;
    if (route->n_up > 0 && pool->opts.full_ms > 0) {
        if (route->state == READY)
            route_move(route, FULL, pool->opts.full_ms);
        return;
    }
    size_t most = pool->version == BELFRY_HTTP_1 ? BELFRY_POOL_DIALING : 1, need = 0;
    for (struct belfry_list *node = route->waiting.next; node != &route->waiting && need < most; node = node->next)
        need++;
    while (route->n_dialing < need && (route->n_up == 0 || pool->n_conns < pool->opts.max_conns)) {
        if (!route_dial(route))
            return;
    }
}

static bool conn_has_room(const struct pool_conn *conn, const struct belfry_waiter *waiter)
{
    struct belfry_http *http = belfry_carrier_http(conn->carrier);
    if (conn->state != UP || belfry_http_state(http) != BELFRY_HTTP_OPEN)
        return false;
    size_t room = belfry_http_room(http);
    return room > (waiter->is_long ? (room + belfry_http_n_calls(http)) / LONG_LEAVES : 0);
}

/* Places those that wait, as far as the peer takes more calls on this connection. */
static void conn_on_feed(struct belfry_carrier *carrier, void *user)
{
    struct pool_conn *conn = user;
    struct route *route = conn->route;
    struct belfry_pool *pool = route->pool;
    bool placed = false;
    if (conn->state == UP && (pool->opts.idle_ms > 0 || pool->opts.wait_ms == 0))
        conn_check_idle(conn);
    while (!belfry_list_empty(&route->waiting) && conn_has_room(conn, waiter_of(route->waiting.next))) {
        struct belfry_waiter *waiter = waiter_of(belfry_list_pop(&route->waiting));
        waiter->reused = conn->used;
        waiter->conn = conn->number;
        conn->idle_ms = 0;
        placed = true;
        enum belfry_err err = pool->events->place(waiter, carrier, pool->user);
        if (err != BELFRY_OK)
            pool_refuse_soon(pool, waiter, err);
    }
    if (route->state == FULL && (placed || belfry_list_empty(&route->waiting)))
        route_move(route, READY, 0);
    if (!belfry_list_empty(&route->waiting))
        route_grow(route);
}

/* Places those that wait, or dials for them. If more than one waits, no connection has room. */
static void route_serve(struct route *route)
{
    if (belfry_list_empty(&route->waiting))
        return;
    const struct belfry_waiter *waiter = waiter_of(route->waiting.next);
    struct pool_conn *best = NULL;
    belfry_list_each (node, &route->conns) {
        struct pool_conn *conn = conn_of(node);
        if (conn_has_room(conn, waiter) && (best == NULL || conn->number == waiter->conn))
            best = conn;
    }
    if (best != NULL)
        belfry_carrier_flush(best->carrier); /* feeds it */
    else
        route_grow(route);
}

/* Its streams are long: they keep the connection, and those that wait get another. */
static void route_on_full(uv_timer_t *timer)
{
    struct route *route = timer->data;
    struct belfry_pool *pool = route->pool;
    route_move(route, READY, 0);
    if (belfry_list_empty(&route->waiting) || pool->n_conns >= pool->opts.max_conns)
        return; /* the next waiter that finds it full sets the timer again */
    if (pool->opts.words != NULL)
        route_log(route, BELFRY_LOG_INFO, pool->opts.words->full, NULL);
    conn_retire(conn_of(route->conns.next));
    restart_waits(&route->waiting);
    pool_arm(pool, pool->opts.wait_ms);
    route_dial(route);
}

static void route_on_rested(uv_timer_t *timer)
{
    struct route *route = timer->data;
    route_move(route, READY, 0);
    pool_place_all(route->pool, &route->pool->stranded);
    belfry_pool_want(route->pool, route->pool->wanted);
}

/* ---- events of connections ---- */

/* A dial that failed, where routes do not rest: over HTTP/1.1 each waiter has a dial of its own. */
static void route_refuse(struct route *route, enum belfry_err err, const char *why)
{
    struct belfry_pool *pool = route->pool;
    struct belfry_list *first = pool->version == BELFRY_HTTP_1 ? belfry_list_pop(&route->waiting) : NULL;
    if (first != NULL)
        pool->events->refuse(waiter_of(first), err, why, pool->user);
    else
        pool_refuse_all(pool, &route->waiting, err, why);
}

/* DIALING or UP -> RETIRED, and what that means for its route. */
static void conn_leave(struct pool_conn *conn, enum belfry_err err, const char *why)
{
    struct route *route = conn->route;
    struct belfry_pool *pool = route->pool;
    bool was_up = conn->state == UP;
    if (was_up && pool->opts.idle_ms == 0)
        belfry_pool_count_loss(pool, conn->carrier);
    conn_retire(conn);
    if (pool->opts.wait_ms > 0)
        route_fail(route, was_up, why);
    else if (!was_up)
        route_refuse(route, err, why);
    if (pool->destroyed) /* by the owner of one that was refused */
        return;
    if (pool->opts.wait_ms == 0)
        route_serve(route);
    if (pool->events->down != NULL)
        pool->events->down(pool, err, pool->user);
}

static void conn_on_up(struct belfry_carrier *carrier, const char *alpn, void *user)
{
    struct pool_conn *conn = user;
    struct belfry_pool *pool = conn->route->pool;
    enum belfry_http_version version = pool->opts.alpn && strcmp(alpn, "h2") != 0 ? BELFRY_HTTP_1 : BELFRY_HTTP_2;
    if (belfry_http_start(belfry_carrier_http(carrier), version, belfry_clock_ms()) != BELFRY_OK) {
        conn_leave(conn, BELFRY_ERR_NOMEM, belfry_strerror(BELFRY_ERR_NOMEM));
        return;
    }
    conn_move(conn, UP);
    pool->version = version;
    pool->connects++;
    if (pool->opts.idle_ms > 0)
        conn_begin_idle(conn);
    if (pool->opts.words != NULL)
        route_log(conn->route, BELFRY_LOG_INFO, pool->opts.words->up, NULL);
    if (pool->events->up != NULL)
        pool->events->up(pool, carrier, pool->user);
}

static void conn_on_lost(struct belfry_carrier *carrier, enum belfry_err err, const char *why, void *user)
{
    (void)carrier;
    conn_leave(user, err, why);
}

static void conn_on_draining(struct belfry_carrier *carrier, void *user)
{
    struct pool_conn *conn = user;
    struct belfry_pool *pool = conn->route->pool;
    char why[WHY_BYTES] = "the server is going away";
    if (pool->opts.wait_ms == 0) {
        conn_check_idle(conn);
        route_serve(conn->route);
        return;
    }
    if (pool->opts.words != NULL && pool->opts.words->goaway_code)
        snprintf(why, sizeof(why), "the server is going away (%s)",
                 nghttp2_http2_strerror(belfry_http_goaway_code(belfry_carrier_http(carrier))));
    conn_leave(conn, BELFRY_ERR_UNAVAILABLE, why);
}

static void pool_free_if_gone(struct belfry_pool *pool)
{
    if (pool->n_handles > 0 || pool->n_conns > 0)
        return;
    if (pool->events->gone != NULL)
        pool->events->gone(pool->user);
    free(pool->routes);
    free(pool->complaints);
    free(pool);
}

static void conn_on_gone(void *user)
{
    struct pool_conn *conn = user;
    struct belfry_pool *pool = conn->route->pool;
    belfry_list_remove(&conn->node);
    free(conn);
    pool->n_conns--;
    pool_free_if_gone(pool);
}

static const struct belfry_carrier_events carrier_events = {
    .up = conn_on_up, .feed = conn_on_feed, .lost = conn_on_lost, .draining = conn_on_draining, .gone = conn_on_gone};

/* ---- waiters ---- */

/* NULL: all of them rest or are barred. */
static struct route *pool_choose(struct belfry_pool *pool, unsigned pin)
{
    if (pin > 0 && pin <= pool->n_routes && route_rank(&pool->routes[pin - 1]) == 0)
        return &pool->routes[pin - 1];
    struct route *best = NULL;
    for (size_t i = 0; i < pool->n_routes; i++) {
        struct route *route = &pool->routes[(pool->turn + i) % pool->n_routes];
        if (route_rank(route) < (best == NULL ? RANKS : route_rank(best)))
            best = route;
    }
    if (best != NULL)
        pool->turn = (size_t)(best - pool->routes) + 1;
    return best;
}

/* Finds a waiter (in no list) a route to wait for. */
static void pool_place(struct belfry_pool *pool, struct belfry_waiter *waiter)
{
    struct route *route = pool->destroyed ? NULL : pool_choose(pool, waiter->pin != NULL ? *waiter->pin : 0);
    belfry_list_append(route != NULL ? &route->waiting : &pool->stranded, &waiter->node);
    if (!pool->destroyed && pool->opts.wait_ms > 0 && (route == NULL || route->n_up == 0))
        pool_arm(pool, pool->opts.wait_ms);
    if (route == NULL)
        return;
    if (waiter->pin != NULL)
        *waiter->pin = 1 + (unsigned)(route - pool->routes);
    route_serve(route);
}

static void pool_place_all(struct belfry_pool *pool, struct belfry_list *waiters)
{
    struct belfry_list *node, now;
    belfry_list_init(&now);
    belfry_list_move_all(&now, waiters);
    while ((node = belfry_list_pop(&now)) != NULL)
        pool_place(pool, waiter_of(node));
}

void belfry_pool_enqueue(struct belfry_pool *pool, struct belfry_waiter *waiter)
{
    BELFRY_OWNER_CHECK(pool);
    waiter->since_ms = belfry_clock_ms();
    belfry_list_init(&waiter->node);
    pool_place(pool, waiter);
    for (size_t i = 0; i < pool->n_routes && !pool->destroyed; i++) {
        if (route_rank(&pool->routes[i]) == 1) /* it failed and has rested: is it back? */
            route_dial(&pool->routes[i]);
    }
}

void belfry_pool_dequeue(struct belfry_waiter *waiter)
{
    belfry_list_remove(&waiter->node);
}

/* Moves waiters that have waited long enough; returns when the next one has. */
static uint64_t pool_gather_expired(const struct belfry_pool *pool, struct belfry_list *waiters, uint64_t now,
                                    struct belfry_list *expired)
{
    uint64_t next = BELFRY_NEVER;
    belfry_list_each_safe (node, waiters) {
        uint64_t due = waiter_of(node)->since_ms + pool->opts.wait_ms;
        if (due <= now) {
            belfry_list_remove(node);
            belfry_list_append(expired, node);
        } else {
            next = belfry_min_time(next, due);
        }
    }
    return next;
}

static void pool_on_timer(uv_timer_t *timer)
{
    struct belfry_pool *pool = timer->data;
    uint64_t now = belfry_clock_ms(), next = BELFRY_NEVER;
    struct belfry_list expired, refused, *node;
    belfry_list_init(&expired);
    belfry_list_init(&refused);
    belfry_list_move_all(&refused, &pool->refused);
    if (pool->opts.wait_ms > 0)
        next = pool_gather_expired(pool, &pool->stranded, now, &expired);
    for (size_t i = 0; i < pool->n_routes && pool->opts.wait_ms > 0; i++) {
        if (pool->routes[i].n_up == 0)
            next = belfry_min_time(next, pool_gather_expired(pool, &pool->routes[i].waiting, now, &expired));
    }
    if (pool->opts.idle_ms > 0)
        next = belfry_min_time(next, pool_close_idle(pool, now));
    if (next != BELFRY_NEVER)
        pool_arm(pool, next - now > LOOK_MS ? next - now : LOOK_MS);

    char why[WHY_ALL];
    belfry_pool_describe(pool, why, sizeof(why));
    if (why[0] == '\0')
        snprintf(why, sizeof(why), "no endpoint answered within %u ms", (unsigned)pool->opts.wait_ms);
    pool_refuse_all(pool, &expired, BELFRY_ERR_UNAVAILABLE, why);
    while ((node = belfry_list_pop(&refused)) != NULL)
        pool->events->refuse(waiter_of(node), waiter_of(node)->err, belfry_strerror((int)waiter_of(node)->err),
                             pool->user);
}

/* ---- from outside ---- */

static void pool_on_closed(uv_handle_t *handle)
{
    struct belfry_pool *pool = handle->data;
    pool->n_handles--;
    pool_free_if_gone(pool);
}

enum belfry_err belfry_pool_create(const struct belfry_pool_opts *opts, const struct belfry_pool_events *events,
                                   void *user, struct belfry_pool **out)
{
    assert(opts->n_endpoints > 0);
    struct belfry_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL)
        return BELFRY_ERR_NOMEM;
    pool->n_routes = opts->one_at_a_time ? 1 : opts->n_endpoints;
    pool->routes = calloc(pool->n_routes, sizeof(*pool->routes));
    pool->complaints = calloc(opts->n_endpoints, sizeof(*pool->complaints));
    if (pool->routes == NULL || pool->complaints == NULL) {
        free(pool->routes);
        free(pool->complaints);
        free(pool);
        return BELFRY_ERR_NOMEM;
    }
    pool->opts = *opts;
    pool->events = events;
    pool->user = user;
    pool->rng.state = opts->seed;
    pool->turn = belfry_rng_below(&pool->rng, pool->n_routes); /* the first calls of many pools go everywhere */
    if (opts->name != NULL)
        snprintf(pool->tag, sizeof(pool->tag), "link=%s ", opts->name);
    belfry_list_init(&pool->carriers);
    belfry_list_init(&pool->stranded);
    belfry_list_init(&pool->refused);
    for (size_t i = 0; i < pool->n_routes; i++) {
        struct route *route = &pool->routes[i];
        *route = (struct route){
            .pool = pool, .first = i, .at = i, .n = opts->one_at_a_time ? opts->n_endpoints : 1, .state = READY};
        belfry_backoff_init(&route->backoff, BELFRY_POOL_FIRST_MS, BELFRY_POOL_MAX_MS);
        belfry_list_init(&route->conns);
        belfry_list_init(&route->waiting);
        uv_timer_init(opts->loop, &route->timer);
        route->timer.data = route;
    }
    uv_timer_init(opts->loop, &pool->timer);
    pool->timer.data = pool;
    pool->n_handles = pool->n_routes + 1;
    BELFRY_OWNER_INIT(pool);
    *out = pool;
    return BELFRY_OK;
}

void belfry_pool_destroy(struct belfry_pool *pool, const char *why)
{
    if (pool == NULL)
        return;
    BELFRY_OWNER_CHECK(pool);
    pool->destroyed = true;
    belfry_carrier_close_all(&pool->carriers, why);
    pool_refuse_all(pool, &pool->stranded, BELFRY_ERR_UNAVAILABLE, why);
    pool_refuse_all(pool, &pool->refused, BELFRY_ERR_UNAVAILABLE, why);
    for (size_t i = 0; i < pool->n_routes; i++) {
        pool_refuse_all(pool, &pool->routes[i].waiting, BELFRY_ERR_UNAVAILABLE, why);
        pool->routes[i].timer.data = pool;
        uv_close((uv_handle_t *)&pool->routes[i].timer, pool_on_closed);
    }
    uv_close((uv_handle_t *)&pool->timer, pool_on_closed);
}

void belfry_pool_want(struct belfry_pool *pool, bool wanted)
{
    BELFRY_OWNER_CHECK(pool);
    struct route *route = &pool->routes[0];
    pool->wanted = wanted && !pool->destroyed;
    if (pool->wanted && route->state == READY && belfry_list_empty(&route->conns))
        route_dial(route);
}

void belfry_pool_good(struct belfry_pool *pool, const struct belfry_carrier *conn)
{
    BELFRY_OWNER_CHECK(pool);
    struct pool_conn *served = conn != NULL ? belfry_carrier_user(conn) : NULL;
    if (served == NULL || served->state != UP || served->route->failures == 0)
        return;
    struct route *route = served->route;
    route->failures = 0;
    belfry_backoff_reset(&route->backoff);
    for (size_t i = route->first; i < route->first + route->n; i++)
        pool->complaints[i].why[0] = '\0';
}

void belfry_pool_count_loss(struct belfry_pool *pool, const struct belfry_carrier *conn)
{
    struct pool_conn *lost = belfry_carrier_user(conn);
    pool->losses += !lost->lost;
    lost->lost = true;
}

static struct pool_conn *pool_current(const struct belfry_pool *pool)
{
    const struct route *route = &pool->routes[0];
    assert(pool->opts.one_at_a_time);
    return route->n_up > 0 && !pool->destroyed ? conn_of(route->conns.next) : NULL;
}

struct belfry_carrier *belfry_pool_conn(struct belfry_pool *pool)
{
    BELFRY_OWNER_CHECK(pool);
    struct pool_conn *conn = pool_current(pool);
    return conn != NULL ? conn->carrier : NULL;
}

size_t belfry_pool_at(const struct belfry_pool *pool)
{
    return pool->routes[0].at;
}

void belfry_pool_leave(struct belfry_pool *pool, enum belfry_err err, const char *why)
{
    BELFRY_OWNER_CHECK(pool);
    struct pool_conn *conn = pool_current(pool);
    if (conn != NULL)
        conn_leave(conn, err, why);
}

bool belfry_pool_exhausted(const struct belfry_pool *pool)
{
    return pool->routes[0].failures >= pool->routes[0].n;
}

void belfry_pool_describe(const struct belfry_pool *pool, char *text, size_t len)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < pool->opts.n_endpoints && used < len; i++) {
        if (pool->complaints[i].why[0] == '\0')
            continue;
        int n = snprintf(text + used, len - used, "%s%s: %s", used > 0 ? "; " : "", pool->opts.endpoints[i].url,
                         pool->complaints[i].why);
        used += n > 0 ? (size_t)n : 0;
    }
}

const char *belfry_pool_why(const struct belfry_pool *pool, size_t endpoint, bool *out_was_up)
{
    *out_was_up = pool->complaints[endpoint].was_up;
    return pool->complaints[endpoint].why;
}

struct belfry_pool_counts belfry_pool_counts(const struct belfry_pool *pool)
{
    struct belfry_pool_counts counts = {.connects = pool->connects, .losses = pool->losses};
    for (size_t i = 0; i < pool->n_routes; i++) {
        belfry_list_each (node, &pool->routes[i].conns) {
            const struct belfry_http *http = belfry_carrier_http(conn_of(node)->carrier);
            bool is_up = conn_of(node)->state == UP && belfry_http_state(http) != BELFRY_HTTP_DEAD;
            counts.connections += is_up;
            counts.http2 += is_up && belfry_http_version(http) == BELFRY_HTTP_2;
            counts.named += is_up && belfry_carrier_has_name(conn_of(node)->carrier);
        }
    }
    return counts;
}
