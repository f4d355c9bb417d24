/* src/server/inbound.c */
#include "server/inbound.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"
#include "server/inbound_conn.h"

#define TICK_MS   500
#define PER_TICK  1024 /* connections that a tick visits, of each kind: about a millisecond */
#define LINGER_MS 2000
#define FLUSH_NS  1000000
#define PROBE_MS  15000
#define CHECK_NS  1000000 /* for the checks of one flush */

#define HEAD_LATE "belfry: a request's head was begun and not completed in time"
#define UNREAD    "belfry: memory is short, and what was sent here was not read in time"

struct inbound_group {
    /* fixed at creation */
    struct inbound_opts opts; /* with the defaults in it */
    /* owner */
    uv_timer_t timer;
    uint64_t tick_at_ms; /* when the timer last fired */
    bool destroyed;
    struct inbound_conns conns;
    struct shares_alarm alarm;
    BELFRY_OWNER;
};

/* ---- ending who holds most ---- */

/* From inside anything. */
static void on_yield(struct shares_conn *share, enum shares_pool pool, void *user)
{
    struct inbound_conns *all = user;
    struct exchange_conn *info = belfry_container(share, struct exchange_conn, share);
    struct inbound_conn *c = belfry_container(info, struct inbound_conn, info);
    char why[400];
    int n = snprintf(why, sizeof(why), "belfry: room was needed for %s, of which %s holds %zu on this connection",
                     shares_pool_name(pool), shares_name(share), share->held[pool]);
    if (share->unfinished >= SHARES_UNFINISHED && n > 0 && (size_t)n < sizeof(why))
        snprintf(why + n, sizeof(why) - (size_t)n, ", %zu bytes of unfinished requests", share->unfinished);
    if (belfry_log_is_due(++all->stats.ended_largest))
        inbound_conn_log(c, BELFRY_LOG_WARN, "connection_expelled", why);
    if (c->state == INBOUND_HTTP2)
        h2_server_expel(c->h2, why);
    belfry_list_append(&all->expelled, &c->in_expelled);
}

/* ---- client certificates ---- */

/* Without memory a certificate cannot be checked, so its connection ends. */
static void conn_check_certificate(struct inbound_conn *c, uint64_t now_ms)
{
    struct inbound_conns *all = c->all;
    int64_t now_s = all->opts->unix_s != NULL ? all->opts->unix_s() : (int64_t)time(NULL);
    enum belfry_err err = belfry_tls_conn_recheck(c->socket.tls, c->tls, now_s);
    if (err == BELFRY_OK)
        return;

    char text[400];
    const char *why = err == BELFRY_ERR_TLS ? belfry_tls_conn_why(c->socket.tls) : belfry_strerror((int)err);
    snprintf(text, sizeof(text), "belfry: %s", why);
    if (belfry_log_is_due(++all->stats.ended_certificates))
        belfry_logf(all->opts->log, BELFRY_LOG_WARN, "certificate_ended",
                    "peer=%s id=%llu user=\"%s\" n=%llu why=\"%s\"", c->info.peer, (unsigned long long)c->info.id,
                    c->user != NULL ? c->user : "", (unsigned long long)all->stats.ended_certificates, why);
    inbound_conn_expel(c, text, now_ms);
}

/* Each connection is due once in half of check_ms. A certificate that has to be verified again takes about 300 us,
 * so the checks of a tick are spread over several flushes. True: there are more. */
static bool check_some(struct inbound_conns *all, uint64_t now_ms)
{
    if (!inbound_round_is_due(&all->certified))
        return false;
    for (uint64_t until = uv_hrtime() + CHECK_NS; inbound_round_is_due(&all->certified);) {
        if (uv_hrtime() >= until)
            return true;
        struct belfry_list *node = inbound_round_next(&all->certified);
        conn_check_certificate(belfry_container(node, struct inbound_conn, in_certified), now_ms);
    }
    return false;
}

/* ---- time ---- */

