/* bench/belfry-bench/load_test.c */
#include "load.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char key[LOAD_KEY_MAX], end[LOAD_KEY_MAX];

static void everybody_watches_the_prefix_of_a_shared_load(void **state)
{
    (void)state;
    const struct load load = {.keys = LOAD_SHARED, .form = LOAD_VALUES, .prefix = "/bench/"};
    load_range(&load, 17, key, end);
    assert_string_equal(key, "/bench/");
    assert_string_equal(end, "/bench0");
    load_put_key(&load, 1017, key);
    assert_string_equal(key, "/bench/17");
}

static void a_distinct_load_has_a_key_for_each(void **state)
{
    (void)state;
    const struct load load = {.keys = LOAD_DISTINCT, .form = LOAD_VALUES, .prefix = "/bench/"};
    load_range(&load, 17, key, end);
    assert_string_equal(key, "/bench/00000017");
    assert_string_equal(end, "");
    load_put_key(&load, 17, key);
    assert_string_equal(key, "/bench/00000017");
}

static void a_watcher_covers_what_its_range_has(void **state)
{
    (void)state;
    const struct load shared = {.keys = LOAD_SHARED, .form = LOAD_VALUES, .prefix = "/bench/"};
    assert_true(load_covers(&shared, 3, belfry_bytes_str("/bench/17")));
    assert_false(load_covers(&shared, 3, belfry_bytes_str("/bench")));
    assert_false(load_covers(&shared, 3, belfry_bytes_str("/other/17")));
    const struct load distinct = {.keys = LOAD_DISTINCT, .form = LOAD_VALUES, .prefix = "/bench/"};
    assert_true(load_covers(&distinct, 17, belfry_bytes_str("/bench/00000017")));
    assert_false(load_covers(&distinct, 17, belfry_bytes_str("/bench/00000018")));
    assert_false(load_covers(&distinct, 17, belfry_bytes_str("/bench/000000170")));
    assert_false(load_covers(&distinct, 17, belfry_bytes_str("")));
}

static void an_object_lies_under_its_namespace_and_is_named_in_its_value(void **state)
{
    (void)state;
    const struct load shared = {.keys = LOAD_SHARED, .form = LOAD_OBJECTS, .prefix = "/registry/pods/"};
    const struct load distinct = {.keys = LOAD_DISTINCT, .form = LOAD_OBJECTS, .prefix = "/registry/pods/"};
    load_put_key(&shared, 1017, key);
    assert_string_equal(key, "/registry/pods/default/node-17");
    load_put_key(&distinct, 1017, key);
    assert_string_equal(key, "/registry/pods/default/node-1017");

    char value[1024];
    assert_true(load_value_max(&distinct, 256) <= sizeof(value) - 1);
    size_t len = load_write_value(&distinct, 1017, 256, 5, value);
    value[len] = '\0';
    assert_non_null(strstr(value, "\"name\":\"node-1017\""));
    len = load_write_value(&shared, 1017, 256, 5, value);
    value[len] = '\0';
    assert_non_null(strstr(value, "\"name\":\"node-17\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_watches_the_prefix_of_a_shared_load),
        cmocka_unit_test(a_distinct_load_has_a_key_for_each),
        cmocka_unit_test(a_watcher_covers_what_its_range_has),
        cmocka_unit_test(an_object_lies_under_its_namespace_and_is_named_in_its_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
