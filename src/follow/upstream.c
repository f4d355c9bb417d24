/* src/follow/upstream.c: what comes in, what is wanted, time. */
#include "follow/upstream.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/sim.h"
#include "follow/upstream_private.h"

#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS   5000

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
        up->far = up->window + 1; /* one window at least, whole: it could not be completed otherwise */
    up->page = opts->page != 0 ? opts->page : UPSTREAM_PAGE;
    up->log = opts->log;
    replay_init(&up->replay, opts->replay_bytes != 0 ? opts->replay_bytes : UPSTREAM_REPLAY_BYTES);
    listing_init(&up->listing, opts->store);
    belfry_backoff_init(&up->backoff, BACKOFF_FIRST_MS, BACKOFF_MAX_MS);
    *out = up;
    return BELFRY_OK;
}

void upstream_destroy(struct upstream *up)
{
    if (up == NULL)
        return;
    replay_fini(&up->replay);
    listing_fini(&up->listing);
    belfry_buf_fini(&up->witness_key);
    belfry_buf_fini(&up->witness_kv);
    union {
        const char *in;
        char *out;
    } key = {.in = up->key.data};
    free(key.out);
    free(up);
}

/* ---- the state ---- */

static bool is_legal(enum upstream_state from, enum upstream_state to)
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

void upstream_move(struct upstream *up, enum upstream_state to)
{
    static const char *const names[] = {"start", "joining", "replaying", "listing", "live"};
    bool legal = is_legal(up->state, to);
    assert(legal);
    (void)legal;
    if (up->state != to)
        belfry_logf(up->log, BELFRY_LOG_INFO, "upstream_state", "from=%s to=%s rev=%" PRId64, names[up->state],
                    names[to], ingest_head(up->ingest));
    up->state = to;
    up->stats.replays += to == UPSTREAM_REPLAYING;
    up->stats.listings += to == UPSTREAM_LISTING;
}

uint64_t upstream_retry_at(struct upstream *up)
{
    return up->now + belfry_backoff_next(&up->backoff, &up->rng);
}

void upstream_heard(struct upstream *up)
{
    up->heard_at = up->now;
    up->progress_at = up->now + UPSTREAM_PROGRESS_MS;
    up->stale = false;
    belfry_backoff_reset(&up->backoff);
}

static void start(struct upstream *up)
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

/* ---- lag and its judgement ---- */

/* A judgement, not too soon after the last one. One that is under way was asked too early to count. */
static void ask_later(struct upstream *up)
{
    if (up->read.token != 0)
        up->read.again = true;
    else
        question_ask(&up->read, up->read.at > up->now ? up->read.at : up->now);
}

/* A header that says less than we have: lag, as far as it alone can tell. */
static void suspect(struct upstream *up, const struct belfry_wire_header *header)
{
    if (header->revision >= ingest_head(up->ingest))
        return;
    if (BELFRY_MUTANT(behind_by_serializable)) {
        upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, "a member is behind us");
        return;
    }
    ask_later(up);
}

/* True: it cannot be our past, and a listing has begun (anew). */
static bool foreign(struct upstream *up, const struct belfry_wire_header *header)
{
    if (header->cluster_id == 0 || header->cluster_id == up->cluster_id)
        return false;
    if (up->cluster_id == 0) {
        up->cluster_id = header->cluster_id;
        return false;
    }
    up->cluster_id = 0; /* of the past that the listing will find */
    upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, "another cluster answers");
    return true;
}

static void know(struct upstream *up, int64_t rev)
{
    if (rev > up->known)
        up->known = rev;
}

/* ---- what comes ---- */

/* The lane of a watch that the owner was told to open and has not been told to close; NULL: nothing of it counts. */
static struct lane *open_lane(struct upstream *up, unsigned slot, uint64_t now_ms)
{
    up->now = now_ms;
    if (slot >= REPLAY_LANES || up->replay.lanes[slot].state != LANE_OPEN)
        return NULL;
    return &up->replay.lanes[slot];
}

bool upstream_on_revision(struct upstream *up, unsigned slot, const struct ingest_revision *revision, uint64_t now_ms)
{
    struct lane *lane = open_lane(up, slot, now_ms);
    if (lane == NULL || foreign(up, &revision->header))
        return true;
    if (up->state == UPSTREAM_LISTING) {
        upstream_list_revision(up, revision);
        return true;
    }
    know(up, revision->header.revision); /* of a replayed event it is where upstream is now */
    return upstream_take(up, lane, revision);
}

