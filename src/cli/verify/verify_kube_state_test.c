/* src/cli/verify/verify_kube_state_test.c: lists that agree, and lists that do not. */
#include "cli/verify/verify_kube_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/refuse.h"

static struct verify_kube_list reference, tier;
static char told[512];

static void on_difference(enum verify_kube_difference difference, const char *key, int64_t version, void *user)
{
    static const char *const words[] = {"missing", "extra", "version", "bytes"};
    (void)user;
    size_t at = strlen(told);
    snprintf(told + at, sizeof(told) - at, "%s %s@%lld;", words[difference], key, (long long)version);
}

static int clean(void **state)
{
    (void)state;
    verify_kube_list_clear(&reference);
    verify_kube_list_clear(&tier);
    told[0] = '\0';
    return 0;
}

static enum belfry_err add(struct verify_kube_list *list, const char *key, int64_t version, const char *json)
{
    return verify_kube_list_add(list, (struct belfry_bytes){key, strlen(key)}, version,
                                (struct belfry_bytes){json, strlen(json)});
}

static void must_add(struct verify_kube_list *list, const char *key, int64_t version, const char *json)
{
    assert_int_equal(add(list, key, version, json), BELFRY_OK);
}

static void every_difference_is_told(void **state)
{
    (void)state;
    reference.version = tier.version = 100;
    must_add(&reference, "ns/same", 5, "{}");
    must_add(&tier, "ns/same", 5, "{}");
    must_add(&reference, "ns/lost", 6, "{}");
    must_add(&tier, "ns/ghost", 7, "{}");
    must_add(&reference, "ns/old", 9, "{}");
    must_add(&tier, "ns/old", 8, "{}");
    must_add(&tier, "ns/other", 10, "{\"a\":1}");
    must_add(&reference, "ns/other", 10, "{\"a\":2}");
    assert_int_equal(verify_kube_compare(&reference, &tier, on_difference, NULL), 1);
    assert_string_equal(told, "extra ns/ghost@7;missing ns/lost@6;version ns/old@9;bytes ns/other@10;");
}

static void what_is_newer_than_the_other_list_is_no_difference(void **state)
{
    (void)state;
    reference.version = 100;
    tier.version = 90;
    must_add(&reference, "changed", 95, "{}");
    must_add(&tier, "changed", 50, "{}");
    must_add(&reference, "new", 99, "{}");
    must_add(&tier, "deleted", 80, "{}"); /* between 90 and 100, at the reference */
    assert_int_equal(verify_kube_compare(&reference, &tier, on_difference, NULL), 0);
    assert_string_equal(told, "");
    must_add(&reference, "there", 70, "{}"); /* the tier's list is older, and must have it */
    assert_int_equal(verify_kube_compare(&reference, &tier, on_difference, NULL), 0);
    assert_string_equal(told, "missing there@70;");
}

static void a_list_that_is_ahead_may_lack_what_was_deleted(void **state)
{
    (void)state;
    reference.version = 90;
    tier.version = 100;
    must_add(&reference, "deleted", 80, "{}");
    must_add(&tier, "new", 95, "{}");
    must_add(&tier, "ghost", 20, "{}");
    assert_int_equal(verify_kube_compare(&reference, &tier, on_difference, NULL), 0);
    assert_string_equal(told, "extra ghost@20;");
}

static void empty_lists_agree(void **state)
{
    (void)state;
    reference.version = tier.version = 1;
    assert_int_equal(verify_kube_compare(&reference, &tier, on_difference, NULL), 0);
    assert_string_equal(told, "");
}

static enum belfry_err scenario(void)
{
    enum belfry_err err = BELFRY_OK;
    for (int i = 0; i < 300 && err == BELFRY_OK; i++)
        err = add(&reference, "key", i, "{}");
    verify_kube_list_clear(&reference);
    return err;
}

static void every_refused_allocation_is_told(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_difference_is_told, clean),
        cmocka_unit_test_teardown(what_is_newer_than_the_other_list_is_no_difference, clean),
        cmocka_unit_test_teardown(a_list_that_is_ahead_may_lack_what_was_deleted, clean),
        cmocka_unit_test_teardown(empty_lists_agree, clean),
        cmocka_unit_test_teardown(every_refused_allocation_is_told, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
