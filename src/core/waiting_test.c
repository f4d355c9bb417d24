/* src/core/waiting_test.c */
#include "core/waiting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/stream.h"
#include "core/watcher.h"

#define CLIENTS  40
#define WATCHERS 200

static struct waiting waiting;
static struct stream streams[CLIENTS];
static struct watcher watchers[WATCHERS];

static int setup(void **state)
{
    (void)state;
    waiting = (struct waiting){0};
    for (size_t i = 0; i < CLIENTS; i++)
        streams[i] = (struct stream){.serial = i + 1, .client = i};
    return 0;
}

static struct watcher *add(size_t i, size_t client, int64_t cursor)
{
    watchers[i] = (struct watcher){.stream = &streams[client], .id = (int64_t)i, .next = cursor};
    waiting_add(&waiting, &watchers[i]);
    return &watchers[i];
}

static void each_client_has_a_queue_while_there_are_enough(void **state)
{
    (void)state;
    for (size_t i = 0; i < 100; i++)
        add(i, i % WAITING_QUEUES, 5);
    assert_int_equal(waiting.n, 100);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(watchers[i].queue, watchers[i % WAITING_QUEUES].queue);
        assert_int_equal(waiting.queues[watchers[i].queue].client, i % WAITING_QUEUES);
    }
}

static void clients_with_few_watchers_share_and_one_with_many_is_alone(void **state)
{
    (void)state;
    size_t n = 0;
    for (; n < 100; n++)
        add(n, 0, 5);
    for (size_t client = 1; client < CLIENTS; client++, n++)
        assert_int_not_equal(add(n, client, 5)->queue, watchers[0].queue);
    assert_int_equal(waiting.queues[watchers[0].queue].n, 100);
}

static void a_queue_that_was_empty_begins_anew(void **state)
{
    (void)state;
    struct watcher *first = add(0, 3, 5);
    waiting.queues[first->queue].resume_at = 70;
    waiting_remove(&waiting, first);
    assert_int_equal(waiting.n, 0);
    assert_null(waiting_from(&waiting, 0));
    struct watcher *second = add(1, 4, 6);
    assert_int_equal(waiting.queues[second->queue].client, 4);
    assert_int_equal(waiting.queues[second->queue].resume_at, 0);
}

/* The first of all that wait at `cursor` or after it, by looking at each. */
static const struct watcher *first_by_hand(const bool *is_there, int64_t cursor)
{
    const struct watcher *first = NULL;
    for (size_t i = 0; i < WATCHERS; i++) {
        const struct watcher *w = &watchers[i];
        if (is_there[i] && w->next >= cursor && (first == NULL || w->next < first->next))
            first = w;
    }
    return first;
}

static void the_whole_is_ordered_by_cursor(void **state)
{
    (void)state;
    struct belfry_rng rng = {.state = (uint64_t)time(NULL)};
    bool is_there[WATCHERS] = {0};
    printf("seed %llu\n", (unsigned long long)rng.state);
    for (int round = 0; round < 5000; round++) {
        size_t i = (size_t)belfry_rng_below(&rng, WATCHERS);
        if (is_there[i])
            waiting_remove(&waiting, &watchers[i]);
        else
            add(i, (size_t)belfry_rng_below(&rng, CLIENTS), (int64_t)belfry_rng_below(&rng, 300));
        is_there[i] = !is_there[i];
        int64_t cursor = (int64_t)belfry_rng_below(&rng, 300);
        const struct watcher *expected = first_by_hand(is_there, cursor), *found = waiting_from(&waiting, cursor);
        assert_int_equal(found == NULL, expected == NULL);
        assert_true(found == NULL || found->next == expected->next);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_client_has_a_queue_while_there_are_enough, setup),
        cmocka_unit_test_setup(clients_with_few_watchers_share_and_one_with_many_is_alone, setup),
        cmocka_unit_test_setup(a_queue_that_was_empty_begins_anew, setup),
        cmocka_unit_test_setup(the_whole_is_ordered_by_cursor, setup),
    };
    return cmocka_run_group_tests_name("waiting", tests, NULL, NULL);
}
