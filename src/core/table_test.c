/* src/core/table_test.c */
#include "core/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/list.h"
#include "base/rng.h"
#include "support/refuse.h"

#define SEED    5u
#define N_ITEMS 3000

struct item {
    struct table_link link;
    uint64_t id;
    bool in;
};

static struct item items[N_ITEMS];

static uint64_t good_hash(uint64_t id)
{
    struct belfry_rng rng = {id};
    return belfry_rng_next(&rng);
}

static uint64_t poor_hash(uint64_t id) /* several have the same */
{
    return id % 500;
}

static void make(void)
{
    for (uint64_t i = 0; i < N_ITEMS; i++)
        items[i] = (struct item){.id = i};
}

static struct item *find(const struct table *table, uint64_t hash, uint64_t id)
{
    struct table_link *link = table_first(table, hash);
    while (link != NULL && belfry_container(link, struct item, link)->id != id)
        link = table_next(link);
    return link == NULL ? NULL : belfry_container(link, struct item, link);
}

static void check_all(const struct table *table, uint64_t (*hash)(uint64_t))
{
    size_t n = 0;
    for (uint64_t i = 0; i < N_ITEMS; i++) {
        assert_ptr_equal(find(table, hash(i), i), items[i].in ? &items[i] : NULL);
        n += items[i].in;
    }
    assert_int_equal(table->count, n);
}

static void set(struct table *table, struct item *item, bool in, uint64_t (*hash)(uint64_t))
{
    if (in && !item->in)
        table_add(table, hash(item->id), &item->link);
    else if (!in && item->in)
        table_remove(table, &item->link);
    item->in = in;
}

static void wander(uint64_t (*hash)(uint64_t))
{
    make();
    struct belfry_rng rng = {SEED};
    struct table table;
    table_init(&table);
    for (int wave = 0; wave < 6; wave++) { /* fills, empties, with some the other way */
        for (int step = 0; step < 8000; step++) {
            bool in = (belfry_rng_below(&rng, 10) < 8) == (wave % 2 == 0);
            set(&table, &items[belfry_rng_below(&rng, N_ITEMS)], in, hash);
            if (step % 1000 == 0)
                check_all(&table, hash);
        }
    }
    for (size_t i = 0; i < N_ITEMS; i++)
        set(&table, &items[i], false, hash);
    check_all(&table, hash);
    table_fini(&table);
}

static void elements_are_found_while_the_table_grows_and_shrinks(void **state)
{
    (void)state;
    wander(good_hash);
}

static void elements_with_equal_hashes_are_all_found(void **state)
{
    (void)state;
    wander(poor_hash);
}

static void buckets_follow_the_count_both_ways(void **state)
{
    (void)state;
    make();
    struct table table;
    table_init(&table);
    for (size_t i = 0; i < N_ITEMS; i++) {
        set(&table, &items[i], true, good_hash);
        assert_int_equal(table.n_buckets, table.count);
        assert_true(table_bytes(&table) <= 2 * sizeof(void *) * table.count || table.count < 64);
    }
    for (size_t i = 0; i < N_ITEMS; i++) {
        set(&table, &items[i], false, good_hash);
        assert_true(table.n_buckets <= 64 || table.n_buckets <= 2 * table.count);
    }
    assert_true(table_bytes(&table) <= 64 * sizeof(void *));
    table_fini(&table);
}

/* All that is asked for is refused; nothing is lost, and the table catches up afterwards. */
static void table_without_memory_still_finds(void **state)
{
    (void)state;
    make();
    struct table table;
    table_init(&table);
    for (size_t i = 0; i < 100; i++) {
        refuse_begin(0);
        set(&table, &items[i], true, good_hash);
        assert_true(refuse_end());
    }
    assert_int_equal(table.n_buckets, 0);
    check_all(&table, good_hash);
    for (size_t i = 0; i < 50; i++)
        set(&table, &items[i], false, good_hash);
    check_all(&table, good_hash);
    for (size_t i = 0; i < 100; i++)
        set(&table, &items[i], true, good_hash);
    check_all(&table, good_hash);
    assert_int_equal(table.n_buckets, table.count);
    table_fini(&table);
}

static enum belfry_err fill_and_empty(void)
{
    make();
    struct table table;
    table_init(&table);
    for (size_t i = 0; i < 600; i++)
        set(&table, &items[i], true, good_hash);
    bool all = true;
    for (size_t i = 0; i < 600; i++)
        all = all && find(&table, good_hash(i), i) == &items[i];
    for (size_t i = 0; i < 600; i++)
        set(&table, &items[i], false, good_hash);
    table_fini(&table);
    return all ? BELFRY_OK : BELFRY_ERR_INVALID;
}

static void refused_segments_lose_nothing(void **state)
{
    (void)state;
    assert_in_range(refuse_sweep(fill_and_empty), 5, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_found_while_the_table_grows_and_shrinks),
        cmocka_unit_test(elements_with_equal_hashes_are_all_found),
        cmocka_unit_test(buckets_follow_the_count_both_ways),
        cmocka_unit_test(table_without_memory_still_finds),
        cmocka_unit_test(refused_segments_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
