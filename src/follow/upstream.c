/* src/follow/upstream.c */
#include "follow/upstream.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/owner.h"
#include "base/sim.h"
#include "follow/key_witness.h"
#include "follow/listing.h"
#include "follow/replay.h"

#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS   5000
#define NOT_OURS         "upstream's last revisions are not ours"
#define REACH_MS         5  /* until progress that was not far enough is asked for again */
#define RESUME_MS        10 /* after a revision was refused for want of memory or disk */

/* A read of upstream; one at a time is in progress. */
struct question {
    bool wanted;
    uint64_t at;    /* not to be asked before */
    uint64_t token; /* under way; 0: not */
    bool again;     /* another read is needed, because something changed while this one was in progress */
};

struct upstream {
    /* fixed at creation */
    struct ingest *ingest;
    struct store *store;
    struct belfry_bytes key; /* owned copy of the scope's beginning; the owner knows where the scope ends */
    int64_t window, far, page;
    const struct belfry_log *log;
    /* moved by the owner */
    enum upstream_state state;
    uint64_t now;         /* of the call we are in */
    uint64_t cluster_id;  /* of our past; 0: not known */
    int64_t known;        /* the highest revision upstream has shown since the last join */
    bool proven;          /* since the last join: upstream's history was found to continue ours */
    struct question read; /* reads a linearizable revision: to judge lag, or to begin a listing */
    int64_t floor;        /* our head when it was asked */
    int64_t shown;        /* the highest revision that upstream had shown by then */
    uint64_t last_token;
    struct belfry_backoff backoff;
    struct belfry_rng rng;
    struct upstream_stats stats;
    /* watches */
    struct replay replay;
    int64_t next_window; /* REPLAYING: the first revision that is in no lane */
    uint64_t resume_at; /* ingest or the heap refused something: it is not tried again before; 0: nothing was refused */
    /* JOINING after a compaction of the overlap, or of a part of the store without one */
    struct key_witness witness;
    struct question witness_read;
    bool vouching;     /* while the witness is judged, nothing of the live watch is taken */
    bool witness_owed; /* vouching, but the witness could not be found (memory, the disk): join again */
    /* LISTING */
    struct listing listing;
    struct question pages;
    bool begun;             /* the fresh copy is there */
    uint64_t adopt_at;      /* not to be adopted before: it was refused */
    enum evlog_cut_why why; /* what the cut will say */
    int64_t compact_rev;    /* likewise */
    int64_t compare_at;     /* after damage: the revision that shows whether the past is still ours; 0: it was shown, or
                               no revision can show it */
    /* time */
    uint64_t progress_at; /* when progress is asked for */
    int64_t reach;        /* LIVE: reads wait for this revision; 0: none */
    uint64_t reach_at;    /* when progress is asked for because of that; BELFRY_NEVER: it was */
    uint64_t heard_at, ticked_at;
    uint64_t gap_until; /* after a gap: nothing is judged before; 0: there was none */
    bool stale;
    BELFRY_OWNER;
};

static void question_ask(struct question *question, uint64_t at)
{
    if (!question->wanted || at < question->at)
        question->at = at;
    question->wanted = true;
}

static void question_forget(struct question *question)
{
    *question = (struct question){.at = question->at};
}

static bool question_is_due(const struct question *question, uint64_t now_ms)
{
    return question->wanted && question->token == 0 && now_ms >= question->at;
}

static uint64_t question_due(const struct question *question)
{
    return question->wanted && question->token == 0 ? question->at : BELFRY_NEVER;
}

/* ---- creating ---- */

enum belfry_err upstream_create(const struct upstream_opts *opts, struct upstream **out)
{
    struct upstream *up = calloc(1, sizeof(*up));
    char *key = malloc(opts->key.len + 1);
    if (up == NULL || key == NULL) {
        free(up);
        free(key);
        return BELFRY_ERR_NOMEM;
    }
    if (opts->key.len > 0)
        memcpy(key, opts->key.data, opts->key.len);
    up->key = belfry_bytes_of(key, opts->key.len);
    up->ingest = opts->ingest;
    up->store = opts->store;
    up->window = opts->window != 0 ? opts->window : UPSTREAM_WINDOW;
    up->far = opts->far != 0 ? opts->far : UPSTREAM_FAR;
    if (up->far <= up->window)
        up->far = up->window + 1; /* at least one whole window: a part of one could not be completed */
    up->page = opts->page != 0 ? opts->page : UPSTREAM_PAGE;
    up->log = opts->log;
    replay_init(&up->replay, opts->replay_bytes != 0 ? opts->replay_bytes : UPSTREAM_REPLAY_BYTES);
    listing_init(&up->listing, opts->store);
    up->reach_at = BELFRY_NEVER;
    belfry_backoff_init(&up->backoff, BACKOFF_FIRST_MS, BACKOFF_MAX_MS);
    up->rng.state = opts->seed;
    BELFRY_OWNER_INIT(up);
    *out = up;
    return BELFRY_OK;
}

void upstream_destroy(struct upstream *up)
{
    if (up == NULL)
        return;
    BELFRY_OWNER_CHECK(up);
    replay_fini(&up->replay);
    listing_fini(&up->listing);
    key_witness_fini(&up->witness);
    union {
        const char *in;
        char *out;
    } key = {.in = up->key.data};
    free(key.out);
    free(up);
}

/* ---- the state ---- */

