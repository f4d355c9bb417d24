/* tests/sim/feed.c: one step is one round of a libuv loop: timers, then sockets, then what follows from both. */
#include "sim/feed.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cover.h"
#include "sim/trace.h"
#include "sim/verdict.h"

/* A read of upstream. */
enum read_state { READ_GOING, READ_THERE, READ_BACK };

struct read {
    struct belfry_list node;
    enum read_state state;
    uint64_t at_ms; /* when it reaches upstream, or is back */
    struct upstream_action action;
    char *key; /* the action's, a copy */
    struct etcd_read *read;
    enum belfry_err err;
    struct belfry_wire_header header;
    struct belfry_bytes response; /* lent by `read` */
};

static const char everything[1] = {0};

/* The term of what the store has. */
static void begin_term(struct feed *feed)
{
    struct store_meta meta;
    feed->store->api->meta(feed->store, &meta);
    term_begin(feed->term, meta.revision != 0 ? meta.cluster_id : 0, meta.raft_term);
}

void feed_start(struct feed *feed, const struct tier_opts *opts, const struct feed_parts *parts, bool *warm)
{
    struct ingest_opts ingest = {.store = parts->store,
                                 .evlog = parts->log,
                                 .extent_bytes = opts->extent_bytes,
                                 .trim_rows = 50,
                                 .whole_scope = true};
    struct upstream_opts upstream = {.store = parts->store,
                                     .key = {"", 1},
                                     .range_end = {"", 1},
                                     .window = opts->window,
                                     .far = opts->far,
                                     .page = opts->page,
                                     .replay_bytes = opts->replay_bytes,
                                     .seed = opts->seed};
    struct belfry_mux_opts mux = {.max_revision_bytes = 64 * 1024 * 1024};
    *feed = (struct feed){.opts = opts,
                          .servers = parts->servers,
                          .store = parts->store,
                          .term = parts->term,
                          .last_ms = sched_now(opts->sched)};
    jobs_init(&feed->jobs, opts->sched, opts->delay_ms);
    belfry_list_init(&feed->reads);
    belfry_list_init(&feed->backfilling);
    if (ingest_create(&ingest, &feed->ingest) != BELFRY_OK)
        abort();
    upstream.ingest = feed->ingest;
    if (ingest_open(feed->ingest, warm) != BELFRY_OK || upstream_create(&upstream, &feed->upstream) != BELFRY_OK ||
        backfill_create(opts->backfill_bytes, opts->seed + 1, &feed->backfill) != BELFRY_OK ||
        belfry_mux_create(&mux, &feed->live.mux) != BELFRY_OK || belfry_mux_create(&mux, &feed->back.mux) != BELFRY_OK)
        abort();
    backfill_prove_by(feed->backfill, feed->ingest);
    question_init(&feed->stream, opts->sched);
    begin_term(feed);
}

static void free_read(struct read *read)
{
    belfry_list_remove(&read->node);
    etcd_read_end(read->read);
    free(read->key);
    free(read);
}

static void hang_up(struct feed *feed, struct feed_mux *mux)
{
    if (mux->link == NULL)
        return;
    link_leave_client(mux->link);
    mux->link = NULL;
    if (mux == &feed->live)
        question_link(&feed->stream, NULL);
    belfry_buf_clear(&mux->in);
    belfry_mux_stream_down(mux->mux);
}

static void stop_mux(struct feed *feed, struct feed_mux *mux)
{
    hang_up(feed, mux);
    belfry_mux_destroy(mux->mux);
    belfry_buf_fini(&mux->in);
}

void feed_stop(struct feed *feed)
{
    readpoint_fini(&feed->point);
    question_fini(&feed->stream);
    if (feed->opts->reads)
        mails_end(&feed->thread.thread);
    stop_mux(feed, &feed->live);
    stop_mux(feed, &feed->back);
    belfry_list_each_safe (node, &feed->reads)
        free_read(belfry_container(node, struct read, node));
    free(feed->events);
    jobs_drop(&feed->jobs.list);
    jobs_drop(&feed->backfilling);
    backfill_destroy(feed->backfill);
    upstream_destroy(feed->upstream);
    ingest_destroy(feed->ingest);
}

