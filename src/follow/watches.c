/* src/follow/watches.c */
#include "follow/watches.h"

#include <stdlib.h>

#include "base/clock.h"

#define PAUSE_BYTES (4 * 1024 * 1024) /* what a paused watch may hold before it lets go upstream */
#define ROOM_MAX    65536             /* events of a revision whose room is kept for the next one */
#define UNHOLD_MS   10                /* after memory was short */

void watches_init(struct watches *watches, const struct watches_opts *opts, bool judged)
{
    *watches = (struct watches){.opts = *opts, .unhold_ms = BELFRY_NEVER, .judged = judged};
    for (unsigned i = 0; i < WATCHES; i++)
        watches->slots[i].watches = watches;
}

void watches_fini(struct watches *watches)
{
    free(watches->room);
}

bool watches_is_live(unsigned slot)
{
    return slot < BACKFILL_SLOT;
}

static unsigned slot_number(const struct watch_slot *slot)
{
    return (unsigned)(slot - slot->watches->slots);
}

static bool slot_is_live(const struct watch_slot *slot)
{
    return watches_is_live(slot_number(slot));
}

static struct belfry_mux *slot_mux(const struct watch_slot *slot)
{
    return belfry_stream_mux(slot_is_live(slot) ? slot->watches->opts.live : slot->watches->opts.back);
}

/* ---- what comes ---- */

/* Puts the events of a group side by side; false: no memory. */
static bool watches_gather(struct watches *watches, const struct belfry_inbox_group *group)
{
    if (watches->room_cap < group->n_events) {
        free(watches->room);
        watches->room_cap = 0;
        watches->room = calloc(group->n_events, sizeof(*watches->room));
        if (watches->room == NULL)
            return false;
        watches->room_cap = group->n_events;
    }
    struct belfry_inbox_walk walk;
    belfry_inbox_walk(group, &walk);
    for (size_t i = 0; i < group->n_events; i++) {
        if (belfry_inbox_walk_next(&walk, &watches->room[i]) != BELFRY_OK)
            return false; /* the inbox has parsed them before, so this cannot fail */
    }
    return true;
}

static enum belfry_mux_verdict slot_hold(struct watch_slot *slot)
{
    slot->held = true;
    return BELFRY_MUX_KEEP;
}

static enum belfry_mux_verdict slot_on_events(struct watch_slot *slot, const struct belfry_mux_action *action,
                                              uint64_t now_ms)
{
    struct watches *watches = slot->watches;
    if (!watches_gather(watches, &action->group)) {
        watches->unhold_ms = now_ms + UNHOLD_MS;
        return slot_hold(slot);
    }
    struct ingest_revision revision = {
        .rev = action->rev, .events = watches->room, .n = action->group.n_events, .header = action->header};
    bool live = slot_is_live(slot);
    bool taken = live ? upstream_on_revision(watches->opts.upstream, slot_number(slot), &revision, now_ms)
                      : backfill_on_revision(watches->opts.backfill, slot_number(slot), &revision, now_ms);
    if (watches->room_cap > ROOM_MAX) {
        free(watches->room);
        watches->room = NULL;
        watches->room_cap = 0;
    }
    slot->paused = slot->paused || !taken;
    if (taken && live)
        watches->opts.events->taken(action, now_ms, watches->opts.user);
    return taken ? BELFRY_MUX_MORE : BELFRY_MUX_KEEP;
}

static void slot_on_progress(struct watch_slot *slot, const struct belfry_mux_action *action, uint64_t now_ms)
{
    const struct watches_opts *opts = &slot->watches->opts;
    struct belfry_wire_header header = action->header;
    header.revision = action->rev;
    if (!slot_is_live(slot)) {
        backfill_on_progress(opts->backfill, slot_number(slot), &header, now_ms);
        return;
    }
    upstream_on_progress(opts->upstream, slot_number(slot), &header, now_ms);
    opts->events->taken(action, now_ms, opts->user);
}

/* The watch has ended; its machine learns why. */
static void slot_end(struct watch_slot *slot, enum belfry_err err, int64_t compact_rev, uint64_t now_ms)
{
    const struct watches_opts *opts = &slot->watches->opts;
    slot->watch = NULL;
    if (slot_is_live(slot))
        upstream_on_end(opts->upstream, slot_number(slot), err, compact_rev, now_ms);
    else
        backfill_on_end(opts->backfill, slot_number(slot), err, compact_rev, now_ms);
}

