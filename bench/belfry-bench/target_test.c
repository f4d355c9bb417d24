/* bench/belfry-bench/target_test.c */
#include "target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void addresses_with_ports_are_targets(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool loopback, is_tls;
        const char *host;
    } rows[] = {
        {"127.0.0.1:2379", true, false, "127.0.0.1"},       {"http://127.8.9.10:1", true, false, "127.8.9.10"},
        {"https://127.0.0.1:1", true, true, "127.0.0.1"},   {"[::1]:65535", true, false, "::1"},
        {"http://10.0.0.1:2379", false, false, "10.0.0.1"}, {"[2001:db8::1]:2379", false, false, "2001:db8::1"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct target target;
        assert_int_equal(target_parse(rows[i].text, &target), BELFRY_OK);
        assert_int_equal(target.loopback, rows[i].loopback);
        assert_int_equal(target.is_tls, rows[i].is_tls);
        assert_string_equal(target.host, rows[i].host);
        assert_null(target.tls);
    }
}

static void anything_else_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",       "127.0.0.1",   "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:1x",
        "::1:80", "localhost:1", "[::1]",      "[::1:80",     "https://1.2.3.4"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct target target;
        assert_int_equal(target_parse(texts[i], &target), BELFRY_ERR_INVALID);
    }
}

static void a_source_is_an_address_of_ipv4(void **state)
{
    (void)state;
    struct target target;
    assert_int_equal(target_parse("127.0.0.1:2379", &target), BELFRY_OK);
    assert_int_equal(target.source_len, 0);
    assert_int_equal(target_set_source(&target, "127.0.0.x"), BELFRY_ERR_INVALID);
    assert_int_equal(target_set_source(&target, ""), BELFRY_ERR_INVALID);
    assert_int_equal(target.source_len, 0);
    assert_int_equal(target_set_source(&target, "127.0.0.99"), BELFRY_OK);
    assert_true(target.source_len > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_with_ports_are_targets),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(a_source_is_an_address_of_ipv4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
