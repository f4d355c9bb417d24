/* src/client/link.c */
#include "client/link.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"

enum link_state { IDLE, DIALING, UP, RESTING };

struct belfry_link {
    /* fixed */
    struct belfry_link_opts opts;
    const struct belfry_link_events *events;
    void *user;
    /* owner */
    enum link_state state;
    bool wanted, destroyed;
    size_t at;                   /* index of the endpoint in use or tried last */
    size_t failures;             /* endpoints that failed since one served */
    struct belfry_carrier *conn; /* DIALING and UP */
    struct belfry_list conns;    /* all, also those that only end their calls */
    struct belfry_backoff backoff;
    struct belfry_rng rng;
    uv_timer_t timer;
    uint64_t connects, losses;
    char (*why)[BELFRY_LINK_WHY]; /* owned; one for each endpoint, "" = nothing known against it */
    BELFRY_OWNER;
};

static void dial(struct belfry_link *link);
static const struct belfry_carrier_events conn_events;

static void move(struct belfry_link *link, enum link_state to)
{
    static const unsigned legal[] = {[IDLE] = 1u << DIALING,
                                     [DIALING] = 1u << UP | 1u << RESTING,
                                     [UP] = 1u << RESTING,
                                     [RESTING] = 1u << DIALING | 1u << IDLE};
    assert(legal[link->state] & 1u << to);
    (void)legal;
    link->state = to;
}

static void on_rested(uv_timer_t *timer)
{
    struct belfry_link *link = timer->data;
    if (link->state != RESTING)
        return;
    if (link->wanted)
        dial(link);
    else
        move(link, IDLE);
}

static void rest(struct belfry_link *link, uint32_t ms)
{
    move(link, RESTING);
    uv_update_time(link->opts.loop);
    uv_timer_start(&link->timer, on_rested, ms, 0);
}

/* On to the next endpoint: on the next turn while there are untried ones, else after a wait. */
static void go_on(struct belfry_link *link)
{
    link->at = (link->at + 1) % link->opts.n_endpoints;
    bool round_done = link->failures % link->opts.n_endpoints == 0;
    rest(link, round_done ? belfry_backoff_next(&link->backoff, &link->rng) : 0);
}

static enum belfry_err open_conn(struct belfry_link *link)
{
    const struct belfry_endpoint *endpoint = &link->opts.endpoints[link->at];
    struct belfry_grpc_opts grpc = link->opts.grpc;
    grpc.scheme = endpoint->tls ? "https" : "http";
    grpc.authority = endpoint->authority;
    struct belfry_carrier_opts conn = {.transport = {.loop = link->opts.loop,
                                                     .dns = link->opts.dns,
                                                     .endpoint = endpoint,
                                                     .tls = endpoint->tls ? link->opts.tls : NULL,
                                                     .dial_timeout_ms = link->opts.dial_timeout_ms},
                                       .nonsense = "it does not speak HTTP/2 as gRPC needs it",
                                       .all = &link->conns,
                                       .events = &conn_events,
                                       .user = link};
    enum belfry_err err = belfry_grpc_connect(&grpc, belfry_clock_ms(), &conn.http);
    return err == BELFRY_OK ? belfry_carrier_open(&conn, &link->conn) : err;
}

static void dial(struct belfry_link *link)
{
    move(link, DIALING);
    if (link->opts.barred != NULL && link->opts.barred[link->at]) {
        snprintf(link->why[link->at], BELFRY_LINK_WHY, "barred");
        link->failures++;
        go_on(link);
        return;
    }
    if (open_conn(link) != BELFRY_OK) {
        snprintf(link->why[link->at], BELFRY_LINK_WHY, "out of memory");
        rest(link, BELFRY_LINK_MAX_MS);
    }
    if (link->opts.endpoints[link->at].tls && link->opts.tls != NULL)
        belfry_tls_log_refresh(link->opts.tls, link->opts.log);
}

static void fail(struct belfry_link *link, enum belfry_err err, const char *why)
{
    bool was_up = link->state == UP;
    snprintf(link->why[link->at], BELFRY_LINK_WHY, "%s", why);
    belfry_logf(link->opts.log, BELFRY_LOG_INFO, was_up ? "link_lost" : "link_failed", "link=%s endpoint=%s why=\"%s\"",
                link->opts.name, link->opts.endpoints[link->at].url, why);
    link->losses += was_up;
    link->failures++;
    struct belfry_carrier *conn = link->conn;
    link->conn = NULL;
    go_on(link);
    belfry_carrier_close(conn); /* its calls end here, and their owners may want the link again */
    link->events->down(link, err, link->user);
}

