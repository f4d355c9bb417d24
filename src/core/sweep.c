/* src/core/sweep.c: buses through history and the log. The idea is in sweep.h. */
#include "core/sweep.h"

#include "base/clock.h"
#include "base/sim.h"
#include "core/extent.h"

#define PATIENCE_MS 50 /* a bus that has waited longer for history serves no watcher, so another bus may start */

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
    while ((watcher = registry_waiting_from(sweep->registry, bus->place->at)) != NULL && watcher->next <= upto) {
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

/* A watcher waits in the log's part, and no bus drives there. */
static bool start_in_log(struct sweep *sweep)
{
    struct belfry_treap_walk walk;
    if (sweep->buses[SWEEP_LOG_BUS].place->at != 0)
        return false;
    belfry_treap_walk(&walk, sweep->registry->waiting, &sweep->turn->view, seek_covered);
    struct watcher *watcher = watcher_at_place(belfry_treap_next(&walk));
    if (watcher == NULL || watcher->next > sweep->p->at)
        return false;
    bus_reset(sweep, SWEEP_LOG_BUS, watcher->next);
    return true;
}

/* Will a bus that is driving reach this cursor, and therefore all cursors after it? */
static bool is_served(const struct sweep *sweep, int64_t cursor)
{
    for (unsigned i = SWEEP_LOG_BUS + 1; i <= SWEEP_BUSES; i++) {
        const struct sweep_bus *bus = &sweep->buses[i];
        bool drives = bus->awaiting_since == 0 || sweep->turn->now - bus->awaiting_since < PATIENCE_MS;
        if (bus->place->at != 0 && bus->place->at <= cursor && drives)
            return true;
    }
    return false;
}

/* Is a bus already waiting for history at this place? */
static bool is_awaited(const struct sweep *sweep, int64_t cursor)
{
    for (unsigned i = SWEEP_LOG_BUS + 1; i <= SWEEP_BUSES; i++) {
        if (sweep->buses[i].place->at == cursor)
            return true;
    }
    return false;
}

/* At most one step per bus: everything after a cursor that is served is served too, however many watchers wait there.
 */
static bool start_in_history(struct sweep *sweep)
{
    unsigned number = SWEEP_LOG_BUS + 1;
    while (number <= SWEEP_BUSES && sweep->buses[number].place->at != 0)
        number++;
    if (number > SWEEP_BUSES)
        return false;
    struct watcher *watcher = watcher_at_place(belfry_treap_first(sweep->registry->waiting));
    while (watcher != NULL && is_awaited(sweep, watcher->next))
        watcher = registry_waiting_from(sweep->registry, watcher->next + 1);
    if (watcher == NULL || watcher->next > sweep->p->at || evlog_covers(&sweep->turn->view, watcher->next) ||
        is_served(sweep, watcher->next))
        return false;
    bus_reset(sweep, number, watcher->next);
    return true;
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
    bus->place->at = 0;
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
    bus->place->at = 0;
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
           ((watcher = registry_waiting_from(sweep->registry, bus->place->at)) != NULL && watcher->next < below)) {
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
    bus->place->at = 0;
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
    struct extent_scan scan = {.rev = batch->rev, .population = bus->number, .sub = &bus->scan_sub};
    bus->mid_generation = 0;
    if (!bus->scanning) {
        bus->scanning = true;
        bus->scan_sub = 0;
    }
    switch (extent_scan(sweep->delivery, sweep->gather, &scan)) {
    case EXTENT_WAIT:
        return await_history(sweep, bus);
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
    switch (source_next(sweep->source, bus->place->at, sweep->p->at, &batch, &upto)) {
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
        if (batch->kind == BATCH_EVENTS)
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

/* No watcher rides: on to the next that waits in this bus's part, or the end. */
static void skip_ahead(struct sweep *sweep, struct sweep_bus *bus)
{
    struct watcher *watcher = registry_waiting_from(sweep->registry, bus->place->at);
    bus->place->at = watcher != NULL && watcher->next <= sweep->p->at ? watcher->next : 0;
    bus->mid_generation = 0;
    bus->scanning = false;
}

/* True: it could continue now. */
static bool drive_bus(struct sweep *sweep, struct sweep_bus *bus)
{
    while (bus->place->at != 0 && (bus->awaiting_since == 0 || bus->woken)) {
        if (sweep->turn->work == 0)
            return true;
        sweep->turn->work--;
        if (bus->place->riders == 0)
            skip_ahead(sweep, bus);
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
    bool more = false;
    sweep_start(sweep);
    for (unsigned i = 1; i <= SWEEP_BUSES; i++)
        more = drive_bus(sweep, &sweep->buses[i]) || more;
    return more;
}

bool sweep_start(struct sweep *sweep)
{
    if (sweep->registry->waiting == NULL)
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
    for (unsigned i = SWEEP_LOG_BUS + 1; i <= SWEEP_BUSES && sweep->registry->waiting != NULL; i++) {
        uint64_t since = sweep->buses[i].awaiting_since;
        if (since != 0 && since + PATIENCE_MS > sweep->turn->now)
            due = belfry_min_time(due, since + PATIENCE_MS);
    }
    return due;
}