/* ---- what comes on the streams ---- */

static struct feed_mux *mux_of(struct feed *feed, unsigned slot)
{
    return slot >= BACKFILL_SLOT ? &feed->back : &feed->live;
}

static unsigned slot_of(struct feed *feed, const struct belfry_mux_watch *watch)
{
    unsigned slot = 0;
    while (feed->slots[slot] != watch)
        slot++;
    return slot;
}

static void gather_events(struct feed *feed, const struct belfry_inbox_group *group)
{
    if (feed->events_cap < group->n_events) {
        free(feed->events);
        feed->events_cap = group->n_events * 2;
        feed->events = calloc(feed->events_cap, sizeof(*feed->events));
        if (feed->events == NULL)
            abort();
    }
    struct belfry_inbox_walk walk;
    belfry_inbox_walk(group, &walk);
    for (size_t i = 0; i < group->n_events; i++)
        if (belfry_inbox_walk_next(&walk, &feed->events[i]) != BELFRY_OK)
            abort();
}

static enum belfry_mux_verdict on_events(struct feed *feed, unsigned slot, const struct belfry_mux_action *action,
                                         uint64_t now)
{
    gather_events(feed, &action->group);
    struct ingest_revision revision = {
        .rev = action->rev, .events = feed->events, .n = action->group.n_events, .header = action->header};
    bool taken = slot >= BACKFILL_SLOT ? backfill_on_revision(feed->backfill, slot, &revision, now)
                                       : upstream_on_revision(feed->upstream, slot, &revision, now);
    TRACE(feed->opts->name, "slot %u: revision %lld, %zu events, header %lld%s", slot, (long long)revision.rev,
          revision.n, (long long)revision.header.revision, taken ? "" : " (not taken)");
    return taken ? BELFRY_MUX_MORE : BELFRY_MUX_KEEP;
}

static void on_progress(struct feed *feed, unsigned slot, const struct belfry_mux_action *action, uint64_t now)
{
    struct belfry_wire_header header = action->header;
    header.revision = action->rev;
    TRACE(feed->opts->name, "slot %u: progress %lld", slot, (long long)header.revision);
    if (slot >= BACKFILL_SLOT)
        backfill_on_progress(feed->backfill, slot, &header, now);
    else
        upstream_on_progress(feed->upstream, slot, &header, now);
}

static void on_end(struct feed *feed, unsigned slot, const struct belfry_mux_action *action, uint64_t now)
{
    TRACE(feed->opts->name, "slot %u: ended, %s compact=%lld (%s)", slot, belfry_errname((int)action->err),
          (long long)action->rev, action->why);
    feed->slots[slot] = NULL;
    if (slot >= BACKFILL_SLOT)
        backfill_on_end(feed->backfill, slot, action->err, action->rev, now);
    else
        upstream_on_end(feed->upstream, slot, action->err, action->rev, now);
}

static void on_created(struct feed *feed, unsigned slot, const struct belfry_wire_header *header, uint64_t now)
{
    TRACE(feed->opts->name, "slot %u: created at %lld", slot, (long long)header->revision);
    if (slot >= BACKFILL_SLOT)
        backfill_on_created(feed->backfill, slot, header, now);
    else
        upstream_on_created(feed->upstream, slot, header, now);
}

