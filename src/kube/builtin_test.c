/* src/kube/builtin_test.c: objects as API servers send them, and which selectors match them. With --describe it prints
 * the table, for tools/selectable-fields: GROUP/VERSION, resource, field and the minor version that brought it. */
#include "kube/builtin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kube/object.h"
#include "kube/resource.h"
#include "kube/selector.h"
#include "json/path.h"

#define NEWEST 37

static struct kube_resource *resource_of(const char *group, const char *version, const char *plural, unsigned minor)
{
    struct kube_api_resource of = {.group = group,
                                   .version = version,
                                   .plural = plural,
                                   .singular = "",
                                   .kind = "Kind",
                                   .namespaced = true,
                                   .minor = minor};
    struct kube_resource *it;
    assert_int_equal(kube_resource_of_api(&of, &it), BELFRY_OK);
    return it;
}

enum verdict { MATCHES, DIFFERS, UNKNOWN };

static enum verdict judge(const struct kube_resource *it, const char *json, const char *fields)
{
    struct kube_status status;
    struct kube_selector *selector;
    struct kube_object *object;
    struct kube_stored stored = {.key = belfry_bytes_str("ns/a"), .value = belfry_bytes_str(json)};
    if (kube_selector_read((struct belfry_bytes){0}, belfry_bytes_str(fields), it, &it->versions[0], &selector,
                           &status) != BELFRY_OK)
        return UNKNOWN;
    assert_int_equal(kube_object_make(it, &it->versions[0], &stored, &object), BELFRY_OK);
    bool matches = kube_selector_matches(selector, &object->attributes);
    kube_object_unref(object);
    kube_selector_unref(selector);
    return matches ? MATCHES : DIFFERS;
}

struct row {
    const char *rest; /* of the object, after its metadata */
    const char *fields;
    enum verdict is;
};

static void expect(const char *group, const char *version, const char *plural, const struct row *rows, size_t n)
{
    struct kube_resource *it = resource_of(group, version, plural, NEWEST);
    for (size_t i = 0; i < n; i++) {
        char json[512];
        snprintf(json, sizeof(json), "{\"metadata\":{\"name\":\"a\",\"namespace\":\"ns\",\"resourceVersion\":\"7\"}%s}",
                 rows[i].rest);
        enum verdict is = judge(it, json, rows[i].fields);
        if (is != rows[i].is)
            fail_msg("%s '%s' %s: %d", plural, rows[i].fields, json, (int)is);
    }
    kube_resource_unref(it);
}

#define EXPECT(group, version, plural, ...)                                                                            \
    do {                                                                                                               \
        const struct row rows_[] = {__VA_ARGS__};                                                                      \
        expect(group, version, plural, rows_, sizeof(rows_) / sizeof(rows_[0]));                                       \
    } while (0)

/* ---- rules ---- */

static void services_are_selected_as_kube_proxy_does(void **state)
{
    (void)state;
    EXPECT("", "v1", "services",
           {",\"spec\":{\"clusterIP\":\"10.0.0.1\",\"type\":\"ClusterIP\"}", "spec.clusterIP!=None", MATCHES},
           {",\"spec\":{\"clusterIP\":\"None\",\"type\":\"ClusterIP\"}", "spec.clusterIP!=None", DIFFERS},
           {",\"spec\":{\"type\":\"ExternalName\"}", "spec.clusterIP!=None", MATCHES},
           {",\"spec\":{\"type\":\"ExternalName\"}", "spec.clusterIP=,spec.type=ExternalName", MATCHES},
           {",\"spec\":{}", "spec.externalName=x", UNKNOWN});
}

static void booleans_that_are_not_written_are_false(void **state)
{
    (void)state;
    EXPECT("", "v1", "pods", {",\"spec\":{}", "spec.hostNetwork=false", MATCHES},
           {",\"spec\":{\"hostNetwork\":true}", "spec.hostNetwork=true", MATCHES},
           {",\"spec\":{\"hostNetwork\":true}", "spec.hostNetwork!=false", MATCHES},
           {",\"spec\":{}", "spec.hostNetwork=", DIFFERS});
    EXPECT("", "v1", "nodes", {"", "spec.unschedulable=false", MATCHES},
           {",\"spec\":{\"unschedulable\":true}", "spec.unschedulable=true", MATCHES});
}

