/* src/core/source_test.c */
#include "core/source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/refuse.h"

#define PAST 3

/* A log that has revisions 101 to 104; all below is history. */
static struct evlog *evlog;
static struct turn turn;
static struct source source;
static uint64_t client; /* for whom it is read */

static struct batch *batch_of(int64_t rev, enum batch_kind kind)
{
    struct batch *batch = NULL;
    assert_int_equal(batch_create(rev, kind, 0, 0, &batch), BELFRY_OK);
    return batch;
}

static int setup(void **state)
{
    (void)state;
    struct evlog_opts opts = {.capacity_log2 = 4, .max_bytes = 1 << 20, .n_workers = 1};
    assert_int_equal(evlog_create(&opts, &evlog), BELFRY_OK);
    assert_int_equal(evlog_cut(evlog, 100, EVLOG_CUT_START, 0), BELFRY_OK);
    for (int64_t rev = 101; rev <= 104; rev++)
        assert_int_equal(evlog_append(evlog, batch_of(rev, BATCH_ADVANCE)), BELFRY_OK);
    turn = (struct turn){.number = 1, .retry_at = BELFRY_NEVER};
    evlog_enter(evlog, 0, &turn.view);
    client = 0;
    source_init(&source, &turn, (size_t)4 * SEGMENT_BYTES);
    source_begin_past(&source, PAST);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    source_fini(&source);
    evlog_leave(evlog, 0);
    evlog_destroy(evlog);
    return 0;
}

/* History [from, upto] with a batch at each even revision. */
static struct segment *history_of(uint64_t past, int64_t from, int64_t upto)
{
    struct segment_builder builder;
    struct segment *segment = NULL;
    segment_begin(&builder);
    for (int64_t rev = from + from % 2; rev <= upto; rev += 2)
        assert_int_equal(segment_add(&builder, batch_of(rev, BATCH_ADVANCE)), BELFRY_OK);
    assert_int_equal(segment_finish(&builder, past, from, upto, &segment), BELFRY_OK);
    return segment;
}

static enum source_result next(int64_t from, int64_t limit, int64_t *rev)
{
    const struct batch *batch = NULL;
    int64_t upto = 0;
    enum source_result result = source_next(&source, client, from, limit, &batch, &upto);
    *rev = result == SOURCE_BATCH ? batch->rev : upto;
    return result;
}

static void log_is_read_without_a_fetch(void **state)
{
    (void)state;
    struct worker_fetch fetch;
    int64_t rev;
    assert_int_equal(next(101, 104, &rev), SOURCE_BATCH);
    assert_int_equal(rev, 101);
    assert_int_equal(next(104, 104, &rev), SOURCE_BATCH);
    assert_int_equal(rev, 104);
    assert_false(source_wants_fetch(&source, &fetch));
}

static void history_is_asked_for_once_and_kept(void **state)
{
    (void)state;
    struct worker_fetch fetch, again;
    int64_t rev;
    assert_int_equal(next(51, 104, &rev), SOURCE_WAIT);
    assert_int_equal(next(51, 104, &rev), SOURCE_WAIT);
    assert_true(source_wants_fetch(&source, &fetch));
    assert_int_equal(fetch.past, PAST);
    assert_int_equal(fetch.from, 51);
    assert_false(fetch.slice);
    assert_false(source_wants_fetch(&source, &again));
    assert_int_equal(next(51, 104, &rev), SOURCE_WAIT); /* under way: not asked for again */
    assert_false(source_wants_fetch(&source, &again));
    assert_true(source_fetched(&source, &fetch, BELFRY_OK, history_of(PAST, 51, 60), 0, 0));
    assert_int_equal(next(51, 104, &rev), SOURCE_BATCH);
    assert_int_equal(rev, 52);
    assert_int_equal(next(59, 59, &rev), SOURCE_NONE);
    assert_int_equal(rev, 59);
    assert_int_equal(source.n_fetches, 1);
    assert_true(source.bytes > 0);
    source_begin_past(&source, PAST + 1);
    assert_int_equal(source.bytes, 0);
}

