/* src/server/conn_waits_test.c */
#include "server/conn_waits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/pace.h"

/* ---- waits of all connections ---- */

static const uint64_t spans[CONN_N_WAITS] = {
    [CONN_WAIT_GREETING] = 10, [CONN_WAIT_IDLE] = 300, [CONN_WAIT_UNREAD] = 60};

static void each_wait_ends_after_the_span_of_its_kind(void **state)
{
    (void)state;
    struct conn_wait_lists waits;
    struct conn_wait a, b;
    conn_wait_lists_init(&waits, spans);
    conn_wait_init(&a);
    conn_wait_init(&b);
    conn_wait_for(&waits, &a, CONN_WAIT_GREETING, 1000);
    conn_wait_for(&waits, &b, CONN_WAIT_IDLE, 1000);
    assert_null(conn_wait_lists_due(&waits, CONN_WAIT_GREETING, 1009));
    assert_ptr_equal(conn_wait_lists_due(&waits, CONN_WAIT_GREETING, 1010), &a);
    assert_null(conn_wait_lists_due(&waits, CONN_WAIT_IDLE, 1299));
    assert_ptr_equal(conn_wait_lists_due(&waits, CONN_WAIT_IDLE, 1300), &b);
    assert_null(conn_wait_lists_due(&waits, CONN_WAIT_UNREAD, UINT64_MAX));
}

static void the_longest_wait_is_due_first(void **state)
{
    (void)state;
    struct conn_wait_lists waits;
    struct conn_wait all[3];
    conn_wait_lists_init(&waits, spans);
    for (unsigned i = 0; i < 3; i++) {
        conn_wait_init(&all[i]);
        conn_wait_for(&waits, &all[i], CONN_WAIT_IDLE, i);
    }
    conn_wait_for(&waits, &all[0], CONN_WAIT_IDLE, 3); /* begins again */
    static const unsigned order[] = {1, 2, 0};
    for (unsigned i = 0; i < 3; i++) {
        assert_ptr_equal(conn_wait_lists_due(&waits, CONN_WAIT_IDLE, 1000), &all[order[i]]);
        conn_wait_for(&waits, &all[order[i]], CONN_WAIT_NONE, 1000);
        assert_int_equal(all[order[i]].kind, CONN_WAIT_NONE);
    }
    assert_null(conn_wait_lists_due(&waits, CONN_WAIT_IDLE, 1000));
}

static void a_connection_that_waits_for_another_thing_waits_anew(void **state)
{
    (void)state;
    struct conn_wait_lists waits;
    struct conn_wait a;
    conn_wait_lists_init(&waits, spans);
    conn_wait_init(&a);
    conn_wait_for(&waits, &a, CONN_WAIT_GREETING, 0);
    conn_wait_for(&waits, &a, CONN_WAIT_UNREAD, 5);
    assert_null(conn_wait_lists_due(&waits, CONN_WAIT_GREETING, 1000));
    assert_null(conn_wait_lists_due(&waits, CONN_WAIT_UNREAD, 64));
    assert_ptr_equal(conn_wait_lists_due(&waits, CONN_WAIT_UNREAD, 65), &a);
}

static void new_spans_are_for_those_who_wait_already(void **state)
{
    (void)state;
    static const uint64_t shorter[CONN_N_WAITS] = {[CONN_WAIT_IDLE] = 5};
    struct conn_wait_lists waits;
    struct conn_wait old, new;
    conn_wait_lists_init(&waits, spans);
    conn_wait_init(&old);
    conn_wait_init(&new);
    conn_wait_for(&waits, &old, CONN_WAIT_IDLE, 0);
    conn_wait_lists_set(&waits, shorter);
    conn_wait_for(&waits, &new, CONN_WAIT_IDLE, 2);
    assert_null(conn_wait_lists_due(&waits, CONN_WAIT_IDLE, 4));
    assert_ptr_equal(conn_wait_lists_due(&waits, CONN_WAIT_IDLE, 5), &old);
    conn_wait_lists_set(&waits, spans);
    assert_null(conn_wait_lists_due(&waits, CONN_WAIT_IDLE, 299));
    assert_ptr_equal(conn_wait_lists_due(&waits, CONN_WAIT_IDLE, 300), &old); /* in their order */
}

/* ---- those of one connection ---- */

#define SPAN_MS 100

static struct conn_wait_lists waits;
static struct conn_waits mine;

static int setup(void **state)
{
    (void)state;
    uint64_t span_ms[CONN_N_WAITS];
    for (size_t i = 0; i < CONN_N_WAITS; i++)
        span_ms[i] = SPAN_MS;
    conn_wait_lists_init(&waits, span_ms);
    conn_waits_init(&mine, &waits);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    conn_waits_end(&mine);
    for (size_t i = 0; i < CONN_N_WAITS; i++)
        assert_true(belfry_list_empty(&waits.of_kind[i]));
    return 0;
}

