/* src/kube/object_test.c */
#include "kube/object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "support/refuse.h"
#include "json/document.h"
#include "json/path.h"

/* ---- a resource by hand ---- */

static char group[] = "demo.example.com", plural[] = "widgets", kind[] = "Widget", list_kind[] = "WidgetList",
            version_name[] = "v1", api_version[] = "demo.example.com/v1",
            prefix[] = "/registry/demo.example.com/widgets/", wrap_key[] = "{namespace}/{name}", wrap_field[] = "spec";

static struct kube_field fields[KUBE_FIELDS_MAX];
static struct kube_version version = {
    .name = version_name, .api_version = api_version, .served = true, .storage = true, .fields = fields};
static struct kube_resource resource = {.group = group,
                                        .plural = plural,
                                        .kind = kind,
                                        .list_kind = list_kind,
                                        .namespaced = true,
                                        .versions = &version,
                                        .n_versions = 1,
                                        .n_served = 1,
                                        .prefix = prefix};

static void add_field(const char *path)
{
    assert_true(version.n_fields < KUBE_FIELDS_MAX);
    assert_int_equal(belfry_kube_path_read(belfry_bytes_str(path), &fields[version.n_fields].path), BELFRY_OK);
    version.n_fields++;
}

static void wrap(void)
{
    resource.wrap_key = wrap_key;
    resource.wrap_field = wrap_field;
}

static int as_it_was(void **state)
{
    (void)state;
    while (version.n_fields > 0)
        belfry_kube_path_free(fields[--version.n_fields].path);
    resource.wrap_key = resource.wrap_field = NULL;
    resource.namespaced = true;
    return 0;
}

static enum belfry_err try_make(const char *rest_of_key, struct belfry_bytes value, struct kube_object **out)
{
    char key[256];
    snprintf(key, sizeof(key), "%s%s", prefix, rest_of_key);
    struct kube_stored stored = {
        .key = belfry_bytes_str(key), .value = value, .create_rev = 7, .mod_rev = 9, .version = 3};
    return kube_object_make(&resource, &version, &stored, out);
}

static struct kube_object *make(const char *value)
{
    struct kube_object *object = NULL;
    assert_int_equal(try_make("ns/a", belfry_bytes_str(value), &object), BELFRY_OK);
    return object;
}

static void assert_bytes(struct belfry_bytes bytes, const char *expected)
{
    assert_non_null(bytes.data);
    assert_int_equal(bytes.len, strlen(expected));
    assert_memory_equal(bytes.data, expected, bytes.len);
}

#define HEAD "{\"apiVersion\":\"demo.example.com/v1\",\"kind\":\"Widget\",\"metadata\":{\"resourceVersion\":\""

/* The object's text after the digits of its version. */
static void assert_shown(const char *value, const char *tail)
{
    struct kube_object *object = make(value);
    assert_bytes(object->head, HEAD);
    assert_bytes(object->tail, tail);
    kube_object_unref(object);
}

static void assert_invalid(const char *value)
{
    struct kube_object *object = NULL;
    assert_int_equal(try_make("ns/a", belfry_bytes_str(value), &object), BELFRY_ERR_INVALID);
    assert_null(object);
}

/* ---- text ---- */

static void names_come_from_the_key_and_the_rest_from_the_value(void **state)
{
    (void)state;
    assert_shown("{\n  \"kind\": \"Widget\", \"apiVersion\": \"demo.example.com/v1alpha1\",\n"
                 "  \"metadata\": {\"name\": \"other\", \"uid\": \"u1\", \"namespace\": \"elsewhere\"},\n"
                 "  \"spec\": {\"size\": 5, \"on\": true, \"off\": false, \"no\": null, \"list\": [1, {}, []]}\n}\n",
                 "\",\"name\":\"a\",\"namespace\":\"ns\",\"uid\":\"u1\"},\"spec\":{\"size\":5,\"on\":true,"
                 "\"off\":false,\"no\":null,\"list\":[1,{},[]]}}");
}

