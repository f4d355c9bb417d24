/* src/daemon/rotation_test.c */
#include "daemon/rotation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define N 5

static struct {
    size_t left[N];  /* units that each has to do */
    size_t turns[N]; /* that each had */
    size_t all;      /* units that were spent */
} rig;

static bool on_wants(size_t number, void *user)
{
    assert_ptr_equal(user, &rig);
    return rig.left[number] > 0;
}

static size_t on_turn(size_t number, size_t work, bool *more, void *user)
{
    (void)user;
    size_t spent = rig.left[number] < work ? rig.left[number] : work;
    rig.left[number] -= spent;
    rig.turns[number]++;
    rig.all += spent;
    *more = rig.left[number] > 0;
    return spent;
}

static bool run(struct rotation *rotation, size_t work)
{
    static const struct rotation_ops ops = {on_wants, on_turn};
    return rotation_run(rotation, N, work, 10, &ops, &rig);
}

static int fresh(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof(rig));
    return 0;
}

static void what_there_is_is_done_in_one_turn(void **state)
{
    struct rotation rotation = {0};
    (void)state;
    rig.left[1] = 25;
    rig.left[4] = 3;
    assert_false(run(&rotation, 1000));
    assert_int_equal(rig.all, 28);
    assert_int_equal(rig.turns[1], 3);
    assert_int_equal(rig.turns[0], 0);
    assert_false(run(&rotation, 1000)); /* nobody wants anything */
    assert_int_equal(rig.all, 28);
}

static void nobody_waits_for_the_whole_work_of_another(void **state)
{
    struct rotation rotation = {0};
    (void)state;
    for (size_t i = 0; i < N; i++)
        rig.left[i] = 1000000;
    for (int turn = 0; turn < 10; turn++)
        assert_true(run(&rotation, 24)); /* less than a slice for each */
    assert_int_equal(rig.all, 240);
    for (size_t i = 0; i < N; i++)
        assert_true(rig.turns[i] >= 5 && rig.turns[i] <= 7);
}

static void one_that_is_busy_leaves_the_others_their_slices(void **state)
{
    struct rotation rotation = {0};
    (void)state;
    rig.left[0] = 1000000;
    for (int turn = 0; turn < 4; turn++) {
        rig.left[3] = 4; /* something small comes in each turn */
        run(&rotation, 20);
        assert_int_equal(rig.left[3], 0);
    }
}

static size_t on_nothing(size_t number, size_t work, bool *more, void *user)
{
    (void)number;
    (void)work;
    (void)user;
    rig.all++;
    *more = true;
    return 0;
}

static void a_slice_that_spends_nothing_ends_too(void **state)
{
    static const struct rotation_ops ops = {on_wants, on_nothing};
    struct rotation rotation = {0};
    (void)state;
    rig.left[2] = 1;
    assert_true(rotation_run(&rotation, N, 50, 10, &ops, &rig));
    assert_int_equal(rig.all, 50);
}

static void without_anybody_there_is_nothing_to_do(void **state)
{
    struct rotation rotation = {.next = 3};
    static const struct rotation_ops ops = {on_wants, on_turn};
    (void)state;
    assert_false(rotation_run(&rotation, 0, 50, 10, &ops, &rig));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_there_is_is_done_in_one_turn, fresh),
        cmocka_unit_test_setup(nobody_waits_for_the_whole_work_of_another, fresh),
        cmocka_unit_test_setup(one_that_is_busy_leaves_the_others_their_slices, fresh),
        cmocka_unit_test_setup(a_slice_that_spends_nothing_ends_too, fresh),
        cmocka_unit_test_setup(without_anybody_there_is_nothing_to_do, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
