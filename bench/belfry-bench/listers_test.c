/* bench/belfry-bench/listers_test.c */
#include "listers.h"

#include "server_test.h"

/* header { revision: 7 }, kvs { key: "/l/1" } */
#define ONE_KEY "\x0a\x02\x18\x07\x12\x06\x0a\x04/l/1"
/* header { revision: 7 }, created */
#define CREATED "\x0a\x02\x18\x07\x18\x01"
/* header { revision: 8 }, events { kv { key: "k", mod_revision: 8 } } */
#define EVENT_8 "\x0a\x02\x18\x08\x5a\x07\x12\x05\x0a\x01k\x18\x08"

static struct server server;
static struct listers listers;
static int client;

static void open_with(size_t n_clients, size_t n_listing)
{
    server_open(&server);
    const struct listers_opts opts = {.target = server.target,
                                      .prefix = "/l/",
                                      .n_keys = 1,
                                      .n_conns = 1,
                                      .n_clients = n_clients,
                                      .n_listing = n_listing};
    listers_open(&listers, server.poll, &opts);
    client = server_accept(&server);
    for (int i = 0; i < SERVER_TURNS && !listers_are_connected(&listers); i++)
        poller_turn(server.poll, 1);
    assert_true(listers_are_connected(&listers));
    listers_begin(&listers);
}

static void close_all(void)
{
    close(client);
    listers_close(&listers);
    server_close(&server);
}

static void say_list(uint8_t id)
{
    server_message(client, id, ONE_KEY, sizeof(ONE_KEY) - 1);
    server_end_call(client, id, '0');
}

static void say_event(uint8_t id)
{
    uint8_t data[] = "\0\0\0\0\x0d" EVENT_8;
    data[4] = sizeof(EVENT_8) - 1;
    server_frame(client, 0, 0, id, data, 5 + sizeof(EVENT_8) - 1);
}

static void turn_until_fault(void)
{
    for (int i = 0; i < SERVER_TURNS && listers.fault[0] == '\0'; i++)
        poller_turn(server.poll, 1);
    assert_true(listers.fault[0] != '\0');
}

static void a_client_watches_from_behind_its_list(void **state)
{
    (void)state;
    open_with(1, 1);
    server_await(&server, client, "/l/");
    say_list(1);
    server_await(&server, client, "\x0a\x03/l/\x12\x03/l0\x18\x08"); /* start_revision: 8 */
    assert_false(listers_all_watch(&listers));
    server_message(client, 3, CREATED, sizeof(CREATED) - 1);
    for (int i = 0; i < SERVER_TURNS && !listers_all_watch(&listers); i++)
        poller_turn(server.poll, 1);
    assert_true(listers_all_watch(&listers));
    assert_int_equal(listers.took.count, 1);
    assert_int_equal(listers.kvs, 1);
    assert_false(listers_have_events(&listers, 1));
    say_event(3);
    server_await_count(&server, &listers.events, 1);
    assert_true(listers_have_events(&listers, 1));
    say_event(3);
    turn_until_fault();
    assert_non_null(strstr(listers.fault, "doubled"));
    close_all();
}

static void so_many_list_at_a_time(void **state)
{
    (void)state;
    open_with(3, 2);
    assert_int_equal(listers.n_listing, 2);
    assert_int_equal(listers.n_queued, 1);
    say_list(1);
    for (int i = 0; i < SERVER_TURNS && listers.n_queued > 0; i++)
        poller_turn(server.poll, 1);
    assert_int_equal(listers.n_listing, 2);
    assert_int_equal(listers.n_queued, 0);
    close_all();
}

/* grpc-status 14, which has two digits */
static void refuse(uint8_t id)
{
    static const uint8_t block[] = "\x88\x00\x0bgrpc-status\x02"
                                   "14";
    server_frame(client, 1, 5, id, block, sizeof(block) - 1);
}

static void a_list_that_is_refused_is_repeated_later(void **state)
{
    (void)state;
    open_with(1, 1);
    refuse(1);
    server_await_count(&server, &listers.retried, 1);
    assert_int_equal(listers.n_listing, 0);
    int ms = listers_tend(&listers);
    assert_in_range(ms, 1, 25);
    assert_int_equal(listers.n_listing, 0);
    for (int i = 0; i < SERVER_TURNS && listers.n_listing == 0; i++)
        poller_turn(server.poll, listers_tend(&listers) > 0 ? 1 : 0);
    assert_int_equal(listers.n_listing, 1);
    assert_string_equal(listers.fault, "");
    close_all();
}

static void another_status_is_a_fault(void **state)
{
    (void)state;
    open_with(1, 1);
    server_end_call(client, 1, '8');
    turn_until_fault();
    assert_non_null(strstr(listers.fault, "grpc-status 8"));
    close_all();
}

static void a_list_without_a_key_is_a_fault(void **state)
{
    (void)state;
    open_with(1, 1);
    server_message(client, 1, "\x0a\x02\x18\x07", 4);
    server_end_call(client, 1, '0');
    turn_until_fault();
    assert_non_null(strstr(listers.fault, "not all keys"));
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_watches_from_behind_its_list),    cmocka_unit_test(so_many_list_at_a_time),
        cmocka_unit_test(a_list_that_is_refused_is_repeated_later), cmocka_unit_test(another_status_is_a_fault),
        cmocka_unit_test(a_list_without_a_key_is_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
