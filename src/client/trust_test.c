/* src/client/trust_test.c: which versions are believed. How they are asked for: session_test. */
#include "client/trust.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/bytes.h"

static void versions_that_keep_progress_behind_events_are_good(void **state)
{
    static const char *const good[] = {"3.4.25",     "3.4.43",   "3.5.8",         "3.5.16",        "3.5.33",
                                       "3.6.0",      "3.6.14",   "3.7.1",         "3.8.0-alpha.0", "3.10.0",
                                       "4.0.0",      "10.0.0",   "3.5.16+debian", "3.5.9-rc.0",    "3.4.26-rc.1",
                                       "3.6.1-rc.0", "3.6.0+git"};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        if (!belfry_trust_is_good(belfry_bytes_str(good[i])))
            fail_msg("%s is good", good[i]);
    }
}

static void versions_from_before_the_mend_are_not_good(void **state)
{
    static const char *const bad[] = {"3.4.24",        "3.4.23",     "3.4.0",         "3.5.7",         "3.5.0",
                                      "3.5.0-rc.1",    "3.5.8-rc.0", "3.4.25-beta.0", "3.3.27",        "3.0.0",
                                      "2.3.8",         "0.1.0",      "3.6.0-rc.0",    "3.6.0-alpha.0", "3.4.24+25",
                                      "3.5.7-patched", "3.1.5"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        if (belfry_trust_is_good(belfry_bytes_str(bad[i])))
            fail_msg("%s is not good", bad[i]);
    }
}

static void what_cannot_be_read_is_not_good(void **state)
{
    static const char *const odd[] = {
        "",        "3",     "3.",      "3.6",        "3.6.",   "3.6.x", "v3.6.0",   " 3.6.0",       "3.6.0 ",
        "3.6.0.1", "3..0",  "-3.6.0",  "3.-6.0",     "+3.6.0", "etcd",  "3.6.0rc1", "3.6.99999999", "4294967299.6.0",
        "0x3.6.0", "3,6,0", "Version", "kine/3.6.0", "3 .6.0", ".6.0",  "9999999.0"};
    (void)state;
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
        if (belfry_trust_is_good(belfry_bytes_str(odd[i])))
            fail_msg("\"%s\" is not good", odd[i]);
    }
    for (size_t len = 0; len < 6; len++) /* the text is not ended by a zero */
        assert_int_equal(belfry_trust_is_good(belfry_bytes_of("3.5.16", len)), false);
    assert_true(belfry_trust_is_good(belfry_bytes_of("3.5.16", 6)));
    assert_false(belfry_trust_is_good(belfry_bytes_of("3.5.9\0", 6)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_that_keep_progress_behind_events_are_good),
        cmocka_unit_test(versions_from_before_the_mend_are_not_good),
        cmocka_unit_test(what_cannot_be_read_is_not_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
