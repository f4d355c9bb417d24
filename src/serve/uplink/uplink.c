/* src/serve/uplink/uplink.c: which endpoint a call goes to, and what happens while that cannot be reached. */
#include "serve/uplink/uplink.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/owner.h"
#include "net/carrier.h"
#include "serve/uplink/via.h"

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
    struct belfry_carrier *conn;   /* DIALING and UP */
    bool serves;                   /* UP: an answer came on `conn`: it not only connects */
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
    size_t turn;                 /* whose it is to get the next call that has no pin */
    struct belfry_list conns;    /* all, those that are retired too */
    struct belfry_list stranded; /* calls that wait while every endpoint rests */
    struct belfry_list over;     /* calls whose owners have not closed them yet */
    struct belfry_rng rng;
    uv_timer_t timer; /* for calls that have waited too long */
    size_t n_handles;
    struct uplink_stats stats;
    BELFRY_OWNER;
};

/*     WAITING <--> RUNNING --> OVER --> CLOSED
 *         \___________\___________________^
 *
 * Back to WAITING only if its HEADERS never left. */
enum call_state {
    CALL_WAITING,
    CALL_RUNNING, /* on a connection; sent or not */
    CALL_OVER,    /* the response is complete, the owner has not closed it yet */
    CALL_CLOSED   /* by its owner, or by its last event: freed as soon as net/call lets go of it */
};

struct uplink_call {
    struct belfry_http_call call; /* RUNNING */
    /* fixed at creation */
    struct uplink *uplink;
    const struct uplink_events *events;
    void *user;
    unsigned *pin; /* lent; may be NULL */
    enum uplink_caller caller;
    bool has_user; /* its head brings one */
    /* owner */
    struct belfry_list node; /* of calls that wait for an endpoint, or are over */
    enum call_state state;
    struct belfry_http_ask *ask; /* owned; WAITING */
    struct way *way;             /* RUNNING: to where */
    struct belfry_carrier *conn; /* RUNNING */
    bool lent;                   /* RUNNING: by a name that is not its caller's */
    bool last;                   /* the end of the response was told with its last block */
    uint64_t since_ms;           /* waiting for an endpoint to be reached */
};

static void place(struct uplink *uplink, struct uplink_call *call);
static void arm_expiry(struct uplink *uplink, uint64_t ms);
static void on_expiry(uv_timer_t *timer);

static struct uplink_call *waiting_call(struct belfry_list *node)
{
    return belfry_container(node, struct uplink_call, node);
}

/* ---- endpoints ---- */

static void way_move(struct way *way, enum way_state to)
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

static void way_dial(struct way *way);

static void on_rested(uv_timer_t *timer)
{
    struct way *way = timer->data;
    way_move(way, IDLE);
    struct belfry_list *node;
    while (!way->barred && (node = belfry_list_pop(&way->uplink->stranded)) != NULL) {
        struct uplink_call *call = waiting_call(node);
        belfry_list_append(&way->waiting, node);
        if (call->pin != NULL)
            *call->pin = 1 + (unsigned)(way - way->uplink->ways);
    }
    if (!belfry_list_empty(&way->waiting))
        way_dial(way);
}

/* DIALING or UP -> RESTING; calls that waited for it go elsewhere. */
static void way_fail(struct way *way, const char *why)
{
    struct uplink *uplink = way->uplink;
    bool was_up = way->state == UP;
    bool news = was_up || strcmp(way->why, why) != 0;
    snprintf(way->why, sizeof(way->why), "%s", why);
    belfry_logf(uplink->opts.log, news ? BELFRY_LOG_INFO : BELFRY_LOG_DEBUG, was_up ? "uplink_lost" : "uplink_failed",
                "endpoint=%s why=\"%s\"", way->endpoint->url, why);
    uplink->stats.losses += was_up;
    way->full = false;
    way_move(way, RESTING);
    uv_update_time(uplink->opts.loop);
    uv_timer_start(&way->timer, on_rested, belfry_backoff_next(&way->backoff, &uplink->rng), 0);

    struct belfry_list calls, *node;
    belfry_list_init(&calls);
    belfry_list_move_all(&calls, &way->waiting);
    while ((node = belfry_list_pop(&calls)) != NULL) {
        struct uplink_call *call = waiting_call(node);
        if (was_up) /* it did not wait for an endpoint so far, but for a stream */
            call->since_ms = belfry_clock_ms();
        place(uplink, call);
    }
}

