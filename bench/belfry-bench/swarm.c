/* bench/belfry-bench/swarm.c */
#include "swarm_private.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "die.h"
#include "proc.h"
#include "stopwatch.h"
#include "wire/scan.h"
#include "wire/write.h"

#define MAX_OPENING  256 /* connections on their way at a time: fewer than a listener's backlog */
#define MAX_BOUNDED  16  /* the same when there is a bound: what they still create goes past it */
#define MAX_CREATING 256 /* creates of a stream without an answer */

void swarm_fault(struct seat *seat, const char *what, const char *text)
{
    struct swarm *swarm = seat->swarm;
    if (swarm->fault[0] == '\0')
        snprintf(swarm->fault, sizeof(swarm->fault), "connection %zu: %s%s", seat->index, what, text);
}

void swarm_delivery(struct seat *seat, size_t watcher, int64_t rev, uint64_t put_at, uint64_t now)
{
    struct swarm *swarm = seat->swarm;
    if (tally_event(&swarm->tally, watcher, rev) && put_at != 0 && put_at < now && seat->index != swarm->unmeasured)
        histogram_add(&swarm->latency, now - put_at);
}

size_t swarm_per_seat(const struct swarm *swarm)
{
    return swarm->opts.n_streams * swarm->opts.n_watches;
}

static size_t first_watcher(const struct seat *seat, uint32_t call)
{
    return (seat->index * seat->swarm->opts.n_streams + call) * seat->swarm->opts.n_watches;
}

/* Behind what it has seen, if it has been here before. */
static int64_t start_of(const struct swarm *swarm, size_t watcher)
{
    int64_t last = swarm->tally.rows[watcher].last_rev;
    return last > 0 ? last + 1 : swarm->opts.start_revision;
}

static void ask(struct seat *seat, uint32_t call)
{
    struct swarm *swarm = seat->swarm;
    struct lane *lane = &seat->lanes[call];
    char key[LOAD_KEY_MAX], end[LOAD_KEY_MAX];
    struct belfry_buf message = {0};
    while (lane->asked < swarm->opts.n_watches && lane->asked - lane->created < MAX_CREATING) {
        size_t watcher = first_watcher(seat, call) + lane->asked++;
        load_range(&swarm->opts.load, watcher, key, end);
        struct belfry_wire_create create = {.key = belfry_bytes_str(key),
                                            .range_end = belfry_bytes_str(end),
                                            .start_revision = start_of(swarm, watcher)};
        must(belfry_write_watch_create(&message, &create), "create");
        h2conn_send(seat->conn, call, belfry_buf_bytes(&message), H2CONN_MORE);
        belfry_buf_clear(&message);
    }
    belfry_buf_fini(&message);
}

static void on_created(struct seat *seat, uint32_t call, const struct belfry_wire_watch *watch)
{
    struct lane *lane = &seat->lanes[call];
    if (watch->watch_id < 0 || (uint64_t)watch->watch_id >= lane->asked || lane->answered[watch->watch_id]) {
        swarm_fault(seat, "a watch was created that was not asked for", "");
        return;
    }
    lane->answered[watch->watch_id] = true;
    lane->created++;
    seat->n_created++;
    seat->swarm->n_created++;
    if (seat->swarm->reconnects)
        seat->swarm->resumed++;
    if (seat->swarm->opts.start_revision == 0)
        tally_begin(&seat->swarm->tally, first_watcher(seat, call) + (size_t)watch->watch_id, watch->header.revision);
    if (seat->n_created == swarm_per_seat(seat->swarm))
        belfry_backoff_reset(&seat->backoff);
    if (lane->asked - lane->created <= MAX_CREATING / 2)
        ask(seat, call);
}

static void on_event(struct seat *seat, size_t watcher, struct belfry_bytes raw, uint64_t now)
{
    struct belfry_wire_event event;
    if (belfry_scan_event(raw, &event) != BELFRY_OK) {
        swarm_fault(seat, "an event cannot be read", "");
        return;
    }
    if (!load_covers(&seat->swarm->opts.load, watcher, event.kv.key)) {
        swarm_fault(seat, "an event came to a watch of another key", "");
        return;
    }
    swarm_delivery(seat, watcher, event.kv.mod_rev, load_put_time(event.kv.value), now);
}

static void on_message(void *user, uint32_t call, struct belfry_bytes message)
{
    struct seat *seat = user;
    struct belfry_wire_watch watch = {0};
    if (seat->state == SEAT_AWAY)
        return; /* it has given this connection up */
    if (belfry_scan_watch(message, &watch) != BELFRY_OK) {
        swarm_fault(seat, "a WatchResponse cannot be read", "");
    } else if (watch.canceled) {
        char reason[128];
        snprintf(reason, sizeof(reason), "%.*s", (int)watch.cancel_reason.len, watch.cancel_reason.data);
        swarm_fault(seat, "a watch was canceled: ", reason);
    } else if (watch.created) {
        on_created(seat, call, &watch);
    }
    if (watch.n_events == 0 || seat->swarm->fault[0] != '\0')
        return;
    if (watch.watch_id < 0 || (uint64_t)watch.watch_id >= seat->lanes[call].asked ||
        !seat->lanes[call].answered[watch.watch_id]) {
        swarm_fault(seat, "an event came for a watch that does not exist", "");
        return;
    }
    size_t watcher = first_watcher(seat, call) + (size_t)watch.watch_id;
    uint64_t now = stopwatch_ns();
    struct belfry_bytes raw;
    for (size_t at = 0; belfry_scan_field(message, BELFRY_WATCH_EVENTS, &at, &raw) == BELFRY_OK;)
        on_event(seat, watcher, raw, now);
}

