/* src/serve/uplink/uplink.c: which endpoint a call goes to, and what happens while that cannot be reached. */
#include "serve/uplink/uplink.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "serve/uplink/uplink_call.h"

#define FIRST_MS    50   /* the first wait after an endpoint failed twice */
#define MAX_MS      3000 /* and the longest */
#define EXPIRY_MS   100  /* at least, between two looks at all calls that wait */
#define WHY_BYTES   160
#define WHY_ALL     512
#define CLOSED_TEXT "the tier is shutting down"

/*     IDLE --needed--> DIALING --> UP --lost, draining--.
 *      ^  ^               ^ |      |                     |
 *      |  `---- full -----+-|------'                     |
 *      |                  | `-- failed --> RESTING <-----'
 *      `--- not needed ---+------------------'
 */
enum way_state { IDLE, DIALING, UP, RESTING };

/* One endpoint. */
struct way {
    struct uplink *uplink;
    const struct belfry_endpoint *endpoint;
    enum way_state state;
    bool barred;                   /* gets no calls */
    bool full;                     /* UP: the peer takes no more streams on `conn`; the timer says when for too long */
    struct uplink_conn *conn;      /* DIALING and UP */
    struct belfry_backoff backoff; /* tries: failures since it last served */
    uv_timer_t timer;
    struct belfry_list waiting; /* calls */
    char why[WHY_BYTES];        /* "" = nothing known against it */
};

struct uplink {
    /* fixed */
    struct uplink_opts opts;
    struct way *ways; /* owned */
    /* owner */
    bool (*auth_is_off)(void *user); /* NULL: not known */
    void *auth_user;
    bool newest_has_name; /* the connection that was made last; before there was one: with TLS it might */
    bool destroyed;
    size_t turn;                 /* whose it is to get the next who has no pin */
    struct belfry_list conns;    /* all, those that drain too */
    struct belfry_list stranded; /* calls that wait while every endpoint rests */
    struct belfry_list over;     /* calls whose owners have not closed them yet */
    struct belfry_rng rng;
    uv_timer_t timer; /* for calls that have waited too long */
    size_t n_handles;
    struct uplink_stats stats;
};

static const struct uplink_conn_events conn_events;
static void place(struct uplink *uplink, struct uplink_call *call);
static void arm_expiry(struct uplink *uplink, uint64_t ms);
static void on_expiry(uv_timer_t *timer);

/* ---- endpoints ---- */

static void move(struct way *way, enum way_state to)
{
    static const unsigned legal[] = {[IDLE] = 1u << DIALING,
                                     [DIALING] = 1u << UP | 1u << RESTING,
                                     [UP] = 1u << RESTING | 1u << IDLE,
                                     [RESTING] = 1u << IDLE};
    assert(legal[way->state] & 1u << to);
    (void)legal;
    way->uplink->stats.connections += (size_t)(to == UP);
    way->uplink->stats.connections -= (size_t)(way->state == UP);
    way->state = to;
}

static void dial(struct way *way);

static void on_rested(uv_timer_t *timer)
{
    struct way *way = timer->data;
    move(way, IDLE);
    struct belfry_list *node;
    while (!way->barred && (node = belfry_list_pop(&way->uplink->stranded)) != NULL) {
        struct uplink_call *call = belfry_container(node, struct uplink_call, node);
        belfry_list_append(&way->waiting, node);
        if (call->pin != NULL)
            *call->pin = 1 + (unsigned)(way - way->uplink->ways);
    }
    if (!belfry_list_empty(&way->waiting))
        dial(way);
}