static void on_up(struct belfry_carrier *conn, const char *alpn, void *user)
{
    struct belfry_link *link = user;
    (void)conn, (void)alpn;
    move(link, UP);
    link->connects++;
    belfry_logf(link->opts.log, BELFRY_LOG_INFO, "link_up", "link=%s endpoint=%s", link->opts.name,
                link->opts.endpoints[link->at].url);
    link->events->up(link, link->user);
}

/* The connection takes no more calls, but those it has may go on. */
static void leave(struct belfry_link *link, enum belfry_err err, const char *why)
{
    struct belfry_carrier *conn = link->conn;
    link->conn = NULL; /* so that fail() leaves it alone */
    belfry_carrier_retire(conn);
    fail(link, err, why);
}

static void on_lost(struct belfry_carrier *conn, enum belfry_err err, const char *why, void *user)
{
    (void)conn;
    fail(user, err, why);
}

static void on_draining(struct belfry_carrier *conn, void *user)
{
    (void)conn;
    leave(user, BELFRY_ERR_UNAVAILABLE, "the server is going away");
}

static const struct belfry_carrier_events conn_events = {.up = on_up, .lost = on_lost, .draining = on_draining};

enum belfry_err belfry_link_create(const struct belfry_link_opts *opts, const struct belfry_link_events *events,
                                   void *user, struct belfry_link **out)
{
    assert(opts->n_endpoints > 0);
    struct belfry_link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return BELFRY_ERR_NOMEM;
    link->why = calloc(opts->n_endpoints, sizeof(*link->why));
    if (link->why == NULL) {
        free(link);
        return BELFRY_ERR_NOMEM;
    }
    link->opts = *opts;
    link->events = events;
    link->user = user;
    link->rng.state = opts->seed;
    belfry_backoff_init(&link->backoff, BELFRY_LINK_FIRST_MS, BELFRY_LINK_MAX_MS);
    belfry_list_init(&link->conns);
    uv_timer_init(opts->loop, &link->timer);
    link->timer.data = link;
    BELFRY_OWNER_INIT(link);
    *out = link;
    return BELFRY_OK;
}

static void free_link(uv_handle_t *timer)
{
    struct belfry_link *link = timer->data;
    free(link->why);
    free(link);
}

void belfry_link_destroy(struct belfry_link *link)
{
    if (link == NULL)
        return;
    BELFRY_OWNER_CHECK(link);
    link->destroyed = true;
    link->wanted = false;
    link->conn = NULL;
    belfry_carrier_close_all(&link->conns, "the connection was closed");
    uv_close((uv_handle_t *)&link->timer, free_link);
}

void belfry_link_want(struct belfry_link *link, bool wanted)
{
    BELFRY_OWNER_CHECK(link);
    link->wanted = wanted && !link->destroyed;
    if (link->wanted && link->state == IDLE)
        dial(link);
}

struct belfry_carrier *belfry_link_conn(struct belfry_link *link)
{
    BELFRY_OWNER_CHECK(link);
    return link->state == UP ? link->conn : NULL;
}

const struct belfry_endpoint *belfry_link_endpoint(const struct belfry_link *link)
{
    return &link->opts.endpoints[link->at];
}

size_t belfry_link_index(const struct belfry_link *link)
{
    return link->at;
}

void belfry_link_good(struct belfry_link *link)
{
    BELFRY_OWNER_CHECK(link);
    if (link->failures == 0)
        return;
    link->failures = 0;
    belfry_backoff_reset(&link->backoff);
    for (size_t i = 0; i < link->opts.n_endpoints; i++)
        link->why[i][0] = '\0';
}

void belfry_link_leave(struct belfry_link *link, enum belfry_err err, const char *why)
{
    BELFRY_OWNER_CHECK(link);
    if (link->state == UP && !link->destroyed)
        leave(link, err, why);
}

void belfry_link_describe(const struct belfry_link *link, char *text, size_t len)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < link->opts.n_endpoints && used < len; i++) {
        if (link->why[i][0] == '\0')
            continue;
        int n = snprintf(text + used, len - used, "%s%s: %s", used > 0 ? "; " : "", link->opts.endpoints[i].url,
                         link->why[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

bool belfry_link_exhausted(const struct belfry_link *link)
{
    return link->failures >= link->opts.n_endpoints;
}

uint64_t belfry_link_connects(const struct belfry_link *link)
{
    return link->connects;
}

uint64_t belfry_link_losses(const struct belfry_link *link)
{
    return link->losses;
}