static bool upstream_is_legal(enum upstream_state from, enum upstream_state to)
{
    switch (from) {
    case UPSTREAM_START:
        return to == UPSTREAM_JOINING || to == UPSTREAM_LISTING;
    case UPSTREAM_JOINING:
        return to != UPSTREAM_START;
    case UPSTREAM_REPLAYING:
        return to == UPSTREAM_LIVE || to == UPSTREAM_JOINING || to == UPSTREAM_LISTING;
    case UPSTREAM_LISTING:
        return to == UPSTREAM_LISTING || to == UPSTREAM_JOINING;
    case UPSTREAM_LIVE:
        return to == UPSTREAM_JOINING || to == UPSTREAM_LISTING;
    }
    return false;
}

static void upstream_move(struct upstream *up, enum upstream_state to)
{
    static const char *const names[] = {"start", "joining", "replaying", "listing", "live"};
    bool legal = upstream_is_legal(up->state, to);
    assert(legal);
    (void)legal;
    if (up->state != to)
        belfry_logf(up->log, BELFRY_LOG_INFO, "upstream_state", "from=%s to=%s rev=%" PRId64, names[up->state],
                    names[to], ingest_head(up->ingest));
    up->state = to;
    up->reach = 0; /* an answer to an older watch does not come any more */
    up->reach_at = BELFRY_NEVER;
    up->stats.replays += to == UPSTREAM_REPLAYING;
    up->stats.listings += to == UPSTREAM_LISTING;
}

static uint64_t upstream_retry_at(struct upstream *up)
{
    return up->now + belfry_backoff_next(&up->backoff, &up->rng);
}

static void upstream_heard(struct upstream *up)
{
    up->heard_at = up->now;
    up->progress_at = up->now + UPSTREAM_PROGRESS_MS;
    up->stale = false;
    belfry_backoff_reset(&up->backoff);
}

/* ---- beginning again ---- */

/* Lists, or lists again. `because` is for the log. */
static void upstream_relist(struct upstream *up, enum evlog_cut_why why, int64_t compact_rev, const char *because)
{
    bool again = up->state == UPSTREAM_LISTING;
    belfry_logf(up->log, BELFRY_LOG_WARN, again ? "list_again" : "list", "rev=%" PRId64 " why=\"%s\"",
                ingest_head(up->ingest), because);
    up->why = again && up->why > why ? up->why : why; /* the strongest reason counts */
    up->compact_rev = again && up->compact_rev > compact_rev ? up->compact_rev : compact_rev;
    if (!again) {
        up->stats.relists_compacted += why == EVLOG_CUT_COMPACTED;
        up->stats.relists_rewritten += why == EVLOG_CUT_REWRITTEN;
        up->stats.relists_damaged += why == EVLOG_CUT_DAMAGED;
        ingest_drained(up->ingest, up->now);
    }
    upstream_move(up, UPSTREAM_LISTING);
    replay_close_all(&up->replay);
    question_forget(&up->read);
    question_forget(&up->pages);
    question_forget(&up->witness_read);
    up->vouching = false;
    up->known = 0;
    up->begun = false;
    question_ask(&up->read, again ? upstream_retry_at(up) : up->now);
}

static void upstream_list_again(struct upstream *up, const char *because)
{
    upstream_relist(up, up->why, up->compact_rev, because);
}

static void upstream_join_at(struct upstream *up, int64_t from, uint64_t at)
{
    upstream_move(up, UPSTREAM_JOINING);
    up->proven = false;
    replay_close_all(&up->replay);
    question_forget(&up->pages);
    question_forget(&up->witness_read);
    up->vouching = up->witness_owed = false;
    up->known = 0;
    replay_open(&up->replay, 0, from, REPLAY_NO_END, at);
    if (from == ingest_overlap(up->ingest))
        return;
    question_forget(&up->read); /* one that is under way began too early to judge this */
    question_ask(&up->read, at);
}

/* Opens the live watch at time `at`, from a revision at which upstream can be compared with us. If the head has no
 * known events, the state is compared instead: that of the whole store with the events that upstream has there, that of
 * a part, in which it need not have any, by a witness. A part without keys has none. */
static void upstream_join(struct upstream *up, uint64_t at)
{
    int64_t common = ingest_overlap(up->ingest), head = ingest_head(up->ingest);
    upstream_join_at(up, common != 0 ? common : head, at);
    if (common != 0 || ingest_is_whole(up->ingest))
        return;
    enum belfry_err err = key_witness_find(&up->witness, up->store, up->ingest, head, up->now);
    up->vouching = err != BELFRY_ERR_NOT_FOUND;
    up->witness_owed = err != BELFRY_OK && up->vouching;
}

/* The same if the overlap is compacted away: from the compact revision, or from the revision after our head. */
static void upstream_join_behind(struct upstream *up, int64_t compact_rev, uint64_t at)
{
    int64_t next = ingest_head(up->ingest) + 1;
    upstream_join_at(up, compact_rev < next ? compact_rev : next, at);
}

/* Is the first revision of the lane the newest that we hold events of? */
static bool upstream_expects_overlap(struct upstream *up, const struct lane *lane)
{
    return lane->start == ingest_overlap(up->ingest);
}

/* The lane was found to continue our history. If it is the live lane and its turn has come, we are LIVE. */
static void upstream_joined(struct upstream *up, struct lane *lane)
{
    lane->joined = up->proven = true;
    if (lane == &up->replay.lanes[0] && lane == replay_front(&up->replay) && lane->created &&
        (up->state == UPSTREAM_JOINING || up->state == UPSTREAM_REPLAYING))
        upstream_move(up, UPSTREAM_LIVE);
}

