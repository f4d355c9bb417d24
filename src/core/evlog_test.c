/* src/core/evlog_test.c */
#include "core/evlog.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "support/refuse.h"

#define CAPACITY_LOG2 4
#define CAPACITY      16
#define PLENTY        ((size_t)1 << 30)

static struct evlog *log_of(size_t max_bytes, unsigned n_workers)
{
    struct evlog_opts opts = {.capacity_log2 = CAPACITY_LOG2, .max_bytes = max_bytes, .n_workers = n_workers};
    struct evlog *log = NULL;
    assert_int_equal(evlog_create(&opts, &log), BELFRY_OK);
    return log;
}

/* The same at revision 100, where its first past begins. */
static struct evlog *log_at_100(size_t max_bytes, unsigned n_workers)
{
    struct evlog *log = log_of(max_bytes, n_workers);
    assert_int_equal(evlog_cut(log, 100, EVLOG_CUT_START, 0), BELFRY_OK);
    return log;
}

static struct batch *batch_at(int64_t rev)
{
    struct batch *batch = NULL;
    assert_int_equal(batch_create(rev, BATCH_ADVANCE, 0, 0, &batch), BELFRY_OK);
    return batch;
}

static size_t batch_size(void)
{
    struct batch *batch = batch_at(1);
    size_t bytes = batch->bytes;
    batch_unref(batch);
    return bytes;
}

static enum belfry_err append(struct evlog *log, int64_t rev)
{
    struct batch *batch = batch_at(rev);
    enum belfry_err err = evlog_append(log, batch);
    if (err != BELFRY_OK)
        batch_unref(batch);
    return err;
}

static void append_all(struct evlog *log, int64_t from, int64_t upto)
{
    for (int64_t rev = from; rev <= upto; rev++)
        assert_int_equal(append(log, rev), BELFRY_OK);
}