/* False: the stream is of no use any more. */
static bool take_actions(struct feed *feed, struct feed_mux *mux, uint64_t now)
{
    struct belfry_mux_action action;
    for (;;) {
        enum belfry_err err = belfry_mux_next(mux->mux, &action);
        if (err != BELFRY_OK)
            return err == BELFRY_ERR_AGAIN;
        unsigned slot = slot_of(feed, action.watch);
        enum belfry_mux_verdict verdict = BELFRY_MUX_MORE;
        switch (action.act) {
        case BELFRY_MUX_EVENTS:
            verdict = on_events(feed, slot, &action, now);
            break;
        case BELFRY_MUX_PROGRESS:
            on_progress(feed, slot, &action, now);
            break;
        case BELFRY_MUX_CREATED: /* a tier does not ask for it */
            break;
        case BELFRY_MUX_LOST:
            TRACE(feed->opts->name, "slot %u: lost", slot);
            backfill_on_lost(feed->backfill, slot, now);
            break;
        case BELFRY_MUX_END:
            on_end(feed, slot, &action, now);
            break;
        }
        belfry_mux_taken(mux->mux, verdict);
    }
}

static bool on_message(struct feed *feed, struct feed_mux *mux, struct belfry_blob *message, uint64_t now)
{
    struct belfry_wire_watch watch;
    if (belfry_scan_watch(belfry_blob_bytes(message), &watch) != BELFRY_OK) {
        verdict_fail("%s: a message from upstream cannot be read", feed->opts->name);
        return false;
    }
    term_hear(feed->term, &watch.header);
    if (mux == &feed->live)
        question_served(&feed->stream);
    struct belfry_mux_watch *created = watch.created && !watch.canceled ? belfry_mux_creating(mux->mux) : NULL;
    enum belfry_err err = belfry_mux_message(mux->mux, message, now);
    if (err == BELFRY_ERR_AUTH) /* it would log in again; the tier above judges whether that was right (guard.h) */
        return false;
    if (err != BELFRY_OK) {
        verdict_fail("%s: the mux refuses a message from upstream", feed->opts->name);
        return false;
    }
    if (created != NULL)
        on_created(feed, slot_of(feed, created), &watch.header, now);
    return take_actions(feed, mux, now);
}

/* Reads some of what has arrived. */
static void read_stream(struct feed *feed, struct feed_mux *mux, uint64_t now)
{
    struct sched *sched = feed->opts->sched;
    if (mux->link == NULL)
        return;
    bool ended = link_ended(mux->link);
    link_read(mux->link, 1 + sched_below(sched, sched_one_in(sched, 4) ? 100 : 20000), &mux->in);
    for (struct belfry_blob *message; (message = link_cut(&mux->in)) != NULL;) {
        bool good = on_message(feed, mux, message, now);
        belfry_blob_unref(message);
        if (!good) {
            ended = true;
            break;
        }
    }
    if (!ended && belfry_mux_tick(mux->mux, now) == BELFRY_OK)
        return;
    TRACE(feed->opts->name, "upstream stream is down");
    hang_up(feed, mux);
    (void)take_actions(feed, mux, now);
    mux->retry_ms = now + sched_below(sched, 200);
}

static bool stream_drained(const struct feed_mux *mux)
{
    return mux->link == NULL || link_arrived(mux->link) == 0;
}

/* ---- reads ---- */

static void begin_read(struct feed *feed, const struct upstream_action *action, uint64_t now)
{
    struct read *read = calloc(1, sizeof(*read));
    if (read == NULL || (read->key = malloc(action->key.len + 1)) == NULL)
        abort();
    if (action->key.len > 0)
        memcpy(read->key, action->key.data, action->key.len);
    read->action = *action;
    read->action.key = belfry_bytes_of(read->key, action->key.len);
    read->at_ms = now + sched_below(feed->opts->sched, feed->opts->delay_ms * 2 + 1);
    belfry_list_append(&feed->reads, &read->node);
}

