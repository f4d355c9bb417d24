/* src/follow/upstream_test.c: the machine against a scripted upstream. The rig does what an owner does: it opens,
 * closes, pauses and resumes watches as it is told, and gives in what the test lets arrive. */
#include "follow/upstream.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "follow/past_fixture.h"
#include "support/modelstore.h"
#include "support/refuse.h"

#define SLOTS (UPSTREAM_WINDOWS + 1)

struct watch {
    bool open, created, paused;
    int64_t from, next;
};

struct rig {
    struct past *past;
    struct store *store;
    struct evlog *evlog;
    struct ingest *ingest;
    struct upstream *up;
    uint64_t now;
    int64_t visible;   /* the member is here; 0: at the head */
    int64_t compacted; /* upstream's */
    struct watch watches[SLOTS];
    uint64_t read_token, page_token;
    struct upstream_action page;
    int64_t opened[256]; /* starts of all watches, in order */
    size_t n_opened;
    size_t pauses, progress_asked;
    size_t replay_bytes;
    uint64_t seed;
    bool scoped;
    struct upstream_stats sum; /* of every life that has ended */
};

static const struct modelstore_opts store_opts = {
    .history_rows = 1000000, .history_age_s = 1000000, .extent_bytes = 1 << 20};

static void rig_open(struct rig *r)
{
    struct evlog_opts log_opts = {.capacity_log2 = 6, .max_bytes = 1 << 20, .n_workers = 1};
    assert_int_equal(evlog_create(&log_opts, &r->evlog), BELFRY_OK);
    struct ingest_opts opts = {.store = r->store, .evlog = r->evlog, .trim_rows = 16, .whole_scope = !r->scoped};
    assert_int_equal(ingest_create(&opts, &r->ingest), BELFRY_OK);
    bool warm;
    assert_int_equal(ingest_open(r->ingest, &warm), BELFRY_OK);
    struct upstream_opts up_opts = {.ingest = r->ingest,
                                    .store = r->store,
                                    .key = {"\0", 1},
                                    .range_end = {"\0", 1},
                                    .window = 10,
                                    .far = 40,
                                    .page = 5,
                                    .replay_bytes = r->replay_bytes,
                                    .seed = r->seed};
    assert_int_equal(upstream_create(&up_opts, &r->up), BELFRY_OK);
}

static void rig_close(struct rig *r)
{
    struct upstream_stats one;
    upstream_stats(r->up, &one);
    r->sum.relists_compacted += one.relists_compacted;
    r->sum.relists_rewritten += one.relists_rewritten;
    r->sum.replays += one.replays;
    r->sum.judgements += one.judgements;
    r->sum.pages_repeated += one.pages_repeated;
    upstream_destroy(r->up);
    ingest_destroy(r->ingest);
    evlog_destroy(r->evlog);
}

static void rig_init(struct rig *r)
{
    *r = (struct rig){.past = past_create(9), .store = modelstore_create(&store_opts), .now = 1000};
    rig_open(r);
}

static void rig_fini(struct rig *r)
{
    rig_close(r);
    modelstore_destroy(r->store);
    past_destroy(r->past);
}

static int rig_setup(void **state)
{
    static struct rig rig;
    rig_init(&rig);
    *state = &rig;
    return 0;
}

static int rig_teardown(void **state)
{
    rig_fini(*state);
    return 0;
}

/* Another upstream and an empty replica, for a test of several ways. */
static void rig_renew(struct rig *r)
{
    rig_fini(r);
    rig_init(r);
}

/* SIGKILL and back. */
static void restart(struct rig *r)
{
    rig_close(r);
    modelstore_crash(r->store);
    memset(r->watches, 0, sizeof(r->watches));
    r->read_token = r->page_token = 0;
    r->n_opened = 0;
    rig_open(r);
}

static int64_t shown(const struct rig *r)
{
    return r->visible != 0 && r->visible < r->past->head ? r->visible : r->past->head;
}

static void act(struct rig *r, const struct upstream_action *a)
{
    struct watch *watch = &r->watches[a->slot];
    switch (a->want) {
    case UPSTREAM_WANT_WATCH:
        assert_false(watch->open);
        *watch = (struct watch){.open = true, .from = a->rev, .next = a->rev};
        if (r->n_opened < 256)
            r->opened[r->n_opened++] = a->rev;
        break;
    case UPSTREAM_WANT_CLOSE:
        *watch = (struct watch){0};
        break;
    case UPSTREAM_WANT_REVISION:
        r->read_token = a->token;
        break;
    case UPSTREAM_WANT_PAGE:
        r->page_token = a->token;
        r->page = *a;
        break;
    case UPSTREAM_WANT_PROGRESS:
        r->progress_asked++;
        break;
    case UPSTREAM_WANT_PAUSE:
        watch->paused = true;
        r->pauses++;
        break;
    case UPSTREAM_WANT_RESUME:
        watch->paused = false;
        break;
    }
}

/* Does what is wanted, until nothing is. */
static void obey(struct rig *r)
{
    struct upstream_action action;
    for (int i = 0; upstream_next(r->up, r->now, &action); i++) {
        assert_true(i < 1000);
        act(r, &action);
    }
}

static void created(struct rig *r, unsigned slot)
{
    struct watch *watch = &r->watches[slot];
    struct belfry_wire_header header = past_header(r->past, shown(r));
    watch->created = true;
    upstream_on_created(r->up, slot, &header, r->now);
    if (watch->next < r->compacted) {
        int64_t compacted = r->compacted;
        *watch = (struct watch){0};
        upstream_on_end(r->up, slot, BELFRY_ERR_COMPACTED, compacted, r->now);
    }
    obey(r);
}

/* One revision of a watch; false: there is none, or it was not taken. */
static bool deliver(struct rig *r, unsigned slot)
{
    struct watch *watch = &r->watches[slot];
    if (!watch->open || !watch->created || watch->paused)
        return false;
    if (watch->next < 2)
        watch->next = 2;
    if (watch->next > shown(r))
        return false;
    struct ingest_revision revision = past_revision(r->past, watch->next, PAST_BARE);
    bool taken = upstream_on_revision(r->up, slot, &revision, r->now);
    watch->next += taken;
    watch->paused = !taken;
    obey(r);
    return taken;
}

/* A progress, as etcd gives one: only if the watch has everything. */
static bool progress(struct rig *r, unsigned slot)
{
    struct watch *watch = &r->watches[slot];
    if (!watch->open || !watch->created || watch->paused || watch->next != shown(r) + 1)
        return false;
    struct belfry_wire_header header = past_header(r->past, shown(r));
    upstream_on_progress(r->up, slot, &header, r->now);
    obey(r);
    return true;
}

static bool answer_read(struct rig *r)
{
    uint64_t token = r->read_token;
    if (token == 0)
        return false;
    struct belfry_wire_header header = past_header(r->past, r->past->head);
    r->read_token = 0;
    upstream_on_read(r->up, token, &header, r->now);
    obey(r);
    return true;
}

static bool answer_page(struct rig *r)
{
    uint64_t token = r->page_token;
    if (token == 0)
        return false;
    r->page_token = 0;
    if (r->page.rev != 0 && r->page.rev < r->compacted) {
        upstream_on_read_failed(r->up, token, BELFRY_ERR_COMPACTED, r->now);
    } else if (r->page.rev > r->past->head) {
        upstream_on_read_failed(r->up, token, BELFRY_ERR_FUTURE, r->now);
    } else {
        struct belfry_buf buf;
        belfry_buf_init(&buf);
        int64_t rev = r->page.rev != 0 ? r->page.rev : r->past->head;
        upstream_on_page(r->up, token, past_page(r->past, rev, r->page.key, r->page.limit, &buf), r->now);
        belfry_buf_fini(&buf);
    }
    obey(r);
    return true;
}

static void pass(struct rig *r, uint64_t ms)
{
    for (uint64_t end = r->now + ms; r->now < end;) {
        uint64_t due = upstream_due(r->up);
        r->now = due > r->now ? (due < end ? due : end) : r->now + 1;
        if (upstream_due(r->up) <= r->now)
            upstream_tick(r->up, r->now);
        obey(r);
    }
}

/* Everything that can happen does, until nothing can. */
static void settle(struct rig *r)
{
    obey(r);
    for (bool moved = true; moved;) {
        moved = answer_read(r) || answer_page(r);
        for (unsigned slot = 0; slot < SLOTS; slot++) {
            if (r->watches[slot].open && !r->watches[slot].created) {
                created(r, slot);
                moved = true;
            }
            while (deliver(r, slot))
                moved = true;
        }
    }
    upstream_drained(r->up, r->now);
}

static void go_live(struct rig *r, int64_t head)
{
    past_fill(r->past, head, "a");
    settle(r);
    assert_int_equal(upstream_state(r->up), UPSTREAM_LIVE);
    assert_int_equal(ingest_head(r->ingest), head);
}

/* Upstream is written on to `head`, and all that can follow follows. */
static void go_on(struct rig *r, int64_t head)
{
    past_fill(r->past, head, "b");
    settle(r);
}