/* DIALING or UP -> RESTING; who waited for it goes elsewhere. */
static void fail(struct way *way, const char *why)
{
    struct uplink *uplink = way->uplink;
    bool was_up = way->state == UP;
    bool news = was_up || strcmp(way->why, why) != 0;
    snprintf(way->why, sizeof(way->why), "%s", why);
    belfry_logf(uplink->opts.log, news ? BELFRY_LOG_INFO : BELFRY_LOG_DEBUG, was_up ? "uplink_lost" : "uplink_failed",
                "endpoint=%s why=\"%s\"", way->endpoint->url, why);
    uplink->stats.losses += was_up;
    way->conn = NULL;
    way->full = false;
    move(way, RESTING);
    uv_update_time(uplink->opts.loop);
    uv_timer_start(&way->timer, on_rested, belfry_backoff_next(&way->backoff, &uplink->rng), 0);

    struct belfry_list calls, *node;
    belfry_list_init(&calls);
    belfry_list_move_all(&calls, &way->waiting);
    while ((node = belfry_list_pop(&calls)) != NULL) {
        struct uplink_call *call = belfry_container(node, struct uplink_call, node);
        if (was_up) /* it did not wait for an endpoint so far, but for a stream */
            call->since_ms = belfry_clock_ms();
        place(uplink, call);
    }
}

static void dial(struct way *way)
{
    const struct uplink_opts *opts = &way->uplink->opts;
    struct belfry_transport_opts transport = {.loop = opts->loop,
                                              .dns = opts->dns,
                                              .endpoint = way->endpoint,
                                              .tls = way->endpoint->tls ? opts->tls : NULL,
                                              .dial_timeout_ms = opts->dial_timeout_ms};
    move(way, DIALING);
    enum belfry_err err = uplink_conn_open(&transport, &way->uplink->conns, &conn_events, way, &way->conn);
    if (err != BELFRY_OK)
        fail(way, belfry_strerror((int)err));
}

/* How gladly a call is given to it: 0 is best; RANKS: not at all. One that failed since it last served gets calls only
 * when there is no other; whether it is back is found out without them. */
#define RANKS 3
static unsigned rank(const struct way *way)
{
    if (way->barred)
        return RANKS;
    switch (way->state) {
    case UP:
        return 0;
    case IDLE:
        return way->backoff.tries == 0 ? 0 : 1;
    case DIALING:
        return way->backoff.tries == 0 ? 0 : 2;
    case RESTING:
        break;
    }
    return RANKS;
}

/* NULL: all of them rest. */
static struct way *choose(struct uplink *uplink, unsigned pin)
{
    size_t n = uplink->opts.n_endpoints;
    if (pin > 0 && pin <= n && rank(&uplink->ways[pin - 1]) == 0)
        return &uplink->ways[pin - 1];
    struct way *best = NULL;
    for (size_t i = 0; i < n; i++) {
        struct way *way = &uplink->ways[(uplink->turn + i) % n];
        if (rank(way) < (best == NULL ? RANKS : rank(best)))
            best = way;
    }
    if (best != NULL)
        uplink->turn = (size_t)(best - uplink->ways) + 1;
    return best;
}

/* Endpoints that failed and have rested: are they back? */
static void try_again(struct uplink *uplink)
{
    for (size_t i = 0; i < uplink->opts.n_endpoints; i++) {
        if (uplink->ways[i].state == IDLE && uplink->ways[i].backoff.tries > 0 && !uplink->ways[i].barred)
            dial(&uplink->ways[i]);
    }
}

static void on_up(struct uplink_conn *conn, void *user)
{
    struct way *way = user;
    move(way, UP);
    way->uplink->newest_has_name = uplink_conn_has_name(conn);
    way->uplink->stats.connects++;
    belfry_logf(way->uplink->opts.log, BELFRY_LOG_INFO, "uplink_up", "endpoint=%s", way->endpoint->url);
}

/* Could etcd take this call for one of the certificate's user? */
static bool is_mistakable(const struct uplink_conn *conn, const struct uplink_call *call)
{
    return uplink_conn_has_name(conn) && call->caller == UPLINK_CALLER_CLIENT && !uplink_head_has_user(call->head);
}

static bool auth_is_off(const struct uplink *uplink)
{
    return uplink->auth_is_off != NULL && uplink->auth_is_off(uplink->auth_user);
}

static enum belfry_err start_call(struct uplink_conn *conn, struct uplink_call *call)
{
    bool mistakable = is_mistakable(conn, call);
    call->lent = mistakable && auth_is_off(call->uplink);
    return uplink_conn_start(conn, call, mistakable && !call->lent ? UPLINK_HEAD_AS_NOBODY : UPLINK_HEAD_AS_IT_IS);
}

