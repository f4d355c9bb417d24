/* src/serve/relay/relay_body_test.c */
#include "serve/relay/relay_body.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/refuse.h"

#define SPAN_MS 1000

static struct relay_body body;

static void begin(enum relay_request kind)
{
    relay_body_init(&body, kind);
    relay_body_set_pace(&body, 0, 0, SPAN_MS);
}

static int teardown(void **state)
{
    (void)state;
    relay_body_fini(&body);
    return refuse_held() == 0 ? 0 : -1;
}

static void receive(const void *data, size_t n, uint64_t now_ms)
{
    grpc_walk_pass(&body.walk, belfry_bytes_of(data, n));
    assert_int_equal(belfry_buf_append(&body.bytes, data, n), BELFRY_OK);
    relay_body_set_pace(&body, n, now_ms, SPAN_MS);
}

static void end(void)
{
    body.ended = true;
    relay_body_set_pace(&body, 0, 0, SPAN_MS);
}

static void a_request_of_one_message_is_whole_at_its_end(void **state)
{
    (void)state;
    begin(RELAY_ONE_MESSAGE);
    assert_int_equal(body.pace.due_ms, SPAN_MS); /* from its head on */
    receive("\0\0\0\0\3abc", 8, 10);
    assert_false(relay_body_is_whole(&body));
    assert_int_equal(body.pace.due_ms, SPAN_MS);
    end();
    assert_true(relay_body_is_whole(&body));
    assert_int_equal(body.pace.due_ms, BELFRY_NEVER);
}

static void messages_are_whole_between_each_other(void **state)
{
    (void)state;
    begin(RELAY_MESSAGES);
    assert_false(relay_body_is_whole(&body));
    assert_int_equal(body.pace.due_ms, BELFRY_NEVER); /* the first may come at any time */
    receive("\0\0\0\0\3ab", 7, 10);
    assert_false(relay_body_is_whole(&body));
    assert_int_equal(body.pace.due_ms, 10 + SPAN_MS);
    receive("c", 1, 20);
    assert_true(relay_body_is_whole(&body));
    assert_int_equal(body.pace.due_ms, BELFRY_NEVER);
    receive("\0", 1, 30);
    assert_false(relay_body_is_whole(&body));
    assert_int_equal(body.pace.due_ms, 30 + SPAN_MS);
}

static void one_message_sets_out_when_it_is_whole(void **state)
{
    (void)state;
    begin(RELAY_ONE_MESSAGE);
    assert_false(relay_body_may_set_out(&body));
    receive("\0\0\0\0\3ab", 7, 10);
    assert_false(relay_body_may_set_out(&body));
    receive("c", 1, 10);
    assert_true(relay_body_may_set_out(&body));
}

static void one_message_sets_out_when_it_is_too_large_to_be_kept(void **state)
{
    (void)state;
    static const char large[EXCHANGE_WINDOW / 2] = "\0\0\1"; /* 64 KiB are announced */
    begin(RELAY_ONE_MESSAGE);
    receive(large, sizeof(large) - 1, 10);
    assert_false(relay_body_may_set_out(&body));
    receive("", 1, 10);
    assert_true(relay_body_may_set_out(&body));
}

static void an_empty_request_sets_out_at_its_end(void **state)
{
    (void)state;
    begin(RELAY_ONE_MESSAGE);
    end();
    assert_true(relay_body_may_set_out(&body));
    assert_true(relay_body_is_sent(&body));
}

static void bytes_are_read_in_parts_and_the_last_part_says_so(void **state)
{
    (void)state;
    uint8_t to[8];
    bool ended;
    begin(RELAY_UNKNOWN);
    assert_true(relay_body_may_set_out(&body));
    receive("abcdef", 6, 0);
    assert_int_equal(relay_body_read(&body, to, 4, &ended), 4);
    assert_memory_equal(to, "abcd", 4);
    assert_false(ended);
    assert_int_equal(relay_body_read(&body, to, 4, &ended), 2);
    assert_memory_equal(to, "ef", 2);
    assert_false(ended); /* more may be received */
    assert_int_equal(body.bytes.cap, 0);
    receive("g", 1, 0);
    end();
    assert_false(relay_body_is_sent(&body));
    assert_int_equal(relay_body_read(&body, to, 4, &ended), 1);
    assert_true(ended);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_request_of_one_message_is_whole_at_its_end, teardown),
        cmocka_unit_test_teardown(messages_are_whole_between_each_other, teardown),
        cmocka_unit_test_teardown(one_message_sets_out_when_it_is_whole, teardown),
        cmocka_unit_test_teardown(one_message_sets_out_when_it_is_too_large_to_be_kept, teardown),
        cmocka_unit_test_teardown(an_empty_request_sets_out_at_its_end, teardown),
        cmocka_unit_test_teardown(bytes_are_read_in_parts_and_the_last_part_says_so, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