enum belfry_mux_verdict watches_deliver(struct watches *watches, const struct belfry_mux_action *action)
{
    const struct watches_opts *opts = &watches->opts;
    struct watch_slot *slot = belfry_mux_user(action->watch);
    uint64_t now_ms = belfry_clock_ms();
    bool live = slot_is_live(slot);
    if (action->act == BELFRY_MUX_END) {
        belfry_logf(opts->log, BELFRY_LOG_DEBUG, "upstream_watch_ended", "slot=%u compact_rev=%lld why=\"%s\"",
                    slot_number(slot), (long long)action->rev, action->why);
        opts->events->ended(live, action, opts->user);
        slot_end(slot, action->err, action->rev, now_ms);
        return BELFRY_MUX_MORE;
    }
    if (action->act == BELFRY_MUX_LOST) {
        backfill_on_lost(opts->backfill, slot_number(slot), now_ms);
        return BELFRY_MUX_MORE;
    }
    if (live && !watches->judged)
        return slot_hold(slot);
    if (live)
        opts->events->came(&action->header, opts->user);
    if (action->act == BELFRY_MUX_EVENTS)
        return slot_on_events(slot, action, now_ms);
    slot_on_progress(slot, action, now_ms);
    return BELFRY_MUX_MORE;
}

void watches_created(struct watches *watches, struct belfry_mux_watch *watch, const struct belfry_wire_header *header)
{
    const struct watches_opts *opts = &watches->opts;
    struct watch_slot *slot = belfry_mux_user(watch);
    uint64_t now_ms = belfry_clock_ms();
    if (!slot_is_live(slot)) {
        backfill_on_created(opts->backfill, slot_number(slot), header, now_ms);
        return;
    }
    opts->events->created(header, opts->user);
    upstream_on_created(opts->upstream, slot_number(slot), header, now_ms);
}

/* ---- what is wanted ---- */

static void slot_close(struct watch_slot *slot)
{
    if (slot->watch != NULL)
        belfry_mux_remove(slot_mux(slot), slot->watch);
    *slot = (struct watch_slot){.watches = slot->watches};
}

static void slot_open(struct watch_slot *slot, int64_t rev, uint64_t now_ms)
{
    bool live = slot_is_live(slot);
    struct belfry_mux_spec spec = {.key = slot->watches->opts.key,
                                   .range_end = slot->watches->opts.range_end,
                                   .rev = rev,
                                   .prev_kv = !live,
                                   .lost_notify = !live,
                                   /* for servers that must not be asked for progress, this is the only progress */
                                   .progress_notify = slot_number(slot) == 0,
                                   .fragment = true,
                                   .pause_bytes = PAUSE_BYTES};
    slot_close(slot);
    enum belfry_err err = belfry_mux_add(slot_mux(slot), &spec, slot, &slot->watch);
    if (err != BELFRY_OK)
        slot_end(slot, err, 0, now_ms);
}

static void slot_set_paused(struct watch_slot *slot, bool paused)
{
    slot->paused = paused;
    if (slot->watch == NULL)
        return;
    if (paused)
        belfry_mux_pause(slot_mux(slot), slot->watch);
    else if (!slot->held)
        belfry_mux_resume(slot_mux(slot), slot->watch);
}

void watches_act(struct watches *watches, const struct upstream_action *action, uint64_t now_ms)
{
    struct watch_slot *slot = &watches->slots[action->slot];
    switch (action->want) {
    case UPSTREAM_WANT_WATCH:
        slot_open(slot, action->rev, now_ms);
        break;
    case UPSTREAM_WANT_CLOSE:
        slot_close(slot);
        break;
    case UPSTREAM_WANT_PROGRESS:
        belfry_mux_request_progress(slot_mux(slot), now_ms);
        break;
    case UPSTREAM_WANT_PAUSE:
    case UPSTREAM_WANT_RESUME:
        slot_set_paused(slot, action->want == UPSTREAM_WANT_PAUSE);
        break;
    case UPSTREAM_WANT_REVISION:
    case UPSTREAM_WANT_PAGE:
        break; /* of reads.h */
    }
}

/* ---- the server of the live stream ---- */

void watches_end_live(struct watches *watches, enum belfry_err err, bool held_only, uint64_t now_ms)
{
    for (unsigned i = 0; i < BACKFILL_SLOT; i++) {
        struct watch_slot *slot = &watches->slots[i];
        if (slot->watch == NULL || (held_only && !slot->held))
            continue;
        belfry_mux_remove(slot_mux(slot), slot->watch);
        slot_end(slot, err, 0, now_ms);
    }
}

void watches_unhold(struct watches *watches, uint64_t now_ms)
{
    if (now_ms < watches->unhold_ms)
        return;
    watches->unhold_ms = BELFRY_NEVER;
    for (unsigned i = 0; i < WATCHES; i++) {
        struct watch_slot *slot = &watches->slots[i];
        if (!slot->held)
            continue;
        slot->held = false;
        if (slot->watch != NULL && !slot->paused)
            belfry_mux_resume(slot_mux(slot), slot->watch);
    }
}