static struct upstream_stats stats(const struct rig *r)
{
    struct upstream_stats stats;
    upstream_stats(r->up, &stats);
    return stats;
}

static struct evlog_cut cut_of(struct rig *r)
{
    struct evlog_view view;
    evlog_enter(r->evlog, 0, &view);
    evlog_leave(r->evlog, 0);
    return view.cut;
}

/* ---- comparing ---- */

struct rows {
    const struct past *past;
    int next;
};

static bool row_is_right(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    struct rows *rows = user;
    uint8_t raw[128];
    while (rows->next < PAST_KEYS && rows->past->now[rows->next].version == 0)
        rows->next++;
    assert_true(rows->next < PAST_KEYS);
    size_t len = past_encode_kv(rows->next, &rows->past->now[rows->next], raw);
    rows->next++;
    assert_true(belfry_bytes_equal(kv, belfry_bytes_of(raw, len)));
    (void)key;
    return true;
}

/* We are live, and the state is upstream's. */
static void assert_follows(struct rig *r)
{
    upstream_drained(r->up, r->now);
    assert_int_equal(upstream_state(r->up), UPSTREAM_LIVE);
    assert_int_equal(ingest_committed(r->ingest), r->past->head);
    struct rows rows = {.past = r->past};
    struct store_read read = {.max_rows = 1000, .max_bytes = 1 << 20};
    struct store_page page;
    assert_int_equal(r->store->api->range(r->store, &read, row_is_right, &rows, &page), BELFRY_OK);
    for (; rows.next < PAST_KEYS; rows.next++)
        assert_int_equal(r->past->now[rows.next].version, 0);
}

/* The cluster comes back from a backup of `rev` and is written on to `head`. */
static void rewrite(struct rig *r, int64_t rev, int64_t head)
{
    struct past *past = past_fork(r->past, rev);
    past_fill(past, head, "rewritten");
    past_destroy(r->past);
    r->past = past;
}

/* ---- joining ---- */

static void empty_replica_lists_and_then_follows(void **state)
{
    struct rig *r = *state;
    past_fill(r->past, 30, "a");
    obey(r);
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_START);
    assert_int_equal(stats(r).pages, 5);
    past_delete(r->past, 3);
    past_put(r->past, 3, "b");
    settle(r);
    assert_follows(r);
    assert_int_equal(stats(r).listings, 1);
}

static void warm_replica_joins_at_its_last_revision(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    go_on(r, 14);
    restart(r);
    go_on(r, 20);
    assert_int_equal(r->opened[0], 14);
    assert_follows(r);
    assert_int_equal(stats(r).overlaps, 1);
    assert_int_equal(stats(r).revisions, 6);
    assert_int_equal(stats(r).listings, 0);
}

static void overlap_that_differs_means_a_rewritten_past(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    go_on(r, 14);
    restart(r);
    rewrite(r, 12, 20);
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_REWRITTEN);
    assert_int_equal(cut_of(r).compact_rev, cut_of(r).rev);
    assert_int_equal(stats(r).breaches, 1);
}

static void overlap_that_upstream_passes_over_means_a_rewritten_past(void **state)
{
    struct rig *r = *state;
    for (int by_progress = 0; by_progress < 2; by_progress++) {
        rig_renew(r);
        go_live(r, 10);
        go_on(r, 14);
        restart(r);
        past_fill(r->past, 16, "c");
        obey(r);
        created(r, 0);
        r->watches[0].next = by_progress ? 17 : 15;
        if (by_progress)
            assert_true(progress(r, 0));
        else
            assert_true(deliver(r, 0));
        assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
        assert_int_equal(stats(r).relists_rewritten, 1);
    }
}

static void resumed_watch_joins_again_with_an_overlap(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    go_on(r, 12);
    uint64_t overlaps = stats(r).overlaps;
    created(r, 0); /* the owner's client found another member and went on at 13 */
    assert_int_equal(upstream_state(r->up), UPSTREAM_JOINING);
    assert_int_equal(r->watches[0].from, 12);
    settle(r);
    assert_follows(r);
    assert_int_equal(stats(r).overlaps, overlaps + 1);

    rewrite(r, 11, 30);
    created(r, 0);
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_REWRITTEN);
}

static void listing_is_overlapped_too(void **state)
{
    struct rig *r = *state;
    go_live(r, 10); /* not an event since the listing */
    assert_int_equal(stats(r).revisions, 0);
    rewrite(r, 9, 12);
    created(r, 0);
    assert_int_equal(r->watches[0].from, 10);
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_REWRITTEN);
}

/* No history at all behind a listing: what its last revision left is compared. */
static void listing_opened_anew_is_compared_by_its_state(void **state)
{
    struct rig *r = *state;
    for (int rewritten = 0; rewritten < 2; rewritten++) {
        rig_renew(r);
        go_live(r, 10);
        restart(r);
        if (rewritten)
            rewrite(r, 9, 30);
        else
            past_fill(r->past, 30, "b");
        obey(r);
        assert_int_equal(r->watches[0].from, 10);
        created(r, 0);
        assert_int_equal(upstream_state(r->up), UPSTREAM_JOINING);
        deliver(r, 0);
        assert_int_equal(upstream_state(r->up), rewritten ? UPSTREAM_LISTING : UPSTREAM_LIVE);
        settle(r);
        assert_follows(r);
        assert_int_equal(cut_of(r).why, rewritten ? EVLOG_CUT_REWRITTEN : EVLOG_CUT_START);
    }
}

static void listing_whose_head_upstream_passes_over_was_rewritten(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    restart(r);
    past_fill(r->past, 12, "b");
    obey(r);
    created(r, 0);
    r->watches[0].next = 11;
    deliver(r, 0);
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
}

static void compacted_overlap_is_joined_behind_the_head_and_judged(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    go_on(r, 12);
    restart(r);
    r->compacted = 13;
    past_fill(r->past, 13, "b");
    r->visible = 12;
    obey(r);
    created(r, 0); /* at 12: compacted */
    assert_int_equal(r->watches[0].from, 13);
    assert_false(answer_page(r)); /* not before the watch is there */
    created(r, 0);
    assert_true(answer_read(r));
    assert_int_equal(upstream_state(r->up), UPSTREAM_JOINING);
    r->visible = 13;
    assert_false(deliver(r, 0)); /* it waits for the witness */
    assert_true(answer_page(r)); /* a key of 12, as it was at 13 */
    assert_int_equal(upstream_state(r->up), UPSTREAM_LIVE);
    r->visible = 0;
    settle(r);
    assert_follows(r);
    assert_int_equal(stats(r).listings, 0);
}

static void compacted_overlap_of_a_rewritten_past_is_found_by_one_key(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    go_on(r, 12);
    restart(r);
    rewrite(r, 10, 14);
    r->compacted = 13;
    obey(r);
    created(r, 0); /* at 12: compacted */
    created(r, 0);
    assert_true(answer_page(r));
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_REWRITTEN);
}

/* Restored from a backup after the compaction was told: the watch that goes on behind our head is of the new past, and
 * whatever was found out before it was created says nothing of it. */
static void restore_before_the_watch_behind_the_compaction_is_found_out(void **state)
{
    struct rig *r = *state;
    for (int how = 0; how < 2; how++) {
        rig_renew(r);
        go_live(r, 10);
        go_on(r, 12);
        restart(r);
        past_fill(r->past, 20, "b");
        r->compacted = 13;
        obey(r);
        created(r, 0); /* at 12: compacted */
        answer_page(r);
        if (how == 1)
            answer_read(r);
        rewrite(r, 11, 60); /* far ahead of us, too */
        for (int i = 0; i < 1000 && upstream_state(r->up) != UPSTREAM_LISTING; i++) {
            for (unsigned slot = 0; slot < SLOTS; slot++)
                if (r->watches[slot].open && !r->watches[slot].created)
                    created(r, slot);
            for (unsigned slot = 0; slot < SLOTS; slot++)
                deliver(r, slot);
            assert_int_equal(ingest_head(r->ingest), 12); /* nothing of the new past follows the old one */
            answer_page(r);
            answer_read(r);
            pass(r, 50);
        }
        settle(r);
        assert_follows(r);
        assert_int_equal(cut_of(r).why, EVLOG_CUT_REWRITTEN);
    }
}

/* The overlap is gone, and the compaction is just behind our head: what was written there may be all that is left. */
static void where_nothing_is_left_to_compare_it_lists_anew(void **state)
{
    struct rig *r = *state;
    enum { CHANGED_JUST_THERE, LAST_WAS_A_DELETE, LISTED_ONLY, WAYS };
    for (int way = 0; way < WAYS; way++) {
        rig_renew(r);
        go_live(r, 10);
        if (way == CHANGED_JUST_THERE)
            past_put(r->past, 3, "b");
        else if (way == LAST_WAS_A_DELETE)
            past_delete(r->past, 3);
        settle(r);
        restart(r);
        int64_t head = ingest_head(r->ingest);
        rewrite(r, head - 1, head - 1);
        past_put(r->past, 3, "of another past");
        past_put(r->past, 3, "what can be read");
        r->compacted = head + 1;
        settle(r);
        assert_follows(r);
        assert_int_equal(cut_of(r).why, EVLOG_CUT_REWRITTEN);
        assert_int_equal(stats(r).relists_unproven, 1);
    }
}

