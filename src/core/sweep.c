/* src/core/sweep.c: buses through history and the log for those who are behind. The idea is in sweep.h. */
#include "core/sweep.h"

#include <assert.h>

#include "base/clock.h"
#include "base/sim.h"
#include "core/worker_private.h"

#define PATIENCE_MS 50 /* a bus that awaits history for longer serves nobody else meanwhile: another may start */

enum drive { DRIVE_MORE, DRIVE_WAIT, DRIVE_ENDED };

int sweep_order(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    const struct watcher *x = belfry_container_const(a, struct watcher, place);
    const struct watcher *y = belfry_container_const(b, struct watcher, place);
    if (x->next != y->next)
        return x->next < y->next ? -1 : 1;
    if (x->stream->serial != y->stream->serial)
        return x->stream->serial < y->stream->serial ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static int seek_cursor(const void *key, const struct belfry_treap_node *node)
{
    int64_t want = *(const int64_t *)key;
    return want <= belfry_container_const(node, struct watcher, place)->next ? -1 : 1;
}

static int seek_covered(const void *key, const struct belfry_treap_node *node)
{
    return evlog_covers(key, belfry_container_const(node, struct watcher, place)->next) ? -1 : 1;
}

/* The waiting watcher with the smallest cursor of at least `cursor`; NULL: none. */
static struct watcher *waiting_from(const struct worker *worker, int64_t cursor)
{
    struct belfry_treap_walk walk;
    belfry_treap_walk(&walk, worker->sweep.waiting, &cursor, seek_cursor);
    return watcher_at_place(belfry_treap_next(&walk));
}

void sweep_future(struct worker *worker, int64_t upto)
{
    struct watcher *watcher;
    while ((watcher = waiting_from(worker, worker->at + 1)) != NULL && watcher->next <= upto) {
        watcher_detach(worker, watcher);
        watcher_ride(worker, watcher, watcher->next);
    }
}

/* ---- riders ---- */

static struct watcher *any_rider(const struct worker *worker, unsigned bus)
{
    struct interest_node *node = interest_any(worker->interest, bus);
    return node == NULL ? NULL : watcher_at_place(belfry_treap_first(interest_population(node, bus)));
}

static enum belfry_err board(struct worker *worker, unsigned number, struct watcher *watcher)
{
    enum belfry_err err;
    watcher_detach(worker, watcher);
    err = interest_join(worker->interest, watcher, number);
    if (err != BELFRY_OK) {
        watcher_wait(worker, watcher, watcher->next);
        return err;
    }
    worker->generation++;
    watcher->bus = (uint8_t)number;
    worker->sweep.buses[number].riders++;
    watcher_move(watcher, worker, WATCHER_BOARDED);
    return BELFRY_OK;
}

/* All who wait for a revision in [the bus's place, upto] board. */
static enum belfry_err board_all(struct worker *worker, unsigned number, int64_t upto)
{
    struct sweep_bus *bus = &worker->sweep.buses[number];
    struct watcher *watcher;
    if (bus->scanning)
        return BELFRY_OK;
    while ((watcher = waiting_from(worker, bus->at)) != NULL && watcher->next <= upto) {
        enum belfry_err err = board(worker, number, watcher);
        worker->work -= worker->work > 0;
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

/* Gets off at `rev` because its stream takes no more. */
static void stall(struct worker *worker, struct watcher *watcher, int64_t rev)
{
    struct stream *stream = watcher->stream;
    watcher_detach(worker, watcher);
    watcher->next = BELFRY_MUTANT(stalled_moves_on) ? rev + 1 : rev;
    belfry_list_append(&stream->stalled, &watcher->link);
    watcher_move(watcher, worker, WATCHER_STALLED);
    if (stream->room == 0 || stream_pending(stream)) { /* parked, or it has something of its own to say first */
        stream_ready(worker, stream);
    } else { /* out of memory */
        belfry_list_remove(&stream->ready);
        belfry_list_append(&worker->awaiting, &stream->ready);
        worker_retry_later(worker);
    }
}

/* ---- starting and ending ---- */

static void bus_start(struct worker *worker, unsigned number, int64_t at)
{
    worker->sweep.buses[number] = (struct sweep_bus){.at = at};
}

/* Somebody waits in the log's part, and no bus drives there. */
static bool start_in_log(struct worker *worker)
{
    struct belfry_treap_walk walk;
    if (worker->sweep.buses[SWEEP_LOG_BUS].at != 0)
        return false;
    belfry_treap_walk(&walk, worker->sweep.waiting, &worker->view, seek_covered);
    struct watcher *watcher = watcher_at_place(belfry_treap_next(&walk));
    if (watcher == NULL || watcher->next > worker->at)
        return false;
    bus_start(worker, SWEEP_LOG_BUS, watcher->next);
    return true;
}

static bool is_patient(const struct worker *worker, const struct sweep_bus *bus)
{
    return bus->awaiting_since == 0 || worker->now - bus->awaiting_since < PATIENCE_MS;
}

/* Will a bus that drives come to this cursor, and so to all behind it? */
static bool is_served(const struct worker *worker, int64_t cursor)
{
    for (unsigned i = SWEEP_LOG_BUS + 1; i <= SWEEP_BUSES; i++) {
        const struct sweep_bus *bus = &worker->sweep.buses[i];
        if (bus->at != 0 && bus->at <= cursor && is_patient(worker, bus))
            return true;
    }
    return false;
}

/* Does a bus stand there and wait for history itself? */
static bool is_awaited(const struct worker *worker, int64_t cursor)
{
    for (unsigned i = SWEEP_LOG_BUS + 1; i <= SWEEP_BUSES; i++) {
        if (worker->sweep.buses[i].at == cursor)
            return true;
    }
    return false;
}

/* At most one step a bus: what is behind a cursor that is served is served too, however many wait there. */
static bool start_in_history(struct worker *worker)
{
    unsigned number = SWEEP_LOG_BUS + 1;
    while (number <= SWEEP_BUSES && worker->sweep.buses[number].at != 0)
        number++;
    if (number > SWEEP_BUSES)
        return false;
    struct watcher *watcher = watcher_at_place(belfry_treap_first(worker->sweep.waiting));
    while (watcher != NULL && is_awaited(worker, watcher->next))
        watcher = waiting_from(worker, watcher->next + 1);
    if (watcher == NULL || watcher->next > worker->at || evlog_covers(&worker->view, watcher->next) ||
        is_served(worker, watcher->next))
        return false;
    bus_start(worker, number, watcher->next);
    return true;
}

/* Everybody gets off where the bus is and waits there. */
static bool end_here(struct worker *worker, unsigned number)
{
    struct sweep_bus *bus = &worker->sweep.buses[number];
    struct watcher *watcher;
    while ((watcher = any_rider(worker, number)) != NULL) {
        if (worker->work == 0)
            return false;
        worker->work--;
        int64_t next = watcher->next > bus->at ? watcher->next : bus->at;
        watcher_detach(worker, watcher);
        watcher_wait(worker, watcher, next);
    }
    bus->at = 0;
    return true;
}

/* The bus has passed P: its riders ride live from here on. */
static bool hand_over(struct worker *worker, unsigned number)
{
    struct sweep_bus *bus = &worker->sweep.buses[number];
    struct watcher *watcher;
    while ((watcher = any_rider(worker, number)) != NULL) {
        BELFRY_POINT("sweep.handover");
        if (worker->work == 0)
            return false;
        worker->work--;
        watcher_detach(worker, watcher);
        watcher_ride(worker, watcher, BELFRY_MUTANT(handover_by_head) ? worker->view.head + 1 : bus->at);
        worker->stats.handovers++;
    }
    bus->at = 0;
    return true;
}

/* ---- driving ---- */

static enum output_result give(struct worker *worker, const struct batch *batch, const struct gather_group *group,
                               struct watcher *watcher)
{
    struct response_pick pick = {.batch = batch, .events = worker->gather.picks + group->first, .n = group->n};
    return output_events(worker, watcher, &pick, true);
}

/* The budget ended: where to go on. */
static void remember(const struct worker *worker, struct sweep_bus *bus, const struct watcher_place_key *place)
{
    bus->mid_serial = place->serial;
    bus->mid_id = place->id;
    bus->mid_generation = worker->gather.generation; /* good only if nobody got off since */
}

/* The riders of one node, from (serial, id) on. False: the budget ended; the bus remembers where. */
static bool give_node(struct worker *worker, unsigned number, const struct batch *batch,
                      const struct gather_group *group, struct watcher_place_key *from)
{
    struct sweep_bus *bus = &worker->sweep.buses[number];
    struct belfry_treap_walk walk;
    struct watcher *watcher;
    belfry_treap_walk(&walk, interest_population(group->node, number), from, watcher_seek_place);
    while ((watcher = watcher_at_place(belfry_treap_next(&walk))) != NULL) {
        BELFRY_POINT("sweep.watcher");
        *from = (struct watcher_place_key){.serial = watcher->stream->serial, .id = watcher->id};
        if (watcher->next > batch->rev)
            continue;
        if (worker->work == 0) {
            remember(worker, bus, from);
            return false;
        }
        worker->work--;
        enum output_result result = give(worker, batch, group, watcher);
        if (result == OUTPUT_MORE) {
            remember(worker, bus, from);
            return false;
        }
        if (result != OUTPUT_NO_ROOM) {
            watcher->next = batch->rev + 1;
            continue;
        }
        stall(worker, watcher, batch->rev); /* the population has changed: begin anew behind it */
        belfry_treap_walk(&walk, interest_population(group->node, number), from, watcher_seek_place);
    }
    return true;
}

/* What the bus is to drive through does not exist any more. */
static enum drive drive_gone(struct worker *worker, unsigned number)
{
    struct sweep_bus *bus = &worker->sweep.buses[number];
    struct watcher *watcher;
    while ((watcher = any_rider(worker, number)) != NULL ||
           ((watcher = waiting_from(worker, bus->at)) != NULL && watcher->next < worker->gone_below)) {
        if (worker->work == 0)
            return DRIVE_MORE;
        worker->work--;
        if (watcher_need(worker, watcher) < worker->gone_below) {
            watcher_lose(worker, watcher, worker->gone_told);
        } else {
            int64_t next = watcher->next;
            watcher_detach(worker, watcher);
            watcher_wait(worker, watcher, next);
        }
    }
    bus->at = 0;
    return DRIVE_ENDED;
}

static void wait_for_history(const struct worker *worker, struct sweep_bus *bus)
{
    if (bus->awaiting_since == 0)
        bus->awaiting_since = worker->now == 0 ? 1 : worker->now;
    bus->woken = false;
}

static enum drive drive_extent(struct worker *worker, unsigned number, const struct batch *batch)
{
    struct sweep_bus *bus = &worker->sweep.buses[number];
    bus->mid_generation = 0;
    if (!bus->scanning) {
        bus->scanning = true;
        bus->scan_sub = 0;
    }
    switch (extent_scan(worker, batch->rev, &bus->scan_sub, number, NULL)) {
    case EXTENT_WAIT:
        wait_for_history(worker, bus);
        return DRIVE_WAIT;
    case EXTENT_MORE:
        return DRIVE_MORE;
    case EXTENT_GONE:
        return drive_gone(worker, number);
    case EXTENT_DONE:
        break;
    }
    bus->awaiting_since = 0;
    bus->scanning = false;
    bus->at = batch->rev + 1;
    return DRIVE_ENDED;
}

/* The groups point into the index; a stall may take a node's last rider, but nodes live as long as their watchers. */
static enum drive drive_events(struct worker *worker, unsigned number, const struct batch *batch)
{
    struct sweep_bus *bus = &worker->sweep.buses[number];
    bool resumed = bus->mid_generation == worker->generation;
    enum belfry_err err = gather_batch(worker, batch, number);
    if (err == BELFRY_ERR_TOO_LARGE)
        return drive_extent(worker, number, batch);
    if (err != BELFRY_OK)
        return DRIVE_WAIT;
    bus->scanning = false;
    for (size_t i = resumed ? bus->mid_group : 0; i < worker->gather.n_groups; i++) {
        struct watcher_place_key from = {.serial = 0, .id = INT64_MIN};
        if (resumed && i == bus->mid_group)
            from = (struct watcher_place_key){.serial = bus->mid_serial, .id = bus->mid_id};
        bus->mid_group = i;
        if (!give_node(worker, number, batch, &worker->gather.groups[i], &from))
            return DRIVE_MORE;
    }
    bus->mid_generation = 0;
    bus->at = batch->rev + 1;
    return DRIVE_ENDED; /* with this batch */
}

static enum drive drive_batch(struct worker *worker, unsigned number)
{
    struct sweep_bus *bus = &worker->sweep.buses[number];
    const struct batch *batch;
    int64_t upto;
    switch (source_next(worker, bus->at, worker->at, &batch, &upto)) {
    case SOURCE_WAIT:
        wait_for_history(worker, bus);
        return DRIVE_WAIT;
    case SOURCE_GONE:
        bus->awaiting_since = 0;
        return drive_gone(worker, number);
    case SOURCE_NONE:
        bus->awaiting_since = 0;
        if (board_all(worker, number, upto) != BELFRY_OK)
            return DRIVE_WAIT;
        bus->at = upto + 1;
        return DRIVE_ENDED;
    case SOURCE_BATCH:
        if (batch->kind == BATCH_EVENTS)
            bus->awaiting_since = 0;
        break;
    }
    if (bus->mid_generation != worker->generation && board_all(worker, number, batch->rev) != BELFRY_OK)
        return DRIVE_WAIT;
    worker->work -= worker->work > 0;
    if (batch->kind == BATCH_EXTENT)
        return drive_extent(worker, number, batch);
    if (batch->kind == BATCH_EVENTS)
        return drive_events(worker, number, batch);
    bus->scanning = false;
    bus->at = batch->rev + 1;
    return DRIVE_ENDED;
}

/* Nobody rides: on to the next who waits in this bus's part, or the end. */
static void skip_ahead(struct worker *worker, unsigned number)
{
    struct sweep_bus *bus = &worker->sweep.buses[number];
    struct watcher *watcher = waiting_from(worker, bus->at);
    bus->at = watcher != NULL && watcher->next <= worker->at ? watcher->next : 0;
    bus->mid_generation = 0;
    bus->scanning = false;
}

static bool past_the_end(const struct worker *worker, const struct sweep_bus *bus)
{
    return bus->at > worker->at;
}

/* True: it could go on at once. */
static bool drive(struct worker *worker, unsigned number)
{
    struct sweep_bus *bus = &worker->sweep.buses[number];
    while (bus->at != 0 && (bus->awaiting_since == 0 || bus->woken)) {
        if (worker->work == 0)
            return true;
        worker->work--;
        if (bus->riders == 0)
            skip_ahead(worker, number);
        if (bus->at == 0)
            break;
        if (past_the_end(worker, bus)) {
            if (worker->hand_out != 0)
                return false;
            if (!hand_over(worker, number))
                return true;
            break;
        }
        if (evlog_covers(&worker->view, bus->at) != (number == SWEEP_LOG_BUS)) {
            bus->scanning = false;
            bus->mid_generation = 0;
            if (!end_here(worker, number))
                return true;
            break;
        }
        enum drive result = drive_batch(worker, number);
        if (result == DRIVE_MORE)
            return true;
        if (result == DRIVE_WAIT) {
            if (bus->awaiting_since == 0) /* memory, not history */
                worker_retry_later(worker);
            return false;
        }
    }
    return false;
}

/* When a bus has waited for so long that another may start ahead of it. */
uint64_t sweep_due(const struct worker *worker)
{
    uint64_t due = BELFRY_NEVER;
    for (unsigned i = SWEEP_LOG_BUS + 1; i <= SWEEP_BUSES && worker->sweep.waiting != NULL; i++) {
        uint64_t since = worker->sweep.buses[i].awaiting_since;
        if (since != 0 && since + PATIENCE_MS > worker->now)
            due = belfry_min_time(due, since + PATIENCE_MS);
    }
    return due;
}

void sweep_woken(struct worker *worker)
{
    for (unsigned i = 1; i <= SWEEP_BUSES; i++)
        worker->sweep.buses[i].woken = true; /* since when it waits is forgotten only when it moves */
}

/* Buses for those who wait where none drives. True: one has started. */
bool sweep_start(struct worker *worker)
{
    if (worker->sweep.waiting == NULL)
        return false;
    bool in_log = start_in_log(worker);
    return start_in_history(worker) || in_log;
}

bool sweep_drive(struct worker *worker)
{
    bool more = false;
    sweep_start(worker);
    for (unsigned i = 1; i <= SWEEP_BUSES; i++)
        more = drive(worker, i) || more;
    return more;
}
