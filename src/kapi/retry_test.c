/* src/kapi/retry_test.c */
#include "kapi/retry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ROUNDS 2000

static struct belfry_failure answer(int code, int64_t retry_after_ms)
{
    return (struct belfry_failure){.err = BELFRY_ERR_UNAVAILABLE, .code = code, .retry_after_ms = retry_after_ms};
}

static bool again(int code, int64_t retry_after_ms, enum belfry_broke broke)
{
    struct belfry_retry retry;
    struct belfry_rng rng = {1};
    struct belfry_failure failure = answer(code, retry_after_ms);
    uint32_t wait_ms;
    belfry_retry_init(&retry);
    bool yes = belfry_retry_again(&retry, &failure, broke, &rng, &wait_ms);
    assert_int_equal(retry.tries, yes);
    return yes;
}

static void only_429_and_5xx_with_a_time_are_sent_again(void **state)
{
    (void)state;
    static const int yes[] = {429, 500, 502, 503, 504, 599},
                     no[] = {0, 200, 301, 400, 401, 403, 404, 409, 410, 422, 499};
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        assert_true(again(yes[i], 1000, BELFRY_BROKE_NOT));
        assert_true(again(yes[i], 0, BELFRY_BROKE_NOT));
        assert_false(again(yes[i], -1, BELFRY_BROKE_NOT));
    }
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
        assert_false(again(no[i], 1000, BELFRY_BROKE_NOT));
}

static void what_broke_off_is_sent_again_and_what_was_refused_is_not(void **state)
{
    (void)state;
    assert_true(again(0, -1, BELFRY_BROKE_OFF));
    assert_false(again(0, -1, BELFRY_BROKE_REFUSED));
    assert_false(again(503, 1000, BELFRY_BROKE_REFUSED));
}

/* Every wait is between least and most, and both ends of that are come near. */
static void assert_waits(int64_t retry_after_ms, enum belfry_broke broke, uint32_t least, uint32_t most)
{
    struct belfry_rng rng = {7};
    uint32_t shortest = UINT32_MAX, longest = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct belfry_retry retry = {0};
        struct belfry_failure failure = answer(503, retry_after_ms);
        uint32_t wait_ms;
        assert_true(belfry_retry_again(&retry, &failure, broke, &rng, &wait_ms));
        assert_in_range(wait_ms, least, most);
        shortest = wait_ms < shortest ? wait_ms : shortest;
        longest = wait_ms > longest ? wait_ms : longest;
    }
    assert_true(shortest <= least + (most - least) / 20 && longest >= most - (most - least) / 20);
}

static void waits_are_jittered(void **state)
{
    (void)state;
    assert_waits(1000, BELFRY_BROKE_NOT, 1000, 1250);
    assert_waits(3600000, BELFRY_BROKE_NOT, 3600000, 4500000);
    assert_waits(0, BELFRY_BROKE_NOT, 0, 0);
    assert_waits(-1, BELFRY_BROKE_OFF, 1000, 1500);
}

static void ten_times_is_enough(void **state)
{
    (void)state;
    struct belfry_retry retry;
    struct belfry_rng rng = {1};
    struct belfry_failure failure = answer(429, 1000);
    uint32_t wait_ms;
    belfry_retry_init(&retry);
    for (unsigned i = 0; i < BELFRY_RETRY_MAX; i++) {
        enum belfry_broke broke = i % 2 == 0 ? BELFRY_BROKE_NOT : BELFRY_BROKE_OFF; /* all count together */
        assert_true(belfry_retry_again(&retry, &failure, broke, &rng, &wait_ms));
    }
    assert_false(belfry_retry_again(&retry, &failure, BELFRY_BROKE_NOT, &rng, &wait_ms));
    assert_false(belfry_retry_again(&retry, &failure, BELFRY_BROKE_OFF, &rng, &wait_ms));
    assert_int_equal(retry.tries, BELFRY_RETRY_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_429_and_5xx_with_a_time_are_sent_again),
        cmocka_unit_test(what_broke_off_is_sent_again_and_what_was_refused_is_not),
        cmocka_unit_test(waits_are_jittered),
        cmocka_unit_test(ten_times_is_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
