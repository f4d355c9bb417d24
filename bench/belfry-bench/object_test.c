/* bench/belfry-bench/object_test.c */
#include "object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static char text[4096];

static const char *written(size_t index, size_t spec_bytes)
{
    text[object_write(text, index, spec_bytes, 42)] = '\0';
    return text;
}

static void a_spec_has_the_size_that_was_asked_for(void **state)
{
    (void)state;
    static const size_t sizes[] = {200, 256, 1000, 3000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const char *spec = strstr(written(i * 1000000, sizes[i]), "\"spec\":");
        assert_non_null(spec);
        assert_int_equal(strlen(spec + strlen("\"spec\":")) - 1, sizes[i]); /* the object's own bracket */
    }
}

static void a_spec_that_is_too_small_is_as_small_as_it_can_be(void **state)
{
    (void)state;
    assert_non_null(strstr(written(SIZE_MAX, 20), "\"hostname\":\"\"}}"));
    assert_true(strlen(text) < 20 + OBJECT_EXTRA);
}

static void name_and_node_are_one_word(void **state)
{
    (void)state;
    char name[OBJECT_NAME_MAX];
    object_name(SIZE_MAX, name);
    assert_string_equal(name, "node-18446744073709551615");
    assert_non_null(strstr(written(17, 256), "\"name\":\"node-17\""));
    assert_non_null(strstr(text, "\"nodeName\":\"node-17\""));
}

static void an_event_of_an_object_gives_its_revision_and_the_time_of_its_put(void **state)
{
    (void)state;
    char line[8192];
    struct object_event event;
    snprintf(line, sizeof(line), "{\"type\":\"MODIFIED\",\"object\":%s,\"resourceVersion\":\"1234\"}}",
             written(1, 256));
    assert_int_equal(object_read_event(belfry_bytes_str(line), &event), BELFRY_OK);
    assert_int_equal(event.type, OBJECT_PUT);
    assert_int_equal(event.rev, 1234);
    assert_int_equal(event.put_at, 42);
}

static void events_have_types(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum object_event_type type;
    } rows[] = {
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}", OBJECT_PUT},
        {"{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}", OBJECT_DELETED},
        {"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}", OBJECT_BOOKMARK},
        {"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}", OBJECT_ERROR},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct object_event event;
        assert_int_equal(object_read_event(belfry_bytes_str(rows[i].line), &event), BELFRY_OK);
        assert_int_equal(event.type, rows[i].type);
        assert_int_equal(event.put_at, 0);
    }
}

static void what_is_no_event_is_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {"",
                                        "{",
                                        "{\"type\":\"",
                                        "{\"type\":\"ADDEDX\"}",
                                        "{\"type\":\"ADDED\"}",
                                        "{\"type\":\"ADDED\",\"resourceVersion\":\"x\"}",
                                        "null"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct object_event event;
        assert_int_equal(object_read_event(belfry_bytes_str(lines[i]), &event), BELFRY_ERR_PROTOCOL);
    }
}

static void the_revision_of_a_list_is_the_largest_wherever_it_stands(void **state)
{
    (void)state;
    static const char first[] = "{\"metadata\":{\"resourceVersion\":\"70\"},\"items\":[{\"resourceVersion\":\"8\"}]}";
    static const char last[] = "{\"items\":[{\"resourceVersion\":\"8\"}],\"metadata\":{\"resourceVersion\":\"70\"}}";
    assert_int_equal(object_read_revision(belfry_bytes_str(first)), 70);
    assert_int_equal(object_read_revision(belfry_bytes_str(last)), 70);
    assert_int_equal(object_read_revision(belfry_bytes_str("{}")), 0);
    assert_int_equal(object_read_revision((struct belfry_bytes){0}), 0);
}

static void objects_are_counted_wherever_the_list_is_cut(void **state)
{
    (void)state;
    static const char list[] = "[{\"nodeName\":\"a\"},{\"nodeName\":\"nodeName\"},{\"nodeName\":\"c\"}]";
    for (size_t a = 0; a < sizeof(list) - 1; a++) {
        for (size_t b = a; b < sizeof(list) - 1; b++) {
            struct object_count count = {0};
            object_count(&count, belfry_bytes_of(list, a));
            object_count(&count, belfry_bytes_of(list + a, b - a));
            object_count(&count, belfry_bytes_of(list + b, sizeof(list) - 1 - b));
            assert_int_equal(count.n, 3);
        }
    }
    struct object_count count = {0};
    for (size_t i = 0; i < sizeof(list) - 1; i++)
        object_count(&count, belfry_bytes_of(list + i, 1));
    assert_int_equal(count.n, 3);
}

static void an_event_has_the_bytes_of_a_chunk(void **state)
{
    (void)state;
    char chunk[1024];
    const char *object = "{\"resourceVersion\":\"1000000\",\"a\":1}", *bare = "{\"a\":1}";
    int line = snprintf(chunk, sizeof(chunk), "{\"type\":\"MODIFIED\",\"object\":%s}\n", object);
    int all = snprintf(chunk, sizeof(chunk), "%x\r\n%.*s\r\n", (unsigned)line, line, "");
    assert_int_equal(object_event_bytes(strlen(bare)), all + line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spec_has_the_size_that_was_asked_for),
        cmocka_unit_test(a_spec_that_is_too_small_is_as_small_as_it_can_be),
        cmocka_unit_test(name_and_node_are_one_word),
        cmocka_unit_test(an_event_of_an_object_gives_its_revision_and_the_time_of_its_put),
        cmocka_unit_test(events_have_types),
        cmocka_unit_test(what_is_no_event_is_refused),
        cmocka_unit_test(the_revision_of_a_list_is_the_largest_wherever_it_stands),
        cmocka_unit_test(objects_are_counted_wherever_the_list_is_cut),
        cmocka_unit_test(an_event_has_the_bytes_of_a_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
