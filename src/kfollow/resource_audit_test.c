/* src/kfollow/resource_audit_test.c */
#include "kfollow/resource_audit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/xxh64.h"

#define HEAD 100

static const struct belfry_hash_key hash_key = {1, 2};

/* Ours of a key, at a version; its bytes are the text. */
static struct ingest_found ours_of(const char *uid, int64_t rv, const char *text)
{
    return (struct ingest_found){.mod_rev = rv,
                                 .lease = resource_uid_mark(belfry_bytes_str(uid)),
                                 .value = belfry_xxh64(0, belfry_bytes_str(text))};
}

static struct resource_object item_of(const char *key, const char *uid, int64_t rv, const char *text)
{
    return (struct resource_object){
        .key = belfry_bytes_str(key), .uid = belfry_bytes_str(uid), .rv = rv, .json = belfry_bytes_str(text)};
}

static uint64_t hash_of(const char *key, const char *uid)
{
    return resource_hash(hash_key, belfry_bytes_str(key), resource_uid_mark(belfry_bytes_str(uid)));
}

/* One item against ours (NULL: none), then the end at `at`; we hold ours, and nothing else. */
static bool agrees(const struct resource_object *item, const struct ingest_found *ours, int64_t at,
                   struct resource_debt *debt)
{
    struct resource_audit audit;
    struct resource_sum sum = {0};
    uint64_t hash = hash_of("a", "u1");
    resource_audit_begin(&audit, HEAD);
    if (ours != NULL)
        resource_sum_add(&sum, hash);
    if (item != NULL)
        resource_audit_item(&audit, item, ours, hash);
    return resource_audit_end(&audit, at, sum, debt);
}

static void item_that_is_ours_agrees(void **state)
{
    (void)state;
    struct resource_debt debt;
    struct ingest_found ours = ours_of("u1", 90, "x");
    struct resource_object item = item_of("a", "u1", 90, "x");
    assert_true(agrees(&item, &ours, 120, &debt));
    assert_true(resource_debt_is_paid(&debt) && resource_debt_holds(&debt, 200));
}

static void item_that_is_not_ours_is_another_past(void **state)
{
    (void)state;
    struct resource_debt debt;
    struct ingest_found ours = ours_of("u1", 90, "x");
    const struct resource_object others[] = {item_of("a", "u1", 91, "x"), item_of("a", "u1", 89, "x"),
                                             item_of("a", "u2", 90, "x"), item_of("a", "u1", 90, "y")};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(agrees(&others[i], &ours, 120, &debt));
    assert_false(agrees(&others[0], NULL, 120, &debt));
}

static void list_behind_our_head_is_another_past(void **state)
{
    (void)state;
    struct resource_debt debt;
    assert_false(agrees(NULL, NULL, HEAD - 1, &debt));
    assert_true(agrees(NULL, NULL, HEAD, &debt));
}

static void item_above_our_head_is_new_or_changed(void **state)
{
    (void)state;
    struct resource_debt debt;
    struct ingest_found ours = ours_of("u1", 90, "x");
    struct resource_object changed = item_of("a", "u1", 110, "y"), made = item_of("a", "u2", 110, "y");
    assert_true(agrees(&changed, &ours, 120, &debt) && resource_debt_is_paid(&debt));
    assert_true(agrees(&made, NULL, 120, &debt) && resource_debt_is_paid(&debt));
    assert_true(agrees(&made, &ours, 120, &debt)); /* ours was deleted before it was made again */
    assert_int_equal(debt.owed.n, 1);
}

static void missing_object_must_be_deleted_before_the_list(void **state)
{
    (void)state;
    struct resource_debt debt;
    struct ingest_found ours = ours_of("u1", 90, "x");
    assert_true(agrees(NULL, &ours, 120, &debt));
    assert_false(resource_debt_is_paid(&debt));
    assert_true(resource_debt_holds(&debt, 119));
    assert_false(resource_debt_holds(&debt, 120));
    struct resource_debt other = debt;
    resource_debt_pay(&other, hash_of("b", "u9"));
    assert_false(resource_debt_is_paid(&other)); /* another object's deletion does not pay */
    assert_false(resource_debt_holds(&other, 101));
    resource_debt_pay(&debt, hash_of("a", "u1"));
    assert_true(resource_debt_is_paid(&debt) && resource_debt_holds(&debt, 120));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(item_that_is_ours_agrees),
        cmocka_unit_test(item_that_is_not_ours_is_another_past),
        cmocka_unit_test(list_behind_our_head_is_another_past),
        cmocka_unit_test(item_above_our_head_is_new_or_changed),
        cmocka_unit_test(missing_object_must_be_deleted_before_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
