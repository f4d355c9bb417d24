/* src/server/inbound_wait_test.c */
#include "server/inbound_wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static const uint64_t spans[INBOUND_N_WAITS] = {
    [INBOUND_WAIT_GREETING] = 10, [INBOUND_WAIT_IDLE] = 300, [INBOUND_WAIT_UNREAD] = 60};

static void each_wait_ends_after_the_span_of_its_kind(void **state)
{
    (void)state;
    struct inbound_waits waits;
    struct inbound_wait a, b;
    inbound_waits_init(&waits, spans);
    inbound_wait_init(&a);
    inbound_wait_init(&b);
    inbound_wait_for(&waits, &a, INBOUND_WAIT_GREETING, 1000);
    inbound_wait_for(&waits, &b, INBOUND_WAIT_IDLE, 1000);
    assert_null(inbound_waits_due(&waits, INBOUND_WAIT_GREETING, 1009));
    assert_ptr_equal(inbound_waits_due(&waits, INBOUND_WAIT_GREETING, 1010), &a);
    assert_null(inbound_waits_due(&waits, INBOUND_WAIT_IDLE, 1299));
    assert_ptr_equal(inbound_waits_due(&waits, INBOUND_WAIT_IDLE, 1300), &b);
    assert_null(inbound_waits_due(&waits, INBOUND_WAIT_UNREAD, UINT64_MAX));
}

static void the_longest_wait_is_due_first(void **state)
{
    (void)state;
    struct inbound_waits waits;
    struct inbound_wait all[3];
    inbound_waits_init(&waits, spans);
    for (unsigned i = 0; i < 3; i++) {
        inbound_wait_init(&all[i]);
        inbound_wait_for(&waits, &all[i], INBOUND_WAIT_IDLE, i);
    }
    inbound_wait_for(&waits, &all[0], INBOUND_WAIT_IDLE, 3); /* begins again */
    static const unsigned order[] = {1, 2, 0};
    for (unsigned i = 0; i < 3; i++) {
        assert_ptr_equal(inbound_waits_due(&waits, INBOUND_WAIT_IDLE, 1000), &all[order[i]]);
        inbound_wait_for(&waits, &all[order[i]], INBOUND_WAIT_NONE, 1000);
        assert_int_equal(all[order[i]].kind, INBOUND_WAIT_NONE);
    }
    assert_null(inbound_waits_due(&waits, INBOUND_WAIT_IDLE, 1000));
}

static void a_connection_that_waits_for_another_thing_waits_anew(void **state)
{
    (void)state;
    struct inbound_waits waits;
    struct inbound_wait a;
    inbound_waits_init(&waits, spans);
    inbound_wait_init(&a);
    inbound_wait_for(&waits, &a, INBOUND_WAIT_GREETING, 0);
    inbound_wait_for(&waits, &a, INBOUND_WAIT_UNREAD, 5);
    assert_null(inbound_waits_due(&waits, INBOUND_WAIT_GREETING, 1000));
    assert_null(inbound_waits_due(&waits, INBOUND_WAIT_UNREAD, 64));
    assert_ptr_equal(inbound_waits_due(&waits, INBOUND_WAIT_UNREAD, 65), &a);
}

static void new_spans_are_for_those_who_wait_already(void **state)
{
    (void)state;
    static const uint64_t shorter[INBOUND_N_WAITS] = {[INBOUND_WAIT_IDLE] = 5};
    struct inbound_waits waits;
    struct inbound_wait old, new;
    inbound_waits_init(&waits, spans);
    inbound_wait_init(&old);
    inbound_wait_init(&new);
    inbound_wait_for(&waits, &old, INBOUND_WAIT_IDLE, 0);
    inbound_waits_set(&waits, shorter);
    inbound_wait_for(&waits, &new, INBOUND_WAIT_IDLE, 2);
    assert_null(inbound_waits_due(&waits, INBOUND_WAIT_IDLE, 4));
    assert_ptr_equal(inbound_waits_due(&waits, INBOUND_WAIT_IDLE, 5), &old);
    inbound_waits_set(&waits, spans);
    assert_null(inbound_waits_due(&waits, INBOUND_WAIT_IDLE, 299));
    assert_ptr_equal(inbound_waits_due(&waits, INBOUND_WAIT_IDLE, 300), &old); /* in their order */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wait_ends_after_the_span_of_its_kind),
        cmocka_unit_test(the_longest_wait_is_due_first),
        cmocka_unit_test(a_connection_that_waits_for_another_thing_waits_anew),
        cmocka_unit_test(new_spans_are_for_those_who_wait_already),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