/* Compacted just behind our head; and again, while we ask for a key as it was there. That answer does not say where. */
static void compaction_that_nobody_named_is_not_told(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    go_on(r, 12);
    restart(r);
    past_fill(r->past, 40, "b");
    r->compacted = 13;
    obey(r);
    created(r, 0); /* at 12: compacted */
    created(r, 0);
    assert_int_equal(r->page.rev, 13);
    r->compacted = 30;
    assert_true(answer_page(r));
    r->compacted = 0; /* and restored to before it: nobody will ever tell of 30 */
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_REWRITTEN);
    assert_int_equal(cut_of(r).compact_rev, cut_of(r).rev);
    assert_int_equal(stats(r).relists_unproven, 1);
}

static void compaction_over_our_head_lists_anew_and_says_where(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    restart(r);
    past_fill(r->past, 20, "b");
    r->compacted = 15;
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_COMPACTED);
    assert_int_equal(cut_of(r).compact_rev, 15);
    assert_int_equal(stats(r).relists_compacted, 1);
}

static void tier_that_says_compacted_of_what_is_above_it_was_rewritten(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    rewrite(r, 8, 11);
    upstream_on_end(r->up, 0, BELFRY_ERR_COMPACTED, 11, r->now); /* we need 11: etcd would not */
    r->watches[0].open = false;
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_REWRITTEN);
}

/* A scoped tier that is LIVE: last event at 10, head at 100 by progress. */
static void scoped_live(struct rig *r)
{
    rig_close(r);
    r->scoped = true;
    rig_open(r);
    past_fill(r->past, 5, "a");
    obey(r);
    assert_true(answer_read(r));
    created(r, 0);
    while (answer_page(r))
        ;
    while (deliver(r, 0))
        ;
    past_fill(r->past, 10, "a");
    while (deliver(r, 0))
        ;
    assert_int_equal(upstream_state(r->up), UPSTREAM_LIVE);
    struct belfry_wire_header header = past_header(r->past, 100);
    upstream_on_progress(r->up, 0, &header, r->now);
    upstream_drained(r->up, r->now);
    assert_int_equal(ingest_head(r->ingest), 100);
    assert_int_equal(ingest_overlap(r->ingest), 10);
}

static void tell_progress(struct rig *r, int64_t rev)
{
    struct belfry_wire_header header = past_header(r->past, rev);
    upstream_on_progress(r->up, 0, &header, r->now);
    obey(r);
}

static void a_revision_that_reads_wait_for_is_asked_for_once(void **state)
{
    struct rig *r = *state;
    scoped_live(r);
    size_t before = r->progress_asked;
    upstream_reach(r->up, 100, r->now); /* it is there */
    obey(r);
    assert_int_equal(r->progress_asked, before);
    for (int i = 0; i < 3; i++) {
        upstream_reach(r->up, 120, r->now);
        assert_true(i > 0 || upstream_due(r->up) <= r->now);
        obey(r);
    }
    assert_int_equal(r->progress_asked, before + 1);
    tell_progress(r, 125);
    assert_int_equal(ingest_head(r->ingest), 125);
    r->now += 50;
    obey(r);
    assert_int_equal(r->progress_asked, before + 1);
}

static void progress_that_was_not_far_enough_is_asked_for_again(void **state)
{
    struct rig *r = *state;
    scoped_live(r);
    upstream_reach(r->up, 110, r->now);
    obey(r);
    size_t before = r->progress_asked;
    upstream_reach(r->up, 120, r->now); /* while the first is under way; the client repeats no request */
    tell_progress(r, 110);
    r->now += 10;
    obey(r);
    assert_true(r->progress_asked > before);
    before = r->progress_asked;
    tell_progress(r, 110); /* of a server that lags: not as fast as it answers */
    assert_int_equal(r->progress_asked, before);
    r->now += 10;
    obey(r);
    assert_int_equal(r->progress_asked, before + 1);
    tell_progress(r, 120);
    r->now += 10;
    obey(r);
    assert_int_equal(r->progress_asked, before + 1);
}

static void nothing_is_asked_for_reads_when_every_revision_has_events(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    size_t before = r->progress_asked;
    upstream_reach(r->up, 20, r->now);
    obey(r);
    assert_int_equal(r->progress_asked, before);
}

static void an_answer_below_the_head_that_was_ours_begins_a_listing(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    struct upstream_mark sent = {.past = ingest_past(r->ingest), .head = ingest_head(r->ingest)};
    struct belfry_wire_header header = past_header(r->past, sent.head);
    assert_true(upstream_confirm(r->up, &sent, &header, r->now));
    header.revision--;
    assert_false(upstream_confirm(r->up, &sent, &header, r->now));
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
}

/* The question was sent before a listing, and its answer came late. */
static void an_answer_to_a_question_of_another_past_says_nothing(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    struct upstream_mark sent = {.past = ingest_past(r->ingest) - 1, .head = ingest_head(r->ingest) + 5};
    struct belfry_wire_header header = past_header(r->past, ingest_head(r->ingest));
    assert_false(upstream_confirm(r->up, &sent, &header, r->now));
    assert_int_equal(upstream_state(r->up), UPSTREAM_LIVE);
    header.revision += 10;
    assert_false(upstream_confirm(r->up, &sent, &header, r->now));
}

/* The watch is created where upstream is, and canceled at once. */
static void be_told_compacted(struct rig *r, int64_t compact_rev)
{
    struct belfry_wire_header header = past_header(r->past, 100);
    upstream_on_created(r->up, 0, &header, r->now);
    r->watches[0] = (struct watch){0};
    upstream_on_end(r->up, 0, BELFRY_ERR_COMPACTED, compact_rev, r->now);
}

/* A member that installs a leader's snapshot moves synced watchers to unsynced with the minRev of their last event,
 * which progress does not move: a watch whose scope is quiet is cancelled as compacted though it needs nothing below.
 */
static void watch_of_a_quiet_scope_that_a_snapshot_ended_joins_again(void **state)
{
    struct rig *r = *state;
    scoped_live(r);
    r->watches[0].open = false;
    upstream_on_end(r->up, 0, BELFRY_ERR_COMPACTED, 50, r->now);
    obey(r);
    assert_int_equal(stats(r).relists_rewritten, 0);
    assert_int_equal(upstream_state(r->up), UPSTREAM_JOINING);
}

/* A tier upstream says the compaction that it learned of long ago; its relay of reads is etcd's today. */
static void compaction_that_a_tier_tells_of_long_ago_holds_nobody_up(void **state)
{
    struct rig *r = *state;
    scoped_live(r);
    restart(r);
    obey(r);
    struct belfry_wire_header header = past_header(r->past, 100);
    int rounds;
    for (rounds = 0; rounds < 1000 && upstream_state(r->up) == UPSTREAM_JOINING; rounds++) {
        if (r->watches[0].open && r->watches[0].from < 50) {
            be_told_compacted(r, 50); /* etcd is at 80 by now */
            obey(r);
        } else if (r->watches[0].open) {
            upstream_on_created(r->up, 0, &header, r->now);
            obey(r);
        }
        if (r->read_token != 0) {
            uint64_t token = r->read_token;
            r->read_token = 0;
            upstream_on_read(r->up, token, &header, r->now);
            obey(r);
        }
        if (r->page_token != 0) {
            uint64_t token = r->page_token;
            assert_int_equal(r->page.rev, 50);
            r->page_token = 0;
            upstream_on_read_failed(r->up, token, BELFRY_ERR_COMPACTED, r->now);
            obey(r);
        }
        pass(r, 500);
    }
    assert_true(rounds < 1000);
}

/* Restored to just below the compaction, and quiet. */
static void restore_to_below_the_compaction_is_found_out_by_a_watch(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    go_on(r, 12);
    restart(r);
    past_fill(r->past, 20, "b");
    r->compacted = 13;
    obey(r);
    created(r, 0); /* at 12: compacted at 13 */
    created(r, 0);
    assert_true(r->page_token != 0);
    rewrite(r, 11, 12); /* back from a backup, before the answer */
    r->compacted = 0;
    for (int i = 0; i < 1000 && upstream_state(r->up) == UPSTREAM_JOINING; i++) {
        answer_page(r);
        answer_read(r);
        for (unsigned slot = 0; slot < SLOTS; slot++)
            if (r->watches[slot].open && !r->watches[slot].created)
                created(r, slot);
        while (deliver(r, 0))
            ;
        pass(r, 500);
    }
    assert_int_not_equal(upstream_state(r->up), UPSTREAM_JOINING);
}

/* Where the scope was thought to be quiet, between the compaction and our head, there is something. */
static void what_is_between_the_compaction_and_our_head_is_compared(void **state)
{
    struct rig *r = *state;
    scoped_live(r);
    restart(r);
    obey(r);
    be_told_compacted(r, 11);
    pass(r, 500);
    r->compacted = 11;
    rewrite(r, 10, 12); /* of another past */
    assert_int_equal(r->watches[0].from, 11);
    created(r, 0);
    assert_true(answer_page(r));
    while (deliver(r, 0))
        ;
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
    assert_int_equal(stats(r).relists_rewritten, 1);
}

