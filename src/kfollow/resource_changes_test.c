/* src/kfollow/resource_changes_test.c: what is read from a store is tested in resource_follow_test.c. */
#include "kfollow/resource_changes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static const struct belfry_hash_key hash_key = {1, 2};

static struct belfry_wire_kv kv_of(const char *key, int64_t mark, const char *value)
{
    return (struct belfry_wire_kv){
        .key = belfry_bytes_str(key), .lease = mark, .value = belfry_bytes_str(value), .mod_rev = 7};
}

static void last_changes_are_held(void **state)
{
    (void)state;
    struct resource_changes changes = {0};
    for (int64_t rv = 1; rv <= 2 * RESOURCE_OVERLAP; rv++)
        resource_changes_push(&changes, (struct resource_held){.rv = rv});
    assert_int_equal(changes.n, RESOURCE_OVERLAP);
    for (unsigned i = 0; i < changes.n; i++)
        assert_int_equal(changes.held[i].rv, RESOURCE_OVERLAP + 1 + i);
}

static void newest_object_of_a_listing_gives_way_to_the_first_change(void **state)
{
    (void)state;
    struct resource_changes changes = {0};
    resource_changes_list(&changes, (struct resource_held){.rv = 5});
    resource_changes_list(&changes, (struct resource_held){.rv = 9});
    resource_changes_list(&changes, (struct resource_held){.rv = 3});
    assert_true(changes.is_listed && changes.n == 1 && changes.held[0].rv == 9);
    resource_changes_push(&changes, (struct resource_held){.rv = 20});
    assert_true(!changes.is_listed && changes.n == 1 && changes.held[0].rv == 20);
}

static void hash_is_of_type_key_uid_and_bytes(void **state)
{
    (void)state;
    struct belfry_wire_kv kv = kv_of("a", 1, "x"), same = kv_of("a", 1, "x");
    const struct belfry_wire_kv others[] = {kv_of("b", 1, "x"), kv_of("a", 2, "x"), kv_of("a", 1, "y")};
    uint64_t hash = resource_held_of(hash_key, &kv, false).hash;
    assert_true(resource_held_of(hash_key, &same, false).hash == hash);
    assert_true(resource_held_of(hash_key, &kv, true).hash != hash);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_true(resource_held_of(hash_key, &others[i], false).hash != hash);
    /* a deletion shows the object as it was, or not at all */
    assert_true(resource_held_of(hash_key, &kv, true).hash == resource_held_of(hash_key, &others[2], true).hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_changes_are_held),
        cmocka_unit_test(newest_object_of_a_listing_gives_way_to_the_first_change),
        cmocka_unit_test(hash_is_of_type_key_uid_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
