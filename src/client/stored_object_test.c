/* src/client/stored_object_test.c */
#include "client/stored_object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "support/refuse.h"

static const char pod_json[] = "{\"metadata\":{\"uid\":\"u-1\",\"resourceVersion\":\"42\"}}";

static struct belfry_bytes str(const char *text)
{
    return belfry_bytes_str(text);
}

static bool equal(struct belfry_bytes bytes, const char *text)
{
    return belfry_bytes_equal(bytes, str(text));
}

/* The run of `tail` that reads `part`. */
static struct belfry_bytes run_of(const char *tail, const char *part)
{
    return part == NULL ? (struct belfry_bytes){0} : belfry_bytes_of(strstr(tail, part), strlen(part));
}

static struct belfry_object *pod(const char *tail, const char *uid, const char *version)
{
    struct belfry_object *object;
    struct belfry_object_parts parts = {.ns = str("default"),
                                        .name = str("web"),
                                        .tail = str(tail),
                                        .uid = run_of(tail, uid),
                                        .version = run_of(tail, version)};
    assert_int_equal(belfry_object_of_kube(&parts, &object), BELFRY_OK);
    return object;
}

static struct belfry_object *key(int64_t create_rev, int64_t rev, const char *value)
{
    struct belfry_object *object;
    struct belfry_object_key_value kv = {.key = str("k"), .value = str(value), .create_rev = create_rev, .rev = rev};
    assert_int_equal(belfry_object_of_key(&kv, &object), BELFRY_OK);
    return object;
}

static int leaves_nothing(void **state)
{
    (void)state;
    return refuse_held() == 0 ? 0 : -1;
}

static void a_key_of_etcd_has_what_etcd_says_of_it(void **state)
{
    (void)state;
    struct belfry_object *object;
    struct belfry_object_key_value kv = {.key = belfry_bytes_of("a\0b", 3),
                                         .value = belfry_bytes_of("\xff\0", 2),
                                         .rev = 9,
                                         .create_rev = 3,
                                         .writes = 4,
                                         .lease = -5};
    assert_int_equal(belfry_object_of_key(&kv, &object), BELFRY_OK);
    assert_true(belfry_bytes_equal(belfry_object_key(object), kv.key));
    assert_true(belfry_bytes_equal(belfry_object_value(object), kv.value));
    assert_int_equal(belfry_object_rev(object), 9);
    assert_int_equal(belfry_object_create_rev(object), 3);
    assert_int_equal(belfry_object_writes(object), 4);
    assert_int_equal(belfry_object_lease(object), -5);
    assert_int_equal(belfry_object_ns(object).len, 0);
    assert_int_equal(belfry_object_name(object).len, 0);
    assert_int_equal(belfry_object_uid(object).len, 0);
    assert_int_equal(belfry_object_version(object).len, 0);
    assert_int_equal(belfry_object_bytes(object), sizeof(*object) + 5);
    belfry_object_unref(object);
}

static void an_object_of_kubernetes_is_its_json_and_knows_its_parts(void **state)
{
    (void)state;
    struct belfry_object *object;
    struct belfry_object_parts parts = {.ns = str("default"),
                                        .name = str("web"),
                                        .head = str("{\"kind\":\"Pod\","),
                                        .tail = str(pod_json + 1),
                                        .uid = run_of(pod_json, "u-1"),
                                        .version = run_of(pod_json, "42")};
    assert_int_equal(belfry_object_of_kube(&parts, &object), BELFRY_OK);
    assert_true(equal(belfry_object_key(object), "default/web"));
    assert_true(equal(belfry_object_ns(object), "default"));
    assert_true(equal(belfry_object_name(object), "web"));
    assert_true(equal(belfry_object_uid(object), "u-1"));
    assert_true(equal(belfry_object_version(object), "42"));
    assert_true(equal(belfry_object_value(object),
                      "{\"kind\":\"Pod\",\"metadata\":{\"uid\":\"u-1\",\"resourceVersion\":\"42\"}}"));
    assert_int_equal(belfry_object_rev(object), 42);
    assert_int_equal(belfry_object_create_rev(object), 0);
    belfry_object_unref(object);
}

static void without_a_namespace_the_key_is_the_name(void **state)
{
    (void)state;
    struct belfry_object *object;
    struct belfry_object_parts parts = {.name = str("node-1"), .tail = str("{}")};
    assert_int_equal(belfry_object_of_kube(&parts, &object), BELFRY_OK);
    assert_true(equal(belfry_object_key(object), "node-1"));
    assert_true(equal(belfry_object_name(object), "node-1"));
    assert_int_equal(belfry_object_ns(object).len, 0);
    assert_int_equal(belfry_object_uid(object).len, 0);
    assert_int_equal(belfry_object_version(object).len, 0);
    belfry_object_unref(object);
}

