/* tests/sim/feed.c
 *
 * The ingest thread of a tier: what the daemon's wiring will do with upstream's streams, reads and timers, in the order
 * of a libuv loop: timers, then sockets, then what follows from both.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cover.h"
#include "sim/tier_private.h"
#include "sim/trace.h"
#include "sim/verdict.h"

static const char everything[1] = {0};

void feed_start(struct tier *tier)
{
    struct feed *feed = &tier->feed;
    struct belfry_mux_opts opts = {.max_revision_bytes = 64 * 1024 * 1024};
    *feed = (struct feed){.last_ms = sched_now(tier->opts.sched)};
    belfry_list_init(&feed->reads);
    belfry_list_init(&feed->jobs);
    belfry_list_init(&feed->backfilling);
    if (belfry_mux_create(&opts, &feed->live.mux) != BELFRY_OK ||
        belfry_mux_create(&opts, &feed->back.mux) != BELFRY_OK)
        abort();
}

static void free_read(struct read *read)
{
    belfry_list_remove(&read->node);
    etcd_read_end(read->read);
    free(read->key);
    free(read);
}

static void hang_up(struct feed_mux *mux)
{
    if (mux->link == NULL)
        return;
    link_leave_client(mux->link);
    mux->link = NULL;
    belfry_buf_clear(&mux->in);
    belfry_mux_stream_down(mux->mux);
}

static void stop_mux(struct feed_mux *mux)
{
    hang_up(mux);
    belfry_mux_destroy(mux->mux);
    belfry_buf_fini(&mux->in);
}

void feed_stop(struct tier *tier)
{
    struct feed *feed = &tier->feed;
    stop_mux(&feed->live);
    stop_mux(&feed->back);
    belfry_list_each_safe (node, &feed->reads)
        free_read(belfry_container(node, struct read, node));
    free(feed->events);
    feed->events = NULL;
}

/* ---- what comes on the streams ---- */

static struct feed_mux *mux_of(struct tier *tier, unsigned slot)
{
    return slot >= BACKFILL_SLOT ? &tier->feed.back : &tier->feed.live;
}

