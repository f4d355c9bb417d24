/* src/follow/backfill_test.c: backfills against a scripted upstream. */
#include "follow/backfill.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "follow/past_fixture.h"
#include "follow/upstream.h"
#include "support/modelstore.h"
#include "support/refuse.h"

#define SEGMENT 2000 /* some ten revisions */
#define PAST    3

struct watch {
    bool open, created, paused;
    int64_t next;
};

struct rig {
    struct past *past;
    struct backfill *backfill;
    uint64_t now;
    uint64_t client; /* who requests */
    struct watch watches[BACKFILLS];
    size_t n_opened, n_pauses, n_progress;
    /* what we hold ourselves, once follow() was called */
    struct store *store;
    struct evlog *evlog;
    struct ingest *ingest;
};

static void rig_init(struct rig *r)
{
    *r = (struct rig){.past = past_create(9), .now = 1000};
    past_fill(r->past, 400, "a");
    assert_int_equal(backfill_create(SEGMENT, 1, &r->backfill), BELFRY_OK);
}

static void rig_fini(struct rig *r)
{
    backfill_destroy(r->backfill);
    ingest_destroy(r->ingest);
    evlog_destroy(r->evlog);
    if (r->store != NULL)
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

/* A new start, for a test of several ways. */
static void rig_renew(struct rig *r)
{
    rig_fini(r);
    rig_init(r);
}

static void obey(struct rig *r)
{
    struct upstream_action a;
    for (int i = 0; backfill_next(r->backfill, r->now, &a); i++) {
        assert_true(i < 1000);
        assert_in_range(a.slot, BACKFILL_SLOT, BACKFILL_SLOT + BACKFILLS - 1);
        struct watch *watch = &r->watches[a.slot - BACKFILL_SLOT];
        switch (a.want) {
        case UPSTREAM_WANT_WATCH:
            assert_false(watch->open);
            *watch = (struct watch){.open = true, .next = a.rev};
            r->n_opened++;
            break;
        case UPSTREAM_WANT_CLOSE:
            *watch = (struct watch){0};
            break;
        case UPSTREAM_WANT_PAUSE:
            watch->paused = true;
            r->n_pauses++;
            break;
        case UPSTREAM_WANT_RESUME:
            watch->paused = false;
            break;
        case UPSTREAM_WANT_PROGRESS:
            r->n_progress++;
            break;
        case UPSTREAM_WANT_REVISION:
        case UPSTREAM_WANT_PAGE:
            fail();
        }
    }
}

static void created(struct rig *r, unsigned i)
{
    struct belfry_wire_header header = past_header(r->past, r->past->head);
    r->watches[i].created = true;
    backfill_on_created(r->backfill, BACKFILL_SLOT + i, &header, r->now);
    obey(r);
}

static bool deliver(struct rig *r, unsigned i)
{
    struct watch *watch = &r->watches[i];
    if (!watch->open || !watch->created || watch->paused || watch->next > r->past->head)
        return false;
    struct ingest_revision revision = past_revision(r->past, watch->next, PAST_PREV);
    bool taken = backfill_on_revision(r->backfill, BACKFILL_SLOT + i, &revision, r->now);
    watch->next += taken;
    watch->paused = !taken;
    obey(r);
    return taken;
}

/* The watch is created and gives all that is taken. */
static void give_all(struct rig *r, unsigned i)
{
    created(r, i);
    while (deliver(r, i))
        ;
}

static void deliver_all(struct rig *r)
{
    for (unsigned i = 0; i < BACKFILLS; i++) {
        if (r->watches[i].open && !r->watches[i].created)
            created(r, i);
        while (deliver(r, i))
            ;
    }
}

static void progress(struct rig *r, unsigned i, int64_t rev)
{
    struct belfry_wire_header header = past_header(r->past, rev);
    backfill_on_progress(r->backfill, BACKFILL_SLOT + i, &header, r->now);
    obey(r);
}

static void end(struct rig *r, unsigned i, enum belfry_err err, int64_t compact_rev)
{
    r->watches[i] = (struct watch){0};
    backfill_on_end(r->backfill, BACKFILL_SLOT + i, err, compact_rev, r->now);
    obey(r);
}

/* Upstream has it no more; it is not created anew while it is paused. */
static void lose(struct rig *r, unsigned i)
{
    backfill_on_lost(r->backfill, BACKFILL_SLOT + i, r->now);
    obey(r);
}

static void request(struct rig *r, int64_t from, int64_t oldest, uint64_t token)
{
    struct backfill_ask ask = {.client = r->client, .past = PAST, .from = from, .oldest = oldest, .token = token};
    assert_int_equal(backfill_request(r->backfill, &ask, r->now), BELFRY_OK);
    obey(r);
}

/* Every revision of the segment is there, with what was before. */
static void assert_segment(const struct rig *r, const struct segment *segment)
{
    assert_int_equal(segment->past, PAST);
    assert_int_equal(segment->n, (size_t)(segment->upto - segment->from + 1));
    for (size_t i = 0; i < segment->n; i++) {
        const struct batch *batch = segment->batches[i];
        const struct past_rev *rev = r->past->revs[batch->rev];
        assert_int_equal(batch->rev, segment->from + (int64_t)i);
        assert_int_equal(batch->n_events, rev->n);
        for (size_t k = 0; k < rev->n; k++) {
            assert_true(belfry_bytes_equal(batch_bytes(batch, &batch->events[k], false), rev->events[0][k].raw));
            assert_true(belfry_bytes_equal(batch_bytes(batch, &batch->events[k], true), rev->events[1][k].raw));
        }
    }
}

static struct backfill_answer answer(struct rig *r)
{
    struct backfill_answer answer;
    assert_true(backfill_answer(r->backfill, &answer));
    if (answer.err == BELFRY_OK)
        assert_segment(r, answer.segment);
    obey(r);
    return answer;
}

static void assert_no_answer(struct rig *r)
{
    struct backfill_answer answer;
    assert_false(backfill_answer(r->backfill, &answer));
}

/* ---- the tests ---- */

static void history_comes_in_segments_up_to_the_window(void **state)
{
    struct rig *r = *state;
    int64_t next = 50;
    for (uint64_t token = 1; next < 200; token++) {
        request(r, next, 200, token);
        deliver_all(r);
        struct backfill_answer a = answer(r);
        assert_int_equal(a.token, token);
        assert_int_equal(a.err, BELFRY_OK);
        assert_int_equal(a.segment->from, next);
        assert_true(a.segment->upto < 200);
        next = a.segment->upto + 1;
        segment_unref(a.segment);
        assert_no_answer(r);
    }
    assert_int_equal(next, 200);
    assert_int_equal(r->n_opened, 1); /* one watch for all of it */
    assert_true(r->n_pauses > 0);     /* which never ran far ahead of who asks */
    assert_false(r->watches[0].open);
}

static void next_segments_are_there_before_they_are_asked_for(void **state)
{
    struct rig *r = *state;
    request(r, 50, 300, 1);
    deliver_all(r);
    for (uint64_t token = 2; token <= 5; token++) { /* two that are finished, and one that is full */
        struct backfill_answer a = answer(r);
        if (token < 5)
            request(r, a.segment->upto + 1, 300, token);
        segment_unref(a.segment);
    }
    assert_false(r->watches[0].paused); /* and now there is room again */
}

static void created_and_event_headers_do_not_complete(void **state)
{
    struct rig *r = *state;
    request(r, 50, 55, 1);
    created(r, 0); /* says 400 */
    assert_no_answer(r);
    for (int i = 0; i < 4; i++)
        deliver(r, 0); /* 50 .. 53, under headers of 400 */
    assert_no_answer(r);
    deliver(r, 0);
    struct backfill_answer a = answer(r);
    assert_int_equal(a.segment->upto, 54);
    segment_unref(a.segment);
    assert_false(r->watches[0].open);
}

static void event_above_the_end_or_a_progress_at_it_completes(void **state)
{
    struct rig *r = *state;
    for (int by_progress = 0; by_progress < 2; by_progress++) {
        rig_renew(r);
        request(r, 50, 55, 1);
        created(r, 0);
        deliver(r, 0); /* 50; the scope has nothing in 51 .. 54 */
        if (by_progress) {
            progress(r, 0, 53);
            assert_no_answer(r);
            progress(r, 0, 54);
        } else {
            r->watches[0].next = 55;
            deliver(r, 0);
        }
        struct backfill_answer a;
        assert_true(backfill_answer(r->backfill, &a));
        assert_int_equal(a.err, BELFRY_OK);
        assert_int_equal(a.segment->from, 50);
        assert_int_equal(a.segment->upto, 54);
        assert_int_equal(a.segment->n, 1);
        segment_unref(a.segment);
    }
}

static void silence_is_broken_by_asking_for_progress(void **state)
{
    struct rig *r = *state;
    request(r, 50, 55, 1);
    created(r, 0);
    assert_int_equal(backfill_due(r->backfill), r->now + UPSTREAM_PROGRESS_MS);
    r->now += UPSTREAM_PROGRESS_MS;
    obey(r);
    assert_int_equal(r->n_progress, 1);
}

static void equal_requests_share_one_watch_and_one_segment(void **state)
{
    struct rig *r = *state;
    request(r, 50, 60, 1);
    request(r, 50, 60, 2);
    deliver_all(r);
    struct backfill_answer a = answer(r), b = answer(r);
    assert_ptr_equal(a.segment, b.segment);
    assert_int_equal(r->n_opened, 1);
    segment_unref(a.segment);
    segment_unref(b.segment);
}

static void three_at_a_time_and_the_next_waits(void **state)
{
    struct rig *r = *state;
    for (uint64_t i = 0; i < 6; i++)
        request(r, 20 + 50 * (int64_t)i, 25 + 50 * (int64_t)i, i);
    assert_int_equal(r->n_opened, BACKFILLS - 1);
    for (int round = 0; round < 4; round++)
        deliver_all(r);
    assert_int_equal(r->n_opened, 6);
    uint64_t seen = 0;
    for (int i = 0; i < 6; i++) {
        struct backfill_answer a = answer(r);
        seen |= 1u << a.token;
        segment_unref(a.segment);
    }
    assert_int_equal(seen, 63);
}

static void compacted_is_told_only_for_what_upstream_says_is_gone(void **state)
{
    struct rig *r = *state;
    request(r, 50, 300, 1);
    created(r, 0);
    end(r, 0, BELFRY_ERR_COMPACTED, 120);
    struct backfill_answer a = answer(r);
    assert_int_equal(a.err, BELFRY_ERR_COMPACTED);
    assert_int_equal(a.compact_rev, 120);
    assert_no_answer(r);

    request(r, 150, 300, 2); /* three revisions, and then the compaction overtakes it */
    created(r, 0);
    for (int i = 0; i < 3; i++)
        deliver(r, 0);
    end(r, 0, BELFRY_ERR_COMPACTED, 200);
    a = answer(r);
    assert_int_equal(a.err, BELFRY_OK);
    assert_int_equal(a.segment->upto, 152);
    segment_unref(a.segment);
}

static void watch_that_ends_otherwise_is_asked_for_again_after_a_while(void **state)
{
    struct rig *r = *state;
    for (int i = 0; i < 3; i++) {
        request(r, 50, 300, 1);
        r->now += 1000;
        obey(r);
        created(r, 0);
        end(r, 0, BELFRY_ERR_UNAVAILABLE, 0);
        assert_int_equal(answer(r).err, BELFRY_ERR_CANCELED);
    }
    request(r, 50, 300, 2);
    assert_false(r->watches[0].open); /* not at once */
    assert_true(backfill_due(r->backfill) > r->now);
    r->now = backfill_due(r->backfill);
    obey(r);
    deliver_all(r);
    struct backfill_answer a = answer(r);
    assert_int_equal(a.err, BELFRY_OK);
    segment_unref(a.segment);
}

static void cut_ends_everything_of_the_past(void **state)
{
    struct rig *r = *state;
    request(r, 50, 300, 1);
    created(r, 0);
    deliver(r, 0);
    backfill_cut(r->backfill, PAST + 1, r->now);
    obey(r);
    assert_false(r->watches[0].open);
    assert_int_equal(answer(r).err, BELFRY_ERR_CANCELED);
    request(r, 50, 300, 2); /* who has not heard of it yet */
    assert_int_equal(answer(r).err, BELFRY_ERR_CANCELED);
}

/* A worker hears of the new past from the log, and may ask before we have heard of it; everything is taken then. */
static void request_of_the_next_past_is_served_after_the_cut(void **state)
{
    struct rig *r = *state;
    for (unsigned i = 0; i < BACKFILLS - 1; i++)
        request(r, 20 + 50 * (int64_t)i, 25 + 50 * (int64_t)i, i);
    assert_int_equal(backfill_request(r->backfill,
                                      &(struct backfill_ask){.past = PAST + 1, .from = 300, .oldest = 310, .token = 99},
                                      r->now),
                     BELFRY_OK);
    obey(r);
    backfill_cut(r->backfill, PAST + 1, r->now);
    obey(r);
    for (unsigned i = 0; i < BACKFILLS - 1; i++)
        assert_int_equal(answer(r).err, BELFRY_ERR_CANCELED);
    assert_true(r->watches[0].open);
    assert_int_equal(r->watches[0].next, 300);
}

static void backfill_that_nobody_asks_for_ends(void **state)
{
    struct rig *r = *state;
    request(r, 50, 300, 1);
    deliver_all(r);
    segment_unref(answer(r).segment);
    deliver_all(r);
    assert_true(r->watches[0].open);
    r->now += BACKFILL_IDLE_MS;
    assert_true(backfill_due(r->backfill) <= r->now);
    backfill_tick(r->backfill, r->now);
    obey(r);
    assert_false(r->watches[0].open);
}

static void requests_are_bounded(void **state)
{
    struct rig *r = *state;
    for (uint64_t i = 0; i < 1024; i++)
        request(r, 50, 300, i);
    assert_int_equal(backfill_request(r->backfill,
                                      &(struct backfill_ask){.past = PAST, .from = 50, .oldest = 300, .token = 9999},
                                      r->now),
                     BELFRY_ERR_LIMIT);
    deliver_all(r);
    segment_unref(answer(r).segment);
    request(r, 50, 300, 9999);
}

/* ---- clients take turns ---- */

static void request_for(struct rig *r, uint64_t client, int64_t from, int64_t oldest, uint64_t token)
{
    r->client = client;
    request(r, from, oldest, token);
}

static void a_client_leaves_a_backfill_to_others(void **state)
{
    struct rig *r = *state;
    for (int64_t i = 0; i < 4; i++)
        request_for(r, 7, 20 + 50 * i, 300, 1);
    assert_true(r->watches[0].open && r->watches[1].open);
    assert_false(r->watches[2].open);
    request_for(r, 8, 250, 300, 2);
    assert_true(r->watches[2].open);
    assert_int_equal(r->watches[2].next, 250);
}

/* Requests of five revisions: each is whole with its first segment. */
static void clients_take_turns(void **state)
{
    struct rig *r = *state;
    for (int64_t i = 0; i < 5; i++)
        request_for(r, 7, 20 + 40 * i, 25 + 40 * i, 1);
    request_for(r, 8, 220, 225, 2);
    request_for(r, 8, 260, 265, 2);
    request_for(r, 9, 300, 305, 3);
    assert_int_equal(r->watches[2].next, 220);
    give_all(r, 0);
    segment_unref(answer(r).segment);
    assert_int_equal(r->watches[0].next, 300); /* the one client that has none */
    give_all(r, 2);
    segment_unref(answer(r).segment);
    assert_int_equal(r->watches[2].next, 260);
    for (size_t n = 0; n < 6; n++) {
        deliver_all(r);
        segment_unref(answer(r).segment);
    }
    assert_no_answer(r);
}

/* The next segment from `from` on, of watch i, and no more than that. Returns where it ends. */
static int64_t follow_one(struct rig *r, unsigned i, int64_t from, uint64_t token)
{
    struct backfill_answer a;
    if (!r->watches[i].created)
        created(r, i);
    while (!backfill_answer(r->backfill, &a))
        assert_true(deliver(r, i));
    assert_int_equal(a.token, token);
    assert_int_equal(a.segment->from, from);
    int64_t next = a.segment->upto + 1;
    segment_unref(a.segment);
    obey(r);
    return next;
}

static void backfills_give_way_to_a_client_that_has_none(void **state)
{
    struct rig *r = *state;
    int64_t next[2];
    for (unsigned i = 0; i < 2; i++) {
        int64_t from = 20 + 100 * (int64_t)i;
        request_for(r, 7, from, 390, i);
        next[i] = follow_one(r, i, from, i);
    }
    request_for(r, 7, next[0], 390, 10); /* both are wanted */
    request_for(r, 7, next[1], 390, 11);
    request_for(r, 9, 350, 390, 90);
    assert_int_equal(r->watches[2].next, 350);
    request_for(r, 8, 300, 390, 80); /* the second of client 7 ends for it */
    bool first = r->watches[0].next == 300;
    assert_true(first || r->watches[1].next == 300);
    unsigned mine = first ? 0 : 1;
    assert_int_not_equal(follow_one(r, mine, 300, 80), 0);
    request_for(r, 8, 320, 390, 81);

    request_for(r, 10, 150, 390, 100); /* each has one now */
    for (unsigned i = 0; i < 3; i++)
        assert_int_not_equal(r->watches[i].next, 150);
    uint64_t due = backfill_due(r->backfill);
    assert_true(due > r->now && due <= r->now + BACKFILL_TURN_MS);
    r->now += BACKFILL_TURN_MS;
    backfill_tick(r->backfill, r->now);
    obey(r);
    unsigned n = 0;
    for (unsigned i = 0; i < 3; i++)
        n += r->watches[i].open && r->watches[i].next == 150;
    assert_int_equal(n, 1);
}

static void requests_of_one_client_refuse_no_other(void **state)
{
    struct rig *r = *state;
    struct backfill_ask ask = {.client = 7, .past = PAST, .from = 50, .oldest = 300, .token = 1};
    for (size_t i = 0; i < 512; i++)
        request_for(r, 7, 50, 300, i);
    assert_int_equal(backfill_request(r->backfill, &ask, r->now), BELFRY_ERR_LIMIT);
    for (size_t i = 0; i < 256; i++)
        request_for(r, 8, 50, 300, i);
    ask.client = 8;
    assert_int_equal(backfill_request(r->backfill, &ask, r->now), BELFRY_ERR_LIMIT);
    request_for(r, 9, 50, 300, 1);
    for (size_t i = 512 + 256 + 1; i < 1024; i++)
        request_for(r, 0, 50, 300, i);
    ask.client = 0;
    assert_int_equal(backfill_request(r->backfill, &ask, r->now), BELFRY_ERR_LIMIT);
}

/* ---- the proof ---- */

#define PROBE (BACKFILLS - 1)

/* We follow the rig's past, and hold its newest revision. */
static void follow(struct rig *r)
{
    static const struct modelstore_opts store_opts = {.history_rows = 10, .history_age_s = 1, .extent_bytes = 1 << 20};
    struct evlog_opts log_opts = {.capacity_log2 = 6, .max_bytes = 1 << 20, .n_workers = 1};
    r->store = modelstore_create(&store_opts);
    assert_int_equal(evlog_create(&log_opts, &r->evlog), BELFRY_OK);
    struct ingest_opts opts = {.store = r->store, .evlog = r->evlog, .trim_rows = 16, .whole_scope = true};
    assert_int_equal(ingest_create(&opts, &r->ingest), BELFRY_OK);
    struct belfry_wire_header header = past_header(r->past, 1);
    assert_int_equal(r->store->api->fresh(r->store), BELFRY_OK);
    assert_int_equal(ingest_adopt(r->ingest, 1, &header, EVLOG_CUT_START, 0), BELFRY_OK);
    for (int64_t rev = 2; rev <= r->past->head; rev++) {
        struct ingest_revision revision = past_revision(r->past, rev, PAST_BARE);
        assert_int_equal(ingest_revision(r->ingest, &revision, r->now), BELFRY_OK);
    }
    backfill_prove_by(r->backfill, r->ingest);
}

/* Upstream has compacted the revision that proves, as in a quiet scope. */
static void a_proof_that_is_compacted_is_tried_with_pauses(void **state)
{
    struct rig *r = *state;
    follow(r);
    request(r, 50, 200, 1);
    for (int round = 0; round < 600; round++) { /* of 100 ms, and several without any time between them */
        for (int again = 0; again < 3; again++) {
            if (r->watches[0].open && !r->watches[0].created)
                created(r, 0);
            if (!r->watches[PROBE].open)
                continue;
            created(r, PROBE);
            end(r, PROBE, BELFRY_ERR_COMPACTED, 401);
        }
        r->now += 100;
        obey(r);
    }
    assert_in_range(r->n_opened, 10, 80); /* in a minute */
    assert_no_answer(r);
}

static void one_proof_is_good_for_everything_the_watch_gives(void **state)
{
    struct rig *r = *state;
    follow(r);
    request(r, 50, 200, 1);
    assert_false(r->watches[PROBE].open); /* it would prove nothing of a watch that is not there */
    created(r, 0);
    assert_true(r->watches[PROBE].open);
    assert_int_equal(r->watches[PROBE].next, 400);
    while (deliver(r, 0))
        ;
    assert_no_answer(r);
    created(r, PROBE);
    end(r, PROBE, BELFRY_ERR_UNAVAILABLE, 0);
    assert_no_answer(r);
    r->now += 1000;
    obey(r);
    created(r, PROBE);
    assert_true(deliver(r, PROBE));
    assert_false(r->watches[PROBE].open);
    int64_t next = 50;
    for (uint64_t token = 1; next < 200; token++) {
        struct backfill_answer a = answer(r);
        assert_int_equal(a.token, token);
        next = a.segment->upto + 1;
        segment_unref(a.segment);
        while (deliver(r, 0))
            ;
        if (next < 200)
            request(r, next, 200, token + 1);
    }
    assert_int_equal(r->n_opened, 3); /* the watch, and the probe twice */
}

static void watch_created_anew_is_proven_anew(void **state)
{
    struct rig *r = *state;
    follow(r);
    request(r, 50, 200, 1);
    give_all(r, 0);
    created(r, 0); /* before it was proven: what it gave is of nobody knows which past */
    assert_true(r->watches[0].open && !r->watches[0].created);
    assert_int_equal(r->watches[0].next, 50);
    created(r, 0);
    deliver_all(r); /* the probe was opened before it: it takes another one */
    assert_no_answer(r);
    deliver_all(r);
    struct backfill_answer a = answer(r);
    int64_t next = a.segment->upto + 1;
    segment_unref(a.segment);
    created(r, 0); /* after it: that is good, but nothing more is */
    assert_true(r->watches[0].next > next);
    for (uint64_t token = 2; token < 5; token++) { /* what is ready, and what is not */
        request(r, next, 200, token);
        while (deliver(r, 0))
            ;
        if (!backfill_answer(r->backfill, &a))
            break;
        next = a.segment->upto + 1;
        segment_unref(a.segment);
        assert_true(token < 4);
    }
    assert_true(r->watches[PROBE].open);
    created(r, PROBE);
    created(r, PROBE); /* on another stream: of that it says nothing */
    assert_true(r->watches[PROBE].open && !r->watches[PROBE].created);
    deliver_all(r);
    a = answer(r);
    assert_int_equal(a.segment->from, next);
    segment_unref(a.segment);
}

static void segment_of_a_rewritten_past_is_never_given(void **state)
{
    struct rig *r = *state;
    for (int how = 0; how < 4; how++) {
        rig_renew(r);
        follow(r);
        struct past *past = past_fork(r->past, 40);
        past_fill(past, 420, "rewritten");
        past_destroy(r->past);
        r->past = past;
        request(r, 50, 55, 1);
        give_all(r, 0);
        created(r, PROBE);
        r->watches[PROBE].next = how == 1 ? 401 : 400; /* it differs, or is not there */
        if (how < 2)
            deliver(r, PROBE);
        else if (how == 2)
            progress(r, PROBE, 420);
        else
            end(r, 0, BELFRY_ERR_COMPACTED, 50); /* a tier cuts: it says so of whatever was asked */
        assert_no_answer(r);
        assert_false(r->watches[0].open && r->watches[0].created);
        backfill_cut(r->backfill, PAST + 1, r->now);
        obey(r);
        assert_int_equal(answer(r).err, BELFRY_ERR_CANCELED);
        assert_false(r->watches[PROBE].open);
    }
}

/* The watch that proves, and then the backfill's. */
static void go_a_step(struct rig *r, uint64_t ms)
{
    r->now += ms;
    backfill_tick(r->backfill, r->now);
    obey(r);
    if (r->watches[PROBE].open && !r->watches[PROBE].created)
        created(r, PROBE);
    deliver(r, PROBE);
    if (r->watches[0].open && !r->watches[0].created)
        created(r, 0);
    while (deliver(r, 0))
        ;
}

static void go_on(struct rig *r)
{
    for (int i = 0; i < 20; i++)
        go_a_step(r, 1000);
}

/* The tier above finds out about a restore and ends every watch; that one is paused, so its end is not heard. */
static void proof_of_the_next_past_is_none_of_what_came_before(void **state)
{
    struct rig *r = *state;
    follow(r);
    struct past *ended = past_fork(r->past, 40), *ours_too = r->past;
    past_fill(ended, 390, "of the past that ended"); /* the probe at 400 hears nothing of it */
    r->past = ended;
    request(r, 50, 200, 1);
    give_all(r, 0);
    assert_true(r->watches[0].paused);
    created(r, PROBE);
    r->past = ours_too;
    end(r, PROBE, BELFRY_ERR_COMPACTED, 400);
    go_on(r);
    struct backfill_answer a = answer(r); /* compares every event */
    assert_int_equal(a.err, BELFRY_OK);
    segment_unref(a.segment);
    past_destroy(ended);
}

/* The stream breaks, because of a restore, while the watch is paused and before the proof: the watch that proves is
 * created on the next stream, or wanted there only. Or a tier above cancels both. */
static void proof_on_the_next_stream_is_none_of_what_came_over_the_last(void **state)
{
    struct rig *r = *state;
    enum { ASKED, CREATED, CREATED_TOLD_LAST, WAITING, HOWS };
    for (int how = 0; how < HOWS; how++) {
        rig_renew(r);
        follow(r);
        struct past *ended = past_fork(r->past, 40), *ours_too = r->past;
        past_fill(ended, 390, "of the past that ended"); /* the probe at 400 hears nothing of it */
        r->past = ended;
        request(r, 50, 200, 1);
        give_all(r, 0);
        assert_true(r->watches[0].paused);
        if (how != ASKED)
            created(r, PROBE);
        if (how == WAITING)
            end(r, PROBE, BELFRY_ERR_UNAVAILABLE, 0); /* tried again, but not at once */
        r->past = ours_too;
        if (how == CREATED)
            lose(r, PROBE);
        lose(r, 0);
        if (how == CREATED_TOLD_LAST)
            lose(r, PROBE);
        go_on(r);
        struct backfill_answer a = answer(r); /* compares every event */
        assert_int_equal(a.err, BELFRY_OK);
        assert_int_equal(a.segment->from, 50);
        segment_unref(a.segment);
        past_destroy(ended);
    }
}

/* The cluster is restored while our live watch, which has not heard of it, still gets what was written before. */
static void proof_says_nothing_of_what_we_got_since(void **state)
{
    struct rig *r = *state;
    follow(r);
    struct past *restored = past_fork(r->past, 400), *ended = r->past;
    past_fill(ended, 440, "of the past that ended");
    past_fill(restored, 440, "of the past that followed");
    request(r, 370, 380, 1);
    created(r, 0);
    assert_true(r->watches[PROBE].open && r->watches[PROBE].next == 400);
    for (int64_t rev = 401; rev <= 440; rev++) {
        struct ingest_revision revision = past_revision(ended, rev, PAST_BARE);
        assert_int_equal(ingest_revision(r->ingest, &revision, r->now), BELFRY_OK);
    }
    r->past = restored;
    request(r, 370, 430, 2);
    int64_t next = 370;
    struct backfill_answer a;
    for (uint64_t token = 3; token < 40; token++) {
        go_a_step(r, 100);
        while (backfill_answer(r->backfill, &a)) {
            assert_int_equal(a.err, BELFRY_OK);
            assert_true(a.segment->upto <= 400);
            next = a.segment->upto + 1;
            segment_unref(a.segment);
        }
        request(r, next, 430, token);
    }
    assert_true(next > 380); /* what is of both was given */
    past_destroy(ended);
}

/* It holds more than a paused watch may, and lets go upstream; the watch that proves was there before, and still is. */
static void watch_that_is_parked_is_proven_by_what_was_there_before(void **state)
{
    struct rig *r = *state;
    follow(r);
    request(r, 50, 200, 1);
    give_all(r, 0);
    created(r, PROBE);
    lose(r, 0);
    assert_no_answer(r);
    assert_true(deliver(r, PROBE));
    struct backfill_answer a = answer(r);
    assert_int_equal(a.err, BELFRY_OK);
    segment_unref(a.segment);
    assert_int_equal(r->n_opened, 2); /* nothing was read twice */
}

/* However soon it is parked: the second time the proof comes first. */
static void watch_that_is_always_parked_before_its_proof_goes_on(void **state)
{
    struct rig *r = *state;
    follow(r);
    request(r, 50, 200, 1);
    give_all(r, 0);
    lose(r, 0);
    assert_false(r->watches[0].open);
    created(r, PROBE);
    assert_true(deliver(r, PROBE));
    assert_true(r->watches[PROBE].open); /* held */
    assert_true(r->watches[0].open && r->watches[0].next == 50);
    give_all(r, 0);
    lose(r, 0);
    struct backfill_answer a = answer(r);
    assert_int_equal(a.err, BELFRY_OK);
    segment_unref(a.segment);
}

/* A watch is created, gives what it has, and is parked before anything is proven. */
static void park_unproven(struct rig *r, unsigned slot)
{
    if (!r->watches[slot].open)
        return;
    created(r, slot);
    while (deliver(r, slot))
        ;
    if (r->watches[slot].open)
        lose(r, slot);
}

/* The proof stays open as long as one of two watches has been parked unproven. Meanwhile we have got more, and both are
 * to read beyond what the proof can speak of. */
static void held_proof_serves_backfills_that_grew_beyond_it(void **state)
{
    struct rig *r = *state;
    follow(r);
    request(r, 300, 380, 1);
    request(r, 350, 380, 2);
    park_unproven(r, 0);
    park_unproven(r, 1);
    assert_true(r->watches[PROBE].open && r->watches[PROBE].next == 400);
    past_fill(r->past, 440, "written since");
    for (int64_t rev = 401; rev <= 440; rev++) {
        struct ingest_revision revision = past_revision(r->past, rev, PAST_BARE);
        assert_int_equal(ingest_revision(r->ingest, &revision, r->now), BELFRY_OK);
    }
    request(r, 300, 430, 3);
    request(r, 350, 430, 4);
    created(r, PROBE);
    assert_true(deliver(r, PROBE));
    assert_true(r->watches[PROBE].open && r->watches[0].open && r->watches[1].open); /* held, for both */
    for (int i = 0; i < 20; i++) {
        park_unproven(r, 0);
        park_unproven(r, 1);
    }
    struct backfill_answer a;
    int n = 0;
    for (; backfill_answer(r->backfill, &a); n++) {
        assert_int_equal(a.err, BELFRY_OK);
        assert_true(a.segment->upto <= 400);
        segment_unref(a.segment);
    }
    assert_int_equal(n, 4);
}

/* A proof that is held is of its own stream. */
static void held_proof_that_is_lost_proves_nothing(void **state)
{
    struct rig *r = *state;
    follow(r);
    request(r, 50, 55, 1);
    created(r, 0);
    end(r, 0, BELFRY_ERR_COMPACTED, 300);
    created(r, PROBE);
    assert_true(deliver(r, PROBE));
    assert_true(r->watches[0].open &&
                r->watches[PROBE].open); /* the one held, the other asked for: the stream breaks */
    lose(r, PROBE);
    created(r, 0);
    end(r, 0, BELFRY_ERR_COMPACTED, 300);
    assert_no_answer(r);
}

/* A tier above that has not found out about a restore yet tells of a compaction that our past never had. */
static void compaction_of_another_past_is_not_believed(void **state)
{
    struct rig *r = *state;
    follow(r);
    struct past *ended = past_fork(r->past, 40), *ours_too = r->past;
    past_fill(ended, 420, "of the past that ended");
    r->past = ended;
    request(r, 50, 55, 1);
    for (int i = 0; i < 20; i++) {
        if (r->watches[0].open) {
            created(r, 0);
            end(r, 0, BELFRY_ERR_COMPACTED, 300);
        }
        if (r->watches[PROBE].open && !r->watches[PROBE].created)
            created(r, PROBE);
        deliver(r, PROBE);
        assert_no_answer(r);
        r->now += 1000;
        backfill_tick(r->backfill, r->now);
        obey(r);
    }
    r->past = ours_too; /* it has found out */
    for (int i = 0; i < 20; i++) {
        deliver_all(r);
        r->now += 1000;
        backfill_tick(r->backfill, r->now);
        obey(r);
    }
    struct backfill_answer a = answer(r);
    assert_int_equal(a.err, BELFRY_OK);
    segment_unref(a.segment);
    assert_false(r->watches[PROBE].open);
    past_destroy(ended);
}

/* Said before it was proven, and said again under a proof that holds. */
static void compaction_of_our_past_is_told_when_that_is_proven(void **state)
{
    struct rig *r = *state;
    for (int broken = 0; broken < 3; broken++) { /* 1, 2: the proof's watch ends before the other is there again */
        rig_renew(r);
        follow(r);
        request(r, 50, 55, 1);
        created(r, 0);
        end(r, 0, BELFRY_ERR_COMPACTED, 300);
        assert_no_answer(r);
        assert_false(r->watches[0].open); /* it would prove nothing: it waits for the proof */
        assert_true(backfill_due(r->backfill) > r->now);
        created(r, PROBE);
        assert_true(deliver(r, PROBE));
        assert_true(r->watches[PROBE].open && r->watches[0].open);
        assert_int_equal(r->watches[0].next, 50);
        if (broken == 1)
            end(r, PROBE, BELFRY_ERR_COMPACTED, 400);
        if (broken == 2)
            created(r, PROBE);
        created(r, 0);
        end(r, 0, BELFRY_ERR_COMPACTED, 300);
        if (broken > 0) { /* once more from the beginning */
            assert_no_answer(r);
            r->now += 1000;
            obey(r);
            created(r, PROBE);
            assert_true(deliver(r, PROBE));
            created(r, 0);
            assert_false(r->watches[PROBE].open); /* nobody needs it any more */
            end(r, 0, BELFRY_ERR_COMPACTED, 300);
        }
        struct backfill_answer a = answer(r);
        assert_int_equal(a.err, BELFRY_ERR_COMPACTED);
        assert_int_equal(a.compact_rev, 300);
        assert_false(r->watches[PROBE].open);
    }
}

/* We are behind: upstream is compacted above our head. If it is restored to a revision in between, our past goes on. */
static void compaction_beyond_our_head_is_told_up_to_the_head(void **state)
{
    struct rig *r = *state;
    follow(r);
    request(r, 50, 55, 1);
    created(r, 0);
    end(r, 0, BELFRY_ERR_COMPACTED, 500);
    created(r, PROBE);
    assert_true(deliver(r, PROBE));
    created(r, 0);
    end(r, 0, BELFRY_ERR_COMPACTED, 500);
    struct backfill_answer a = answer(r);
    assert_int_equal(a.err, BELFRY_ERR_COMPACTED);
    assert_int_equal(a.compact_rev, 401); /* the head is 400 */
}

/* Ours is a listing's state: there are no events to prove by, but what the last ones have left. */
static void listing_proves_by_its_state(void **state)
{
    struct rig *r = *state;
    for (int rewritten = 0; rewritten < 2; rewritten++) {
        rig_renew(r);
        follow(r);
        struct belfry_wire_header header = past_header(r->past, 400);
        assert_int_equal(r->store->api->fresh(r->store), BELFRY_OK);
        for (int key = 0; key < PAST_KEYS; key++) {
            uint8_t raw[128];
            struct belfry_wire_kv kv;
            size_t len = past_encode_kv(key, &r->past->now[key], raw);
            assert_int_equal(belfry_scan_kv(belfry_bytes_of(raw, len), &kv), BELFRY_OK);
            assert_int_equal(r->store->api->put(r->store, &kv), BELFRY_OK);
        }
        assert_int_equal(ingest_adopt(r->ingest, 400, &header, EVLOG_CUT_COMPACTED, 300), BELFRY_OK);
        if (rewritten) {
            struct past *past = past_fork(r->past, 40);
            past_fill(past, 420, "rewritten");
            past_destroy(r->past);
            r->past = past;
        }
        request(r, 50, 55, 1);
        deliver_all(r);
        struct backfill_answer a;
        assert_int_equal(backfill_answer(r->backfill, &a), !rewritten);
        if (!rewritten)
            segment_unref(a.segment);
    }
}

/* Who asked already in the new past waits for a proof that is of it. */
static void cut_proves_anew(void **state)
{
    struct rig *r = *state;
    follow(r);
    request(r, 50, 55, 1);
    created(r, 0);
    assert_true(r->watches[PROBE].open);
    created(r, PROBE);
    backfill_cut(r->backfill, PAST, r->now);
    obey(r);
    assert_true(r->watches[PROBE].open && !r->watches[PROBE].created);
    deliver_all(r);
    segment_unref(answer(r).segment);
}

/* Nothing is held at all: only revision 1. */
static void nothing_to_prove_by_proves_nothing(void **state)
{
    struct rig *r = *state;
    struct past *past = r->past;
    r->past = past_create(9);
    follow(r);
    past_destroy(r->past);
    r->past = past;
    request(r, 50, 55, 1);
    for (int i = 0; i < 100; i++) {
        deliver_all(r);
        r->now += 100;
        backfill_tick(r->backfill, r->now);
        obey(r);
    }
    assert_no_answer(r);
}

/* A round trip is five steps, and in a step 50 revisions come. */
static void ten_thousand_revisions_come_as_fast_as_upstream_gives_them(void **state)
{
    struct rig *r = *state;
    past_fill(r->past, 10100, "a");
    backfill_destroy(r->backfill);
    assert_int_equal(backfill_create(5 * SEGMENT, 1, &r->backfill), BELFRY_OK);
    follow(r);
    int64_t next = 50;
    int steps = 0, since[BACKFILLS] = {0};
    request(r, next, 10050, 1);
    for (; next < 10050; steps++) {
        assert_true(steps < 10000 / 50 + 30);
        for (unsigned i = 0; i < BACKFILLS; i++) {
            since[i] = r->watches[i].open ? since[i] + 1 : 0;
            if (since[i] == 5)
                created(r, i);
            for (int n = 0; n < 50 && deliver(r, i); n++)
                ;
        }
        struct backfill_answer a;
        if (backfill_answer(r->backfill, &a)) {
            next = a.segment->upto + 1;
            segment_unref(a.segment);
            if (next < 10050)
                request(r, next, 10050, (uint64_t)steps);
        }
        r->now += 10;
        if (backfill_due(r->backfill) <= r->now)
            backfill_tick(r->backfill, r->now);
        obey(r);
    }
}

static void job_that_nobody_asks_yields_to_who_waits(void **state)
{
    struct rig *r = *state;
    for (uint64_t i = 0; i < 3; i++)
        request(r, 20 + 10 * (int64_t)i, 300, i);
    deliver_all(r);
    for (int i = 0; i < 3; i++)
        segment_unref(answer(r).segment);
    request(r, 200, 300, 3);
    assert_int_equal(r->n_opened, 3);
    assert_int_equal(backfill_due(r->backfill), r->now + BACKFILL_YIELD_MS);
    r->now += BACKFILL_YIELD_MS;
    backfill_tick(r->backfill, r->now);
    obey(r);
    assert_int_equal(r->n_opened, 4);
}

/* Watchers at random places, each reading on to the window, through breaks and compactions. */
static void random_readers_get_everything(void **state)
{
    struct rig *r = *state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct belfry_rng rng = {seed};
        rig_renew(r);
        int64_t at[8];
        bool asked[8] = {false};
        for (int i = 0; i < 8; i++)
            at[i] = 2 + (int64_t)belfry_rng_below(&rng, 390);
        int left = 8;
        for (int step = 0; step < 100000 && left > 0; step++) {
            unsigned i = (unsigned)belfry_rng_below(&rng, 8), slot = i % (BACKFILLS - 1);
            if (!asked[i] && at[i] < 395) {
                request(r, at[i], 395, i);
                asked[i] = true;
            }
            if (r->watches[slot].open && !r->watches[slot].created)
                created(r, slot);
            else if (r->watches[slot].open && belfry_rng_below(&rng, 300) == 0)
                end(r, slot, BELFRY_ERR_UNAVAILABLE, 0);
            else
                deliver(r, slot);
            struct backfill_answer a;
            while (backfill_answer(r->backfill, &a)) {
                asked[a.token] = false;
                if (a.err != BELFRY_OK)
                    continue;
                assert_segment(r, a.segment);
                assert_true(a.segment->from <= at[a.token] && a.segment->upto >= at[a.token]);
                at[a.token] = a.segment->upto + 1;
                segment_unref(a.segment);
            }
            r->now += belfry_rng_below(&rng, 20);
            if (backfill_due(r->backfill) <= r->now)
                backfill_tick(r->backfill, r->now);
            obey(r);
            left = 0;
            for (int k = 0; k < 8; k++)
                left += at[k] < 395;
        }
        assert_int_equal(left, 0);
    }
}

