/* bench/belfry-bench/swarm.c */
#include "swarm.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/buf.h"
#include "die.h"
#include "h2conn.h"
#include "kube_watch.h"
#include "proc.h"
#include "put_time.h"
#include "stopwatch.h"
#include "wire/scan.h"
#include "wire/write.h"

#define MAX_OPENING 256 /* connections on their way at a time: fewer than a listener's backlog */
#define MAX_BOUNDED 16  /* the same when there is a bound: what they still create goes past it */

#define BACK_FIRST_MS 50 /* libbelfry's waits, so that a storm of these watchers is what a server would meet */
#define BACK_MAX_MS   3000

struct lane {
    size_t asked, created;
    bool *answered; /* owned; by watch. grpc-proxy numbers watches in the order of the creates but answers in another */
};

/*
 *                 opened            lost (swarm_reconnect())
 *     SEAT_EMPTY ----> SEAT_TAKEN ----> SEAT_AWAY
 *                          ^----------------'
 *                               its wait is over
 */
enum seat_state { SEAT_EMPTY, SEAT_TAKEN, SEAT_AWAY };

struct seat {
    struct swarm *swarm;
    size_t index;
    size_t n_created;
    enum seat_state state;
    /* since swarm_reconnect() */
    bool left; /* it had all its watches, and was lost */
    struct belfry_backoff backoff;
    struct belfry_list away; /* in swarm->away */
    uint64_t due_ns;         /* while it is in there: when it connects again */
    /* etcd's API */
    struct h2conn *conn; /* owned; NULL: not opened yet */
    struct lane *lanes;  /* owned; one a stream */
    bool logs_in, logged_in;
    /* Kubernetes' */
    struct kube_watch *watch; /* owned; NULL: not opened yet */
};

static void seat_fault(struct seat *seat, const char *what, const char *text)
{
    struct swarm *swarm = seat->swarm;
    if (swarm->fault[0] == '\0')
        snprintf(swarm->fault, sizeof(swarm->fault), "connection %zu: %s%s", seat->index, what, text);
}

static void seat_delivery(struct seat *seat, size_t watcher, int64_t rev, uint64_t put_at, uint64_t now)
{
    struct swarm *swarm = seat->swarm;
    if (tally_event(&swarm->tally, watcher, rev) && put_at != 0 && put_at < now && seat->index != swarm->unmeasured)
        histogram_add(&swarm->latency, now - put_at);
}

static size_t watches_per_seat(const struct swarm *swarm)
{
    return swarm->opts.n_streams * swarm->opts.n_watches;
}

/* ---- a connection that is lost ---- */

/* The connection is of no use any more: it will be made again. False unless swarm_reconnect() was called. Frees
 * nothing: it is called from inside the connection. */
static bool seat_lost(struct seat *seat, const char *why)
{
    struct swarm *swarm = seat->swarm;
    if (!swarm->reconnects)
        return false;
    if (seat->state == SEAT_AWAY)
        return true; /* its streams end one after the other */
    if (seat->n_created == watches_per_seat(swarm)) {
        swarm->n_left += !seat->left;
        seat->left = true;
    } else {
        swarm->refusals++;
        snprintf(swarm->refusal, sizeof(swarm->refusal), "%s", why);
    }
    swarm->n_created -= seat->n_created;
    seat->n_created = 0;
    seat->state = SEAT_AWAY;
    seat->due_ns = stopwatch_ns() + (uint64_t)belfry_backoff_next(&seat->backoff, &swarm->rng) * NS_PER_MS;
    belfry_list_append(&swarm->away, &seat->away);
    if (seat->due_ns < swarm->due_ns)
        swarm->due_ns = seat->due_ns;
    return true;
}

/* ---- watchers of etcd's API ---- */

#define LOGIN 0 /* its call, on a connection that logs in; the streams are the calls after it */

static uint32_t first_call(const struct seat *seat)
{
    return seat->logs_in ? LOGIN + 1 : 0;
}

static struct lane *lane_of(const struct seat *seat, uint32_t call)
{
    return &seat->lanes[call - first_call(seat)];
}

