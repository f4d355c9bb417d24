/* src/client/cluster_identity_test.c */
#include "client/cluster_identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool check(struct belfry_cluster_identity *identity, size_t endpoint, uint64_t cluster_id)
{
    struct belfry_wire_header header = {.cluster_id = cluster_id};
    return belfry_cluster_identity_check(identity, endpoint, &header);
}

static void the_cluster_is_lost_when_every_endpoint_is_strange(void **state)
{
    struct belfry_cluster_identity identity = {.n_endpoints = 3};
    (void)state;
    assert_false(belfry_cluster_identity_lost(&identity));
    assert_true(check(&identity, 0, 0)); /* says nothing */
    assert_true(check(&identity, 0, 7)); /* decides */
    assert_true(check(&identity, 1, 7));
    for (int i = 0; i < 10; i++)
        assert_false(check(&identity, 1, 8)); /* often, but one endpoint */
    assert_false(belfry_cluster_identity_lost(&identity));
    assert_false(check(&identity, 0, 9));
    assert_false(belfry_cluster_identity_lost(&identity));
    assert_true(check(&identity, 2, 7)); /* ours is still there: all over again */
    assert_false(check(&identity, 0, 8));
    assert_false(check(&identity, 2, 8));
    assert_true(check(&identity, 1, 0));
    assert_false(belfry_cluster_identity_lost(&identity));
    assert_false(check(&identity, 1, 8));
    assert_true(belfry_cluster_identity_lost(&identity));
}

static void more_endpoints_than_bits_are_counted_too(void **state)
{
    struct belfry_cluster_identity identity = {.n_endpoints = 100};
    (void)state;
    assert_true(check(&identity, 99, 7));
    for (size_t i = 0; i < 63; i++)
        assert_false(check(&identity, i, 8));
    assert_false(belfry_cluster_identity_lost(&identity));
    assert_false(check(&identity, 80, 8));
    assert_true(belfry_cluster_identity_lost(&identity));
}

static void endpoint_that_nobody_asks_is_not_waited_for(void **state)
{
    (void)state;
    struct belfry_cluster_identity identity = {
        .n_endpoints = 2, .cluster_id = 1, .barred = belfry_cluster_identity_bit(0)};
    assert_false(belfry_cluster_identity_lost(&identity)); /* nobody has said anything */
    assert_false(belfry_cluster_identity_check(&identity, 1, &(struct belfry_wire_header){.cluster_id = 2}));
    assert_true(belfry_cluster_identity_lost(&identity));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_cluster_is_lost_when_every_endpoint_is_strange),
                                       cmocka_unit_test(endpoint_that_nobody_asks_is_not_waited_for),
                                       cmocka_unit_test(more_endpoints_than_bits_are_counted_too)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
