/* src/server/shares_alarm_test.c */
#include "server/shares_alarm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

static struct {
    unsigned n;
    char text[BELFRY_LOG_TEXT];
} logged;

static void on_line(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    (void)user;
    assert_int_equal(level, BELFRY_LOG_WARN);
    assert_string_equal(event, "pool_full");
    logged.n++;
    snprintf(logged.text, sizeof(logged.text), "%s", text);
}

static const struct belfry_log log_lines = {.line = on_line, .level = BELFRY_LOG_INFO};
static struct shares shares;
static struct shares_conn conns[2];
static struct shares_alarm alarm_;

static void on_end(struct shares_conn *conn, enum shares_pool pool, void *user)
{
    (void)conn;
    (void)pool;
    (void)user;
}

static void open_shares(const char *greedy)
{
    struct shares_limits limits = {.total = {[SHARES_WATCHERS] = 100, [SHARES_CALLS] = 10}};
    memset(&logged, 0, sizeof(logged));
    alarm_ = (struct shares_alarm){0};
    shares_init(&shares, &limits, 7, on_end, NULL);
    assert_int_equal(shares_join(&shares, &conns[0], SHARES_CLIENT, greedy), BELFRY_OK);
    assert_int_equal(shares_join(&shares, &conns[1], SHARES_CLIENT, "10.0.0.1"), BELFRY_OK);
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        for (enum shares_pool pool = 0; pool < SHARES_N; pool++)
            shares_count(&conns[i], pool, conns[i].held[pool], 0);
        shares_leave(&conns[i]);
    }
    shares_fini(&shares);
    return refuse_held() == 0 ? 0 : -1;
}

static void take_until_refused(size_t i, enum shares_pool pool)
{
    while (shares_make_room(&conns[i], pool, 1))
        shares_count(&conns[i], pool, 0, 1);
}

static void look(uint64_t now_ms)
{
    shares_alarm_look(&alarm_, &shares, now_ms, &log_lines);
}

static void a_pool_with_room_is_not_told(void **state)
{
    (void)state;
    open_shares("10.0.0.9");
    shares_count(&conns[0], SHARES_WATCHERS, 0, 100); /* full, and nobody was refused */
    look(1000);
    assert_int_equal(logged.n, 0);
    assert_false(shares_alarm_is_on(&alarm_, SHARES_WATCHERS));
}

static void a_refusal_is_told_with_the_client_that_holds_most(void **state)
{
    (void)state;
    open_shares("10.0.0.9");
    shares_count(&conns[1], SHARES_WATCHERS, 0, 2);
    take_until_refused(0, SHARES_WATCHERS);
    look(1000);
    assert_int_equal(logged.n, 1);
    assert_string_equal(logged.text, "pool=watchers used=51 limit=100 client=\"10.0.0.9\" holds=49 refused=1 ended=0 "
                                     "hint=\"see belfryctl top --clients; more: --max-watchers, --client-share\"");
    assert_true(shares_alarm_is_on(&alarm_, SHARES_WATCHERS));
    assert_false(shares_alarm_is_on(&alarm_, SHARES_CALLS));
}

static void a_connection_that_was_ended_is_told(void **state)
{
    (void)state;
    open_shares("10.0.0.9");
    shares_count(&conns[0], SHARES_WATCHERS, 0, 100);
    assert_true(shares_make_room(&conns[1], SHARES_WATCHERS, 1));
    look(1000);
    assert_int_equal(logged.n, 1);
    assert_non_null(strstr(logged.text, " client=\"\" holds=0 refused=0 ended=1 "));
}

static void a_pool_is_told_once_a_minute_whatever_happens(void **state)
{
    (void)state;
    open_shares("10.0.0.9");
    for (uint64_t now = 1000; now < 1000 + SHARES_ALARM_MS; now += 500) {
        take_until_refused(0, SHARES_WATCHERS);
        look(now);
    }
    assert_int_equal(logged.n, 1);
    take_until_refused(0, SHARES_CALLS); /* another pool has a line of its own */
    look(SHARES_ALARM_MS);
    assert_int_equal(logged.n, 2);
    look(1000 + SHARES_ALARM_MS);
    assert_int_equal(logged.n, 3);
    assert_non_null(strstr(logged.text, "pool=watchers "));
    assert_non_null(strstr(logged.text, " refused=119 ")); /* all since the first line */
    look(1000 + 3 * SHARES_ALARM_MS);
    assert_int_equal(logged.n, 3);
}

static void the_alarm_ends_a_minute_after_the_last_refusal(void **state)
{
    (void)state;
    open_shares("10.0.0.9");
    take_until_refused(0, SHARES_WATCHERS);
    look(1000);
    take_until_refused(0, SHARES_WATCHERS);
    look(31000);
    look(31000 + SHARES_ALARM_MS - 1);
    assert_true(shares_alarm_is_on(&alarm_, SHARES_WATCHERS));
    look(31000 + SHARES_ALARM_MS);
    assert_false(shares_alarm_is_on(&alarm_, SHARES_WATCHERS));
}

static void quotes_of_a_name_do_not_end_the_value(void **state)
{
    (void)state;
    open_shares("user \"a\\\" b=\"c\"");
    take_until_refused(0, SHARES_WATCHERS);
    look(1000);
    assert_non_null(strstr(logged.text, " client=\"user 'a'' b='c'\" holds=50 "));
}

static void without_a_log_the_alarm_is_on_all_the_same(void **state)
{
    (void)state;
    open_shares("10.0.0.9");
    take_until_refused(0, SHARES_WATCHERS);
    shares_alarm_look(&alarm_, &shares, 1000, NULL);
    assert_true(shares_alarm_is_on(&alarm_, SHARES_WATCHERS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_pool_with_room_is_not_told, teardown),
        cmocka_unit_test_teardown(a_refusal_is_told_with_the_client_that_holds_most, teardown),
        cmocka_unit_test_teardown(a_connection_that_was_ended_is_told, teardown),
        cmocka_unit_test_teardown(a_pool_is_told_once_a_minute_whatever_happens, teardown),
        cmocka_unit_test_teardown(the_alarm_ends_a_minute_after_the_last_refusal, teardown),
        cmocka_unit_test_teardown(quotes_of_a_name_do_not_end_the_value, teardown),
        cmocka_unit_test_teardown(without_a_log_the_alarm_is_on_all_the_same, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