static void what_was_stored_of_revision_and_link_is_gone(void **state)
{
    (void)state;
    assert_shown("{\"metadata\":{\"resourceVersion\":\"4\",\"selfLink\":\"/x\",\"managedFields\":[{\"manager\":\"m\"}],"
                 "\"resourceVersion\":\"5\"},\"resourceVersion\":\"mine\"}",
                 "\",\"name\":\"a\",\"namespace\":\"ns\",\"managedFields\":[{\"manager\":\"m\"}]},"
                 "\"resourceVersion\":\"mine\"}");
}

static void a_cluster_scoped_object_has_no_namespace(void **state)
{
    (void)state;
    struct kube_object *object = NULL;
    resource.namespaced = false;
    assert_int_equal(try_make("a", belfry_bytes_str("{\"metadata\":{\"namespace\":\"x\"}}"), &object), BELFRY_OK);
    assert_bytes(object->tail, "\",\"name\":\"a\"}}");
    assert_bytes(object->attributes.namespace, "");
    kube_object_unref(object);
}

static void numbers_are_kept_byte_for_byte(void **state)
{
    (void)state;
    assert_shown("{\"metadata\":{},\"n\":[12345678901234567890123, 1.10, -0, 1E400, 0.1e-5, 9007199254740993]}",
                 "\",\"name\":\"a\",\"namespace\":\"ns\"},"
                 "\"n\":[12345678901234567890123,1.10,-0,1E400,0.1e-5,9007199254740993]}");
}

static void strings_have_the_escapes_that_they_need_and_no_others(void **state)
{
    (void)state;
    assert_shown("{\"metadata\":{},\"s\":\"\\u000a\\n\\r\\t\\b\\f\\u0001\\\"\\\\\\/"
                 "\\u003c\\u00e9\\ud83d\\ude00\\u2028\\u0000.\","
                 "\"\\n\\u0041\":\"\"}",
                 "\",\"name\":\"a\",\"namespace\":\"ns\"},"
                 "\"s\":\"\\n\\n\\r\\t\\b\\f\\u0001\\\"\\\\/<\xC3\xA9\xF0\x9F\x98\x80\xE2\x80\xA8\\u0000.\","
                 "\"\\nA\":\"\"}");
}

static void metadata_that_is_given_twice_is_shown_once(void **state)
{
    (void)state;
    assert_shown("{\"metadata\":{\"uid\":\"1\",\"resourceVersion\":\"8\"},\"x\":1,\"metadata\":{\"uid\":\"2\"}}",
                 "\",\"name\":\"a\",\"namespace\":\"ns\",\"uid\":\"2\"},\"x\":1}");
}

static void the_end_of_metadata_is_known(void **state)
{
    (void)state;
    struct kube_object *object = make("{\"spec\":{},\"metadata\":{\"annotations\":{\"a\":\"}\"}}}");
    assert_bytes(belfry_bytes_of(object->tail.data, object->metadata_bytes),
                 "\",\"name\":\"a\",\"namespace\":\"ns\",\"annotations\":{\"a\":\"}\"}}");
    assert_bytes(belfry_bytes_of(object->tail.data + object->metadata_bytes, object->tail.len - object->metadata_bytes),
                 ",\"spec\":{}}");
    kube_object_unref(object);
}

/* ---- values that are not objects ---- */

static void a_value_that_is_no_json_object_with_metadata_is_undecodable(void **state)
{
    (void)state;
    static const char *const values[] = {"",
                                         "5",
                                         "[]",
                                         "\"x\"",
                                         "null",
                                         "{}",
                                         "{\"metadata\":null}",
                                         "{\"metadata\":[]}",
                                         "{\"metadata\":{}",
                                         "{\"metadata\":{}}}",
                                         "{\"metadata\":{}} {}",
                                         "{\"metadata\":{},}",
                                         "{\"metadata\":{},\"a\":NaN}",
                                         "{\"metadata\":{},\"a\":01}",
                                         "{\"metadata\":{},\"a\":\"\xff\"}",
                                         "{\"metadata\":{},\"a\":\"\\ud800\"}",
                                         "{\"metadata\":{},\"a\":\"\n\"}",
                                         "metadata: {}",
                                         "k8s:enc:aescbc:v1:key:xxxx"};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        assert_invalid(values[i]);
    struct kube_object *object;
    assert_int_equal(try_make("ns/a", belfry_bytes_of("k8s\0\n\x05", 6), &object), BELFRY_ERR_INVALID);
}

