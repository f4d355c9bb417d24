/* src/kapi/target_test.c */
#include "kapi/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/refuse.h"

static struct belfry_target pods(void)
{
    return (struct belfry_target){.base = "", .group_version = "v1", .plural = "pods"};
}

static void assert_written(const struct belfry_target *target, const char *expected)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    assert_int_equal(belfry_buf_append(&buf, "<", 1), BELFRY_OK);
    assert_int_equal(belfry_target_write(target, &buf), BELFRY_OK);
    assert_string_equal((const char *)buf.data + buf.start + 1, expected); /* zero-ended */
    assert_int_equal(belfry_buf_len(&buf), 1 + strlen(expected));          /* which is not counted */
    belfry_buf_fini(&buf);
}

static void the_path_is_that_of_the_resource(void **state)
{
    (void)state;
    struct belfry_target target = pods();
    assert_written(&target, "/api/v1/pods");
    target.ns = "default";
    assert_written(&target, "/api/v1/namespaces/default/pods");
    target.name = "web-0";
    assert_written(&target, "/api/v1/namespaces/default/pods/web-0");
    target.group_version = "apps/v1";
    target.plural = "deployments";
    assert_written(&target, "/apis/apps/v1/namespaces/default/deployments/web-0");
    target.ns = NULL;
    assert_written(&target, "/apis/apps/v1/deployments/web-0");
}

static void it_begins_with_the_base_of_the_server(void **state)
{
    (void)state;
    struct belfry_target target = pods();
    target.base = "/k8s/clusters/c-1%20x";
    assert_written(&target, "/k8s/clusters/c-1%20x/api/v1/pods");
    target.base = "/a b\r\nx?y#z\xC3\xA9"; /* no URL has these: they shall not end the request's line */
    assert_written(&target, "/a%20b%0D%0Ax%3Fy%23z%C3%A9/api/v1/pods");
}

static void names_are_encoded_as_they_need(void **state)
{
    (void)state;
    struct belfry_target target = pods();
    target.group_version = "rbac.authorization.k8s.io/v1";
    target.plural = "clusterroles";
    target.name = "system:node?a&b #\xC3\xA9";
    assert_written(&target, "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node%3Fa%26b%20%23%C3%A9");
    target.name = "...";
    assert_written(&target, "/apis/rbac.authorization.k8s.io/v1/clusterroles/...");
}

static void selectors_are_encoded(void **state)
{
    (void)state;
    struct belfry_target target = pods();
    target.selector = "app=web,tier in (a,b),!x";
    assert_written(&target, "/api/v1/pods?labelSelector=app%3Dweb%2Ctier%20in%20%28a%2Cb%29%2C%21x");
    target.selector = "app.kubernetes.io/name=caf\xC3\xA9_~-";
    assert_written(&target, "/api/v1/pods?labelSelector=app.kubernetes.io%2Fname%3Dcaf%C3%A9_~-");
    target.selector = NULL;
    target.field_selector = "metadata.name=a+b%,spec.x!=1&2";
    assert_written(&target, "/api/v1/pods?fieldSelector=metadata.name%3Da%2Bb%25%2Cspec.x%21%3D1%262");
}

static void every_parameter_has_its_name(void **state)
{
    (void)state;
    struct belfry_target target = pods();
    target.selector = "a";
    target.field_selector = "b";
    target.version = "12";
    target.version_match = "NotOlderThan";
    target.continue_with = "eyJ2==";
    target.limit = 500;
    target.timeout_s = 300;
    target.watch = target.bookmarks = target.send_initial = true;
    assert_written(&target, "/api/v1/pods?allowWatchBookmarks=true&continue=eyJ2%3D%3D&fieldSelector=b&labelSelector=a"
                            "&limit=500&resourceVersion=12&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
                            "&timeoutSeconds=300&watch=true");
    target = pods();
    target.limit = INT64_MAX;
    target.version = "0";
    assert_written(&target, "/api/v1/pods?limit=9223372036854775807&resourceVersion=0");
}

static void what_is_empty_is_left_out(void **state)
{
    (void)state;
    struct belfry_target target = pods();
    target.selector = target.field_selector = target.version = target.version_match = target.continue_with = "";
    assert_written(&target, "/api/v1/pods");
}

static void what_could_lead_elsewhere_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"", ".", "..", "a/b", "/", "%2e", "a\n", "\x7f", "a\rb", "\t"};
    static const char *const group_versions[] = {"",     "/",    "a/",   "/v1",    "a/b/c", "../v1", "apps/..",
                                                 "./v1", "a//b", "v1\n", "%61/v1", ".",     ".."};
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct belfry_target by_plural = pods(), by_ns = pods(), by_name = pods();
        by_plural.plural = by_ns.ns = by_name.name = names[i];
        assert_int_equal(belfry_target_write(&by_plural, &buf), BELFRY_ERR_INVALID);
        assert_int_equal(belfry_target_write(&by_ns, &buf), BELFRY_ERR_INVALID);
        assert_int_equal(belfry_target_write(&by_name, &buf), BELFRY_ERR_INVALID);
    }
    for (size_t i = 0; i < sizeof(group_versions) / sizeof(group_versions[0]); i++) {
        struct belfry_target target = pods();
        target.group_version = group_versions[i];
        assert_int_equal(belfry_target_write(&target, &buf), BELFRY_ERR_INVALID);
    }
    assert_int_equal(belfry_buf_len(&buf), 0);
    belfry_buf_fini(&buf);
}

/* Long enough to need memory more than once. */
static enum belfry_err write_long(void)
{
    static char selector[1000];
    struct belfry_target target = pods();
    struct belfry_buf buf;
    memset(selector, '=', sizeof(selector) - 1);
    target.selector = selector;
    belfry_buf_init(&buf);
    enum belfry_err err = belfry_target_write(&target, &buf);
    belfry_buf_fini(&buf);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_true(refuse_sweep(write_long) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_path_is_that_of_the_resource),     cmocka_unit_test(it_begins_with_the_base_of_the_server),
        cmocka_unit_test(names_are_encoded_as_they_need),       cmocka_unit_test(selectors_are_encoded),
        cmocka_unit_test(every_parameter_has_its_name),         cmocka_unit_test(what_is_empty_is_left_out),
        cmocka_unit_test(what_could_lead_elsewhere_is_refused), cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
