/* src/follow/driver_feed.c: what comes on the streams, and what the machines want of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "follow/driver_private.h"

#define PAUSE_BYTES (4 * 1024 * 1024) /* what a paused watch may hold before it lets go upstream */
#define ROOM_MAX    65536             /* events of a revision whose room is kept for the next one */
#define UNHOLD_MS   10                /* after memory was short */
#define ACTIONS_MAX 10000             /* in one turn: the rest waits for the next one */

static unsigned number_of(const struct driver_slot *slot)
{
    return (unsigned)(slot - slot->driver->slots);
}

static bool is_backfill(const struct driver_slot *slot)
{
    return number_of(slot) >= BACKFILL_SLOT;
}

static struct belfry_mux *mux_of(const struct driver_slot *slot)
{
    return belfry_stream_mux(is_backfill(slot) ? slot->driver->back : slot->driver->live);
}

/* A replica that is empty is not behind: it serves nobody. */
static void note_lag(struct driver *driver)
{
    int64_t head = ingest_head(driver->ingest), lag = driver->upstream_revision - head;
    if (head > 0 && lag > 0 && (uint64_t)lag > driver->lag_peak)
        driver->lag_peak = (uint64_t)lag;
}

void driver_saw(struct driver *driver, const struct belfry_wire_header *header)
{
    uint64_t past = ingest_past(driver->ingest);
    if (driver->shown_past != past || header->revision > driver->upstream_revision)
        driver->upstream_revision = header->revision;
    driver->shown_past = past;
    note_lag(driver);
}

/* ---- what comes ---- */

/* The events of a group, side by side; false: no memory. */
static bool gather(struct driver *driver, const struct belfry_inbox_group *group)
{
    if (driver->events_cap < group->n_events) {
        free(driver->events_room);
        driver->events_cap = 0;
        driver->events_room = calloc(group->n_events, sizeof(*driver->events_room));
        if (driver->events_room == NULL)
            return false;
        driver->events_cap = group->n_events;
    }
    struct belfry_inbox_walk walk;
    belfry_inbox_walk(group, &walk);
    for (size_t i = 0; i < group->n_events; i++) {
        if (belfry_inbox_walk_next(&walk, &driver->events_room[i]) != BELFRY_OK)
            return false; /* the inbox has read them all before */
    }
    return true;
}

static void trim_room(struct driver *driver)
{
    if (driver->events_cap <= ROOM_MAX)
        return;
    free(driver->events_room);
    driver->events_room = NULL;
    driver->events_cap = 0;
}

static enum belfry_mux_verdict hold(struct driver_slot *slot)
{
    slot->held = true;
    return BELFRY_MUX_KEEP;
}

static enum belfry_mux_verdict on_events(struct driver_slot *slot, const struct belfry_mux_action *action, uint64_t now)
{
    struct driver *driver = slot->driver;
    if (!gather(driver, &action->group)) {
        driver->unhold_ms = now + UNHOLD_MS;
        return hold(slot);
    }
    struct ingest_revision revision = {
        .rev = action->rev, .events = driver->events_room, .n = action->group.n_events, .header = action->header};
    bool taken = is_backfill(slot) ? backfill_on_revision(driver->backfill, number_of(slot), &revision, now)
                                   : upstream_on_revision(driver->upstream, number_of(slot), &revision, now);
    trim_room(driver);
    slot->paused = slot->paused || !taken;
    if (taken && !is_backfill(slot) && upstream_state(driver->upstream) == UPSTREAM_LIVE &&
        ingest_head(driver->ingest) >= driver->upstream_revision) /* an old event says nothing of now */
        driver->heard_ms = now;
    return taken ? BELFRY_MUX_MORE : BELFRY_MUX_KEEP;
}

static void on_progress(struct driver_slot *slot, const struct belfry_mux_action *action, uint64_t now)
{
    struct driver *driver = slot->driver;
    struct belfry_wire_header header = action->header;
    header.revision = action->rev;
    if (is_backfill(slot)) {
        backfill_on_progress(driver->backfill, number_of(slot), &header, now);
        return;
    }
    upstream_on_progress(driver->upstream, number_of(slot), &header, now);
    if (upstream_state(driver->upstream) == UPSTREAM_LIVE && header.revision >= ingest_head(driver->ingest))
        driver->heard_ms = now;
}