static bool may_connect(const struct uplink *uplink)
{
    size_t n = 0;
    belfry_list_each (node, &uplink->conns)
        n++;
    return n < uplink->opts.max_conns;
}

/* No stream of its connection has become free for a while, so they are long ones: they keep it, and the calls that wait
 * get another. */
static void on_full(uv_timer_t *timer)
{
    struct way *way = timer->data;
    way->full = false;
    if (belfry_list_empty(&way->waiting) || !may_connect(way->uplink))
        return; /* the next call that finds it full asks again */
    belfry_logf(way->uplink->opts.log, BELFRY_LOG_INFO, "uplink_full", "endpoint=%s", way->endpoint->url);
    uplink_conn_retire(way->conn);
    way->conn = NULL;
    move(way, IDLE);
    belfry_list_each (node, &way->waiting) /* for an endpoint, from now on */
        belfry_container(node, struct uplink_call, node)->since_ms = belfry_clock_ms();
    arm_expiry(way->uplink, UPLINK_WAIT_MS);
    dial(way);
}

static void set_full(struct way *way, bool full)
{
    if (way->full == full)
        return;
    way->full = full;
    uv_update_time(way->uplink->opts.loop);
    if (full)
        uv_timer_start(&way->timer, on_full, way->uplink->opts.full_ms, 0);
    else
        uv_timer_stop(&way->timer);
}

static void on_feed(struct uplink_conn *conn, void *user)
{
    struct way *way = user;
    while (!belfry_list_empty(&way->waiting)) {
        struct uplink_call *call = belfry_container(way->waiting.next, struct uplink_call, node);
        belfry_list_remove(&call->node);
        enum belfry_err err = start_call(conn, call);
        if (err == BELFRY_OK) {
            set_full(way, false);
            continue;
        }
        if (way->conn != conn) { /* it drains from now on, and this one missed the move */
            place(way->uplink, call);
            return;
        }
        belfry_list_prepend(&way->waiting, &call->node);
        set_full(way, true);
        return;
    }
    set_full(way, false);
}

static void on_serves(struct uplink_conn *conn, void *user)
{
    struct way *way = user;
    (void)conn;
    belfry_backoff_reset(&way->backoff);
    way->why[0] = '\0';
}

static void on_failed(struct uplink_conn *conn, const char *why, void *user)
{
    (void)conn;
    fail(user, why);
}

static void on_returned(struct uplink_call *call, void *user)
{
    struct way *way = user;
    call->state = CALL_WAITING;
    call->since_ms = belfry_clock_ms();
    place(way->uplink, call);
}

static const struct uplink_conn_events conn_events = {.up = on_up,
                                                      .feed = on_feed,
                                                      .serves = on_serves,
                                                      .draining = on_failed,
                                                      .lost = on_failed,
                                                      .returned = on_returned};

/* ---- calls ---- */

static void arm_expiry(struct uplink *uplink, uint64_t ms)
{
    if (uv_is_active((uv_handle_t *)&uplink->timer))
        return;
    uv_update_time(uplink->opts.loop);
    uv_timer_start(&uplink->timer, on_expiry, ms, 0);
}

/* Finds a call (in no list) an endpoint to wait for. No event comes from inside. */
static void place(struct uplink *uplink, struct uplink_call *call)
{
    struct way *way = uplink->destroyed ? NULL : choose(uplink, call->pin != NULL ? *call->pin : 0);
    belfry_list_append(way != NULL ? &way->waiting : &uplink->stranded, &call->node);
    if (way != NULL && call->pin != NULL)
        *call->pin = 1 + (unsigned)(way - uplink->ways);
    if (!uplink->destroyed && (way == NULL || way->state != UP))
        arm_expiry(uplink, UPLINK_WAIT_MS);
    if (way != NULL && way->state == IDLE)
        dial(way);
    else if (way != NULL && way->state == UP)
        uplink_conn_flush(way->conn);
}