static size_t first_watcher(const struct seat *seat, uint32_t call)
{
    return (seat->index * seat->swarm->opts.n_streams + call - first_call(seat)) * seat->swarm->opts.n_watches;
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
    struct lane *lane = lane_of(seat, call);
    char key[LOAD_KEY_MAX], end[LOAD_KEY_MAX];
    struct belfry_buf message = {0};
    while (lane->asked < swarm->opts.n_watches && lane->asked - lane->created < swarm->opts.n_creating) {
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
    struct lane *lane = lane_of(seat, call);
    if (watch->watch_id < 0 || (uint64_t)watch->watch_id >= lane->asked || lane->answered[watch->watch_id]) {
        seat_fault(seat, "a watch was created that was not asked for", "");
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
    if (seat->n_created == watches_per_seat(seat->swarm))
        belfry_backoff_reset(&seat->backoff);
    if (lane->asked - lane->created <= seat->swarm->opts.n_creating / 2)
        ask(seat, call);
}

static void on_event(struct seat *seat, size_t watcher, struct belfry_bytes raw, uint64_t now)
{
    struct belfry_wire_event event;
    if (belfry_scan_event(raw, &event) != BELFRY_OK) {
        seat_fault(seat, "an event cannot be read", "");
        return;
    }
    if (!load_covers(&seat->swarm->opts.load, watcher, event.kv.key)) {
        seat_fault(seat, "an event came to a watch of another key", "");
        return;
    }
    seat_delivery(seat, watcher, event.kv.mod_rev, put_time_read(event.kv.value), now);
}

static void open_streams(struct seat *seat)
{
    for (uint32_t i = 0; i < seat->swarm->opts.n_streams; i++) {
        uint32_t call = h2conn_call(seat->conn, "/etcdserverpb.Watch/Watch");
        if (call != first_call(seat) + i)
            die("a stream has no place");
        ask(seat, call);
    }
}

static void log_in(struct seat *seat)
{
    struct belfry_buf request = {0};
    credentials_write_login(credentials_of(seat->swarm->opts.logins, seat->index), &request);
    uint32_t call = h2conn_call(seat->conn, "/etcdserverpb.Auth/Authenticate");
    h2conn_send(seat->conn, call, belfry_buf_bytes(&request), H2CONN_LAST);
    belfry_buf_fini(&request);
}

static void on_login(struct seat *seat, struct belfry_bytes response)
{
    struct belfry_bytes token = credentials_read_login(response);
    if (token.len == 0) {
        seat_fault(seat, "an AuthenticateResponse has no token", "");
        return;
    }
    h2conn_set_token(seat->conn, token);
    seat->logged_in = true;
    seat->swarm->logins++;
    open_streams(seat);
}

static void on_message(void *user, uint32_t call, struct belfry_bytes message)
{
    struct seat *seat = user;
    struct belfry_wire_watch watch = {0};
    if (seat->state == SEAT_AWAY)
        return; /* it has given this connection up */
    if (call < first_call(seat)) {
        on_login(seat, message);
        return;
    }
    if (belfry_scan_watch(message, &watch) != BELFRY_OK) {
        seat_fault(seat, "a WatchResponse cannot be read", "");
    } else if (watch.canceled) {
        char reason[128];
        snprintf(reason, sizeof(reason), "%.*s", (int)watch.cancel_reason.len, watch.cancel_reason.data);
        seat_fault(seat, "a watch was canceled: ", reason);
    } else if (watch.created) {
        on_created(seat, call, &watch);
    }
    if (watch.n_events == 0 || seat->swarm->fault[0] != '\0')
        return;
    const struct lane *lane = lane_of(seat, call);
    if (watch.watch_id < 0 || (uint64_t)watch.watch_id >= lane->asked || !lane->answered[watch.watch_id]) {
        seat_fault(seat, "an event came for a watch that does not exist", "");
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
    const struct seat *seat = user;
    char what[64];
    if (call < first_call(seat) && seat->logged_in)
        return; /* that call has done its work */
    if (seat_lost(user, text))
        return;
    snprintf(what, sizeof(what), "stream %u ended with grpc-status %d: ", call, status);
    seat_fault(user, what, text);
}

static void on_failed(void *user, const char *why)
{
    if (!seat_lost(user, why))
        seat_fault(user, why, "");
}

static void open_etcd(struct seat *seat)
{
    static const struct h2conn_events events = {on_message, on_ended, on_failed};
    const struct swarm_opts *opts = &seat->swarm->opts;
    seat->logs_in = opts->logins != NULL && (opts->tokens == NULL || seat->swarm->reconnects);
    uint32_t n_calls = (uint32_t)opts->n_streams + first_call(seat);
    seat->lanes = must_have(calloc(opts->n_streams, sizeof(*seat->lanes)));
    seat->conn = h2conn_create(seat->swarm->poll, &opts->target, n_calls, &events, seat);
    seat->logged_in = false;
    for (size_t i = 0; i < opts->n_streams; i++)
        seat->lanes[i].answered = must_have(calloc(opts->n_watches, sizeof(bool)));
    if (seat->logs_in) {
        log_in(seat);
        return;
    }
    if (opts->tokens != NULL)
        h2conn_set_token(seat->conn, credentials_of(opts->tokens, seat->index));
    open_streams(seat);
}

/* ---- watchers of Kubernetes' API ---- */

static void on_kube_created(void *user)
{
    struct seat *seat = user;
    if (seat->n_created == 1)
        return; /* it is open again */
    seat->n_created = 1;
    seat->swarm->n_created++;
}

static void on_kube_put(void *user, int64_t rev, uint64_t put_at, uint64_t now_ns)
{
    struct seat *seat = user;
    seat_delivery(seat, seat->index, rev, put_at, now_ns);
}

static void on_kube_resumed(void *user)
{
    struct seat *seat = user;
    seat->swarm->resumed++;
}

static void on_kube_fault(void *user, const char *what, const char *text)
{
    seat_fault(user, what, text);
}

static void open_kube(struct seat *seat)
{
    static const struct kube_watch_events events = {on_kube_created, on_kube_put, on_kube_resumed, on_kube_fault};
    const struct swarm_opts *opts = &seat->swarm->opts;
    const struct kube_watch_opts watch = {
        .poll = seat->swarm->poll,
        .target = &opts->target,
        .rev = opts->start_revision,
        .selector_field = opts->load.keys == LOAD_DISTINCT ? opts->selector_field : NULL,
        .object = seat->index,
    };
    seat->watch = kube_watch_create(&watch, &events, seat);
}

/* ---- seats ---- */

static void seat_open(struct seat *seat)
{
    seat->state = SEAT_TAKEN;
    if (seat->swarm->opts.load.form == LOAD_OBJECTS)
        open_kube(seat);
    else
        open_etcd(seat);
}

static void seat_close(struct seat *seat)
{
    h2conn_destroy(seat->conn);
    seat->conn = NULL;
    kube_watch_destroy(seat->watch);
    seat->watch = NULL;
    for (size_t i = 0; seat->lanes != NULL && i < seat->swarm->opts.n_streams; i++)
        free(seat->lanes[i].answered);
    free(seat->lanes);
    seat->lanes = NULL;
}

static size_t watchers_of(const struct swarm *swarm, size_t n_conns)
{
    return n_conns * watches_per_seat(swarm);
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
            seat_open(&swarm->seats[opened++]);
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
    if (swarm->opts.n_creating == 0)
        swarm->opts.n_creating = SWARM_CREATING;
    belfry_list_init(&swarm->away);
    swarm->n_watchers = watchers_of(swarm, opts->n_conns);
    tally_init(&swarm->tally, swarm->n_watchers);
    histogram_clear(&swarm->latency);
    swarm->seats = must_have(calloc(opts->n_conns, sizeof(*swarm->seats)));
    for (size_t i = 0; i < opts->n_conns; i++)
        swarm->seats[i] = (struct seat){.swarm = swarm, .index = i};
    if (opts->load.form == LOAD_OBJECTS && opts->start_revision == 0)
        swarm->opts.start_revision = kube_watch_revision(&opts->target, deadline_ns);
    await_created(swarm, deadline_ns);
}

void swarm_close(struct swarm *swarm)
{
    for (size_t i = 0; i < swarm->opts.n_conns; i++)
        seat_close(&swarm->seats[i]);
    free(swarm->seats);
    tally_fini(&swarm->tally);
}

void swarm_reconnect(struct swarm *swarm, uint64_t seed)
{
    swarm->reconnects = true;
    swarm->rng = (struct belfry_rng){seed};
    for (size_t i = 0; i < swarm->opts.n_conns; i++)
        belfry_backoff_init(&swarm->seats[i].backoff, BACK_FIRST_MS, BACK_MAX_MS);
}

int swarm_tend(struct swarm *swarm)
{
    uint64_t now = stopwatch_ns();
    if (now < swarm->due_ns)
        return stopwatch_ms_until(swarm->due_ns);
    swarm->due_ns = UINT64_MAX;
    belfry_list_each_safe (node, &swarm->away) {
        struct seat *seat = belfry_container(node, struct seat, away);
        if (seat->due_ns <= now) {
            belfry_list_remove(&seat->away);
            seat_close(seat);
            seat_open(seat);
        } else if (seat->due_ns < swarm->due_ns) {
            swarm->due_ns = seat->due_ns;
        }
    }
    return stopwatch_ms_until(swarm->due_ns);
}

bool swarm_is_back(const struct swarm *swarm)
{
    return swarm->n_left == swarm->opts.n_conns && swarm->n_created == swarm->n_watchers;
}

uint64_t swarm_least_bytes(const struct swarm *swarm)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < swarm->opts.n_conns; i++) {
        const struct seat *seat = &swarm->seats[i];
        uint64_t bytes = seat->watch != NULL ? kube_watch_bytes_read(seat->watch) : h2conn_bytes_read(seat->conn);
        least = bytes < least ? bytes : least;
    }
    return least;
}

void swarm_pause(struct swarm *swarm, size_t conn)
{
    if (swarm->seats[conn].watch != NULL)
        kube_watch_pause(swarm->seats[conn].watch);
    else
        h2conn_pause(swarm->seats[conn].conn);
}

void swarm_resume(struct swarm *swarm, size_t conn)
{
    if (swarm->seats[conn].watch != NULL)
        kube_watch_resume(swarm->seats[conn].watch);
    else
        h2conn_resume(swarm->seats[conn].conn);
}

void swarm_restart(struct swarm *swarm)
{
    tally_restart(&swarm->tally);
    histogram_clear(&swarm->latency);
}
