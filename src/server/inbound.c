/* src/server/inbound.c */
#include "server/inbound.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/inbound_private.h"

#define INPUT_BYTES (64 * 1024)
#define PLAIN_BYTES (16 * 1024)
#define TICK_MS     500
#define PER_TICK    1024 /* connections that a tick looks at, of each kind: about a millisecond */
#define LINGER_MS   2000
#define FLUSH_NS    1000000
#define PROBE_MS    15000

/* ---- whose time is limited ---- */

void inbound_wait(struct inbound_conn *c, enum inbound_wait what, uint64_t now_ms)
{
    belfry_list_remove(&c->in_wait);
    c->wait = what;
    if (what == INBOUND_WAIT_NONE)
        return;
    c->deadline_ms = now_ms + c->group->span_ms[what];
    belfry_list_append(&c->group->waits[what], &c->in_wait);
}

void inbound_wait_probe(struct inbound_conn *c, uint64_t now_ms)
{
    if (!belfry_list_empty(&c->in_probed))
        return;
    c->probe_at_ms = now_ms + c->group->opts.probe_ms;
    belfry_list_append(&c->group->probed, &c->in_probed);
}

static void end_late(struct inbound_group *group, struct belfry_list *list, uint64_t now_ms)
{
    for (int i = 0; i < PER_TICK && !belfry_list_empty(list); i++) {
        struct inbound_conn *c = belfry_container(list->next, struct inbound_conn, in_wait);
        if (c->deadline_ms > now_ms)
            return;
        belfry_logf(group->opts.log, BELFRY_LOG_DEBUG, "connection_late", "peer=%s id=%llu", c->info.peer,
                    (unsigned long long)c->info.id);
        group->stats.ended_late += c->wait == INBOUND_WAIT_GREET || c->wait == INBOUND_WAIT_HEAD;
        inbound_conn_time_is_up(c, now_ms);
    }
}

static void probe(struct inbound_conn *c, uint64_t now_ms)
{
    struct inbound_group *group = c->group;
    struct inbound_probe_info info;
    belfry_list_remove(&c->in_probed);
    if (!inbound_probe_ask(c->fd, &info))
        return;
    switch (inbound_probe_judge(&c->probe, &info, now_ms, group->opts.dead_ms)) {
    case INBOUND_CLEAR:
        if (c->blocked || c->watched == 0)
            inbound_wait_probe(c, now_ms);
        break;
    case INBOUND_WAITING:
        inbound_wait_probe(c, now_ms);
        break;
    case INBOUND_DEAD:
        belfry_logf(group->opts.log, BELFRY_LOG_DEBUG, "connection_dead", "peer=%s id=%llu", c->info.peer,
                    (unsigned long long)c->info.id);
        group->stats.dead++;
        inbound_conn_close(c);
        break;
    }
}

static void probe_some(struct inbound_group *group, uint64_t now_ms)
{
    for (int i = 0; i < PER_TICK && !belfry_list_empty(&group->probed); i++) {
        struct inbound_conn *c = belfry_container(group->probed.next, struct inbound_conn, in_probed);
        if (c->probe_at_ms > now_ms)
            return;
        probe(c, now_ms);
    }
}

/* After a gap (the process was stopped, the machine asleep) timers come before sockets: nobody is judged before what
 * arrived meanwhile was read. */
static void on_tick(uv_timer_t *timer)
{
    struct inbound_group *group = timer->data;
    uint64_t now_ms = belfry_clock_ms(), last_ms = group->tick_at_ms;
    group->tick_at_ms = now_ms;
    if (now_ms - last_ms > 4 * TICK_MS)
        return;
    for (size_t i = 0; i < INBOUND_N_WAITS; i++)
        end_late(group, &group->waits[i], now_ms);
    probe_some(group, now_ms);
}

/* ---- the group ---- */

static void on_largest(struct intake_conn *share, void *user)
{
    (void)user;
    struct exchange_conn *info = belfry_container(share, struct exchange_conn, intake);
    inbound_conn_expel(belfry_container(info, struct inbound_conn, info));
}

void inbound_release(struct inbound_group *group)
{
    if (--group->n_handles > 0)
        return;
    assert(group->destroyed);
    belfry_buf_fini(&group->output);
    free(group->input);
    free(group->plain);
    free(group);
}

static void on_timer_closed(uv_handle_t *handle)
{
    inbound_release(handle->data);
}

static void set_defaults(struct inbound_group *group)
{
    struct inbound_opts *opts = &group->opts;
    opts->sndbuf = opts->sndbuf != 0 ? opts->sndbuf : INBOUND_SNDBUF;
    opts->dead_ms = opts->dead_ms != 0 ? opts->dead_ms : INBOUND_DEAD_MS;
    opts->probe_ms = opts->probe_ms != 0 ? opts->probe_ms : PROBE_MS;
    group->span_ms[INBOUND_WAIT_GREET] = opts->greet_ms != 0 ? opts->greet_ms : INBOUND_GREET_MS;
    group->span_ms[INBOUND_WAIT_HEAD] = group->span_ms[INBOUND_WAIT_GREET];
    group->span_ms[INBOUND_WAIT_IDLE] = opts->idle_ms != 0 ? opts->idle_ms : INBOUND_IDLE_MS;
    group->span_ms[INBOUND_WAIT_LINGER] = opts->linger_ms != 0 ? opts->linger_ms : LINGER_MS;
}