static void upstream_start(struct upstream *up)
{
    if (up->state != UPSTREAM_START)
        return;
    struct store_meta meta;
    up->store->api->meta(up->store, &meta);
    up->cluster_id = meta.cluster_id;
    up->heard_at = up->now;
    if (ingest_head(up->ingest) > 0)
        upstream_join(up, up->now);
    else
        upstream_relist(up, EVLOG_CUT_START, 0, "the replica is empty");
}

/* ---- a witness, where the overlap is compacted ---- */

/* The witness proves nothing. If the scope is the whole store, we list again, as if the past had been rewritten,
 * because we cannot show that it was not. A part of the store that is seldom written to is often compacted like this,
 * so there we continue. The watch begins at the compact revision: it shows every event up to our head that upstream has
 * and we do not, and every later event is still checked against our state. */
static void upstream_join_unproven(struct upstream *up, int64_t compact_rev, uint64_t join_at)
{
    if (compact_rev <= ingest_head(up->ingest) || !ingest_is_whole(up->ingest)) {
        upstream_join_behind(up, compact_rev, join_at);
        return;
    }
    up->stats.relists_unproven++;
    upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, "nothing is left upstream to compare our last revision with");
}

/* The overlap is compacted away, but no revision that we lack. The watch is created before the key is read, and nothing
 * of it is taken before the answer. No watch outlives a restore, so the answer is valid for everything that this watch
 * gives. */
static void upstream_call_witness(struct upstream *up, int64_t compact_rev)
{
    enum belfry_err err = key_witness_find(&up->witness, up->store, up->ingest, compact_rev, up->now);
    if (err == BELFRY_ERR_NOT_FOUND) {
        upstream_join_unproven(up, compact_rev, upstream_retry_at(up));
        return;
    }
    if (err != BELFRY_OK) { /* no memory, or the disk: the same watch will end in the same way */
        upstream_join(up, upstream_retry_at(up));
        return;
    }
    upstream_join_behind(up, compact_rev, up->now);
    up->vouching = true;
}

static void upstream_hear_witness(struct upstream *up, struct belfry_bytes response)
{
    question_forget(&up->witness_read);
    if (up->state != UPSTREAM_JOINING)
        return;
    switch (key_witness_judge(&up->witness, response, ingest_head(up->ingest))) {
    case KEY_SAME:
        up->vouching = false;
        upstream_joined(up, &up->replay.lanes[0]);
        break;
    case KEY_OTHER:
        upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, "a key that we have is another there");
        break;
    case KEY_UNKNOWN:
        upstream_join_unproven(up, up->witness.at, up->now);
        break;
    }
}

static void upstream_witness_failed(struct upstream *up, enum belfry_err err)
{
    question_forget(&up->witness_read);
    if (err == BELFRY_ERR_COMPACTED && up->witness.at > ingest_head(up->ingest))
        upstream_join_unproven(up, up->witness.at, up->now); /* a read does not return the compact revision */
    else if (err == BELFRY_ERR_COMPACTED) /* above what the watch reported; a tier may repeat an old compaction */
        upstream_join_behind(up, ingest_head(up->ingest) + 1, upstream_retry_at(up));
    else if (err == BELFRY_ERR_FUTURE && up->witness.at > ingest_head(up->ingest))
        upstream_join(up, upstream_retry_at(up)); /* upstream was set back since the watch ended */
    else /* also if upstream is below our head: the revision that is read meanwhile judges that */
        question_ask(&up->witness_read, upstream_retry_at(up));
}

/* ---- replaying ---- */

/* Opens windows up to the highest revision that upstream has shown, and the live watch after the last window. */
static void upstream_open_windows(struct upstream *up)
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

/* Far behind: windows instead of the live watch. */
static void upstream_replay(struct upstream *up)
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

/* ---- what the lanes give to ingest ---- */

/* Upstream's history does not continue ours. */
static void upstream_relist_breached(struct upstream *up, const char *why)
{
    up->stats.breaches++;
    upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, why);
}

enum taken { TAKEN, REFUSED, OVER }; /* OVER: the lane was closed or replaced */

static enum taken upstream_take_failed(struct upstream *up, enum belfry_err err)
{
    if (err == BELFRY_ERR_AGAIN || err == BELFRY_ERR_NOMEM) {
        up->resume_at = up->now + RESUME_MS;
        return REFUSED;
    }
    upstream_relist_breached(up, ingest_why(up->ingest));
    return OVER;
}

/* The first revision of a lane on which nothing was compared yet. */
static enum taken upstream_compare_overlap(struct upstream *up, struct lane *lane,
                                           const struct ingest_revision *revision)
{
    if (!upstream_expects_overlap(up, lane) || revision->rev < lane->start)
        return TAKEN;
    if (revision->rev > lane->start && !BELFRY_MUTANT(no_overlap_check)) {
        upstream_relist_breached(up, NOT_OURS);
        return OVER;
    }
    enum belfry_err err = ingest_compare(up->ingest, revision, up->now);
    if (err != BELFRY_OK && err != BELFRY_ERR_NOT_FOUND)
        return upstream_take_failed(up, err);
    up->stats.overlaps++;
    upstream_joined(up, lane);
    return TAKEN;
}

/* The lane has given everything up to `rev`, and nothing above is wanted of it. */
static enum taken upstream_lane_passed(struct upstream *up, struct lane *lane, int64_t rev,
                                       const struct belfry_wire_header *header)
{
    int64_t last = rev < lane->end ? rev : lane->end - 1;
    enum belfry_err err = ingest_advance(up->ingest, last, header, up->now);
    if (err != BELFRY_OK)
        return upstream_take_failed(up, err);
    upstream_heard(up);
    if (last < lane->end - 1)
        return TAKEN;
    replay_close(&up->replay, lane);
    upstream_open_windows(up);
    return OVER;
}