/* A look from outside: the view's first revision (0: empty) and its head. */
static void check_view(struct evlog *log, int64_t first, int64_t head)
{
    struct evlog_view view;
    evlog_enter(log, 0, &view);
    assert_int_equal(view.head, head);
    if (first == 0)
        assert_int_equal(view.first, view.next);
    else
        assert_int_equal(evlog_at(&view, view.first)->rev, first);
    evlog_leave(log, 0);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    struct evlog *log = NULL;
    const struct evlog_opts bad[] = {
        {.capacity_log2 = 3, .max_bytes = 1, .n_workers = 1},
        {.capacity_log2 = 25, .max_bytes = 1, .n_workers = 1},
        {.capacity_log2 = 4, .max_bytes = 1, .n_workers = EVLOG_WORKERS_MAX + 1},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(evlog_create(&bad[i], &log), BELFRY_ERR_INVALID);
    assert_null(log);
    evlog_destroy(NULL);
}

static void before_the_first_cut_nothing_can_be_served(void **state)
{
    (void)state;
    struct evlog *log = log_of(PLENTY, 1);
    struct evlog_view view;
    assert_int_equal(evlog_head(log), 0);
    evlog_enter(log, 0, &view);
    assert_int_equal(view.cut.past, 0);
    assert_int_equal(view.first, view.next);
    assert_int_equal(view.head, 0);
    assert_false(evlog_covers(&view, 0));
    assert_false(evlog_covers(&view, 1000));
    assert_int_equal(evlog_find(&view, 1), view.next);
    evlog_leave(log, 0);
    evlog_destroy(log);
}

static void fresh_past_stands_at_its_cut(void **state)
{
    (void)state;
    struct evlog *log = log_at_100(PLENTY, 1);
    struct evlog_view view;
    evlog_enter(log, 0, &view);
    assert_int_equal(view.cut.past, 1);
    assert_int_equal(view.cut.rev, 100);
    assert_int_equal(view.cut.why, EVLOG_CUT_START);
    assert_int_equal(view.first, view.next);
    assert_int_equal(view.head, 100);
    assert_false(evlog_covers(&view, 100));
    assert_true(evlog_covers(&view, 101));
    evlog_leave(log, 0);
    assert_int_equal(evlog_head(log), 100);
    assert_int_equal(evlog_commit_rev(log), 100);
    evlog_destroy(log);
}

static void view_has_what_was_appended(void **state)
{
    (void)state;
    struct evlog *log = log_at_100(PLENTY, 1);
    struct evlog_view view;
    assert_int_equal(append(log, 103), BELFRY_OK);
    assert_int_equal(append(log, 105), BELFRY_OK);
    assert_int_equal(append(log, 110), BELFRY_OK);
    assert_int_equal(evlog_head(log), 110);
    assert_int_equal(evlog_bytes(log), 3 * batch_size());

    evlog_enter(log, 0, &view);
    assert_int_equal(append(log, 120), BELFRY_OK); /* not in the view */
    assert_int_equal(view.next - view.first, 3);
    assert_int_equal(view.head, 110);
    assert_int_equal(evlog_at(&view, view.first)->rev, 103);
    assert_int_equal(evlog_at(&view, view.next - 1)->rev, 110);
    assert_int_equal(evlog_find(&view, 1), view.first);
    assert_int_equal(evlog_find(&view, 103), view.first);
    assert_int_equal(evlog_find(&view, 104), view.first + 1);
    assert_int_equal(evlog_find(&view, 105), view.first + 1);
    assert_int_equal(evlog_find(&view, 110), view.first + 2);
    assert_int_equal(evlog_find(&view, 111), view.next);
    assert_true(evlog_covers(&view, 101)); /* between the cut and the first batch there was nothing */
    assert_false(evlog_covers(&view, 100));
    evlog_leave(log, 0);
    check_view(log, 103, 120);
    evlog_destroy(log);
}

static void oldest_leaves_when_there_are_too_many(void **state)
{
    (void)state;
    struct evlog *log = log_at_100(PLENTY, 1);
    struct evlog_view view;
    append_all(log, 101, 100 + CAPACITY);
    check_view(log, 101, 100 + CAPACITY);
    evlog_committed(log, 110);
    append_all(log, 101 + CAPACITY, 103 + CAPACITY);
    evlog_enter(log, 0, &view);
    assert_int_equal(view.next - view.first, CAPACITY);
    assert_int_equal(evlog_at(&view, view.first)->rev, 104);
    assert_false(evlog_covers(&view, 103)); /* the last one evicted */
    assert_true(evlog_covers(&view, 104));
    evlog_leave(log, 0);
    evlog_destroy(log);
}

static void oldest_leave_when_they_are_too_large(void **state)
{
    (void)state;
    size_t one = batch_size();
    struct evlog *log = log_at_100(4 * one, 1);
    append_all(log, 101, 104);
    check_view(log, 101, 104);
    evlog_committed(log, 104);
    append_all(log, 105, 106);
    check_view(log, 103, 106);
    assert_int_equal(evlog_bytes(log), 4 * one);
    evlog_destroy(log);
}

static void newest_stays_however_large_it_is(void **state)
{
    (void)state;
    struct evlog *log = log_at_100(0, 1);
    append_all(log, 101, 103);
    evlog_committed(log, 103);
    check_view(log, 103, 103);
    assert_int_equal(evlog_bytes(log), batch_size());
    evlog_destroy(log);
}

static void uncommitted_batch_never_leaves(void **state)
{
    (void)state;
    struct evlog *log = log_at_100(0, 1); /* the bound on bytes gives way to what is not committed */
    append_all(log, 101, 100 + CAPACITY);
    check_view(log, 101, 100 + CAPACITY);
    assert_int_equal(append(log, 101 + CAPACITY), BELFRY_ERR_AGAIN);
    assert_int_equal(evlog_head(log), 100 + CAPACITY);

    evlog_committed(log, 105); /* and holds again as soon as it can */
    check_view(log, 106, 100 + CAPACITY);
    append_all(log, 101 + CAPACITY, 105 + CAPACITY);
    check_view(log, 106, 105 + CAPACITY);
    assert_int_equal(append(log, 106 + CAPACITY), BELFRY_ERR_AGAIN);
    evlog_committed(log, 104); /* commits do not go back */
    assert_int_equal(evlog_commit_rev(log), 105);
    evlog_destroy(log);
}

static void turn_keeps_what_it_saw(void **state)
{
    (void)state;
    size_t before = refuse_held(), one = batch_size();
    struct evlog *log = log_at_100(4 * one, 2);
    struct evlog_view view, later;
    append_all(log, 101, 104);
    evlog_committed(log, 104);
    evlog_enter(log, 0, &view);
    append_all(log, 105, 106); /* 101 and 102 leave, and worker 0 sees them */
    assert_int_equal(evlog_reclaim(log), 2);
    assert_int_equal(evlog_bytes(log), 6 * one);

    evlog_enter(log, 1, &later); /* never saw them: does not hold them */
    assert_int_equal(evlog_at(&later, later.first)->rev, 103);
    for (uint64_t seq = view.first; seq < view.next; seq++)
        assert_int_equal(evlog_at(&view, seq)->rev, 101 + (int64_t)(seq - view.first));
    assert_true(evlog_covers(&view, 101));
    evlog_leave(log, 0);
    assert_int_equal(evlog_reclaim(log), 0);
    assert_int_equal(evlog_bytes(log), 4 * one);
    evlog_leave(log, 1);
    evlog_destroy(log);
    assert_int_equal(refuse_held(), before);
}

static void turn_keeps_a_view_that_was_cut_away(void **state)
{
    (void)state;
    struct evlog *log = log_at_100(PLENTY, 1);
    struct evlog_view view;
    append_all(log, 101, 104);
    evlog_enter(log, 0, &view);
    assert_int_equal(evlog_cut(log, 50, EVLOG_CUT_REWRITTEN, 50), BELFRY_OK);
    assert_int_equal(evlog_cut(log, 60, EVLOG_CUT_COMPACTED, 55), BELFRY_OK);
    assert_int_equal(append(log, 61), BELFRY_OK);
    assert_int_equal(evlog_reclaim(log), 4);
    assert_int_equal(view.cut.past, 1);
    for (uint64_t seq = view.first; seq < view.next; seq++)
        assert_int_equal(evlog_at(&view, seq)->rev, 101 + (int64_t)(seq - view.first));
    evlog_leave(log, 0);
    assert_int_equal(evlog_reclaim(log), 0);
    assert_int_equal(evlog_bytes(log), batch_size());
    evlog_destroy(log);
}

/* The view stays whole for as long as the turn lasts; in the end the writer is told to wait. */
static void turn_that_lasts_a_whole_ring_stops_the_writer(void **state)
{
    (void)state;
    struct evlog *log = log_at_100(PLENTY, 1);
    struct evlog_view view;
    append_all(log, 101, 100 + CAPACITY);
    evlog_committed(log, 1000);
    evlog_enter(log, 0, &view);
    append_all(log, 101 + CAPACITY, 99 + 2 * CAPACITY);
    assert_true(evlog_has_place(log));
    append_all(log, 100 + 2 * CAPACITY, 100 + 2 * CAPACITY);
    assert_false(evlog_has_place(log));
    assert_int_equal(append(log, 101 + 2 * CAPACITY), BELFRY_ERR_AGAIN);
    assert_int_equal(view.next - view.first, CAPACITY);
    for (uint64_t seq = view.first; seq < view.next; seq++)
        assert_int_equal(evlog_at(&view, seq)->rev, 101 + (int64_t)(seq - view.first));
    assert_int_equal(evlog_find(&view, 108), view.first + 7);
    evlog_leave(log, 0);
    assert_true(evlog_has_place(log));
    assert_int_equal(append(log, 101 + 2 * CAPACITY), BELFRY_OK);
    check_view(log, 102 + CAPACITY, 101 + 2 * CAPACITY);
    evlog_destroy(log);
}

static void cut_empties_the_ring_and_counts_up(void **state)
{
    (void)state;
    struct evlog *log = log_at_100(PLENTY, 1);
    struct evlog_view view;
    append_all(log, 101, 110); /* not committed: a cut takes them all the same */
    evlog_enter(log, 0, &view);
    uint64_t end = view.next;
    evlog_leave(log, 0);
    assert_int_equal(evlog_cut(log, 90, EVLOG_CUT_REWRITTEN, 90), BELFRY_OK);
    assert_int_equal(evlog_bytes(log), 0);
    assert_int_equal(evlog_head(log), 90);
    assert_int_equal(evlog_commit_rev(log), 90);
    evlog_enter(log, 0, &view);
    assert_int_equal(view.cut.past, 2);
    assert_int_equal(view.cut.why, EVLOG_CUT_REWRITTEN);
    assert_int_equal(view.cut.compact_rev, 90);
    assert_int_equal(view.first, end); /* the sequence never goes back */
    assert_int_equal(view.next, end);
    assert_int_equal(view.head, 90);
    assert_false(evlog_covers(&view, 90));
    assert_true(evlog_covers(&view, 91));
    evlog_leave(log, 0);

    append_all(log, 91, 92); /* revisions may: it is another past */
    check_view(log, 91, 92);
    evlog_destroy(log);
}

static void cut_that_fails_changes_nothing(void **state)
{
    (void)state;
    struct evlog *log = log_at_100(PLENTY, 1);
    append_all(log, 101, 103);
    refuse_begin(0);
    enum belfry_err err = evlog_cut(log, 200, EVLOG_CUT_COMPACTED, 150);
    assert_true(refuse_end());
    assert_int_equal(err, BELFRY_ERR_NOMEM);
    check_view(log, 101, 103);
    assert_int_equal(evlog_commit_rev(log), 100);
    evlog_destroy(log);
}

static enum belfry_err create_cut_append(void)
{
    struct evlog_opts opts = {.capacity_log2 = 4, .max_bytes = 1000, .n_workers = 3};
    struct evlog *log = NULL;
    struct batch *batch = NULL;
    enum belfry_err err = evlog_create(&opts, &log);
    if (err == BELFRY_OK)
        err = evlog_cut(log, 1, EVLOG_CUT_START, 0);
    if (err == BELFRY_OK)
        err = batch_create(2, BATCH_ADVANCE, 0, 0, &batch);
    if (err == BELFRY_OK)
        err = evlog_append(log, batch);
    if (err == BELFRY_OK)
        err = evlog_cut(log, 5, EVLOG_CUT_COMPACTED, 4);
    evlog_destroy(log);
    return err;
}

static void refused_allocations_leave_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(create_cut_append), 3 + 1 + 1 + 1); /* append itself has none */
}

