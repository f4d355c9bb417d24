/* src/core/sweep.c: buses through history and the log. The idea is in sweep.h. */
#include "core/sweep.h"

#include "base/clock.h"
#include "base/sim.h"
#include "core/extent.h"

#define PATIENCE_MS 50   /* a bus that has waited longer for history serves no watcher, so another bus may start */
#define NEAR_REVS   1000 /* so far ahead of it a bus serves watchers of other clients, too */

enum drive { DRIVE_MORE, DRIVE_WAIT, DRIVE_ENDED };

void sweep_init(struct sweep *sweep, struct delivery *delivery, struct gather *gather)
{
    *sweep = (struct sweep){.turn = delivery->turn,
                            .source = delivery->source,
                            .registry = delivery->registry,
                            .p = &delivery->registry->p,
                            .gather = gather,
                            .delivery = delivery};
    sweep_begin_past(sweep);
}

/* Places the bus at `at`, or (0) stops it; it has no riders. */
static void bus_reset(struct sweep *sweep, unsigned number, int64_t at)
{
    struct registry_bus *place = &sweep->registry->buses[number];
    *place = (struct registry_bus){.at = at};
    sweep->buses[number] = (struct sweep_bus){.number = number, .place = place};
}

void sweep_begin_past(struct sweep *sweep)
{
    for (unsigned i = 1; i <= SWEEP_BUSES; i++)
        bus_reset(sweep, i, 0);
}

static uint64_t index_generation(const struct sweep *sweep)
{
    return interest_generation(sweep->gather->interest);
}

/* ---- riders ---- */

static struct watcher *any_rider(const struct sweep *sweep, const struct sweep_bus *bus)
{
    struct interest_node *node = interest_any(sweep->gather->interest, bus->number);
    return node == NULL ? NULL : watcher_at_place(belfry_treap_first(interest_population(node, bus->number)));
}

/* All watchers that wait for a revision in [the bus's place, upto] board. */
static enum belfry_err board_all(struct sweep *sweep, const struct sweep_bus *bus, int64_t upto)
{
    struct watcher *watcher;
    if (bus->scanning)
        return BELFRY_OK;
    while ((watcher = waiting_from(&sweep->registry->waiting, bus->place->at)) != NULL && watcher->next <= upto) {
        enum belfry_err err = watcher_board(sweep->registry, watcher, bus->number);
        turn_spend(sweep->turn, 1);
        if (err != BELFRY_OK)
            return err;
    }
    return BELFRY_OK;
}

/* ---- starting and ending ---- */

static int seek_covered(const void *key, const struct belfry_treap_node *node)
{
    return evlog_covers(key, belfry_container_const(node, struct watcher, place)->next) ? -1 : 1;
}

/* The smallest cursor in the log's part that a watcher waits at; 0: none. */
static int64_t first_in_log(const struct sweep *sweep)
{
    int64_t first = 0;
    for (size_t i = 0; i < WAITING_QUEUES; i++) {
        struct belfry_treap_walk walk;
        belfry_treap_walk(&walk, sweep->registry->waiting.queues[i].watchers, &sweep->turn->view, seek_covered);
        const struct watcher *watcher = watcher_at_place(belfry_treap_next(&walk));
        if (watcher != NULL && watcher->next <= sweep->p->at && (first == 0 || watcher->next < first))
            first = watcher->next;
    }
    return first;
}

/* A watcher waits in the log's part, and no bus drives there. */
static bool start_in_log(struct sweep *sweep)
{
    int64_t first = sweep->buses[SWEEP_LOG_BUS].place->at != 0 ? 0 : first_in_log(sweep);
    if (first == 0)
        return false;
    bus_reset(sweep, SWEEP_LOG_BUS, first);
    return true;
}

/* Buses that drive in history, for this client or (NULL) for any. */
static size_t count_buses(const struct sweep *sweep, const uint64_t *client)
{
    size_t n = 0;
    for (unsigned i = SWEEP_LOG_BUS + 1; i <= SWEEP_BUSES; i++)
        n += sweep->buses[i].place->at != 0 && (client == NULL || sweep->buses[i].client == *client);
    return n;
}

/* How far a bus will serve a watcher of the client that waits at `cursor`, and those after it; below it: not at all. A
 * bus of the client will come by everything that is ahead of it. */
