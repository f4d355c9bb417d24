/* src/base/map_test.c */
#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/rng.h"
#include "support/refuse.h"

#define SEED    11u
#define N_ITEMS 500

struct item {
    struct belfry_map_node node;
    uint64_t id;
    bool in;
    int seen;
};

static struct item items[N_ITEMS];

static uint64_t good_hash(uint64_t id)
{
    return belfry_hash_int(id);
}

static uint64_t poor_hash(uint64_t id) /* many share a hash, all share a bucket */
{
    return (id % 7) << 32;
}

static struct item *item_of(struct belfry_map_node *node)
{
    return belfry_container(node, struct item, node);
}

static struct item *find(const struct belfry_map *map, uint64_t hash, uint64_t id)
{
    struct belfry_map_node *node = belfry_map_first(map, hash);
    while (node != NULL && item_of(node)->id != id)
        node = belfry_map_next(node);
    return node == NULL ? NULL : item_of(node);
}

static void make(void)
{
    for (uint64_t i = 0; i < N_ITEMS; i++)
        items[i] = (struct item){.id = i};
}

static void check_all(const struct belfry_map *map, uint64_t (*hash)(uint64_t))
{
    size_t n = 0, walked = 0;
    for (uint64_t i = 0; i < N_ITEMS; i++) {
        assert_ptr_equal(find(map, hash(i), i), items[i].in ? &items[i] : NULL);
        items[i].seen = 0;
        n += items[i].in;
    }
    assert_int_equal(map->count, n);
    for (struct belfry_map_node *node = NULL; (node = belfry_map_each(map, node)) != NULL; walked++) {
        assert_true(item_of(node)->in);
        assert_int_equal(item_of(node)->seen++, 0);
    }
    assert_int_equal(walked, n);
}

/* Adds and removes at random and keeps book in `in`. */
static void shuffle(struct belfry_map *map, uint64_t (*hash)(uint64_t), struct belfry_rng *rng)
{
    for (int turn = 0; turn < 5000; turn++) {
        struct item *item = &items[belfry_rng_below(rng, N_ITEMS)];
        if (item->in)
            belfry_map_remove(map, &item->node);
        else
            belfry_map_add(map, hash(item->id), &item->node);
        item->in = !item->in;
        if (turn % 250 == 0)
            check_all(map, hash);
    }
    check_all(map, hash);
}

static void drain_all(struct belfry_map *map)
{
    size_t expected = map->count, n = 0;
    for (struct belfry_map_node *node; (node = belfry_map_drain(map)) != NULL; n++) {
        assert_true(item_of(node)->in);
        item_of(node)->in = false;
    }
    assert_int_equal(n, expected);
    assert_int_equal(map->count, 0);
    assert_null(belfry_map_each(map, NULL));
}

static void map_holds_exactly_what_was_added_and_not_removed(void **state)
{
    (void)state;
    print_message("seed %u\n", SEED);
    uint64_t (*const hashes[])(uint64_t) = {good_hash, poor_hash};
    for (size_t i = 0; i < 2; i++) {
        struct belfry_rng rng = {SEED + i};
        struct belfry_map map;
        belfry_map_init(&map);
        make();
        shuffle(&map, hashes[i], &rng);
        drain_all(&map);
        shuffle(&map, hashes[i], &rng); /* a drained map is as good as new */
        belfry_map_fini(&map);
    }
}

static void empty_map_finds_nothing(void **state)
{
    (void)state;
    struct belfry_map map;
    belfry_map_init(&map);
    assert_null(belfry_map_first(&map, 0));
    assert_null(belfry_map_each(&map, NULL));
    assert_null(belfry_map_drain(&map));
    belfry_map_fini(&map);
}

static void partly_drained_map_takes_new_elements(void **state)
{
    (void)state;
    struct belfry_map map;
    belfry_map_init(&map);
    make();
    for (uint64_t i = 0; i < 100; i++) {
        belfry_map_add(&map, good_hash(i), &items[i].node);
        items[i].in = true;
    }
    for (int i = 0; i < 60; i++)
        item_of(belfry_map_drain(&map))->in = false;
    for (uint64_t i = 100; i < 200; i++) { /* into buckets already passed by, too */
        belfry_map_add(&map, good_hash(i), &items[i].node);
        items[i].in = true;
    }
    check_all(&map, good_hash);
    drain_all(&map);
    belfry_map_fini(&map);
}

static enum belfry_err fill_a_map(void)
{
    struct belfry_map map;
    belfry_map_init(&map);
    make();
    for (uint64_t i = 0; i < 100; i++) {
        belfry_map_add(&map, good_hash(i), &items[i].node);
        items[i].in = true;
    }
    check_all(&map, good_hash);
    drain_all(&map);
    belfry_map_fini(&map);
    return BELFRY_OK;
}

static void map_goes_on_when_its_table_cannot_grow(void **state)
{
    (void)state;
    assert_in_range(refuse_sweep(fill_a_map), 3, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_holds_exactly_what_was_added_and_not_removed),
        cmocka_unit_test(empty_map_finds_nothing),
        cmocka_unit_test(partly_drained_map_takes_new_elements),
        cmocka_unit_test(map_goes_on_when_its_table_cannot_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
