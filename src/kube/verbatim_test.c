/* src/kube/verbatim_test.c: objects of an API server (object.h) as render shows them: their own bytes. The texts are
 * those of a kube-apiserver 1.20 (pods) and 1.36 (a custom resource), shortened. */
#include "kube/object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "kube/render.h"
#include "support/refuse.h"

#define POD_OWN(version)                                                                                               \
    "\"metadata\":{\"name\":\"p1\",\"namespace\":\"prod\",\"uid\":\"5894c942\",\"resourceVersion\":\"" version         \
    "\",\"creationTimestamp\":\"2026-11-17T22:11:52Z\",\"labels\":{\"app\":\"p1\"},\"managedFields\":[{\"fieldsV1\":"  \
    "{\"k:{\\\"name\\\":\\\"c\\\"}\":{\".\":{}}}}]},\"spec\":{\"nodeName\":\"n1\",\"metadata\":{\"resourceVersion\":"  \
    "\"5\"}},\"status\":{\"phase\":\"Pending\"}}"
#define POD_KIND     "{\"kind\":\"Pod\",\"apiVersion\":\"v1\","
#define POD(version) POD_KIND POD_OWN(version)
#define WIDGET_METADATA(version)                                                                                       \
    "{\"creationTimestamp\":\"2026-11-17T22:11:56Z\",\"labels\":{\"app\":\"w1\"},\"managedFields\":[{\"apiVersion\":"  \
    "\"demo.example.com/v1\"}],\"name\":\"w1\",\"namespace\":\"prod\",\"resourceVersion\":\"" version                  \
    "\",\"uid\":\"15dec1e1\"}"
#define WIDGET(version)                                                                                                \
    "{\"apiVersion\":\"demo.example.com/v1\",\"kind\":\"Widget\",\"metadata\":" WIDGET_METADATA(                       \
        version) ",\"spec\":{\"a\":\"\\u003c\\u0026\\u003e\",\"z\":1}}"

static struct kube_resource *pods, *widgets;

static int setup(void **state)
{
    (void)state;
    struct kube_api_resource pod = {
        .group = "", .version = "v1", .plural = "pods", .singular = "pod", .kind = "Pod", .namespaced = true};
    struct kube_api_resource widget = {.group = "demo.example.com",
                                       .version = "v1",
                                       .plural = "widgets",
                                       .singular = "widget",
                                       .kind = "Widget",
                                       .namespaced = true};
    assert_int_equal(kube_resource_of_api(&pod, &pods), BELFRY_OK);
    assert_int_equal(kube_resource_of_api(&widget, &widgets), BELFRY_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kube_resource_unref(pods);
    kube_resource_unref(widgets);
    return 0;
}

static struct kube_object *make(const struct kube_resource *resource, const char *value)
{
    struct kube_stored stored = {.key = belfry_bytes_str("prod/p1"), .value = belfry_bytes_str(value), .mod_rev = 207};
    struct kube_object *object;
    assert_int_equal(kube_object_make(resource, &resource->versions[0], &stored, &object), BELFRY_OK);
    return object;
}

static struct kube_object *make_text(const struct kube_resource *resource, const char *value)
{
    struct kube_stored stored = {.key = belfry_bytes_str("prod/p1"), .value = belfry_bytes_str(value), .mod_rev = 207};
    struct kube_object *object;
    assert_int_equal(kube_object_make_text(resource, &stored, &object), BELFRY_OK);
    return object;
}

static struct kube_render plainly(const struct kube_resource *resource, enum kube_view view)
{
    return (struct kube_render){.resource = resource, .version = &resource->versions[0], .view = view};
}

static void assert_written(struct belfry_buf *out, enum belfry_err err, const char *expected)
{
    assert_int_equal(err, BELFRY_OK);
    assert_int_equal(belfry_buf_append(out, "", 1), BELFRY_OK);
    assert_string_equal(belfry_buf_bytes(out).data, expected);
    belfry_buf_fini(out);
}

/* ---- where its version is ---- */

/* The metadata and the version at the places that lend found. */
static void assert_lent(const char *text, const char *metadata, const char *version)
{
    struct kube_object lent;
    assert_true(kube_object_lend(belfry_bytes_str(text), &lent));
    assert_ptr_equal(lent.head.data, text);
    assert_ptr_equal(lent.tail.data + lent.tail.len, text + strlen(text));
    const char *gap = lent.head.data + lent.head.len, *begin = lent.head.data + lent.metadata_at;
    const char *end = lent.tail.data + lent.metadata_bytes;
    assert_true(belfry_bytes_equal(belfry_bytes_of(gap, (size_t)(lent.tail.data - gap)), belfry_bytes_str(version)));
    if (metadata != NULL)
        assert_true(belfry_bytes_equal(belfry_bytes_of(begin, (size_t)(end - begin)), belfry_bytes_str(metadata)));
}

static void the_version_is_the_metadata_s_own(void **state)
{
    (void)state;
    assert_lent(WIDGET("216"), WIDGET_METADATA("216"), "216");
    assert_lent(POD("207"), NULL, "207");
}

static void an_object_without_a_version_is_none(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "[]",
                                        "\"metadata\"",
                                        "{}",
                                        "{\"metadata\":1}",
                                        "{\"metadata\":{}}",
                                        "{\"metadata\":{\"resourceVersion\":1}}",
                                        "{\"metadata\":{\"resourceVersion\":\"",
                                        "{\"metadata\":{\"labels\":{\"resourceVersion\":\"1\"}}}",
                                        "{\"spec\":{\"metadata\":{\"resourceVersion\":\"1\"}}}"};
    struct kube_object lent;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct kube_stored stored = {.key = belfry_bytes_str("a/b"), .value = belfry_bytes_str(wrong[i])};
        struct kube_object *object = NULL;
        assert_false(kube_object_lend(belfry_bytes_str(wrong[i]), &lent));
        assert_int_equal(kube_object_make(pods, &pods->versions[0], &stored, &object), BELFRY_ERR_INVALID);
        assert_int_equal(kube_object_make_text(pods, &stored, &object), BELFRY_ERR_INVALID);
    }
}