/* How gladly a call is given to it: 0 is best; RANKS: not at all. One that failed since it last served gets calls only
 * when there is no other; whether it is back is found out without them. */
#define RANKS 3
static unsigned way_rank(const struct way *way)
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
static struct way *choose_way(struct uplink *uplink, unsigned pin)
{
    size_t n = uplink->opts.n_endpoints;
    if (pin > 0 && pin <= n && way_rank(&uplink->ways[pin - 1]) == 0)
        return &uplink->ways[pin - 1];
    struct way *best = NULL;
    for (size_t i = 0; i < n; i++) {
        struct way *way = &uplink->ways[(uplink->turn + i) % n];
        if (way_rank(way) < (best == NULL ? RANKS : way_rank(best)))
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
            way_dial(&uplink->ways[i]);
    }
}

/* ---- a call on a connection ---- */

static struct uplink_call *uplink_call_of(struct belfry_http_call *call)
{
    return belfry_container(call, struct uplink_call, call);
}

static bool auth_is_off(const struct uplink *uplink)
{
    return uplink->auth_is_off != NULL && uplink->auth_is_off(uplink->auth_user);
}

/* Could etcd take this call for one of the certificate's user? Then it goes as nobody's, with a field for which etcd
 * ignores the name and logs a warning, unless auth is off, where the name gives no rights. */
static bool tap_late(struct belfry_http_call *http_call, uint64_t now_ms, struct belfry_http_field *out)
{
    struct uplink_call *call = uplink_call_of(http_call);
    (void)now_ms;
    bool mistakable = belfry_carrier_has_name(call->conn) && call->caller == UPLINK_CALLER_CLIENT && !call->has_user;
    call->lent = mistakable && auth_is_off(call->uplink);
    *out = (struct belfry_http_field){belfry_bytes_str("grpcgateway-accept"), belfry_bytes_str("belfry")};
    return mistakable && !call->lent;
}

static size_t tap_read(struct belfry_http_call *http_call, uint8_t *to, size_t cap, bool *out_end)
{
    struct uplink_call *call = uplink_call_of(http_call);
    return call->events->read(call, to, cap, out_end, call->user);
}

static enum belfry_err tap_field(struct belfry_http_call *http_call, struct belfry_bytes name,
                                 struct belfry_bytes value)
{
    struct uplink_call *call = uplink_call_of(http_call);
    call->events->field(call, name, value, call->user);
    return BELFRY_OK;
}

static enum belfry_err tap_block(struct belfry_http_call *http_call, bool last)
{
    struct uplink_call *call = uplink_call_of(http_call);
    struct way *way = call->way;
    if (call->conn == way->conn && !way->serves) {
        way->serves = true;
        belfry_backoff_reset(&way->backoff);
        way->why[0] = '\0';
    }
    call->last = last;
    call->events->block(call, last, call->user);
    return BELFRY_OK;
}

static enum belfry_err tap_data(struct belfry_http_call *http_call, struct belfry_bytes *in)
{
    struct uplink_call *call = uplink_call_of(http_call);
    struct belfry_bytes bytes = *in;
    *in = (struct belfry_bytes){0};
    call->events->data(call, bytes, call->user);
    return BELFRY_OK;
}

/* Its last event. The peer's own words in a GOAWAY are not for other people's clients. */
static void tell_end(struct uplink_call *call, const struct belfry_http_end *end)
{
    char why[WHY_ALL];
    const char *url = call->way->endpoint->url;
    struct uplink_end told = {.lost = true, .unprocessed = end->unprocessed, .why = why};
    snprintf(why, sizeof(why), "%s: %s", url, end->err == BELFRY_ERR_TIMEOUT ? "it does not answer pings" : end->why);
    if (end->how == BELFRY_HTTP_GOAWAY) {
        snprintf(why, sizeof(why), "%s: the server is going away (%s)", url, nghttp2_http2_strerror(end->h2_code));
    } else if (end->how == BELFRY_HTTP_RESET) {
        told.lost = false;
        told.h2_code = end->h2_code;
        told.unprocessed = end->h2_code == NGHTTP2_REFUSED_STREAM;
    }
    call->state = CALL_CLOSED;
    call->events->closed(call, &told, call->user);
}