/* The timer keeps no loop alive: without connections there is nothing to judge, and they do that themselves. */
static void start_timer(struct inbound_group *group)
{
    uint64_t tick_ms = TICK_MS;
    for (size_t i = 0; i < INBOUND_N_WAITS; i++)
        tick_ms = belfry_min_time(tick_ms, group->span_ms[i] / 4 + 1);
    tick_ms = belfry_min_time(tick_ms, group->opts.probe_ms / 4 + 1);
    uv_timer_init(group->opts.loop, &group->timer);
    group->timer.data = group;
    group->n_handles = 1;
    group->tick_at_ms = belfry_clock_ms();
    uv_timer_start(&group->timer, on_tick, tick_ms, tick_ms);
    uv_unref((uv_handle_t *)&group->timer);
}

enum belfry_err inbound_create(const struct inbound_opts *opts, struct inbound_group **out)
{
    struct inbound_group *group = calloc(1, sizeof(*group));
    uint8_t *ignored;
    if (group == NULL)
        return BELFRY_ERR_NOMEM;
    group->opts = *opts;
    set_defaults(group);
    belfry_list_init(&group->conns);
    belfry_list_init(&group->shutting);
    belfry_list_init(&group->dirty);
    belfry_list_init(&group->prompt);
    belfry_list_init(&group->probed);
    belfry_list_init(&group->leaving);
    belfry_list_init(&group->expelled);
    intake_init(&group->intake, on_largest, group);
    group->memory.max = opts->memory_max;
    for (size_t i = 0; i < INBOUND_N_WAITS; i++)
        belfry_list_init(&group->waits[i]);
    group->input = malloc(INPUT_BYTES);
    group->plain = malloc(PLAIN_BYTES);
    if (group->input == NULL || group->plain == NULL ||
        belfry_buf_reserve(&group->output, INPUT_BYTES, &ignored) != BELFRY_OK) {
        group->n_handles = 1;
        group->destroyed = true;
        inbound_release(group);
        return BELFRY_ERR_NOMEM;
    }
    start_timer(group);
    *out = group;
    return BELFRY_OK;
}

void inbound_destroy(struct inbound_group *group)
{
    if (group == NULL)
        return;
    group->destroyed = true;
    belfry_list_move_all(&group->conns, &group->shutting);
    while (!belfry_list_empty(&group->conns))
        inbound_conn_close(belfry_container(group->conns.next, struct inbound_conn, in_group));
    inbound_leave_some(group); /* all of them now */
    uv_close((uv_handle_t *)&group->timer, on_timer_closed);
}

enum belfry_err inbound_accept(struct inbound_group *group, int fd, const char *peer, struct belfry_tls *tls,
                               const void *policy, uint64_t now_ms)
{
    const struct exchange_memory *memory = &group->memory;
    size_t used = memory->used + sizeof(struct inbound_conn) + H2_SERVER_CONN;
    if (memory->max != 0 && !intake_has_room(&group->intake, NULL, used, memory->max)) {
        group->stats.refused_connections++;
        close(fd);
        return BELFRY_ERR_LIMIT;
    }
    return inbound_conn_open(group, fd, peer, tls, policy, now_ms);
}

/* Each once: who has more, or is told `writable` and says more, is back in a list for the next time. */
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
    belfry_list_move_all(&turn, list); /* who has more goes behind those who had no turn yet */
    belfry_list_move_all(list, &turn);
}

/* Their memory is wanted by others: not in turn, but now. */
static void finish_expelled(struct inbound_group *group, uint64_t now_ms)
{
    for (struct belfry_list *node; (node = belfry_list_pop(&group->expelled)) != NULL;)
        inbound_conn_finish_expelled(belfry_container(node, struct inbound_conn, in_expelled), now_ms);
}

bool inbound_flush(struct inbound_group *group, uint64_t now_ms)
{
    finish_expelled(group, now_ms);
    flush_list(&group->prompt, now_ms);
    flush_list(&group->dirty, now_ms);
    bool leaving = inbound_leave_some(group);
    return leaving || !belfry_list_empty(&group->prompt) || !belfry_list_empty(&group->dirty);
}

static struct inbound_conn *first_conn(const struct inbound_group *group)
{
    return belfry_list_empty(&group->conns) ? NULL : belfry_container(group->conns.next, struct inbound_conn, in_group);
}

bool inbound_shut(struct inbound_group *group, uint64_t newest, size_t most)
{
    struct inbound_conn *c;
    if (newest == INBOUND_ALL)
        group->shut = true;
    for (; (c = first_conn(group)) != NULL && c->number <= newest && most > 0; most--) {
        belfry_list_remove(&c->in_group);
        belfry_list_append(&group->shutting, &c->in_group);
        inbound_conn_shut(c);
    }
    return c != NULL && c->number <= newest;
}

uint64_t inbound_newest(const struct inbound_group *group)
{
    return group->stats.accepted;
}

size_t inbound_connections(const struct inbound_group *group)
{
    return group->stats.connections;
}

void inbound_stats(const struct inbound_group *group, struct inbound_stats *out)
{
    *out = group->stats;
    out->http1 = group->n_http1;
    out->http2 = group->n_http2;
    out->tls = group->n_tls;
    out->kernel_bytes = group->n_blocked * 2 * (size_t)group->opts.sndbuf;
    out->bytes = group->memory.used;
    out->refused_streams = group->memory.refused;
    out->ended_largest = group->intake.ended;
}