/* The watch behind a compaction says that nothing has happened, and ends, before the witness was heard. */
static void progress_that_no_witness_vouched_for_is_not_taken(void **state)
{
    struct rig *r = *state;
    scoped_live(r);
    restart(r);
    obey(r);
    be_told_compacted(r, 11);
    pass(r, 500);
    assert_int_equal(r->watches[0].from, 11);
    struct belfry_wire_header header = past_header(r->past, 120); /* of which past, is not known */
    upstream_on_created(r->up, 0, &header, r->now);
    obey(r);
    assert_true(r->page_token != 0);
    upstream_on_progress(r->up, 0, &header, r->now);
    assert_int_equal(ingest_head(r->ingest), 100);
    r->watches[0] = (struct watch){0};
    upstream_on_end(r->up, 0, BELFRY_ERR_UNAVAILABLE, 0, r->now);
    assert_int_equal(ingest_head(r->ingest), 100);
    obey(r);
    pass(r, 5000);
    assert_int_equal(upstream_state(r->up), UPSTREAM_JOINING);
    assert_int_equal(r->watches[0].from, 10); /* as after any break */
}

/* A scoped tier that was restarted: nothing was written since its listing at 10, so it has no event to compare. */
static void scoped_without_events(struct rig *r)
{
    rig_close(r);
    r->scoped = true;
    rig_open(r);
    past_fill(r->past, 10, "a");
    settle(r);
    restart(r);
    assert_int_equal(ingest_overlap(r->ingest), 0);
    assert_int_equal(ingest_head(r->ingest), 10);
}

static void scope_without_events_is_live_when_its_newest_row_is_found(void **state)
{
    struct rig *r = *state;
    scoped_without_events(r);
    past_fill(r->past, 12, "b");
    obey(r);
    created(r, 0);
    assert_true(answer_read(r));
    assert_int_equal(upstream_state(r->up), UPSTREAM_JOINING);
    assert_true(answer_page(r));
    assert_int_equal(upstream_state(r->up), UPSTREAM_LIVE);
    settle(r);
    assert_follows(r);
    assert_int_equal(stats(r).listings, 0);
}

/* Restored from a backup, and written beyond our head: no revision of it is the head that we know. */
static void scope_without_events_finds_a_rewritten_past_by_its_newest_row(void **state)
{
    struct rig *r = *state;
    scoped_without_events(r);
    rewrite(r, 8, 14);
    obey(r);
    created(r, 0);
    r->watches[0].next = 12; /* as if 9 to 11 were of other keys than the scope's */
    assert_true(answer_read(r));
    assert_true(answer_page(r));
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_REWRITTEN);
}

/* The linearizable read finds that; the witness cannot be read at a revision that is not there. */
static void scope_without_events_that_was_set_back_is_judged(void **state)
{
    struct rig *r = *state;
    scoped_without_events(r);
    rewrite(r, 7, 8);
    obey(r);
    created(r, 0);
    assert_true(answer_page(r)); /* the future */
    assert_int_equal(upstream_state(r->up), UPSTREAM_JOINING);
    assert_true(answer_read(r));
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
}

static void witness_that_cannot_be_found_now_is_looked_for_again(void **state)
{
    struct rig *r = *state;
    size_t n = 0;
    bool refused;
    do {
        rig_renew(r);
        scoped_without_events(r);
        refuse_begin(n++);
        obey(r);
        refused = refuse_end();
        pass(r, 1000);
        settle(r);
        for (int i = 0; i < 10 && upstream_state(r->up) != UPSTREAM_LIVE; i++) {
            pass(r, 1000);
            settle(r);
        }
        assert_int_equal(upstream_state(r->up), UPSTREAM_LIVE);
        assert_int_equal(stats(r).listings, 0);
    } while (refused);
    assert_true(n > 2);
}

/* ---- lag ---- */

static void member_behind_us_is_lag_if_a_linearizable_read_says_more(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    go_on(r, 14);
    r->visible = 11;
    created(r, 0);
    assert_int_equal(upstream_state(r->up), UPSTREAM_JOINING);
    created(r, 0);
    assert_true(answer_read(r));
    assert_int_equal(stats(r).judgements, 1);
    assert_int_equal(upstream_state(r->up), UPSTREAM_JOINING);
    r->visible = 0;
    settle(r);
    assert_follows(r);
    assert_int_equal(stats(r).listings, 1);
}

static void linearizable_revision_below_ours_means_a_rewritten_past(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    go_on(r, 14);
    rewrite(r, 11, 12);
    created(r, 0);
    created(r, 0);
    assert_int_equal(upstream_state(r->up), UPSTREAM_JOINING);
    assert_true(answer_read(r));
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_REWRITTEN);
    assert_int_equal(ingest_head(r->ingest), 12);
}

static void judgement_is_about_what_we_had_when_it_was_asked(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    go_on(r, 12);
    struct belfry_wire_header behind = past_header(r->past, 5), asked = past_header(r->past, 12);
    upstream_on_progress(r->up, 0, &behind, r->now);
    obey(r);
    past_fill(r->past, 15, "b"); /* comes while the read is on its way */
    while (deliver(r, 0))
        ;
    assert_int_equal(ingest_head(r->ingest), 15);
    upstream_on_read(r->up, r->read_token, &asked, r->now);
    r->read_token = 0;
    assert_int_equal(upstream_state(r->up), UPSTREAM_LIVE);
}

/* A listing takes long, so it is looked whether upstream was set back meanwhile; that comes when it is done. What we
 * had when it was asked is the past that the listing has replaced. */
static void judgement_of_a_listing_does_not_outlive_it(void **state)
{
    struct rig *r = *state;
    go_live(r, 20);
    rewrite(r, 11, 12);
    created(r, 0);
    created(r, 0);
    assert_true(answer_read(r));
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
    assert_true(answer_read(r)); /* where it begins */
    created(r, 0);
    pass(r, UPSTREAM_STALE_MS + 1000);
    uint64_t token = r->read_token;
    assert_true(token != 0);
    while (answer_page(r))
        ;
    while (deliver(r, 0))
        ;
    progress(r, 0);
    assert_follows(r);
    struct belfry_wire_header header = past_header(r->past, 12);
    upstream_on_read(r->up, token, &header, r->now);
    obey(r);
    assert_follows(r);
    assert_int_equal(stats(r).relists_rewritten, 1);
}

static void silent_cluster_that_was_set_back_is_found_by_asking(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    rewrite(r, 5, 7);
    pass(r, 6000); /* the watch waits for revision 11: nothing comes */
    assert_true(upstream_stale(r->up));
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_REWRITTEN);
}

static void another_cluster_means_a_rewritten_past(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    r->past->cluster = 77;
    go_on(r, 12);
    pass(r, 200);
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_REWRITTEN);
    struct store_meta meta;
    r->store->api->snapshot(r->store, &meta);
    assert_int_equal(meta.cluster_id, 77);
}

static void breach_lists_anew(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    struct past *other = past_fork(r->past, 9);
    past_put(other, 20, "x");
    past_put(other, 20, "y");
    struct ingest_revision revision = past_revision(other, 11, PAST_BARE);
    assert_true(upstream_on_revision(r->up, 0, &revision, r->now));
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
    assert_int_equal(stats(r).breaches, 1);
    settle(r);
    assert_follows(r);
    past_destroy(other);
}

/* ---- replaying ---- */

static void far_behind_goes_by_windows_merged_in_order(void **state)
{
    struct rig *r = *state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct belfry_rng rng = {seed};
        rig_renew(r);
        go_live(r, 10);
        r->replay_bytes = seed % 2 == 0 ? 4000 : 0;
        restart(r);
        while (r->past->head < 500)
            past_random(r->past, &rng);
        obey(r);
        created(r, 0);
        assert_int_equal(upstream_state(r->up), UPSTREAM_REPLAYING);
        for (int i = 0; i < 200000 && upstream_state(r->up) != UPSTREAM_LIVE; i++) {
            unsigned slot = (unsigned)belfry_rng_below(&rng, SLOTS);
            if (r->watches[slot].open && !r->watches[slot].created)
                created(r, slot);
            else
                deliver(r, slot);
        }
        settle(r);
        assert_follows(r);
        assert_int_equal(stats(r).replays, 1);
        assert_int_equal(stats(r).listings, 0);
        assert_true(stats(r).windows >= 45);
        assert_true(stats(r).overlaps >= 45); /* every window begins with the revision before it */
        if (seed % 2 == 0)
            assert_true(r->pauses > 0);
        for (unsigned slot = 1; slot < SLOTS; slot++)
            assert_false(r->watches[slot].open);
    }
}

/* Live at 10, 100 revisions behind, windows of 10 wanted. */
static void begin_replay(struct rig *r)
{
    go_live(r, 10);
    past_fill(r->past, 11, "a");
    settle(r);
    restart(r);
    past_fill(r->past, 111, "b");
    obey(r);
    created(r, 0);
    assert_int_equal(upstream_state(r->up), UPSTREAM_REPLAYING);
}

