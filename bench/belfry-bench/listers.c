/* bench/belfry-bench/listers.c */
#include "listers.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "die.h"
#include "h2conn.h"
#include "range_call.h"
#include "stopwatch.h"
#include "wire/write.h"

#define UNAVAILABLE      14
#define RETRY_NS         ((uint64_t)25 * NS_PER_MS)
#define CALLS_PER_CLIENT 8 /* places: a list, a watch, and lists that are repeated */

enum lister_state { LISTER_QUEUED, LISTER_LISTING, LISTER_CREATING, LISTER_WATCHING };

struct lister {
    enum lister_state state;
    uint64_t began_ns;
    uint64_t due_ns;  /* QUEUED: not before this */
    int64_t revision; /* of its list, then of the newest event; 0: no list yet */
    size_t n_events;
};

struct listers_seat {
    struct listers *all;
    struct h2conn *conn; /* owned */
    size_t *asked_by;    /* owned; which client a call is of, by its number % n_calls */
    uint32_t n_calls;
};

static void listers_fault(struct listers *all, const char *what, const char *text)
{
    if (all->fault[0] == '\0')
        snprintf(all->fault, sizeof(all->fault), "list: %s%s", what, text);
}

/* A client's connection: clients go round them. */
static struct listers_seat *seat_of(struct listers *all, size_t client)
{
    return &all->seats[client % all->opts.n_conns];
}

/* ---- lists ---- */

/* All that wait have waits of the same length, so the first is due first. */
static void listers_queue(struct listers *all, size_t client, uint64_t due_ns)
{
    size_t n = all->opts.n_conns * all->opts.n_clients;
    assert(all->n_queued < n);
    all->clients[client].state = LISTER_QUEUED;
    all->clients[client].due_ns = due_ns;
    all->queue[(all->queue_first + all->n_queued++) % n] = client;
}

/* Opens a call of the client with one message; false: its connection has no place. */
static bool lister_call(struct listers *all, size_t client, const char *path, struct belfry_bytes message,
                        enum h2conn_more more)
{
    struct listers_seat *seat = seat_of(all, client);
    uint32_t call = h2conn_call(seat->conn, path);
    if (call == UINT32_MAX) {
        listers_fault(all, "a call has no place", "");
        return false;
    }
    seat->asked_by[call % seat->n_calls] = client;
    h2conn_send(seat->conn, call, message, more);
    h2conn_flush(seat->conn);
    return true;
}

static bool lister_list(struct listers *all, size_t client)
{
    struct lister *lister = &all->clients[client];
    const struct range_call range = {.key = belfry_bytes_str(all->key), .range_end = belfry_bytes_str(all->end)};
    struct belfry_buf request = {0};
    range_call_write(&range, &request);
    lister->state = LISTER_LISTING;
    lister->revision = 0;
    lister->began_ns = lister->began_ns != 0 ? lister->began_ns : stopwatch_ns();
    all->n_listing++;
    bool ok = lister_call(all, client, RANGE_CALL_PATH, belfry_buf_bytes(&request), H2CONN_LAST);
    belfry_buf_fini(&request);
    return ok;
}

static void listers_go_on(struct listers *all)
{
    size_t n = all->opts.n_conns * all->opts.n_clients;
    while (all->n_queued > 0 && all->n_listing < all->opts.n_listing) {
        size_t client = all->queue[all->queue_first];
        if (all->clients[client].due_ns > stopwatch_ns())
            return;
        all->queue_first = (all->queue_first + 1) % n;
        all->n_queued--;
        if (!lister_list(all, client))
            return;
    }
}

static void on_list(struct listers *all, struct lister *lister, struct belfry_bytes message)
{
    struct range_answer answer;
    if (range_call_read(message, &answer) != BELFRY_OK || answer.revision <= 0)
        listers_fault(all, "a RangeResponse cannot be read", "");
    else if (answer.n_kvs != all->opts.n_keys || answer.more)
        listers_fault(all, "a list has not all keys", "");
    else
        lister->revision = answer.revision;
    all->kvs += answer.n_kvs;
}

static void on_listed(struct listers *all, size_t client, int status, const char *text)
{
    struct lister *lister = &all->clients[client];
    all->n_listing--;
    if (status == 0 && lister->revision > 0) {
        struct belfry_buf request = {0};
        const struct belfry_wire_create create = {.key = belfry_bytes_str(all->key),
                                                  .range_end = belfry_bytes_str(all->end),
                                                  .start_revision = lister->revision + 1};
        must(belfry_write_watch_create(&request, &create), "create");
        lister->state = LISTER_CREATING;
        lister_call(all, client, "/etcdserverpb.Watch/Watch", belfry_buf_bytes(&request), H2CONN_MORE);
        belfry_buf_fini(&request);
    } else if (status == UNAVAILABLE) {
        all->retried++;
        listers_queue(all, client, stopwatch_ns() + RETRY_NS);
    } else {
        char what[64];
        snprintf(what, sizeof(what), "grpc-status %d: ", status);
        listers_fault(all, what, text);
    }
    listers_go_on(all);
}