/* Two segments, the second used later than the first. */
static void what_is_least_used_is_given_back_first(void **state)
{
    (void)state;
    struct worker_fetch first, second;
    int64_t rev;
    assert_int_equal(next(51, 104, &rev), SOURCE_WAIT);
    assert_true(source_wants_fetch(&source, &first));
    assert_int_equal(next(71, 104, &rev), SOURCE_WAIT);
    assert_true(source_wants_fetch(&source, &second));
    assert_true(source_fetched(&source, &first, BELFRY_OK, history_of(PAST, 51, 60), 0, 0));
    size_t one = source.bytes;
    assert_true(source_fetched(&source, &second, BELFRY_OK, history_of(PAST, 71, 80), 0, 0));
    source_give_back(&source, SIZE_MAX); /* both came in this turn */
    assert_true(source.bytes > one);
    turn.number++;
    assert_int_equal(next(71, 104, &rev), SOURCE_BATCH);
    turn.number++;
    source_give_back(&source, 1);
    assert_int_equal(source.bytes, one);
    assert_int_equal(next(71, 104, &rev), SOURCE_BATCH);
    source_give_back(&source, SIZE_MAX); /* it was used in this turn */
    assert_int_equal(source.bytes, one);
    turn.number++;
    source_give_back(&source, SIZE_MAX);
    assert_int_equal(source.bytes, 0);
}

static void answer_of_another_past_is_dropped(void **state)
{
    (void)state;
    struct worker_fetch fetch;
    int64_t rev;
    size_t before = refuse_held();
    assert_int_equal(next(51, 104, &rev), SOURCE_WAIT);
    assert_true(source_wants_fetch(&source, &fetch));
    source_begin_past(&source, PAST + 1);
    assert_false(source_fetched(&source, &fetch, BELFRY_OK, history_of(PAST, 51, 60), 0, 0));
    assert_int_equal(refuse_held(), before);
    assert_int_equal(source.bytes, 0);
}

static void compaction_says_what_is_gone(void **state)
{
    (void)state;
    struct worker_fetch fetch;
    int64_t rev;
    assert_int_equal(next(51, 104, &rev), SOURCE_WAIT);
    assert_true(source_wants_fetch(&source, &fetch));
    assert_true(source_fetched(&source, &fetch, BELFRY_ERR_COMPACTED, NULL, 80, 70)); /* our window begins at 70 */
    assert_int_equal(source.gone_below, 70);
    assert_int_equal(source.gone_told, 80);
    assert_int_equal(next(69, 104, &rev), SOURCE_GONE);
    assert_int_equal(next(70, 104, &rev), SOURCE_WAIT);
}

/* A slice of a revision, of which more follows. */
static struct segment *slice_of(int64_t rev)
{
    struct segment_builder builder;
    struct segment *segment = NULL;
    struct batch *batch = NULL;
    struct belfry_bytes event = belfry_bytes_str("k");
    assert_int_equal(batch_create(rev, BATCH_SLICE, 1, batch_stored_bytes(event.len, 0), &batch), BELFRY_OK);
    batch_add_stored(batch, event, belfry_bytes_of(NULL, 0), event, false);
    batch_set_slice(batch, 0, true);
    segment_begin(&builder);
    assert_int_equal(segment_add(&builder, batch), BELFRY_OK);
    assert_int_equal(segment_finish(&builder, PAST, rev, rev, &segment), BELFRY_OK);
    return segment;
}

static enum source_result slice(int64_t rev, uint32_t sub, struct worker_fetch *fetch)
{
    const struct batch *batch;
    enum source_result result = source_slice(&source, client, rev, sub, SOURCE_PREFER_SLICES, &batch);
    assert_int_equal(source_wants_fetch(&source, fetch), result == SOURCE_WAIT);
    return result;
}

/* The first slice was read, then the revision left our window and was compacted upstream. A response that begins with
 * that slice could never end. */
static void slices_of_a_revision_that_is_gone_are_dropped(void **state)
{
    (void)state;
    struct worker_fetch first, early, rest;
    assert_int_equal(slice(60, 0, &first), SOURCE_WAIT);
    assert_int_equal(slice(59, 0, &early), SOURCE_WAIT);
    assert_true(source_fetched(&source, &first, BELFRY_OK, slice_of(60), 0, 0));
    assert_int_equal(slice(60, 0, &first), SOURCE_BATCH);
    assert_int_equal(slice(60, 1, &rest), SOURCE_WAIT);
    assert_true(source_fetched(&source, &rest, BELFRY_ERR_COMPACTED, NULL, 80, 61));
    assert_int_equal(slice(60, 0, &first), SOURCE_GONE);
    assert_int_equal(source.bytes, 0);
    assert_true(source_fetched(&source, &early, BELFRY_OK, slice_of(59), 0, 0)); /* it was on its way */
    assert_int_equal(slice(59, 0, &early), SOURCE_GONE);
    assert_int_equal(source.bytes, 0);
}