static void a_version_that_is_no_number_is_revision_zero(void **state)
{
    (void)state;
    static const struct {
        const char *version;
        int64_t rev;
    } rows[] = {{"0", 0},
                {"7", 7},
                {"999999999999999999", 999999999999999999},
                {"1000000000000000000", 0},
                {"4x", 0},
                {"-4", 0},
                {"+4", 0},
                {" 4", 0},
                {"", 0},
                {"4.0", 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_object *object = pod(rows[i].version, NULL, rows[i].version);
        assert_int_equal(belfry_object_rev(object), rows[i].rev);
        belfry_object_unref(object);
    }
}

static void assert_same(struct belfry_object *a, struct belfry_object *b, bool same)
{
    assert_int_equal(belfry_object_same(a, b), same);
    assert_int_equal(belfry_object_same(b, a), same);
    belfry_object_unref(a);
    belfry_object_unref(b);
}

static void the_same_is_what_was_not_written_since(void **state)
{
    (void)state;
    assert_same(key(1, 5, "x"), key(1, 5, "x"), true);
    assert_same(key(1, 5, "x"), key(1, 6, "x"), false);
    assert_same(key(1, 5, "x"), key(5, 5, "x"), false); /* of another past */
    assert_same(pod("u1 v1", "u1", "v1"), pod("u1 v1", "u1", "v1"), true);
    assert_same(pod("u1 v1", "u1", "v1"), pod("u1 v2", "u1", "v2"), false);
    assert_same(pod("u1 v1", "u1", "v1"), pod("u2 v1", "u2", "v1"), false);
}

static void what_has_no_version_is_compared_byte_for_byte(void **state)
{
    (void)state;
    assert_same(pod("{\"cpu\":1}", NULL, NULL), pod("{\"cpu\":1}", NULL, NULL), true);
    assert_same(pod("{\"cpu\":1}", NULL, NULL), pod("{\"cpu\":2}", NULL, NULL), false);
}

static void another_value_under_the_same_version_is_another_state(void **state)
{
    (void)state;
    assert_same(key(1, 5, "x"), key(1, 5, "y"), false);
    assert_same(pod("u1 v1 red", "u1", "v1"), pod("u1 v1 blue", "u1", "v1"), false);
}

static void what_is_too_large_is_refused(void **state)
{
    (void)state;
    struct belfry_object *object = NULL;
    struct belfry_object_key_value kv = {.key = belfry_bytes_of("k", 1),
                                         .value = belfry_bytes_of("v", BELFRY_OBJECT_MAX)};
    assert_int_equal(belfry_object_of_key(&kv, &object), BELFRY_ERR_TOO_LARGE);
    kv.key = belfry_bytes_of("k", SIZE_MAX);
    assert_int_equal(belfry_object_of_key(&kv, &object), BELFRY_ERR_TOO_LARGE);
    struct belfry_object_parts parts = {.name = str("n"), .tail = belfry_bytes_of("{}", BELFRY_OBJECT_MAX)};
    assert_int_equal(belfry_object_of_kube(&parts, &object), BELFRY_ERR_TOO_LARGE);
    parts.tail = str("{}");
    parts.uid = belfry_bytes_of(parts.tail.data, UINT16_MAX + 1);
    assert_int_equal(belfry_object_of_kube(&parts, &object), BELFRY_ERR_TOO_LARGE);
    parts.uid.len = 0;
    parts.version = belfry_bytes_of(parts.tail.data, UINT16_MAX + 1);
    assert_int_equal(belfry_object_of_kube(&parts, &object), BELFRY_ERR_TOO_LARGE);
    assert_null(object);
}

static void it_stays_until_the_last_has_let_go(void **state)
{
    (void)state;
    struct belfry_object *object = key(1, 1, "x");
    assert_ptr_equal(belfry_object_hold(object), object);
    assert_ptr_equal(belfry_object_ref(object), object);
    belfry_object_unref(object);
    belfry_object_release(object);
    assert_true(equal(belfry_object_value(object), "x"));
    belfry_object_release(object);
    belfry_object_release(NULL);
    belfry_object_unref(NULL);
    assert_int_equal(refuse_held(), 0);
}

static enum belfry_err scenario(void)
{
    struct belfry_object *a, *b;
    struct belfry_object_key_value kv = {.key = str("k")};
    struct belfry_object_parts parts = {.name = str("n"), .tail = str("{}")};
    enum belfry_err err = belfry_object_of_key(&kv, &a);
    if (err != BELFRY_OK)
        return err;
    err = belfry_object_of_kube(&parts, &b);
    if (err == BELFRY_OK)
        belfry_object_unref(b);
    belfry_object_unref(a);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_key_of_etcd_has_what_etcd_says_of_it, leaves_nothing),
        cmocka_unit_test_teardown(an_object_of_kubernetes_is_its_json_and_knows_its_parts, leaves_nothing),
        cmocka_unit_test_teardown(without_a_namespace_the_key_is_the_name, leaves_nothing),
        cmocka_unit_test_teardown(a_version_that_is_no_number_is_revision_zero, leaves_nothing),
        cmocka_unit_test_teardown(the_same_is_what_was_not_written_since, leaves_nothing),
        cmocka_unit_test_teardown(what_has_no_version_is_compared_byte_for_byte, leaves_nothing),
        cmocka_unit_test_teardown(another_value_under_the_same_version_is_another_state, leaves_nothing),
        cmocka_unit_test_teardown(what_is_too_large_is_refused, leaves_nothing),
        cmocka_unit_test_teardown(it_stays_until_the_last_has_let_go, leaves_nothing),
        cmocka_unit_test_teardown(no_memory_is_an_error, leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