static void reach_upstream(struct feed *feed, struct read *read)
{
    struct etcd *etcd = feed->opts->peer.etcd;
    const struct upstream_action *action = &read->action;
    bool page = action->want == UPSTREAM_WANT_PAGE;
    struct etcd_range range = {.key = page ? action->key : belfry_bytes_of(everything, 1),
                               .range_end = belfry_bytes_of(everything, 1),
                               .limit = page ? action->limit : 0,
                               .revision = page ? action->rev : 0,
                               .count_only = !page};
    unsigned member = (unsigned)sched_below(feed->opts->sched, etcd_members(etcd));
    if (feed->restores == etcd_counts(etcd)->restores)
        read->read = etcd_read_begin(etcd, member, &range);
    feed->restores = etcd_counts(etcd)->restores; /* a restore breaks every connection: the first read finds out */
    read->state = READ_THERE;
}

static void come_back(struct feed *feed, struct read *read, uint64_t now)
{
    read->err =
        read->read == NULL ? BELFRY_ERR_UNAVAILABLE : etcd_read_poll(read->read, &read->response, &read->header);
    if (read->err == BELFRY_ERR_AGAIN)
        return;
    if (read->read != NULL && sched_one_in(feed->opts->sched, 20))
        read->err = BELFRY_ERR_TIMEOUT; /* the answer came too late; the connection is still there */
    read->state = READ_BACK;
    read->at_ms = now + sched_below(feed->opts->sched, feed->opts->delay_ms * 2 + 1);
    sched_wake(feed->opts->sched, feed->jobs.actor, read->at_ms);
}

uint64_t feed_run_reads(struct feed *feed)
{
    uint64_t now = sched_now(feed->opts->sched), due = BELFRY_NEVER;
    belfry_list_each (node, &feed->reads) {
        struct read *read = belfry_container(node, struct read, node);
        if (read->state == READ_GOING && read->at_ms <= now)
            reach_upstream(feed, read);
        if (read->state == READ_THERE)
            come_back(feed, read, now);
        if (read->state != READ_BACK)
            due = belfry_min_time(due, read->state == READ_GOING ? read->at_ms : now + 1);
    }
    return due;
}

static void end_reads(struct feed *feed, uint64_t now)
{
    belfry_list_each_safe (node, &feed->reads) {
        struct read *read = belfry_container(node, struct read, node);
        if (read->state != READ_BACK || read->at_ms > now)
            continue;
        TRACE(feed->opts->name, "%s answered: %s, %lld", read->action.want == UPSTREAM_WANT_PAGE ? "page" : "revision",
              belfry_errname((int)read->err), (long long)read->header.revision);
        if (read->err == BELFRY_OK)
            term_hear(feed->term, &read->header);
        if (read->err != BELFRY_OK)
            upstream_on_read_failed(feed->upstream, read->action.token, read->err, now);
        else if (read->action.want == UPSTREAM_WANT_REVISION)
            upstream_on_read(feed->upstream, read->action.token, &read->header, now);
        else
            upstream_on_page(feed->upstream, read->action.token, read->response, now);
        free_read(read);
    }
}

/* ---- what is wanted ---- */

static void open_watch(struct feed *feed, const struct upstream_action *action)
{
    struct belfry_mux *mux = mux_of(feed, action->slot)->mux;
    struct belfry_mux_spec spec = {.key = belfry_bytes_of(everything, 1),
                                   .range_end = belfry_bytes_of(everything, 1),
                                   .rev = action->rev,
                                   .prev_kv = action->slot >= BACKFILL_SLOT,
                                   .lost_notify = action->slot >= BACKFILL_SLOT,
                                   .fragment = true,
                                   .pause_bytes = 2000};
    if (feed->slots[action->slot] != NULL)
        belfry_mux_remove(mux, feed->slots[action->slot]);
    if (belfry_mux_add(mux, &spec, NULL, &feed->slots[action->slot]) != BELFRY_OK)
        abort();
}