static void failed_fetch_is_retried_later(void **state)
{
    (void)state;
    struct worker_fetch fetch;
    int64_t rev;
    turn.now = 500;
    assert_int_equal(next(51, 104, &rev), SOURCE_WAIT);
    assert_true(source_wants_fetch(&source, &fetch));
    assert_false(source_fetched(&source, &fetch, BELFRY_ERR_IO, NULL, 0, 0));
    assert_int_equal(turn.retry_at, 500 + TURN_RETRY_MS);
    assert_int_equal(next(51, 104, &rev), SOURCE_WAIT);
    assert_true(source_wants_fetch(&source, &fetch));
}

static void no_more_is_asked_for_than_can_be_kept(void **state)
{
    (void)state;
    struct worker_fetch fetch;
    int64_t rev;
    size_t n = 0;
    for (int64_t from = 10; from < 40; from++)
        assert_int_equal(next(from, 104, &rev), SOURCE_WAIT);
    while (source_wants_fetch(&source, &fetch))
        n++;
    assert_int_equal(n, 4); /* keep_bytes / SEGMENT_BYTES */
    assert_int_not_equal(turn.retry_at, BELFRY_NEVER);
}

/* Four may be asked for at a time. */
static void a_client_leaves_fetches_to_others(void **state)
{
    (void)state;
    static const size_t expected[] = {2, 1, 1, 0};
    struct worker_fetch fetch;
    int64_t rev, from = 10;
    for (size_t i = 0; i < 4; i++) {
        size_t n = 0;
        client = 7 + i;
        for (int64_t k = 0; k < 5; k++)
            assert_int_equal(next(from++, 104, &rev), SOURCE_WAIT);
        for (; source_wants_fetch(&source, &fetch); n++)
            assert_int_equal(fetch.client, client);
        assert_int_equal(n, expected[i]);
    }
    client = 8;
    assert_false(source_fetched(&source, &fetch, BELFRY_ERR_IO, NULL, 0, 0)); /* the last one's place is free again */
    assert_int_equal(next(10, 104, &rev), SOURCE_WAIT);                       /* the first one's, which is under way */
    assert_false(source_wants_fetch(&source, &fetch));
    client = 10;
    assert_int_equal(next(from, 104, &rev), SOURCE_WAIT);
    assert_true(source_wants_fetch(&source, &fetch));
    assert_int_equal(fetch.client, 10);
}

/* Asks for history from `from` for the client; true: a fetch is wanted for it. */
static bool asks(uint64_t for_client, int64_t from)
{
    struct worker_fetch fetch;
    int64_t rev;
    client = for_client;
    assert_int_equal(next(from, 104, &rev), SOURCE_WAIT);
    return source_wants_fetch(&source, &fetch) && fetch.from == from && fetch.client == for_client;
}

/* Clients have all four places; the worker itself has overslept. */
static void the_worker_itself_always_has_a_place(void **state)
{
    (void)state;
    assert_true(asks(7, 10) && asks(7, 11) && asks(8, 12) && asks(9, 13));
    assert_false(asks(10, 14));
    assert_true(asks(0, 15));
    assert_false(asks(0, 16)); /* one beyond the others' */
}

/* Upstream is away: what clients ask for does not come. */
static void late_fetches_give_up_their_places(void **state)
{
    (void)state;
    turn.now = 500;
    assert_true(asks(7, 10) && asks(7, 11) && asks(8, 12) && asks(9, 13));
    turn.now += SOURCE_LATE_MS - 1;
    assert_false(asks(10, 14));
    turn.now++;
    assert_true(asks(10, 14));
    assert_false(asks(7, 10)); /* it is still under way */
    struct worker_fetch late = {.client = 7, .past = PAST, .from = 10};
    assert_true(source_fetched(&source, &late, BELFRY_OK, history_of(PAST, 10, 14), 0, 0));
    int64_t rev;
    assert_int_equal(next(10, 104, &rev), SOURCE_BATCH);
}

