/* src/cli/doctor/doctor_admin_test.c */
#include "cli/doctor/doctor_admin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/numbers_json.h"
#include "support/refuse.h"

static struct doctor_admin admin;

static struct belfry_bytes bytes_of(const char *text)
{
    return (struct belfry_bytes){text, strlen(text)};
}

/* The text is what serve/admin/numbers_document_test.c proves that a tier writes. */
static void numbers_of_a_tier_are_read(void **state)
{
    uint64_t clock_ms;
    (void)state;
    memset(&admin, 0xff, sizeof(admin));
    assert_int_equal(doctor_admin_read_numbers(bytes_of(numbers_json()), &admin, &clock_ms), BELFRY_OK);
    assert_int_equal(clock_ms, UINT64_C(1763373600000));
    assert_string_equal(admin.name, "edge-7");
    assert_string_equal(admin.standing, "ready");
    assert_string_equal(admin.advertise, "https://edge-7:23790");
    assert_string_equal(admin.scope, "/services/");
    assert_int_equal(admin.n_endpoints, 2);
    assert_string_equal(admin.endpoints[1].url, "https://etcd-2:2379");
    assert_true(admin.barred[0] && !admin.barred[1]);
    assert_int_equal(admin.descriptors, 1048576);
    assert_int_equal(admin.connections, 1200);
    assert_int_equal(admin.refused, 301);
    assert_int_equal(admin.disk_free_bytes, UINT64_C(50000000000));
    assert_int_equal(admin.io_errors, 207);
    assert_int_equal(admin.damages, 208);
    assert_int_equal(admin.certificate_left_s, UINT64_MAX);
    assert_int_equal(admin.n_troubles, 2);
    assert_memory_equal(admin.troubles[0], "connections: clients refused or ended in the last minute at the admin", 69);
    assert_memory_equal(admin.troubles[1], "calls: clients refused", 22);
}

static void an_older_tier_leaves_out_what_it_does_not_know(void **state)
{
    uint64_t clock_ms;
    (void)state;
    memset(&admin, 0xff, sizeof(admin));
    const char *text = "{\"version\":\"0.1.0\",\"upstream\":{\"answered\":true}}";
    assert_int_equal(doctor_admin_read_numbers(bytes_of(text), &admin, &clock_ms), BELFRY_OK);
    assert_int_equal(clock_ms, 0);
    assert_false(admin.has_settings);
    assert_int_equal(admin.descriptors, 0);
    assert_int_equal(admin.disk_free_bytes, UINT64_MAX);
    assert_int_equal(admin.n_endpoints, 0);
}

static void a_page_of_another_server_is_none(void **state)
{
    static const char *const pages[] = {"", "404 page not found\n", "[]", "{}", "{\"version\":\"3.5.16\"}"};
    uint64_t clock_ms;
    (void)state;
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
        assert_int_equal(doctor_admin_read_numbers(bytes_of(pages[i]), &admin, &clock_ms), BELFRY_ERR_PROTOCOL);
}

static void levels_are_read_from_etcd_down(void **state)
{
    (void)state;
    const char *text = "{\"above\":[{\"level\":2,\"name\":\"etcd\",\"revision\":9},{\"level\":1,\"name\":\"core-1\","
                       "\"standing\":\"ready\",\"lag\":3,\"hop\":\"half_trip\",\"hop_us\":40}],"
                       "\"self\":{\"name\":\"edge-7\",\"hop\":\"measured\",\"hop_us\":50},\"broken\":{\"level\":1,"
                       "\"name\":\"core-1\",\"above\":\"etcd\",\"for_ms\":16900,\"what\":\"core-1 cannot connect\"},"
                       "\"below\":[]}";
    assert_int_equal(doctor_admin_read_tree(bytes_of(text), &admin), BELFRY_OK);
    assert_int_equal(admin.n_levels, 3);
    assert_string_equal(admin.levels[0].name, "etcd");
    assert_false(admin.levels[0].has_hop);
    assert_int_equal(admin.levels[1].lag, 3);
    assert_true(admin.levels[1].is_guess && !admin.levels[2].is_guess);
    assert_int_equal(admin.levels[2].hop_us, 50);
    assert_true(admin.has_broken && admin.broken_level == 1 && admin.broken_ms == 16900);
    assert_string_equal(admin.broken_name, "core-1");
    assert_string_equal(admin.broken_what, "core-1 cannot connect");
    assert_int_equal(doctor_admin_read_tree(bytes_of("{\"above\":[],\"self\":{}}"), &admin), BELFRY_OK);
    assert_false(admin.has_broken);
}