/* ---- threads: one writer, three workers ----
 *
 * The batch of revision r in past p has a payload that both can be read from. A writer appends, commits behind, cuts
 * now and then, to revisions above and below. Workers look at all they see, some of them slowly. */

#define N_WORKERS 3
#define RUN_MS    1000
#define CUT_EVERY 1000
#define PAYLOAD   64
#define GAP       3 /* revisions ascend by 1 to 3 */

static struct evlog *shared_log;
static atomic_bool stop;
static atomic_bool violated;
static atomic_uint views_seen, pasts_seen, batches_seen;

static void expect(bool holds)
{
    if (!holds)
        atomic_store(&violated, true);
}

static struct batch *patterned(uint64_t past, int64_t rev)
{
    uint8_t event[PAYLOAD];
    struct batch *batch = NULL;
    memset(event, (int)(rev * 31 + (int64_t)past * 7) & 0xff, sizeof(event));
    memcpy(event, &rev, sizeof(rev));
    memcpy(event + sizeof(rev), &past, sizeof(past));
    if (batch_create(rev, BATCH_EVENTS, 1, sizeof(event), &batch) != BELFRY_OK)
        return NULL;
    batch_add_stored(batch, belfry_bytes_of(event, sizeof(event)), (struct belfry_bytes){0}, (struct belfry_bytes){0},
                     false);
    return batch;
}

