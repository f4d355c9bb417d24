/* src/server/fields_test.c */
#include "server/fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/refuse.h"

static enum belfry_err add(struct fields *fields, const char *name, const char *value)
{
    return fields_add(fields, belfry_bytes_str(name), belfry_bytes_str(value));
}

static void order_and_repetition_stay_while_it_grows(void **state)
{
    (void)state;
    struct fields fields;
    fields_init(&fields);
    char value[12];
    for (int i = 0; i < 100; i++) {
        snprintf(value, sizeof(value), "%d", i);
        assert_int_equal(add(&fields, i % 2 == 0 ? "x" : "longer-name", i == 50 ? "" : value), BELFRY_OK);
    }
    const struct belfry_http_field *list = fields_list(&fields);
    assert_int_equal(fields.n, 100);
    for (int i = 0; i < 100; i++) {
        snprintf(value, sizeof(value), "%d", i);
        assert_true(belfry_bytes_equal(list[i].name, belfry_bytes_str(i % 2 == 0 ? "x" : "longer-name")));
        assert_true(belfry_bytes_equal(list[i].value, belfry_bytes_str(i == 50 ? "" : value)));
    }
    fields_clear(&fields);
    assert_int_equal(fields.n, 0);
    assert_int_equal(add(&fields, "a", "b"), BELFRY_OK);
    assert_true(belfry_bytes_equal(fields_list(&fields)[0].value, belfry_bytes_str("b")));
    fields_fini(&fields);
}

static void say(struct fields *fields, const char *piece)
{
    assert_int_equal(fields_text(fields, belfry_bytes_str(piece)), BELFRY_OK);
}

static bool is(struct belfry_bytes bytes, const char *text)
{
    return belfry_bytes_equal(bytes, belfry_bytes_str(text));
}

static void pieces_become_fields_in_lower_case_without_spaces_behind(void **state)
{
    (void)state;
    struct fields fields;
    fields_init(&fields);
    say(&fields, "X-");
    say(&fields, "Long-Name");
    assert_int_equal(fields_end_name(&fields), BELFRY_OK);
    say(&fields, "Va lue ");
    say(&fields, "\t ");
    fields_end_value(&fields);
    assert_int_equal(add(&fields, "whole", "w"), BELFRY_OK);
    say(&fields, "Empty");
    assert_int_equal(fields_end_name(&fields), BELFRY_OK);
    say(&fields, "  ");
    fields_end_value(&fields);
    assert_int_equal(add(&fields, "last", "l"), BELFRY_OK);
    const struct belfry_http_field *list = fields_list(&fields);
    assert_int_equal(fields.n, 4);
    assert_true(is(list[0].name, "x-long-name") && is(list[0].value, "Va lue"));
    assert_true(is(list[1].name, "whole") && is(list[1].value, "w"));
    assert_true(is(list[2].name, "empty") && is(list[2].value, ""));
    assert_true(is(list[3].name, "last") && is(list[3].value, "l"));
    assert_true(fields_bytes(&fields) >= 4 * sizeof(*list));
    fields_fini(&fields);
    assert_int_equal(fields_bytes(&fields), 0);
}

static void a_head_has_its_pseudo_headers_apart(void **state)
{
    (void)state;
    struct fields fields;
    fields_init(&fields);
    assert_int_equal(fields_head(&fields).n_fields, 0);
    static const char *const pairs[][2] = {{":method", "GET"},   {":path", "/a?b"}, {":protocol", "x"},
                                           {":scheme", "https"}, {"host", "h:1"},   {"te", "trailers"}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        assert_int_equal(add(&fields, pairs[i][0], pairs[i][1]), BELFRY_OK);
    struct exchange_head head = fields_head(&fields);
    assert_true(is(head.method, "GET") && is(head.path, "/a?b") && is(head.scheme, "https"));
    assert_true(is(head.authority, "h:1")); /* for want of another */
    assert_int_equal(head.n_fields, 2);
    assert_true(is(head.fields[0].name, "host") && is(head.fields[1].value, "trailers"));
    fields_clear(&fields);
    assert_int_equal(add(&fields, ":authority", "other"), BELFRY_OK);
    assert_int_equal(add(&fields, "host", "h:1"), BELFRY_OK);
    assert_true(is(fields_head(&fields).authority, "other"));
    fields_fini(&fields);
}

static void fields_of_one_connection_are_known(void **state)
{
    (void)state;
    static const char *const hops[] = {":path",   "",   "connection",        "keep-alive", "proxy-connection",
                                       "upgrade", "te", "transfer-encoding", "host"};
    static const char *const others[] = {"token", "grpc-timeout", "trailer", "access-control-allow-origin", "hostx"};
    for (size_t i = 0; i < sizeof(hops) / sizeof(hops[0]); i++)
        assert_true(fields_is_hop(belfry_bytes_str(hops[i]), belfry_bytes_str("x")));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(fields_is_hop(belfry_bytes_str(others[i]), belfry_bytes_str("x")));
    assert_false(fields_is_hop(belfry_bytes_str("te"), belfry_bytes_str("trailers")));
}

static enum belfry_err scenario(void)
{
    struct fields fields;
    fields_init(&fields);
    enum belfry_err err = BELFRY_OK;
    for (int i = 0; i < 40 && err == BELFRY_OK; i++)
        err = add(&fields, "name", "value");
    if (err == BELFRY_OK)
        err = fields_text(&fields, belfry_bytes_str("another"));
    if (err == BELFRY_OK)
        err = fields_end_name(&fields);
    fields_fini(&fields);
    return err;
}

static void without_memory_nothing_leaks(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_repetition_stay_while_it_grows),
        cmocka_unit_test(pieces_become_fields_in_lower_case_without_spaces_behind),
        cmocka_unit_test(a_head_has_its_pseudo_headers_apart),
        cmocka_unit_test(fields_of_one_connection_are_known),
        cmocka_unit_test(without_memory_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