/* Moves those that have waited long enough; returns when the next one has. */
static uint64_t gather_expired(struct belfry_list *calls, uint64_t now, struct belfry_list *expired)
{
    uint64_t next = BELFRY_NEVER;
    belfry_list_each_safe (node, calls) {
        uint64_t due = belfry_container(node, struct uplink_call, node)->since_ms + UPLINK_WAIT_MS;
        if (due <= now) {
            belfry_list_remove(node);
            belfry_list_append(expired, node);
        } else {
            next = belfry_min_time(next, due);
        }
    }
    return next;
}

static void end_all(struct belfry_list *calls, const char *why)
{
    struct belfry_list *node;
    while ((node = belfry_list_pop(calls)) != NULL)
        uplink_call_end(belfry_container(node, struct uplink_call, node),
                        &(struct uplink_end){.lost = true, .unprocessed = true, .why = why});
}

static void on_expiry(uv_timer_t *timer)
{
    struct uplink *uplink = timer->data;
    struct belfry_list expired;
    belfry_list_init(&expired);
    uint64_t now = belfry_clock_ms(), next = gather_expired(&uplink->stranded, now, &expired);
    for (size_t i = 0; i < uplink->opts.n_endpoints; i++) {
        if (uplink->ways[i].state != UP)
            next = belfry_min_time(next, gather_expired(&uplink->ways[i].waiting, now, &expired));
    }
    if (next != BELFRY_NEVER)
        arm_expiry(uplink, next - now > EXPIRY_MS ? next - now : EXPIRY_MS);
    char why[WHY_ALL];
    uplink_describe(uplink, why, sizeof(why));
    if (why[0] == '\0')
        snprintf(why, sizeof(why), "no endpoint answered within %d ms", UPLINK_WAIT_MS);
    belfry_list_each (node, &expired)
        uplink->stats.unavailable++;
    end_all(&expired, why);
}

static void free_call(struct uplink_call *call)
{
    call->uplink->stats.calls--;
    uplink_head_destroy(call->head);
    free(call);
}

void uplink_call_over(struct uplink_call *call)
{
    call->state = CALL_OVER;
    belfry_list_append(&call->uplink->over, &call->node);
}

void uplink_call_end(struct uplink_call *call, const struct uplink_end *end)
{
    call->events->closed(call, end, call->user);
    free_call(call);
}

enum belfry_err uplink_open(struct uplink *uplink, unsigned *pin, const struct uplink_request *request,
                            const struct uplink_events *events, void *user, struct uplink_call **out)
{
    if (uplink->destroyed || uplink->stats.calls >= UPLINK_CALLS)
        return BELFRY_ERR_LIMIT;
    struct uplink_head *head;
    enum belfry_err err =
        uplink_head_create(request->path, request->fields, request->n_fields, uplink->opts.via, &head);
    if (err != BELFRY_OK)
        return err;
    struct uplink_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        uplink_head_destroy(head);
        return BELFRY_ERR_NOMEM;
    }
    *call = (struct uplink_call){.uplink = uplink,
                                 .events = events,
                                 .user = user,
                                 .pin = pin,
                                 .caller = request->caller,
                                 .head = head,
                                 .since_ms = belfry_clock_ms()};
    belfry_list_init(&call->node);
    uplink->stats.calls++;
    uplink->stats.opened++;
    place(uplink, call);
    try_again(uplink);
    *out = call;
    return BELFRY_OK;
}

void uplink_ask_auth(struct uplink *uplink, bool (*is_off)(void *user), void *user)
{
    uplink->auth_is_off = is_off;
    uplink->auth_user = user;
}

bool uplink_may_have_name(const struct uplink *uplink)
{
    bool found = uplink->newest_has_name;
    for (size_t i = 0; i < uplink->opts.n_endpoints; i++)
        found = found || (uplink->ways[i].state == UP && uplink_conn_has_name(uplink->ways[i].conn));
    return found;
}

void uplink_bar(struct uplink *uplink, uint64_t endpoints)
{
    for (size_t i = 0; i < uplink->opts.n_endpoints && i < 64; i++)
        uplink->ways[i].barred = (endpoints >> i & 1) != 0;
}

void uplink_close(struct uplink_call *call)
{
    if (call->state == CALL_RUNNING)
        uplink_conn_cancel(call->conn, call);
    else
        belfry_list_remove(&call->node);
    free_call(call);
}