static void assert_expects(enum conn_wait_kind kind, uint64_t since_ms)
{
    assert_int_equal(mine.peer.kind, kind);
    assert_int_equal(mine.peer.since_ms, since_ms);
}

static void http1_is_idle_until_a_head_begins(void **state)
{
    (void)state;
    conn_waits_http1(&mine, false, false, 10); /* a request runs */
    assert_true(conn_waits_expects(&mine, CONN_WAIT_NONE));
    conn_waits_http1(&mine, false, true, 20);
    assert_expects(CONN_WAIT_IDLE, 20);
    conn_waits_http1(&mine, false, true, 30);
    assert_expects(CONN_WAIT_IDLE, 20);
    conn_waits_http1(&mine, true, true, 40);
    assert_expects(CONN_WAIT_HEAD, 40);
    conn_waits_http1(&mine, true, true, 50);
    assert_expects(CONN_WAIT_HEAD, 40);
}

static void the_first_head_is_under_the_limit_of_the_greeting(void **state)
{
    (void)state;
    conn_waits_expect(&mine, CONN_WAIT_GREETING, 10);
    conn_waits_http1(&mine, true, false, 20);
    assert_expects(CONN_WAIT_GREETING, 10);
    conn_waits_http2_idle(&mine, true, 30);
    conn_waits_http2_head(&mine, 30, 30);
    assert_expects(CONN_WAIT_GREETING, 10);
}

static void each_head_of_http2_has_its_own_time(void **state)
{
    (void)state;
    conn_waits_http2_idle(&mine, false, 10);
    assert_expects(CONN_WAIT_IDLE_HTTP2, 10);
    conn_waits_http2_head(&mine, 20, 20);
    assert_expects(CONN_WAIT_HEAD, 20);
    conn_waits_http2_head(&mine, 20, 30); /* more bytes of the same */
    assert_expects(CONN_WAIT_HEAD, 20);
    conn_waits_http2_head(&mine, 40, 40); /* another */
    assert_expects(CONN_WAIT_HEAD, 40);
    conn_waits_http2_head(&mine, 0, 50);
    assert_true(conn_waits_expects(&mine, CONN_WAIT_NONE));
}

static void a_peer_that_was_told_to_leave_has_little_time_once_it_is_idle(void **state)
{
    (void)state;
    conn_waits_http2_idle(&mine, false, 10);
    conn_waits_http2_idle(&mine, true, 20);
    assert_expects(CONN_WAIT_LINGER, 20);
    conn_waits_http2_idle(&mine, true, 30);
    assert_expects(CONN_WAIT_LINGER, 20);
}

static void a_reader_has_time_again_with_each_pace_of_bytes(void **state)
{
    (void)state;
    conn_waits_unread(&mine, 1000, 10);
    assert_int_equal(mine.unread.since_ms, 10);
    conn_waits_unread(&mine, 1000 + PACE_BYTES - 1, 20);
    assert_int_equal(mine.unread.since_ms, 10);
    conn_waits_unread(&mine, 1000 + PACE_BYTES, 30);
    assert_int_equal(mine.unread.since_ms, 30);
    assert_ptr_equal(conn_wait_lists_due(&waits, CONN_WAIT_UNREAD, 30 + SPAN_MS), &mine.unread);
    conn_waits_all_read(&mine);
    assert_null(conn_wait_lists_due(&waits, CONN_WAIT_UNREAD, UINT64_MAX));
}

static void a_probe_that_is_planned_stays_where_it_is(void **state)
{
    (void)state;
    conn_waits_probe_later(&mine, 10);
    conn_waits_probe_later(&mine, 50);
    assert_null(conn_wait_lists_due(&waits, CONN_WAIT_PROBE, 10 + SPAN_MS - 1));
    assert_ptr_equal(conn_wait_lists_due(&waits, CONN_WAIT_PROBE, 10 + SPAN_MS), &mine.probe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wait_ends_after_the_span_of_its_kind),
        cmocka_unit_test(the_longest_wait_is_due_first),
        cmocka_unit_test(a_connection_that_waits_for_another_thing_waits_anew),
        cmocka_unit_test(new_spans_are_for_those_who_wait_already),
        cmocka_unit_test_setup_teardown(http1_is_idle_until_a_head_begins, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first_head_is_under_the_limit_of_the_greeting, setup, teardown),
        cmocka_unit_test_setup_teardown(each_head_of_http2_has_its_own_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_peer_that_was_told_to_leave_has_little_time_once_it_is_idle, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reader_has_time_again_with_each_pace_of_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_probe_that_is_planned_stays_where_it_is, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