/* A revision up to our head is ours, and was compared if it can be. */
static enum taken upstream_give_known(struct upstream *up, const struct ingest_revision *revision)
{
    struct digest digest;
    if (revision->rev == ingest_head(up->ingest) && !ingest_overlap_digest(up->ingest, &digest)) {
        enum belfry_err err = ingest_compare(up->ingest, revision, up->now);
        return err == BELFRY_OK ? TAKEN : upstream_take_failed(up, err);
    }
    if (revision->rev <= ingest_overlap(up->ingest))
        return TAKEN;
    upstream_relist_breached(up, NOT_OURS); /* upstream has an event where we have none */
    return OVER;
}

/* A revision of the front lane, in its turn. */
static enum taken upstream_give(struct upstream *up, struct lane *lane, const struct ingest_revision *revision)
{
    int64_t head = ingest_head(up->ingest);
    enum taken taken = lane->joined ? TAKEN : upstream_compare_overlap(up, lane, revision);
    if (taken == TAKEN && revision->rev <= head)
        taken = upstream_give_known(up, revision);
    if (taken != TAKEN)
        return taken;
    if (revision->rev > head && revision->rev < lane->end) {
        enum belfry_err err = ingest_revision(up->ingest, revision, up->now);
        if (err != BELFRY_OK)
            return upstream_take_failed(up, err);
        up->stats.revisions++;
        up->stats.events += revision->n;
        upstream_joined(up, lane);
    }
    upstream_heard(up);
    if (up->state == UPSTREAM_LIVE && up->known - ingest_head(up->ingest) >= up->far) {
        upstream_join(up, up->now); /* one watch is slower than upstream writes: windows are faster */
        return OVER;
    }
    return revision->rev >= lane->end - 1 ? upstream_lane_passed(up, lane, revision->rev, &revision->header) : TAKEN;
}

/* The progress of the front lane, in its turn. */
static enum taken upstream_give_progress(struct upstream *up, struct lane *lane)
{
    struct belfry_wire_header header = lane->progress;
    if (!lane->joined && upstream_expects_overlap(up, lane) && header.revision >= lane->start &&
        !BELFRY_MUTANT(no_overlap_check)) {
        upstream_relist_breached(up, NOT_OURS);
        return OVER;
    }
    enum taken taken = upstream_lane_passed(up, lane, header.revision, &header);
    if (taken != TAKEN)
        return taken;
    lane->progress.revision = 0;
    if (up->reach > ingest_head(up->ingest)) /* the answer to an earlier request, or of a server that lags */
        up->reach_at = up->now + REACH_MS;
    if (up->state == UPSTREAM_REPLAYING && lane == &up->replay.lanes[0] && up->proven)
        upstream_joined(up, lane); /* a quiet scope has no event where the live watch begins */
    return TAKEN;
}

/* The front lane's watch was cancelled as compacted: above our head, or only above the overlap. Two kinds of servers
 * cancel a watch for revisions that it no longer needs: a tier whose own past was rewritten, and an etcd that received
 * a snapshot newer than the last event of the watch. A join finds out, as after any lost connection. */
static void upstream_settle_compacted(struct upstream *up, const struct lane *lane)
{
    int64_t next = ingest_head(up->ingest) + 1, needed = lane->joined ? next : lane->start;
    if (lane->compact_rev <= needed)
        upstream_join(up, upstream_retry_at(up));
    else if (next < lane->compact_rev)
        upstream_relist(up, EVLOG_CUT_COMPACTED, lane->compact_rev, "upstream is compacted over our head");
    else
        upstream_call_witness(up, lane->compact_rev);
}

/* The front lane's watch has ended, and ingest has everything that it gave. */
static void upstream_settle_end(struct upstream *up, const struct lane *lane)
{
    if (lane->ended == BELFRY_ERR_COMPACTED)
        upstream_settle_compacted(up, lane);
    else
        upstream_join(up, upstream_retry_at(up));
}

static bool upstream_merge_one(struct upstream *up, struct lane *lane)
{
    struct held *held = replay_held(lane);
    enum taken taken;
    if (up->vouching) { /* none of its events counts yet, nor its progress */
        if (lane->state == LANE_ENDED)
            upstream_settle_end(up, lane);
        return false;
    }
    if (held != NULL) {
        taken = upstream_give(up, lane, &held->revision);
        if (taken == TAKEN)
            replay_drop(&up->replay, held);
        return taken != REFUSED;
    }
    if (lane->progress.revision != 0)
        return upstream_give_progress(up, lane) != REFUSED;
    if (lane->state == LANE_ENDED)
        upstream_settle_end(up, lane);
    return false;
}

/* Gives ingest what the front holds, lane after lane. */
static void upstream_merge(struct upstream *up)
{
    struct lane *lane = replay_front(&up->replay);
    while (up->state != UPSTREAM_LISTING && lane != NULL && upstream_merge_one(up, lane))
        lane = replay_front(&up->replay);
}

/* A window is complete before its turn: closes its watch. */
static void lane_end_early(struct lane *lane)
{
    lane->state = LANE_ENDED;
    lane->ended = BELFRY_OK;
    lane->close_owed = true;
}

static bool upstream_hold(struct upstream *up, struct lane *lane, const struct ingest_revision *revision)
{
    enum belfry_err err = replay_hold(&up->replay, lane, revision);
    if (err == BELFRY_ERR_NOMEM)
        up->resume_at = up->now + RESUME_MS;
    if (err != BELFRY_OK)
        return false;
    if (revision->rev >= lane->end - 1)
        lane_end_early(lane);
    return true;
}