static void past_is_proven_by_what_follows_it_not_by_being_told(void **state)
{
    struct rig *r = *state;
    begin_replay(r);
    assert_false(upstream_proven(r->up));
    created(r, 2);
    while (deliver(r, 2)) /* a window that is not at the front proves nothing of ours */
        ;
    created(r, 1);
    assert_false(upstream_proven(r->up));
    assert_true(deliver(r, 1));
    assert_true(upstream_proven(r->up));
    assert_int_equal(upstream_state(r->up), UPSTREAM_REPLAYING);
    created(r, 1); /* it broke: who knows whose past comes now */
    assert_int_equal(upstream_state(r->up), UPSTREAM_JOINING);
    assert_false(upstream_proven(r->up));
    settle(r);
    assert_true(upstream_proven(r->up));
    assert_follows(r);
}

/* What memory refuses is tried again when the time for it has come, whichever lane it is of; not at the next tick. */
static void revision_that_memory_refuses_is_tried_again_soon(void **state)
{
    struct rig *r = *state;
    for (unsigned slot = 0; slot <= 2; slot++) { /* the live watch; the window at the front; one that holds */
        rig_renew(r);
        if (slot == 0) {
            go_live(r, 10);
            past_fill(r->past, 12, "b");
        } else {
            begin_replay(r);
            created(r, slot);
            assert_true(deliver(r, slot)); /* the overlap, which is only compared */
        }
        upstream_tick(r->up, r->now);
        upstream_drained(r->up, r->now);
        refuse_begin(0);
        assert_false(deliver(r, slot));
        assert_true(refuse_end());
        assert_true(r->watches[slot].paused);
        assert_in_range(upstream_due(r->up), r->now + 1, r->now + 10);
        pass(r, 10);
        assert_false(r->watches[slot].paused);
        assert_true(deliver(r, slot));
        settle(r);
        assert_follows(r);
    }
}

/* What a merge refuses was taken from its watch already: no lane is paused, and it is tried again as soon. */
static void held_revision_that_memory_refuses_is_tried_again_soon(void **state)
{
    struct rig *r = *state;
    begin_replay(r);
    created(r, 2);
    while (deliver(r, 2))
        ;
    created(r, 1);
    while (ingest_head(r->ingest) < 20)
        assert_true(deliver(r, 1));
    upstream_tick(r->up, r->now);
    upstream_drained(r->up, r->now);
    refuse_begin(3); /* after what the last of the first window needs */
    (void)deliver(r, 1);
    assert_true(refuse_end());
    upstream_drained(r->up, r->now); /* committed: ingest wants nothing */
    assert_in_range(ingest_head(r->ingest), 20, 30);
    assert_in_range(upstream_due(r->up), r->now + 1, r->now + 10);
    pass(r, 10);
    settle(r);
    assert_follows(r);
}

/* A watch that waits for room waits for the front: there is nothing to look at until something comes. */
static void live_watch_that_waits_for_room_keeps_no_core_busy(void **state)
{
    struct rig *r = *state;
    r->replay_bytes = 3000;
    begin_replay(r);
    created(r, 0);
    while (deliver(r, 0))
        ;
    assert_true(r->watches[0].open && r->watches[0].paused);
    upstream_tick(r->up, r->now);
    upstream_drained(r->up, r->now);
    unsigned looks = 0;
    for (uint64_t end = r->now + 1000; r->now < end; looks++) {
        uint64_t due = upstream_due(r->up);
        assert_true(due > r->now);
        r->now = due;
        upstream_tick(r->up, r->now);
        obey(r);
    }
    assert_in_range(looks, 1, 10);
    settle(r);
    assert_follows(r);
}

static void window_is_not_complete_by_a_header_alone(void **state)
{
    struct rig *r = *state;
    begin_replay(r);
    for (unsigned slot = 1; slot < SLOTS; slot++)
        if (r->watches[slot].open)
            created(r, slot); /* their headers say 111 */
    for (int i = 0; i < 10; i++)
        assert_true(deliver(r, 1)); /* 11 .. 20, under headers of 111 */
    assert_true(r->watches[1].open);
    assert_int_equal(ingest_head(r->ingest), 20);
    assert_true(deliver(r, 1)); /* 21, its last */
    assert_false(r->watches[1].open && r->watches[1].from == 11);
}

static void window_of_another_past_is_found_out_where_it_begins(void **state)
{
    struct rig *r = *state;
    begin_replay(r);
    created(r, 1);
    while (deliver(r, 1) && ingest_head(r->ingest) < 20)
        ;
    rewrite(r, 15, 111); /* restored and written on, before the second window was created */
    created(r, 2);
    while (deliver(r, 2))
        ;
    struct past *old = past_fork(r->past, 11);
    past_fill(old, 21, "b");
    struct ingest_revision last = past_revision(old, 21, PAST_BARE);
    assert_true(upstream_on_revision(r->up, 1, &last, r->now)); /* what was still on its way of the old past */
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
    assert_int_equal(stats(r).relists_rewritten, 1);
    past_destroy(old);
}

static void begin_replay_of_all(struct rig *r)
{
    begin_replay(r);
    for (unsigned slot = 1; slot < SLOTS; slot++)
        if (r->watches[slot].open)
            created(r, slot);
}

/* Windows were opened for revisions that a restore has taken back, if none of ours. */
static void replay_of_what_was_set_back_joins_again(void **state)
{
    struct rig *r = *state;
    begin_replay_of_all(r);
    rewrite(r, 60, 60);
    pass(r, UPSTREAM_STALE_MS + 1000); /* nothing comes */
    assert_int_equal(upstream_state(r->up), UPSTREAM_REPLAYING);
    assert_true(answer_read(r));
    assert_int_equal(upstream_state(r->up), UPSTREAM_JOINING);
    settle(r);
    assert_follows(r);
    assert_int_equal(stats(r).listings, 0);
}

/* Upstream is quiet at 15, so no silence ever tells: each progress is at or above our head. */
static void windows_that_are_told_less_than_was_shown_join_again(void **state)
{
    struct rig *r = *state;
    begin_replay_of_all(r);
    rewrite(r, 15, 15);
    while (deliver(r, 1))
        ;
    assert_int_equal(ingest_head(r->ingest), 15);
    assert_true(progress(r, 1));
    assert_true(answer_read(r));
    assert_int_equal(upstream_state(r->up), UPSTREAM_JOINING);
    settle(r);
    assert_follows(r);
    assert_int_equal(stats(r).listings, 0);
}

/* A member that lags says less than another has shown; the judgement does not. */
static void windows_on_a_member_that_lags_go_on(void **state)
{
    struct rig *r = *state;
    begin_replay_of_all(r);
    r->visible = 15;
    while (deliver(r, 1))
        ;
    assert_true(progress(r, 1));
    assert_true(answer_read(r));
    assert_int_equal(upstream_state(r->up), UPSTREAM_REPLAYING);
    assert_true(progress(r, 1));
    assert_false(answer_read(r)); /* not at every sign of it */
    r->visible = 0;
    settle(r);
    assert_follows(r);
    assert_int_equal(stats(r).judgements, 1);
}

/* Every watch is created at `rev`, and has given all up to it. */
static void tell_all(struct rig *r, int64_t rev)
{
    struct belfry_wire_header header = past_header(r->past, rev);
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        struct watch *watch = &r->watches[slot];
        if (watch->open && !watch->created) {
            watch->created = true;
            upstream_on_created(r->up, slot, &header, r->now);
            obey(r);
        }
        while (deliver(r, slot))
            ;
        if (watch->open)
            upstream_on_progress(r->up, slot, &header, r->now);
        obey(r);
    }
}

static void begin_scoped_replay(struct rig *r)
{
    restart(r);
    obey(r);
    struct belfry_wire_header header = past_header(r->past, 160);
    r->watches[0].created = true;
    upstream_on_created(r->up, 0, &header, r->now);
    obey(r);
    assert_int_equal(upstream_state(r->up), UPSTREAM_REPLAYING);
}

static void quiet_scope_is_live_when_it_has_caught_up(void **state)
{
    struct rig *r = *state;
    scoped_live(r);
    begin_scoped_replay(r);
    for (int i = 0; i < 8; i++)
        tell_all(r, 160);
    assert_int_equal(ingest_head(r->ingest), 160);
    assert_int_equal(stats(r).overlaps, 1); /* at 10 */
    assert_true(upstream_ready(r->up));
}

/* Our last event is compacted, and the witness too: only a linearizable read can say whose past it is, and it is late.
 */