/* ---- jitter ---- */

/* The times at which a watch that is refused each time is wanted again. */
static void retry_times(uint64_t seed, uint64_t *at, size_t n)
{
    struct rig r = {.past = past_create(9), .now = 1000};
    struct backfill_answer a;
    past_fill(r.past, 400, "a");
    assert_int_equal(backfill_create(SEGMENT, seed, &r.backfill), BELFRY_OK);
    for (size_t i = 0; i < n; i++) {
        request(&r, 50, 300, i);
        for (; !r.watches[0].open; r.now++)
            obey(&r);
        at[i] = r.now;
        end(&r, 0, BELFRY_ERR_UNAVAILABLE, 0);
        assert_true(backfill_answer(r.backfill, &a));
        assert_int_equal(a.err, BELFRY_ERR_CANCELED);
    }
    rig_fini(&r);
}

static void tiers_with_different_seeds_come_back_at_different_times(void **state)
{
    (void)state;
    uint64_t one[8], same[8], other[8];
    retry_times(1, one, 8);
    retry_times(1, same, 8);
    retry_times(2, other, 8);
    size_t equal = 0;
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(one[i], same[i]);
        equal += one[i] == other[i];
    }
    assert_in_range(equal, 0, 4); /* the first two are immediate */
}

/* ---- before the first write ---- */

