/* bench/belfry-bench/readers_test.c */
#include "readers.h"

#include "server_test.h"

/* header { revision: 7 }, kvs { key: "/r/1" }; the same and more */
#define ONE_KEY      "\x0a\x02\x18\x07\x12\x06\x0a\x04/r/1"
#define ONE_KEY_MORE ONE_KEY "\x18\x01"

static struct server server;
static struct readers readers;
static int client;

static void open_with(enum readers_what what, size_t n_keys, size_t n_readers)
{
    server_open(&server);
    const struct readers_opts opts = {.target = server.target,
                                      .load = {.keys = LOAD_DISTINCT, .form = LOAD_VALUES, .prefix = "/r/"},
                                      .n_keys = n_keys,
                                      .what = what,
                                      .limit = 1,
                                      .n_conns = 1,
                                      .n_readers = n_readers};
    readers_open(&readers, server.poll, &opts);
    client = server_accept(&server);
    for (int i = 0; i < SERVER_TURNS && !readers_are_connected(&readers); i++)
        poller_turn(server.poll, 1);
    assert_true(readers_are_connected(&readers));
}

static void close_all(void)
{
    close(client);
    readers_close(&readers);
    server_close(&server);
}

/* Answers the call on that stream, with status 0. */
static void say(uint8_t id, const char *message, size_t len)
{
    server_message(client, id, message, (uint8_t)len);
    server_end_call(client, id, '0');
}

static void a_reader_asks_again_when_it_is_answered(void **state)
{
    (void)state;
    open_with(READERS_KEY, 1, 1);
    readers_begin(&readers, 2);
    server_await(&server, client, "/r/00000000");
    assert_int_equal(readers.under_way, 1);
    say(1, ONE_KEY, sizeof(ONE_KEY) - 1);
    server_await_count(&server, &readers.outcome.ok, 1);
    server_await(&server, client, "/r/00000000");
    assert_false(readers_have_ended(&readers));
    say(3, ONE_KEY, sizeof(ONE_KEY) - 1);
    server_await_count(&server, &readers.outcome.ok, 2);
    assert_true(readers_have_ended(&readers));
    assert_int_equal(readers.kvs, 2);
    assert_int_equal(readers.pinned, 0);
    close_all();
}

static void readers_of_a_connection_do_not_wait_for_each_other(void **state)
{
    (void)state;
    open_with(READERS_KEY, 1, 2);
    readers_begin(&readers, 100);
    for (unsigned i = 1; i < 32; i++) { /* the first call is not answered: others pass it while there are places */
        assert_int_equal(readers.under_way, 2);
        say((uint8_t)(1 + 2 * i), ONE_KEY, sizeof(ONE_KEY) - 1);
        server_await_count(&server, &readers.outcome.ok, i);
    }
    assert_int_equal(readers.under_way, 1);
    say(1, ONE_KEY, sizeof(ONE_KEY) - 1);
    server_await_count(&server, &readers.outcome.ok, 32);
    assert_int_equal(readers.under_way, 2);
    close_all();
}

static void an_answer_without_its_key_is_a_failure(void **state)
{
    (void)state;
    open_with(READERS_KEY, 1, 1);
    readers_begin(&readers, 2);
    say(1, "\x0a\x02\x18\x07", 4);
    server_await_count(&server, &readers.outcome.failed, 1);
    assert_non_null(strstr(readers.outcome.why, "not all keys"));
    server_end_call(client, 3, '0');
    server_await_count(&server, &readers.outcome.failed, 2);
    assert_non_null(strstr(readers.outcome.why, "no answer"));
    close_all();
}

static void a_range_with_too_few_keys_is_a_failure(void **state)
{
    (void)state;
    open_with(READERS_RANGE, 5, 1);
    readers.opts.limit = 2;
    readers_begin(&readers, 1);
    say(1, ONE_KEY_MORE, sizeof(ONE_KEY_MORE) - 1);
    server_await_count(&server, &readers.outcome.failed, 1);
    close_all();
}

static void a_status_is_a_failure(void **state)
{
    (void)state;
    open_with(READERS_KEY, 1, 1);
    readers_begin(&readers, 1);
    server_end_call(client, 1, '8');
    server_await_count(&server, &readers.outcome.failed, 1);
    assert_non_null(strstr(readers.outcome.why, "grpc-status 8"));
    close_all();
}

static void pages_begin_behind_the_last_key_at_the_first_revision(void **state)
{
    (void)state;
    open_with(READERS_PAGES, 5, 1);
    readers_begin(&readers, 3);
    say(1, ONE_KEY_MORE, sizeof(ONE_KEY_MORE) - 1);
    server_await_count(&server, &readers.outcome.ok, 1);
    server_await(&server, client, "\x0a\x05/r/1"); /* five bytes: a zero follows */
    say(3, ONE_KEY, sizeof(ONE_KEY) - 1);
    server_await_count(&server, &readers.outcome.ok, 2);
    assert_int_equal(readers.pinned, 1);
    server_await(&server, client, "\x0a\x03/r/"); /* from the start */
    say(5, ONE_KEY, sizeof(ONE_KEY) - 1);
    server_await_count(&server, &readers.outcome.ok, 3);
    assert_int_equal(readers.pinned, 1);
    close_all();
}

static void a_lost_connection_is_a_fault(void **state)
{
    (void)state;
    open_with(READERS_KEY, 1, 1);
    readers_begin(&readers, 1);
    close(client);
    for (int i = 0; i < SERVER_TURNS && readers.fault[0] == '\0'; i++)
        poller_turn(server.poll, 1);
    assert_non_null(strstr(readers.fault, "read: "));
    client = -1;
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_asks_again_when_it_is_answered),
        cmocka_unit_test(readers_of_a_connection_do_not_wait_for_each_other),
        cmocka_unit_test(an_answer_without_its_key_is_a_failure),
        cmocka_unit_test(a_range_with_too_few_keys_is_a_failure),
        cmocka_unit_test(a_status_is_a_failure),
        cmocka_unit_test(pages_begin_behind_the_last_key_at_the_first_revision),
        cmocka_unit_test(a_lost_connection_is_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