static void act(struct feed *feed, struct feed_mux *mux, const struct upstream_action *action, uint64_t now)
{
    static const char *const names[] = {"watch", "close", "revision", "page", "progress", "pause", "resume"};
    struct belfry_mux_watch *watch = feed->slots[action->slot];
    TRACE(feed->opts->name, "wants %s slot=%u rev=%lld state=%d", names[action->want], action->slot,
          (long long)action->rev, (int)upstream_state(feed->upstream));
    switch (action->want) {
    case UPSTREAM_WANT_WATCH:
        open_watch(feed, action);
        break;
    case UPSTREAM_WANT_CLOSE:
        if (watch != NULL)
            belfry_mux_remove(mux->mux, watch);
        feed->slots[action->slot] = NULL;
        break;
    case UPSTREAM_WANT_REVISION:
    case UPSTREAM_WANT_PAGE:
        begin_read(feed, action, now);
        break;
    case UPSTREAM_WANT_PROGRESS:
        belfry_mux_request_progress(mux->mux, now);
        break;
    case UPSTREAM_WANT_PAUSE:
        if (watch != NULL)
            belfry_mux_pause(mux->mux, watch);
        break;
    case UPSTREAM_WANT_RESUME:
        if (watch != NULL)
            belfry_mux_resume(mux->mux, watch);
        break;
    }
}

static void act_all(struct feed *feed, uint64_t now)
{
    struct upstream_action action;
    for (unsigned n = 0; upstream_next(feed->upstream, now, &action); n++) {
        act(feed, &feed->live, &action, now);
        if (n > 10000) {
            verdict_fail("%s: upstream wants something without end", feed->opts->name);
            return;
        }
    }
    if (upstream_due(feed->upstream) <= now && ingest_due(feed->ingest) > now)
        verdict_fail("%s: upstream wants nothing, and is due at once: it would keep a core busy", feed->opts->name);
    for (unsigned n = 0; backfill_next(feed->backfill, now, &action); n++) {
        act(feed, &feed->back, &action, now);
        if (n > 10000) {
            verdict_fail("%s: backfill wants something without end", feed->opts->name);
            return;
        }
    }
}

static void send_requests(struct feed *feed, struct feed_mux *mux, uint64_t now)
{
    struct belfry_buf request;
    if (mux->link == NULL) {
        if (!belfry_mux_wants_stream(mux->mux) || now < mux->retry_ms)
            return;
        mux->link = feed->opts->peer.dial(feed->opts->peer.user, feed->jobs.actor);
        if (mux->link == NULL) {
            mux->retry_ms = now + 20 + sched_below(feed->opts->sched, 200);
            return;
        }
        belfry_mux_stream_up(mux->mux, now);
        if (mux == &feed->live)
            question_link(&feed->stream, mux->link);
    }
    belfry_buf_init(&request);
    while (belfry_mux_pull(mux->mux, now, &request) == BELFRY_OK) {
        link_send(mux->link, belfry_buf_bytes(&request));
        belfry_buf_clear(&request);
    }
    belfry_buf_fini(&request);
}

/* ---- backfills ---- */

static void ask_backfill(struct feed *feed, struct job *job, uint64_t now)
{
    job->token = ++feed->tokens;
    struct backfill_ask ask = {.client = job->fetch.client,
                               .past = job->fetch.past,
                               .from = job->fetch.from,
                               .oldest = job->oldest,
                               .token = job->token};
    enum belfry_err err = backfill_request(feed->backfill, &ask, now);
    TRACE(feed->opts->name, "backfill: past=%llu from=%lld oldest=%lld token=%llu -> %s",
          (unsigned long long)job->fetch.past, (long long)job->fetch.from, (long long)job->oldest,
          (unsigned long long)job->token, belfry_errname((int)err));
    if (err != BELFRY_OK)
        serve_answer(&feed->servers[job->worker], job, err, NULL, 0);
    else
        belfry_list_append(&feed->backfilling, &job->node);
}