static unsigned slot_of(struct tier *tier, const struct belfry_mux_watch *watch)
{
    unsigned slot = 0;
    while (tier->feed.slots[slot] != watch)
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

static enum belfry_mux_verdict on_events(struct tier *tier, unsigned slot, const struct belfry_mux_action *action,
                                         uint64_t now)
{
    gather_events(&tier->feed, &action->group);
    struct ingest_revision revision = {
        .rev = action->rev, .events = tier->feed.events, .n = action->group.n_events, .header = action->header};
    bool taken = slot >= BACKFILL_SLOT ? backfill_on_revision(tier->backfill, slot, &revision, now)
                                       : upstream_on_revision(tier->upstream, slot, &revision, now);
    TRACE(tier->opts.name, "slot %u: revision %lld, %zu events, header %lld%s", slot, (long long)revision.rev,
          revision.n, (long long)revision.header.revision, taken ? "" : " (not taken)");
    return taken ? BELFRY_MUX_MORE : BELFRY_MUX_KEEP;
}

static void on_progress(struct tier *tier, unsigned slot, const struct belfry_mux_action *action, uint64_t now)
{
    struct belfry_wire_header header = action->header;
    header.revision = action->rev;
    TRACE(tier->opts.name, "slot %u: progress %lld", slot, (long long)header.revision);
    if (slot >= BACKFILL_SLOT)
        backfill_on_progress(tier->backfill, slot, &header, now);
    else
        upstream_on_progress(tier->upstream, slot, &header, now);
}

static void on_end(struct tier *tier, unsigned slot, const struct belfry_mux_action *action, uint64_t now)
{
    TRACE(tier->opts.name, "slot %u: ended, %s compact=%lld (%s)", slot, belfry_errname((int)action->err),
          (long long)action->rev, action->why);
    tier->feed.slots[slot] = NULL;
    if (slot >= BACKFILL_SLOT)
        backfill_on_end(tier->backfill, slot, action->err, action->rev, now);
    else
        upstream_on_end(tier->upstream, slot, action->err, action->rev, now);
}

static void on_created(struct tier *tier, unsigned slot, const struct belfry_wire_header *header, uint64_t now)
{
    TRACE(tier->opts.name, "slot %u: created at %lld", slot, (long long)header->revision);
    if (slot >= BACKFILL_SLOT)
        backfill_on_created(tier->backfill, slot, header, now);
    else
        upstream_on_created(tier->upstream, slot, header, now);
}

/* False: the stream is of no use any more. */
static bool take_actions(struct tier *tier, struct feed_mux *mux, uint64_t now)
{
    struct belfry_mux_action action;
    for (;;) {
        enum belfry_err err = belfry_mux_next(mux->mux, &action);
        if (err != BELFRY_OK)
            return err == BELFRY_ERR_AGAIN;
        unsigned slot = slot_of(tier, action.watch);
        enum belfry_mux_verdict verdict = BELFRY_MUX_MORE;
        switch (action.act) {
        case BELFRY_MUX_EVENTS:
            verdict = on_events(tier, slot, &action, now);
            break;
        case BELFRY_MUX_PROGRESS:
            on_progress(tier, slot, &action, now);
            break;
        case BELFRY_MUX_CREATED: /* a tier does not ask for it */
            break;
        case BELFRY_MUX_LOST:
            TRACE(tier->opts.name, "slot %u: lost", slot);
            backfill_on_lost(tier->backfill, slot, now);
            break;
        case BELFRY_MUX_END:
            on_end(tier, slot, &action, now);
            break;
        }
        belfry_mux_taken(mux->mux, verdict);
    }
}

static bool on_message(struct tier *tier, struct feed_mux *mux, struct belfry_blob *message, uint64_t now)
{
    struct belfry_wire_watch watch;
    if (belfry_scan_watch(belfry_blob_bytes(message), &watch) != BELFRY_OK) {
        verdict_fail("%s: a message from upstream cannot be read", tier->opts.name);
        return false;
    }
    struct belfry_mux_watch *created = watch.created && !watch.canceled ? belfry_mux_creating(mux->mux) : NULL;
    if (belfry_mux_message(mux->mux, message, now) != BELFRY_OK) {
        verdict_fail("%s: the mux refuses a message from upstream", tier->opts.name);
        return false;
    }
    if (created != NULL)
        on_created(tier, slot_of(tier, created), &watch.header, now);
    return take_actions(tier, mux, now);
}

/* Reads some of what has arrived. */
static void read_stream(struct tier *tier, struct feed_mux *mux, uint64_t now)
{
    struct sched *sched = tier->opts.sched;
    if (mux->link == NULL)
        return;
    bool ended = link_ended(mux->link);
    link_read(mux->link, 1 + sched_below(sched, sched_one_in(sched, 4) ? 100 : 20000), &mux->in);
    for (struct belfry_blob *message; (message = link_cut(&mux->in)) != NULL;) {
        bool good = on_message(tier, mux, message, now);
        belfry_blob_unref(message);
        if (!good) {
            ended = true;
            break;
        }
    }
    if (!ended && belfry_mux_tick(mux->mux, now) == BELFRY_OK)
        return;
    TRACE(tier->opts.name, "upstream stream is down");
    hang_up(mux);
    (void)take_actions(tier, mux, now);
    mux->retry_ms = now + sched_below(sched, 200);
}

static bool stream_drained(const struct feed_mux *mux)
{
    return mux->link == NULL || link_arrived(mux->link) == 0;
}

/* ---- reads ---- */

static void begin_read(struct tier *tier, const struct upstream_action *action, uint64_t now)
{
    struct read *read = calloc(1, sizeof(*read));
    if (read == NULL || (read->key = malloc(action->key.len + 1)) == NULL)
        abort();
    if (action->key.len > 0)
        memcpy(read->key, action->key.data, action->key.len);
    read->action = *action;
    read->action.key = belfry_bytes_of(read->key, action->key.len);
    read->at_ms = now + sched_below(tier->opts.sched, tier->opts.delay_ms * 2 + 1);
    belfry_list_append(&tier->feed.reads, &read->node);
}

static void reach_upstream(struct tier *tier, struct read *read)
{
    struct etcd *etcd = tier->opts.peer.etcd;
    const struct upstream_action *action = &read->action;
    bool page = action->want == UPSTREAM_WANT_PAGE;
    struct etcd_range range = {.key = page ? action->key : belfry_bytes_of(everything, 1),
                               .range_end = belfry_bytes_of(everything, 1),
                               .limit = page ? action->limit : 0,
                               .revision = page ? action->rev : 0,
                               .count_only = !page};
    unsigned member = (unsigned)sched_below(tier->opts.sched, etcd_members(etcd));
    if (tier->feed.restores == etcd_counts(etcd)->restores)
        read->read = etcd_read_begin(etcd, member, &range);
    tier->feed.restores = etcd_counts(etcd)->restores; /* a restore breaks every connection: the first read finds out */
    read->state = READ_THERE;
}

static void come_back(struct tier *tier, struct read *read, uint64_t now)
{
    read->err =
        read->read == NULL ? BELFRY_ERR_UNAVAILABLE : etcd_read_poll(read->read, &read->response, &read->header);
    if (read->err == BELFRY_ERR_AGAIN)
        return;
    if (sched_one_in(tier->opts.sched, 20))
        read->err = BELFRY_ERR_TIMEOUT; /* the answer came too late; the connection is still there */
    read->state = READ_BACK;
    read->at_ms = now + sched_below(tier->opts.sched, tier->opts.delay_ms * 2 + 1);
    sched_wake(tier->opts.sched, tier->ingest_actor, read->at_ms);
}

uint64_t tier_run_reads(struct tier *tier)
{
    uint64_t now = sched_now(tier->opts.sched), due = BELFRY_NEVER;
    if (!tier->up)
        return due;
    belfry_list_each (node, &tier->feed.reads) {
        struct read *read = belfry_container(node, struct read, node);
        if (read->state == READ_GOING && read->at_ms <= now)
            reach_upstream(tier, read);
        if (read->state == READ_THERE)
            come_back(tier, read, now);
        if (read->state != READ_BACK)
            due = belfry_min_time(due, read->state == READ_GOING ? read->at_ms : now + 1);
    }
    return due;
}

static void end_reads(struct tier *tier, uint64_t now)
{
    belfry_list_each_safe (node, &tier->feed.reads) {
        struct read *read = belfry_container(node, struct read, node);
        if (read->state != READ_BACK || read->at_ms > now)
            continue;
        TRACE(tier->opts.name, "%s answered: %s, %lld", read->action.want == UPSTREAM_WANT_PAGE ? "page" : "revision",
              belfry_errname((int)read->err), (long long)read->header.revision);
        if (read->err != BELFRY_OK)
            upstream_on_read_failed(tier->upstream, read->action.token, read->err, now);
        else if (read->action.want == UPSTREAM_WANT_REVISION)
            upstream_on_read(tier->upstream, read->action.token, &read->header, now);
        else
            upstream_on_page(tier->upstream, read->action.token, read->response, now);
        free_read(read);
    }
}

/* ---- what is wanted ---- */

static void open_watch(struct tier *tier, const struct upstream_action *action)
{
    struct feed *feed = &tier->feed;
    struct belfry_mux *mux = mux_of(tier, action->slot)->mux;
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

static void act(struct tier *tier, struct feed_mux *mux, const struct upstream_action *action, uint64_t now)
{
    static const char *const names[] = {"watch", "close", "revision", "page", "progress", "pause", "resume"};
    struct belfry_mux_watch *watch = tier->feed.slots[action->slot];
    TRACE(tier->opts.name, "wants %s slot=%u rev=%lld state=%d", names[action->want], action->slot,
          (long long)action->rev, (int)upstream_state(tier->upstream));
    switch (action->want) {
    case UPSTREAM_WANT_WATCH:
        open_watch(tier, action);
        break;
    case UPSTREAM_WANT_CLOSE:
        if (watch != NULL)
            belfry_mux_remove(mux->mux, watch);
        tier->feed.slots[action->slot] = NULL;
        break;
    case UPSTREAM_WANT_REVISION:
    case UPSTREAM_WANT_PAGE:
        begin_read(tier, action, now);
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

static void act_all(struct tier *tier, uint64_t now)
{
    struct upstream_action action;
    for (unsigned n = 0; upstream_next(tier->upstream, now, &action); n++) {
        act(tier, &tier->feed.live, &action, now);
        if (n > 10000) {
            verdict_fail("%s: upstream wants something without end", tier->opts.name);
            return;
        }
    }
    for (unsigned n = 0; backfill_next(tier->backfill, now, &action); n++) {
        act(tier, &tier->feed.back, &action, now);
        if (n > 10000) {
            verdict_fail("%s: backfill wants something without end", tier->opts.name);
            return;
        }
    }
}

static void send_requests(struct tier *tier, struct feed_mux *mux, uint64_t now)
{
    struct belfry_buf request;
    if (mux->link == NULL) {
        if (!belfry_mux_wants_stream(mux->mux) || now < mux->retry_ms)
            return;
        mux->link = tier->opts.peer.dial(tier->opts.peer.user, tier->ingest_actor);
        if (mux->link == NULL) {
            mux->retry_ms = now + 20 + sched_below(tier->opts.sched, 200);
            return;
        }
        belfry_mux_stream_up(mux->mux, now);
    }
    belfry_buf_init(&request);
    while (belfry_mux_pull(mux->mux, now, &request) == BELFRY_OK) {
        link_send(mux->link, belfry_buf_bytes(&request));
        belfry_buf_clear(&request);
    }
    belfry_buf_fini(&request);
}

/* ---- backfills ---- */

static void ask_backfill(struct tier *tier, struct job *job, uint64_t now)
{
    job->token = ++tier->feed.tokens;
    enum belfry_err err =
        backfill_request(tier->backfill, job->fetch.past, job->fetch.from, job->oldest, job->token, now);
    TRACE(tier->opts.name, "backfill: past=%llu from=%lld oldest=%lld token=%llu -> %s",
          (unsigned long long)job->fetch.past, (long long)job->fetch.from, (long long)job->oldest,
          (unsigned long long)job->token, belfry_errname((int)err));
    if (err != BELFRY_OK)
        tier_answer(tier, job, err, NULL, 0);
    else
        belfry_list_append(&tier->feed.backfilling, &job->node);
}

static void end_backfills(struct tier *tier)
{
    struct backfill_answer answer;
    while (backfill_answer(tier->backfill, &answer)) {
        struct job *job = NULL;
        belfry_list_each (node, &tier->feed.backfilling)
            if (job_of(node)->token == answer.token)
                job = job_of(node);
        TRACE(tier->opts.name, "backfill answers %llu: %s upto=%lld compact=%lld", (unsigned long long)answer.token,
              belfry_errname((int)answer.err), answer.segment != NULL ? (long long)answer.segment->upto : 0,
              (long long)answer.compact_rev);
        if (job == NULL) {
            verdict_fail("%s: backfill answers what was not asked", tier->opts.name);
            segment_unref(answer.segment);
            return;
        }
        if (answer.err == BELFRY_ERR_COMPACTED && answer.compact_rev == ingest_head(tier->ingest) + 1)
            tier->feed.capped = answer.compact_rev;
        COVER_BY(resume_backfill, answer.err == BELFRY_OK);
        COVER_BY(backfill_canceled, answer.err == BELFRY_ERR_CANCELED);
        COVER_BY(backfill_compacted, answer.err == BELFRY_ERR_COMPACTED);
        belfry_list_remove(&job->node);
        tier_answer(tier, job, answer.err, answer.segment, answer.compact_rev);
    }
}

/* ---- the loop ---- */

static void run_timers(struct tier *tier, uint64_t now)
{
    if (now >= upstream_due(tier->upstream))
        upstream_tick(tier->upstream, now);
    if (now >= backfill_due(tier->backfill))
        backfill_tick(tier->backfill, now);
    if (now >= ingest_due(tier->ingest))
        ingest_tick(tier->ingest, now);
}

static void tell_workers(struct tier *tier, uint64_t now)
{
    struct evlog_view view;
    tier_look(tier, &view);
    if (view.cut.past != tier->feed.past) {
        TRACE(tier->opts.name, "past %llu begins at %lld why=%d compact=%lld", (unsigned long long)view.cut.past,
              (long long)view.cut.rev, (int)view.cut.why, (long long)view.cut.compact_rev);
        tier->feed.past = view.cut.past;
        tier->feed.told = -1;
        backfill_cut(tier->backfill, view.cut.past, now);
    }
    bool stale = upstream_stale(tier->upstream);
    for (unsigned i = 0; i < tier->opts.n_workers; i++) {
        struct server *server = &tier->servers[i];
        if (view.head != tier->feed.told || server->stale != stale)
            sched_wake(tier->opts.sched, server->actor, now + sched_below(tier->opts.sched, tier->opts.delay_ms + 1));
        server->stale = stale;
    }
    tier->feed.told = view.head;
}

static uint64_t next_due(struct tier *tier)
{
    struct feed *feed = &tier->feed;
    uint64_t due = belfry_min_time(upstream_due(tier->upstream), backfill_due(tier->backfill));
    due = belfry_min_time(due, ingest_due(tier->ingest));
    due = belfry_min_time(due, tier_jobs_due(&feed->jobs));
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
    return due;
}

uint64_t feed_step(void *arg)
{
    struct tier *tier = arg;
    struct feed *feed = &tier->feed;
    uint64_t now = sched_now(tier->opts.sched);
    bool fresh = !upstream_stale(tier->upstream);
    bool late = upstream_due(tier->upstream) != BELFRY_NEVER && now >= upstream_due(tier->upstream) + UPSTREAM_GAP_MS;
    run_timers(tier, now);
    bool judged = fresh && late && upstream_stale(tier->upstream);
    read_stream(tier, &feed->live, now);
    read_stream(tier, &feed->back, now);
    end_reads(tier, now);
    if (judged && !upstream_stale(tier->upstream))
        verdict_fail("%s: judged stale after a pause while its socket held a sign of life", tier->opts.name);
    if (stream_drained(&feed->live)) {
        upstream_drained(tier->upstream, now);
        ingest_drained(tier->ingest, now);
    }
    for (struct job *job; (job = tier_take(tier, &feed->jobs)) != NULL;)
        ask_backfill(tier, job, now);
    tell_workers(tier, now);
    act_all(tier, now);
    (void)take_actions(tier, &feed->live, now); /* of watches that were resumed */
    (void)take_actions(tier, &feed->back, now);
    end_backfills(tier);
    tell_workers(tier, now);
    send_requests(tier, &feed->live, now);
    send_requests(tier, &feed->back, now);
    feed->last_ms = now;
    return next_due(tier);
}