static void tell_end(struct driver_slot *slot, enum belfry_err err, int64_t compact_rev, uint64_t now)
{
    slot->watch = NULL;
    if (is_backfill(slot))
        backfill_on_end(slot->driver->backfill, number_of(slot), err, compact_rev, now);
    else
        upstream_on_end(slot->driver->upstream, number_of(slot), err, compact_rev, now);
}

static void on_end(struct driver_slot *slot, const struct belfry_mux_action *action, uint64_t now)
{
    struct driver *driver = slot->driver;
    belfry_logf(driver->log, BELFRY_LOG_DEBUG, "upstream_watch_ended", "slot=%u compact_rev=%lld why=\"%s\"",
                number_of(slot), (long long)action->rev, action->why);
    if (!is_backfill(slot) && action->err != BELFRY_ERR_COMPACTED)
        snprintf(driver->watch_why, sizeof(driver->watch_why), "%s", action->why);
    if (driver_is_denied(action->err, action->why))
        driver_log_denied(driver, action->why);
    tell_end(slot, action->err, action->rev, now);
}

enum belfry_mux_verdict driver_deliver(const struct belfry_mux_action *action, void *user)
{
    struct driver *driver = user;
    struct driver_slot *slot = belfry_mux_user(action->watch);
    uint64_t now = belfry_clock_ms();
    driver->poked = true;
    if (action->act == BELFRY_MUX_END) {
        on_end(slot, action, now);
        return BELFRY_MUX_MORE;
    }
    if (action->act == BELFRY_MUX_LOST) {
        backfill_on_lost(driver->backfill, number_of(slot), now);
        return BELFRY_MUX_MORE;
    }
    if (!is_backfill(slot) && !driver->judged)
        return hold(slot);
    if (!is_backfill(slot))
        driver_saw(driver, &action->header);
    if (action->act == BELFRY_MUX_EVENTS)
        return on_events(slot, action, now);
    on_progress(slot, action, now);
    return BELFRY_MUX_MORE;
}

void driver_created(struct belfry_mux_watch *watch, const struct belfry_wire_header *header, void *user)
{
    struct driver *driver = user;
    struct driver_slot *slot = belfry_mux_user(watch);
    uint64_t now = belfry_clock_ms();
    driver->poked = true;
    if (is_backfill(slot)) {
        backfill_on_created(driver->backfill, number_of(slot), header, now);
        return;
    }
    driver->watch_why[0] = '\0';
    driver_saw(driver, header);
    upstream_on_created(driver->upstream, number_of(slot), header, now);
}

/* ---- the server of the live stream ---- */

static bool was_warned(const struct driver *driver, const char *version)
{
    for (unsigned i = 0; i < driver->n_warned && i < DRIVER_WARNED; i++) {
        if (strcmp(driver->warned[i], version) == 0)
            return true;
    }
    return false;
}

static void warn_once(struct driver *driver, const char *version, const char *why)
{
    if (was_warned(driver, version))
        return;
    char *place = driver->warned[driver->n_warned++ % DRIVER_WARNED];
    snprintf(place, sizeof(driver->warned[0]), "%s", version);
    belfry_logf(driver->log, BELFRY_LOG_WARN, "upstream_old_version",
                "endpoint=%s version=\"%s\" why=\"%s\" hint=\"upgrade to 3.4.38, 3.5.22, 3.6.2 or later\"",
                belfry_stream_endpoint(driver->live), version, why);
}

/* Watches that wait for a server to be known end with it: the machine asks for new ones. */
static void end_live(struct driver *driver, enum belfry_err err, bool held_only, uint64_t now)
{
    for (unsigned i = 0; i < BACKFILL_SLOT; i++) {
        struct driver_slot *slot = &driver->slots[i];
        if (slot->watch == NULL || (held_only && !slot->held))
            continue;
        belfry_mux_remove(mux_of(slot), slot->watch);
        tell_end(slot, err, 0, now);
    }
}

static void refuse(struct driver *driver, const char *version, const char *why, uint64_t now)
{
    snprintf(driver->refusal, sizeof(driver->refusal),
             "etcd %s is too old for a scope: %s; upgrade it to 3.4.31, 3.5.13 or later, or set the scope to all",
             version, why);
    belfry_stream_leave(driver->live, BELFRY_ERR_UNSUPPORTED, "its version is too old for a scope");
    end_live(driver, BELFRY_ERR_UNSUPPORTED, false, now);
}