static void what_lies_before_the_first_write_is_known_to_be_empty(void **state)
{
    (void)state;
    struct backfill *backfill;
    struct backfill_answer a;
    struct upstream_action action;
    assert_int_equal(backfill_create(SEGMENT, 1, &backfill), BELFRY_OK);
    assert_int_equal(
        backfill_request(backfill, &(struct backfill_ask){.past = PAST, .from = 1, .oldest = 2, .token = 7}, 1000),
        BELFRY_OK);
    assert_true(backfill_answer(backfill, &a));
    assert_int_equal(a.token, 7);
    assert_int_equal(a.err, BELFRY_OK);
    assert_int_equal(a.segment->from, 1);
    assert_int_equal(a.segment->upto, 1);
    assert_int_equal(a.segment->n, 0);
    segment_unref(a.segment);
    assert_false(backfill_next(backfill, 1000, &action)); /* upstream is not asked */
    assert_int_equal(
        backfill_request(backfill, &(struct backfill_ask){.past = PAST, .from = 1, .oldest = 3, .token = 8}, 1000),
        BELFRY_OK);
    assert_false(backfill_answer(backfill, &a)); /* of revision 2 it is */
    assert_true(backfill_next(backfill, 1000, &action));
    backfill_destroy(backfill);
}

/* ---- refusals ---- */