static void conn_end_late(struct inbound_conn *c, const char *why, uint64_t now_ms)
{
    inbound_conn_log(c, BELFRY_LOG_DEBUG, "connection_late", why);
    inbound_conn_expel(c, why, now_ms);
}

static void conn_time_is_up(struct inbound_conn *c, uint64_t now_ms)
{
    struct inbound_stats *stats = &c->all->stats;
    switch (c->waits.peer.kind) {
    case CONN_WAIT_GREETING:
        stats->ended_greetings++;
        inbound_conn_close(c);
        return;
    case CONN_WAIT_HANDSHAKE:
        stats->ended_handshakes++;
        inbound_conn_close(c);
        return;
    case CONN_WAIT_HEAD:
        stats->ended_heads++;
        conn_end_late(c, HEAD_LATE, now_ms);
        return;
    case CONN_WAIT_IDLE_HTTP2:
        stats->ended_idle++;
        conn_waits_expect(&c->waits, CONN_WAIT_NONE, now_ms);
        inbound_conn_tell_to_leave(c);
        return;
    case CONN_WAIT_LINGER:
        if (c->state == INBOUND_HTTP2) /* it was shut, and had time to answer */
            inbound_conn_linger(c, now_ms);
        else
            inbound_conn_close(c);
        return;
    case CONN_WAIT_IDLE:
        stats->ended_idle++;
        inbound_conn_linger(c, now_ms); /* its next request may be on its way */
        return;
    case CONN_WAIT_UNREAD:
    case CONN_WAIT_PROBE:
    case CONN_N_WAITS:
    case CONN_WAIT_NONE:
        assert(false);
    }
}

static void end_late(struct inbound_conns *all, enum conn_wait_kind kind, size_t most, uint64_t now_ms)
{
    struct conn_wait *wait;
    for (; most > 0 && (wait = conn_wait_lists_due(&all->waits, kind, now_ms)) != NULL; most--)
        conn_time_is_up(belfry_container(wait, struct inbound_conn, waits.peer), now_ms);
}

/* How many connections there are over half of their bound, those that were told to leave not counted. */
static size_t excess_connections(const struct inbound_conns *all)
{
    size_t half = all->shares.limits.total[SHARES_CONNECTIONS] / 2;
    size_t stay = all->stats.connections - all->n_leaving;
    return half > 0 && stay > half ? stay - half : 0;
}

static bool memory_is_short(const struct inbound_conns *all)
{
    size_t most = all->shares.limits.total[SHARES_MEMORY];
    return most != 0 && all->shares.pools[SHARES_MEMORY].used > most / 4 * 3;
}

static void end_unread(struct inbound_conns *all, uint64_t now_ms)
{
    struct conn_wait *wait;
    for (int i = 0; i < PER_TICK && memory_is_short(all); i++) {
        if ((wait = conn_wait_lists_due(&all->waits, CONN_WAIT_UNREAD, now_ms)) == NULL)
            return;
        all->stats.ended_unread++;
        conn_end_late(belfry_container(wait, struct inbound_conn, waits.unread), UNREAD, now_ms);
    }
}

static void end_all_late(struct inbound_conns *all, uint64_t now_ms)
{
    static const enum conn_wait_kind always[] = {CONN_WAIT_GREETING, CONN_WAIT_HANDSHAKE, CONN_WAIT_HEAD,
                                                 CONN_WAIT_IDLE, CONN_WAIT_LINGER};
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
        end_late(all, always[i], PER_TICK, now_ms);
    size_t excess = excess_connections(all);
    end_late(all, CONN_WAIT_IDLE_HTTP2, excess < PER_TICK ? excess : PER_TICK, now_ms);
    end_unread(all, now_ms);
}

