/* src/follow/term_test.c */
#include "follow/term.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define CLUSTER 7
#define THREADS 4
#define TERMS   20000

static struct term term;

static int setup(void **state)
{
    (void)state;
    term_init(&term);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    term_fini(&term);
    return 0;
}

static void hear(uint64_t cluster_id, uint64_t raft_term)
{
    term_hear(&term, &(struct belfry_wire_header){.cluster_id = cluster_id, .raft_term = raft_term});
}

static void a_lower_term_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(term_now(&term), 0);
    hear(CLUSTER, 5);
    hear(CLUSTER, 4);
    assert_int_equal(term_now(&term), 5);
    hear(CLUSTER, 6);
    assert_int_equal(term_now(&term), 6);
}

static void a_term_of_another_cluster_changes_nothing(void **state)
{
    (void)state;
    hear(CLUSTER, 5);
    hear(CLUSTER + 1, 9);
    assert_int_equal(term_now(&term), 5);
}

static void a_server_without_a_cluster_id_counts(void **state)
{
    (void)state;
    hear(0, 3);
    assert_int_equal(term_now(&term), 3);
    hear(CLUSTER, 5);
    hear(0, 6);
    assert_int_equal(term_now(&term), 6);
}

static void another_cluster_may_begin_lower(void **state)
{
    (void)state;
    hear(CLUSTER, 50);
    term_begin(&term, CLUSTER, 2); /* restored under its old id */
    assert_int_equal(term_now(&term), 50);
    term_begin(&term, CLUSTER + 1, 3);
    assert_int_equal(term_now(&term), 3);
    hear(CLUSTER, 51); /* an answer of the cluster that was left */
    assert_int_equal(term_now(&term), 3);
    hear(CLUSTER + 1, 4);
    assert_int_equal(term_now(&term), 4);
}

static void what_was_relayed_of_another_cluster_counts_when_it_is_followed(void **state)
{
    (void)state;
    hear(CLUSTER, 50);
    hear(CLUSTER + 1, 3);
    hear(CLUSTER + 1, 2);
    assert_int_equal(term_now(&term), 50);
    term_begin(&term, CLUSTER + 1, 2);
    assert_int_equal(term_now(&term), 3);
}

/* Each thread hears terms in its own order, and must find at least what it has heard. */
static void *hear_many(void *user)
{
    uint64_t step = *(const uint64_t *)user, last = 0, faults = 0;
    for (uint64_t i = 0; i < TERMS; i++) {
        uint64_t raft_term = i * step % TERMS + 1;
        hear(CLUSTER, raft_term);
        uint64_t now = term_now(&term);
        faults += now < raft_term || now < last;
        last = now;
    }
    return faults == 0 ? NULL : &term;
}

static void threads_never_see_it_fall(void **state)
{
    static const uint64_t steps[THREADS] = {1, 3, 7, 9}; /* none divides TERMS */
    pthread_t threads[THREADS];
    (void)state;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hear_many, (void *)(uintptr_t)&steps[i]), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *fault;
        pthread_join(threads[i], &fault);
        assert_null(fault);
    }
    assert_int_equal(term_now(&term), TERMS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lower_term_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_term_of_another_cluster_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_without_a_cluster_id_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(another_cluster_may_begin_lower, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_relayed_of_another_cluster_counts_when_it_is_followed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(threads_never_see_it_fall, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
