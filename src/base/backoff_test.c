/* src/base/backoff_test.c */
#include "base/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void first_retry_is_at_once(void **state)
{
    (void)state;
    struct belfry_rng rng = {1};
    struct belfry_backoff b;
    belfry_backoff_init(&b, 100, 10000);
    assert_int_equal(belfry_backoff_next(&b, &rng), 0);
    assert_in_range(belfry_backoff_next(&b, &rng), 50, 100);
    belfry_backoff_reset(&b);
    assert_int_equal(belfry_backoff_next(&b, &rng), 0);
}

static void wait_grows_by_half_up_to_the_maximum(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct belfry_rng rng = {seed};
        struct belfry_backoff b;
        belfry_backoff_init(&b, 100, 2000);
        belfry_backoff_next(&b, &rng);
        double wait = 100;
        for (int i = 0; i < 50; i++) {
            uint32_t ms = belfry_backoff_next(&b, &rng);
            assert_in_range(ms, (uint64_t)(wait / 2) - 1, (uint64_t)wait + 40);
            assert_true(ms <= 2000);
            wait = wait * 1.5 > 2000 ? 2000 : wait * 1.5;
        }
    }
}

static void jitter_uses_the_whole_upper_half(void **state)
{
    (void)state;
    struct belfry_rng rng = {5};
    uint32_t least = UINT32_MAX, most = 0;
    for (int i = 0; i < 5000; i++) {
        struct belfry_backoff b = {.first_ms = 1000, .max_ms = 1000, .tries = 1};
        uint32_t ms = belfry_backoff_next(&b, &rng);
        least = ms < least ? ms : least;
        most = ms > most ? ms : most;
    }
    assert_in_range(least, 500, 510);
    assert_in_range(most, 990, 1000);
}

static void extreme_settings_stay_in_range(void **state)
{
    (void)state;
    struct belfry_rng rng = {6};
    struct belfry_backoff none, one, huge, crossed;
    belfry_backoff_init(&none, 0, 0);
    belfry_backoff_init(&one, 0, 1);
    belfry_backoff_init(&huge, UINT32_MAX, UINT32_MAX);
    belfry_backoff_init(&crossed, 500, 100);
    huge.tries = UINT32_MAX - 1;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(belfry_backoff_next(&none, &rng), 0);
        assert_in_range(belfry_backoff_next(&one, &rng), 0, 1);
        assert_in_range(belfry_backoff_next(&crossed, &rng), i == 0 ? 0 : 50, 100);
        belfry_backoff_next(&huge, &rng);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_retry_is_at_once),
        cmocka_unit_test(wait_grows_by_half_up_to_the_maximum),
        cmocka_unit_test(jitter_uses_the_whole_upper_half),
        cmocka_unit_test(extreme_settings_stay_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