static void conn_probe(struct inbound_conn *c, uint64_t now_ms)
{
    struct inbound_conns *all = c->all;
    struct inbound_probe_info info;
    conn_wait_for(&all->waits, &c->waits.probe, CONN_WAIT_NONE, 0);
    inbound_probe_ask(c->socket.fd, &info);
    switch (inbound_probe_judge(&c->probe, &info, now_ms, all->opts->dead_ms)) {
    case INBOUND_CLEAR:
        if (c->socket.full || c->watched == 0)
            conn_waits_probe_later(&c->waits, now_ms);
        break;
    case INBOUND_WAITING:
        conn_waits_probe_later(&c->waits, now_ms);
        break;
    case INBOUND_DEAD:
        belfry_logf(all->opts->log, BELFRY_LOG_DEBUG, "connection_dead", "peer=%s id=%llu", c->info.peer,
                    (unsigned long long)c->info.id);
        all->stats.dead++;
        inbound_conn_close(c);
        break;
    }
}

static void probe_some(struct inbound_conns *all, uint64_t now_ms)
{
    struct conn_wait *wait;
    for (int i = 0; i < PER_TICK && (wait = conn_wait_lists_due(&all->waits, CONN_WAIT_PROBE, now_ms)) != NULL; i++)
        conn_probe(belfry_container(wait, struct inbound_conn, waits.probe), now_ms);
}

/* After a gap (the process was stopped, the machine asleep) timers come before sockets: no connection is judged before
 * its input has been read. */
static void on_tick(uv_timer_t *timer)
{
    struct inbound_group *group = timer->data;
    uint64_t now_ms = belfry_clock_ms(), last_ms = group->tick_at_ms;
    group->tick_at_ms = now_ms;
    inbound_round_pass(&group->conns.certified, now_ms - last_ms, group->opts.check_ms / 2 + 1);
    shares_tick(&group->conns.shares, now_ms);
    shares_alarm_look(&group->alarm, &group->conns.shares, now_ms, group->opts.log);
    if (now_ms - last_ms > 4 * TICK_MS)
        return;
    end_all_late(&group->conns, now_ms);
    probe_some(&group->conns, now_ms);
}

/* ---- the group ---- */

static void group_free(struct inbound_group *group)
{
    struct inbound_conns *conns = &group->conns;
    shares_fini(&conns->shares);
    belfry_buf_fini(&conns->output);
    free(conns->input);
    free(conns->plain);
    free(group);
}

static void on_handle_closed(struct inbound_conns *conns)
{
    struct inbound_group *group = belfry_container(conns, struct inbound_group, conns);
    if (--conns->n_handles > 0)
        return;
    assert(group->destroyed);
    group_free(group);
}

static void on_group_handle_closed(uv_handle_t *handle)
{
    on_handle_closed(handle->data);
}

static void group_set_defaults(struct inbound_group *group)
{
    struct inbound_opts *opts = &group->opts;
    opts->sndbuf = opts->sndbuf != 0 ? opts->sndbuf : INBOUND_SNDBUF;
    opts->dead_ms = opts->dead_ms != 0 ? opts->dead_ms : INBOUND_DEAD_MS;
    opts->probe_ms = opts->probe_ms != 0 ? opts->probe_ms : PROBE_MS;
    opts->check_ms = opts->check_ms != 0 ? opts->check_ms : INBOUND_CHECK_MS;
    opts->linger_ms = opts->linger_ms != 0 ? opts->linger_ms : LINGER_MS;
    opts->refused_most = opts->refused_most != 0 ? opts->refused_most : INBOUND_REFUSED;
}

static void group_set_spans(struct inbound_group *group, const struct inbound_times *times)
{
    uint64_t greet_ms = times->greet_ms != 0 ? times->greet_ms : INBOUND_GREET_MS;
    uint64_t idle_ms = times->idle_ms != 0 ? times->idle_ms : INBOUND_IDLE_MS;
    const uint64_t span_ms[CONN_N_WAITS] = {[CONN_WAIT_GREETING] = greet_ms,
                                            [CONN_WAIT_HANDSHAKE] = greet_ms,
                                            [CONN_WAIT_HEAD] = greet_ms,
                                            [CONN_WAIT_IDLE] = idle_ms,
                                            [CONN_WAIT_IDLE_HTTP2] = idle_ms,
                                            [CONN_WAIT_LINGER] = group->opts.linger_ms,
                                            [CONN_WAIT_UNREAD] =
                                                times->unread_ms != 0 ? times->unread_ms : INBOUND_UNREAD_MS,
                                            [CONN_WAIT_PROBE] = group->opts.probe_ms};
    conn_wait_lists_set(&group->conns.waits, span_ms);
}

