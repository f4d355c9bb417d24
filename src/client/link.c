/* src/client/link.c */
#include "client/link.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/list.h"

enum link_state { IDLE, DIALING, UP, RESTING };

/* A connection that is used no more: kept until its last call has ended. */
struct aside {
    struct belfry_list node;
    struct belfry_conn *conn;
};

struct belfry_link {
    /* fixed */
    struct belfry_link_opts opts;
    const struct belfry_link_events *events;
    void *user;
    /* owner */
    enum link_state state;
    bool wanted, destroyed;
    size_t at;                /* index of the endpoint in use or tried last */
    size_t failures;          /* endpoints that failed since one served */
    struct belfry_conn *conn; /* DIALING and UP */
    struct belfry_list asides;
    struct belfry_backoff backoff;
    struct belfry_rng rng;
    uv_timer_t timer;
    uint64_t connects, losses;
    char (*why)[BELFRY_LINK_WHY]; /* owned; one for each endpoint, "" = nothing known against it */
};

static void dial(struct belfry_link *link);
static const struct belfry_conn_events conn_events;

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

static void dial(struct belfry_link *link)
{
    move(link, DIALING);
    if (link->opts.barred != NULL && link->opts.barred[link->at]) {
        snprintf(link->why[link->at], BELFRY_LINK_WHY, "barred");
        link->failures++;
        go_on(link);
        return;
    }
    struct belfry_transport_opts transport = {.loop = link->opts.loop,
                                              .dns = link->opts.dns,
                                              .endpoint = &link->opts.endpoints[link->at],
                                              .tls = link->opts.endpoints[link->at].tls ? link->opts.tls : NULL,
                                              .dial_timeout_ms = link->opts.dial_timeout_ms};
    if (belfry_conn_open(&transport, &link->opts.grpc, &conn_events, link, &link->conn) != BELFRY_OK) {
        snprintf(link->why[link->at], BELFRY_LINK_WHY, "out of memory");
        rest(link, BELFRY_LINK_MAX_MS);
    }
    if (transport.tls != NULL)
        belfry_tls_log_refresh(transport.tls, link->opts.log);
}

static void fail(struct belfry_link *link, enum belfry_err err, const char *why)
{
    bool was_up = link->state == UP;
    snprintf(link->why[link->at], BELFRY_LINK_WHY, "%s", why);
    belfry_logf(link->opts.log, BELFRY_LOG_INFO, was_up ? "link_lost" : "link_failed", "link=%s endpoint=%s why=\"%s\"",
                link->opts.name, link->opts.endpoints[link->at].url, why);
    link->losses += was_up;
    link->failures++;
    struct belfry_conn *conn = link->conn;
    link->conn = NULL;
    go_on(link);
    belfry_conn_close(conn); /* its calls end here, and their owners may want the link again */
    link->events->down(link, err, link->user);
}

static void on_up(struct belfry_conn *conn, void *user)
{
    struct belfry_link *link = user;
    (void)conn;
    move(link, UP);
    link->connects++;
    belfry_logf(link->opts.log, BELFRY_LOG_INFO, "link_up", "link=%s endpoint=%s", link->opts.name,
                link->opts.endpoints[link->at].url);
    link->events->up(link, link->user);
}

/* Connections put aside end when they are lost or have no call left. */
static void sweep_asides(struct belfry_link *link)
{
    belfry_list_each_safe (node, &link->asides) {
        struct aside *aside = belfry_container(node, struct aside, node);
        struct belfry_http *http = belfry_conn_grpc(aside->conn)->http;
        if (!link->destroyed && belfry_http_n_calls(http) > 0 && belfry_http_state(http) != BELFRY_HTTP_DEAD)
            continue;
        belfry_list_remove(&aside->node);
        belfry_conn_close(aside->conn);
        free(aside);
    }
}

/* The connection takes no more calls, but those it has may go on. */
static void put_aside(struct belfry_link *link, enum belfry_err err, const char *why)
{
    struct aside *aside = malloc(sizeof(*aside));
    if (aside == NULL || belfry_http_n_calls(belfry_conn_grpc(link->conn)->http) == 0) {
        free(aside);
        fail(link, err, why);
        return;
    }
    aside->conn = link->conn;
    belfry_list_append(&link->asides, &aside->node);
    link->conn = NULL; /* so that fail() leaves it alone; its events find that it is not the current one */
    fail(link, err, why);
}

static void on_lost(struct belfry_conn *conn, enum belfry_err err, const char *why, void *user)
{
    struct belfry_link *link = user;
    if (conn == link->conn)
        fail(link, err, why);
    else
        sweep_asides(link);
}

static void on_draining(struct belfry_conn *conn, void *user)
{
    struct belfry_link *link = user;
    if (conn == link->conn)
        put_aside(link, BELFRY_ERR_UNAVAILABLE, "the server is going away");
}

static const struct belfry_conn_events conn_events = {.up = on_up, .lost = on_lost, .draining = on_draining};

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
    belfry_list_init(&link->asides);
    uv_timer_init(opts->loop, &link->timer);
    link->timer.data = link;
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
    link->destroyed = true;
    link->wanted = false;
    struct belfry_conn *conn = link->conn;
    link->conn = NULL;
    belfry_conn_close(conn);
    sweep_asides(link);
    uv_close((uv_handle_t *)&link->timer, free_link);
}

void belfry_link_want(struct belfry_link *link, bool wanted)
{
    link->wanted = wanted && !link->destroyed;
    sweep_asides(link);
    if (link->wanted && link->state == IDLE)
        dial(link);
}

struct belfry_conn *belfry_link_conn(struct belfry_link *link)
{
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
    if (link->failures == 0)
        return;
    link->failures = 0;
    belfry_backoff_reset(&link->backoff);
    for (size_t i = 0; i < link->opts.n_endpoints; i++)
        link->why[i][0] = '\0';
}

void belfry_link_leave(struct belfry_link *link, enum belfry_err err, const char *why)
{
    if (link->state == UP && !link->destroyed)
        put_aside(link, err, why);
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