static struct past *shared_past;

static enum belfry_err read_it_all(void)
{
    struct rig r = {.past = shared_past, .now = 1000};
    enum belfry_err err = backfill_create(SEGMENT, 1, &r.backfill);
    if (err != BELFRY_OK)
        return err;
    err =
        backfill_request(r.backfill, &(struct backfill_ask){.past = PAST, .from = 50, .oldest = 60, .token = 1}, r.now);
    for (int i = 0; i < 100 && err == BELFRY_OK; i++) {
        struct backfill_answer a;
        obey(&r);
        deliver_all(&r);
        r.now += 100;
        backfill_tick(r.backfill, r.now);
        if (!backfill_answer(r.backfill, &a))
            continue;
        segment_unref(a.segment);
        if (a.err == BELFRY_OK)
            break;
        err = backfill_request(r.backfill, &(struct backfill_ask){.past = PAST, .from = 50, .oldest = 60, .token = 1},
                               r.now);
    }
    backfill_destroy(r.backfill);
    return err;
}

static void refused_allocation_is_made_good(void **state)
{
    (void)state;
    shared_past = past_create(9);
    past_fill(shared_past, 100, "a");
    assert_true(refuse_sweep(read_it_all) > 10);
    past_destroy(shared_past);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        T(history_comes_in_segments_up_to_the_window),
        T(next_segments_are_there_before_they_are_asked_for),
        T(created_and_event_headers_do_not_complete),
        T(event_above_the_end_or_a_progress_at_it_completes),
        T(silence_is_broken_by_asking_for_progress),
        T(equal_requests_share_one_watch_and_one_segment),
        T(three_at_a_time_and_the_next_waits),
        T(compacted_is_told_only_for_what_upstream_says_is_gone),
        T(watch_that_ends_otherwise_is_asked_for_again_after_a_while),
        T(cut_ends_everything_of_the_past),
        T(request_of_the_next_past_is_served_after_the_cut),
        T(backfill_that_nobody_asks_for_ends),
        T(requests_are_bounded),
        T(a_client_leaves_a_backfill_to_others),
        T(clients_take_turns),
        T(backfills_give_way_to_a_client_that_has_none),
        T(requests_of_one_client_refuse_no_other),
        cmocka_unit_test(what_lies_before_the_first_write_is_known_to_be_empty),
        T(a_proof_that_is_compacted_is_tried_with_pauses),
        T(one_proof_is_good_for_everything_the_watch_gives),
        T(watch_created_anew_is_proven_anew),
        T(proof_of_the_next_past_is_none_of_what_came_before),
        T(proof_on_the_next_stream_is_none_of_what_came_over_the_last),
        T(proof_says_nothing_of_what_we_got_since),
        T(watch_that_is_parked_is_proven_by_what_was_there_before),
        T(watch_that_is_always_parked_before_its_proof_goes_on),
        T(held_proof_serves_backfills_that_grew_beyond_it),
        T(held_proof_that_is_lost_proves_nothing),
        T(compaction_of_another_past_is_not_believed),
        T(compaction_of_our_past_is_told_when_that_is_proven),
        T(compaction_beyond_our_head_is_told_up_to_the_head),
        T(listing_proves_by_its_state),
        T(cut_proves_anew),
        T(nothing_to_prove_by_proves_nothing),
        T(ten_thousand_revisions_come_as_fast_as_upstream_gives_them),
        T(job_that_nobody_asks_yields_to_who_waits),
        T(segment_of_a_rewritten_past_is_never_given),
        T(random_readers_get_everything),
        cmocka_unit_test(tiers_with_different_seeds_come_back_at_different_times),
        cmocka_unit_test(refused_allocation_is_made_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