static int64_t served_by(const struct sweep *sweep, const struct sweep_bus *bus, uint64_t client, int64_t cursor)
{
    int64_t at = bus->place->at;
    bool drives = bus->awaiting_since == 0 || sweep->turn->now - bus->awaiting_since < PATIENCE_MS;
    if (at == 0 || at > cursor)
        return cursor - 1;
    if (drives && bus->client == client)
        return INT64_MAX;
    if (drives && cursor - at <= NEAR_REVS)
        return at + NEAR_REVS;
    return at;
}

/* The same for all buses. */
static int64_t served_upto(const struct sweep *sweep, uint64_t client, int64_t cursor)
{
    int64_t most = cursor - 1;
    for (unsigned i = SWEEP_LOG_BUS + 1; i <= SWEEP_BUSES; i++) {
        int64_t upto = served_by(sweep, &sweep->buses[i], client, cursor);
        most = upto > most ? upto : most;
    }
    return most;
}

/* The first watcher of the queue, from `cursor` on, that needs history and that no bus serves; NULL: none. Each step
 * passes what one bus serves, so there are few. */
static struct watcher *unserved_from(const struct sweep *sweep, const struct waiting_queue *queue, int64_t cursor)
{
    struct watcher *watcher = waiting_queue_from(queue, cursor);
    while (watcher != NULL && watcher->next <= sweep->p->at && !evlog_covers(&sweep->turn->view, watcher->next)) {
        int64_t upto = served_upto(sweep, queue->client, watcher->next);
        if (upto < watcher->next)
            return watcher;
        watcher = upto == INT64_MAX ? NULL : waiting_queue_from(queue, upto + 1);
    }
    return NULL;
}

static struct watcher *next_of_queue(const struct sweep *sweep, const struct waiting_queue *queue)
{
    struct watcher *watcher = unserved_from(sweep, queue, queue->resume_at);
    return watcher != NULL || queue->resume_at == 0 ? watcher : unserved_from(sweep, queue, 0);
}

/* Starts a bus that does not drive, for the queue whose turn it is. False: none needs it, or may have it. */
static bool bus_start(struct sweep *sweep, unsigned number)
{
    size_t n_free = SWEEP_BUSES - SWEEP_LOG_BUS - count_buses(sweep, NULL);
    for (size_t i = 1; i <= WAITING_QUEUES; i++) {
        size_t at = (sweep->last_queue + i) % WAITING_QUEUES;
        const struct waiting_queue *queue = &sweep->registry->waiting.queues[at];
        bool has_its_part = queue->client != 0 && count_buses(sweep, &queue->client) >= n_free;
        if (queue->n == 0 || has_its_part)
            continue;
        const struct watcher *watcher = next_of_queue(sweep, queue);
        if (watcher == NULL)
            continue;
        sweep->last_queue = at;
        bus_reset(sweep, number, watcher->next);
        sweep->buses[number].client = queue->client;
        sweep->buses[number].started_at = watcher->next;
        sweep->buses[number].started_ms = sweep->turn->now;
        return true;
    }
    return false;
}

static bool start_in_history(struct sweep *sweep)
{
    for (unsigned i = SWEEP_LOG_BUS + 1; i <= SWEEP_BUSES; i++)
        if (sweep->buses[i].place->at == 0)
            return bus_start(sweep, i);
    return false;
}

/* It has no riders. Its client's queue is served from here on when it has its next turn. */
static void bus_stop(struct sweep *sweep, struct sweep_bus *bus)
{
    for (size_t i = 0; i < WAITING_QUEUES && bus->number != SWEEP_LOG_BUS; i++) {
        struct waiting_queue *queue = &sweep->registry->waiting.queues[i];
        if (queue->n > 0 && queue->client == bus->client)
            queue->resume_at = bus->place->at;
    }
    bus->place->at = 0;
}

/* Its history does not come: from a backfill, while upstream is away, it may not come for hours. */
static bool hangs(const struct sweep *sweep, const struct sweep_bus *bus)
{
    return bus->awaiting_since != 0 && sweep->turn->now - bus->awaiting_since >= SWEEP_SLICE_MS;
}

/* Should it leave the way to a client without a bus? It has moved on, so that each turn of a client is of use, or
 * hangs. */
