/* src/follow/history_reader_test.c */
#include "follow/history_reader.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* A store that reads when it is let, and counts. */
struct slow_store {
    struct store store;
    pthread_mutex_t mu;
    pthread_cond_t moved;
    bool open;     /* reads go on */
    size_t inside; /* reads that wait */
    size_t reads;
};

static enum belfry_err read_history(struct store *store, uint64_t past, int64_t from, size_t max_bytes,
                                    struct segment **out, int64_t *oldest)
{
    (void)max_bytes;
    struct slow_store *slow = belfry_container(store, struct slow_store, store);
    pthread_mutex_lock(&slow->mu);
    slow->reads++;
    slow->inside++;
    pthread_cond_broadcast(&slow->moved);
    while (!slow->open)
        pthread_cond_wait(&slow->moved, &slow->mu);
    slow->inside--;
    pthread_mutex_unlock(&slow->mu);
    *oldest = 100;
    if (from < 100)
        return BELFRY_ERR_NOT_FOUND;
    struct segment_builder builder;
    segment_begin(&builder);
    return segment_finish(&builder, past, from, from + 9, out);
}

static const struct store_api api = {.history = read_history};

/* What came of the jobs. */
struct seen {
    pthread_mutex_t mu;
    pthread_cond_t moved;
    size_t n_done, n_lost;
    int64_t upto[8]; /* of the first ones */
    enum belfry_err errs[8];
    struct history_reader_job *lost[8];
};

static void on_done(struct history_reader_job *job, void *user)
{
    struct seen *seen = user;
    pthread_mutex_lock(&seen->mu);
    if (seen->n_done < sizeof(seen->errs) / sizeof(seen->errs[0])) {
        seen->upto[seen->n_done] = job->segment == NULL ? 0 : job->segment->upto;
        seen->errs[seen->n_done] = job->err;
    }
    seen->n_done++;
    pthread_cond_broadcast(&seen->moved);
    pthread_mutex_unlock(&seen->mu);
    history_reader_job_free(job);
}

static void on_lost(struct history_reader_job *job, void *user)
{
    struct seen *seen = user;
    pthread_mutex_lock(&seen->mu);
    seen->lost[seen->n_lost++] = job;
    pthread_cond_broadcast(&seen->moved);
    pthread_mutex_unlock(&seen->mu);
}

static void wait_for(struct seen *seen, size_t n_done, size_t n_lost)
{
    pthread_mutex_lock(&seen->mu);
    while (seen->n_done < n_done || seen->n_lost < n_lost)
        pthread_cond_wait(&seen->moved, &seen->mu);
    pthread_mutex_unlock(&seen->mu);
}

static void let_go(struct slow_store *slow)
{
    pthread_mutex_lock(&slow->mu);
    slow->open = true;
    pthread_cond_broadcast(&slow->moved);
    pthread_mutex_unlock(&slow->mu);
}

static void wait_inside(struct slow_store *slow)
{
    pthread_mutex_lock(&slow->mu);
    while (slow->inside == 0)
        pthread_cond_wait(&slow->moved, &slow->mu);
    pthread_mutex_unlock(&slow->mu);
}

#define SLOW_STORE                                                                                                     \
    {                                                                                                                  \
        .store.api = &api, .mu = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER                          \
    }
#define SEEN                                                                                                           \
    {                                                                                                                  \
        .mu = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER                                             \
    }

static struct history_reader *start(struct slow_store *slow, struct seen *seen)
{
    struct history_reader_opts opts = {.store = &slow->store,
                                       .segment_bytes = 1000,
                                       .shelf_bytes = 1 << 20,
                                       .done = on_done,
                                       .lost = on_lost,
                                       .user = seen};
    struct history_reader *history;
    assert_int_equal(history_reader_start(&opts, &history), BELFRY_OK);
    return history;
}

static void ask(struct history_reader *history, unsigned worker, int64_t from)
{
    struct worker_fetch fetch = {.past = 1, .from = from};
    assert_int_equal(history_reader_ask(history, worker, &fetch), BELFRY_OK);
}

