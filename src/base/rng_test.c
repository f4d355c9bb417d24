/* src/base/rng_test.c */
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void sequence_is_that_of_splitmix64(void **state)
{
    (void)state;
    struct belfry_rng rng = {1234567};
    static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                        4593380528125082431u, 16408922859458223821u};
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
        assert_true(belfry_rng_next(&rng) == expected[i]);
}

static void below_stays_below_and_reaches_everything(void **state)
{
    (void)state;
    struct belfry_rng rng = {1};
    int seen[7] = {0};
    for (int i = 0; i < 1000; i++) {
        uint64_t n = belfry_rng_below(&rng, 7);
        assert_in_range(n, 0, 6);
        seen[n]++;
    }
    for (int i = 0; i < 7; i++)
        assert_true(seen[i] > 0);
    assert_int_equal(belfry_rng_below(&rng, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequence_is_that_of_splitmix64),
        cmocka_unit_test(below_stays_below_and_reaches_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