bool uplink_is_lent(const struct uplink_call *call)
{
    return call->state == CALL_RUNNING && call->lent;
}

void uplink_resume(struct uplink_call *call)
{
    if (call->state == CALL_RUNNING)
        uplink_conn_resume(call->conn, call);
}

void uplink_taken(struct uplink_call *call, size_t n)
{
    if (call->state == CALL_RUNNING)
        uplink_conn_taken(call->conn, call, n);
}

size_t uplink_unsent(const struct uplink_call *call)
{
    return call->head == NULL ? 0 : uplink_head_bytes(call->head);
}

/* ---- the whole ---- */

static void on_closed(uv_handle_t *handle)
{
    struct uplink *uplink = handle->data;
    if (--uplink->n_handles > 0)
        return;
    free(uplink->ways);
    free(uplink);
}

static void init_way(struct uplink *uplink, size_t i)
{
    struct way *way = &uplink->ways[i];
    way->uplink = uplink;
    way->endpoint = &uplink->opts.endpoints[i];
    uplink->newest_has_name = uplink->newest_has_name || way->endpoint->tls;
    belfry_backoff_init(&way->backoff, FIRST_MS, MAX_MS);
    belfry_list_init(&way->waiting);
    uv_timer_init(uplink->opts.loop, &way->timer);
    way->timer.data = way;
}

enum belfry_err uplink_create(const struct uplink_opts *opts, struct uplink **out)
{
    assert(opts->n_endpoints > 0);
    struct uplink *uplink = calloc(1, sizeof(*uplink));
    if (uplink == NULL)
        return BELFRY_ERR_NOMEM;
    uplink->ways = calloc(opts->n_endpoints, sizeof(*uplink->ways));
    if (uplink->ways == NULL) {
        free(uplink);
        return BELFRY_ERR_NOMEM;
    }
    uplink->opts = *opts;
    uplink->opts.full_ms = opts->full_ms != 0 ? opts->full_ms : UPLINK_FULL_MS;
    uplink->opts.max_conns = opts->max_conns != 0 ? opts->max_conns : UPLINK_CONNS;
    uplink->rng.state = opts->seed;
    uplink->turn = belfry_rng_below(&uplink->rng, opts->n_endpoints); /* a fleet's first calls go everywhere */
    belfry_list_init(&uplink->conns);
    belfry_list_init(&uplink->stranded);
    belfry_list_init(&uplink->over);
    for (size_t i = 0; i < opts->n_endpoints; i++)
        init_way(uplink, i);
    uv_timer_init(opts->loop, &uplink->timer);
    uplink->timer.data = uplink;
    uplink->n_handles = opts->n_endpoints + 1;
    *out = uplink;
    return BELFRY_OK;
}

void uplink_destroy(struct uplink *uplink)
{
    if (uplink == NULL)
        return;
    uplink->destroyed = true;
    uplink_conn_close_all(&uplink->conns, CLOSED_TEXT);
    end_all(&uplink->stranded, CLOSED_TEXT);
    end_all(&uplink->over, CLOSED_TEXT);
    for (size_t i = 0; i < uplink->opts.n_endpoints; i++) {
        struct way *way = &uplink->ways[i];
        end_all(&way->waiting, CLOSED_TEXT);
        way->timer.data = uplink;
        uv_close((uv_handle_t *)&way->timer, on_closed);
    }
    uv_close((uv_handle_t *)&uplink->timer, on_closed);
}

uv_loop_t *uplink_loop(const struct uplink *uplink)
{
    return uplink->opts.loop;
}

void uplink_stats(const struct uplink *uplink, struct uplink_stats *out)
{
    *out = uplink->stats;
}

void uplink_describe(const struct uplink *uplink, char *text, size_t len)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < uplink->opts.n_endpoints && used < len; i++) {
        const struct way *way = &uplink->ways[i];
        if (way->why[0] == '\0')
            continue;
        int n = snprintf(text + used, len - used, "%s%s: %s", used > 0 ? "; " : "", way->endpoint->url, way->why);
        used += n > 0 ? (size_t)n : 0;
    }
}
