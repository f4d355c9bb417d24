/* src/kfollow/resource_name_test.c */
#include "kfollow/resource_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void expect_name(const char *text, const char *plural, const char *version, const char *group)
{
    struct resource_name name;
    assert_true(resource_name_read(text, &name));
    assert_string_equal(name.plural, plural);
    assert_string_equal(name.version, version);
    assert_string_equal(name.group, group);
}

static void a_name_is_plural_version_and_group(void **state)
{
    (void)state;
    expect_name("pods", "pods", "", "");
    expect_name("endpointslices.discovery.k8s.io", "endpointslices", "", "discovery.k8s.io");
    expect_name("endpointslices.v1.discovery.k8s.io", "endpointslices", "v1", "discovery.k8s.io");
    expect_name("widgets.v2beta13.demo.example.com", "widgets", "v2beta13", "demo.example.com");
    expect_name("deployments.apps", "deployments", "", "apps");
    expect_name("things.v1", "things", "", "v1"); /* a group, as in kubectl: no group follows it */
    expect_name("things.v1gamma1.example.com", "things", "", "v1gamma1.example.com");
    expect_name("things.v1beta.example.com", "things", "", "v1beta.example.com");
    expect_name("things.v.example.com", "things", "", "v.example.com");
}

static void what_is_no_name_is_refused(void **state)
{
    static const char *const wrong[] = {"",      ".",          "pods.",      ".apps",       "Pods",  "pods/status",
                                        "1pods", "pods..apps", "pods.apps.", "pods.Apps",   "po ds", "pods.v1.",
                                        "-pods", "pods-",      "pods.a_b",   "pods.apps/v1"};
    struct resource_name name;
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (resource_name_read(wrong[i], &name))
            fail_msg("\"%s\" was read as a name", wrong[i]);
}

static void names_have_their_limits(void **state)
{
    char text[600];
    struct resource_name name;
    (void)state;
    memset(text, 'a', sizeof(text));
    text[RESOURCE_LABEL_MAX] = '\0';
    assert_true(resource_name_read(text, &name));
    text[RESOURCE_LABEL_MAX] = 'a';
    text[RESOURCE_LABEL_MAX + 1] = '\0';
    assert_false(resource_name_read(text, &name));

    memset(text, 'a', sizeof(text));
    for (size_t i = 4; i < sizeof(text); i += 5)
        text[i] = '.';
    text[5 + RESOURCE_GROUP_MAX] = '\0';
    assert_true(resource_name_read(text, &name));
    char written[RESOURCE_NAME_MAX + 1];
    resource_name_write(&name, written);
    assert_string_equal(written, text);
    text[5 + RESOURCE_GROUP_MAX] = 'a';
    text[5 + RESOURCE_GROUP_MAX + 1] = '\0';
    assert_false(resource_name_read(text, &name));
}

static void a_name_is_written_without_its_version(void **state)
{
    struct resource_name a, b, core;
    char written[RESOURCE_NAME_MAX + 1];
    (void)state;
    assert_true(resource_name_read("widgets.v1.demo.example.com", &a));
    assert_true(resource_name_read("widgets.demo.example.com", &b));
    assert_true(resource_name_read("widgets", &core));
    resource_name_write(&a, written);
    assert_string_equal(written, "widgets.demo.example.com");
    resource_name_write(&core, written);
    assert_string_equal(written, "widgets");
    assert_true(resource_name_same(&a, &b));
    assert_false(resource_name_same(&a, &core));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_plural_version_and_group),
        cmocka_unit_test(what_is_no_name_is_refused),
        cmocka_unit_test(names_have_their_limits),
        cmocka_unit_test(a_name_is_written_without_its_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
