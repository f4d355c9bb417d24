/* src/judge/etcd_version_test.c */
#include "judge/etcd_version.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void versions_are_judged_by_what_is_known_against_them(void **state)
{
    static const struct {
        const char *text;
        enum etcd_version whole, part;
    } cases[] = {
        {"3.3.27", ETCD_VERSION_OLD, ETCD_VERSION_REFUSED},
        {"3.4.24", ETCD_VERSION_OLD, ETCD_VERSION_REFUSED},
        {"3.4.30", ETCD_VERSION_OLD, ETCD_VERSION_REFUSED},
        {"3.4.31", ETCD_VERSION_OLD, ETCD_VERSION_OLD},
        {"3.4.37", ETCD_VERSION_OLD, ETCD_VERSION_OLD},
        {"3.4.38", ETCD_VERSION_GOOD, ETCD_VERSION_GOOD},
        {"3.5.7", ETCD_VERSION_OLD, ETCD_VERSION_REFUSED},
        {"3.5.12", ETCD_VERSION_OLD, ETCD_VERSION_REFUSED},
        {"3.5.13", ETCD_VERSION_OLD, ETCD_VERSION_OLD},
        {"3.5.21", ETCD_VERSION_OLD, ETCD_VERSION_OLD},
        {"3.5.22", ETCD_VERSION_GOOD, ETCD_VERSION_GOOD},
        {"3.5.22+build", ETCD_VERSION_GOOD, ETCD_VERSION_GOOD},
        {"3.5.13-rc.1", ETCD_VERSION_OLD, ETCD_VERSION_REFUSED},
        {"3.6.0-alpha.0", ETCD_VERSION_OLD, ETCD_VERSION_REFUSED},
        {"3.6.0", ETCD_VERSION_OLD, ETCD_VERSION_OLD},
        {"3.6.2", ETCD_VERSION_GOOD, ETCD_VERSION_GOOD},
        {"3.7.0-rc.0", ETCD_VERSION_GOOD, ETCD_VERSION_GOOD},
        {"2.3.8", ETCD_VERSION_OLD, ETCD_VERSION_REFUSED},
        {"4.0.0", ETCD_VERSION_GOOD, ETCD_VERSION_GOOD},
        {"", ETCD_VERSION_GOOD, ETCD_VERSION_GOOD},
        {"kine", ETCD_VERSION_GOOD, ETCD_VERSION_GOOD},
        {"3.5", ETCD_VERSION_GOOD, ETCD_VERSION_GOOD},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *why = NULL;
        if (etcd_version_judge(cases[i].text, true, &why) != cases[i].whole)
            fail_msg("%s, everything", cases[i].text);
        assert_int_equal(why != NULL, cases[i].whole != ETCD_VERSION_GOOD);
        if (etcd_version_judge(cases[i].text, false, &why) != cases[i].part)
            fail_msg("%s, a part", cases[i].text);
    }
}

static void an_upgrade_stays_in_its_line_and_is_good(void **state)
{
    static const char *const rows[][2] = {
        {"3.5.16", "3.5.22"}, {"3.4.23", "3.4.38"}, {"3.6.0", "3.6.2"}, {"3.3.1", "3.4.38"}};
    char to[ETCD_VERSION_TEXT];
    const char *why;
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(etcd_version_upgrade(rows[i][0], to));
        assert_string_equal(to, rows[i][1]);
        assert_int_equal(etcd_version_judge(to, false, &why), ETCD_VERSION_GOOD);
    }
    assert_false(etcd_version_upgrade("kine", to));
    assert_false(etcd_version_upgrade("3.7.0", to));
}

static void keys_only_tells_leases_up_to_the_candidates_of_3_7(void **state)
{
    static const struct {
        const char *version;
        enum etcd_keys_only is;
    } rows[] = {{"3.3.27", ETCD_KEYS_ONLY_LEASED},         {"3.5.16", ETCD_KEYS_ONLY_LEASED},
                {"3.6.0-rc.4", ETCD_KEYS_ONLY_LEASED},     {"3.6.14", ETCD_KEYS_ONLY_LEASED},
                {"3.7.0-alpha.0", ETCD_KEYS_ONLY_UNKNOWN}, {"3.7.0-beta.0", ETCD_KEYS_ONLY_UNKNOWN},
                {"3.7.0-rc.0", ETCD_KEYS_ONLY_BARE},       {"3.7.0", ETCD_KEYS_ONLY_BARE},
                {"3.7.0+build", ETCD_KEYS_ONLY_BARE},      {"3.7.1", ETCD_KEYS_ONLY_BARE},
                {"3.8.0-alpha.0", ETCD_KEYS_ONLY_BARE},    {"4.0.0", ETCD_KEYS_ONLY_BARE},
                {"2.3.8", ETCD_KEYS_ONLY_LEASED},          {"", ETCD_KEYS_ONLY_UNKNOWN},
                {"kine", ETCD_KEYS_ONLY_UNKNOWN},          {"belfryd/0.3.0", ETCD_KEYS_ONLY_UNKNOWN}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (etcd_version_keys_only(rows[i].version) != rows[i].is)
            fail_msg("%s", rows[i].version);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_judged_by_what_is_known_against_them),
        cmocka_unit_test(an_upgrade_stays_in_its_line_and_is_good),
        cmocka_unit_test(keys_only_tells_leases_up_to_the_candidates_of_3_7),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
