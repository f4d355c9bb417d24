/* src/follow/replay.c */
#include "follow/replay.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"

void replay_init(struct replay *replay, size_t max_bytes)
{
    *replay = (struct replay){.max_bytes = max_bytes};
    belfry_list_init(&replay->order);
    for (unsigned i = 0; i < REPLAY_LANES; i++) {
        belfry_list_init(&replay->lanes[i].order);
        belfry_list_init(&replay->lanes[i].held);
    }
}

void replay_fini(struct replay *replay)
{
    replay_close_all(replay);
}

struct lane *replay_front(const struct replay *replay)
{
    if (belfry_list_empty(&replay->order))
        return NULL;
    return belfry_container(replay->order.next, struct lane, order);
}

unsigned replay_slot(const struct replay *replay, const struct lane *lane)
{
    return (unsigned)(lane - replay->lanes);
}

unsigned replay_free_slot(const struct replay *replay)
{
    for (unsigned i = 1; i < REPLAY_LANES; i++)
        if (replay->lanes[i].state == LANE_IDLE)
            return i;
    return 0;
}

void replay_open(struct replay *replay, unsigned slot, int64_t start, int64_t end, uint64_t at_ms)
{
    struct lane *lane = &replay->lanes[slot];
    assert(lane->state == LANE_IDLE);
    lane->state = LANE_WANTED;
    lane->wanted_at = at_ms;
    lane->start = start;
    lane->end = end;
    belfry_list_append(&replay->order, &lane->order);
}

void replay_close(struct replay *replay, struct lane *lane)
{
    for (struct held *held; (held = replay_held(lane)) != NULL;)
        replay_drop(replay, held);
    bool owed = lane->close_owed || lane->state == LANE_OPEN;
    belfry_list_remove(&lane->order);
    *lane = (struct lane){.close_owed = owed};
    belfry_list_init(&lane->order);
    belfry_list_init(&lane->held);
}

void replay_close_all(struct replay *replay)
{
    for (unsigned i = 0; i < REPLAY_LANES; i++)
        replay_close(replay, &replay->lanes[i]);
    assert(replay->bytes == 0);
}

/* ---- holding ---- */

enum belfry_err replay_hold(struct replay *replay, struct lane *lane, const struct ingest_revision *revision)
{
    size_t bytes = sizeof(struct held) + revision->n * sizeof(revision->events[0]);
    size_t at = bytes;
    for (size_t i = 0; i < revision->n; i++)
        bytes += revision->events[i].raw.len;
    lane->needs = bytes;
    if (bytes > replay->max_bytes - replay->bytes)
        return BELFRY_ERR_LIMIT;
    struct held *held = malloc(bytes);
    if (held == NULL)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < revision->n; i++) {
        struct belfry_bytes raw = revision->events[i].raw;
        char *copy = (char *)held + at;
        memcpy(copy, raw.data, raw.len);
        at += raw.len;
        enum belfry_err err = belfry_scan_event(belfry_bytes_of(copy, raw.len), &held->events[i]);
        assert(err == BELFRY_OK); /* it was scanned before */
        belfry_ignore(err);
    }
    held->bytes = bytes;
    held->revision = *revision;
    held->revision.events = held->events;
    belfry_list_append(&lane->held, &held->node);
    replay->bytes += bytes;
    return BELFRY_OK;
}

struct held *replay_held(const struct lane *lane)
{
    return belfry_list_empty(&lane->held) ? NULL : belfry_container(lane->held.next, struct held, node);
}

void replay_drop(struct replay *replay, struct held *held)
{
    replay->bytes -= held->bytes;
    belfry_list_remove(&held->node);
    free(held);
}

/* ---- pausing ---- */

void replay_refuse(struct lane *lane)
{
    lane->paused = lane->refused = true;
}

void replay_resume(struct replay *replay)
{
    const struct lane *front = replay_front(replay);
    bool room = replay->bytes <= replay->max_bytes / 2;
    for (unsigned i = 0; i < REPLAY_LANES; i++) {
        struct lane *lane = &replay->lanes[i];
        if (lane == front ? replay_held(lane) == NULL : room && lane->needs <= replay->max_bytes - replay->bytes)
            lane->paused = false;
    }
}

/* ---- what the owner is to do ---- */

static bool tell_watch(struct replay *replay, struct lane *lane, uint64_t now_ms, struct upstream_action *out)
{
    *out = (struct upstream_action){.slot = replay_slot(replay, lane)};
    if (lane->close_owed) {
        lane->close_owed = false;
        out->want = UPSTREAM_WANT_CLOSE;
        return true;
    }
    if (lane->state == LANE_WANTED && now_ms >= lane->wanted_at) {
        lane->state = LANE_OPEN;
        out->want = UPSTREAM_WANT_WATCH;
        out->rev = lane->start;
        return true;
    }
    return false;
}

static bool tell_pause(struct replay *replay, struct lane *lane, struct upstream_action *out)
{
    *out = (struct upstream_action){.slot = replay_slot(replay, lane)};
    if (lane->state != LANE_OPEN)
        return false;
    if (lane->paused && !lane->told) {
        lane->told = true;
        out->want = UPSTREAM_WANT_PAUSE;
        return true;
    }
    if (!lane->paused && (lane->told || lane->refused)) {
        lane->told = lane->refused = false;
        out->want = UPSTREAM_WANT_RESUME;
        return true;
    }
    return false;
}

bool replay_next(struct replay *replay, uint64_t now_ms, struct upstream_action *out)
{
    for (unsigned i = 0; i < REPLAY_LANES; i++) {
        struct lane *lane = &replay->lanes[i];
        if (tell_watch(replay, lane, now_ms, out) || tell_pause(replay, lane, out))
            return true;
    }
    return false;
}

uint64_t replay_due(const struct replay *replay)
{
    uint64_t due = BELFRY_NEVER;
    for (unsigned i = 0; i < REPLAY_LANES; i++)
        if (replay->lanes[i].state == LANE_WANTED)
            due = belfry_min_time(due, replay->lanes[i].wanted_at);
    return due;
}