static void quiet_scope_with_nothing_to_compare_is_live_when_it_is_judged(void **state)
{
    struct rig *r = *state;
    scoped_live(r);
    restart(r);
    obey(r);
    be_told_compacted(r, 50);
    obey(r);
    struct belfry_wire_header header = past_header(r->past, 160);
    upstream_on_created(r->up, 0, &header, r->now);
    obey(r);
    upstream_on_read_failed(r->up, r->page_token, BELFRY_ERR_COMPACTED, r->now); /* of the witness */
    r->page_token = 0;
    pass(r, 1000);
    assert_int_equal(upstream_state(r->up), UPSTREAM_JOINING);
    assert_int_not_equal(r->read_token, 0);
    r->watches[0].created = true;
    upstream_on_created(r->up, 0, &header, r->now);
    obey(r);
    assert_int_equal(upstream_state(r->up), UPSTREAM_REPLAYING);
    for (int i = 0; i < 16; i++)
        tell_all(r, 160);
    assert_int_equal(ingest_head(r->ingest), 160);
    assert_false(upstream_proven(r->up));
    assert_false(upstream_ready(r->up));
    upstream_on_read(r->up, r->read_token, &header, r->now);
    r->read_token = 0;
    tell_all(r, 160);
    assert_true(upstream_proven(r->up));
    assert_true(upstream_ready(r->up));
}

/* Upstream was compacted over our head, and then restored to before that: what is compacted is of a past that ended. */
static void compaction_above_upstreams_own_revision_is_told_to_nobody(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    restart(r);
    past_fill(r->past, 45, "b");
    r->compacted = 40;
    obey(r);
    created(r, 0);
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
    rewrite(r, 20, 30);
    r->compacted = 0;
    settle(r);
    assert_follows(r);
    assert_in_range(cut_of(r).compact_rev, 1, 31);
}

static void window_compacted_away_lists_anew_only_after_what_came_before_it(void **state)
{
    struct rig *r = *state;
    begin_replay(r);
    created(r, 1);
    created(r, 2);
    upstream_on_end(r->up, 2, BELFRY_ERR_COMPACTED, 40, r->now);
    r->watches[2].open = false;
    obey(r);
    assert_int_equal(upstream_state(r->up), UPSTREAM_REPLAYING);
    while (r->watches[1].open && deliver(r, 1))
        ;
    assert_int_equal(ingest_head(r->ingest), 21);
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
    r->compacted = 40;
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).compact_rev, 40);
}

static void resumed_window_joins_again(void **state)
{
    struct rig *r = *state;
    begin_replay(r);
    created(r, 1);
    created(r, 2);
    deliver(r, 1);
    deliver(r, 1);
    created(r, 2);
    assert_int_equal(upstream_state(r->up), UPSTREAM_JOINING);
    assert_int_equal(r->watches[0].from, 12);
    settle(r);
    assert_follows(r);
}

/* ---- listing ---- */

/* Cold, 30 revisions, the watch is there, two pages of five keys have come. */
static void begin_listing(struct rig *r)
{
    past_fill(r->past, 30, "a");
    obey(r);
    answer_read(r);
    assert_int_equal(r->page_token, 0); /* the watch first */
    created(r, 0);
    assert_int_equal(r->page.rev, 0);
    answer_page(r);
    assert_int_equal(r->page.rev, 30);
    answer_page(r);
}

static void delete_during_a_listing_is_not_undone_by_an_older_page(void **state)
{
    struct rig *r = *state;
    begin_listing(r);
    past_delete(r->past, 1);
    past_delete(r->past, 20);
    past_put(r->past, 21, "new");
    while (deliver(r, 0))
        ;
    while (answer_page(r))
        ;
    assert_follows(r);
    assert_int_equal(ingest_head(r->ingest), 33);
}

/* The watch is of a tier that has not found out yet, the pages are of the cluster. */
static void pages_of_another_past_than_the_watch_are_listed_again(void **state)
{
    struct rig *r = *state;
    for (int pages_first = 0; pages_first < 2; pages_first++) {
        rig_renew(r);
        past_fill(r->past, 30, "a");
        struct past *ours = r->past, *old = past_fork(ours, 25);
        past_fill(old, 40, "rewritten");
        obey(r);
        answer_read(r);
        created(r, 0);
        while (pages_first && answer_page(r))
            ;
        assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING); /* not a word of the watch yet */
        r->past = old;
        for (int i = 0; i < 3; i++)
            deliver(r, 0); /* 30 .. 32 */
        r->past = ours;
        while (answer_page(r))
            ;
        assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
        assert_int_equal(ingest_head(r->ingest), 0);
        assert_false(r->watches[0].open);
        pass(r, 1500);
        settle(r);
        assert_follows(r);
        past_destroy(old);
    }
}

static void compacted_page_is_read_anew_and_the_watch_must_pass_it(void **state)
{
    struct rig *r = *state;
    begin_listing(r);
    past_delete(r->past, 12);
    past_put(r->past, 2, "new");
    r->compacted = 31;
    while (answer_page(r))
        ;
    assert_int_equal(stats(r).pages_repeated, 1);
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
    deliver(r, 0); /* 30 */
    deliver(r, 0); /* 31 */
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
    deliver(r, 0);
    assert_follows(r);
}

static void listing_of_what_was_set_back_starts_over(void **state)
{
    struct rig *r = *state;
    begin_listing(r);
    while (answer_page(r))
        ;
    rewrite(r, 20, 25); /* the watch waits for 30 */
    pass(r, UPSTREAM_STALE_MS + 1000);
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
    assert_true(answer_read(r));
    assert_false(r->watches[0].open);
    pass(r, 1000);
    settle(r);
    assert_follows(r);
}

static void progress_passes_the_newest_page_too(void **state)
{
    struct rig *r = *state;
    begin_listing(r);
    past_put(r->past, 12, "new");
    r->compacted = 31;
    while (answer_page(r))
        ;
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
    assert_int_equal(r->progress_asked, 1); /* with the last page, at once */
    pass(r, 1500);
    assert_true(r->progress_asked > 1);
    while (deliver(r, 0))
        ;
    progress(r, 0);
    assert_follows(r);
}

static void listing_starts_over_when_its_watch_breaks(void **state)
{
    struct rig *r = *state;
    begin_listing(r);
    rewrite(r, 10, 40);
    created(r, 0);
    assert_int_equal(stats(r).listings, 2);
    pass(r, 200);
    settle(r);
    assert_follows(r);

    past_delete(r->past, 3);
    upstream_on_end(r->up, 0, BELFRY_ERR_REWOUND, 0, r->now);
    r->watches[0].open = false;
    obey(r);
    answer_read(r);
    created(r, 0);
    upstream_on_end(r->up, 0, BELFRY_ERR_UNAVAILABLE, 0, r->now);
    r->watches[0].open = false;
    obey(r);
    r->page_token = 0;
    pass(r, 500);
    settle(r);
    assert_follows(r);
}

static void reads_that_fail_are_tried_again_while_the_old_state_serves(void **state)
{
    struct rig *r = *state;
    go_live(r, 30);
    upstream_on_end(r->up, 0, BELFRY_ERR_REWOUND, 0, r->now);
    r->watches[0].open = false;
    obey(r);
    for (int i = 0; i < 5; i++) {
        uint64_t token = r->read_token;
        assert_int_not_equal(token, 0);
        r->read_token = 0;
        upstream_on_read_failed(r->up, token, BELFRY_ERR_UNAVAILABLE, r->now);
        pass(r, 10000);
    }
    assert_int_equal(cut_of(r).past, 1);
    assert_int_equal(evlog_head(r->evlog), 30);
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).past, 2);
}

static void full_disk_while_listing_starts_over(void **state)
{
    struct rig *r = *state;
    begin_listing(r);
    modelstore_fail(r->store, 1);
    while (answer_page(r))
        ;
    assert_int_equal(stats(r).listings, 2);
    pass(r, 1000);
    settle(r);
    assert_follows(r);
}

/* ---- damage ---- */

/* Live at 20, and the store has found a row of its history damaged. */
static void live_and_damaged(struct rig *r)
{
    go_live(r, 10);
    go_on(r, 20);
    modelstore_damage(r->store);
}

static void damaged_store_is_listed_and_nobody_is_cut_off(void **state)
{
    struct rig *r = *state;
    live_and_damaged(r);
    past_fill(r->past, 24, "b");
    pass(r, 1000);
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_DAMAGED);
    assert_int_equal(cut_of(r).compact_rev, 0);
    assert_int_equal(stats(r).relists_damaged, 1);
    assert_int_equal(stats(r).listings, 2);
    assert_false(r->store->api->damaged(r->store));
    go_on(r, 30);
    assert_follows(r);
    assert_int_equal(stats(r).listings, 2);
}

static void damage_and_a_rewritten_past_cut_everybody_off(void **state)
{
    struct rig *r = *state;
    live_and_damaged(r);
    rewrite(r, 15, 40); /* beyond our head: nothing but the content tells */
    pass(r, 1000);
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_REWRITTEN);
}

static void damage_with_nothing_left_to_compare_cuts_off_to_be_safe(void **state)
{
    struct rig *r = *state;
    live_and_damaged(r);
    past_fill(r->past, 40, "b");
    r->compacted = 30;
    pass(r, 1000);
    settle(r);
    pass(r, 3000);
    settle(r);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_REWRITTEN);
    assert_int_equal(stats(r).relists_unproven, 1);
}