/* ---- how it is shown ---- */

static void an_event_has_the_object_s_bytes(void **state)
{
    (void)state;
    struct kube_render render = plainly(pods, KUBE_VIEW_OBJECT);
    struct kube_object *objects[] = {make(pods, POD("207")), make_text(pods, POD("207"))};
    for (size_t i = 0; i < 2; i++) {
        struct belfry_buf out = {0};
        enum belfry_err err = kube_render_event(&render, KUBE_MODIFIED, objects[i], 207, false, &out);
        assert_written(&out, err, "{\"type\":\"MODIFIED\",\"object\":" POD("207") "}\n");
        kube_object_unref(objects[i]);
    }
}

static void a_deletion_has_its_own_version(void **state)
{
    (void)state;
    struct kube_render render = plainly(widgets, KUBE_VIEW_OBJECT);
    struct kube_object *object = make_text(widgets, WIDGET("216"));
    struct belfry_buf out = {0};
    enum belfry_err err = kube_render_event(&render, KUBE_DELETED, object, 10224, false, &out);
    assert_written(&out, err, "{\"type\":\"DELETED\",\"object\":" WIDGET("10224") "}\n");
    kube_object_unref(object);
}

static void an_item_of_a_built_in_type_has_no_kind(void **state)
{
    (void)state;
    struct kube_render render = plainly(pods, KUBE_VIEW_OBJECT);
    struct kube_object *object = make(pods, POD("207")), whole = {.head = belfry_bytes_str(POD("207"))};
    struct belfry_buf item = {0}, copied = {0}, got = {0};
    assert_written(&item, kube_render_item(&render, object, 207, &item), "{" POD_OWN("207"));
    assert_written(&copied, kube_render_item(&render, &whole, 1, &copied), "{" POD_OWN("207"));
    assert_written(&got, kube_render_object(&render, &whole, 1, &got), POD("207"));
    kube_object_unref(object);
}

static void an_item_that_begins_otherwise_is_shown_as_it_is(void **state)
{
    (void)state;
    struct kube_render render = plainly(pods, KUBE_VIEW_OBJECT);
    static const char other[] = "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"," POD_OWN("207");
    struct kube_object whole = {.head = belfry_bytes_str(other)};
    struct belfry_buf out = {0};
    assert_written(&out, kube_render_item(&render, &whole, 207, &out), other);
}

static void an_item_of_a_custom_resource_is_whole(void **state)
{
    (void)state;
    struct kube_render render = plainly(widgets, KUBE_VIEW_OBJECT);
    struct kube_object *object = make(widgets, WIDGET("216"));
    struct belfry_buf out = {0};
    assert_written(&out, kube_render_item(&render, object, 216, &out), WIDGET("216"));
    kube_object_unref(object);
}