/* Gives ingest a revision of an open lane, or holds it; false: not taken. */
static bool upstream_take(struct upstream *up, struct lane *lane, const struct ingest_revision *revision)
{
    enum taken taken;
    if (up->vouching)
        taken = REFUSED;
    else if (lane == replay_front(&up->replay) && replay_held(lane) == NULL)
        taken = upstream_give(up, lane, revision);
    else
        taken = upstream_hold(up, lane, revision) ? TAKEN : REFUSED;
    if (taken == REFUSED)
        replay_refuse(lane);
    if (taken == OVER)
        upstream_merge(up);
    return taken != REFUSED;
}

static void upstream_take_progress(struct upstream *up, struct lane *lane, const struct belfry_wire_header *header)
{
    lane->progress = *header;
    if (lane != replay_front(&up->replay) && header->revision >= lane->end - 1)
        lane_end_early(lane);
    upstream_merge(up);
}
/* ---- listing ---- */

/* Is the revision at which it began known? Then a revision that is read judges lag. */
static bool upstream_is_listing(const struct upstream *up)
{
    return up->state == UPSTREAM_LISTING && up->begun && up->listing.first != 0;
}

/* Upstream's past is not ours, or (BELFRY_ERR_NOT_FOUND) it cannot be shown to be ours: all cursors are lost, to be
 * safe. */
static void upstream_give_up_past(struct upstream *up, enum belfry_err err)
{
    up->compare_at = 0;
    up->why = EVLOG_CUT_REWRITTEN;
    up->stats.relists_rewritten++;
    up->stats.relists_unproven += err != BELFRY_ERR_REWOUND;
}

/* The revision of the listing is known; the watch is opened first. After damage to our own store, cursors continue if
 * upstream still has the past that they belong to. The newest revision that we hold events of shows this, so the watch
 * begins there. */
static void upstream_list_from(struct upstream *up, const struct belfry_wire_header *header)
{
    if (header->revision < ingest_head(up->ingest) || header->revision < up->compact_rev)
        up->why = EVLOG_CUT_REWRITTEN; /* this is a stronger reason than the one that started the listing */
    listing_first(&up->listing, header);
    up->compare_at = up->why == EVLOG_CUT_DAMAGED ? ingest_overlap(up->ingest) : 0;
    int64_t from = up->compare_at != 0 ? up->compare_at : header->revision;
    replay_open(&up->replay, 0, from, REPLAY_NO_END, up->now);
    question_ask(&up->pages, up->now);
}

static void upstream_list_ended(struct upstream *up, enum belfry_err err)
{
    /* Gives up the past even if it was shown to be ours: a watch that begins at our newest revision would end the same
     * way each time. */
    if (err == BELFRY_ERR_COMPACTED && up->why == EVLOG_CUT_DAMAGED)
        upstream_give_up_past(up, BELFRY_ERR_NOT_FOUND);
    upstream_list_again(up, belfry_strerror((int)err));
}

static void upstream_adopt_if_whole(struct upstream *up)
{
    int64_t rev;
    if (up->state != UPSTREAM_LISTING || !up->begun || !listing_whole(&up->listing, &rev) || up->now < up->adopt_at)
        return;
    if (!listing_agrees(&up->listing)) {
        upstream_list_again(up, "the watch is of another past than the pages");
        up->read.at = up->now + UPSTREAM_PROGRESS_MS; /* until a tier above has noticed it too */
        return;
    }
    if (up->compare_at != 0)
        upstream_give_up_past(up, BELFRY_ERR_REWOUND); /* the watch has passed it without showing its events */
    struct belfry_wire_header header = up->listing.header;
    header.revision = rev;
    int64_t compact_rev = up->why == EVLOG_CUT_REWRITTEN ? rev : up->compact_rev;
    if (ingest_adopt(up->ingest, rev, &header, up->why, compact_rev) != BELFRY_OK) {
        up->adopt_at = upstream_retry_at(up);
        return;
    }
    if (up->listing.digest_rev != 0)
        ingest_set_overlap(up->ingest, up->listing.digest_rev, up->listing.digest);
    up->stats.rewrites += up->why == EVLOG_CUT_REWRITTEN;
    up->cluster_id = header.cluster_id;
    up->compact_rev = 0;
    question_forget(&up->pages);
    question_forget(&up->read); /* a read in progress was started in the past that ended */
    upstream_heard(up);
    upstream_move(up, UPSTREAM_JOINING);
    upstream_joined(up, &up->replay.lanes[0]);
}

static void upstream_list_revision(struct upstream *up, const struct ingest_revision *revision)
{
    if (up->compare_at != 0 && revision->rev >= up->compare_at) {
        enum belfry_err err = ingest_compare(up->ingest, revision, up->now);
        up->compare_at = 0;
        if (err != BELFRY_OK)
            upstream_give_up_past(up, err);
    }
    if (listing_revision(&up->listing, revision) != BELFRY_OK)
        upstream_list_again(up, "the replica does not take it");
    else
        upstream_adopt_if_whole(up);
    up->progress_at = up->now + UPSTREAM_PROGRESS_MS;
}