static void equal_wishes_that_wait_share_one_read(void **state)
{
    (void)state;
    struct slow_store slow = SLOW_STORE;
    struct seen seen = SEEN;
    struct history_reader *history = start(&slow, &seen);
    ask(history, 0, 200);
    wait_inside(&slow); /* what follows waits behind it */
    ask(history, 0, 300);
    ask(history, 1, 300);
    ask(history, 2, 400);
    ask(history, 2, 300);
    let_go(&slow);
    wait_for(&seen, 5, 0);
    struct history_reader_stats stats;
    history_reader_stats(history, &stats);
    assert_int_equal(stats.reads, 3);
    assert_int_equal(stats.shared, 2);
    assert_int_equal(slow.reads, 3);
    assert_int_equal(seen.upto[0], 209);
    assert_int_equal(seen.upto[1], 309);
    assert_int_equal(seen.upto[3], 309);
    assert_int_equal(seen.upto[4], 409);
    history_reader_stop(history);
    history_reader_destroy(history);
}

static void equal_wishes_of_two_stores_are_two_reads(void **state)
{
    (void)state;
    struct slow_store slow = SLOW_STORE, other = SLOW_STORE;
    struct seen seen = SEEN;
    struct history_reader *history = start(&slow, &seen);
    struct worker_fetch fetch = {.past = 1, .from = 300};
    other.open = true;
    ask(history, 0, 200);
    wait_inside(&slow); /* what follows waits behind it */
    ask(history, 0, 300);
    assert_int_equal(history_reader_ask_of(history, &other.store, 0, &fetch), BELFRY_OK);
    assert_int_equal(history_reader_ask_of(history, &other.store, 1, &fetch), BELFRY_OK);
    let_go(&slow);
    wait_for(&seen, 4, 0);
    assert_int_equal(slow.reads, 2);
    assert_int_equal(other.reads, 1);
    history_reader_stop(history);
    history_reader_destroy(history);
}

static void clients_take_turns(void **state)
{
    (void)state;
    static const int64_t upto[] = {209, 309, 609, 409, 509};
    struct slow_store slow = SLOW_STORE;
    struct seen seen = SEEN;
    struct history_reader *history = start(&slow, &seen);
    ask(history, 0, 200);
    wait_inside(&slow); /* what follows waits behind it */
    for (int64_t from = 300; from <= 600; from += 100) {
        struct worker_fetch fetch = {.client = from < 600 ? 7 : 8, .past = 1, .from = from};
        assert_int_equal(history_reader_ask(history, 0, &fetch), BELFRY_OK);
    }
    let_go(&slow);
    wait_for(&seen, 5, 0);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(seen.upto[i], upto[i]);
    history_reader_stop(history);
    history_reader_destroy(history);
}

static void what_the_window_has_lost_goes_to_who_can_get_it(void **state)
{
    (void)state;
    struct slow_store slow = SLOW_STORE;
    struct seen seen = SEEN;
    struct history_reader *history = start(&slow, &seen);
    let_go(&slow);
    ask(history, 0, 50);
    wait_for(&seen, 0, 1);
    assert_int_equal(seen.lost[0]->oldest, 100);
    history_reader_stop(history); /* who has a job may still answer it */
    history_reader_answer(seen.lost[0], BELFRY_ERR_COMPACTED, NULL, 70);
    assert_int_equal(seen.n_done, 1);
    assert_int_equal(seen.errs[0], BELFRY_ERR_COMPACTED);
    history_reader_destroy(history);
}

static void what_was_fetched_for_one_is_there_for_the_next(void **state)
{
    (void)state;
    struct slow_store slow = SLOW_STORE;
    struct seen seen = SEEN;
    struct history_reader *history = start(&slow, &seen);
    let_go(&slow);
    ask(history, 0, 50);
    wait_for(&seen, 0, 1);
    struct segment_builder builder;
    struct segment *segment;
    segment_begin(&builder);
    assert_int_equal(segment_finish(&builder, 1, 50, 69, &segment), BELFRY_OK);
    history_reader_answer(seen.lost[0], BELFRY_OK, segment, 0);
    ask(history, 1, 60);
    wait_for(&seen, 2, 1);
    assert_int_equal(seen.upto[1], 69);
    ask(history, 1, 70);
    wait_for(&seen, 2, 2);
    struct history_reader_stats stats;
    history_reader_stats(history, &stats);
    assert_int_equal(stats.shelved, 1);
    assert_int_equal(stats.lost, 2);
    history_reader_stop(history);
    history_reader_answer(seen.lost[1], BELFRY_ERR_CANCELED, NULL, 0);
    history_reader_destroy(history);
}

static void jobs_that_wait_at_the_end_are_dropped(void **state)
{
    (void)state;
    struct slow_store slow = SLOW_STORE;
    struct seen seen = SEEN;
    struct history_reader *history = start(&slow, &seen);
    ask(history, 0, 200);
    wait_inside(&slow);
    ask(history, 0, 300);
    let_go(&slow);
    history_reader_stop(history);
    assert_in_range(seen.n_done, 1, 2);
    history_reader_destroy(history);
}

