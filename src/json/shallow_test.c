/* src/json/shallow_test.c */
#include "json/shallow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_bytes(struct belfry_bytes bytes, const char *text)
{
    assert_int_equal(bytes.len, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.len);
}

/* `expected` is name, value, name, value, ..., NULL. */
static void assert_members(const char *object, const char *const *expected)
{
    struct belfry_shallow walk = belfry_shallow_walk(belfry_bytes_str(object));
    for (struct belfry_shallow_member member; belfry_shallow_next(&walk, &member); expected += 2) {
        assert_non_null(expected[0]);
        assert_bytes(member.name, expected[0]);
        assert_bytes(member.value, expected[1]);
    }
    assert_null(expected[0]);
}

static void the_members_are_where_they_stand(void **state)
{
    (void)state;
    static const char *const members[] = {"kind", "\"Pod\"", "n", "-1.5e+3",   "spec", "{\"a\":[1,{\"b\":\"}\"}]}",
                                          "",     "null",    "l", "[ 1 , 2 ]", "t",    "true",
                                          NULL};
    assert_members(
        "{\"kind\":\"Pod\",\"n\":-1.5e+3,\"spec\":{\"a\":[1,{\"b\":\"}\"}]},\"\":null,\"l\":[ 1 , 2 ],\"t\":true}",
        members);
    assert_members("{ \"kind\" : \"Pod\" ,\n \"n\":-1.5e+3 , \"spec\"\t:\r{\"a\":[1,{\"b\":\"}\"}]} , \"\" : null,"
                   "\"l\":[ 1 , 2 ], \"t\":true } ",
                   members);
}

static void an_object_may_be_empty_or_not_closed(void **state)
{
    (void)state;
    static const char *const none[] = {NULL};
    static const char *const two[] = {"a", "1", "b", "\"\"", NULL};
    assert_members("{}", none);
    assert_members("{ }", none);
    assert_members("{", none);
    assert_members("{\"a\":1,\"b\":\"\"", two);
    assert_members("{\"a\":1,\"b\":\"\",", two);
}

static void names_keep_their_escapes(void **state)
{
    (void)state;
    static const char *const members[] = {"\\u006bind", "1", "a\\\"b", "2", NULL};
    assert_members("{\"\\u006bind\":1,\"a\\\"b\":2}", members);
}

static void a_value_has_no_space_around_it(void **state)
{
    (void)state;
    assert_bytes(belfry_shallow_value(belfry_bytes_str(" \n[1, 2]\t ")), "[1, 2]");
    assert_bytes(belfry_shallow_value(belfry_bytes_str("true\n")), "true");
    assert_bytes(belfry_shallow_value(belfry_bytes_str(" ")), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_members_are_where_they_stand),
        cmocka_unit_test(an_object_may_be_empty_or_not_closed),
        cmocka_unit_test(names_keep_their_escapes),
        cmocka_unit_test(a_value_has_no_space_around_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