void upstream_on_progress(struct upstream *up, unsigned slot, const struct belfry_wire_header *header, uint64_t now_ms)
{
    struct lane *lane = open_lane(up, slot, now_ms);
    if (lane == NULL || !lane->created || foreign(up, header))
        return;
    if (up->state == UPSTREAM_LISTING) {
        listing_progress(&up->listing, header->revision);
        upstream_adopt_if_whole(up);
        return;
    }
    know(up, header->revision);
    if (header->revision < ingest_head(up->ingest)) {
        suspect(up, header);
        return;
    }
    upstream_take_progress(up, lane, header);
}

void upstream_on_created(struct upstream *up, unsigned slot, const struct belfry_wire_header *header, uint64_t now_ms)
{
    struct lane *lane = open_lane(up, slot, now_ms);
    if (lane == NULL || foreign(up, header))
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
    know(up, header->revision);
    suspect(up, header);
    if (up->vouching)
        question_ask(&up->witness, up->now);
    else if (up->state == UPSTREAM_REPLAYING)
        upstream_open_windows(up);
    else if (up->state == UPSTREAM_JOINING && up->known - ingest_head(up->ingest) >= up->far)
        upstream_replay(up);
    else if (lane->joined)
        upstream_joined(up, lane);
}

void upstream_on_end(struct upstream *up, unsigned slot, enum belfry_err err, int64_t compact_rev, uint64_t now_ms)
{
    struct lane *lane = open_lane(up, slot, now_ms);
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

static void judge(struct upstream *up, int64_t linearizable)
{
    struct lane *live = &up->replay.lanes[0];
    up->stats.judgements++;
    if (linearizable < up->floor) {
        upstream_relist(up, EVLOG_CUT_REWRITTEN, 0, "upstream is behind us");
        return;
    }
    up->read.at = up->now + UPSTREAM_STALE_MS; /* lag goes on for a while: ask again, but not at every sign of it */
    if (up->state == UPSTREAM_REPLAYING && linearizable < up->shown)
        upstream_join(up, up->now); /* set back, if not below us: windows wait for revisions that are no more */
    else if (up->state == UPSTREAM_JOINING && !upstream_expects_overlap(up, live) && !up->vouching)
        upstream_joined(up, live);
}

/* The listing is under way: it waits for revisions that a restore may have taken back. */
static void judge_listing(struct upstream *up, const struct belfry_wire_header *header)
{
    up->stats.judgements++;
    if (header->revision < up->shown || header->cluster_id != up->listing.header.cluster_id)
        upstream_list_again(up, "upstream is behind what was listed");
    else
        up->read.at = up->now + UPSTREAM_STALE_MS;
}

void upstream_on_read(struct upstream *up, uint64_t token, const struct belfry_wire_header *header, uint64_t now_ms)
{
    up->now = now_ms;
    if (token == 0 || token != up->read.token)
        return;
    bool again = up->read.again;
    question_forget(&up->read);
    if (up->state == UPSTREAM_LISTING && header->cluster_id != up->cluster_id) {
        up->why = up->cluster_id != 0 ? EVLOG_CUT_REWRITTEN : up->why;
        up->cluster_id = header->cluster_id;
    }
    if (foreign(up, header))
        return;
    if (upstream_is_listing(up))
        judge_listing(up, header);
    else if (up->state == UPSTREAM_LISTING)
        upstream_list_from(up, header);
    else
        judge(up, header->revision);
    if (again && up->state != UPSTREAM_LISTING)
        ask_later(up);
}

void upstream_on_read_failed(struct upstream *up, uint64_t token, enum belfry_err err, uint64_t now_ms)
{
    up->now = now_ms;
    if (token == 0)
        return;
    if (token == up->pages.token)
        upstream_page_failed(up, err);
    if (token == up->witness.token)
        upstream_witness_failed(up, err);
    if (token == up->read.token) {
        question_forget(&up->read);
        question_ask(&up->read, upstream_retry_at(up));
    }
}

/* ---- what is wanted ---- */

/* What was refused is tried again, once ingest works. */
static void pump(struct upstream *up)
{
    if (ingest_is_stuck(up->ingest) || up->now < up->resume_at || up->vouching)
        return;
    upstream_merge(up);
    replay_resume(&up->replay);
}

static bool ask_revision(struct upstream *up, struct upstream_action *out)
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

/* The lane whose silence is to be broken; NULL: none. */
static const struct lane *silent_lane(struct upstream *up)
{
    const struct lane *front = replay_front(&up->replay);
    return front != NULL && front->state == LANE_OPEN && front->created && !front->paused ? front : NULL;
}

static bool ask_progress(struct upstream *up, struct upstream_action *out)
{
    const struct lane *lane = silent_lane(up);
    if (lane == NULL || up->now < up->progress_at)
        return false;
    up->progress_at = up->now + UPSTREAM_PROGRESS_MS;
    *out = (struct upstream_action){.want = UPSTREAM_WANT_PROGRESS, .slot = replay_slot(&up->replay, lane)};
    return true;
}

bool upstream_next(struct upstream *up, uint64_t now_ms, struct upstream_action *out)
{
    up->now = now_ms;
    start(up);
    pump(up);
    return replay_next(&up->replay, now_ms, out) || ask_revision(up, out) || upstream_ask_page(up, out) ||
           upstream_ask_witness(up, out) || ask_progress(up, out);
}

/* ---- time ---- */

void upstream_drained(struct upstream *up, uint64_t now_ms)
{
    up->now = now_ms;
    up->gap_until = 0;
    ingest_drained(up->ingest, now_ms);
}

/* The process was stopped: what the sockets hold is not late, we are. */
static void note_gap(struct upstream *up)
{
    if (up->ticked_at == 0 || up->now <= up->ticked_at + UPSTREAM_TICK_MS + UPSTREAM_GAP_MS ||
        BELFRY_MUTANT(timer_first))
        return;
    up->stats.gaps++;
    up->gap_until = up->now + UPSTREAM_TICK_MS;
}

static void become_stale(struct upstream *up)
{
    if (!up->stale) {
        up->stats.stale++;
        belfry_logf(up->log, BELFRY_LOG_WARN, "upstream_stale", "rev=%" PRId64, ingest_head(up->ingest));
    }
    up->stale = true;
}

void upstream_cut_off(struct upstream *up, uint64_t now_ms)
{
    up->now = now_ms;
    become_stale(up);
}

/* What is not read yet may be damaged too: the store is filled anew. Until it is, what passes its checks is served. */
static void mind_damage(struct upstream *up)
{
    if (up->state != UPSTREAM_LISTING && up->store->api->damaged(up->store))
        upstream_relist(up, EVLOG_CUT_DAMAGED, 0, "the replica is damaged");
}

void upstream_tick(struct upstream *up, uint64_t now_ms)
{
    up->now = now_ms;
    start(up);
    note_gap(up);
    up->ticked_at = now_ms;
    ingest_tick(up->ingest, now_ms);
    mind_damage(up);
    pump(up);
    upstream_adopt_if_whole(up);
    if (up->now < up->gap_until || up->now < up->heard_at + UPSTREAM_STALE_MS)
        return;
    become_stale(up);
    if ((up->state != UPSTREAM_LISTING || upstream_is_listing(up)) && !up->read.wanted)
        ask_later(up); /* a cluster that was set back says nothing to a watch from a revision it has not reached */
}

static uint64_t question_due(const struct question *question)
{
    return question->wanted && question->token == 0 ? question->at : BELFRY_NEVER;
}

uint64_t upstream_due(const struct upstream *up)
{
    uint64_t due = up->ticked_at + UPSTREAM_TICK_MS;
    due = belfry_min_time(due, ingest_due(up->ingest));
    due = belfry_min_time(due, replay_due(&up->replay));
    due = belfry_min_time(due, question_due(&up->read));
    due = belfry_min_time(due, question_due(&up->witness));
    if (up->replay.lanes[0].refused && !up->vouching && !ingest_is_stuck(up->ingest)) /* then ingest says when */
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
    return up->state == UPSTREAM_LIVE && !up->stale;
}

bool upstream_proven(const struct upstream *up)
{
    return up->proven;
}

void upstream_stats(const struct upstream *up, struct upstream_stats *out)
{
    *out = up->stats;
}