static void upstream_page_failed(struct upstream *up, enum belfry_err err)
{
    question_forget(&up->pages);
    if (err == BELFRY_ERR_COMPACTED && listing_unpin(&up->listing)) {
        up->stats.pages_repeated++;
        question_ask(&up->pages, up->now);
    } else if (err == BELFRY_ERR_UNAVAILABLE || err == BELFRY_ERR_FUTURE || err == BELFRY_ERR_REWOUND ||
               err == BELFRY_ERR_CLUSTER) { /* earlier pages may be of another past: a restore breaks connections */
        upstream_list_again(up, belfry_strerror((int)err));
    } else {
        question_ask(&up->pages, upstream_retry_at(up));
    }
}

/* ---- lag and its judgement ---- */

/* Requests a judgement, not too soon after the last one. A read already in progress does not count: it began too
 * early. */
static void upstream_ask_later(struct upstream *up)
{
    if (up->read.token != 0)
        up->read.again = true;
    else
        question_ask(&up->read, up->read.at > up->now ? up->read.at : up->now);
}

/* A header with a lower revision than ours, or, when windows wait for what upstream has shown, than that. It looks like
 * lag; only a linearizable read can tell. */
static void upstream_suspect(struct upstream *up, const struct belfry_wire_header *header)
{
    int64_t head = ingest_head(up->ingest);
    if (header->revision >= (up->state == UPSTREAM_REPLAYING ? up->known : head))
        return;
    if (BELFRY_MUTANT(behind_by_serializable) && header->revision < head) {
        upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, "a member is behind us");
        return;
    }
    upstream_ask_later(up);
}

/* True: it cannot be our past, and a listing has begun. */
static bool upstream_is_foreign(struct upstream *up, const struct belfry_wire_header *header)
{
    if (header->cluster_id == 0 || header->cluster_id == up->cluster_id)
        return false;
    if (up->cluster_id == 0) {
        up->cluster_id = header->cluster_id;
        return false;
    }
    up->cluster_id = 0; /* not known until the listing shows it */
    upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, "another cluster answers");
    return true;
}

static void upstream_note_known(struct upstream *up, int64_t rev)
{
    if (rev > up->known)
        up->known = rev;
}

/* ---- what comes ---- */

/* The lane of an open watch; NULL: we asked the owner to close it, so what it sends is ignored. */
static struct lane *upstream_open_lane(struct upstream *up, unsigned slot, uint64_t now_ms)
{
    up->now = now_ms;
    if (slot >= REPLAY_LANES || up->replay.lanes[slot].state != LANE_OPEN)
        return NULL;
    return &up->replay.lanes[slot];
}

bool upstream_on_revision(struct upstream *up, unsigned slot, const struct ingest_revision *revision, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(up);
    struct lane *lane = upstream_open_lane(up, slot, now_ms);
    if (lane == NULL || upstream_is_foreign(up, &revision->header))
        return true;
    if (up->state == UPSTREAM_LISTING) {
        upstream_list_revision(up, revision);
        return true;
    }
    upstream_note_known(up, revision->header.revision); /* of a replayed event: upstream's current revision */
    return upstream_take(up, lane, revision);
}

void upstream_on_progress(struct upstream *up, unsigned slot, const struct belfry_wire_header *header, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(up);
    struct lane *lane = upstream_open_lane(up, slot, now_ms);
    if (lane == NULL || !lane->created || upstream_is_foreign(up, header))
        return;
    if (up->state == UPSTREAM_LISTING) {
        listing_progress(&up->listing, header->revision);
        upstream_adopt_if_whole(up);
        return;
    }
    upstream_note_known(up, header->revision);
    upstream_suspect(up, header);
    if (up->state != UPSTREAM_LISTING && header->revision >= ingest_head(up->ingest))
        upstream_take_progress(up, lane, header);
}

void upstream_on_created(struct upstream *up, unsigned slot, const struct belfry_wire_header *header, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(up);
    struct lane *lane = upstream_open_lane(up, slot, now_ms);
    if (lane == NULL || upstream_is_foreign(up, header))
        return;
    if (lane->created) {
        if (up->state == UPSTREAM_LISTING)
            upstream_list_again(up, "the watch broke");
        else
            upstream_join(up, up->now);
        return;
    }
    lane->created = true;
    up->progress_at = up->now + UPSTREAM_PROGRESS_MS;
    if (up->state == UPSTREAM_LISTING)
        return;
    upstream_note_known(up, header->revision);
    upstream_suspect(up, header);
    if (up->vouching && up->witness_owed)
        upstream_join(up, upstream_retry_at(up));
    else if (up->vouching)
        question_ask(&up->witness_read, up->now);
    else if (up->state == UPSTREAM_REPLAYING)
        upstream_open_windows(up);
    else if (up->state == UPSTREAM_JOINING && up->known - ingest_head(up->ingest) >= up->far)
        upstream_replay(up);
    else if (lane->joined)
        upstream_joined(up, lane);
}

void upstream_on_end(struct upstream *up, unsigned slot, enum belfry_err err, int64_t compact_rev, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(up);
    struct lane *lane = upstream_open_lane(up, slot, now_ms);
    if (lane == NULL)
        return;
    lane->state = LANE_ENDED;
    lane->ended = err;
    lane->compact_rev = compact_rev;
    if (up->state == UPSTREAM_LISTING)
        upstream_list_ended(up, err);
    else if (err == BELFRY_ERR_REWOUND || err == BELFRY_ERR_CLUSTER)
        upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, belfry_strerror((int)err));
    else
        upstream_merge(up);
}

/* ---- answers ---- */