static bool should_give_way(const struct sweep *sweep, const struct sweep_bus *bus)
{
    bool is_at_start = bus->place->at == bus->started_at && !hangs(sweep, bus);
    bool had_turn = sweep->turn->now - bus->started_ms >= SWEEP_SLICE_MS || count_buses(sweep, &bus->client) > 1;
    bool is_inside = bus->scanning && !hangs(sweep, bus); /* the next turn scans the extent from its start */
    if (bus->number == SWEEP_LOG_BUS || is_inside || is_at_start || !had_turn ||
        count_buses(sweep, NULL) < SWEEP_BUSES - SWEEP_LOG_BUS)
        return false;
    for (size_t i = 0; i < WAITING_QUEUES; i++) {
        const struct waiting_queue *queue = &sweep->registry->waiting.queues[i];
        if (queue->n > 0 && count_buses(sweep, &queue->client) == 0 && next_of_queue(sweep, queue) != NULL)
            return true;
    }
    return false;
}

/* All riders get off where the bus is and wait there. False: the budget ended. */
static bool end_here(struct sweep *sweep, struct sweep_bus *bus)
{
    struct watcher *watcher;
    while ((watcher = any_rider(sweep, bus)) != NULL) {
        if (sweep->turn->work == 0)
            return false;
        sweep->turn->work--;
        int64_t next = watcher->next > bus->place->at ? watcher->next : bus->place->at;
        watcher_detach(sweep->registry, watcher);
        watcher_wait(sweep->registry, watcher, next);
    }
    bus_stop(sweep, bus);
    return true;
}

/* The bus has passed P: its riders ride live from here on. False: the budget ended. */
static bool hand_over(struct sweep *sweep, struct sweep_bus *bus)
{
    struct watcher *watcher;
    while ((watcher = any_rider(sweep, bus)) != NULL) {
        BELFRY_POINT("sweep.handover");
        if (sweep->turn->work == 0)
            return false;
        sweep->turn->work--;
        watcher_detach(sweep->registry, watcher);
        int64_t next = BELFRY_MUTANT(handover_by_head) ? sweep->turn->view.head + 1 : bus->place->at;
        watcher_ride(sweep->registry, watcher, next);
        sweep->n_handovers++;
    }
    bus_stop(sweep, bus);
    return true;
}

/* ---- driving ---- */

/* The riders of one node, from bus->mid on. False: the budget ended; the bus remembers where. */
static bool give_node(struct sweep *sweep, struct sweep_bus *bus, const struct batch *batch,
                      const struct gather_group *group)
{
    struct belfry_treap_walk walk;
    struct watcher *watcher;
    interest_walk(group->node, bus->number, &bus->mid, &walk);
    while ((watcher = watcher_at_place(belfry_treap_next(&walk))) != NULL) {
        BELFRY_POINT("sweep.watcher");
        bus->mid = (struct interest_place){.serial = watcher->stream->serial, .id = watcher->id};
        if (watcher->next > batch->rev)
            continue;
        enum output_result result = OUTPUT_MORE;
        if (sweep->turn->work > 0) {
            struct response_pick pick = gather_pick(sweep->gather, batch, group);
            sweep->turn->work--;
            result = delivery_events(sweep->delivery, watcher, &pick, DELIVERY_REPLAY);
        }
        if (result == OUTPUT_MORE) {
            bus->mid_generation = sweep->gather->generation; /* the place is valid only if no rider has got off since */
            return false;
        }
        if (result != OUTPUT_NO_ROOM) {
            watcher->next = batch->rev + 1;
            continue;
        }
        watcher_stall(sweep->registry, watcher, BELFRY_MUTANT(stalled_moves_on) ? batch->rev + 1 : batch->rev);
        interest_walk(group->node, bus->number, &bus->mid, &walk); /* the population has changed */
    }
    return true;
}

