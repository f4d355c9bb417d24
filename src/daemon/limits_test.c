/* src/daemon/limits_test.c */
#include "daemon/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define MIB ((size_t)1024 * 1024)

static void each_worker_has_an_equal_part(void **state)
{
    (void)state;
    struct limits limits;
    struct limits_view view;
    unsigned version = 0;
    struct config config = {.workers = 3,
                            .memory_bytes = 3 * 64 * MIB,
                            .max_connections = 10,
                            .max_watchers = 7,
                            .max_calls = 2,
                            .client_share = 40,
                            .tier_share = 80};
    limits_init(&limits, &config);
    assert_true(limits_take(&limits, &version, &view));
    assert_int_equal(view.shares.total[SHARES_CONNECTIONS], 4);
    assert_int_equal(view.shares.total[SHARES_WATCHERS], 3);
    assert_int_equal(view.shares.total[SHARES_CALLS], 1); /* no worker has nothing */
    assert_int_equal(view.shares.total[SHARES_MEMORY], 32 * MIB);
    assert_int_equal(view.shares.total[SHARES_REQUESTS], 4 * MIB);
    assert_int_equal(view.shares.total[SHARES_CALL_BYTES], 4 * MIB);
    assert_int_equal(view.shares.total[SHARES_WATCH_BYTES], 20 * MIB);
    assert_int_equal(view.shares.total[SHARES_LIST_BYTES], 4 * MIB);
    assert_int_equal(view.shares.percent[SHARES_CLIENT], 40);
    assert_int_equal(view.shares.percent[SHARES_BELOW], 80);
    limits_fini(&limits);
}

static void what_is_not_set_comes_from_the_machine(void **state)
{
    (void)state;
    struct limits limits;
    struct limits_view view;
    unsigned version = 0;
    struct config config = {.workers = 1, .max_connections = UINT32_MAX, .max_calls = 100};
    limits_init(&limits, &config);
    assert_true(limits_take(&limits, &version, &view));
    assert_in_range(limits.memory, 16 * MIB, SIZE_MAX);
    assert_int_equal(view.shares.total[SHARES_CONNECTIONS], limits.connections); /* there are no more descriptors */
    assert_int_equal(view.shares.total[SHARES_WATCHERS], limits.memory / 512);
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++)
        assert_int_not_equal(view.shares.total[pool], 0); /* each is finite */
    limits_fini(&limits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_worker_has_an_equal_part),
        cmocka_unit_test(what_is_not_set_comes_from_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
