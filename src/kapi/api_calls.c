/* src/kapi/api_calls.c */
#include "kapi/api_calls.h"

#include <stdlib.h>

#include "base/owner.h"
#include "net/loop.h"

#define PING_MS         30000 /* as Go's client */
#define PING_TIMEOUT_MS 15000

struct belfry_api_calls {
    struct belfry *b;
    struct belfry_pool *pool;
    uint64_t requests;
    BELFRY_OWNER;
};

struct belfry_api_call {
    struct belfry_waiter waiter; /* QUEUED */
    struct belfry_api_calls *calls;
    struct belfry_carrier *conn; /* NULL: QUEUED */
    struct belfry_fetch *fetch;  /* on conn */
    const char *target;
    const struct belfry_api_events *events;
    void *user;
    bool answered; /* a head came */
    bool held;
    bool moved; /* to another connection once, because the server had not looked at it */
};

/* ---- a call on a connection ---- */

static void on_head(struct belfry_fetch *fetch, const struct belfry_fetch_head *head, void *user)
{
    struct belfry_api_call *call = user;
    (void)fetch;
    call->answered = true;
    call->events->head(head, call->user);
}

static void on_body(struct belfry_fetch *fetch, struct belfry_bytes bytes, void *user)
{
    struct belfry_api_call *call = user;
    (void)fetch;
    call->events->body(bytes, call->user);
}

static void on_end(struct belfry_fetch *fetch, void *user)
{
    struct belfry_api_call ended = *(struct belfry_api_call *)user;
    (void)fetch;
    free(user);
    ended.events->end(ended.user);
}

static void api_call_fail(struct belfry_api_call *call, enum belfry_err err, const char *why, enum belfry_broke broke)
{
    struct belfry_api_call failed = *call;
    free(call);
    failed.events->failed(err, why, broke, failed.user);
}

/* Sends the call once more if the connection is to blame. A connection that was used before may be ended by the server
 * at any time; each does it once, so that this ends. A server that looked at no call gets one more try. */
static void on_failed(struct belfry_fetch *fetch, enum belfry_err err, const char *why, bool unprocessed, void *user)
{
    struct belfry_api_call *call = user;
    bool dead = belfry_http_state(belfry_carrier_http(call->conn)) == BELFRY_HTTP_DEAD;
    bool stale = call->waiter.reused && dead && !call->answered && err == BELFRY_ERR_UNAVAILABLE;
    (void)fetch;
    if (dead)
        belfry_pool_count_loss(call->calls->pool, call->conn);
    if (!stale && (!unprocessed || call->moved)) {
        api_call_fail(call, err, why, BELFRY_BROKE_OFF);
        return;
    }
    call->moved = call->moved || !stale;
    call->conn = NULL;
    call->fetch = NULL;
    belfry_pool_enqueue(call->calls->pool, &call->waiter);
}

static const struct belfry_fetch_events fetch_events = {
    .head = on_head, .body = on_body, .end = on_end, .failed = on_failed};

/* ---- events of the pool ---- */

static enum belfry_err on_place(struct belfry_waiter *waiter, struct belfry_carrier *conn, void *user)
{
    struct belfry_api_calls *calls = user;
    struct belfry_api_call *call = belfry_container(waiter, struct belfry_api_call, waiter);
    struct belfry_http_field fields[BELFRY_API_FIELDS];
    struct belfry_fetch_request request = {.method = "GET", .target = call->target, .fields = fields};
    request.n_fields = call->events->fields(fields, call->user);
    enum belfry_err err = belfry_fetch_open(belfry_carrier_http(conn), &request, &fetch_events, call, &call->fetch);
    if (err != BELFRY_OK)
        return err;
    calls->requests++;
    call->conn = conn;
    if (call->held)
        belfry_fetch_hold(call->fetch, true);
    return BELFRY_OK;
}

static void on_refuse(struct belfry_waiter *waiter, enum belfry_err err, const char *why, void *user)
{
    struct belfry_api_call *call = belfry_container(waiter, struct belfry_api_call, waiter);
    (void)user;
    if (err == BELFRY_ERR_INVALID)
        why = "the request is too long: selectors, token and all may have 48 KiB";
    api_call_fail(call, err, why, BELFRY_BROKE_REFUSED);
}

