/* src/kube/request_target_test.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kube/request.h"

struct row {
    const char *path;
    bool watch;
    enum kube_verb verb;
    const char *group, *version, *resource, *namespace, *name, *subresource;
};

#define G "demo.example.com"

static void assert_part(const char *path, const char *what, struct belfry_bytes part, const char *expected)
{
    if (!belfry_bytes_equal(part, belfry_bytes_str(expected)))
        fail_msg("%s: %s is '%.*s', not '%s'", path, what, (int)part.len, part.data, expected);
}

static void assert_row(const char *method, const struct row *row)
{
    struct kube_target target;
    kube_target_read(belfry_bytes_str(method), belfry_bytes_str(row->path), row->watch, &target);
    if (!target.is_resource || target.verb != row->verb)
        fail_msg("%s %s: resource %d, verb %d", method, row->path, target.is_resource, (int)target.verb);
    assert_part(row->path, "group", target.group, row->group);
    assert_part(row->path, "version", target.version, row->version);
    assert_part(row->path, "resource", target.resource, row->resource);
    assert_part(row->path, "namespace", target.namespace, row->namespace);
    assert_part(row->path, "name", target.name, row->name);
    assert_part(row->path, "subresource", target.subresource, row->subresource);
}

static void each_form_of_a_path_is_understood(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"/api/v1/namespaces/n/things", false, KUBE_VERB_LIST, "", "v1", "things", "n", "", ""},
        {"/api/v1/namespaces/n/things/a", false, KUBE_VERB_GET, "", "v1", "things", "n", "a", ""},
        {"/api/v1/things", false, KUBE_VERB_LIST, "", "v1", "things", "", "", ""},
        {"/api/v1/things/a", false, KUBE_VERB_GET, "", "v1", "things", "", "a", ""},
        {"/apis/" G "/v1/namespaces/n/widgets", false, KUBE_VERB_LIST, G, "v1", "widgets", "n", "", ""},
        {"/apis/" G "/v1/namespaces/n/widgets/a", false, KUBE_VERB_GET, G, "v1", "widgets", "n", "a", ""},
        {"/apis/" G "/v1/namespaces/n/widgets/a/status", false, KUBE_VERB_GET, G, "v1", "widgets", "n", "a", "status"},
        {"/apis/" G "/v1/widgets", false, KUBE_VERB_LIST, G, "v1", "widgets", "", "", ""},
        {"/apis/" G "/v1/widgets/a", false, KUBE_VERB_GET, G, "v1", "widgets", "", "a", ""},
        {"/apis/" G "/v1/widgets/a/scale", false, KUBE_VERB_GET, G, "v1", "widgets", "", "a", "scale"},
        {"apis/" G "/v1/widgets///", false, KUBE_VERB_LIST, G, "v1", "widgets", "", "", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_row("GET", &rows[i]);
        assert_row("HEAD", &rows[i]);
    }
}

static void a_watch_is_asked_for_by_the_query_or_by_the_old_prefix(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"/apis/" G "/v1/widgets", true, KUBE_VERB_WATCH, G, "v1", "widgets", "", "", ""},
        {"/apis/" G "/v1/namespaces/n/widgets", true, KUBE_VERB_WATCH, G, "v1", "widgets", "n", "", ""},
        /* with a name the query does not make a watch of it, the prefix does */
        {"/apis/" G "/v1/namespaces/n/widgets/a", true, KUBE_VERB_GET, G, "v1", "widgets", "n", "a", ""},
        {"/apis/" G "/v1/watch/widgets", false, KUBE_VERB_WATCH, G, "v1", "widgets", "", "", ""},
        {"/apis/" G "/v1/watch/namespaces/n/widgets", false, KUBE_VERB_WATCH, G, "v1", "widgets", "n", "", ""},
        {"/apis/" G "/v1/watch/namespaces/n/widgets/a", false, KUBE_VERB_WATCH, G, "v1", "widgets", "n", "a", ""},
        {"/apis/" G "/v1/watch/namespaces/n/widgets/a/status", false, KUBE_VERB_WATCH, G, "v1", "widgets", "n", "a",
         "status"},
        {"/api/v1/watch/things", false, KUBE_VERB_WATCH, "", "v1", "things", "", "", ""},
        {"/api/v1/watch/things/a", false, KUBE_VERB_WATCH, "", "v1", "things", "", "a", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_row("GET", &rows[i]);
}

static void a_namespace_is_an_object_too(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"/api/v1/namespaces", false, KUBE_VERB_LIST, "", "v1", "namespaces", "", "", ""},
        {"/api/v1/namespaces/n", false, KUBE_VERB_GET, "", "v1", "namespaces", "", "n", ""},
        {"/api/v1/namespaces/n/status", false, KUBE_VERB_GET, "", "v1", "namespaces", "", "n", "status"},
        {"/api/v1/namespaces/n/finalize", false, KUBE_VERB_GET, "", "v1", "namespaces", "", "n", "finalize"},
        {"/api/v1/watch/namespaces", false, KUBE_VERB_WATCH, "", "v1", "namespaces", "", "", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_row("GET", &rows[i]);
}

static void every_other_method_writes(void **state)
{
    (void)state;
    static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get", ""};
    static const struct row rows[] = {
        {"/apis/" G "/v1/widgets", true, KUBE_VERB_WRITE, G, "v1", "widgets", "", "", ""},
        {"/apis/" G "/v1/namespaces/n/widgets/a", false, KUBE_VERB_WRITE, G, "v1", "widgets", "n", "a", ""},
        {"/apis/" G "/v1/watch/widgets", false, KUBE_VERB_WRITE, G, "v1", "widgets", "", "", ""},
    };
    for (size_t m = 0; m < sizeof(methods) / sizeof(methods[0]); m++)
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
            assert_row(methods[m], &rows[i]);
}

static void what_is_no_resource_is_left_to_others(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "",
        "/",
        "///",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/apis",
        "/apis/" G,
        "/apis/" G "/v1",
        "/apis/" G "/v1/",
        "/version",
        "/healthz",
        "/openapi/v3/apis/" G "/v1",
        "/API/v1/things",
        "/apisx/" G "/v1/widgets",
        "/apis/" G "/v1/watch",
        "/api/v1/watch",
        "/apis//v1/widgets",
        "/apis/" G "/v1//widgets",
        "/apis/" G "/v1/namespaces//widgets",
        "/apis/" G "/v1/widgets/a/status/more",
        "/apis/" G "/v1/watch/namespaces/n/widgets/a/status/more",
        "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p",
    };
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct kube_target target;
        kube_target_read(belfry_bytes_str("GET"), belfry_bytes_str(paths[i]), true, &target);
        if (target.is_resource || target.resource.len > 0 || target.verb != KUBE_VERB_GET)
            fail_msg("%s was taken for the resource %.*s", paths[i], (int)target.resource.len, target.resource.data);
    }
}

static void escapes_stay_as_they_are(void **state)
{
    (void)state;
    const struct row row = {
        "/apis/" G "/v1/namespaces/n%2Fm/widgets/a%00", false, KUBE_VERB_GET, G, "v1", "widgets", "n%2Fm", "a%00", ""};
    assert_row("GET", &row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_form_of_a_path_is_understood),
        cmocka_unit_test(a_watch_is_asked_for_by_the_query_or_by_the_old_prefix),
        cmocka_unit_test(a_namespace_is_an_object_too),
        cmocka_unit_test(every_other_method_writes),
        cmocka_unit_test(what_is_no_resource_is_left_to_others),
        cmocka_unit_test(escapes_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