static void metadata_alone_is_copied(void **state)
{
    (void)state;
    struct kube_render render = plainly(widgets, KUBE_VIEW_METADATA);
    struct kube_object lent;
    struct belfry_buf out = {0};
    assert_true(kube_object_lend(belfry_bytes_str(WIDGET("216")), &lent));
    enum belfry_err err = kube_render_item(&render, &lent, 217, &out);
    assert_written(
        &out, err,
        "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":" WIDGET_METADATA(
            "217") "}");
}

/* ---- lists ---- */

static void a_list_of_custom_resources_is_sorted(void **state)
{
    (void)state;
    struct kube_render render = plainly(widgets, KUBE_VIEW_OBJECT);
    struct belfry_buf out = {0}, paged = {0};
    enum belfry_err err = kube_render_list_begin(&render, &out);
    if (err == BELFRY_OK)
        err = kube_render_list_end(&render, 219, (struct belfry_bytes){0}, -1, &out);
    assert_written(&out, err,
                   "{\"apiVersion\":\"demo.example.com/v1\",\"items\":[],\"kind\":\"WidgetList\",\"metadata\":"
                   "{\"continue\":\"\",\"resourceVersion\":\"219\"}}\n");
    err = kube_render_list_end(&render, 219, belfry_bytes_str("abc"), 7, &paged);
    assert_written(&paged, err,
                   "],\"kind\":\"WidgetList\",\"metadata\":{\"continue\":\"abc\",\"remainingItemCount\":7,"
                   "\"resourceVersion\":\"219\"}}\n");
}

static void a_list_of_a_built_in_type_has_its_kind_first(void **state)
{
    (void)state;
    struct kube_render render = plainly(pods, KUBE_VIEW_OBJECT);
    struct belfry_buf out = {0};
    enum belfry_err err = kube_render_list_begin(&render, &out);
    if (err == BELFRY_OK)
        err = kube_render_list_end(&render, 219, (struct belfry_bytes){0}, -1, &out);
    assert_written(
        &out, err,
        "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"items\":[],\"metadata\":{\"resourceVersion\":\"219\"}}\n");
}

/* Of any length of its version. */
static void metadata_of_a_list_comes_first_if_it_is_a_version(void **state)
{
    (void)state;
    static const int64_t revs[] = {1, 219, INT64_MAX};
    struct kube_render render = plainly(pods, KUBE_VIEW_OBJECT);
    struct kube_object whole = {.head = belfry_bytes_str(POD("207"))};
    assert_true(kube_render_may_lead(&render));
    for (size_t i = 0; i < 3; i++) {
        struct belfry_buf out = {0};
        char expected[1024];
        size_t gap;
        enum belfry_err err = kube_render_led_begin(&render, &out, &gap);
        if (err == BELFRY_OK)
            err = kube_render_item(&render, &whole, 207, &out);
        kube_render_led_version(&out, gap, revs[i]);
        if (err == BELFRY_OK)
            err = kube_render_led_end(&out);
        snprintf(
            expected, sizeof(expected),
            "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"%lld\"},\"items\":[%s]}\n",
            (long long)revs[i], "{" POD_OWN("207"));
        assert_written(&out, err, expected);
    }
}

static void metadata_of_a_sorted_list_does_not_come_first(void **state)
{
    (void)state;
    struct kube_render objects = plainly(widgets, KUBE_VIEW_OBJECT), metadata = plainly(widgets, KUBE_VIEW_METADATA);
    struct belfry_buf out = {0};
    size_t gap;
    assert_false(kube_render_may_lead(&objects));
    assert_true(kube_render_may_lead(&metadata));
    enum belfry_err err = kube_render_led_begin(&metadata, &out, &gap);
    kube_render_led_version(&out, gap, 7);
    assert_written(&out, err,
                   "{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{"
                   "\"resourceVersion\":\"7\"},\"items\":[");
}

static void a_bookmark_has_the_kind(void **state)
{
    (void)state;
    struct kube_render render = plainly(pods, KUBE_VIEW_OBJECT);
    struct belfry_buf out = {0};
    assert_written(&out, kube_render_bookmark(&render, 300, false, &out),
                   "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{"
                   "\"resourceVersion\":\"300\"}}}\n");
}