static void let_go(struct driver *driver, uint64_t now)
{
    if (now < driver->unhold_ms)
        return;
    driver->unhold_ms = BELFRY_NEVER;
    for (unsigned i = 0; i < DRIVER_SLOTS; i++) {
        struct driver_slot *slot = &driver->slots[i];
        if (!slot->held)
            continue;
        slot->held = false;
        if (slot->watch != NULL && !slot->paused)
            belfry_mux_resume(mux_of(slot), slot->watch);
    }
}

void driver_mind_server(struct driver *driver, uint64_t now)
{
    const char *version, *why = "";
    if (belfry_stream_endpoint(driver->live) == NULL) {
        driver->judged = driver->whole_scope;
        if (!driver->judged)
            end_live(driver, BELFRY_ERR_UNAVAILABLE, true, now);
    } else if (belfry_stream_version(driver->live, &version)) {
        enum driver_version verdict = driver_judge_version(version, driver->whole_scope, &why);
        if (verdict != DRIVER_VERSION_GOOD)
            warn_once(driver, version, why);
        if (verdict == DRIVER_VERSION_REFUSED) {
            refuse(driver, version, why, now);
            return;
        }
        if (!driver->judged)
            driver->unhold_ms = now;
        driver->judged = true;
        driver->refusal[0] = '\0';
    }
    if (driver->judged)
        let_go(driver, now);
}

/* ---- what is wanted ---- */

static void open_watch(struct driver_slot *slot, int64_t rev, uint64_t now)
{
    struct driver *driver = slot->driver;
    struct belfry_mux_spec spec = {.key = driver->key,
                                   .range_end = driver->range_end,
                                   .rev = rev,
                                   .prev_kv = is_backfill(slot),
                                   .lost_notify = is_backfill(slot),
                                   .progress_notify =
                                       number_of(slot) == 0, /* all that servers that are not asked give */
                                   .fragment = true,
                                   .pause_bytes = PAUSE_BYTES};
    if (slot->watch != NULL)
        belfry_mux_remove(mux_of(slot), slot->watch);
    *slot = (struct driver_slot){.driver = driver};
    enum belfry_err err = belfry_mux_add(mux_of(slot), &spec, slot, &slot->watch);
    if (err != BELFRY_OK)
        tell_end(slot, err, 0, now);
}

static void close_watch(struct driver_slot *slot)
{
    if (slot->watch != NULL)
        belfry_mux_remove(mux_of(slot), slot->watch);
    *slot = (struct driver_slot){.driver = slot->driver};
}

static void set_paused(struct driver_slot *slot, bool paused)
{
    slot->paused = paused;
    if (slot->watch == NULL)
        return;
    if (paused)
        belfry_mux_pause(mux_of(slot), slot->watch);
    else if (!slot->held)
        belfry_mux_resume(mux_of(slot), slot->watch);
}

static void act(struct driver *driver, const struct upstream_action *action, uint64_t now)
{
    struct driver_slot *slot = &driver->slots[action->slot];
    switch (action->want) {
    case UPSTREAM_WANT_WATCH:
        open_watch(slot, action->rev, now);
        break;
    case UPSTREAM_WANT_CLOSE:
        close_watch(slot);
        break;
    case UPSTREAM_WANT_REVISION:
    case UPSTREAM_WANT_PAGE:
        driver_read(driver, action, now);
        break;
    case UPSTREAM_WANT_PROGRESS:
        if (!is_backfill(slot) && !belfry_stream_tells_progress(driver->live))
            driver_ask_head(driver, now);
        else
            belfry_mux_request_progress(mux_of(slot), now);
        break;
    case UPSTREAM_WANT_PAUSE:
    case UPSTREAM_WANT_RESUME:
        set_paused(slot, action->want == UPSTREAM_WANT_PAUSE);
        break;
    }
}

void driver_act(struct driver *driver, uint64_t now)
{
    struct upstream_action action;
    unsigned n = 0;
    while (n < ACTIONS_MAX && upstream_next(driver->upstream, now, &action)) {
        act(driver, &action, now);
        n++;
    }
    while (n < ACTIONS_MAX && backfill_next(driver->backfill, now, &action)) {
        act(driver, &action, now);
        n++;
    }
    if (n >= ACTIONS_MAX)
        driver->poked = true;
}