static void numbers_that_are_not_written_are_zero(void **state)
{
    (void)state;
    EXPECT("", "v1", "replicationcontrollers", {",\"status\":{}", "status.replicas=0", MATCHES},
           {",\"status\":{\"replicas\":3}", "status.replicas!=0", MATCHES});
    EXPECT("batch", "v1", "jobs", {"", "status.successful=0", MATCHES},
           {",\"status\":{\"succeeded\":2}", "status.successful=2", MATCHES});
}

static void the_source_of_an_event_may_be_its_reporter(void **state)
{
    (void)state;
    EXPECT("", "v1", "events", {",\"source\":{\"component\":\"kubelet\"}", "source=kubelet", MATCHES},
           {",\"source\":{},\"reportingComponent\":\"kubelet\"", "source=kubelet", MATCHES},
           {",\"source\":{\"component\":\"\"},\"reportingComponent\":\"kubelet\"", "source=kubelet", MATCHES},
           {",\"source\":{\"component\":\"a\"},\"reportingComponent\":\"b\"", "source=b", DIFFERS},
           {",\"source\":{\"component\":\"a\"},\"reportingComponent\":\"b\"", "reportingComponent=b", MATCHES},
           {",\"involvedObject\":{\"kind\":\"Pod\"},\"reason\":\"R\"", "involvedObject.kind=Pod,reason!=S", MATCHES},
           {"", "source=,involvedObject.uid=", MATCHES}, {"", "regarding.kind=Pod", UNKNOWN});
    EXPECT("events.k8s.io", "v1", "events",
           {",\"regarding\":{\"kind\":\"Pod\"},\"reportingController\":\"c\"", "regarding.kind=Pod", MATCHES},
           {",\"reportingController\":\"c\"", "reportingController=c", MATCHES}, {"", "source=c", UNKNOWN},
           {"", "involvedObject.kind=Pod", UNKNOWN});
}

/* API servers take the name, and find nothing in any object. */
static void a_field_without_a_value_is_empty(void **state)
{
    (void)state;
    EXPECT("", "v1", "pods", {",\"status\":{\"podIPs\":[{\"ip\":\"10.0.0.1\"}]}", "status.podIPs=", MATCHES},
           {",\"status\":{\"podIPs\":[{\"ip\":\"10.0.0.1\"}]}", "status.podIPs=10.0.0.1", DIFFERS},
           {",\"status\":{\"podIP\":\"10.0.0.1\"}", "status.podIP=10.0.0.1", MATCHES});
    EXPECT("batch", "v1beta1", "cronjobs", {",\"status\":{}", "status.successful!=0", MATCHES});
}

static void some_types_are_not_selected_by_namespace(void **state)
{
    (void)state;
    EXPECT("", "v1", "nodes", {"", "metadata.namespace=ns", UNKNOWN}, {"", "metadata.name=a", MATCHES});
    EXPECT("certificates.k8s.io", "v1", "podcertificaterequests", {"", "metadata.namespace=ns", UNKNOWN},
           {",\"spec\":{\"podName\":\"p\"}", "spec.podName=p", MATCHES});
    EXPECT("storage.k8s.io", "v1", "csinodes", {"", "metadata.namespace=", DIFFERS});
    EXPECT("networking.k8s.io", "v1", "servicecidrs", {"", "metadata.name=a", MATCHES}, {"", "spec.cidrs=a", UNKNOWN});
}

/* ---- versions ---- */

static bool knows(const char *group, const char *version, const char *plural, unsigned minor, const char *fields)
{
    struct kube_resource *it = resource_of(group, version, plural, minor);
    enum verdict is = judge(it, "{\"metadata\":{\"resourceVersion\":\"7\"}}", fields);
    kube_resource_unref(it);
    return is != UNKNOWN;
}