static void tap_closed(struct belfry_http_call *http_call, const struct belfry_http_end *end)
{
    struct uplink_call *call = uplink_call_of(http_call);
    bool gone = end->how == BELFRY_HTTP_GOAWAY || end->how == BELFRY_HTTP_LOST;
    call->ask = gone ? belfry_http_call_take_ask(http_call) : NULL;
    if (call->ask != NULL) { /* it never left: it may run elsewhere */
        call->state = CALL_WAITING;
    } else if (end->how != BELFRY_HTTP_ENDED) {
        tell_end(call, end);
    } else {
        call->state = CALL_OVER;
        if (!call->last)
            call->events->end(call, call->user);
    }
}

static void free_call(struct uplink_call *call)
{
    call->uplink->stats.calls--;
    belfry_http_ask_destroy(call->ask);
    free(call);
}

static void tap_gone(struct belfry_http_call *http_call)
{
    struct uplink_call *call = uplink_call_of(http_call);
    call->conn = NULL;
    switch (call->state) {
    case CALL_WAITING:
        call->since_ms = belfry_clock_ms();
        place(call->uplink, call);
        break;
    case CALL_OVER:
        belfry_list_append(&call->uplink->over, &call->node);
        break;
    case CALL_RUNNING:
    case CALL_CLOSED:
        free_call(call);
        break;
    }
}

static const struct belfry_http_events tap_events = {
    .late = tap_late,
    .read = tap_read,
    .field = tap_field,
    .block = tap_block,
    .data = tap_data,
    .closed = tap_closed,
    .gone = tap_gone,
    .owner_window = true,
};

/* Runs a call, which is in no list, if the peer allows one more. */
static bool start_call(struct way *way, struct uplink_call *call)
{
    struct belfry_http *http = belfry_carrier_http(way->conn);
    if (belfry_http_room(http) == 0)
        return false;
    struct belfry_http_ask *ask = call->ask;
    call->ask = NULL;
    call->way = way;
    call->conn = way->conn;
    call->state = CALL_RUNNING;
    call->lent = false;
    /* With room it can be refused by a connection alone that is on its way out. */
    enum belfry_err err = belfry_http_call_open(http, &call->call, ask, BELFRY_NEVER, &tap_events);
    assert(err == BELFRY_OK);
    belfry_ignore(err);
    return true;
}

/* ---- what connections say ---- */

/* DIALING or UP: the connection is of no more use for new calls. */
static void way_leave(struct way *way, const char *why)
{
    struct belfry_carrier *conn = way->conn;
    way->conn = NULL;
    belfry_carrier_retire(conn);
    way_fail(way, why);
}

