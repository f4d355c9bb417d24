/* src/core/gather_test.c */
#include "core/gather.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/list.h"
#include "core/stream.h"
#include "core/watcher.h"
#include "support/refuse.h"

#define N_KEYS 3

/* Watchers of the keys "a", "b" and "c", and one of everything, all live. */
static const char *const keys[N_KEYS] = {"a", "b", "c"};
static struct stream stream = {.serial = 1};
static struct watcher watchers[N_KEYS + 1];
static struct interest *interest;
static struct turn turn;
static struct gather gather;

static void watcher_begin(size_t i, struct range range)
{
    watchers[i] = (struct watcher){.stream = &stream, .id = (int64_t)i};
    assert_int_equal(interest_add(interest, &range, NULL, &watchers[i].node), BELFRY_OK);
    assert_int_equal(interest_join(interest, &watchers[i], POPULATION_LIVE), BELFRY_OK);
}

static int setup(void **state)
{
    (void)state;
    turn = (struct turn){.work = 100};
    assert_int_equal(interest_create(5, &interest), BELFRY_OK);
    for (size_t i = 0; i < N_KEYS; i++)
        watcher_begin(i, (struct range){.kind = RANGE_KEY, .key = belfry_bytes_str(keys[i])});
    watcher_begin(N_KEYS, (struct range){.kind = RANGE_PREFIX});
    gather_init(&gather, &turn, interest, NULL, NULL);
    return 0;
}

static void watcher_stop(size_t i)
{
    interest_leave(interest, &watchers[i], POPULATION_LIVE);
    interest_drop(interest, watchers[i].node);
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i <= N_KEYS; i++)
        watcher_stop(i);
    gather_fini(&gather);
    interest_destroy(interest);
    return 0;
}

/* A batch whose events have these keys, one letter each. */
struct lettered {
    struct batch batch;
    struct batch_event events[8];
};

static const struct batch *batch_of(struct lettered *to, int64_t rev, const char *letters)
{
    *to = (struct lettered){.batch = {.rev = rev, .n_events = (uint32_t)strlen(letters)}};
    to->batch.data = (const uint8_t *)letters;
    to->batch.events = to->events;
    for (uint32_t i = 0; i < to->batch.n_events; i++)
        to->events[i] = (struct batch_event){.key_at = i, .key_len = 1};
    return &to->batch;
}

static const struct gather_group *group_of(size_t watcher)
{
    for (size_t i = 0; i < gather.n_groups; i++) {
        if (gather.groups[i].node == watchers[watcher].node)
            return &gather.groups[i];
    }
    return NULL;
}

static void assert_picks(size_t watcher, const struct batch *batch, size_t n, const uint32_t *events)
{
    assert_non_null(group_of(watcher));
    struct response_pick pick = gather_pick(&gather, batch, group_of(watcher));
    assert_int_equal(pick.n, n);
    assert_memory_equal(pick.events, events, n * sizeof(*events));
}

static void each_node_has_its_events(void **state)
{
    (void)state;
    struct lettered storage;
    const struct batch *batch = batch_of(&storage, 10, "abxa");
    assert_int_equal(gather_batch(&gather, batch, POPULATION_LIVE), BELFRY_OK);
    assert_int_equal(gather.n_groups, 3);
    assert_picks(0, batch, 2, (const uint32_t[]){0, 3});
    assert_picks(1, batch, 1, (const uint32_t[]){1});
    assert_null(group_of(2));
    assert_picks(N_KEYS, batch, 4, (const uint32_t[]){0, 1, 2, 3});
    batch = batch_of(&storage, 11, "c");
    assert_int_equal(gather_batch(&gather, batch, POPULATION_LIVE), BELFRY_OK);
    assert_int_equal(gather.n_groups, 2);
    assert_picks(2, batch, 1, (const uint32_t[]){0});
    assert_int_equal(gather_batch(&gather, batch, 1), BELFRY_OK); /* no watcher rides that bus */
    assert_int_equal(gather.n_groups, 0);
}

static void same_question_is_answered_from_before(void **state)
{
    (void)state;
    struct lettered storage, other;
    const struct batch *batch = batch_of(&storage, 10, "ab");
    assert_int_equal(gather_batch(&gather, batch, POPULATION_LIVE), BELFRY_OK);
    batch = batch_of(&other, 10, "x"); /* the same revision is the same batch, by contract */
    assert_int_equal(gather_batch(&gather, batch, POPULATION_LIVE), BELFRY_OK);
    assert_int_equal(gather.n_groups, 3);
    gather_forget(&gather);
    assert_int_equal(gather_batch(&gather, batch, POPULATION_LIVE), BELFRY_OK);
    assert_int_equal(gather.n_groups, 1);
}

static void change_of_the_index_is_noticed(void **state)
{
    (void)state;
    struct lettered storage;
    const struct batch *batch = batch_of(&storage, 10, "a");
    assert_int_equal(gather_batch(&gather, batch, POPULATION_LIVE), BELFRY_OK);
    assert_int_equal(gather.n_groups, 2);
    interest_leave(interest, &watchers[0], POPULATION_LIVE);
    assert_int_equal(gather_batch(&gather, batch, POPULATION_LIVE), BELFRY_OK);
    assert_int_equal(gather.n_groups, 1);
    assert_int_equal(interest_join(interest, &watchers[0], POPULATION_LIVE), BELFRY_OK);
    assert_int_equal(gather_batch(&gather, batch, POPULATION_LIVE), BELFRY_OK);
    assert_int_equal(gather.n_groups, 2);
}

static enum belfry_err scenario(void)
{
    struct lettered storage;
    struct gather mine;
    gather_init(&mine, &turn, interest, NULL, NULL);
    enum belfry_err err = gather_batch(&mine, batch_of(&storage, 10, "a"), POPULATION_LIVE);
    if (err == BELFRY_OK)
        err = gather_batch(&mine, batch_of(&storage, 11, "abcabc"), POPULATION_LIVE);
    assert_true(err != BELFRY_OK || mine.n_groups == 4);
    gather_fini(&mine);
    return err;
}

static void refused_memory_is_an_error(void **state)
{
    (void)state;
    struct lettered storage;
    assert_int_equal(gather_batch(&gather, batch_of(&storage, 9, "a"), POPULATION_LIVE), BELFRY_OK); /* index is warm */
    assert_true(refuse_sweep(scenario) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_node_has_its_events, setup, teardown),
        cmocka_unit_test_setup_teardown(same_question_is_answered_from_before, setup, teardown),
        cmocka_unit_test_setup_teardown(change_of_the_index_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_memory_is_an_error, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