static void a_disk_that_answers_nothing_is_asked_for_a_bounded_number(void **state)
{
    (void)state;
    struct slow_store slow = SLOW_STORE;
    struct seen seen = SEEN;
    struct history_reader *history = start(&slow, &seen);
    ask(history, 0, 200);
    wait_inside(&slow);
    for (int64_t i = 0; i < HISTORY_READER_JOBS; i++)
        ask(history, 0, 300 + i);
    struct worker_fetch one_more = {.past = 1, .from = 300};
    assert_int_equal(history_reader_ask(history, 0, &one_more), BELFRY_ERR_LIMIT);
    let_go(&slow);
    wait_for(&seen, 1 + HISTORY_READER_JOBS, 0);
    ask(history, 0, 300);
    wait_for(&seen, 2 + HISTORY_READER_JOBS, 0);
    history_reader_stop(history);
    history_reader_destroy(history);
}

/* ---- other work ---- */

struct chore {
    struct history_reader_task task;
    struct seen *seen;
    struct store *store; /* as it was given */
    bool done;
    size_t reads_before; /* that the store had seen when it ran */
};

static void do_chore(struct history_reader_task *task, struct store *store)
{
    struct chore *chore = belfry_container(task, struct chore, task);
    chore->store = store;
    if (store != NULL)
        chore->reads_before = belfry_container(store, struct slow_store, store)->reads;
    pthread_mutex_lock(&chore->seen->mu);
    chore->done = true;
    pthread_cond_broadcast(&chore->seen->moved);
    pthread_mutex_unlock(&chore->seen->mu);
}

static void wait_chore(struct chore *chore)
{
    pthread_mutex_lock(&chore->seen->mu);
    while (!chore->done)
        pthread_cond_wait(&chore->seen->moved, &chore->seen->mu);
    pthread_mutex_unlock(&chore->seen->mu);
}

static void tasks_and_reads_take_turns(void **state)
{
    (void)state;
    struct slow_store slow = SLOW_STORE;
    struct seen seen = SEEN;
    struct history_reader *history = start(&slow, &seen);
    struct chore chores[4];
    ask(history, 0, 200);
    wait_inside(&slow); /* what follows waits behind it */
    for (int i = 0; i < 4; i++) {
        chores[i] = (struct chore){.task.run = do_chore, .seen = &seen};
        history_reader_run(history, &chores[i].task);
    }
    ask(history, 0, 300);
    ask(history, 0, 400);
    let_go(&slow);
    wait_for(&seen, 3, 0);
    wait_chore(&chores[3]);
    assert_int_equal(chores[0].reads_before, 1);
    assert_int_equal(chores[1].reads_before, 2);
    assert_int_equal(chores[2].reads_before, 3);
    assert_int_equal(chores[3].reads_before, 3);
    assert_ptr_equal(chores[3].store, &slow.store);
    struct history_reader_stats stats;
    history_reader_stats(history, &stats);
    assert_int_equal(stats.tasks, 4);
    assert_int_equal(stats.reads, 3);
    history_reader_stop(history);
    history_reader_destroy(history);
}

static void tasks_that_wait_at_the_end_are_handed_back(void **state)
{
    (void)state;
    struct slow_store slow = SLOW_STORE;
    struct seen seen = SEEN;
    struct history_reader *history = start(&slow, &seen);
    struct chore first = {.task.run = do_chore, .seen = &seen}, second = first, late = first;
    ask(history, 0, 200);
    wait_inside(&slow);
    history_reader_run(history, &first.task);
    history_reader_run(history, &second.task);
    let_go(&slow);
    history_reader_stop(history);
    assert_true(first.done && second.done); /* read or not: they are back */
    history_reader_run(history, &late.task);
    assert_true(late.done);
    assert_null(late.store);
    history_reader_destroy(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_wishes_that_wait_share_one_read),
        cmocka_unit_test(equal_wishes_of_two_stores_are_two_reads),
        cmocka_unit_test(clients_take_turns),
        cmocka_unit_test(what_the_window_has_lost_goes_to_who_can_get_it),
        cmocka_unit_test(what_was_fetched_for_one_is_there_for_the_next),
        cmocka_unit_test(jobs_that_wait_at_the_end_are_dropped),
        cmocka_unit_test(a_disk_that_answers_nothing_is_asked_for_a_bounded_number),
        cmocka_unit_test(tasks_and_reads_take_turns),
        cmocka_unit_test(tasks_that_wait_at_the_end_are_handed_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
