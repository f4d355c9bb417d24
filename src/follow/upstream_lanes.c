/* src/follow/upstream_lanes.c: joining, replaying, and what the lanes give to ingest. */
#include "base/sim.h"
#include "follow/upstream_private.h"

#define RESUME_MS 10 /* after a revision was refused for want of memory or disk */

/* ---- joining ---- */

static void join(struct upstream *up, int64_t from, uint64_t at)
{
    upstream_move(up, UPSTREAM_JOINING);
    up->proven = false;
    replay_close_all(&up->replay);
    question_forget(&up->pages);
    question_forget(&up->witness);
    up->vouching = false;
    up->known = 0;
    replay_open(&up->replay, 0, from, REPLAY_NO_END, at);
    if (from != ingest_overlap(up->ingest) && up->read.token == 0)
        question_ask(&up->read, at);
}

void upstream_join(struct upstream *up, uint64_t at)
{
    int64_t common = ingest_overlap(up->ingest);
    join(up, common != 0 ? common : ingest_head(up->ingest), at); /* a head without events must agree with the state */
}

void upstream_join_behind(struct upstream *up, int64_t compact_rev, uint64_t at)
{
    int64_t next = ingest_head(up->ingest) + 1;
    join(up, compact_rev < next ? compact_rev : next, at);
}

bool upstream_expects_overlap(struct upstream *up, const struct lane *lane)
{
    return lane->start == ingest_overlap(up->ingest);
}

void upstream_joined(struct upstream *up, struct lane *lane)
{
    lane->joined = up->proven = true;
    if (lane == &up->replay.lanes[0] && lane == replay_front(&up->replay) && lane->created &&
        (up->state == UPSTREAM_JOINING || up->state == UPSTREAM_REPLAYING))
        upstream_move(up, UPSTREAM_LIVE);
}

static void breach(struct upstream *up)
{
    up->stats.breaches++;
    upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, ingest_why(up->ingest));
}

/* Upstream's revisions up to our head are not those that we have. */
static void missing(struct upstream *up)
{
    up->stats.breaches++;
    upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, "upstream's last revisions are not ours");
}

enum taken { TAKEN, REFUSED, OVER }; /* OVER: the lane is not what it was */

static enum taken failed(struct upstream *up, enum belfry_err err)
{
    if (err == BELFRY_ERR_AGAIN || err == BELFRY_ERR_NOMEM) {
        up->resume_at = up->now + RESUME_MS;
        return REFUSED;
    }
    breach(up);
    return OVER;
}

/* Nothing was compared on this lane yet. */
static enum taken overlap(struct upstream *up, struct lane *lane, const struct ingest_revision *revision)
{
    if (!upstream_expects_overlap(up, lane) || revision->rev < lane->start)
        return TAKEN;
    if (revision->rev > lane->start && !BELFRY_MUTANT(no_overlap_check)) {
        missing(up);
        return OVER;
    }
    enum belfry_err err = ingest_compare(up->ingest, revision, up->now);
    if (err != BELFRY_OK && err != BELFRY_ERR_NOT_FOUND)
        return failed(up, err);
    up->stats.overlaps++;
    upstream_joined(up, lane);
    return TAKEN;
}

/* ---- replaying ---- */

/* Wants windows as far as upstream is known to go, and the live watch behind the last of them. */
void upstream_open_windows(struct upstream *up)
{
    while (up->state == UPSTREAM_REPLAYING && up->replay.lanes[0].state == LANE_IDLE) {
        unsigned slot = 0;
        if (up->next_window + up->window <= up->known) {
            slot = replay_free_slot(&up->replay);
            if (slot == 0)
                return;
            up->stats.windows++;
        }
        int64_t end = slot == 0 ? REPLAY_NO_END : up->next_window + up->window;
        replay_open(&up->replay, slot, up->next_window - 1, end, up->now);
        up->next_window = end;
    }
}

void upstream_replay(struct upstream *up)
{
    struct lane *live = &up->replay.lanes[0];
    int64_t from = ingest_head(up->ingest) + 1, first = live->start;
    upstream_move(up, UPSTREAM_REPLAYING);
    replay_close(&up->replay, live);
    up->next_window = from + up->window;
    replay_open(&up->replay, 1, first, up->next_window, up->now);
    up->stats.windows++;
    upstream_open_windows(up);
}

/* ---- giving on ---- */

/* The lane has given everything up to `rev`, and nothing above is wanted of it. */
static enum taken passed(struct upstream *up, struct lane *lane, int64_t rev, const struct belfry_wire_header *header)
{
    int64_t last = rev < lane->end ? rev : lane->end - 1;
    enum belfry_err err = ingest_advance(up->ingest, last, header, up->now);
    if (err != BELFRY_OK)
        return failed(up, err);
    upstream_heard(up);
    if (last < lane->end - 1)
        return TAKEN;
    replay_close(&up->replay, lane);
    upstream_open_windows(up);
    return OVER;
}

/* A revision up to our head is ours, and was compared if it can be. */
static enum taken give_known(struct upstream *up, const struct ingest_revision *revision)
{
    struct digest digest;
    if (revision->rev == ingest_head(up->ingest) && !ingest_overlap_digest(up->ingest, &digest)) {
        enum belfry_err err = ingest_compare(up->ingest, revision, up->now);
        return err == BELFRY_OK ? TAKEN : failed(up, err);
    }
    if (revision->rev <= ingest_overlap(up->ingest))
        return TAKEN;
    missing(up); /* where nothing had happened, something did */
    return OVER;
}