/* A tier above shows the revision that we compare, and then lacks what follows: from there it would end each time. */
static void damage_whose_watch_ends_compacted_lists_from_elsewhere(void **state)
{
    struct rig *r = *state;
    live_and_damaged(r);
    past_fill(r->past, 40, "b");
    pass(r, 1000);
    assert_true(answer_read(r));
    created(r, 0);
    assert_true(deliver(r, 0)); /* 20, which is as we have it */
    r->watches[0] = (struct watch){0};
    upstream_on_end(r->up, 0, BELFRY_ERR_COMPACTED, 30, r->now);
    pass(r, 3000);
    settle(r);
    assert_int_equal(r->opened[r->n_opened - 1], 40);
    assert_follows(r);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_REWRITTEN);
    assert_int_equal(stats(r).relists_unproven, 1);
}

/* Of a part of the store, whose last event was long before the listing: it was compared, and proves backfills as
 * before. */
static void damage_in_a_quiet_scope_leaves_an_overlap(void **state)
{
    struct rig *r = *state;
    scoped_live(r);
    modelstore_damage(r->store);
    pass(r, 1000);
    assert_int_equal(upstream_state(r->up), UPSTREAM_LISTING);
    struct belfry_wire_header header = past_header(r->past, 100);
    upstream_on_read(r->up, r->read_token, &header, r->now);
    obey(r);
    assert_int_equal(r->watches[0].from, 10);
    r->watches[0].created = true;
    upstream_on_created(r->up, 0, &header, r->now);
    obey(r);
    assert_true(deliver(r, 0));
    while (r->page_token != 0) {
        uint64_t token = r->page_token;
        struct belfry_buf buf;
        belfry_buf_init(&buf);
        r->page_token = 0;
        r->past->head = 100; /* of which nothing above 10 is in the scope */
        upstream_on_page(r->up, token, past_page(r->past, 10, r->page.key, r->page.limit, &buf), r->now);
        r->past->head = 10;
        belfry_buf_fini(&buf);
        obey(r);
    }
    upstream_on_progress(r->up, 0, &header, r->now);
    assert_int_equal(upstream_state(r->up), UPSTREAM_LIVE);
    assert_int_equal(cut_of(r).why, EVLOG_CUT_DAMAGED);
    assert_int_equal(ingest_head(r->ingest), 100);
    assert_int_equal(ingest_overlap(r->ingest), 10);
}

/* ---- time and trouble ---- */

static void upstream_that_is_stale_itself_makes_stale_at_once(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    assert_true(upstream_ready(r->up));
    upstream_cut_off(r->up, r->now);
    upstream_cut_off(r->up, r->now);
    assert_true(upstream_stale(r->up));
    assert_false(upstream_ready(r->up));
    struct upstream_stats stats;
    upstream_stats(r->up, &stats);
    assert_int_equal(stats.stale, 1);
    assert_true(progress(r, 0));
    assert_true(upstream_ready(r->up));
}

static void silence_makes_stale_and_the_next_progress_ends_it(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    pass(r, 4900);
    assert_true(upstream_ready(r->up));
    assert_true(r->progress_asked >= 4);
    pass(r, 700);
    assert_true(upstream_stale(r->up));
    assert_false(upstream_ready(r->up));
    assert_true(progress(r, 0));
    assert_false(upstream_stale(r->up));
    assert_true(upstream_ready(r->up));
}

static void after_a_gap_sockets_are_read_before_anybody_is_judged(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    pass(r, 1000);
    r->now += 20000; /* stopped */
    upstream_tick(r->up, r->now);
    upstream_tick(r->up, r->now);
    assert_false(upstream_stale(r->up));
    assert_true(progress(r, 0)); /* had been in the socket */
    upstream_drained(r->up, r->now);
    upstream_tick(r->up, r->now);
    assert_false(upstream_stale(r->up));
    assert_int_equal(stats(r).gaps, 1);

    r->now += 20000;
    upstream_tick(r->up, r->now);
    upstream_drained(r->up, r->now); /* nothing was in it */
    upstream_tick(r->up, r->now);
    assert_true(upstream_stale(r->up));
}

static void disk_trouble_does_not_stop_the_watch(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    past_fill(r->past, 20, "b");
    modelstore_fail(r->store, UINT_MAX);
    while (r->watches[0].next <= 20)
        assert_true(deliver(r, 0));
    assert_true(ingest_in_trouble(r->ingest));
    assert_int_equal(ingest_head(r->ingest), 20);
    for (int i = 0; i < 20; i++) {
        assert_true(progress(r, 0));
        pass(r, 500);
    }
    assert_true(upstream_ready(r->up));
    modelstore_fail(r->store, 0);
    pass(r, 3000);
    settle(r);
    assert_follows(r);
    assert_int_equal(stats(r).listings, 1);
}

static void full_disk_and_full_memory_pause_the_watch_and_nothing_is_lost(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    modelstore_fail(r->store, UINT_MAX);
    do
        past_fill(r->past, r->past->head + 1, "b");
    while (deliver(r, 0));
    assert_true(r->watches[0].paused);
    assert_true(ingest_is_stuck(r->ingest));
    assert_in_range(ingest_head(r->ingest), 70, 80); /* what the log takes */
    pass(r, 3000);
    assert_true(r->watches[0].paused);
    modelstore_fail(r->store, 0);
    pass(r, 3000);
    assert_false(r->watches[0].paused);
    settle(r);
    assert_follows(r);
    assert_int_equal(stats(r).listings, 1);
}

/* One watch gives what etcd's replay loop gives, which may be less than is written. */
static void far_behind_while_live_is_replayed_in_windows(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    past_fill(r->past, 200, "b");
    struct ingest_revision revision = past_revision(r->past, 11, PAST_BARE);
    revision.header.revision = 200; /* a response of the replay loop says where the store is */
    assert_true(upstream_on_revision(r->up, 0, &revision, r->now));
    r->watches[0].next++;
    obey(r);
    assert_int_not_equal(upstream_state(r->up), UPSTREAM_LIVE);
    settle(r);
    assert_int_equal(upstream_state(r->up), UPSTREAM_LIVE);
    assert_follows(r);
    assert_int_equal(stats(r).replays, 1);
    assert_int_equal(stats(r).listings, 1);
}

/* A disk that stays full must not keep a core busy. */
static void disk_trouble_that_lasts_is_looked_at_now_and_then(void **state)
{
    struct rig *r = *state;
    go_live(r, 10);
    past_fill(r->past, 20, "b");
    modelstore_fail(r->store, 1000000);
    assert_true(deliver(r, 0));
    assert_true(ingest_in_trouble(r->ingest));
    unsigned ticks = 0;
    uint64_t end = r->now + 10000;
    while (r->now < end) {
        uint64_t due = upstream_due(r->up);
        r->now = due > r->now ? due : r->now + 1;
        upstream_tick(r->up, r->now);
        obey(r);
        ticks++;
    }
    assert_in_range(ticks, 10, 1000);
    modelstore_fail(r->store, 0);
    pass(r, 3000);
    settle(r);
    assert_follows(r);
}

/* Everything at once, by chance; when faults stop we follow. */
static void random_faults(struct rig *r, struct belfry_rng *rng)
{
    switch (belfry_rng_below(rng, 60)) {
    case 0:
        r->visible = r->past->head - (int64_t)belfry_rng_below(rng, 20);
        break;
    case 1:
        r->visible = 0;
        break;
    case 2:
        r->compacted = r->past->head > 30 ? r->past->head - (int64_t)belfry_rng_below(rng, 30) : 0;
        break;
    case 3:
        modelstore_fail(r->store, 1 + (unsigned)belfry_rng_below(rng, 5));
        break;
    case 4:
        restart(r);
        break;
    case 5:
        for (int i = 0; i < 100; i++)
            past_random(r->past, rng);
        break;
    case 6: /* a link breaks; the client resumes by itself */
        for (unsigned slot = 0; slot < SLOTS; slot++)
            if (r->watches[slot].open && r->watches[slot].created && belfry_rng_below(rng, 2) == 0)
                created(r, slot);
        break;
    case 7:
        if (belfry_rng_below(rng, 2) == 0) {
            r->visible = 0; /* who is far behind and shown no more joins again and again, and never settles */
            settle(r);
        }
        if (r->past->head > 130) {
            int64_t rev = r->past->head - 1 - (int64_t)belfry_rng_below(rng, 120);
            rewrite(r, rev, rev + (int64_t)belfry_rng_below(rng, 200));
            r->compacted = r->compacted > rev ? rev : r->compacted;
            for (unsigned slot = 0; slot < SLOTS; slot++) /* every member was restarted */
                if (r->watches[slot].open && r->watches[slot].created)
                    created(r, slot);
        }
        break;
    default:
        break;
    }
}

static void random_step(struct rig *r, struct belfry_rng *rng)
{
    unsigned slot = (unsigned)belfry_rng_below(rng, SLOTS);
    switch (belfry_rng_below(rng, 12)) {
    case 0:
        past_random(r->past, rng);
        break;
    case 1:
        answer_read(r);
        break;
    case 2:
        answer_page(r);
        break;
    case 3:
        pass(r, belfry_rng_below(rng, 50));
        break;
    case 4:
        progress(r, belfry_rng_below(rng, 2) == 0 ? 0 : slot);
        break;
    case 5:
        upstream_drained(r->up, r->now);
        break;
    default:
        slot = belfry_rng_below(rng, 3) == 0 ? slot : belfry_rng_below(rng, 2) == 0 ? 0 : slot % 4;
        if (r->watches[slot].open && !r->watches[slot].created)
            created(r, slot);
        else
            deliver(r, slot);
    }
}

