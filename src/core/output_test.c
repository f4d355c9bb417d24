/* src/core/output_test.c */
#include "core/output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

/* What was written to one outlet. */
struct sink {
    uint8_t bytes[4096];
    size_t len;
    unsigned writes;
};

static struct sink sinks[2];
static struct outlet outlets[2];
static struct turn turn;
static struct output output;

static void sink_write(void *user, const uint8_t *data, size_t len)
{
    struct sink *sink = user;
    assert_true(sink->len + len <= sizeof(sink->bytes));
    memcpy(sink->bytes + sink->len, data, len);
    sink->len += len;
    sink->writes++;
}

static int setup(void **state)
{
    (void)state;
    struct output_opts opts = {
        .identity = {1, 2, 3}, .response_bytes = 1 << 20, .response_revs = 9, .write = sink_write};
    memset(sinks, 0, sizeof(sinks));
    turn = (struct turn){.now = 7};
    assert_int_equal(output_init(&output, &opts, &turn), BELFRY_OK);
    for (size_t i = 0; i < 2; i++)
        outlets[i] = (struct outlet){.user = &sinks[i], .room = 4096};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++)
        output_end_rest(&output, &outlets[i]);
    output_fini(&output);
    return 0;
}

static bool control(struct outlet *outlet, int64_t id)
{
    struct belfry_wire_watch watch = {.header = output_header(&output, 5), .watch_id = id, .created = true};
    return output_control(&output, outlet, &watch);
}

static size_t control_size(int64_t id)
{
    struct belfry_wire_watch watch = {.header = output_header(&output, 5), .watch_id = id, .created = true};
    return response_control_size(&watch);
}

static void messages_of_one_outlet_are_written_together(void **state)
{
    (void)state;
    assert_true(control(&outlets[0], 1));
    assert_true(control(&outlets[0], 2));
    assert_int_equal(sinks[0].writes, 0);
    output_flush(&output);
    assert_int_equal(sinks[0].writes, 1);
    assert_int_equal(sinks[0].len, control_size(1) + control_size(2));
    assert_int_equal(outlets[0].room, 4096 - sinks[0].len);
    assert_int_equal(output.n_written, sinks[0].len);
}

static void another_outlet_flushes_the_first(void **state)
{
    (void)state;
    assert_true(control(&outlets[0], 1));
    assert_true(control(&outlets[1], 1));
    assert_int_equal(sinks[0].writes, 1);
    assert_int_equal(sinks[1].writes, 0);
    output_drop(&output, &outlets[1]); /* its stream is closed */
    output_flush(&output);
    assert_int_equal(sinks[1].writes, 0);
}

static void message_without_room_is_begun_and_its_rest_follows(void **state)
{
    (void)state;
    size_t size = control_size(1);
    outlets[0].room = 0;
    assert_false(control(&outlets[0], 1));
    outlets[0].room = 4;
    assert_true(control(&outlets[0], 1));
    output_flush(&output);
    assert_int_equal(sinks[0].len, 4);
    assert_non_null(outlets[0].rest);
    assert_int_equal(outlets[0].rest_since, 7);
    assert_true(output.rest_bytes >= size - 4);
    outlets[0].room = 100;
    output_fill(&output, &outlets[0]);
    output_flush(&output);
    assert_true(rest_done(outlets[0].rest));
    assert_int_equal(sinks[0].len, size);
    output_end_rest(&output, &outlets[0]);
    assert_int_equal(output.rest_bytes, 0);
    assert_true(output.rest_bytes_peak >= size - 4);
    uint8_t whole[256];
    struct belfry_wire_watch watch = {.header = output_header(&output, 5), .watch_id = 1, .created = true};
    response_control(&watch, whole);
    assert_memory_equal(sinks[0].bytes, whole, size);
}

static void line_larger_than_the_room_is_a_rest(void **state)
{
    (void)state;
    struct belfry_blob *line;
    assert_int_equal(belfry_blob_copy(belfry_bytes_str("a line of text"), &line), BELFRY_OK);
    outlets[0].room = 6;
    assert_true(output_line(&output, &outlets[0], line));
    assert_non_null(outlets[0].rest);
    output_fill(&output, &outlets[0]);
    output_flush(&output);
    assert_int_equal(sinks[0].len, 6);
    assert_int_equal(outlets[0].room, 0);
    assert_memory_equal(sinks[0].bytes, "a line", 6);
}

/* Refused memory: nothing is sent, and the same message can be sent again. */
static void refused_rest_sends_nothing(void **state)
{
    (void)state;
    outlets[0].room = 4;
    refuse_begin(0);
    assert_false(control(&outlets[0], 1));
    assert_true(refuse_end());
    output_flush(&output);
    assert_int_equal(sinks[0].len, 0);
    assert_int_equal(outlets[0].room, 4);
    assert_null(outlets[0].rest);
    assert_true(control(&outlets[0], 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_of_one_outlet_are_written_together, setup, teardown),
        cmocka_unit_test_setup_teardown(another_outlet_flushes_the_first, setup, teardown),
        cmocka_unit_test_setup_teardown(message_without_room_is_begun_and_its_rest_follows, setup, teardown),
        cmocka_unit_test_setup_teardown(line_larger_than_the_room_is_a_rest, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_rest_sends_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
