/* src/serve/etcd/watch_queue_test.c */
#include "serve/etcd/watch_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

#define CREATE                                                                                                         \
    belfry_bytes_of("\x0a\x05\x0a\x03"                                                                                 \
                    "foo",                                                                                             \
                    7)
#define CANCEL belfry_bytes_of("\x12\x02\x08\x05", 4)

static struct watch_waiting *add(struct watch_queue *queue, struct belfry_bytes message, enum watch_wait state)
{
    struct watch_waiting *out = NULL;
    assert_int_equal(watch_queue_add(queue, message, state, &out), BELFRY_OK);
    return out;
}

static void only_the_first_is_handled_and_only_when_it_is_settled(void **state)
{
    (void)state;
    struct watch_queue queue;
    struct belfry_wire_watch_request request;
    watch_queue_init(&queue);
    assert_null(watch_queue_settled(&queue));
    struct watch_waiting *first = add(&queue, CREATE, WATCH_WAIT_UNASKED);
    watch_waiting_move_to(first, WATCH_WAIT_ASKED);
    struct watch_waiting *second = add(&queue, CREATE, WATCH_WAIT_UNASKED);
    watch_waiting_move_to(second, WATCH_WAIT_ASKED);
    struct watch_waiting *third = add(&queue, CANCEL, WATCH_WAIT_PLAIN);
    watch_waiting_move_to(second, WATCH_WAIT_HELD);
    assert_null(watch_queue_settled(&queue));
    char lent[] = "because";
    watch_waiting_refuse(first, lent);
    memset(lent, 'x', sizeof(lent) - 1); /* whoever gave the reason uses its memory again */
    assert_ptr_equal(watch_queue_settled(&queue), first);
    assert_string_equal(first->reason, "because");
    watch_queue_remove(&queue, first);
    watch_waiting_refuse(second, "later"); /* it was held, and lost its right before it was made */
    assert_ptr_equal(watch_queue_settled(&queue), second);
    watch_waiting_read(second, &request);
    assert_int_equal(request.kind, BELFRY_WATCH_CREATE);
    watch_queue_remove(&queue, second);
    assert_ptr_equal(watch_queue_settled(&queue), third);
    watch_waiting_read(third, &request);
    assert_int_equal(request.kind, BELFRY_WATCH_CANCEL);
    assert_int_equal(request.watch_id, 5);
    watch_queue_remove(&queue, third);
    assert_true(watch_queue_is_empty(&queue));
    assert_int_equal(queue.bytes, 0);
    watch_queue_fini(&queue);
}

static void nothing_is_added_after_a_request_that_could_not_be_asked_about(void **state)
{
    (void)state;
    struct watch_queue queue;
    watch_queue_init(&queue);
    struct watch_waiting *first = add(&queue, CREATE, WATCH_WAIT_UNASKED);
    assert_false(watch_queue_has_room(&queue));
    watch_waiting_move_to(first, WATCH_WAIT_ASKED);
    assert_true(watch_queue_has_room(&queue));
    assert_null(watch_queue_unasked(&queue));
    struct watch_waiting *second = add(&queue, CREATE, WATCH_WAIT_UNASKED);
    assert_ptr_equal(watch_queue_unasked(&queue), second);
    watch_waiting_move_to(first, WATCH_WAIT_UNASKED);
    assert_ptr_equal(watch_queue_unasked(&queue), first);
    watch_queue_fini(&queue);
}

static void number_and_bytes_are_bounded(void **state)
{
    (void)state;
    struct watch_queue queue;
    watch_queue_init(&queue);
    for (size_t i = 0; i < WATCH_QUEUE_MAX; i++) {
        assert_true(watch_queue_has_room(&queue));
        add(&queue, CANCEL, WATCH_WAIT_PLAIN);
    }
    assert_false(watch_queue_has_room(&queue));
    watch_queue_fini(&queue);
    char *large = calloc(1, WATCH_QUEUE_BYTES);
    assert_non_null(large);
    watch_queue_init(&queue);
    add(&queue, belfry_bytes_of(large, WATCH_QUEUE_BYTES), WATCH_WAIT_PLAIN);
    assert_false(watch_queue_has_room(&queue));
    watch_queue_fini(&queue);
    free(large);
}

static enum belfry_err scenario(void)
{
    struct watch_queue queue;
    struct watch_waiting *waiting;
    watch_queue_init(&queue);
    enum belfry_err err = watch_queue_add(&queue, CREATE, WATCH_WAIT_UNASKED, &waiting);
    if (err == BELFRY_OK)
        err = watch_queue_add(&queue, CANCEL, WATCH_WAIT_PLAIN, &waiting);
    watch_queue_fini(&queue);
    return err;
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_first_is_handled_and_only_when_it_is_settled),
        cmocka_unit_test(nothing_is_added_after_a_request_that_could_not_be_asked_about),
        cmocka_unit_test(number_and_bytes_are_bounded),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