static const struct belfry_pool_events pool_events = {.place = on_place, .refuse = on_refuse};

/* ---- from outside ---- */

enum belfry_err belfry_api_create(const struct belfry_api_opts *opts, struct belfry_api_calls **out)
{
    struct belfry_pool_opts pool = {.loop = belfry_loop_uv(opts->b->loop),
                                    .dns = opts->b->dns,
                                    .tls = opts->tls,
                                    .endpoints = opts->endpoint,
                                    .n_endpoints = 1,
                                    .dial_timeout_ms = opts->dial_timeout_ms,
                                    .http = {.common = {.user_agent = opts->user_agent},
                                             .window = BELFRY_FETCH_WINDOW,
                                             .ping_ms = PING_MS,
                                             .ping_timeout_ms = PING_TIMEOUT_MS},
                                    .alpn = true,
                                    .nonsense = "it does not speak HTTP as it should",
                                    .log = &opts->b->log,
                                    .idle_ms = BELFRY_API_IDLE_MS,
                                    .max_conns = BELFRY_API_CONNECTIONS};
    struct belfry_api_calls *calls = calloc(1, sizeof(*calls));
    if (calls == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = belfry_pool_create(&pool, &pool_events, calls, &calls->pool);
    if (err != BELFRY_OK) {
        free(calls);
        return err;
    }
    calls->b = opts->b;
    BELFRY_OWNER_INIT(calls);
    *out = calls;
    return BELFRY_OK;
}

void belfry_api_destroy(struct belfry_api_calls *calls)
{
    if (calls == NULL)
        return;
    BELFRY_OWNER_CHECK(calls);
    belfry_pool_destroy(calls->pool, "the client was closed");
    belfry_session_poke(calls->b); /* what was closed is freed on the loop's next turn */
    free(calls);
}

enum belfry_err belfry_api_call_open(struct belfry_api_calls *calls, const struct belfry_api_ask *ask,
                                     const struct belfry_api_events *events, void *user, struct belfry_api_call **out)
{
    BELFRY_OWNER_CHECK(calls);
    struct belfry_api_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        return BELFRY_ERR_NOMEM;
    call->calls = calls;
    call->target = ask->target;
    call->waiter.is_long = ask->is_watch;
    call->waiter.conn = ask->link / 2;
    call->events = events;
    call->user = user;
    belfry_pool_enqueue(calls->pool, &call->waiter);
    belfry_session_poke(calls->b);
    *out = call;
    return BELFRY_OK;
}

void belfry_api_call_cancel(struct belfry_api_call *call)
{
    if (call->conn == NULL) {
        belfry_pool_dequeue(&call->waiter);
    } else {
        belfry_fetch_cancel(call->fetch);
        belfry_carrier_flush(call->conn);
        belfry_session_poke(call->calls->b); /* from outside the loop, too, the server is told now */
    }
    free(call);
}

void belfry_api_call_hold(struct belfry_api_call *call, bool hold)
{
    call->held = hold;
    if (call->conn == NULL)
        return;
    struct belfry_carrier *conn = call->conn;
    belfry_carrier_enter(conn); /* what was held back is told from inside, and may end anything */
    belfry_fetch_hold(call->fetch, hold);
    belfry_carrier_flush(conn);
    belfry_carrier_leave(conn);
}

/* The number of the connection, twice, and one more if other calls can share it. */
uint64_t belfry_api_call_link(const struct belfry_api_call *call)
{
    bool is_shared = belfry_http_version(belfry_carrier_http(call->conn)) == BELFRY_HTTP_2;
    return 2 * call->waiter.conn + is_shared;
}

uint64_t belfry_api_requests(const struct belfry_api_calls *calls)
{
    return calls->requests;
}

struct belfry_pool_counts belfry_api_counts(const struct belfry_api_calls *calls)
{
    return belfry_pool_counts(calls->pool);
}