/* The times at which a watch that is refused each time is wanted again. */
static void retry_times(struct rig *r, uint64_t seed, uint64_t *at, size_t n)
{
    rig_renew(r);
    r->seed = seed;
    go_live(r, 10);
    restart(r);
    uint64_t from = r->now;
    for (size_t i = 0; i < n; i++) {
        obey(r);
        while (!r->watches[0].open)
            pass(r, 1);
        at[i] = r->now - from;
        r->watches[0] = (struct watch){0};
        upstream_on_end(r->up, 0, BELFRY_ERR_UNAVAILABLE, 0, r->now);
    }
}

static void tiers_with_different_seeds_come_back_at_different_times(void **state)
{
    struct rig *r = *state;
    uint64_t one[8], same[8], other[8];
    retry_times(r, 1, one, 8);
    retry_times(r, 1, same, 8);
    retry_times(r, 2, other, 8);
    size_t equal = 0;
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(one[i], same[i]);
        equal += one[i] == other[i];
    }
    assert_in_range(equal, 0, 4); /* the first two are immediate */
}

static void random_faults_end_in_following(void **state)
{
    (void)state;
    struct upstream_stats sum = {0};
    for (uint64_t seed = 1; seed <= 45; seed++) {
        struct belfry_rng rng = {seed * 7919};
        struct rig r;
        rig_init(&r);
        r.sum = sum;
        r.replay_bytes = seed % 3 == 0 ? 3000 : 0;
        past_fill(r.past, 30, "a");
        obey(&r);
        for (int i = 0; i < 1000; i++) {
            random_faults(&r, &rng);
            random_step(&r, &rng);
            obey(&r);
        }
        r.visible = 0;
        modelstore_fail(r.store, 0);
        for (int i = 0; i < 40; i++) {
            settle(&r);
            pass(&r, 1000);
            progress(&r, 0);
        }
        assert_follows(&r);
        rig_fini(&r);
        sum = r.sum;
    }
    assert_true(sum.relists_compacted > 10 && sum.relists_rewritten > 10 && sum.replays > 10);
    assert_true(sum.judgements > 10 && sum.pages_repeated > 3);
}

/* ---- refusals ---- */

static void refused_allocation_delays_and_loses_nothing(void **state)
{
    (void)state;
    bool reached = true;
    for (size_t n = 0; reached; n++) {
        size_t held = refuse_held();
        struct rig r;
        rig_init(&r);
        past_fill(r.past, 20, "a");
        struct past *later = past_fork(r.past, 20);
        past_fill(later, 90, "b");
        refuse_begin(n);
        for (int i = 0; i < 3; i++) {
            obey(&r);
            answer_read(&r);
            created(&r, 0);
            for (int64_t rev = 20; rev <= 25 && r.watches[0].open; rev++) {
                struct ingest_revision revision = past_revision(later, rev, PAST_BARE);
                if (rev >= r.watches[0].next && upstream_on_revision(r.up, 0, &revision, r.now))
                    r.watches[0].next = rev + 1;
            }
        }
        reached = refuse_end();
        past_destroy(r.past);
        r.past = later;
        for (int i = 0; i < 20; i++) {
            settle(&r);
            pass(&r, 1000);
        }
        assert_follows(&r);
        rig_fini(&r);
        assert_int_equal(refuse_held(), held);
    }
}

static enum belfry_err create_and_destroy(void)
{
    struct upstream_opts opts = {.key = {"\0", 1}};
    struct upstream *up = NULL;
    enum belfry_err err = upstream_create(&opts, &up);
    if (err == BELFRY_OK)
        upstream_destroy(up);
    return err;
}

static void refused_creation_leaves_nothing(void **state)
{
    (void)state;
    assert_true(refuse_sweep(create_and_destroy) >= 2);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        T(empty_replica_lists_and_then_follows),
        T(warm_replica_joins_at_its_last_revision),
        T(overlap_that_differs_means_a_rewritten_past),
        T(overlap_that_upstream_passes_over_means_a_rewritten_past),
        T(resumed_watch_joins_again_with_an_overlap),
        T(listing_is_overlapped_too),
        T(listing_opened_anew_is_compared_by_its_state),
        T(listing_whose_head_upstream_passes_over_was_rewritten),
        T(compacted_overlap_is_joined_behind_the_head_and_judged),
        T(compacted_overlap_of_a_rewritten_past_is_found_by_one_key),
        T(where_nothing_is_left_to_compare_it_lists_anew),
        T(restore_before_the_watch_behind_the_compaction_is_found_out),
        T(compaction_that_nobody_named_is_not_told),
        T(compaction_over_our_head_lists_anew_and_says_where),
        T(watch_of_a_quiet_scope_that_a_snapshot_ended_joins_again),
        T(compaction_that_a_tier_tells_of_long_ago_holds_nobody_up),
        T(restore_to_below_the_compaction_is_found_out_by_a_watch),
        T(what_is_between_the_compaction_and_our_head_is_compared),
        T(a_revision_that_reads_wait_for_is_asked_for_once),
        T(progress_that_was_not_far_enough_is_asked_for_again),
        T(nothing_is_asked_for_reads_when_every_revision_has_events),
        T(an_answer_to_a_question_of_another_past_says_nothing),
        T(an_answer_below_the_head_that_was_ours_begins_a_listing),
        T(progress_that_no_witness_vouched_for_is_not_taken),
        T(scope_without_events_is_live_when_its_newest_row_is_found),
        T(scope_without_events_finds_a_rewritten_past_by_its_newest_row),
        T(scope_without_events_that_was_set_back_is_judged),
        T(witness_that_cannot_be_found_now_is_looked_for_again),
        T(tier_that_says_compacted_of_what_is_above_it_was_rewritten),
        T(member_behind_us_is_lag_if_a_linearizable_read_says_more),
        T(linearizable_revision_below_ours_means_a_rewritten_past),
        T(judgement_is_about_what_we_had_when_it_was_asked),
        T(judgement_of_a_listing_does_not_outlive_it),
        T(silent_cluster_that_was_set_back_is_found_by_asking),
        T(another_cluster_means_a_rewritten_past),
        T(breach_lists_anew),
        T(far_behind_goes_by_windows_merged_in_order),
        T(past_is_proven_by_what_follows_it_not_by_being_told),
        T(revision_that_memory_refuses_is_tried_again_soon),
        T(held_revision_that_memory_refuses_is_tried_again_soon),
        T(live_watch_that_waits_for_room_keeps_no_core_busy),
        T(window_is_not_complete_by_a_header_alone),
        T(window_of_another_past_is_found_out_where_it_begins),
        T(replay_of_what_was_set_back_joins_again),
        T(windows_that_are_told_less_than_was_shown_join_again),
        T(windows_on_a_member_that_lags_go_on),
        T(quiet_scope_is_live_when_it_has_caught_up),
        T(quiet_scope_with_nothing_to_compare_is_live_when_it_is_judged),
        T(compaction_above_upstreams_own_revision_is_told_to_nobody),
        T(window_compacted_away_lists_anew_only_after_what_came_before_it),
        T(resumed_window_joins_again),
        T(delete_during_a_listing_is_not_undone_by_an_older_page),
        T(pages_of_another_past_than_the_watch_are_listed_again),
        T(compacted_page_is_read_anew_and_the_watch_must_pass_it),
        T(listing_of_what_was_set_back_starts_over),
        T(progress_passes_the_newest_page_too),
        T(listing_starts_over_when_its_watch_breaks),
        T(reads_that_fail_are_tried_again_while_the_old_state_serves),
        T(full_disk_while_listing_starts_over),
        T(damaged_store_is_listed_and_nobody_is_cut_off),
        T(damage_and_a_rewritten_past_cut_everybody_off),
        T(damage_with_nothing_left_to_compare_cuts_off_to_be_safe),
        T(damage_whose_watch_ends_compacted_lists_from_elsewhere),
        T(damage_in_a_quiet_scope_leaves_an_overlap),
        T(upstream_that_is_stale_itself_makes_stale_at_once),
        T(silence_makes_stale_and_the_next_progress_ends_it),
        T(after_a_gap_sockets_are_read_before_anybody_is_judged),
        T(disk_trouble_does_not_stop_the_watch),
        T(full_disk_and_full_memory_pause_the_watch_and_nothing_is_lost),
        T(disk_trouble_that_lasts_is_looked_at_now_and_then),
        T(far_behind_while_live_is_replayed_in_windows),
        T(tiers_with_different_seeds_come_back_at_different_times),
        cmocka_unit_test(random_faults_end_in_following),
        cmocka_unit_test(refused_allocation_delays_and_loses_nothing),
        cmocka_unit_test(refused_creation_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
