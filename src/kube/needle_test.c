/* src/kube/needle_test.c */
#include "kube/needle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kube/object.h"

static struct kube_resource *pods, *nodes;

static int setup(void **state)
{
    (void)state;
    struct kube_api_resource pod = {
        .group = "", .version = "v1", .plural = "pods", .singular = "pod", .kind = "Pod", .namespaced = true};
    struct kube_api_resource node = {
        .group = "", .version = "v1", .plural = "nodes", .singular = "node", .kind = "Node"};
    assert_int_equal(kube_resource_of_api(&pod, &pods), BELFRY_OK);
    assert_int_equal(kube_resource_of_api(&node, &nodes), BELFRY_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kube_resource_unref(pods);
    kube_resource_unref(nodes);
    return 0;
}

static struct kube_selector *select_by(const struct kube_resource *resource, const char *labels, const char *fields)
{
    struct kube_selector *selector;
    struct kube_status status;
    enum belfry_err err = kube_selector_read(belfry_bytes_str(labels), belfry_bytes_str(fields), resource,
                                             &resource->versions[0], &selector, &status);
    if (err != BELFRY_OK)
        fail_msg("%s", status.message);
    return selector;
}

static void assert_needle(const struct kube_resource *resource, const char *labels, const char *fields,
                          const char *expected)
{
    struct kube_selector *selector = select_by(resource, labels, fields);
    struct kube_needle needle = kube_needle_of(selector, &resource->versions[0]);
    assert_true(belfry_bytes_equal(belfry_bytes_of(needle.text, needle.len), belfry_bytes_str(expected)));
    kube_selector_unref(selector);
}

static void an_equality_is_looked_for_in_quotes(void **state)
{
    (void)state;
    assert_needle(pods, "", "spec.nodeName=n1", "\"n1\"");
    assert_needle(pods, "", "spec.nodeName=10.0.0.7", "\"10.0.0.7\"");
    assert_needle(pods, "app=web", "", "\"web\"");
    assert_needle(pods, "app=7", "", "\"7\""); /* labels are strings */
    assert_needle(pods, "app in (web)", "", "\"web\"");
    assert_needle(pods, "app=web", "status.phase=Running", "\"Running\"");
    assert_needle(nodes, "", "spec.unschedulable=maybe", "\"maybe\"");
}

static void what_may_be_written_otherwise_has_no_needle(void **state)
{
    (void)state;
    char longest[KUBE_NEEDLE_MAX + 32];
    assert_needle(pods, "", "", "");
    assert_needle(pods, "app", "", "");
    assert_needle(pods, "app!=web", "", "");
    assert_needle(pods, "app in (web,db)", "", "");
    assert_needle(pods, "app=", "", "");
    assert_needle(pods, "", "spec.nodeName=", "");
    assert_needle(pods, "", "spec.nodeName!=n1", "");
    assert_needle(pods, "", "metadata.name=a", "");
    assert_needle(pods, "", "spec.nodeName=12", "");
    assert_needle(pods, "", "spec.nodeName=-12", "");
    assert_needle(pods, "", "spec.nodeName=true", "");
    assert_needle(nodes, "", "spec.unschedulable=false", "");
    assert_needle(pods, "", "spec.nodeName=a\"b", "");
    assert_needle(pods, "", "spec.nodeName=a\\\\b", "");
    assert_needle(pods, "", "spec.nodeName=\xc3\xa9", "");
    snprintf(longest, sizeof(longest), "spec.nodeName=%0*d", KUBE_NEEDLE_MAX, 0);
    longest[14] = 'n';
    assert_needle(pods, "", longest, "");
    assert_int_equal(kube_needle_of(NULL, &pods->versions[0]).len, 0);
}

/* Whether an object matches, and whether it may. */
static void assert_judged(const char *fields, const char *json, bool matches, bool may_match)
{
    struct kube_selector *selector = select_by(pods, "", fields);
    struct kube_needle needle = kube_needle_of(selector, &pods->versions[0]);
    struct kube_stored stored = {.key = belfry_bytes_str("a/b"), .value = belfry_bytes_str(json)};
    struct kube_object *object;
    assert_int_equal(kube_object_make(pods, &pods->versions[0], &stored, &object), BELFRY_OK);
    assert_int_equal(kube_selector_matches(selector, &object->attributes), matches);
    assert_int_equal(kube_needle_may_match(&needle, stored.value), may_match);
    kube_object_unref(object);
    kube_selector_unref(selector);
}

#define POD(node)                                                                                                      \
    "{\"metadata\":{\"resourceVersion\":\"1\",\"x\":\"\\\\\\\"\\n\"},\"spec\":{\"nodeName\":\"" node "\"}}"

static void an_object_without_the_needle_does_not_match(void **state)
{
    (void)state;
    assert_judged("spec.nodeName=n1", POD("n1"), true, true);
    assert_judged("spec.nodeName=n1", POD("n2"), false, false);
    assert_judged("spec.nodeName=n1", POD("n11"), false, false);
    assert_judged("status.podIP=n1", POD("n1"), false, true); /* it is there, elsewhere */
}

static void needless_escapes_are_not_judged(void **state)
{
    (void)state;
    assert_judged("spec.nodeName=n1", POD("\\u006e1"), true, true);
    assert_judged("spec.nodeName=a/b", POD("a\\/b"), true, true);
    assert_judged("spec.nodeName=n1", POD("\\u0022"), false, true);
}

static void texts_that_are_no_json_are_survived(void **state)
{
    (void)state;
    struct kube_selector *selector = select_by(pods, "", "spec.nodeName=n1");
    struct kube_needle needle = kube_needle_of(selector, &pods->versions[0]);
    assert_true(kube_needle_may_match(&needle, (struct belfry_bytes){0}));
    assert_true(kube_needle_may_match(&needle, belfry_bytes_str("\\")));
    assert_false(kube_needle_may_match(&needle, belfry_bytes_str("\\\\")));
    assert_true(kube_needle_may_match(&needle, belfry_bytes_str("\\\\\\")));
    assert_false(kube_needle_may_match(&needle, belfry_bytes_str("x")));
    kube_selector_unref(selector);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_equality_is_looked_for_in_quotes),
        cmocka_unit_test(what_may_be_written_otherwise_has_no_needle),
        cmocka_unit_test(an_object_without_the_needle_does_not_match),
        cmocka_unit_test(needless_escapes_are_not_judged),
        cmocka_unit_test(texts_that_are_no_json_are_survived),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