/* `head`: what ingest had when the step began; the backfill may have answered at any time since. */
static void end_backfills(struct feed *feed, int64_t head)
{
    struct backfill_answer answer;
    while (backfill_answer(feed->backfill, &answer)) {
        struct job *job = NULL;
        belfry_list_each (node, &feed->backfilling)
            if (job_of(node)->token == answer.token)
                job = job_of(node);
        TRACE(feed->opts->name, "backfill answers %llu: %s upto=%lld compact=%lld", (unsigned long long)answer.token,
              belfry_errname((int)answer.err), answer.segment != NULL ? (long long)answer.segment->upto : 0,
              (long long)answer.compact_rev);
        if (job == NULL) {
            verdict_fail("%s: backfill answers what was not asked", feed->opts->name);
            segment_unref(answer.segment);
            return;
        }
        if (answer.err == BELFRY_ERR_COMPACTED && answer.compact_rev > head &&
            answer.compact_rev <= ingest_head(feed->ingest) + 1)
            feed->capped = answer.compact_rev;
        COVER_BY(resume_backfill, answer.err == BELFRY_OK);
        COVER_BY(backfill_canceled, answer.err == BELFRY_ERR_CANCELED);
        COVER_BY(backfill_compacted, answer.err == BELFRY_ERR_COMPACTED);
        belfry_list_remove(&job->node);
        serve_answer(&feed->servers[job->worker], job, answer.err, answer.segment, answer.compact_rev);
    }
}

/* ---- how far upstream is ---- */

/* As driver_follow() does. */
static void pump_point(struct feed *feed, uint64_t now)
{
    struct readpoint_place place = {.live = upstream_ready(feed->upstream) && upstream_proven(feed->upstream),
                                    .replays = upstream_state(feed->upstream) == UPSTREAM_REPLAYING,
                                    .past = ingest_past(feed->ingest),
                                    .head = ingest_head(feed->ingest),
                                    .committed = ingest_committed(feed->ingest)};
    readpoint_pump(&feed->point, &place, now);
}

/* ---- the loop ---- */

static void run_timers(struct feed *feed, uint64_t now)
{
    if (now >= upstream_due(feed->upstream)) {
        upstream_tick(feed->upstream, now);
        feed->ticked_ms = now;
    }
    if (now >= backfill_due(feed->backfill))
        backfill_tick(feed->backfill, now);
    if (now >= ingest_due(feed->ingest))
        ingest_tick(feed->ingest, now);
}

/* As driver_note_term(). */
static void note_term(struct feed *feed)
{
    struct upstream_stats stats;
    upstream_stats(feed->upstream, &stats);
    if (stats.rewrites != feed->rewrites)
        begin_term(feed);
    feed->rewrites = stats.rewrites;
}

/* As driver_judge_standing(). */
static enum reads_standing judge_standing(const struct feed *feed)
{
    bool stale = upstream_stale(feed->upstream);
    switch (upstream_state(feed->upstream)) {
    case UPSTREAM_START:
    case UPSTREAM_LISTING:
        return stale && feed->been_ready ? READS_STALE : READS_NOT_READY;
    case UPSTREAM_LIVE:
        return stale ? READS_STALE : READS_READY;
    case UPSTREAM_REPLAYING:
        if (upstream_proven(feed->upstream) && !stale)
            return READS_READY;
        break;
    case UPSTREAM_JOINING:
        break;
    }
    return stale && feed->standing == READS_READY ? READS_STALE : feed->standing;
}

static void tell_workers(struct feed *feed, uint64_t now)
{
    struct evlog_view view;
    serve_look(&feed->servers[0], &view);
    if (view.cut.past != feed->past) {
        TRACE(feed->opts->name, "past %llu begins at %lld why=%d compact=%lld", (unsigned long long)view.cut.past,
              (long long)view.cut.rev, (int)view.cut.why, (long long)view.cut.compact_rev);
        feed->past = view.cut.past;
        feed->told = -1;
        note_term(feed);
        backfill_cut(feed->backfill, view.cut.past, now);
    }
    bool stale = upstream_stale(feed->upstream);
    feed->standing = judge_standing(feed);
    feed->been_ready = feed->been_ready || feed->standing == READS_READY;
    if (feed->opts->reads)
        stale = feed->standing != READS_READY; /* as look_at_standing() of the daemon's worker */
    for (unsigned i = 0; i < feed->opts->n_workers; i++) {
        struct server *server = &feed->servers[i];
        if (view.head != feed->told || server->stale != stale ||
            (feed->opts->reads && server->standing != feed->standing))
            sched_wake(feed->opts->sched, server->jobs.actor,
                       now + sched_below(feed->opts->sched, feed->opts->delay_ms + 1));
        server->stale = stale;
        server->standing = feed->standing;
    }
    feed->told = view.head;
}