static void a_field_is_known_from_the_version_that_brought_it(void **state)
{
    (void)state;
    static const char proxy[] = "spec.clusterIP!=None";
    assert_false(knows("", "v1", "services", 30, proxy));
    assert_true(knows("", "v1", "services", 31, proxy));
    assert_false(knows("", "v1", "services", 0, proxy)); /* the server's version is not known */
    assert_true(knows("", "v1", "pods", 0, "spec.nodeName=a"));
    assert_false(knows("", "v1", "pods", 27, "spec.hostNetwork=true"));
    assert_true(knows("", "v1", "pods", 28, "spec.nodeName=a,spec.hostNetwork=true"));
    assert_false(knows("resource.k8s.io", "v1", "resourceslices", 36, "spec.pool.name=a"));
    assert_true(knows("resource.k8s.io", "v1", "resourceslices", 37, "spec.pool.name=a,spec.nodeName=a"));
}

static void a_version_that_is_not_in_the_table_has_no_fields(void **state)
{
    (void)state;
    assert_null(kube_builtin_find("", "v2", "pods"));
    assert_null(kube_builtin_find("apps", "v1", "pods"));
    assert_false(knows("", "v2", "pods", NEWEST, "spec.nodeName=a"));
    assert_true(knows("", "v2", "pods", NEWEST, "metadata.name=a"));
}

static void every_row_makes_a_resource(void **state)
{
    (void)state;
    size_t n;
    const struct kube_builtin_type *types = kube_builtin_types(&n);
    for (size_t i = 0; i < n; i++) {
        assert_true(kube_builtin_is_group(types[i].group));
        assert_ptr_equal(kube_builtin_find(types[i].group, types[i].versions[0], types[i].plural), &types[i]);
        struct kube_resource *it = resource_of(types[i].group, types[i].versions[0], types[i].plural, NEWEST);
        assert_int_equal(it->versions[0].n_fields, types[i].n_fields);
        assert_in_range(it->versions[0].n_fields, 1, KUBE_FIELDS_MAX);
        for (size_t k = 0; k < types[i].n_fields; k++)
            assert_int_equal(it->versions[0].fields[k].path == NULL, types[i].fields[k].is_empty);
        kube_resource_unref(it);
    }
}

/* ---- for the tool ---- */

static void describe_version(const struct kube_builtin_type *type, const char *version)
{
    char name[128];
    snprintf(name, sizeof(name), "%s%s%s", type->group, type->group[0] != '\0' ? "/" : "", version);
    for (size_t i = 0; i < type->n_fields; i++)
        printf("%s %s %s %u\n", name, type->plural, type->fields[i].name,
               type->fields[i].since > 0 ? type->fields[i].since : KUBE_BUILTIN_LEAST);
    printf("%s %s %smetadata.namespace %d\n", name, type->plural, type->no_namespace ? "-" : "", KUBE_BUILTIN_LEAST);
}

static int describe(void)
{
    size_t n;
    const struct kube_builtin_type *types = kube_builtin_types(&n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < KUBE_BUILTIN_VERSIONS && types[i].versions[k] != NULL; k++)
            describe_version(&types[i], types[i].versions[k]);
    return fflush(stdout) != 0;
}

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(services_are_selected_as_kube_proxy_does),
        cmocka_unit_test(booleans_that_are_not_written_are_false),
        cmocka_unit_test(numbers_that_are_not_written_are_zero),
        cmocka_unit_test(the_source_of_an_event_may_be_its_reporter),
        cmocka_unit_test(a_field_without_a_value_is_empty),
        cmocka_unit_test(some_types_are_not_selected_by_namespace),
        cmocka_unit_test(a_field_is_known_from_the_version_that_brought_it),
        cmocka_unit_test(a_version_that_is_not_in_the_table_has_no_fields),
        cmocka_unit_test(every_row_makes_a_resource),
    };
    if (argc == 2 && strcmp(argv[1], "--describe") == 0)
        return describe();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