static void an_older_tier_has_its_verdict_in_the_lines_of_readyz(void **state)
{
    (void)state;
    const char *text = "[-]upstream: x\n[+]replica ok\n[-]lag: 7 s behind (limit 5 s)\n[+]pools ok\nnot ready\n[-]";
    doctor_admin_read_ready(bytes_of(text), &admin);
    assert_string_equal(admin.verdict, "not ready");
    assert_string_equal(admin.ready_why, "upstream: x; lag: 7 s behind (limit 5 s)");
    doctor_admin_read_ready(bytes_of("[-]drain: the tier drains"), &admin);
    assert_string_equal(admin.ready_why, "drain: the tier drains");
    doctor_admin_read_ready(bytes_of("[+]upstream ok\nok\n"), &admin);
    assert_string_equal(admin.verdict, "ready");
    assert_string_equal(admin.ready_why, "");
}

static void the_verdict_of_a_tier_is_read_with_what_to_do(void **state)
{
    uint64_t clock_ms;
    (void)state;
    const char *text = "{\"version\":\"1\",\"upstream\":{},\"summary\":{\"verdict\":\"not ready\",\"why\":\"upstream "
                       "x\",\"hint\":\"h\","
                       "\"warnings\":[{\"why\":\"lost\",\"hint\":\"l\"}],\"checks\":[{\"name\":\"upstream\",\"ok\":"
                       "false,\"why\":\"x\","
                       "\"hint\":\"u\"},{\"name\":\"lag\",\"ok\":true},{\"name\":\"rights\",\"ok\":false,\"why\":"
                       "\"off\",\"hint\":\"r\"}]},"
                       "\"resources\":[{\"name\":\"pods\",\"ready\":0,\"reason\":\"403\",\"hint\":\"grant\"}]}";
    assert_int_equal(doctor_admin_read_numbers(bytes_of(text), &admin, &clock_ms), BELFRY_OK);
    assert_string_equal(admin.verdict, "not ready");
    assert_string_equal(admin.ready_why, "upstream x");
    assert_string_equal(admin.ready_hint, "h");
    assert_string_equal(admin.upstream_hint, "u");
    assert_string_equal(admin.lag_why, "");
    assert_string_equal(admin.rights_why, "off");
    assert_string_equal(admin.rights_hint, "r");
    assert_string_equal(admin.lost_why, "lost");
    assert_string_equal(admin.lost_hint, "l");
    assert_string_equal(admin.resource_hint, "grant");
}

static enum belfry_err scenario(void)
{
    uint64_t clock_ms;
    enum belfry_err err = doctor_admin_read_numbers(bytes_of(numbers_json()), &admin, &clock_ms);
    if (err == BELFRY_OK)
        err = doctor_admin_read_tree(bytes_of("{\"above\":[{\"name\":\"etcd\"}]}"), &admin);
    return err == BELFRY_OK ? doctor_admin_read_clients(bytes_of("{\"rows\":[]}"), &admin) : err;
}

static void every_refused_allocation_is_told(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_a_tier_are_read),
        cmocka_unit_test(an_older_tier_leaves_out_what_it_does_not_know),
        cmocka_unit_test(a_page_of_another_server_is_none),
        cmocka_unit_test(levels_are_read_from_etcd_down),
        cmocka_unit_test(an_older_tier_has_its_verdict_in_the_lines_of_readyz),
        cmocka_unit_test(the_verdict_of_a_tier_is_read_with_what_to_do),
        cmocka_unit_test(every_refused_allocation_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
