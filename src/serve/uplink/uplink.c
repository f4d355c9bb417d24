/* src/serve/uplink/uplink.c */
#include "serve/uplink/uplink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "net/pool.h"
#include "serve/uplink/via.h"

#define WHY_BYTES   512
#define CLOSED_TEXT "the tier is shutting down"

struct uplink {
    /* fixed */
    const char *via;  /* lent; NULL: none */
    const char *base; /* lent; NULL: none */
    bool is_kube;
    struct belfry_tls *tls; /* lent; NULL: plain */
    uv_loop_t *loop;
    struct belfry_pool *pool;
    size_t n_endpoints;
    /* owner */
    bool *barred;                    /* owned, read by the pool; one per endpoint */
    bool (*auth_is_off)(void *user); /* NULL: not known */
    void *auth_user;
    bool newest_has_name; /* the connection that was made last; before there was one: with TLS it might */
    bool destroyed;
    struct belfry_list over; /* calls whose owners have not closed them yet */
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
    enum uplink_caller caller;
    bool has_user; /* its head brings one */
    bool is_bodiless;
    /* owner */
    struct belfry_waiter waiter; /* WAITING; OVER: in uplink.over */
    enum call_state state;
    struct belfry_http_ask *ask; /* owned; WAITING */
    struct belfry_carrier *conn; /* RUNNING */
    bool lent;                   /* RUNNING: by a name that is not its caller's */
    bool last;                   /* the end of the response was told with its last block */
};

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
    bool mistakable = !call->uplink->is_kube && belfry_carrier_has_name(call->conn) &&
                      call->caller == UPLINK_CALLER_CLIENT && !call->has_user;
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
    belfry_pool_good(call->uplink->pool, call->conn);
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

/* The call's last event. Clients do not read what upstream wrote into a GOAWAY. They read of a reset in the words of
 * Go's client, because etcd's own JSON gateway is one. */
