/* src/kube/catalog_test.c */
#include "kube/catalog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <yyjson.h>

#include "support/refuse.h"
#include "json/json_alc.h"

#define ROOM 2048

static const char widgets[] = "apiVersion: apiextensions.k8s.io/v1\n"
                              "kind: CustomResourceDefinition\n"
                              "metadata: {name: widgets.demo.example.com}\n"
                              "spec:\n"
                              "  group: demo.example.com\n"
                              "  scope: Namespaced\n"
                              "  names: {plural: widgets, kind: Widget, shortNames: [wd], categories: [all]}\n"
                              "  versions:\n"
                              "  - {name: v1beta1, served: true, storage: false}\n"
                              "  - {name: v1alpha1, served: false, storage: false}\n"
                              "  - name: v1\n"
                              "    served: true\n"
                              "    storage: true\n"
                              "    subresources: {status: {}}\n"
                              "    schema:\n"
                              "      openAPIV3Schema:\n"
                              "        type: object\n"
                              "        description: a \"widget\"\n"
                              "        properties:\n"
                              "          kind: {type: string, description: told by the manifest}\n"
                              "          metadata: {type: object}\n"
                              "          spec: {type: object, properties: {size: {type: number, maximum: 1.50}}}\n";

/* What a test makes of names alone. */
static struct kube_resource *resource_of(const char *group, const char *plural, const char *kind, const char *scope,
                                         const char *version)
{
    char text[ROOM], *why = NULL;
    struct kube_resource *resource = NULL;
    snprintf(text, sizeof(text),
             "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s%s%s}\n"
             "spec: {group: '%s', scope: %s, names: {plural: %s, kind: %s}, versions: "
             "[{name: %s, served: true, storage: true}]}\n",
             plural, group[0] == '\0' ? "" : ".", group, group, scope, plural, kind, version);
    if (kube_resource_read(belfry_bytes_str(text), &(struct kube_resource_opts){0}, &resource, &why) != BELFRY_OK)
        fail_msg("%s", why);
    return resource;
}

static struct kube_resource *widget_resource(void)
{
    struct kube_resource *resource = NULL;
    char *why = NULL;
    if (kube_resource_read(belfry_bytes_str(widgets), &(struct kube_resource_opts){0}, &resource, &why) != BELFRY_OK)
        fail_msg("%s", why);
    return resource;
}

/* Consumes the resources. */
static struct kube_catalog *catalog_of(struct kube_resource **resources, size_t n, char **why)
{
    struct kube_catalog *catalog = NULL;
    assert_int_equal(kube_catalog_make(resources, n, &catalog, why), BELFRY_OK);
    for (size_t i = 0; i < n; i++)
        kube_resource_unref(resources[i]);
    return catalog;
}

static struct kube_catalog *catalog_quietly(struct kube_resource **resources, size_t n)
{
    char *why = NULL;
    struct kube_catalog *catalog = catalog_of(resources, n, &why);
    assert_null(why);
    return catalog;
}

static struct kube_catalog *usual_catalog(void)
{
    struct kube_resource *resources[] = {widget_resource(),
                                         resource_of("demo.example.com", "gadgets", "Gadget", "Cluster", "v2"),
                                         resource_of("app.example.com", "configs", "Config", "Cluster", "v1")};
    return catalog_quietly(resources, 3);
}

/* The caller frees it. */
static char *document_of(const struct kube_catalog *catalog, const char *path, bool aggregated)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    if (kube_catalog_document(catalog, belfry_bytes_str(path), aggregated, &buf) != BELFRY_OK)
        fail_msg("no document at %s", path);
    char *text = strndup(belfry_buf_bytes(&buf).data, belfry_buf_len(&buf));
    assert_non_null(text);
    belfry_buf_fini(&buf);
    return text;
}

static void says(const struct kube_catalog *catalog, const char *path, bool aggregated, const char *expected)
{
    char *text = document_of(catalog, path, aggregated);
    assert_string_equal(text, expected);
    free(text);
}

static void has_no_document(const struct kube_catalog *catalog, const char *path)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    if (kube_catalog_document(catalog, belfry_bytes_str(path), false, &buf) != BELFRY_ERR_NOT_FOUND)
        fail_msg("a document at %s", path);
    assert_int_equal(belfry_buf_len(&buf), 0);
    belfry_buf_fini(&buf);
}