static void group_start_ticks(struct inbound_group *group)
{
    uint64_t tick_ms = TICK_MS;
    for (size_t i = 0; i < CONN_N_WAITS; i++)
        tick_ms = belfry_min_time(tick_ms, group->conns.waits.span_ms[i] / 4 + 1);
    tick_ms = belfry_min_time(tick_ms, group->opts.check_ms / 8 + 1);
    uv_timer_start(&group->timer, on_tick, tick_ms, tick_ms);
}

/* The timer does not keep the loop alive: without connections there is nothing to judge. */
static void group_start_handles(struct inbound_group *group)
{
    uv_timer_init(group->opts.loop, &group->timer);
    group->timer.data = group;
    group->conns.n_handles = 1;
    inbound_conns_open_handles(&group->conns);
    group->tick_at_ms = belfry_clock_ms();
    group_start_ticks(group);
    uv_unref((uv_handle_t *)&group->timer);
}

/* All but what group_start_handles() adds. Errors: BELFRY_ERR_NOMEM. */
static enum belfry_err group_init_conns(struct inbound_group *group)
{
    struct inbound_conns *conns = &group->conns;
    const struct inbound_opts *opts = &group->opts;
    uint8_t *ignored;
    conns->opts = opts;
    conns->handle_closed = on_handle_closed;
    belfry_list_init(&conns->staying);
    belfry_list_init(&conns->leaving);
    belfry_list_init(&conns->prompt);
    belfry_list_init(&conns->dirty);
    belfry_list_init(&conns->expelled);
    belfry_list_init(&conns->put_off);
    belfry_list_init(&conns->pongs);
    belfry_list_init(&conns->refused);
    inbound_round_init(&conns->certified);
    conn_wait_lists_init(&conns->waits, (const uint64_t[CONN_N_WAITS]){0});
    h2_teardown_init(&conns->teardown, opts->loop);
    shares_init(&conns->shares, &opts->limits, opts->seed, on_yield, conns);
    shares_tick(&conns->shares, belfry_clock_ms());
    conns->input = malloc(INBOUND_CONN_INPUT);
    conns->plain = malloc(INBOUND_CONN_PLAIN);
    if (conns->input == NULL || conns->plain == NULL)
        return BELFRY_ERR_NOMEM;
    return belfry_buf_reserve(&conns->output, INBOUND_CONN_OUTPUT, &ignored);
}

enum belfry_err inbound_create(const struct inbound_opts *opts, struct inbound_group **out)
{
    struct inbound_group *group = calloc(1, sizeof(*group));
    if (group == NULL)
        return BELFRY_ERR_NOMEM;
    group->opts = *opts;
    group->alarm.hint = opts->pools_hint;
    group_set_defaults(group);
    enum belfry_err err = group_init_conns(group);
    if (err != BELFRY_OK) {
        group_free(group);
        return err;
    }
    group_set_spans(group, &(struct inbound_times){opts->greet_ms, opts->idle_ms, opts->unread_ms});
    group_start_handles(group);
    BELFRY_OWNER_INIT(group);
    *out = group;
    return BELFRY_OK;
}

void inbound_destroy(struct inbound_group *group)
{
    if (group == NULL)
        return;
    BELFRY_OWNER_CHECK(group);
    struct inbound_conns *conns = &group->conns;
    group->destroyed = true;
    h2_teardown_all(&conns->teardown);
    belfry_list_move_all(&conns->staying, &conns->leaving);
    while (!belfry_list_empty(&conns->staying))
        inbound_conn_close(belfry_container(conns->staying.next, struct inbound_conn, in_all));
    group->timer.data = conns;
    uv_close((uv_handle_t *)&group->timer, on_group_handle_closed);
    inbound_conns_close_handles(conns);
}