/* The next revisions of the bus exist nowhere any more: its riders, and the watchers that wait there, are lost. */
static enum drive drive_gone(struct sweep *sweep, struct sweep_bus *bus)
{
    int64_t below = sweep->source->gone_below;
    struct watcher *watcher;
    while ((watcher = any_rider(sweep, bus)) != NULL ||
           ((watcher = waiting_from(&sweep->registry->waiting, bus->place->at)) != NULL && watcher->next < below)) {
        if (sweep->turn->work == 0)
            return DRIVE_MORE;
        sweep->turn->work--;
        if (watcher_need(sweep->registry, watcher) < below) {
            watcher_lose(sweep->registry, watcher, sweep->source->gone_told);
        } else {
            watcher_detach(sweep->registry, watcher);
            watcher_wait(sweep->registry, watcher, watcher->next);
        }
    }
    bus_stop(sweep, bus);
    return DRIVE_ENDED;
}

static enum drive await_history(const struct sweep *sweep, struct sweep_bus *bus)
{
    if (bus->awaiting_since == 0)
        bus->awaiting_since = sweep->turn->now == 0 ? 1 : sweep->turn->now;
    bus->woken = false;
    return DRIVE_WAIT;
}

static enum drive drive_extent(struct sweep *sweep, struct sweep_bus *bus, const struct batch *batch)
{
    struct extent_scan scan = {
        .rev = batch->rev, .population = bus->number, .client = bus->client, .sub = &bus->scan_sub};
    bus->mid_generation = 0;
    if (!bus->scanning) {
        bus->scanning = true;
        bus->scan_sub = 0;
    }
    uint32_t before = bus->scan_sub;
    enum extent_result result = extent_scan(sweep->delivery, sweep->gather, &scan);
    if (bus->scan_sub != before) /* a slice has come */
        bus->awaiting_since = 0;
    switch (result) {
    case EXTENT_WAIT:
        return await_history(sweep, bus);
    case EXTENT_NO_MEMORY:
        bus->awaiting_since = 0;
        return DRIVE_WAIT;
    case EXTENT_MORE:
        return DRIVE_MORE;
    case EXTENT_GONE:
        return drive_gone(sweep, bus);
    case EXTENT_DONE:
        break;
    }
    bus->awaiting_since = 0;
    bus->scanning = false;
    bus->place->at = batch->rev + 1;
    return DRIVE_ENDED;
}

/* The groups point into the index; a stall may take a node's last rider, but nodes live as long as their watchers. */
static enum drive drive_events(struct sweep *sweep, struct sweep_bus *bus, const struct batch *batch)
{
    bool resumed = bus->mid_generation == index_generation(sweep);
    enum belfry_err err = gather_batch(sweep->gather, batch, bus->number);
    if (err == BELFRY_ERR_TOO_LARGE)
        return drive_extent(sweep, bus, batch);
    if (err != BELFRY_OK)
        return DRIVE_WAIT;
    bus->scanning = false;
    for (size_t i = resumed ? bus->mid_group : 0; i < sweep->gather->n_groups; i++) {
        if (!resumed || i != bus->mid_group)
            bus->mid = (struct interest_place){.serial = 0, .id = INT64_MIN};
        bus->mid_group = i;
        if (!give_node(sweep, bus, batch, &sweep->gather->groups[i]))
            return DRIVE_MORE;
    }
    bus->mid_generation = 0;
    bus->place->at = batch->rev + 1;
    return DRIVE_ENDED; /* with this batch */
}

static enum drive drive_batch(struct sweep *sweep, struct sweep_bus *bus)
{
    const struct batch *batch;
    int64_t upto;
    switch (source_next(sweep->source, bus->client, bus->place->at, sweep->p->at, &batch, &upto)) {
    case SOURCE_WAIT:
        return await_history(sweep, bus);
    case SOURCE_GONE:
        bus->awaiting_since = 0;
        return drive_gone(sweep, bus);
    case SOURCE_NONE:
        bus->awaiting_since = 0;
        if (board_all(sweep, bus, upto) != BELFRY_OK)
            return DRIVE_WAIT;
        bus->place->at = upto + 1;
        return DRIVE_ENDED;
    case SOURCE_BATCH:
        if (batch->kind == BATCH_EVENTS || !bus->scanning) /* inside an extent, slices are awaited */
            bus->awaiting_since = 0;
        break;
    }
    if (bus->mid_generation != index_generation(sweep) && board_all(sweep, bus, batch->rev) != BELFRY_OK)
        return DRIVE_WAIT;
    turn_spend(sweep->turn, 1);
    if (batch->kind == BATCH_EXTENT)
        return drive_extent(sweep, bus, batch);
    if (batch->kind == BATCH_EVENTS)
        return drive_events(sweep, bus, batch);
    bus->scanning = false;
    bus->place->at = batch->rev + 1;
    return DRIVE_ENDED;
}

