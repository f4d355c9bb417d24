/* bench/belfry-bench/asker_test.c */
#include "asker.h"

#include "server_test.h"
#include "stopwatch.h"

static struct server server;
static struct asker asker;
static int clients[ASKER_CONNS];

static void open_all(void)
{
    server_open(&server);
    asker_open(&asker, server.poll, &server.target, "/key");
    for (size_t i = 0; i < ASKER_CONNS; i++)
        clients[i] = server_accept(&server);
}

static void close_all(void)
{
    for (size_t i = 0; i < ASKER_CONNS; i++)
        close(clients[i]);
    asker_close(&asker);
    server_close(&server);
}

static void a_read_succeeds_or_fails_by_its_status(void **state)
{
    (void)state;
    open_all();
    asker_ask(&asker);
    asker_ask(&asker);
    assert_false(asker_is_idle(&asker));
    server_await(&server, clients[0], "/key");
    server_await(&server, clients[1], "/key");
    server_end_call(clients[0], 1, '0');
    server_await_count(&server, &asker.outcome.ok, 1);
    server_end_call(clients[1], 1, '8');
    server_await_count(&server, &asker.outcome.failed, 1);
    assert_non_null(strstr(asker.outcome.why, "grpc-status 8"));
    assert_int_equal(asker.outcome.took.count, 1);
    assert_true(asker_is_idle(&asker));
    close_all();
}

static void a_read_that_is_late_fails_once(void **state)
{
    (void)state;
    open_all();
    asker_ask(&asker);
    server_await(&server, clients[0], "/key");
    asker_tend(&asker, stopwatch_ns());
    assert_int_equal(asker.outcome.failed, 0);
    asker_tend(&asker, stopwatch_ns() + (uint64_t)(OUTCOME_LATE_MS + 1) * NS_PER_MS);
    assert_int_equal(asker.outcome.failed, 1);
    server_end_call(clients[0], 1, '0');
    for (int i = 0; i < 20; i++)
        poller_turn(server.poll, 1);
    assert_int_equal(asker.outcome.ok, 0);
    assert_int_equal(asker.outcome.failed, 1);
    close_all();
}

static void a_lost_connection_fails_its_reads_and_is_made_again(void **state)
{
    (void)state;
    open_all();
    asker_ask(&asker);
    server_await(&server, clients[0], "/key");
    close(clients[0]);
    server_await_count(&server, &asker.outcome.failed, 1);
    asker_tend(&asker, stopwatch_ns());
    clients[0] = server_accept(&server);
    for (size_t i = 0; i < ASKER_CONNS; i++)
        asker_ask(&asker);
    server_await(&server, clients[0], "/key");
    assert_int_equal(asker.outcome.failed, 1);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_succeeds_or_fails_by_its_status),
        cmocka_unit_test(a_read_that_is_late_fails_once),
        cmocka_unit_test(a_lost_connection_fails_its_reads_and_is_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