static void on_ended(void *user, uint32_t call, int status, const char *text)
{
    char what[64];
    if (swarm_lost(user, text))
        return;
    snprintf(what, sizeof(what), "stream %u ended with grpc-status %d: ", call, status);
    swarm_fault(user, what, text);
}

static void on_failed(void *user, const char *why)
{
    if (!swarm_lost(user, why))
        swarm_fault(user, why, "");
}

static const struct h2conn_events events = {on_message, on_ended, on_failed};

void swarm_seat_open(struct seat *seat)
{
    const struct swarm_opts *opts = &seat->swarm->opts;
    seat->state = SEAT_TAKEN;
    if (opts->load.form == LOAD_OBJECTS) {
        swarm_kube_open(seat);
        return;
    }
    seat->lanes = must_have(calloc(opts->n_streams, sizeof(*seat->lanes)));
    seat->conn = h2conn_create(seat->swarm->poll, &opts->target, (uint32_t)opts->n_streams, &events, seat);
    for (size_t i = 0; i < opts->n_streams; i++) {
        seat->lanes[i].answered = must_have(calloc(opts->n_watches, sizeof(bool)));
        uint32_t call = h2conn_call(seat->conn, "/etcdserverpb.Watch/Watch");
        if (call != i)
            die("a stream has no place");
        ask(seat, call);
    }
}

void swarm_seat_close(struct seat *seat)
{
    h2conn_destroy(seat->conn);
    seat->conn = NULL;
    swarm_kube_close(seat);
    for (size_t i = 0; seat->lanes != NULL && i < seat->swarm->opts.n_streams; i++)
        free(seat->lanes[i].answered);
    free(seat->lanes);
    seat->lanes = NULL;
}

static size_t watchers_of(const struct swarm *swarm, size_t n_conns)
{
    return n_conns * swarm_per_seat(swarm);
}

/* Whether one more may be opened; if not, those there are will do. */
static bool may_open(struct swarm *swarm, size_t opened)
{
    const struct bound *bound = &swarm->opts.bound;
    if (opened == swarm->opts.n_conns)
        return false;
    if (opened == 0 || !bound_is_set(bound))
        return true;
    swarm->bound_hit = bound_check(bound, proc_available_bytes(), stopwatch_ns());
    if (swarm->bound_hit == BOUND_NONE)
        return true;
    swarm->opts.n_conns = opened;
    swarm->tally.n_watchers = swarm->n_watchers = watchers_of(swarm, opened);
    return false;
}

static void await_created(struct swarm *swarm, uint64_t deadline_ns)
{
    size_t opened = 0, complete = 0;
    size_t each = watchers_of(swarm, 1);
    size_t most = bound_is_set(&swarm->opts.bound) ? MAX_BOUNDED : MAX_OPENING;
    for (;;) {
        while (complete < opened && swarm->seats[complete].n_created == each)
            complete++;
        while (opened - complete < most && may_open(swarm, opened))
            swarm_seat_open(&swarm->seats[opened++]);
        if (swarm->n_created == swarm->n_watchers)
            return;
        poller_turn(swarm->poll, stopwatch_ms_until(deadline_ns));
        if (swarm->fault[0] != '\0')
            die("%s", swarm->fault);
        if (stopwatch_ns() > deadline_ns)
            die("only %zu of %zu watches were created in time", swarm->n_created, swarm->n_watchers);
    }
}

void swarm_open(struct swarm *swarm, int poll, const struct swarm_opts *opts, uint64_t deadline_ns)
{
    *swarm = (struct swarm){.opts = *opts, .poll = poll, .unmeasured = SWARM_NONE, .due_ns = UINT64_MAX};
    belfry_list_init(&swarm->away);
    swarm->n_watchers = watchers_of(swarm, opts->n_conns);
    tally_init(&swarm->tally, swarm->n_watchers);
    histogram_clear(&swarm->latency);
    swarm->seats = must_have(calloc(opts->n_conns, sizeof(*swarm->seats)));
    for (size_t i = 0; i < opts->n_conns; i++)
        swarm->seats[i] = (struct seat){.swarm = swarm, .index = i};
    if (opts->load.form == LOAD_OBJECTS && opts->start_revision == 0)
        swarm->opts.start_revision = swarm_kube_revision(&opts->target, deadline_ns);
    await_created(swarm, deadline_ns);
}

void swarm_close(struct swarm *swarm)
{
    for (size_t i = 0; i < swarm->opts.n_conns; i++)
        swarm_seat_close(&swarm->seats[i]);
    free(swarm->seats);
    tally_fini(&swarm->tally);
}

uint64_t swarm_least_bytes(const struct swarm *swarm)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < swarm->opts.n_conns; i++) {
        const struct seat *seat = &swarm->seats[i];
        uint64_t bytes = seat->watch != NULL ? h1conn_bytes_read(seat->watch) : h2conn_bytes_read(seat->conn);
        least = bytes < least ? bytes : least;
    }
    return least;
}

void swarm_pause(struct swarm *swarm, size_t conn)
{
    if (swarm->seats[conn].watch != NULL)
        h1conn_pause(swarm->seats[conn].watch);
    else
        h2conn_pause(swarm->seats[conn].conn);
}

void swarm_resume(struct swarm *swarm, size_t conn)
{
    if (swarm->seats[conn].watch != NULL)
        h1conn_resume(swarm->seats[conn].watch);
    else
        h2conn_resume(swarm->seats[conn].conn);
}

void swarm_restart(struct swarm *swarm)
{
    tally_restart(&swarm->tally);
    histogram_clear(&swarm->latency);
}