/* ---- resources ---- */

static bool finds(const struct kube_catalog *catalog, const char *group, const char *version, const char *plural)
{
    const struct kube_resource *resource = NULL;
    const struct kube_version *served = NULL;
    if (!kube_catalog_find(catalog, belfry_bytes_str(group), belfry_bytes_str(version), belfry_bytes_str(plural),
                           &resource, &served)) {
        assert_true(resource == NULL && served == NULL);
        return false;
    }
    assert_string_equal(resource->plural, plural);
    assert_string_equal(resource->group, group);
    assert_string_equal(served->name, version);
    return true;
}

static void a_resource_is_found_by_group_version_and_plural(void **state)
{
    (void)state;
    struct kube_catalog *catalog = usual_catalog();
    assert_true(finds(catalog, "demo.example.com", "v1", "widgets"));
    assert_true(finds(catalog, "demo.example.com", "v1beta1", "widgets"));
    assert_false(finds(catalog, "demo.example.com", "v1alpha1", "widgets"));
    assert_false(finds(catalog, "demo.example.com", "v2", "widgets"));
    assert_true(finds(catalog, "demo.example.com", "v2", "gadgets"));
    assert_false(finds(catalog, "app.example.com", "v1", "widgets"));
    assert_false(finds(catalog, "demo.example.com", "v1", "widget"));
    assert_false(finds(catalog, "", "v1", "widgets"));
    kube_catalog_unref(catalog);
}

static void resources_are_ordered_by_group_and_plural(void **state)
{
    (void)state;
    struct kube_catalog *catalog = usual_catalog();
    assert_int_equal(kube_catalog_count(catalog), 3);
    assert_string_equal(kube_catalog_at(catalog, 0)->plural, "configs");
    assert_string_equal(kube_catalog_at(catalog, 1)->plural, "gadgets");
    assert_string_equal(kube_catalog_at(catalog, 2)->plural, "widgets");
    kube_catalog_unref(catalog);
}

static void of_two_with_one_name_the_first_stays(void **state)
{
    (void)state;
    struct kube_resource *resources[] = {resource_of("a.io", "things", "Thing", "Cluster", "v1"),
                                         resource_of("a.io", "things", "Other", "Cluster", "v2"),
                                         resource_of("a.io", "objects", "Thing", "Cluster", "v1"),
                                         resource_of("b.io", "things", "Thing", "Cluster", "v1")};
    char *why = NULL;
    struct kube_catalog *catalog = catalog_of(resources, 4, &why);
    assert_string_equal(why, "things.a.io: left out, for things of kind Thing came first; "
                             "objects.a.io: left out, for things of kind Thing came first");
    free(why);
    assert_int_equal(kube_catalog_count(catalog), 2);
    assert_true(finds(catalog, "a.io", "v1", "things"));
    assert_true(finds(catalog, "b.io", "v1", "things"));
    assert_false(finds(catalog, "a.io", "v2", "things"));
    assert_false(finds(catalog, "a.io", "v1", "objects"));
    kube_catalog_unref(catalog);
}

static void many_that_are_left_out_are_not_all_told(void **state)
{
    (void)state;
    struct kube_resource *one = resource_of("a.io", "things", "Thing", "Cluster", "v1"), *resources[40];
    for (size_t i = 0; i < 40; i++)
        resources[i] = kube_resource_ref(one);
    kube_resource_unref(one);
    char *why = NULL;
    struct kube_catalog *catalog = catalog_of(resources, 40, &why);
    assert_non_null(why);
    assert_non_null(strstr(why, "came first; and others"));
    assert_true(strlen(why) < 1024);
    free(why);
    kube_catalog_unref(catalog);
}

