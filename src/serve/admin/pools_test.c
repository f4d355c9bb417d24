/* src/serve/admin/pools_test.c */
#include "serve/admin/pools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "serve/admin/numbers.h"
#include "support/refuse.h"

static struct worker_numbers workers[3];
static struct tier_numbers numbers;
static char why[POOLS_WHY];

static struct pool_numbers *pool_of(size_t worker, enum shares_pool pool)
{
    return &workers[worker].pools[pool];
}

static void set_pool(size_t worker, enum shares_pool pool, uint64_t used, uint64_t limit, const char *client,
                     uint64_t largest)
{
    struct pool_numbers *p = pool_of(worker, pool);
    *p = (struct pool_numbers){.used = used, .limit = limit, .largest = largest};
    snprintf(p->client, sizeof(p->client), "%s", client);
}

static int setup(void **state)
{
    (void)state;
    memset(workers, 0, sizeof(workers));
    for (size_t i = 0; i < 3; i++)
        workers[i].answered = true;
    numbers = (struct tier_numbers){.n_workers = 3, .workers = workers};
    return 0;
}

static void on_end(struct shares_conn *conn, enum shares_pool pool, void *user)
{
    (void)conn;
    (void)pool;
    (void)user;
}

/* Pools with 100 places each, of which one client holds some. */
static void count_a_client_that_holds(size_t held, bool is_refused)
{
    struct shares_limits limits = {.total = {[SHARES_WATCHERS] = 100}, .percent = {100, 100}};
    struct shares shares;
    struct shares_conn conn;
    struct shares_alarm alarm_ = {0};
    shares_init(&shares, &limits, 7, on_end, NULL);
    assert_int_equal(shares_join(&shares, &conn, SHARES_CLIENT, "10.0.0.9"), BELFRY_OK);
    shares_count(&conn, SHARES_WATCHERS, 0, held);
    if (is_refused)
        assert_false(shares_make_room(&conn, SHARES_WATCHERS, 101));
    shares_alarm_look(&alarm_, &shares, 1000, NULL);
    pools_count(&shares, &alarm_, workers[0].pools);
    shares_count(&conn, SHARES_WATCHERS, held, 0);
    shares_leave(&conn);
    shares_fini(&shares);
}

static void a_worker_counts_its_pools(void **state)
{
    (void)state;
    const struct pool_numbers *p = pool_of(0, SHARES_WATCHERS);
    count_a_client_that_holds(90, false);
    assert_int_equal(p->used, 90);
    assert_int_equal(p->limit, 100);
    assert_int_equal(p->largest, 90);
    assert_string_equal(p->client, "10.0.0.9");
    assert_int_equal(p->in_trouble, 0);
    assert_string_equal(pool_of(0, SHARES_CALLS)->client, "");
    count_a_client_that_holds(91, false);
    assert_int_equal(p->in_trouble, 1); /* more than 90 percent */
    count_a_client_that_holds(1, true);
    assert_int_equal(p->in_trouble, 1); /* little is used, and it refused */
    assert_int_equal(p->refused, 1);
}

static void a_client_on_several_workers_is_one(void **state)
{
    (void)state;
    struct pool_numbers sum;
    set_pool(0, SHARES_CALLS, 60, 100, "10.0.0.9", 30);
    set_pool(1, SHARES_CALLS, 50, 100, "10.0.0.1", 40);
    set_pool(2, SHARES_CALLS, 30, 100, "10.0.0.9", 20);
    pools_gather(&numbers, SHARES_CALLS, &sum);
    assert_int_equal(sum.used, 140);
    assert_int_equal(sum.limit, 300);
    assert_int_equal(sum.largest, 50);
    assert_string_equal(sum.client, "10.0.0.9");
    workers[2].answered = false;
    pools_gather(&numbers, SHARES_CALLS, &sum);
    assert_int_equal(sum.used, 110);
    assert_int_equal(sum.largest, 40);
    assert_string_equal(sum.client, "10.0.0.1");
}

static void a_full_pool_is_told_with_the_client_that_holds_most(void **state)
{
    (void)state;
    uint64_t gib = 1024 * 1024 * 1024;
    numbers.n_workers = 1;
    set_pool(0, SHARES_MEMORY, gib / 100 * 98 + 100, gib, "10.0.0.9", gib / 2 - 100);
    assert_false(pools_trouble(&numbers, SHARES_MEMORY, why));
    pool_of(0, SHARES_MEMORY)->in_trouble = 1;
    assert_true(pools_trouble(&numbers, SHARES_MEMORY, why));
    assert_string_equal(why, "memory is full: 98 % of 1 GiB in use; 10.0.0.9 holds most, 49 %");
    assert_false(pools_trouble(&numbers, SHARES_CALLS, why));
}

