/* src/daemon/peak_test.c */
#include "daemon/peak.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* The reader before this one took it away. */
static void every_reader_sees_the_same_peak(void **state)
{
    (void)state;
    struct peak peak = {0};
    peak_note(&peak, 900, 123456);
    peak_note(&peak, 30, 123457);
    for (int reader = 0; reader < 3; reader++)
        assert_int_equal(peak_now(&peak, 123458), 900);
}

/* However the readings fall between the windows. */
static void whoever_reads_once_a_minute_misses_nothing(void **state)
{
    (void)state;
    for (uint64_t offset = 0; offset < PEAK_WINDOW_MS; offset += 997) {
        struct peak peak = {0};
        uint64_t at = 5000000 + offset;
        peak_note(&peak, 7, at);
        for (uint64_t ms = 0; ms <= 60000; ms += 500)
            assert_int_equal(peak_now(&peak, at + ms), 7);
        assert_int_equal(peak_now(&peak, at + 70000), 0);
    }
}

static void the_largest_of_the_windows_counts_and_leaves_with_its_window(void **state)
{
    (void)state;
    struct peak peak = {0};
    for (uint64_t i = 0; i < 20; i++)
        peak_note(&peak, 100 - i, i * PEAK_WINDOW_MS);
    assert_int_equal(peak_now(&peak, 19 * PEAK_WINDOW_MS), 100 - 13); /* of windows 13 to 19 */
    assert_int_equal(peak_now(&peak, 24 * PEAK_WINDOW_MS), 100 - 18);
    assert_int_equal(peak_now(&peak, 1000 * PEAK_WINDOW_MS), 0);
    peak_note(&peak, 5, 1000 * PEAK_WINDOW_MS);
    assert_int_equal(peak_now(&peak, 1000 * PEAK_WINDOW_MS), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reader_sees_the_same_peak),
        cmocka_unit_test(whoever_reads_once_a_minute_misses_nothing),
        cmocka_unit_test(the_largest_of_the_windows_counts_and_leaves_with_its_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