static bool payload_intact(const struct batch *batch, uint64_t past)
{
    int64_t rev;
    uint64_t in_past;
    if (batch->n_events != 1 || batch->events[0].len != PAYLOAD)
        return false;
    memcpy(&rev, batch->data, sizeof(rev));
    memcpy(&in_past, batch->data + sizeof(rev), sizeof(in_past));
    uint8_t fill = (uint8_t)((rev * 31 + (int64_t)past * 7) & 0xff);
    for (size_t i = sizeof(rev) + sizeof(past); i < PAYLOAD; i++)
        if (batch->data[i] != fill)
            return false;
    return rev == batch->rev && in_past == past;
}

static void check_covers(const struct evlog_view *view)
{
    expect(evlog_covers(view, view->head + 1));
    if (view->first == view->next) {
        expect(!evlog_covers(view, view->head));
        return;
    }
    const struct batch *oldest = evlog_at(view, view->first);
    expect(evlog_covers(view, oldest->rev));
    expect(!evlog_covers(view, oldest->rev - GAP)); /* at or below the one before */
    expect(evlog_find(view, oldest->rev) == view->first);
    expect(evlog_find(view, view->head) == view->next - 1);
}

/* Where a worker was: a cursor that follows the log, as a worker's position does. */
struct follower {
    uint64_t past, next;
    int64_t rev;
};

static void check_whole(const struct evlog_view *view, struct follower *at)
{
    int64_t rev = view->cut.rev;
    expect(view->cut.past >= at->past);
    expect(view->first <= view->next && view->next - view->first <= 2 * CAPACITY);
    for (uint64_t seq = view->first; seq < view->next; seq++) {
        const struct batch *batch = evlog_at(view, seq);
        expect(payload_intact(batch, view->cut.past));
        expect(batch->rev > rev && (seq == view->first || batch->rev <= rev + GAP));
        rev = batch->rev;
    }
    expect(rev == view->head);
    check_covers(view);
    if (view->cut.past == at->past) {
        expect(view->head >= at->rev && view->next >= at->next);
        if (evlog_covers(view, at->rev + 1)) /* then nothing is missing: the next batch is the next in sequence */
            expect(evlog_find(view, at->rev + 1) == at->next);
        else
            expect(view->first > at->next);
    } else {
        atomic_fetch_add(&pasts_seen, 1);
    }
    atomic_fetch_add(&batches_seen, (unsigned)(view->next - view->first));
    *at = (struct follower){.past = view->cut.past, .next = view->next, .rev = view->head};
}

