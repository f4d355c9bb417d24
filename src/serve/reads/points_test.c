/* src/serve/reads/points_test.c */
#include "serve/reads/points.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "follow/readpoint.h"

#define WAITS 4

static struct bed {
    struct points *points;
    struct points_source source;
    size_t asked, n; /* questions, and the waits of the last one */
    bool is_slow;    /* the source sends a question only when the test does */
    bool sent;       /* upstream */
    struct waiter {
        struct point_wait wait;
        int64_t told;  /* the revision; 0: not told */
        size_t begins; /* another that begins to wait when this one is told; 0: none */
        size_t ends;   /* another whose wait this one ends; 0: none */
    } waiters[WAITS];
} bed;

static void on_ask(struct points_source *source, size_t n)
{
    (void)source;
    bed.asked++;
    bed.n = n;
    bed.sent = !bed.is_slow;
}

static bool on_join(struct points_source *source)
{
    (void)source;
    bed.n += !bed.sent;
    return !bed.sent;
}

static void on_told(struct point_wait *wait, const struct point *point)
{
    struct waiter *waiter = belfry_container(wait, struct waiter, wait);
    assert_int_equal(waiter->told, 0);
    waiter->told = point->rev;
    if (waiter->begins != 0)
        points_wait(bed.points, &bed.waiters[waiter->begins].wait);
    if (waiter->ends != 0)
        point_wait_end(&bed.waiters[waiter->ends].wait);
}

static void answer(int64_t rev)
{
    bed.source.back(&(struct point){.rev = rev, .past = 1}, bed.source.user);
}

static int setup(void **state)
{
    (void)state;
    bed = (struct bed){.source = {.ask = on_ask, .join = on_join}};
    for (size_t i = 0; i < WAITS; i++)
        point_wait_init(&bed.waiters[i].wait, on_told);
    return points_create(&bed.source, &bed.points) == BELFRY_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < WAITS; i++)
        point_wait_end(&bed.waiters[i].wait);
    points_destroy(bed.points);
    return 0;
}

static void a_wait_is_told_the_answer_to_its_question(void **state)
{
    (void)state;
    points_wait(bed.points, &bed.waiters[0].wait);
    assert_int_equal(bed.asked, 1);
    answer(5);
    assert_int_equal(bed.waiters[0].told, 5);
    assert_int_equal(bed.asked, 1);
}

static void waits_that_come_later_share_the_next_question(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++)
        points_wait(bed.points, &bed.waiters[i].wait);
    assert_int_equal(bed.asked, 1);
    assert_int_equal(bed.n, 1);
    answer(5);
    assert_int_equal(bed.waiters[0].told, 5);
    assert_int_equal(bed.waiters[1].told, 0);
    assert_int_equal(bed.asked, 2);
    assert_int_equal(bed.n, 2);
    answer(6);
    assert_int_equal(bed.waiters[1].told, 6);
    assert_int_equal(bed.waiters[2].told, 6);
    assert_int_equal(bed.asked, 2);
}

static void waits_join_a_question_until_it_is_sent(void **state)
{
    (void)state;
    bed.is_slow = true;
    points_wait(bed.points, &bed.waiters[0].wait);
    points_wait(bed.points, &bed.waiters[1].wait);
    assert_int_equal(bed.n, 2);
    bed.sent = true;
    points_wait(bed.points, &bed.waiters[2].wait);
    assert_int_equal(bed.n, 2);
    answer(5);
    assert_int_equal(bed.waiters[0].told, 5);
    assert_int_equal(bed.waiters[1].told, 5);
    assert_int_equal(bed.waiters[2].told, 0);
    assert_int_equal(bed.asked, 2);
    answer(6);
    assert_int_equal(bed.waiters[2].told, 6);
}

static void a_wait_that_begins_while_others_are_told_is_not_told_their_answer(void **state)
{
    (void)state;
    bed.waiters[0].begins = 1;
    points_wait(bed.points, &bed.waiters[0].wait);
    answer(5);
    assert_int_equal(bed.waiters[1].told, 0);
    assert_int_equal(bed.asked, 2);
    answer(6);
    assert_int_equal(bed.waiters[1].told, 6);
}

static void a_wait_that_has_ended_is_not_told(void **state)
{
    (void)state;
    points_wait(bed.points, &bed.waiters[3].wait);
    bed.waiters[0].ends = 1;
    points_wait(bed.points, &bed.waiters[0].wait);
    points_wait(bed.points, &bed.waiters[1].wait);
    points_wait(bed.points, &bed.waiters[2].wait);
    answer(5);
    point_wait_end(&bed.waiters[2].wait);
    answer(6);
    assert_int_equal(bed.waiters[0].told, 6);
    assert_int_equal(bed.waiters[1].told, 0);
    assert_int_equal(bed.waiters[2].told, 0);
}

static void a_question_of_a_busy_worker_is_one_of_a_crowd(void **state)
{
    (void)state;
    points_set_busy(bed.points, true);
    points_wait(bed.points, &bed.waiters[0].wait);
    assert_true(bed.n >= READPOINT_CROWD);
    points_set_busy(bed.points, false);
    points_wait(bed.points, &bed.waiters[1].wait);
    answer(5);
    assert_int_equal(bed.n, 1);
    answer(6);
    assert_int_equal(bed.waiters[1].told, 6);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_wait_is_told_the_answer_to_its_question),
        T(waits_that_come_later_share_the_next_question),
        T(waits_join_a_question_until_it_is_sent),
        T(a_wait_that_begins_while_others_are_told_is_not_told_their_answer),
        T(a_wait_that_has_ended_is_not_told),
        T(a_question_of_a_busy_worker_is_one_of_a_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