static void a_catalog_has_a_size(void **state)
{
    (void)state;
    static struct kube_resource *resources[KUBE_RESOURCES_MAX + 1];
    struct kube_resource *one = resource_of("a.io", "things", "Thing", "Cluster", "v1");
    for (size_t i = 0; i <= KUBE_RESOURCES_MAX; i++)
        resources[i] = one;
    struct kube_catalog *catalog = NULL;
    char *why = NULL;
    assert_int_equal(kube_catalog_make(resources, KUBE_RESOURCES_MAX + 1, &catalog, &why), BELFRY_ERR_LIMIT);
    assert_true(catalog == NULL && why == NULL);
    assert_int_equal(kube_catalog_make(resources, KUBE_RESOURCES_MAX, &catalog, &why), BELFRY_OK);
    assert_int_equal(kube_catalog_count(catalog), 1);
    free(why);
    kube_catalog_unref(catalog);
    kube_resource_unref(one);
}

/* ---- discovery ---- */

static void aggregated_discovery_tells_everything_at_once(void **state)
{
    (void)state;
    struct kube_catalog *catalog = usual_catalog();
    says(catalog, "/apis", true,
         "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":["
         "{\"metadata\":{\"name\":\"app.example.com\"},\"versions\":[{\"version\":\"v1\",\"resources\":["
         "{\"resource\":\"configs\",\"responseKind\":{\"group\":\"app.example.com\",\"version\":\"v1\",\"kind\":"
         "\"Config\"},"
         "\"scope\":\"Cluster\",\"singularResource\":\"config\",\"verbs\":[\"get\",\"list\",\"watch\"]}],"
         "\"freshness\":\"Current\"}]},"
         "{\"metadata\":{\"name\":\"demo.example.com\"},\"versions\":["
         "{\"version\":\"v2\",\"resources\":["
         "{\"resource\":\"gadgets\",\"responseKind\":{\"group\":\"demo.example.com\",\"version\":\"v2\",\"kind\":"
         "\"Gadget\"},"
         "\"scope\":\"Cluster\",\"singularResource\":\"gadget\",\"verbs\":[\"get\",\"list\",\"watch\"]}],"
         "\"freshness\":\"Current\"},"
         "{\"version\":\"v1\",\"resources\":["
         "{\"resource\":\"widgets\",\"responseKind\":{\"group\":\"demo.example.com\",\"version\":\"v1\",\"kind\":"
         "\"Widget\"},"
         "\"scope\":\"Namespaced\",\"singularResource\":\"widget\",\"verbs\":[\"get\",\"list\",\"watch\"],"
         "\"shortNames\":[\"wd\"],\"categories\":[\"all\"],"
         "\"subresources\":[{\"subresource\":\"status\",\"responseKind\":{\"group\":\"demo.example.com\","
         "\"version\":\"v1\",\"kind\":\"Widget\"},\"verbs\":[\"get\"]}]}],\"freshness\":\"Current\"},"
         "{\"version\":\"v1beta1\",\"resources\":["
         "{\"resource\":\"widgets\",\"responseKind\":{\"group\":\"demo.example.com\",\"version\":\"v1beta1\","
         "\"kind\":\"Widget\"},\"scope\":\"Namespaced\",\"singularResource\":\"widget\","
         "\"verbs\":[\"get\",\"list\",\"watch\"],\"shortNames\":[\"wd\"],\"categories\":[\"all\"]}],"
         "\"freshness\":\"Current\"}]}]}");
    says(catalog, "/api", true,
         "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":[]}");
    kube_catalog_unref(catalog);
}

static void legacy_discovery_has_a_document_a_group_and_a_version(void **state)
{
    (void)state;
    struct kube_catalog *catalog = usual_catalog();
    says(catalog, "/api", false, "{\"kind\":\"APIVersions\",\"versions\":[],\"serverAddressByClientCIDRs\":[]}");
    says(catalog, "/apis", false,
         "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":["
         "{\"name\":\"app.example.com\",\"versions\":[{\"groupVersion\":\"app.example.com/v1\",\"version\":\"v1\"}],"
         "\"preferredVersion\":{\"groupVersion\":\"app.example.com/v1\",\"version\":\"v1\"}},"
         "{\"name\":\"demo.example.com\",\"versions\":[{\"groupVersion\":\"demo.example.com/v2\",\"version\":\"v2\"},"
         "{\"groupVersion\":\"demo.example.com/v1\",\"version\":\"v1\"},"
         "{\"groupVersion\":\"demo.example.com/v1beta1\",\"version\":\"v1beta1\"}],"
         "\"preferredVersion\":{\"groupVersion\":\"demo.example.com/v2\",\"version\":\"v2\"}}]}");
    says(catalog, "/apis/app.example.com", false,
         "{\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",\"name\":\"app.example.com\",\"versions\":["
         "{\"groupVersion\":\"app.example.com/v1\",\"version\":\"v1\"}],"
         "\"preferredVersion\":{\"groupVersion\":\"app.example.com/v1\",\"version\":\"v1\"}}");
    says(catalog, "/apis/demo.example.com/v1", false,
         "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"demo.example.com/v1\",\"resources\":["
         "{\"name\":\"widgets\",\"singularName\":\"widget\",\"namespaced\":true,\"kind\":\"Widget\","
         "\"verbs\":[\"get\",\"list\",\"watch\"],\"shortNames\":[\"wd\"],\"categories\":[\"all\"]},"
         "{\"name\":\"widgets/status\",\"singularName\":\"\",\"namespaced\":true,\"kind\":\"Widget\","
         "\"verbs\":[\"get\"]}]}");
    kube_catalog_unref(catalog);
}

static void the_core_group_lies_under_api(void **state)
{
    (void)state;
    struct kube_resource *resources[] = {resource_of("", "notes", "Note", "Namespaced", "v1")};
    struct kube_catalog *catalog = catalog_quietly(resources, 1);
    says(catalog, "/api", false, "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],\"serverAddressByClientCIDRs\":[]}");
    says(catalog, "/api", true,
         "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":["
         "{\"metadata\":{},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"notes\","
         "\"responseKind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Note\"},\"scope\":\"Namespaced\","
         "\"singularResource\":\"note\",\"verbs\":[\"get\",\"list\",\"watch\"]}],\"freshness\":\"Current\"}]}]}");
    says(catalog, "/api/v1", false,
         "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"v1\",\"resources\":["
         "{\"name\":\"notes\",\"singularName\":\"note\",\"namespaced\":true,\"kind\":\"Note\","
         "\"verbs\":[\"get\",\"list\",\"watch\"]}]}");
    says(catalog, "/apis", false, "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[]}");
    char *openapi = document_of(catalog, "/openapi/v3/api/v1", false);
    assert_non_null(strstr(openapi, "\"/api/v1/namespaces/{namespace}/notes/{name}\""));
    free(openapi);
    kube_catalog_unref(catalog);
}

static void a_path_without_a_document_is_not_found(void **state)
{
    (void)state;
    static const char *const paths[] = {"",
                                        "/",
                                        "/ap",
                                        "/apis/nobody.io",
                                        "/apis/demo.example.com/v3",
                                        "/api/v1",
                                        "/apis//",
                                        "/openapi/v2",
                                        "/openapi/v3/apis/demo.example.com",
                                        "/openapi",
                                        "/apis/demo.example.com/v1alpha1"};
    struct kube_catalog *catalog = usual_catalog();
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        has_no_document(catalog, paths[i]);
    kube_catalog_unref(catalog);
}

static void a_slash_at_the_end_does_not_count_nor_does_aggregated_elsewhere(void **state)
{
    (void)state;
    struct kube_catalog *catalog = usual_catalog();
    char *plain = document_of(catalog, "/apis/demo.example.com/v1", false);
    says(catalog, "/apis/demo.example.com/v1/", false, plain);
    says(catalog, "/apis/demo.example.com/v1", true, plain);
    free(plain);
    kube_catalog_unref(catalog);
}

static void nothing_to_serve_is_a_catalog_too(void **state)
{
    (void)state;
    struct kube_catalog *catalog = NULL;
    char *why = NULL;
    assert_int_equal(kube_catalog_make(NULL, 0, &catalog, &why), BELFRY_OK);
    assert_null(why);
    assert_int_equal(kube_catalog_count(catalog), 0);
    says(catalog, "/apis", true,
         "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":[]}");
    says(catalog, "/openapi/v3", false, "{\"paths\":{}}");
    kube_catalog_unref(catalog);
}

/* ---- OpenAPI ---- */

static yyjson_doc *openapi_of(const struct kube_catalog *catalog, const char *path)
{
    char *text = document_of(catalog, path, false);
    yyjson_doc *doc = yyjson_read(text, strlen(text), YYJSON_READ_NUMBER_AS_RAW);
    assert_non_null(doc);
    free(text);
    return doc;
}

static void points_to(yyjson_doc *doc, const char *pointer, const char *expected)
{
    yyjson_val *value = yyjson_doc_ptr_get(doc, pointer);
    if (value == NULL)
        fail_msg("nothing at %s", pointer);
    char *text = yyjson_val_write_opts(value, YYJSON_WRITE_NOFLAG, &belfry_json_alc, NULL, NULL);
    if (strcmp(text, expected) != 0)
        fail_msg("%s at %s, not %s", text, pointer, expected);
    free(text);
}

#define WIDGET     "/components/schemas/com.example.demo.v1.Widget"
#define WIDGET_GVK "{\"group\":\"demo.example.com\",\"kind\":\"Widget\",\"version\":\"v1\"}"

static void a_schema_is_the_manifests_with_kind_and_metadata(void **state)
{
    (void)state;
    struct kube_catalog *catalog = usual_catalog();
    yyjson_doc *doc = openapi_of(catalog, "/openapi/v3/apis/demo.example.com/v1");
    points_to(doc, "/openapi", "\"3.0.0\"");
    points_to(doc, WIDGET "/description", "\"a \\\"widget\\\"\"");
    points_to(doc, WIDGET "/properties/spec",
              "{\"type\":\"object\",\"properties\":{\"size\":{\"type\":\"number\","
              "\"maximum\":1.50}}}");
    points_to(doc, WIDGET "/properties/kind/description", "\"told by the manifest\"");
    points_to(doc, WIDGET "/properties/apiVersion/type", "\"string\"");
    points_to(doc, WIDGET "/properties/metadata/allOf",
              "[{\"$ref\":\"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta\"}]");
    points_to(doc, WIDGET "/x-kubernetes-group-version-kind", "[" WIDGET_GVK "]");
    points_to(doc, WIDGET "List/properties/items/items/$ref", "\"#/components/schemas/com.example.demo.v1.Widget\"");
    points_to(doc, WIDGET "List/x-kubernetes-group-version-kind/0/kind", "\"WidgetList\"");
    points_to(doc, "/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta/properties/labels/type",
              "\"object\"");
    points_to(doc, "/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta/properties/continue/type",
              "\"string\"");
    yyjson_doc_free(doc);
    kube_catalog_unref(catalog);
}

static void paths_say_which_kind_they_answer_with(void **state)
{
    (void)state;
    struct kube_catalog *catalog = usual_catalog();
    yyjson_doc *doc = openapi_of(catalog, "/openapi/v3/apis/demo.example.com/v1");
    points_to(doc, "/paths/~1apis~1demo.example.com~1v1~1widgets/get/x-kubernetes-action", "\"list\"");
    points_to(doc, "/paths/~1apis~1demo.example.com~1v1~1namespaces~1{namespace}~1widgets/get/x-kubernetes-action",
              "\"list\"");
    points_to(doc,
              "/paths/~1apis~1demo.example.com~1v1~1namespaces~1{namespace}~1widgets~1{name}/get/x-kubernetes-action",
              "\"get\"");
    points_to(doc,
              "/paths/~1apis~1demo.example.com~1v1~1namespaces~1{namespace}~1widgets~1{name}/patch/"
              "x-kubernetes-group-version-kind",
              WIDGET_GVK);
    points_to(doc,
              "/paths/~1apis~1demo.example.com~1v1~1namespaces~1{namespace}~1widgets~1{name}/patch/parameters/2/name",
              "\"fieldValidation\"");
    assert_int_equal(yyjson_obj_size(yyjson_doc_ptr_get(doc, "/paths")), 3);
    yyjson_doc_free(doc);
    doc = openapi_of(catalog, "/openapi/v3/apis/app.example.com/v1");
    points_to(doc, "/paths/~1apis~1app.example.com~1v1~1configs~1{name}/parameters/0/name", "\"name\"");
    assert_int_equal(yyjson_obj_size(yyjson_doc_ptr_get(doc, "/paths")), 2);
    yyjson_doc_free(doc);
    kube_catalog_unref(catalog);
}

static void without_a_schema_anything_goes(void **state)
{
    (void)state;
    struct kube_catalog *catalog = usual_catalog();
    yyjson_doc *doc = openapi_of(catalog, "/openapi/v3/apis/app.example.com/v1");
    points_to(doc, "/components/schemas/com.example.app.v1.Config/x-kubernetes-preserve-unknown-fields", "true");
    points_to(doc, "/components/schemas/com.example.app.v1.Config/properties/kind/type", "\"string\"");
    yyjson_doc_free(doc);
    kube_catalog_unref(catalog);
}

static void the_index_leads_to_every_document(void **state)
{
    (void)state;
    struct kube_catalog *catalog = usual_catalog();
    yyjson_doc *doc = openapi_of(catalog, "/openapi/v3");
    yyjson_val *paths = yyjson_doc_ptr_get(doc, "/paths"), *key, *value;
    size_t i, n;
    assert_int_equal(yyjson_obj_size(paths), 4);
    yyjson_obj_foreach(paths, i, n, key, value)
    {
        const char *url = yyjson_get_str(yyjson_obj_get(value, "serverRelativeURL"));
        char path[256];
        assert_non_null(url);
        snprintf(path, sizeof(path), "%.*s", (int)strcspn(url, "?"), url);
        assert_string_equal(path + strlen("/openapi/v3/"), yyjson_get_str(key));
        assert_int_equal(strlen(url), strlen(path) + strlen("?hash=0123456789ABCDEF"));
        free(document_of(catalog, path, false));
    }
    yyjson_doc_free(doc);
    kube_catalog_unref(catalog);
}

/* ---- life ---- */

static void the_hash_changes_with_the_resources(void **state)
{
    (void)state;
    struct kube_resource *one[] = {resource_of("a.io", "things", "Thing", "Cluster", "v1"), widget_resource()};
    struct kube_resource *other[] = {widget_resource(), resource_of("a.io", "things", "Thing", "Cluster", "v1")};
    struct kube_resource *more[] = {resource_of("a.io", "things", "Thing", "Cluster", "v2"), widget_resource()};
    struct kube_catalog *a = catalog_quietly(one, 2), *b = catalog_quietly(other, 2), *c = catalog_quietly(more, 2);
    assert_true(kube_catalog_hash(a) == kube_catalog_hash(b)); /* the order in which they came is nothing new */
    assert_true(kube_catalog_hash(a) != kube_catalog_hash(c));
    kube_catalog_unref(a);
    kube_catalog_unref(b);
    kube_catalog_unref(c);
}

static void the_last_reference_frees(void **state)
{
    (void)state;
    size_t before = refuse_held();
    struct kube_catalog *catalog = usual_catalog(), *again = kube_catalog_ref(catalog);
    assert_ptr_equal(catalog, again);
    kube_catalog_unref(catalog);
    assert_int_equal(kube_catalog_count(again), 3);
    kube_catalog_unref(again);
    kube_catalog_unref(NULL);
    assert_int_equal(refuse_held(), before);
}

static struct kube_resource *sweep_resources[3];

static enum belfry_err make_and_ask(void)
{
    struct kube_catalog *catalog = NULL;
    struct belfry_buf buf;
    char *why = NULL;
    belfry_buf_init(&buf);
    enum belfry_err err = kube_catalog_make(sweep_resources, 3, &catalog, &why);
    if (err == BELFRY_OK)
        err = kube_catalog_document(catalog, belfry_bytes_str("/apis"), true, &buf);
    belfry_buf_fini(&buf);
    free(why);
    kube_catalog_unref(catalog);
    return err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    sweep_resources[0] = widget_resource();
    sweep_resources[1] = resource_of("a.io", "things", "Thing", "Cluster", "v1");
    sweep_resources[2] = sweep_resources[0]; /* something is left out, and told */
    assert_true(refuse_sweep(make_and_ask) > 50);
    kube_resource_unref(sweep_resources[0]);
    kube_resource_unref(sweep_resources[1]);
}

/* ---- parts ---- */

static struct kube_resource *guarded(const char *plural, const char *kind, const char *under)
{
    char text[ROOM], *why = NULL;
    struct kube_resource *resource = NULL;
    snprintf(
        text, sizeof(text),
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s.demo.example.com}\n"
        "spec: {group: demo.example.com, scope: Cluster, names: {plural: %s, kind: %s}, versions: [{name: v1, served: "
        "true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}]}\n",
        plural, plural, kind);
    struct kube_resource_opts opts = {.prefix = "/objects/{plural}/", .under = under};
    if (kube_resource_read(belfry_bytes_str(text), &opts, &resource, &why) != BELFRY_OK)
        fail_msg("%s", why);
    return resource;
}

static void assert_same_document(const struct kube_catalog *a, const struct kube_catalog *b, const char *path)
{
    struct belfry_buf of_a, of_b;
    belfry_buf_init(&of_a);
    belfry_buf_init(&of_b);
    assert_int_equal(kube_catalog_document(a, belfry_bytes_str(path), true, &of_a), BELFRY_OK);
    assert_int_equal(kube_catalog_document(b, belfry_bytes_str(path), true, &of_b), BELFRY_OK);
    assert_true(belfry_bytes_equal(belfry_buf_bytes(&of_a), belfry_buf_bytes(&of_b)));
    belfry_buf_fini(&of_a);
    belfry_buf_fini(&of_b);
}

static void a_part_says_what_a_catalog_of_its_resources_says(void **state)
{
    (void)state;
    struct kube_resource *all[] = {guarded("gadgets", "Gadget", "/definitions/"), guarded("rooms", "Room", NULL),
                                   guarded("zones", "Zone", "/definitions/")};
    struct kube_resource *some[] = {kube_resource_ref(all[0]), kube_resource_ref(all[2])};
    struct kube_catalog *whole = catalog_quietly(all, 3), *expected = catalog_quietly(some, 2), *part;
    assert_int_equal(kube_catalog_guards(whole), 2);
    assert_string_equal(kube_catalog_guard(whole, 0), "/definitions/");
    assert_string_equal(kube_catalog_guard(whole, 1), "/objects/rooms/");
    assert_int_equal(kube_catalog_part(whole, (const bool[]){true, false}, &part), BELFRY_OK);
    assert_int_equal(kube_catalog_count(part), 2);
    static const char *const paths[] = {"/api", "/apis", "/apis/demo.example.com", "/apis/demo.example.com/v1",
                                        "/openapi/v3/apis/demo.example.com/v1"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        assert_same_document(part, expected, paths[i]);
    assert_int_equal(kube_catalog_hash(part), kube_catalog_hash(expected));
    assert_int_not_equal(kube_catalog_hash(part), kube_catalog_hash(whole));
    kube_catalog_unref(whole); /* a part needs the whole no longer */
    assert_same_document(part, expected, "/openapi/v3/apis/demo.example.com/v1");
    kube_catalog_unref(part);
    kube_catalog_unref(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resource_is_found_by_group_version_and_plural),
        cmocka_unit_test(resources_are_ordered_by_group_and_plural),
        cmocka_unit_test(of_two_with_one_name_the_first_stays),
        cmocka_unit_test(many_that_are_left_out_are_not_all_told),
        cmocka_unit_test(a_catalog_has_a_size),
        cmocka_unit_test(aggregated_discovery_tells_everything_at_once),
        cmocka_unit_test(legacy_discovery_has_a_document_a_group_and_a_version),
        cmocka_unit_test(the_core_group_lies_under_api),
        cmocka_unit_test(a_path_without_a_document_is_not_found),
        cmocka_unit_test(a_slash_at_the_end_does_not_count_nor_does_aggregated_elsewhere),
        cmocka_unit_test(nothing_to_serve_is_a_catalog_too),
        cmocka_unit_test(a_schema_is_the_manifests_with_kind_and_metadata),
        cmocka_unit_test(paths_say_which_kind_they_answer_with),
        cmocka_unit_test(without_a_schema_anything_goes),
        cmocka_unit_test(the_index_leads_to_every_document),
        cmocka_unit_test(the_hash_changes_with_the_resources),
        cmocka_unit_test(the_last_reference_frees),
        cmocka_unit_test(a_part_says_what_a_catalog_of_its_resources_says),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