static void a_key_that_is_not_of_the_resource_is_not_found(void **state)
{
    (void)state;
    struct kube_object *object = NULL;
    struct belfry_bytes value = belfry_bytes_str("{\"metadata\":{}}");
    assert_int_equal(try_make("a", value, &object), BELFRY_ERR_NOT_FOUND);
    assert_int_equal(try_make("", value, &object), BELFRY_ERR_NOT_FOUND);
    assert_int_equal(try_make("ns/a/b", value, &object), BELFRY_ERR_NOT_FOUND);
    struct kube_stored stored = {.key = belfry_bytes_str("/registry/x"), .value = value};
    assert_int_equal(kube_object_make(&resource, &version, &stored, &object), BELFRY_ERR_NOT_FOUND);
    assert_null(object);
}

/* {"metadata":{},"a":[[[...]]]} with `n` brackets: n + 1 levels in all. */
static enum belfry_err make_nested(size_t n, bool in_metadata)
{
    struct belfry_buf value;
    struct kube_object *object = NULL;
    const char *lead = in_metadata ? "{\"metadata\":{\"a\":" : "{\"metadata\":{},\"a\":";
    belfry_buf_init(&value);
    assert_int_equal(belfry_buf_append(&value, lead, strlen(lead)), BELFRY_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(belfry_buf_append(&value, "[", 1), BELFRY_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(belfry_buf_append(&value, "]", 1), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&value, "}}", in_metadata ? 2 : 1), BELFRY_OK);
    enum belfry_err err = try_make("ns/a", belfry_buf_bytes(&value), &object);
    kube_object_unref(object);
    belfry_buf_fini(&value);
    return err;
}

static void nesting_ends_where_the_bound_is(void **state)
{
    (void)state;
    assert_int_equal(make_nested(KUBE_OBJECT_DEPTH_MAX - 1, false), BELFRY_OK);
    assert_int_equal(make_nested(KUBE_OBJECT_DEPTH_MAX, false), BELFRY_ERR_INVALID);
    assert_int_equal(make_nested(KUBE_OBJECT_DEPTH_MAX - 2, true), BELFRY_OK);
    assert_int_equal(make_nested(KUBE_OBJECT_DEPTH_MAX - 1, true), BELFRY_ERR_INVALID);
    assert_int_equal(make_nested(1000000, false), BELFRY_ERR_INVALID);
}

/* ---- attributes ---- */

static void labels_are_sorted_strings(void **state)
{
    (void)state;
    struct kube_object *object =
        make("{\"metadata\":{\"labels\":{\"b\":\"2\",\"a\":\"\",\"n\":5,\"ab\":\"x\\u0079\",\"z\":null}}}");
    const struct kube_attributes *attributes = &object->attributes;
    assert_int_equal(attributes->n_labels, 3);
    assert_bytes(attributes->labels[0].key, "a");
    assert_bytes(attributes->labels[0].value, "");
    assert_bytes(attributes->labels[1].key, "ab");
    assert_bytes(attributes->labels[1].value, "xy");
    assert_bytes(attributes->labels[2].key, "b");
    assert_bytes(attributes->labels[2].value, "2");
    assert_bytes(attributes->namespace, "ns");
    assert_bytes(attributes->name, "a");
    kube_object_unref(object);
}

static void of_a_label_that_is_given_twice_the_last_counts(void **state)
{
    (void)state;
    struct kube_object *object =
        make("{\"metadata\":{\"labels\":{\"b\":\"1\",\"a\":\"1\",\"b\":\"2\",\"a\":\"2\",\"b\":\"3\"}}}");
    assert_int_equal(object->attributes.n_labels, 2);
    assert_bytes(object->attributes.labels[0].value, "2");
    assert_bytes(object->attributes.labels[1].value, "3");
    kube_object_unref(object);
}

static void labels_that_are_no_object_are_none(void **state)
{
    (void)state;
    struct kube_object *object = make("{\"metadata\":{\"labels\":[\"a\",\"b\"]}}");
    assert_int_equal(object->attributes.n_labels, 0);
    kube_object_unref(object);
}

static void fields_are_strings_booleans_and_integers(void **state)
{
    (void)state;
    add_field(".spec.text");
    add_field(".spec.flag");
    add_field(".spec.count");
    add_field(".spec.real");
    add_field(".spec.exponent");
    add_field(".spec.list");
    add_field(".spec.null");
    add_field(".status.missing");
    struct kube_object *object = make("{\"metadata\":{},\"spec\":{\"text\":\"x\\ny\",\"flag\":false,\"count\":-12,"
                                      "\"real\":1.0,\"exponent\":1e3,\"list\":[1],\"null\":null}}");
    const struct belfry_bytes *found = object->attributes.fields;
    assert_bytes(found[0], "x\ny");
    assert_bytes(found[1], "false");
    assert_bytes(found[2], "-12");
    for (size_t i = 3; i < version.n_fields; i++)
        assert_bytes(found[i], "");
    kube_object_unref(object);
}

/* ---- wraps ---- */

static void a_wrapped_value_is_a_field_of_an_object_made_around_it(void **state)
{
    (void)state;
    wrap();
    add_field(".spec.node");
    struct kube_object *object = make(" {\"node\": \"n7\", \"metadata\": {\"resourceVersion\": \"1\"}} ");
    assert_bytes(object->head, HEAD);
    const char expected[] = "\",\"name\":\"a\",\"namespace\":\"ns\",\"uid\":\"";
    assert_true(belfry_bytes_begins(object->tail, belfry_bytes_str(expected)));
    const char *uid = object->tail.data + strlen(expected);
    assert_true(uid[8] == '-' && uid[13] == '-' && uid[14] == '8' && uid[18] == '-' && uid[23] == '-');
    assert_non_null(strchr("89ab", uid[19]));
    assert_bytes(belfry_bytes_of(uid + 36, object->tail.len - strlen(expected) - 36),
                 "\",\"generation\":3},\"spec\":{\"node\":\"n7\",\"metadata\":{\"resourceVersion\":\"1\"}}}");
    assert_bytes(object->attributes.fields[0], "n7");
    assert_int_equal(object->attributes.n_labels, 0);
    kube_object_unref(object);
}

static struct kube_object *make_wrapped(const char *key, int64_t create_rev, int64_t key_version)
{
    struct kube_object *object = NULL;
    struct kube_stored stored = {.key = belfry_bytes_str(key),
                                 .value = belfry_bytes_str("{}"),
                                 .create_rev = create_rev,
                                 .mod_rev = create_rev + key_version,
                                 .version = key_version};
    assert_int_equal(kube_object_make(&resource, &version, &stored, &object), BELFRY_OK);
    return object;
}

static bool same_uid(const struct kube_object *a, const struct kube_object *b)
{
    struct belfry_bytes uid = belfry_bytes_str("\"uid\":\"");
    const char *x = memmem(a->tail.data, a->tail.len, uid.data, uid.len);
    const char *y = memmem(b->tail.data, b->tail.len, uid.data, uid.len);
    assert_true(x != NULL && y != NULL);
    return memcmp(x, y, uid.len + 36) == 0;
}

static void a_uid_stays_until_the_key_is_created_again(void **state)
{
    (void)state;
    wrap();
    struct kube_object *first = make_wrapped("/registry/demo.example.com/widgets/ns/a", 5, 1);
    struct kube_object *changed = make_wrapped("/registry/demo.example.com/widgets/ns/a", 5, 2);
    struct kube_object *again = make_wrapped("/registry/demo.example.com/widgets/ns/a", 9, 1);
    struct kube_object *other = make_wrapped("/registry/demo.example.com/widgets/ns/b", 5, 1);
    assert_true(same_uid(first, changed));
    assert_false(same_uid(first, again));
    assert_false(same_uid(first, other));
    kube_object_unref(first);
    kube_object_unref(changed);
    kube_object_unref(again);
    kube_object_unref(other);
}

static void a_wrapped_value_cannot_leave_its_field(void **state)
{
    (void)state;
    static const char *const values[] = {"{},\"metadata\":{}", "{}}", "{}},{\"a\":{}", "1", "\"x\"", "",
                                         "{},\"spec\":{}",     "x"};
    wrap();
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        assert_invalid(values[i]);
}

/* ---- memory ---- */

static void an_object_lives_until_the_last_has_let_go(void **state)
{
    (void)state;
    struct kube_object *object = make("{\"metadata\":{}}");
    struct kube_object *mine = kube_object_ref(object);
    assert_ptr_equal(mine, object);
    kube_object_unref(object);
    assert_bytes(mine->attributes.name, "a");
    kube_object_unref(mine);
    kube_object_unref(NULL);
}

static void memory_is_in_proportion_to_what_is_shown(void **state)
{
    (void)state;
    static char value[100000];
    memset(value, ' ', sizeof(value) - 1);
    memcpy(value, "{\"metadata\":{}", 14);
    value[sizeof(value) - 2] = '}';
    struct kube_object *object = make(value);
    assert_true(kube_object_bytes(object) < 1000);
    kube_object_unref(object);

    memset(value + 14, 'x', sizeof(value) - 17);
    memcpy(value + 14, ",\"s\":\"", 6);
    value[sizeof(value) - 3] = '"';
    object = make(value);
    assert_in_range(kube_object_bytes(object), sizeof(value), sizeof(value) + 2000);
    kube_object_unref(object);
}

static enum belfry_err scenario(void)
{
    char value[4096]; /* mostly white space, which is given back */
    struct kube_object *object = NULL;
    snprintf(value, sizeof(value), "{\"metadata\":{\"labels\":{\"b\":\"1\",\"a\":\"2\"}}%2000s}", "");
    enum belfry_err err = try_make("ns/a", belfry_bytes_str(value), &object);
    if (err == BELFRY_OK)
        assert_int_equal(object->attributes.n_labels, 2);
    kube_object_unref(object);
    return err;
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 4); /* the copy, yyjson's values, the object, its trimming */
    wrap();
    struct kube_object *object = NULL;
    for (size_t n = 0; n < 4; n++) {
        size_t before = refuse_held();
        refuse_begin(n);
        assert_int_equal(try_make("ns/a", belfry_bytes_str("{}"), &object), BELFRY_ERR_NOMEM);
        assert_true(refuse_end());
        assert_int_equal(refuse_held(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(names_come_from_the_key_and_the_rest_from_the_value, as_it_was),
        cmocka_unit_test_teardown(what_was_stored_of_revision_and_link_is_gone, as_it_was),
        cmocka_unit_test_teardown(a_cluster_scoped_object_has_no_namespace, as_it_was),
        cmocka_unit_test_teardown(numbers_are_kept_byte_for_byte, as_it_was),
        cmocka_unit_test_teardown(strings_have_the_escapes_that_they_need_and_no_others, as_it_was),
        cmocka_unit_test_teardown(metadata_that_is_given_twice_is_shown_once, as_it_was),
        cmocka_unit_test_teardown(the_end_of_metadata_is_known, as_it_was),
        cmocka_unit_test_teardown(a_value_that_is_no_json_object_with_metadata_is_undecodable, as_it_was),
        cmocka_unit_test_teardown(a_key_that_is_not_of_the_resource_is_not_found, as_it_was),
        cmocka_unit_test_teardown(nesting_ends_where_the_bound_is, as_it_was),
        cmocka_unit_test_teardown(labels_are_sorted_strings, as_it_was),
        cmocka_unit_test_teardown(of_a_label_that_is_given_twice_the_last_counts, as_it_was),
        cmocka_unit_test_teardown(labels_that_are_no_object_are_none, as_it_was),
        cmocka_unit_test_teardown(fields_are_strings_booleans_and_integers, as_it_was),
        cmocka_unit_test_teardown(a_wrapped_value_is_a_field_of_an_object_made_around_it, as_it_was),
        cmocka_unit_test_teardown(a_uid_stays_until_the_key_is_created_again, as_it_was),
        cmocka_unit_test_teardown(a_wrapped_value_cannot_leave_its_field, as_it_was),
        cmocka_unit_test_teardown(an_object_lives_until_the_last_has_let_go, as_it_was),
        cmocka_unit_test_teardown(memory_is_in_proportion_to_what_is_shown, as_it_was),
        cmocka_unit_test_teardown(every_refused_allocation_is_survived, as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