/* ---- watches ---- */

static void on_events(struct listers *all, struct lister *lister, struct belfry_bytes message)
{
    struct belfry_bytes event;
    int64_t revision;
    size_t at = 0;
    while (belfry_scan_field(message, BELFRY_WATCH_EVENTS, &at, &event) == BELFRY_OK) {
        if (belfry_scan_event_rev(event, &revision) != BELFRY_OK || revision <= lister->revision) {
            listers_fault(all, "an event is doubled, or out of order", "");
            return;
        }
        lister->revision = revision;
        lister->n_events++;
        all->events++;
    }
}

static void on_watch(struct listers *all, struct lister *lister, struct belfry_bytes message)
{
    struct belfry_wire_watch watch;
    if (belfry_scan_watch(message, &watch) != BELFRY_OK) {
        listers_fault(all, "a WatchResponse cannot be read", "");
    } else if (watch.canceled || watch.created != (lister->state == LISTER_CREATING)) {
        listers_fault(all, "a watch was canceled, or not created first", "");
    } else if (watch.created) {
        lister->state = LISTER_WATCHING;
        all->n_watching++;
        histogram_add(&all->took, stopwatch_ns() - lister->began_ns);
    }
    on_events(all, lister, message);
}

static void on_message(void *user, uint32_t call, struct belfry_bytes message)
{
    struct listers_seat *seat = user;
    struct lister *lister = &seat->all->clients[seat->asked_by[call % seat->n_calls]];
    if (lister->state == LISTER_LISTING)
        on_list(seat->all, lister, message);
    else
        on_watch(seat->all, lister, message);
}

static void on_ended(void *user, uint32_t call, int status, const char *text)
{
    struct listers_seat *seat = user;
    size_t client = seat->asked_by[call % seat->n_calls];
    if (seat->all->clients[client].state == LISTER_LISTING)
        on_listed(seat->all, client, status, text);
    else
        listers_fault(seat->all, "a watch has ended: ", text);
}

static void on_failed(void *user, const char *why)
{
    struct listers_seat *seat = user;
    listers_fault(seat->all, why, "");
}

/* ---- all ---- */

static void seat_open(struct listers_seat *seat, struct listers *all, int poll)
{
    static const struct h2conn_events events = {on_message, on_ended, on_failed};
    seat->all = all;
    seat->n_calls = (uint32_t)all->opts.n_clients * CALLS_PER_CLIENT;
    seat->asked_by = must_have(calloc(seat->n_calls, sizeof(*seat->asked_by)));
    seat->conn = h2conn_create(poll, &all->opts.target, seat->n_calls, &events, seat);
}

void listers_open(struct listers *listers, int poll, const struct listers_opts *opts)
{
    const struct load load = {.keys = LOAD_SHARED, .form = LOAD_VALUES, .prefix = opts->prefix};
    size_t n = opts->n_conns * opts->n_clients;
    memset(listers, 0, sizeof(*listers));
    listers->opts = *opts;
    load_range(&load, 0, listers->key, listers->end);
    histogram_clear(&listers->took);
    listers->clients = must_have(calloc(n, sizeof(*listers->clients)));
    listers->queue = must_have(calloc(n, sizeof(*listers->queue)));
    listers->seats = must_have(calloc(opts->n_conns, sizeof(*listers->seats)));
    for (size_t i = 0; i < opts->n_conns; i++)
        seat_open(&listers->seats[i], listers, poll);
}

void listers_close(struct listers *listers)
{
    for (size_t i = 0; i < listers->opts.n_conns; i++) {
        h2conn_destroy(listers->seats[i].conn);
        free(listers->seats[i].asked_by);
    }
    free(listers->seats);
    free(listers->clients);
    free(listers->queue);
}

bool listers_are_connected(const struct listers *listers)
{
    for (size_t i = 0; i < listers->opts.n_conns; i++)
        if (h2conn_state(listers->seats[i].conn) != H2CONN_OPEN)
            return false;
    return true;
}

void listers_begin(struct listers *listers)
{
    size_t n = listers->opts.n_conns * listers->opts.n_clients;
    for (size_t i = 0; i < n; i++)
        listers_queue(listers, i, 0);
    listers_go_on(listers);
}

int listers_tend(struct listers *listers)
{
    listers_go_on(listers);
    if (listers->n_queued == 0 || listers->n_listing == listers->opts.n_listing)
        return 1000;
    return stopwatch_ms_until(listers->clients[listers->queue[listers->queue_first]].due_ns);
}

bool listers_all_watch(const struct listers *listers)
{
    return listers->n_watching == listers->opts.n_conns * listers->opts.n_clients;
}

bool listers_have_events(const struct listers *listers, size_t n_each)
{
    size_t n = listers->opts.n_conns * listers->opts.n_clients;
    if (listers->events < n_each * n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (listers->clients[i].n_events < n_each)
            return false;
    return true;
}
