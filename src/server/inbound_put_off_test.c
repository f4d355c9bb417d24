/* src/server/inbound_put_off_test.c */
#include "server/inbound_put_off.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define NODES 4

static uv_loop_t loop;
static struct inbound_put_off put_off;
static struct belfry_list nodes[NODES];
static char order[64];  /* whose turns, as letters */
static unsigned again;  /* turns after which a node is put off once more */
static bool takes_long; /* a turn uses up the time of all */
static unsigned n_closed;

static void on_turn(struct belfry_list *node, uint64_t now_ms)
{
    (void)now_ms;
    assert_true(belfry_list_empty(node));
    order[strlen(order)] = (char)('a' + (node - nodes));
    if (again > 0) {
        again--;
        inbound_put_off_add(&put_off, node);
    }
    for (uint64_t until = uv_hrtime() + INBOUND_PUT_OFF_NS; takes_long && uv_hrtime() < until;) {
    }
}

static void on_closed(uv_handle_t *handle)
{
    assert_ptr_equal(handle->data, &n_closed);
    n_closed++;
}

static int setup(void **state)
{
    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    inbound_put_off_init(&put_off, &loop, on_turn);
    for (size_t i = 0; i < NODES; i++)
        belfry_list_init(&nodes[i]);
    memset(order, 0, sizeof(order));
    again = n_closed = 0;
    takes_long = false;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    inbound_put_off_close(&put_off, on_closed, &n_closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(n_closed, INBOUND_PUT_OFF_HANDLES);
    return uv_loop_close(&loop);
}

static void add_all(void)
{
    for (size_t i = 0; i < NODES; i++)
        inbound_put_off_add(&put_off, &nodes[i]);
}

static void each_has_a_turn_in_order_and_then_the_loop_may_block(void **state)
{
    (void)state;
    add_all();
    inbound_put_off_add(&put_off, &nodes[0]); /* it keeps its place */
    assert_true(uv_loop_alive(&loop));
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_string_equal(order, "abcd");
    assert_false(uv_loop_alive(&loop));
}

static void one_that_is_put_off_again_waits_for_the_next_turn(void **state)
{
    (void)state;
    add_all();
    again = 1;
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_string_equal(order, "abcd");
    assert_true(uv_loop_alive(&loop));
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_string_equal(order, "abcda");
    assert_false(uv_loop_alive(&loop));
}

static void those_without_a_turn_come_first_in_the_next(void **state)
{
    (void)state;
    add_all();
    takes_long = true;
    again = 2;
    for (size_t i = 0; i < 6; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_string_equal(order, "abcdab");
    assert_false(uv_loop_alive(&loop));
}

static void one_that_is_taken_back_has_no_turn(void **state)
{
    (void)state;
    add_all();
    belfry_list_remove(&nodes[1]);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(order, "acd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_has_a_turn_in_order_and_then_the_loop_may_block, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_is_put_off_again_waits_for_the_next_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(those_without_a_turn_come_first_in_the_next, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_is_taken_back_has_no_turn, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