/* There is no place before a fetch is answered or late. */
static void without_a_place_waiters_are_not_woken_again_and_again(void **state)
{
    (void)state;
    turn.now = 500;
    assert_true(asks(7, 10) && asks(7, 11));
    turn.now = 700;
    assert_true(asks(8, 12) && asks(9, 13));
    assert_false(asks(10, 14));
    assert_int_equal(turn.retry_at, 500 + SOURCE_LATE_MS);

    struct worker_fetch refused = {.client = 7, .past = PAST, .from = 10}; /* by backfill: too many wait there */
    turn.retry_at = BELFRY_NEVER;
    assert_false(source_fetched(&source, &refused, BELFRY_ERR_LIMIT, NULL, 0, 0));
    assert_int_equal(turn.retry_at, 700 + SOURCE_LATE_MS);
}

/* More clients than slots, none of which is answered, leave a place to one more. */
static void however_many_fetches_are_late_another_client_has_a_place(void **state)
{
    (void)state;
    int64_t from = 10;
    for (uint64_t i = 0; i < 3 * SOURCE_FETCHES; i++, turn.now += SOURCE_LATE_MS / 3)
        assert_true(asks(100 + i, from++));
    assert_true(asks(100, from)); /* a client that is forgotten is like any other */
    struct worker_fetch forgotten = {.client = 100, .past = PAST, .from = 10};
    assert_true(source_fetched(&source, &forgotten, BELFRY_OK, history_of(PAST, 10, 14), 0, 0));
    int64_t rev;
    assert_int_equal(next(10, 104, &rev), SOURCE_BATCH); /* whoever waits for it still does */
}

/* Clients whose fetches are late ask for more whenever they may. Once each has some that are late, another client has a
 * place at any time. */
static void clients_with_late_fetches_leave_places_to_others(void **state)
{
    (void)state;
    struct worker_fetch quick = {.client = 20, .past = PAST, .from = 90};
    for (int round = 0; round < 10; round++, turn.now += SOURCE_LATE_MS) {
        size_t n = 0;
        for (uint64_t greedy = 7; greedy < 11; greedy++)
            for (int64_t k = 0; k < 5; k++)
                n += asks(greedy, 10 + 5 * (int64_t)(greedy - 7) + k);
        assert_true(n > 0 || round > 4);
        if (round < 2)
            continue;
        assert_true(asks(20, 90));
        assert_false(source_fetched(&source, &quick, BELFRY_ERR_IO, NULL, 0, 0));
    }
}

static void fetch_history(int64_t from)
{
    struct worker_fetch fetch;
    int64_t rev;
    assert_int_equal(next(from, 104, &rev), SOURCE_WAIT);
    assert_true(source_wants_fetch(&source, &fetch));
    assert_true(source_fetched(&source, &fetch, BELFRY_OK, history_of(PAST, from, from + 4), 0, 0));
}

static void segment_that_is_not_used_leaves_first(void **state)
{
    (void)state;
    int64_t rev;
    source.keep_bytes = 1; /* whatever was not used in this turn leaves when another comes */
    fetch_history(10);
    fetch_history(20);
    assert_int_equal(next(10, 104, &rev), SOURCE_BATCH);
    assert_int_equal(next(20, 104, &rev), SOURCE_BATCH);
    turn.number++;
    assert_int_equal(next(20, 104, &rev), SOURCE_BATCH);
    fetch_history(30);
    assert_int_equal(next(10, 104, &rev), SOURCE_WAIT);
    assert_int_equal(next(20, 104, &rev), SOURCE_BATCH);
    assert_int_equal(next(30, 104, &rev), SOURCE_BATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(log_is_read_without_a_fetch, setup, teardown),
        cmocka_unit_test_setup_teardown(history_is_asked_for_once_and_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_least_used_is_given_back_first, setup, teardown),
        cmocka_unit_test_setup_teardown(answer_of_another_past_is_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(compaction_says_what_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(slices_of_a_revision_that_is_gone_are_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(failed_fetch_is_retried_later, setup, teardown),
        cmocka_unit_test_setup_teardown(no_more_is_asked_for_than_can_be_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_leaves_fetches_to_others, setup, teardown),
        cmocka_unit_test_setup_teardown(the_worker_itself_always_has_a_place, setup, teardown),
        cmocka_unit_test_setup_teardown(late_fetches_give_up_their_places, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_place_waiters_are_not_woken_again_and_again, setup, teardown),
        cmocka_unit_test_setup_teardown(however_many_fetches_are_late_another_client_has_a_place, setup, teardown),
        cmocka_unit_test_setup_teardown(clients_with_late_fetches_leave_places_to_others, setup, teardown),
        cmocka_unit_test_setup_teardown(segment_that_is_not_used_leaves_first, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