static void tell_end(struct uplink_call *call, const struct belfry_http_end *end)
{
    char why[WHY_BYTES];
    const char *url = belfry_carrier_endpoint(call->conn)->url;
    struct uplink_end told = {.lost = true, .unprocessed = end->unprocessed, .why = why};
    snprintf(why, sizeof(why), "%s: %s", url, end->err == BELFRY_ERR_TIMEOUT ? "it does not answer pings" : end->why);
    if (end->how == BELFRY_HTTP_GOAWAY) {
        snprintf(why, sizeof(why), "%s: the server is going away (%s)", url, nghttp2_http2_strerror(end->h2_code));
    } else if (end->how == BELFRY_HTTP_RESET) {
        told.lost = false;
        told.h2_code = end->h2_code;
        told.unprocessed = end->h2_code == NGHTTP2_REFUSED_STREAM;
        snprintf(why, sizeof(why), "stream terminated by RST_STREAM with error code: %s",
                 nghttp2_http2_strerror(end->h2_code));
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
        belfry_pool_enqueue(call->uplink->pool, &call->waiter);
        break;
    case CALL_OVER:
        belfry_list_append(&call->uplink->over, &call->waiter.node);
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

/* Of a request that ends with its head. */
static const struct belfry_http_events bodiless_events = {
    .late = tap_late,
    .field = tap_field,
    .block = tap_block,
    .data = tap_data,
    .closed = tap_closed,
    .gone = tap_gone,
    .owner_window = true,
};

/* ---- events of the pool ---- */

static struct uplink_call *call_of_waiter(struct belfry_waiter *waiter)
{
    return belfry_container(waiter, struct uplink_call, waiter);
}

static enum belfry_err on_place(struct belfry_waiter *waiter, struct belfry_carrier *conn, void *user)
{
    struct uplink_call *call = call_of_waiter(waiter);
    struct belfry_http_ask *ask = call->ask;
    (void)user;
    call->ask = NULL;
    const struct belfry_http_events *events = call->is_bodiless ? &bodiless_events : &tap_events;
    enum belfry_err err = belfry_http_call_open(belfry_carrier_http(conn), &call->call, ask, BELFRY_NEVER, events);
    if (err != BELFRY_OK)
        return err;
    call->conn = conn;
    call->state = CALL_RUNNING;
    call->lent = false;
    return BELFRY_OK;
}

static void end_unsent(struct uplink_call *call, const char *why)
{
    call->events->closed(call, &(struct uplink_end){.lost = true, .unprocessed = true, .why = why}, call->user);
    free_call(call);
}

static void on_refuse(struct belfry_waiter *waiter, enum belfry_err err, const char *why, void *user)
{
    struct uplink *uplink = user;
    (void)err;
    uplink->stats.unavailable++;
    end_unsent(call_of_waiter(waiter), why);
}

static void on_up(struct belfry_pool *pool, struct belfry_carrier *conn, void *user)
{
    struct uplink *uplink = user;
    (void)pool;
    uplink->newest_has_name = belfry_carrier_has_name(conn);
}

static void on_gone(void *user)
{
    struct uplink *uplink = user;
    free(uplink->barred);
    free(uplink);
}

static const struct belfry_pool_events pool_events = {
    .up = on_up, .place = on_place, .refuse = on_refuse, .gone = on_gone};

/* ---- calls ---- */

/* Names are sent as they came: in lower case, or not at all. */
static bool names_are_lower(const struct uplink_request *request)
{
    for (size_t i = 0; i < request->n_fields; i++) {
        struct belfry_bytes name = request->fields[i].name;
        if (nghttp2_check_header_name((const uint8_t *)name.data, name.len) == 0)
            return false;
    }
    return true;
}

/* Writes the base and the path of a request. Errors: BELFRY_ERR_NOMEM. */
static enum belfry_err write_target(const struct uplink *uplink, struct belfry_bytes path, struct belfry_buf *out)
{
    enum belfry_err err = belfry_buf_append(out, uplink->base, strlen(uplink->base));
    return err == BELFRY_OK ? belfry_buf_append(out, path.data, path.len) : err;
}

static enum belfry_err make_ask(const struct uplink *uplink, const struct uplink_request *request,
                                struct belfry_http_ask **out)
{
    struct belfry_http_field via = {belfry_bytes_str(VIA_FIELD), {0}};
    struct belfry_buf target;
    if (!names_are_lower(request))
        return BELFRY_ERR_INVALID;
    if (uplink->via != NULL)
        via.value = belfry_bytes_str(uplink->via);
    belfry_buf_init(&target);
    enum belfry_err err = uplink->base != NULL ? write_target(uplink, request->path, &target) : BELFRY_OK;
    struct belfry_http_ask_opts opts = {.method = request->method.len > 0 ? request->method : belfry_bytes_str("POST"),
                                        .target = uplink->base != NULL ? belfry_buf_bytes(&target) : request->path,
                                        .fields = request->fields,
                                        .n_fields = request->n_fields,
                                        .more = &via,
                                        .n_more = uplink->via != NULL};
    if (err == BELFRY_OK)
        err = belfry_http_ask_create(&opts, out);
    belfry_buf_fini(&target);
    return err;
}

/* Would the API server take this call for one of the tier's? */
static bool would_be_taken_for_ours(const struct uplink *uplink, const struct uplink_request *request)
{
    return uplink->is_kube && request->caller == UPLINK_CALLER_CLIENT && uplink->tls != NULL &&
           belfry_tls_expires(uplink->tls) != INT64_MAX;
}

enum belfry_err uplink_open(struct uplink *uplink, unsigned *pin, const struct uplink_request *request,
                            const struct uplink_events *events, void *user, struct uplink_call **out)
{
    BELFRY_OWNER_CHECK(uplink);
    if (uplink->destroyed || uplink->stats.calls >= UPLINK_CALLS)
        return BELFRY_ERR_LIMIT;
    if (would_be_taken_for_ours(uplink, request))
        return BELFRY_ERR_AUTH;
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
                                 .caller = request->caller,
                                 .has_user = belfry_http_ask_has_user(ask),
                                 .is_bodiless = request->is_bodiless,
                                 .waiter = {.pin = pin},
                                 .ask = ask};
    uplink->stats.calls++;
    uplink->stats.opened++;
    belfry_pool_enqueue(uplink->pool, &call->waiter);
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
    return uplink->newest_has_name || belfry_pool_counts(uplink->pool).named > 0;
}

void uplink_bar(struct uplink *uplink, uint64_t endpoints)
{
    BELFRY_OWNER_CHECK(uplink);
    for (size_t i = 0; i < uplink->n_endpoints && i < 64; i++)
        uplink->barred[i] = (endpoints >> i & 1) != 0;
}

void uplink_close(struct uplink_call *call)
{
    struct belfry_carrier *conn = call->conn;
    bool is_running = call->state == CALL_RUNNING;
    if (conn == NULL) { /* it waits, or is over */
        belfry_pool_dequeue(&call->waiter);
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

static const struct belfry_pool_words words = {.up = "uplink_up",
                                               .lost = "uplink_lost",
                                               .failed = "uplink_failed",
                                               .full = "uplink_full",
                                               .again = BELFRY_LOG_DEBUG,
                                               .goaway_code = true};

enum belfry_err uplink_create(const struct uplink_opts *opts, struct uplink **out)
{
    struct uplink *uplink = calloc(1, sizeof(*uplink));
    bool *barred = calloc(opts->n_endpoints, sizeof(*barred));
    uint32_t full_ms = opts->is_kube ? UPLINK_KUBE_MS : UPLINK_FULL_MS;
    struct belfry_pool_opts pool = {.loop = opts->loop,
                                    .dns = opts->dns,
                                    .tls = opts->tls,
                                    .endpoints = opts->endpoints,
                                    .n_endpoints = opts->n_endpoints,
                                    .barred = barred,
                                    .dial_timeout_ms = opts->dial_timeout_ms,
                                    .http = {.window = UPLINK_WINDOW,
                                             .ping_ms = UPLINK_PING_MS,
                                             .ping_timeout_ms = UPLINK_PING_MS,
                                             .ping_steadily = true,
                                             .discreet = true},
                                    .seed = opts->seed,
                                    .log = opts->log,
                                    .words = &words,
                                    .wait_ms = UPLINK_WAIT_MS,
                                    .full_ms = opts->full_ms != 0 ? opts->full_ms : full_ms,
                                    .max_conns = opts->max_conns != 0 ? opts->max_conns : UPLINK_CONNS};
    if (uplink == NULL || barred == NULL ||
        belfry_pool_create(&pool, &pool_events, uplink, &uplink->pool) != BELFRY_OK) {
        free(barred);
        free(uplink);
        return BELFRY_ERR_NOMEM;
    }
    uplink->via = opts->via;
    uplink->base = opts->base;
    uplink->is_kube = opts->is_kube;
    uplink->tls = opts->tls;
    uplink->loop = opts->loop;
    uplink->barred = barred;
    uplink->n_endpoints = opts->n_endpoints;
    for (size_t i = 0; i < opts->n_endpoints; i++)
        uplink->newest_has_name = uplink->newest_has_name || opts->endpoints[i].tls;
    belfry_list_init(&uplink->over);
    BELFRY_OWNER_INIT(uplink);
    *out = uplink;
    return BELFRY_OK;
}

void uplink_destroy(struct uplink *uplink)
{
    struct belfry_list *node;
    if (uplink == NULL)
        return;
    BELFRY_OWNER_CHECK(uplink);
    uplink->destroyed = true;
    belfry_pool_destroy(uplink->pool, CLOSED_TEXT);
    while ((node = belfry_list_pop(&uplink->over)) != NULL)
        end_unsent(call_of_waiter(belfry_container(node, struct belfry_waiter, node)), CLOSED_TEXT);
}

uv_loop_t *uplink_loop(const struct uplink *uplink)
{
    return uplink->loop;
}

void uplink_stats(const struct uplink *uplink, struct uplink_stats *out)
{
    struct belfry_pool_counts counts = belfry_pool_counts(uplink->pool);
    *out = uplink->stats;
    out->connections = counts.connections;
    out->connects = counts.connects;
    out->losses = counts.losses;
}

void uplink_describe(const struct uplink *uplink, char *text, size_t len)
{
    belfry_pool_describe(uplink->pool, text, len);
}
