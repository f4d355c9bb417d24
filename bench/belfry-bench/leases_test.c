/* bench/belfry-bench/leases_test.c */
#include "leases.h"

#include "server_test.h"
#include "stopwatch.h"

#define KEEP_ALIVE "LeaseKeepAlive"
#define AFTER_TTL  ((uint64_t)(LEASES_TTL_S + 2) * NS_PER_S)

static struct server server;
static struct leases leases;
static int client;

/* All are granted, with numbers from 1 on, and their streams are open. */
static void open_all(void)
{
    server_open(&server);
    leases_open(&leases, server.poll, &server.target, LEASES_PER_CONN);
    client = server_accept(&server);
    server_await(&server, client, "LeaseGrant");
    assert_int_equal(leases_count(&leases, LEASE_ASKED), LEASES_PER_CONN);
    for (uint8_t i = 0; i < LEASES_PER_CONN; i++) {
        const uint8_t granted[] = {0x10, (uint8_t)(i + 1), 0x18, LEASES_TTL_S};
        server_message(client, (uint8_t)(2 * i + 1), granted, sizeof(granted));
        server_end_call(client, (uint8_t)(2 * i + 1), '0');
    }
    server_await(&server, client, KEEP_ALIVE);
    assert_int_equal(leases_count(&leases, LEASE_KEPT), LEASES_PER_CONN);
}

static void close_all(void)
{
    close(client);
    leases_close(&leases);
    server_close(&server);
}

/* The answer on the stream of a lease. */
static void answer(size_t lease, uint8_t ttl)
{
    const uint8_t kept[] = {0x10, (uint8_t)(lease + 1), 0x18, ttl};
    server_message(client, (uint8_t)(2 * (LEASES_PER_CONN + lease) + 1), kept, ttl > 0 ? 4 : 2);
}

static void a_lease_without_an_answer_in_its_time_is_lost(void **state)
{
    (void)state;
    open_all();
    leases_tend(&leases, stopwatch_ns());
    assert_int_equal(leases_count(&leases, LEASE_LOST), 0);
    leases_tend(&leases, stopwatch_ns() + AFTER_TTL);
    assert_int_equal(leases_count(&leases, LEASE_LOST), LEASES_PER_CONN);
    assert_int_equal(leases.cut, 0);
    close_all();
}

static void an_answer_keeps_a_lease_and_one_without_ttl_loses_it(void **state)
{
    (void)state;
    open_all();
    uint64_t before = leases.all[3].kept_ns;
    answer(4, 0);
    answer(3, LEASES_TTL_S);
    for (int i = 0; i < SERVER_TURNS && leases.all[3].kept_ns == before; i++)
        poller_turn(server.poll, 1);
    assert_true(leases.all[3].kept_ns > before);
    assert_int_equal(leases.all[4].state, LEASE_LOST);
    assert_int_equal(leases_count(&leases, LEASE_LOST), 1);
    close_all();
}

static void streams_that_were_cut_are_made_again(void **state)
{
    (void)state;
    open_all();
    close(client);
    server_await_count(&server, &leases.cut, 1);
    leases_tend(&leases, stopwatch_ns());
    client = server_accept(&server);
    server_await(&server, client, KEEP_ALIVE);
    assert_int_equal(leases_count(&leases, LEASE_KEPT), LEASES_PER_CONN);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_without_an_answer_in_its_time_is_lost),
        cmocka_unit_test(an_answer_keeps_a_lease_and_one_without_ttl_loses_it),
        cmocka_unit_test(streams_that_were_cut_are_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