/* A revision of the front lane, in its turn. */
static enum taken give(struct upstream *up, struct lane *lane, const struct ingest_revision *revision)
{
    int64_t head = ingest_head(up->ingest);
    enum taken taken = lane->joined ? TAKEN : overlap(up, lane, revision);
    if (taken == TAKEN && revision->rev <= head)
        taken = give_known(up, revision);
    if (taken != TAKEN)
        return taken;
    if (revision->rev > head && revision->rev < lane->end) {
        enum belfry_err err = ingest_revision(up->ingest, revision, up->now);
        if (err != BELFRY_OK)
            return failed(up, err);
        up->stats.revisions++;
        up->stats.events += revision->n;
        upstream_joined(up, lane);
    }
    upstream_heard(up);
    if (up->state == UPSTREAM_LIVE && up->known - ingest_head(up->ingest) >= up->far) {
        upstream_join(up, up->now); /* one watch gives less than upstream writes: windows give more */
        return OVER;
    }
    return revision->rev >= lane->end - 1 ? passed(up, lane, revision->rev, &revision->header) : TAKEN;
}

/* The progress of the front lane, in its turn. */
static enum taken give_progress(struct upstream *up, struct lane *lane)
{
    struct belfry_wire_header header = lane->progress;
    if (!lane->joined && upstream_expects_overlap(up, lane) && header.revision >= lane->start &&
        !BELFRY_MUTANT(no_overlap_check)) {
        missing(up);
        return OVER;
    }
    enum taken taken = passed(up, lane, header.revision, &header);
    if (taken == TAKEN)
        lane->progress.revision = 0;
    return taken;
}

/* The front lane's watch was cancelled as compacted: over our head, or over the overlap alone. Of what the watch does not
 * need any more it is said by a tier whose own past was rewritten, and by an etcd that was sent a snapshot, of every watch
 * whose last event is older than that: who is right is found out as after any break. */
static void settle_compacted(struct upstream *up, const struct lane *lane)
{
    int64_t next = ingest_head(up->ingest) + 1, needed = lane->joined ? next : lane->start;
    if (lane->compact_rev <= needed)
        upstream_join(up, upstream_retry_at(up));
    else if (next < lane->compact_rev)
        upstream_relist(up, EVLOG_CUT_COMPACTED, lane->compact_rev, "upstream is compacted over our head");
    else
        upstream_call_witness(up, lane->compact_rev);
}

/* The front lane's watch has ended, and everything it gave is given on. */
static void settle_end(struct upstream *up, const struct lane *lane)
{
    if (lane->ended == BELFRY_ERR_COMPACTED)
        settle_compacted(up, lane);
    else
        upstream_join(up, upstream_retry_at(up));
}

static bool merge_one(struct upstream *up, struct lane *lane)
{
    struct held *held = replay_held(lane);
    enum taken taken;
    if (up->vouching) { /* of what it gave, and its progress is that too, nothing counts yet */
        if (lane->state == LANE_ENDED)
            settle_end(up, lane);
        return false;
    }
    if (held != NULL) {
        taken = give(up, lane, &held->revision);
        if (taken == TAKEN)
            replay_drop(&up->replay, held);
        return taken != REFUSED;
    }
    if (lane->progress.revision != 0)
        return give_progress(up, lane) != REFUSED;
    if (lane->state == LANE_ENDED)
        settle_end(up, lane);
    return false;
}

void upstream_merge(struct upstream *up)
{
    struct lane *lane = replay_front(&up->replay);
    while (up->state != UPSTREAM_LISTING && lane != NULL && merge_one(up, lane))
        lane = replay_front(&up->replay);
}

/* A window that has everything before its turn comes: its watch is of no more use. */
static void end_early(struct lane *lane)
{
    lane->state = LANE_ENDED;
    lane->ended = BELFRY_OK;
    lane->close_owed = true;
}

static bool hold(struct upstream *up, struct lane *lane, const struct ingest_revision *revision)
{
    enum belfry_err err = replay_hold(&up->replay, lane, revision);
    if (err == BELFRY_ERR_NOMEM)
        up->resume_at = up->now + RESUME_MS;
    if (err != BELFRY_OK)
        return false;
    if (revision->rev >= lane->end - 1)
        end_early(lane);
    return true;
}

bool upstream_take(struct upstream *up, struct lane *lane, const struct ingest_revision *revision)
{
    enum taken taken;
    if (up->vouching)
        taken = REFUSED;
    else if (lane == replay_front(&up->replay) && replay_held(lane) == NULL)
        taken = give(up, lane, revision);
    else
        taken = hold(up, lane, revision) ? TAKEN : REFUSED;
    if (taken == REFUSED)
        replay_refuse(lane);
    if (taken == OVER)
        upstream_merge(up);
    return taken != REFUSED;
}

void upstream_take_progress(struct upstream *up, struct lane *lane, const struct belfry_wire_header *header)
{
    lane->progress = *header;
    if (lane != replay_front(&up->replay) && header->revision >= lane->end - 1)
        end_early(lane);
    upstream_merge(up);
}