static void upstream_judge(struct upstream *up, int64_t linearizable)
{
    struct lane *live = &up->replay.lanes[0];
    up->stats.judgements++;
    if (linearizable < up->floor) {
        upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, "upstream is behind us");
        return;
    }
    up->read.at = up->now + UPSTREAM_STALE_MS; /* lag may last: judge it again, but not at every sign of it */
    struct lane *front = replay_front(&up->replay);
    if (up->state == UPSTREAM_REPLAYING && linearizable < up->shown)
        upstream_join(up, up->now); /* set back, though not below us: windows wait for revisions that are gone */
    else if (up->state == UPSTREAM_REPLAYING && front != NULL && !upstream_expects_overlap(up, front))
        up->proven = true;
    else if (up->state == UPSTREAM_JOINING && !upstream_expects_overlap(up, live) && !up->vouching)
        upstream_joined(up, live);
}

/* The listing is under way: it waits for revisions that a restore may have taken back. */
static void upstream_judge_listing(struct upstream *up, const struct belfry_wire_header *header)
{
    up->stats.judgements++;
    if (header->revision < up->shown || header->cluster_id != up->listing.header.cluster_id)
        upstream_list_again(up, "upstream is behind what was listed");
    else
        up->read.at = up->now + UPSTREAM_STALE_MS;
}

void upstream_on_read(struct upstream *up, uint64_t token, const struct belfry_wire_header *header, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(up);
    up->now = now_ms;
    if (token == 0 || token != up->read.token)
        return;
    bool again = up->read.again;
    question_forget(&up->read);
    if (up->state == UPSTREAM_LISTING && header->cluster_id != up->cluster_id) {
        up->why = up->cluster_id != 0 ? EVLOG_CUT_REWRITTEN : up->why;
        up->cluster_id = header->cluster_id;
    }
    if (upstream_is_foreign(up, header))
        return;
    if (upstream_is_listing(up))
        upstream_judge_listing(up, header);
    else if (up->state == UPSTREAM_LISTING)
        upstream_list_from(up, header);
    else
        upstream_judge(up, header->revision);
    if (again && up->state != UPSTREAM_LISTING)
        upstream_ask_later(up);
}

bool upstream_confirm(struct upstream *up, const struct upstream_mark *sent, const struct belfry_wire_header *header,
                      uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(up);
    up->now = now_ms;
    bool joins = BELFRY_MUTANT(reads_before_overlap) && up->state == UPSTREAM_JOINING;
    if ((up->state != UPSTREAM_LIVE && !joins) || upstream_is_foreign(up, header))
        return false;
    if (sent->past != ingest_past(up->ingest))
        return false;
    if (header->revision < sent->head && !BELFRY_MUTANT(reads_below_accepted)) {
        up->stats.judgements++;
        upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, "upstream is behind us");
        return false;
    }
    return true;
}

void upstream_reach(struct upstream *up, int64_t rev, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(up);
    up->now = now_ms;
    if (up->state != UPSTREAM_LIVE || rev <= up->reach || rev <= ingest_head(up->ingest) ||
        ingest_is_whole(up->ingest)) /* then its events are on their way */
        return;
    up->reach = rev;
    up->reach_at = now_ms;
}

void upstream_on_page(struct upstream *up, uint64_t token, struct belfry_bytes response, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(up);
    up->now = now_ms;
    if (token != 0 && token == up->witness_read.token)
        upstream_hear_witness(up, response);
    if (token == 0 || token != up->pages.token)
        return;
    question_forget(&up->pages);
    enum belfry_err err = listing_page(&up->listing, response);
    if (err != BELFRY_OK) {
        upstream_list_again(up, belfry_strerror((int)err));
        return;
    }
    up->stats.pages++;
    belfry_backoff_reset(&up->backoff);
    if (up->listing.all)
        up->progress_at = up->now; /* only the watch's confirmation is missing, and the watch may be idle */
    else
        question_ask(&up->pages, up->now);
    upstream_adopt_if_whole(up);
}

void upstream_on_read_failed(struct upstream *up, uint64_t token, enum belfry_err err, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(up);
    up->now = now_ms;
    if (token == 0)
        return;
    if (token == up->pages.token)
        upstream_page_failed(up, err);
    if (token == up->witness_read.token)
        upstream_witness_failed(up, err);
    if (token == up->read.token) {
        question_forget(&up->read);
        question_ask(&up->read, upstream_retry_at(up));
    }
}

/* ---- what is wanted ---- */

/* Tries refused revisions again, once ingest works. */
static void upstream_give_refused(struct upstream *up)
{
    if (ingest_is_stuck(up->ingest) || up->now < up->resume_at || up->vouching)
        return;
    up->resume_at = 0;
    upstream_merge(up);
    replay_resume(&up->replay);
}

static bool upstream_ask_revision(struct upstream *up, struct upstream_action *out)
{
    if (!question_is_due(&up->read, up->now))
        return false;
    if (up->state == UPSTREAM_LISTING && !up->begun) {
        up->begun = listing_begin(&up->listing, up->key) == BELFRY_OK;
        if (!up->begun) {
            up->read.at = up->now + 1 + belfry_backoff_next(&up->backoff, &up->rng);
            return false;
        }
    }
    up->floor = ingest_head(up->ingest);
    up->shown = upstream_is_listing(up) ? listing_shown(&up->listing) : up->known;
    up->read.token = ++up->last_token;
    *out = (struct upstream_action){.want = UPSTREAM_WANT_REVISION, .token = up->read.token};
    return true;
}

static bool upstream_ask_page(struct upstream *up, struct upstream_action *out)
{
    if (!question_is_due(&up->pages, up->now) || !up->replay.lanes[0].created)
        return false;
    up->pages.token = ++up->last_token;
    *out = (struct upstream_action){.want = UPSTREAM_WANT_PAGE,
                                    .rev = up->listing.pin,
                                    .limit = up->page,
                                    .token = up->pages.token,
                                    .key = belfry_buf_bytes(&up->listing.cursor)};
    return true;
}

