/* src/daemon/slack_test.c */
#include "daemon/slack.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/sanitizer.h"

#ifdef __GLIBC__
#define HAS_GLIBC_MALLOC (!BELFRY_HAS_SANITIZER)
#else
#define HAS_GLIBC_MALLOC false
#endif

#define BLOCKS      400000
#define BLOCK_BYTES 120

/* Long after the last. */
static bool seen(struct slack *slack, size_t bytes)
{
    return slack_seen(slack, bytes, slack->not_before);
}

static void a_fall_by_a_step_is_seen_once(void **state)
{
    (void)state;
    struct slack slack = {0};
    assert_false(seen(&slack, 100 * SLACK_MOST));
    assert_false(seen(&slack, 99 * SLACK_MOST + 1));
    assert_true(seen(&slack, 99 * SLACK_MOST));
    assert_false(seen(&slack, 99 * SLACK_MOST));
    assert_false(seen(&slack, 98 * SLACK_MOST + 1));
    assert_true(seen(&slack, 0));
    assert_false(seen(&slack, 0));
}

static void a_step_is_an_eighth_between_its_bounds(void **state)
{
    (void)state;
    struct slack slack = {.most = 16 * SLACK_LEAST};
    assert_false(seen(&slack, 14 * SLACK_LEAST + 1));
    assert_true(seen(&slack, 14 * SLACK_LEAST));
    slack.most = SLACK_LEAST;
    assert_false(seen(&slack, 1));
    assert_true(seen(&slack, 0));
}

static void a_fall_is_measured_from_the_top(void **state)
{
    (void)state;
    struct slack slack = {0};
    assert_false(seen(&slack, SLACK_LEAST - 1));
    assert_false(seen(&slack, 0));
    assert_false(seen(&slack, SLACK_LEAST));
    assert_false(seen(&slack, 2 * SLACK_LEAST));
    assert_true(seen(&slack, SLACK_LEAST));
}

static void what_falls_too_soon_is_seen_when_it_is_due(void **state)
{
    (void)state;
    struct slack slack = {.most = 4 * SLACK_MOST};
    assert_true(slack_seen(&slack, 3 * SLACK_MOST, 5000));
    assert_true(slack_due(&slack) == BELFRY_NEVER);
    assert_false(slack_seen(&slack, 2 * SLACK_MOST, 5001));
    assert_int_equal(slack_due(&slack), 5000 + SLACK_EVERY_MS);
    assert_false(slack_seen(&slack, 3 * SLACK_MOST, 5002)); /* it is in use again */
    assert_true(slack_due(&slack) == BELFRY_NEVER);
    assert_false(slack_seen(&slack, SLACK_MOST, 5000 + SLACK_EVERY_MS - 1));
    assert_true(slack_seen(&slack, SLACK_MOST, 5000 + SLACK_EVERY_MS));
    assert_true(slack_due(&slack) == BELFRY_NEVER);
}

static size_t anon_bytes(void)
{
    char line[256];
    size_t kb = 0;
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (kb == 0 && fgets(line, sizeof(line), file) != NULL)
        sscanf(line, "RssAnon: %zu kB", &kb);
    fclose(file);
    return kb * 1024;
}

/* Small blocks, and one behind them that stays: what is below it is not at the end of the thread's heap. */
static void *use_and_free(void *pin)
{
    static char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        if (blocks[i] != NULL)
            memset(blocks[i], 1, BLOCK_BYTES);
    }
    *(void **)pin = malloc(BLOCK_BYTES);
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return NULL;
}

static void what_was_freed_is_given_back(void **state)
{
    (void)state;
    if (!HAS_GLIBC_MALLOC)
        skip();
    pthread_t thread;
    void *pin = NULL;
    assert_int_equal(pthread_create(&thread, NULL, use_and_free, &pin), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    size_t kept = anon_bytes();
    slack_give_back();
    size_t left = anon_bytes();
    free(pin);
    assert_true(kept > left + (size_t)BLOCKS * BLOCK_BYTES / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fall_by_a_step_is_seen_once),   cmocka_unit_test(a_step_is_an_eighth_between_its_bounds),
        cmocka_unit_test(a_fall_is_measured_from_the_top), cmocka_unit_test(what_falls_too_soon_is_seen_when_it_is_due),
        cmocka_unit_test(what_was_freed_is_given_back),
    };
    slack_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