static uint64_t next_due(struct feed *feed)
{
    uint64_t due = belfry_min_time(upstream_due(feed->upstream), backfill_due(feed->backfill));
    due = belfry_min_time(due, ingest_due(feed->ingest));
    due = belfry_min_time(due, jobs_due(&feed->jobs));
    struct feed_mux *muxes[] = {&feed->live, &feed->back};
    for (int i = 0; i < 2; i++) {
        if (muxes[i]->link != NULL)
            due = belfry_min_time(due, link_client_due(muxes[i]->link));
        else if (belfry_mux_wants_stream(muxes[i]->mux))
            due = belfry_min_time(due, muxes[i]->retry_ms);
        due = belfry_min_time(due, belfry_mux_due(muxes[i]->mux));
    }
    belfry_list_each (node, &feed->reads) {
        const struct read *read = belfry_container(node, struct read, node);
        if (read->state == READ_BACK)
            due = belfry_min_time(due, read->at_ms);
    }
    if (!feed->opts->reads)
        return due;
    due = belfry_min_time(due, belfry_min_time(question_due(&feed->stream), mails_due(&feed->thread.thread)));
    return belfry_min_time(due, readpoint_due(&feed->point));
}

static uint64_t feed_step(void *arg)
{
    struct feed *feed = arg;
    uint64_t now = sched_now(feed->opts->sched);
    int64_t head = ingest_head(feed->ingest);
    bool fresh = !upstream_stale(feed->upstream);
    bool late = feed->ticked_ms != 0 && now > feed->ticked_ms + UPSTREAM_TICK_MS + UPSTREAM_GAP_MS;
    run_timers(feed, now);
    bool judged = fresh && late && upstream_stale(feed->upstream);
    read_stream(feed, &feed->live, now);
    read_stream(feed, &feed->back, now);
    if (feed->opts->reads) {
        question_run(&feed->stream, now);
        mails_open(&feed->thread.thread);
    }
    end_reads(feed, now);
    if (judged && !upstream_stale(feed->upstream))
        verdict_fail("%s: judged stale after a pause while its socket held a sign of life", feed->opts->name);
    if (stream_drained(&feed->live)) {
        upstream_drained(feed->upstream, now);
        ingest_drained(feed->ingest, now);
    }
    for (struct job *job; (job = jobs_take(&feed->jobs)) != NULL;)
        ask_backfill(feed, job, now);
    tell_workers(feed, now);
    act_all(feed, now);
    (void)take_actions(feed, &feed->live, now); /* of watches that were resumed */
    (void)take_actions(feed, &feed->back, now);
    end_backfills(feed, head);
    tell_workers(feed, now);
    send_requests(feed, &feed->live, now);
    send_requests(feed, &feed->back, now);
    if (feed->opts->reads)
        pump_point(feed, now);
    feed->last_ms = now;
    return next_due(feed);
}

void feed_run(struct feed *feed)
{
    feed->jobs.actor = sched_add(feed->opts->sched, ACTOR_THREAD, feed_step, feed);
    if (!feed->opts->reads)
        return;
    struct readpoint_opts point = {
        .stream = &feed->stream, .upstream = feed->upstream, .term = feed->term, .key = belfry_bytes_of(everything, 1)};
    readpoint_init(&feed->point, &point);
    feed->thread.point = &feed->point;
    mails_begin(&feed->thread.thread, feed->opts->sched, feed->opts->delay_ms, feed->jobs.actor, &feed->thread);
}