static bool upstream_ask_witness(struct upstream *up, struct upstream_action *out)
{
    if (!question_is_due(&up->witness_read, up->now))
        return false;
    up->witness_read.token = ++up->last_token;
    *out = (struct upstream_action){.want = UPSTREAM_WANT_PAGE,
                                    .rev = up->witness.at,
                                    .limit = 1,
                                    .token = up->witness_read.token,
                                    .key = belfry_buf_bytes(&up->witness.key)};
    return true;
}

/* When progress is to be asked for, if the front lane is silent until then. */
static uint64_t upstream_progress_due(const struct upstream *up)
{
    const struct lane *lane = replay_front(&up->replay);
    bool is_open = lane != NULL && lane->state == LANE_OPEN && lane->created && !lane->paused;
    return is_open ? belfry_min_time(up->progress_at, up->reach_at) : BELFRY_NEVER;
}

static bool upstream_ask_progress(struct upstream *up, struct upstream_action *out)
{
    const struct lane *lane = replay_front(&up->replay);
    if (up->now < upstream_progress_due(up))
        return false;
    up->progress_at = up->now + UPSTREAM_PROGRESS_MS;
    up->reach_at = BELFRY_NEVER;
    *out = (struct upstream_action){.want = UPSTREAM_WANT_PROGRESS, .slot = replay_slot(&up->replay, lane)};
    return true;
}

bool upstream_next(struct upstream *up, uint64_t now_ms, struct upstream_action *out)
{
    BELFRY_OWNER_CHECK(up);
    up->now = now_ms;
    upstream_start(up);
    upstream_give_refused(up);
    return replay_next(&up->replay, now_ms, out) || upstream_ask_revision(up, out) || upstream_ask_page(up, out) ||
           upstream_ask_witness(up, out) || upstream_ask_progress(up, out);
}

/* ---- time ---- */

void upstream_drained(struct upstream *up, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(up);
    up->now = now_ms;
    up->gap_until = 0;
    ingest_drained(up->ingest, now_ms);
}

/* The process was stopped for a while: bytes wait in the sockets, so upstream is not to blame for the silence. */
static void upstream_note_gap(struct upstream *up)
{
    if (up->ticked_at == 0 || up->now <= up->ticked_at + UPSTREAM_TICK_MS + UPSTREAM_GAP_MS ||
        BELFRY_MUTANT(timer_first))
        return;
    up->stats.gaps++;
    up->gap_until = up->now + UPSTREAM_TICK_MS;
}

static void upstream_become_stale(struct upstream *up)
{
    if (!up->stale) {
        up->stats.stale++;
        belfry_logf(up->log, BELFRY_LOG_WARN, "upstream_stale", "rev=%" PRId64, ingest_head(up->ingest));
    }
    up->stale = true;
}

void upstream_cut_off(struct upstream *up, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(up);
    up->now = now_ms;
    upstream_become_stale(up);
}

void upstream_tick(struct upstream *up, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(up);
    up->now = now_ms;
    upstream_start(up);
    upstream_note_gap(up);
    up->ticked_at = now_ms;
    ingest_tick(up->ingest, now_ms);
    /* Rows that were not read yet may be damaged, too: the store is filled again. Until then it serves rows that pass
     * their checks. */
    if (up->state != UPSTREAM_LISTING && up->store->api->damaged(up->store))
        upstream_relist(up, EVLOG_CUT_DAMAGED, 0, "the replica is damaged");
    upstream_give_refused(up);
    upstream_adopt_if_whole(up);
    if (up->now < up->gap_until || up->now < up->heard_at + UPSTREAM_STALE_MS)
        return;
    upstream_become_stale(up);
    if ((up->state != UPSTREAM_LISTING || upstream_is_listing(up)) && !up->read.wanted)
        upstream_ask_later(
            up); /* a cluster that was set back is silent on a watch from a revision that it has not reached */
}

uint64_t upstream_due(const struct upstream *up)
{
    uint64_t due = up->ticked_at + UPSTREAM_TICK_MS;
    due = belfry_min_time(due, ingest_due(up->ingest));
    due = belfry_min_time(due, replay_due(&up->replay));
    due = belfry_min_time(due, upstream_progress_due(up));
    due = belfry_min_time(due, question_due(&up->read));
    due = belfry_min_time(due, question_due(&up->witness_read));
    /* Whatever lane it is of. If ingest is stuck, ingest_due() says when. A lane that was refused for want of room has
     * no time: it goes on when the front has made room. */
    if (up->resume_at != 0 && !up->vouching && !ingest_is_stuck(up->ingest))
        due = belfry_min_time(due, up->resume_at);
    if (up->replay.lanes[0].created)
        due = belfry_min_time(due, question_due(&up->pages));
    return due;
}

/* ---- how it stands ---- */

enum upstream_state upstream_state(const struct upstream *up)
{
    return up->state;
}

bool upstream_stale(const struct upstream *up)
{
    return up->stale;
}

bool upstream_ready(const struct upstream *up)
{
    bool joins = BELFRY_MUTANT(reads_before_overlap) && up->state == UPSTREAM_JOINING;
    return (up->state == UPSTREAM_LIVE || joins) && !up->stale;
}

bool upstream_proven(const struct upstream *up)
{
    return up->proven || BELFRY_MUTANT(reads_before_overlap);
}

void upstream_stats(const struct upstream *up, struct upstream_stats *out)
{
    *out = up->stats;
}