static void on_up(struct belfry_carrier *carrier, const char *alpn, void *user)
{
    struct way *way = user;
    (void)alpn;
    if (belfry_http_start(belfry_carrier_http(carrier), BELFRY_HTTP_2, belfry_clock_ms()) != BELFRY_OK) {
        way_leave(way, belfry_strerror(BELFRY_ERR_NOMEM));
        return;
    }
    way_move(way, UP);
    way->serves = false;
    way->uplink->newest_has_name = belfry_carrier_has_name(carrier);
    way->uplink->stats.connects++;
    belfry_logf(way->uplink->opts.log, BELFRY_LOG_INFO, "uplink_up", "endpoint=%s", way->endpoint->url);
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
    struct belfry_carrier *full = way->conn;
    way->conn = NULL;
    way_move(way, IDLE);
    belfry_carrier_retire(full);
    belfry_list_each (node, &way->waiting) /* for an endpoint, from now on */
        waiting_call(node)->since_ms = belfry_clock_ms();
    arm_expiry(way->uplink, UPLINK_WAIT_MS);
    way_dial(way);
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

/* Gives calls that wait to the connection, as far as the peer allows more. */
static void on_feed(struct belfry_carrier *carrier, void *user)
{
    struct way *way = user;
    if (way->state != UP || belfry_http_state(belfry_carrier_http(carrier)) != BELFRY_HTTP_OPEN)
        return;
    while (!belfry_list_empty(&way->waiting)) {
        struct uplink_call *call = waiting_call(way->waiting.next);
        belfry_list_remove(&call->node);
        if (!start_call(way, call)) {
            belfry_list_prepend(&way->waiting, &call->node);
            set_full(way, true);
            return;
        }
        set_full(way, false);
    }
    set_full(way, false);
}

static void on_lost(struct belfry_carrier *carrier, enum belfry_err err, const char *why, void *user)
{
    struct way *way = user;
    (void)err;
    way->conn = NULL;
    way_fail(way, why);
    belfry_carrier_close(carrier);
}

static void on_draining(struct belfry_carrier *carrier, void *user)
{
    char why[WHY_BYTES];
    snprintf(why, sizeof(why), "the server is going away (%s)",
             nghttp2_http2_strerror(belfry_http_goaway_code(belfry_carrier_http(carrier))));
    way_leave(user, why);
}

static const struct belfry_carrier_events carrier_events = {
    .up = on_up, .feed = on_feed, .lost = on_lost, .draining = on_draining};

static enum belfry_err open_conn(struct way *way)
{
    const struct uplink_opts *opts = &way->uplink->opts;
    struct belfry_http_opts http = {.scheme = way->endpoint->tls ? "https" : "http",
                                    .authority = way->endpoint->authority,
                                    .window = UPLINK_WINDOW,
                                    .ping_ms = UPLINK_PING_MS,
                                    .ping_timeout_ms = UPLINK_PING_MS,
                                    .ping_steadily = true,
                                    .discreet = true};
    struct belfry_carrier_opts conn = {.transport = {.loop = opts->loop,
                                                     .dns = opts->dns,
                                                     .endpoint = way->endpoint,
                                                     .tls = way->endpoint->tls ? opts->tls : NULL,
                                                     .dial_timeout_ms = opts->dial_timeout_ms},
                                       .all = &way->uplink->conns,
                                       .events = &carrier_events,
                                       .user = way};
    enum belfry_err err = belfry_http_create(&http, belfry_clock_ms(), &conn.http);
    return err == BELFRY_OK ? belfry_carrier_open(&conn, &way->conn) : err;
}

static void way_dial(struct way *way)
{
    way_move(way, DIALING);
    enum belfry_err err = open_conn(way);
    if (err != BELFRY_OK)
        way_fail(way, belfry_strerror((int)err));
}

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
    struct way *way = uplink->destroyed ? NULL : choose_way(uplink, call->pin != NULL ? *call->pin : 0);
    belfry_list_append(way != NULL ? &way->waiting : &uplink->stranded, &call->node);
    if (way != NULL && call->pin != NULL)
        *call->pin = 1 + (unsigned)(way - uplink->ways);
    if (!uplink->destroyed && (way == NULL || way->state != UP))
        arm_expiry(uplink, UPLINK_WAIT_MS);
    if (way != NULL && way->state == IDLE)
        way_dial(way);
    else if (way != NULL && way->state == UP)
        belfry_carrier_flush(way->conn);
}

/* Moves those that have waited long enough; returns when the next one has. */
static uint64_t gather_expired(struct belfry_list *calls, uint64_t now, struct belfry_list *expired)
{
    uint64_t next = BELFRY_NEVER;
    belfry_list_each_safe (node, calls) {
        uint64_t due = waiting_call(node)->since_ms + UPLINK_WAIT_MS;
        if (due <= now) {
            belfry_list_remove(node);
            belfry_list_append(expired, node);
        } else {
            next = belfry_min_time(next, due);
        }
    }
    return next;
}