static void doze(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void *follow(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;
    struct follower at = {0};
    for (unsigned turn = 0; !atomic_load(&stop); turn++) {
        struct evlog_view view;
        evlog_enter(shared_log, number, &view);
        if (view.cut.past > 0)
            check_whole(&view, &at);
        if (view.cut.past > 0 && turn % 64 == number * 7) { /* a slow turn: the same view, later, is the same */
            doze(200000);
            struct follower again = {.past = view.cut.past, .next = view.next, .rev = view.head};
            check_whole(&view, &again);
        }
        evlog_leave(shared_log, number);
        atomic_fetch_add(&views_seen, 1);
        if (turn % 16 == 5)
            doze(50000);
    }
    return NULL;
}

static int64_t cut_at(int64_t head, unsigned n)
{
    enum evlog_cut_why why = n % 2 == 0 ? EVLOG_CUT_COMPACTED : EVLOG_CUT_REWRITTEN;
    int64_t rev = why == EVLOG_CUT_COMPACTED ? head + 100 : head - 50;
    expect(evlog_cut(shared_log, rev, why, rev) == BELFRY_OK);
    return rev;
}

/* Everything has happened often enough to tell something. */
static bool is_enough(unsigned appended)
{
    return appended > 2 * CUT_EVERY && atomic_load(&views_seen) > 100 && atomic_load(&batches_seen) > 100 &&
           atomic_load(&pasts_seen) > N_WORKERS;
}

/* For so long, and until it is enough. */
static void write_for(int ms)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    unsigned n = 0;
    uint64_t past = 1;
    int64_t head = 1000;
    expect(evlog_cut(shared_log, head, EVLOG_CUT_START, 0) == BELFRY_OK);
    do {
        struct batch *batch = patterned(past, head + 1 + n % GAP);
        enum belfry_err err;
        while ((err = evlog_append(shared_log, batch)) == BELFRY_ERR_AGAIN) {
            evlog_committed(shared_log, head);
            doze(20000);
        }
        expect(err == BELFRY_OK && evlog_head(shared_log) == head + 1 + n % GAP);
        head = evlog_head(shared_log);
        if (++n % 8 == 0)
            evlog_committed(shared_log, head - 2);
        if (n % CUT_EVERY == 0) {
            head = cut_at(head, n / CUT_EVERY);
            past++;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms || !is_enough(n));
}

static void workers_see_whole_views_of_one_past(void **state)
{
    (void)state;
    size_t before = refuse_held();
    shared_log = log_of(10 * (batch_size() + PAYLOAD + sizeof(struct batch_event)), N_WORKERS);
    pthread_t threads[N_WORKERS];
    for (uintptr_t i = 0; i < N_WORKERS; i++) {
        union {
            uintptr_t in;
            void *out;
        } number = {.in = i};
        assert_int_equal(pthread_create(&threads[i], NULL, follow, number.out), 0);
    }
    write_for(RUN_MS);
    atomic_store(&stop, true);
    for (int i = 0; i < N_WORKERS; i++)
        pthread_join(threads[i], NULL);
    assert_false(atomic_load(&violated));
    assert_int_equal(evlog_reclaim(shared_log), 0);
    evlog_destroy(shared_log);
    assert_int_equal(refuse_held(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(before_the_first_cut_nothing_can_be_served),
        cmocka_unit_test(fresh_past_stands_at_its_cut),
        cmocka_unit_test(view_has_what_was_appended),
        cmocka_unit_test(oldest_leaves_when_there_are_too_many),
        cmocka_unit_test(oldest_leave_when_they_are_too_large),
        cmocka_unit_test(newest_stays_however_large_it_is),
        cmocka_unit_test(uncommitted_batch_never_leaves),
        cmocka_unit_test(turn_keeps_what_it_saw),
        cmocka_unit_test(turn_keeps_a_view_that_was_cut_away),
        cmocka_unit_test(turn_that_lasts_a_whole_ring_stops_the_writer),
        cmocka_unit_test(cut_empties_the_ring_and_counts_up),
        cmocka_unit_test(cut_that_fails_changes_nothing),
        cmocka_unit_test(refused_allocations_leave_nothing),
        cmocka_unit_test(workers_see_whole_views_of_one_past),
    };
    return cmocka_run_group_tests_name("evlog", tests, NULL, NULL);
}