/* No watcher rides: in the log, on to the next that waits. In history the bus stays if one waits right here; otherwise
 * it is for the queue whose turn it is. */
static void bus_find_riders(struct sweep *sweep, struct sweep_bus *bus)
{
    const struct watcher *watcher = waiting_from(&sweep->registry->waiting, bus->place->at);
    bus->mid_generation = 0;
    bus->scanning = false;
    if (bus->number == SWEEP_LOG_BUS) {
        bus->place->at = watcher != NULL && watcher->next <= sweep->p->at ? watcher->next : 0;
        return;
    }
    if (watcher != NULL && watcher->next == bus->place->at)
        return;
    bus_stop(sweep, bus);
    (void)bus_start(sweep, bus->number);
}

/* True: it could continue now. */
static bool drive_bus(struct sweep *sweep, struct sweep_bus *bus)
{
    bus->woken = bus->woken || (hangs(sweep, bus) && should_give_way(sweep, bus));
    while (bus->place->at != 0 && (bus->awaiting_since == 0 || bus->woken)) {
        if (sweep->turn->work == 0)
            return true;
        sweep->turn->work--;
        if (bus->place->riders == 0)
            bus_find_riders(sweep, bus);
        if (bus->place->at == 0)
            break;
        if (bus->place->at > sweep->p->at) {
            if (sweep->p->hand_out != 0)
                return false;
            if (!hand_over(sweep, bus))
                return true;
            break;
        }
        if (evlog_covers(&sweep->turn->view, bus->place->at) != (bus->number == SWEEP_LOG_BUS)) {
            bus->scanning = false;
            bus->mid_generation = 0;
            if (!end_here(sweep, bus))
                return true;
            break;
        }
        enum drive result = drive_batch(sweep, bus);
        if (result == DRIVE_MORE)
            return true;
        if (result == DRIVE_WAIT && should_give_way(sweep, bus)) {
            bus->woken = true; /* it goes on with this if the budget ends */
            if (!end_here(sweep, bus))
                return true;
            (void)bus_start(sweep, bus->number);
            continue;
        }
        if (result == DRIVE_WAIT) {
            if (bus->awaiting_since == 0) /* memory is short, no history is missing */
                turn_retry_later(sweep->turn);
            return false;
        }
    }
    return false;
}

bool sweep_drive(struct sweep *sweep)
{
    sweep_start(sweep);
    bool more = drive_bus(sweep, &sweep->buses[SWEEP_LOG_BUS]);
    for (unsigned i = 0; i < SWEEP_BUSES - SWEEP_LOG_BUS; i++) { /* each is the first to use the budget in its turn */
        unsigned number = SWEEP_LOG_BUS + 1 + (unsigned)((sweep->turn->number + i) % (SWEEP_BUSES - SWEEP_LOG_BUS));
        more = drive_bus(sweep, &sweep->buses[number]) || more;
    }
    return more;
}

bool sweep_start(struct sweep *sweep)
{
    if (sweep->registry->waiting.n == 0)
        return false;
    bool in_log = start_in_log(sweep);
    return start_in_history(sweep) || in_log;
}

void sweep_wake(struct sweep *sweep)
{
    for (unsigned i = 1; i <= SWEEP_BUSES; i++)
        sweep->buses[i].woken = true; /* awaiting_since stays set until the bus moves */
}

uint64_t sweep_due(const struct sweep *sweep)
{
    uint64_t due = BELFRY_NEVER;
    for (unsigned i = SWEEP_LOG_BUS + 1; i <= SWEEP_BUSES && sweep->registry->waiting.n > 0; i++) {
        uint64_t since = sweep->buses[i].awaiting_since;
        if (since != 0 && since + PATIENCE_MS > sweep->turn->now)
            due = belfry_min_time(due, since + PATIENCE_MS);
        if (since != 0 && since + SWEEP_SLICE_MS > sweep->turn->now)
            due = belfry_min_time(due, since + SWEEP_SLICE_MS);
    }
    return due;
}