/* Ends calls that wait, or are over. */
static void end_all(struct belfry_list *calls, const char *why)
{
    struct belfry_list *node;
    while ((node = belfry_list_pop(calls)) != NULL) {
        struct uplink_call *call = waiting_call(node);
        call->events->closed(call, &(struct uplink_end){.lost = true, .unprocessed = true, .why = why}, call->user);
        free_call(call);
    }
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

/* Names are sent as they came: in lower case, or not at all. */
static enum belfry_err make_ask(const struct uplink *uplink, const struct uplink_request *request,
                                struct belfry_http_ask **out)
{
    struct belfry_http_field via = {belfry_bytes_str(VIA_FIELD), {0}};
    if (uplink->opts.via != NULL)
        via.value = belfry_bytes_str(uplink->opts.via);
    for (size_t i = 0; i < request->n_fields; i++) {
        struct belfry_bytes name = request->fields[i].name;
        if (nghttp2_check_header_name((const uint8_t *)name.data, name.len) == 0)
            return BELFRY_ERR_INVALID;
    }
    struct belfry_http_ask_opts opts = {.method = belfry_bytes_str("POST"),
                                        .target = request->path,
                                        .fields = request->fields,
                                        .n_fields = request->n_fields,
                                        .more = &via,
                                        .n_more = uplink->opts.via != NULL};
    return belfry_http_ask_create(&opts, out);
}

enum belfry_err uplink_open(struct uplink *uplink, unsigned *pin, const struct uplink_request *request,
                            const struct uplink_events *events, void *user, struct uplink_call **out)
{
    BELFRY_OWNER_CHECK(uplink);
    if (uplink->destroyed || uplink->stats.calls >= UPLINK_CALLS)
        return BELFRY_ERR_LIMIT;
    struct belfry_http_ask *ask;
    enum belfry_err err = make_ask(uplink, request, &ask);
    if (err != BELFRY_OK)
        return err;
    struct uplink_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        belfry_http_ask_destroy(ask);
        return BELFRY_ERR_NOMEM;
    }
    *call = (struct uplink_call){.uplink = uplink,
                                 .events = events,
                                 .user = user,
                                 .pin = pin,
                                 .caller = request->caller,
                                 .has_user = belfry_http_ask_has_user(ask),
                                 .ask = ask,
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
    BELFRY_OWNER_CHECK(uplink);
    uplink->auth_is_off = is_off;
    uplink->auth_user = user;
}

bool uplink_may_have_name(const struct uplink *uplink)
{
    bool found = uplink->newest_has_name;
    for (size_t i = 0; i < uplink->opts.n_endpoints; i++)
        found = found || (uplink->ways[i].state == UP && belfry_carrier_has_name(uplink->ways[i].conn));
    return found;
}

void uplink_bar(struct uplink *uplink, uint64_t endpoints)
{
    BELFRY_OWNER_CHECK(uplink);
    for (size_t i = 0; i < uplink->opts.n_endpoints && i < 64; i++)
        uplink->ways[i].barred = (endpoints >> i & 1) != 0;
}

void uplink_close(struct uplink_call *call)
{
    struct belfry_carrier *conn = call->conn;
    bool is_running = call->state == CALL_RUNNING;
    if (conn == NULL) { /* it waits, or is over */
        belfry_list_remove(&call->node);
        free_call(call);
        return;
    }
    call->state = CALL_CLOSED;
    if (!is_running)
        return; /* from inside its last event, after which it is freed */
    belfry_http_call_cancel(&call->call);
    belfry_carrier_flush(conn);
}

bool uplink_is_lent(const struct uplink_call *call)
{
    return call->state == CALL_RUNNING && call->lent;
}

void uplink_resume(struct uplink_call *call)
{
    if (call->state != CALL_RUNNING)
        return;
    belfry_http_call_resume(&call->call);
    belfry_carrier_flush(call->conn);
}

void uplink_taken(struct uplink_call *call, size_t n)
{
    if (call->state != CALL_RUNNING)
        return;
    belfry_http_call_taken(&call->call, n);
    belfry_carrier_flush(call->conn);
}

size_t uplink_unsent(const struct uplink_call *call)
{
    const struct belfry_http_ask *ask = call->state == CALL_RUNNING ? call->call.ask : call->ask;
    return ask == NULL ? 0 : belfry_http_ask_bytes(ask);
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
    BELFRY_OWNER_INIT(uplink);
    *out = uplink;
    return BELFRY_OK;
}

void uplink_destroy(struct uplink *uplink)
{
    if (uplink == NULL)
        return;
    BELFRY_OWNER_CHECK(uplink);
    uplink->destroyed = true;
    belfry_carrier_close_all(&uplink->conns, CLOSED_TEXT);
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