/* ---- selectors ---- */

static void fields_and_labels_are_found(void **state)
{
    (void)state;
    struct kube_object *object = make(pods, POD("207")), *text = make_text(pods, POD("207"));
    struct kube_selector *selector;
    struct kube_status status;
    assert_int_equal(kube_selector_read(belfry_bytes_str("app=p1"),
                                        belfry_bytes_str("spec.nodeName=n1,spec.host=n1,status.phase!=Running"), pods,
                                        &pods->versions[0], &selector, &status),
                     BELFRY_OK);
    assert_true(object->is_selectable && !text->is_selectable);
    assert_true(kube_selector_matches(selector, &object->attributes));
    kube_selector_unref(selector);
    kube_object_unref(object);
    kube_object_unref(text);
}

static void a_field_that_is_missing_has_its_value(void **state)
{
    (void)state;
    static const struct {
        const char *value, *expected;
    } cases[] = {{"{}", "false"},
                 {"{\"unschedulable\":null}", "false"},
                 {"{\"unschedulable\":false}", "false"},
                 {"{\"unschedulable\":true}", "true"}};
    struct kube_api_resource of = {.group = "", .version = "v1", .plural = "nodes", .singular = "", .kind = "Node"};
    struct kube_resource *nodes;
    assert_int_equal(kube_resource_of_api(&of, &nodes), BELFRY_OK);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "{\"metadata\":{\"resourceVersion\":\"1\"},\"spec\":%s}", cases[i].value);
        struct kube_stored stored = {.key = belfry_bytes_str("n1"), .value = belfry_bytes_str(text)};
        struct kube_object *object;
        assert_int_equal(kube_object_make(nodes, &nodes->versions[0], &stored, &object), BELFRY_OK);
        assert_true(belfry_bytes_equal(object->attributes.fields[0], belfry_bytes_str(cases[i].expected)));
        kube_object_unref(object);
    }
    kube_resource_unref(nodes);
}

static void an_object_that_has_only_a_name_is_one_of_its_kind(void **state)
{
    (void)state;
    struct kube_render render = plainly(pods, KUBE_VIEW_OBJECT);
    struct kube_stored stored = {.key = belfry_bytes_str("prod/p1")};
    struct kube_object *object;
    struct belfry_buf out = {0};
    assert_int_equal(kube_object_make_named(pods, &pods->versions[0], &stored, &object), BELFRY_OK);
    assert_written(&out, kube_render_object(&render, object, 9, &out),
                   "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"9\",\"name\":\"p1\","
                   "\"namespace\":\"prod\"}}");
    kube_object_unref(object);
}

static enum belfry_err make_both(void)
{
    struct kube_stored stored = {.key = belfry_bytes_str("prod/p1"), .value = belfry_bytes_str(POD("207"))};
    struct kube_object *object = NULL, *text = NULL;
    enum belfry_err err = kube_object_make(pods, &pods->versions[0], &stored, &object);
    if (err == BELFRY_OK)
        err = kube_object_make_text(pods, &stored, &text);
    kube_object_unref(object);
    kube_object_unref(text);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_true(refuse_sweep(make_both) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_version_is_the_metadata_s_own),
        cmocka_unit_test(an_object_without_a_version_is_none),
        cmocka_unit_test(an_event_has_the_object_s_bytes),
        cmocka_unit_test(a_deletion_has_its_own_version),
        cmocka_unit_test(an_item_of_a_built_in_type_has_no_kind),
        cmocka_unit_test(an_item_that_begins_otherwise_is_shown_as_it_is),
        cmocka_unit_test(an_item_of_a_custom_resource_is_whole),
        cmocka_unit_test(metadata_alone_is_copied),
        cmocka_unit_test(a_list_of_custom_resources_is_sorted),
        cmocka_unit_test(a_list_of_a_built_in_type_has_its_kind_first),
        cmocka_unit_test(metadata_of_a_list_comes_first_if_it_is_a_version),
        cmocka_unit_test(metadata_of_a_sorted_list_does_not_come_first),
        cmocka_unit_test(a_bookmark_has_the_kind),
        cmocka_unit_test(fields_and_labels_are_found),
        cmocka_unit_test(a_field_that_is_missing_has_its_value),
        cmocka_unit_test(an_object_that_has_only_a_name_is_one_of_its_kind),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