enum belfry_err inbound_accept(struct inbound_group *group, const struct inbound_arrival *arrival, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(group);
    return inbound_conn_accept(&group->conns, arrival, now_ms);
}

/* Each connection once: one that has more, or writes more after `writable`, is in the list again for the next call. */
static void flush_list(struct belfry_list *list, uint64_t now_ms)
{
    struct belfry_list turn, *node;
    belfry_list_init(&turn);
    belfry_list_move_all(&turn, list);
    uint64_t until = uv_hrtime() + FLUSH_NS / 2;
    for (int n = 0; n < INBOUND_FLUSH / 2 && (n % 8 != 7 || uv_hrtime() < until); n++) {
        if ((node = belfry_list_pop(&turn)) == NULL)
            break;
        inbound_conn_flush(belfry_container(node, struct inbound_conn, in_dirty), now_ms);
    }
    belfry_list_move_all(&turn, list); /* those without a turn yet come first */
    belfry_list_move_all(list, &turn);
}

bool inbound_flush(struct inbound_group *group, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(group);
    struct inbound_conns *conns = &group->conns;
    conns->reading_ns = 0;
    /* others need the memory of expelled connections: they do not wait for their turn */
    for (struct belfry_list *node; (node = belfry_list_pop(&conns->expelled)) != NULL;)
        inbound_conn_finish_expelled(belfry_container(node, struct inbound_conn, in_expelled), now_ms);
    flush_list(&conns->prompt, now_ms);
    flush_list(&conns->dirty, now_ms);
    bool more = check_some(conns, now_ms);
    more = h2_teardown_step(&conns->teardown) || more;
    return more || !belfry_list_empty(&conns->prompt) || !belfry_list_empty(&conns->dirty);
}

bool inbound_shut(struct inbound_group *group, uint64_t newest, size_t most)
{
    BELFRY_OWNER_CHECK(group);
    if (newest == INBOUND_ALL)
        group->conns.shut = true;
    struct belfry_list *staying = &group->conns.staying;
    for (; !belfry_list_empty(staying); most--) {
        struct inbound_conn *c = belfry_container(staying->next, struct inbound_conn, in_all);
        if (c->number > newest)
            return false;
        if (most == 0)
            return true;
        inbound_conn_tell_to_leave(c);
    }
    return false;
}

uint64_t inbound_newest(const struct inbound_group *group)
{
    return group->conns.stats.accepted;
}

size_t inbound_connections(const struct inbound_group *group)
{
    return group->conns.stats.connections;
}

struct shares *inbound_shares(struct inbound_group *group)
{
    return &group->conns.shares;
}

const struct shares_alarm *inbound_alarm(const struct inbound_group *group)
{
    return &group->alarm;
}

void inbound_set_limits(struct inbound_group *group, const struct shares_limits *limits)
{
    BELFRY_OWNER_CHECK(group);
    shares_set_limits(&group->conns.shares, limits);
}

void inbound_set_times(struct inbound_group *group, const struct inbound_times *times)
{
    BELFRY_OWNER_CHECK(group);
    group_set_spans(group, times);
    group_start_ticks(group);
}

void inbound_stats(const struct inbound_group *group, struct inbound_stats *out)
{
    const struct inbound_conns *conns = &group->conns;
    *out = conns->stats;
    out->http1 = conns->n_http1;
    out->http2 = conns->n_http2;
    out->tls = conns->n_tls;
    out->refused = conns->n_refused;
    out->kernel_bytes = conns->traffic.n_full * 2 * (size_t)group->opts.sndbuf;
    out->bytes = conns->shares.pools[SHARES_MEMORY].used;
    out->bytes_in = conns->traffic.bytes_in;
    out->bytes_out = conns->traffic.bytes_out;
    out->writes = conns->traffic.writes;
    out->refused_streams = conns->shares.pools[SHARES_MEMORY].refused;
}