static void a_pool_that_refused_is_not_called_full(void **state)
{
    (void)state;
    numbers.n_workers = 1;
    set_pool(0, SHARES_WATCHERS, 50, 100, "10.0.0.9", 50);
    pool_of(0, SHARES_WATCHERS)->in_trouble = 1;
    assert_true(pools_trouble(&numbers, SHARES_WATCHERS, why));
    assert_string_equal(why, "watchers: clients refused or ended in the last minute; 50 % of 100 in use; "
                             "10.0.0.9 holds most, 50 %");
    set_pool(0, SHARES_WATCHERS, 0, 100, "", 0); /* the client has gone since */
    pool_of(0, SHARES_WATCHERS)->in_trouble = 1;
    assert_true(pools_trouble(&numbers, SHARES_WATCHERS, why));
    assert_string_equal(why, "watchers: clients refused or ended in the last minute; 0 % of 100 in use");
}

static void of_several_workers_the_fullest_is_told(void **state)
{
    (void)state;
    set_pool(0, SHARES_CALLS, 10, 100, "10.0.0.1", 10);
    set_pool(1, SHARES_CALLS, 95, 100, "10.0.0.9", 47);
    set_pool(2, SHARES_CALLS, 94, 100, "10.0.0.8", 93);
    pool_of(1, SHARES_CALLS)->in_trouble = pool_of(2, SHARES_CALLS)->in_trouble = 1;
    assert_true(pools_trouble(&numbers, SHARES_CALLS, why));
    assert_string_equal(why, "calls is full in 2 of 3 workers: 95 % of 100 in use; 10.0.0.9 holds most, 47 %");
    workers[1].answered = false;
    assert_true(pools_trouble(&numbers, SHARES_CALLS, why));
    assert_non_null(strstr(why, "10.0.0.8 holds most"));
}

static void a_name_cannot_begin_a_line_and_is_cut(void **state)
{
    (void)state;
    char name[SHARES_NAME_BYTES];
    numbers.n_workers = 1;
    set_pool(0, SHARES_CALLS, 99, 100, "user \"a\n[+]b\xff\"", 99);
    pool_of(0, SHARES_CALLS)->in_trouble = 1;
    assert_true(pools_trouble(&numbers, SHARES_CALLS, why));
    assert_non_null(strstr(why, "; user \"a?[+]b?\" holds most, 99 %"));
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    set_pool(0, SHARES_CALLS, 99, 100, name, 99);
    pool_of(0, SHARES_CALLS)->in_trouble = 1;
    assert_true(pools_trouble(&numbers, SHARES_CALLS, why));
    assert_non_null(strstr(why, "xxx holds most, 99 %"));
}

static void all_workers_together_are_written_with_their_trouble(void **state)
{
    (void)state;
    struct belfry_buf buf = {0};
    struct belfry_json json = belfry_json_begin(&buf);
    set_pool(0, SHARES_LISTS, 7, 7, "10.0.0.9", 6);
    pool_of(0, SHARES_LISTS)->in_trouble = 1;
    pool_of(0, SHARES_LISTS)->refused = 3;
    pool_of(0, SHARES_LISTS)->yielded = 2;
    belfry_json_open(&json, NULL, '{');
    pools_write(&json, &numbers);
    belfry_json_close(&json, '}');
    assert_int_equal(belfry_json_finish(&json), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&buf, "", 1), BELFRY_OK);
    assert_non_null(strstr((char *)buf.data,
                           "\"lists\":{\"used\":7,\"limit\":7,\"refused\":3,\"ended\":2,\"largest\":6,"
                           "\"client\":\"10.0.0.9\",\"trouble\":\"lists is full in 1 of 3 workers: 100 % of 7 in use; "
                           "10.0.0.9 holds most, 85 %\"}"));
    belfry_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_worker_counts_its_pools, setup),
        cmocka_unit_test_setup(a_client_on_several_workers_is_one, setup),
        cmocka_unit_test_setup(a_full_pool_is_told_with_the_client_that_holds_most, setup),
        cmocka_unit_test_setup(a_pool_that_refused_is_not_called_full, setup),
        cmocka_unit_test_setup(of_several_workers_the_fullest_is_told, setup),
        cmocka_unit_test_setup(a_name_cannot_begin_a_line_and_is_cut, setup),
        cmocka_unit_test_setup(all_workers_together_are_written_with_their_trouble, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
