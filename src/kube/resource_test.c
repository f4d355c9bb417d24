/* src/kube/resource_test.c */
#include "kube/resource.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "kube/name.h"
#include "kube/version.h"
#include "support/refuse.h"
#include "json/path.h"

#define HEAD "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"

static const char widgets[] = HEAD "metadata:\n"
                                   "  name: widgets.demo.example.com\n"
                                   "spec:\n"
                                   "  group: demo.example.com\n"
                                   "  scope: Namespaced\n"
                                   "  names:\n"
                                   "    plural: widgets\n"
                                   "    singular: widget\n"
                                   "    kind: Widget\n"
                                   "    shortNames: [wd, wdg]\n"
                                   "    categories: [all]\n"
                                   "  versions:\n"
                                   "  - name: v1alpha1\n"
                                   "    served: false\n"
                                   "    storage: false\n"
                                   "  - name: v1beta1\n"
                                   "    served: true\n"
                                   "    storage: false\n"
                                   "    deprecated: true\n"
                                   "    deprecationWarning: use v1\n"
                                   "  - name: v1\n"
                                   "    served: true\n"
                                   "    storage: true\n"
                                   "    subresources: {status: {}}\n"
                                   "    additionalPrinterColumns:\n"
                                   "    - {name: Color, type: string, jsonPath: .spec.color, description: its color}\n"
                                   "    - name: Age\n"
                                   "      type: date\n"
                                   "      format: x\n"
                                   "      priority: 1\n"
                                   "      jsonPath: .metadata.creationTimestamp\n"
                                   "    selectableFields:\n"
                                   "    - jsonPath: .spec.color\n"
                                   "    - jsonPath: .spec.size\n"
                                   "    schema:\n"
                                   "      openAPIV3Schema:\n"
                                   "        type: object\n"
                                   "        properties:\n"
                                   "          spec: {type: object, minProperties: 1.0}\n";

static struct kube_resource *read_with(const char *manifest, const struct kube_resource_opts *opts)
{
    struct kube_resource *resource = NULL;
    char *why = NULL;
    if (kube_resource_read(belfry_bytes_str(manifest), opts, &resource, &why) != BELFRY_OK)
        fail_msg("not read: %s", why);
    assert_null(why);
    return resource;
}

static struct kube_resource *read_plain(const char *manifest)
{
    return read_with(manifest, &(struct kube_resource_opts){0});
}

/* A manifest of a thing, with the rest of its spec. */
static void manifest_of(char *out, size_t room, const char *scope, const char *rest)
{
    int n = snprintf(out, room,
                     HEAD "metadata: {name: things.x.io}\nspec:\n  group: x.io\n  scope: %s\n"
                          "  names: {plural: things, kind: Thing}\n%s",
                     scope, rest);
    assert_true(n > 0 && (size_t)n < room);
}

static struct kube_resource *thing(const char *scope, const struct kube_resource_opts *opts)
{
    char text[1024];
    manifest_of(text, sizeof(text), scope, "  versions: [{name: v1, served: true, storage: true}]\n");
    return read_with(text, opts);
}

static void fails_with(const char *manifest, const struct kube_resource_opts *opts, const char *expected)
{
    struct kube_resource *resource = NULL;
    char *why = NULL;
    assert_int_equal(kube_resource_read(belfry_bytes_str(manifest), opts, &resource, &why), BELFRY_ERR_INVALID);
    assert_null(resource);
    assert_non_null(why);
    if (strncmp(why, expected, strlen(expected)) != 0)
        fail_msg("said '%s', not '%s'", why, expected);
    free(why);
}

static void fails(const char *manifest, const char *expected)
{
    fails_with(manifest, &(struct kube_resource_opts){0}, expected);
}

/* ---- what a manifest says ---- */

static void names_and_scope_are_the_manifests(void **state)
{
    (void)state;
    struct kube_resource *it = read_plain(widgets);
    assert_string_equal(it->group, "demo.example.com");
    assert_string_equal(it->plural, "widgets");
    assert_string_equal(it->singular, "widget");
    assert_string_equal(it->kind, "Widget");
    assert_string_equal(it->list_kind, "WidgetList");
    assert_true(it->namespaced);
    assert_int_equal(it->n_short_names, 2);
    assert_string_equal(it->short_names[1], "wdg");
    assert_int_equal(it->n_categories, 1);
    assert_string_equal(it->categories[0], "all");
    assert_string_equal(it->prefix, "/registry/demo.example.com/widgets/");
    assert_null(it->wrap_key);
    assert_null(it->wrap_field);
    kube_resource_unref(it);
}

static void served_versions_come_first_the_preferred_before_the_others(void **state)
{
    (void)state;
    struct kube_resource *it = read_plain(widgets);
    assert_int_equal(it->n_versions, 3);
    assert_int_equal(it->n_served, 2);
    assert_string_equal(it->versions[0].name, "v1");
    assert_string_equal(it->versions[0].api_version, "demo.example.com/v1");
    assert_true(it->versions[0].storage && it->versions[0].has_status && !it->versions[0].has_scale);
    assert_string_equal(it->versions[1].name, "v1beta1");
    assert_true(it->versions[1].deprecated);
    assert_string_equal(it->versions[1].deprecation_warning, "use v1");
    assert_string_equal(it->versions[2].name, "v1alpha1");
    assert_false(it->versions[2].served);
    assert_ptr_equal(kube_resource_served(it, belfry_bytes_str("v1beta1")), &it->versions[1]);
    assert_null(kube_resource_served(it, belfry_bytes_str("v1alpha1")));
    assert_null(kube_resource_served(it, belfry_bytes_str("v2")));
    kube_resource_unref(it);
}

static void columns_fields_and_schema_belong_to_a_version(void **state)
{
    (void)state;
    struct kube_resource *it = read_plain(widgets);
    const struct kube_version *v1 = &it->versions[0];
    assert_int_equal(v1->n_columns, 2);
    assert_string_equal(v1->columns[0].name, "Color");
    assert_string_equal(v1->columns[0].type, "string");
    assert_string_equal(v1->columns[0].description, "its color");
    assert_null(v1->columns[0].format);
    assert_int_equal(v1->columns[0].priority, 0);
    assert_string_equal(v1->columns[1].format, "x");
    assert_int_equal(v1->columns[1].priority, 1);
    assert_non_null(v1->columns[1].path);
    assert_int_equal(v1->n_fields, 2);
    assert_string_equal(v1->fields[1].name, "spec.size");
    assert_true(belfry_kube_path_is_simple(v1->fields[1].path));
    assert_string_equal(v1->schema,
                        "{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"minProperties\":1.0}}}");
    assert_int_equal(it->versions[1].n_columns, 0);
    assert_null(it->versions[1].schema);
    kube_resource_unref(it);
}

static void json_says_the_same(void **state)
{
    (void)state;
    struct kube_resource *it =
        read_plain("{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\","
                   "\"metadata\":{\"name\":\"things.x.io\"},\"spec\":{\"group\":\"x.io\",\"scope\":\"Cluster\","
                   "\"names\":{\"plural\":\"things\",\"kind\":\"OneThing\",\"listKind\":\"Things\"},"
                   "\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,\"additionalPrinterColumns\":"
                   "[{\"name\":\"A\",\"type\":\"string\",\"jsonPath\":\".a\",\"priority\":-2}],"
                   "\"subresources\":{\"scale\":{}}}]}}");
    assert_string_equal(it->singular, "onething");
    assert_string_equal(it->list_kind, "Things");
    assert_false(it->namespaced);
    assert_int_equal(it->versions[0].columns[0].priority, -2);
    assert_true(it->versions[0].has_scale && !it->versions[0].has_status);
    kube_resource_unref(it);
}

static void what_a_webhook_converts_is_served_as_it_is_stored(void **state)
{
    (void)state;
    char text[1024];
    manifest_of(text, sizeof(text), "Cluster",
                "  conversion: {strategy: Webhook}\n"
                "  versions: [{name: v2, served: true}, {name: v1, served: true, storage: true}]\n");
    struct kube_resource *it = read_plain(text);
    assert_int_equal(it->n_served, 1);
    assert_string_equal(it->versions[0].name, "v1");
    kube_resource_unref(it);
    manifest_of(text, sizeof(text), "Cluster",
                "  conversion: {strategy: Webhook}\n"
                "  versions: [{name: v2, served: true}, {name: v1, storage: true}]\n");
    fails(text, "spec.versions: none of them can be served");
}

/* With all that kube-apiserver adds. */
#define STORED_HEAD                                                                                                    \
    "{\"kind\":\"CustomResourceDefinition\",\"apiVersion\":\"apiextensions.k8s.io/v1beta1\",\"metadata\":{\"name\":"   \
    "\"things.x.io\",\"uid\":\"6f6c0b6a-8d9c-4a3e-9d55-0d5f4d4c1f11\",\"generation\":1,\"creationTimestamp\":"         \
    "\"2024-01-01T00:00:00Z\",\"managedFields\":[{\"manager\":\"kubectl\",\"operation\":\"Update\",\"apiVersion\":"    \
    "\"apiextensions.k8s.io/"                                                                                          \
    "v1\",\"fieldsV1\":{\"f:spec\":{\"f:group\":{}}}}]},\"spec\":{\"group\":\"x.io\",\"version\":"                     \
    "\"v1\",\"names\":{\"plural\":\"things\",\"singular\":\"thing\",\"kind\":\"Thing\",\"listKind\":\"ThingList\"},"   \
    "\"scope\":\"Namespaced\",\"conversion\":{\"strategy\":\"None\"},\"preserveUnknownFields\":false"
#define STORED_TAIL                                                                                                    \
    "},\"status\":{\"conditions\":[{\"type\":\"Established\",\"status\":\"True\"}],\"acceptedNames\":{\"plural\":"     \
    "\"things\","                                                                                                      \
    "\"kind\":\"Thing\"},\"storedVersions\":[\"v1\"]}}"

static void a_definition_is_read_as_kubernetes_stores_it(void **state)
{
    (void)state;
    struct kube_resource *it = read_plain(
        STORED_HEAD ",\"validation\":{\"openAPIV3Schema\":{\"type\":\"object\"}},\"subresources\":{\"status\":{}},"
                    "\"additionalPrinterColumns\":[{\"name\":\"A\",\"type\":\"string\",\"JSONPath\":\".spec.a\"}],"
                    "\"selectableFields\":[{\"jsonPath\":\".spec.a\"}],"
                    "\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true},"
                    "{\"name\":\"v2\",\"served\":true,\"storage\":false,\"schema\":{\"openAPIV3Schema\":{}},"
                    "\"additionalPrinterColumns\":[]}]" STORED_TAIL);
    assert_int_equal(it->n_served, 2);
    const struct kube_version *v2 = &it->versions[0], *v1 = &it->versions[1];
    assert_string_equal(v1->name, "v1");
    assert_true(v1->storage && v1->has_status && v2->has_status);
    assert_string_equal(v1->schema, "{\"type\":\"object\"}");
    assert_int_equal(v1->n_columns, 1);
    assert_string_equal(v1->columns[0].name, "A");
    assert_string_equal(v1->fields[0].name, "spec.a");
    assert_string_equal(v2->schema, "{}"); /* its own comes first */
    assert_int_equal(v2->n_columns, 0);
    kube_resource_unref(it);
    fails(STORED_HEAD
          ",\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true}],"
          "\"additionalPrinterColumns\":[{\"name\":\"A\",\"type\":\"string\",\"JSONPath\":\"a\"}]" STORED_TAIL,
          "spec.additionalPrinterColumns[0].JSONPath: 'a' is no path");
}

static void the_core_group_has_no_name(void **state)
{
    (void)state;
    struct kube_resource *it = read_plain(
        HEAD "metadata: {name: notes}\nspec:\n  group: ''\n  scope: Namespaced\n"
             "  names: {plural: notes, kind: Note}\n  versions: [{name: v1, served: true, storage: true}]\n");
    assert_string_equal(it->versions[0].api_version, "v1");
    assert_string_equal(it->prefix, "/registry/notes/");
    kube_resource_unref(it);
}

static void faults_name_their_field(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"a: b\n", "kind: missing"},
        {"apiVersion: v1\nkind: Pod\n", "kind: 'Pod': only CustomResourceDefinition is read"},
        {"apiVersion: apiextensions.k8s.io/v2\nkind: CustomResourceDefinition\n",
         "apiVersion: 'apiextensions.k8s.io/v2': only apiextensions.k8s.io/v1 is read"},
        {"kind: CustomResourceDefinition\n", "apiVersion: missing"},
        {"apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\n", "spec.group: missing"},
        {HEAD, "spec.group: missing"},
        {HEAD "spec: []\n", "spec: must be a map, not a value of type array"},
        {HEAD "spec: {group: 3}\n", "spec.group: must be a text, not a value of type number"},
        {HEAD "spec: {group: \"a\\0b\"}\n", "spec.group: holds a zero byte"},
        {HEAD "spec: {group: A.b}\n", "spec.group: 'A.b' is not a lower-case domain name"},
        {HEAD "spec: {group: x.io}\n", "spec.scope: missing"},
        {HEAD "spec: {group: x.io, scope: namespaced}\n", "spec.scope: 'namespaced' is neither"},
        {HEAD "spec: {group: x.io, scope: Cluster}\n", "spec.names.plural: missing"},
        {HEAD "spec: {group: x.io, scope: Cluster, names: {plural: ''}}\n", "spec.names.plural: empty"},
        {HEAD "spec: {group: x.io, scope: Cluster, names: {plural: Things, kind: T}}\n",
         "spec.names.plural: 'Things' is none of the names of 1 to 63 lower-case letters"},
        {HEAD "spec: {group: x.io, scope: Cluster, names: {plural: ts, kind: T.T}}\n",
         "spec.names.kind: 'T.T' is no kind"},
        {HEAD "spec: {group: x.io, scope: Cluster, names: {plural: ts, kind: T, listKind: T}}\n",
         "spec.names.listKind: the same as kind"},
        {HEAD "spec: {group: x.io, scope: Cluster, names: {plural: ts, kind: T, shortNames: [a, B]}}\n",
         "spec.names.shortNames: must hold names of 1 to 63"},
        {HEAD "spec: {group: x.io, scope: Cluster, names: {plural: ts, kind: T, shortNames: [\"a\\0b\"]}}\n",
         "spec.names.shortNames: must hold names of 1 to 63"},
        {HEAD "spec: {group: x.io, scope: Cluster, names: {plural: ts, kind: T, categories: a}}\n",
         "spec.names.categories: must be a list, not a value of type string"},
        {HEAD "spec: {group: x.io, scope: Cluster, names: {plural: ts, kind: T}}\n", "metadata.name: missing"},
        {HEAD "metadata: {name: ts.y.io}\nspec: {group: x.io, scope: Cluster, names: {plural: ts, kind: T}}\n",
         "metadata.name: 'ts.y.io' must be spec.names.plural.spec.group: ts.x.io"},
        {"a: [\n", "line 2: "},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        fails(cases[i].text, cases[i].why);
}

static void faults_of_a_version_name_its_number(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "spec.versions: missing"},
        {"  versions: []\n", "spec.versions: missing"},
        {"  versions: [{name: v1, served: true}]\n", "spec.versions: 0 have storage: true: one must have it"},
        {"  versions: [{name: v1, storage: true}]\n", "spec.versions: none of them can be served"},
        {"  versions: [{name: v1, storage: true}, {name: v1}]\n", "spec.versions: v1 is there twice"},
        {"  versions: [{name: v1, storage: true}, {name: v2, storage: true}]\n", "spec.versions: 2 have storage"},
        {"  versions: [{name: v1}, {name: V2}]\n", "spec.versions[1].name: 'V2' is not a version name"},
        {"  versions: [x]\n", "spec.versions[0]: must be a map"},
        {"  versions: [{name: v1, served: 'yes'}]\n",
         "spec.versions[0].served: must be true or false, not a value of type string"},
        {"  versions: [{name: v1, subresources: {status: 1}}]\n",
         "spec.versions[0].subresources.status: must be a map"},
        {"  versions: [{name: v1, schema: {openAPIV3Schema: x}}]\n",
         "spec.versions[0].schema.openAPIV3Schema: must be a map"},
        {"  versions: [{name: v1, additionalPrinterColumns: [{name: a}]}]\n",
         "spec.versions[0].additionalPrinterColumns[0].type: missing"},
        {"  versions: [{name: v1, additionalPrinterColumns: [{name: a, type: text}]}]\n",
         "spec.versions[0].additionalPrinterColumns[0].type: 'text' is none of"},
        {"  versions: [{name: v1, additionalPrinterColumns: [{name: a, type: string, jsonPath: a}]}]\n",
         "spec.versions[0].additionalPrinterColumns[0].jsonPath: 'a' is no path"},
        {"  versions: [{name: v1, additionalPrinterColumns: [{name: a, type: string, jsonPath: .a, priority: 1.5}]}]\n",
         "spec.versions[0].additionalPrinterColumns[0].priority: must be a whole number"},
        {"  versions: [{name: v1, additionalPrinterColumns: [{name: a, type: string, jsonPath: .a, priority: "
         "99999999999}]}]\n",
         "spec.versions[0].additionalPrinterColumns[0].priority: must be a whole number"},
        {"  versions: [{name: v1, additionalPrinterColumns: [{name: a, type: string, jsonPath: .a, priority: x}]}]\n",
         "spec.versions[0].additionalPrinterColumns[0].priority: must be a whole number"},
        {"  versions: [{name: v1, selectableFields: [{jsonPath: '.a[0]'}]}]\n",
         "spec.versions[0].selectableFields[0].jsonPath: '.a[0]' must be names"},
        {"  versions: [{name: v1, selectableFields: [{jsonPath: .metadata.name}]}]\n",
         "spec.versions[0].selectableFields[0].jsonPath: '.metadata.name' is in metadata"},
        {"  versions: [{name: v1, selectableFields: [{jsonPath: .a}, {jsonPath: .a}]}]\n",
         "spec.versions[0].selectableFields[1].jsonPath: '.a' is there twice"},
        {"  versions: [{name: v1, selectableFields: [{jsonPath: .a=b}]}]\n",
         "spec.versions[0].selectableFields[0].jsonPath: '.a=b' cannot be written"},
        {"  conversion: {strategy: 1}\n  versions: [{name: v1, served: true, storage: true}]\n",
         "spec.conversion.strategy: must be a text"},
    };
    char text[1024];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        manifest_of(text, sizeof(text), "Namespaced", cases[i].text);
        fails(text, cases[i].why);
    }
}

/* A list under `key` of so many elements, each "{jsonPath: .a<i>}" and what `more` adds. */
static void list_of(char *out, size_t room, const char *key, size_t n, const char *more)
{
    size_t at =
        (size_t)snprintf(out, room, "  versions:\n  - name: v1\n    served: true\n    storage: true\n    %s:\n", key);
    for (size_t i = 0; i < n && at < room; i++)
        at += (size_t)snprintf(out + at, room - at, "    - {jsonPath: .a%zu%s}\n", i, more);
    assert_true(at < room);
}

static void lists_have_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *key, *more, *why;
        size_t max;
    } cases[] = {
        {"selectableFields", "", "spec.versions[0].selectableFields: has 9 elements: at most 8", KUBE_CRD_FIELDS},
        {"additionalPrinterColumns", ", name: a, type: string",
         "spec.versions[0].additionalPrinterColumns: has 65 elements: at most 64", KUBE_COLUMNS_MAX},
    };
    char list[8192], text[9000];
    for (size_t i = 0; i < 2; i++) {
        list_of(list, sizeof(list), cases[i].key, cases[i].max, cases[i].more);
        manifest_of(text, sizeof(text), "Cluster", list);
        kube_resource_unref(read_plain(text));
        list_of(list, sizeof(list), cases[i].key, cases[i].max + 1, cases[i].more);
        manifest_of(text, sizeof(text), "Cluster", list);
        fails(text, cases[i].why);
    }
    size_t at = (size_t)snprintf(list, sizeof(list), "  versions:\n");
    for (int i = 0; i <= KUBE_VERSIONS_MAX; i++)
        at += (size_t)snprintf(list + at, sizeof(list) - at, "  - name: v%d\n", i);
    manifest_of(text, sizeof(text), "Cluster", list);
    fails(text, "spec.versions: has 17 elements: at most 16");
}

static void versions_have_kubernetes_order(void **state)
{
    (void)state;
    static const char *const order[] = {"v10",       "v2", "v1",   "v11beta2", "v10beta3", "v3beta1", "v12alpha1",
                                        "v11alpha2", "a",  "foo1", "foo10",    "v1beta",   "v1x"};
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        for (size_t k = 0; k < sizeof(order) / sizeof(order[0]); k++) {
            int got = kube_version_order(order[i], order[k]);
            assert_int_equal((got > 0) - (got < 0), (i > k) - (i < k));
        }
    }
}

static void names_are_labels_and_subdomains(void **state)
{
    (void)state;
    char longest[KUBE_SUBDOMAIN_MAX + 1];
    memset(longest, 'a', sizeof(longest));
    assert_true(kube_name_is_label(belfry_bytes_str("a-1")));
    assert_true(kube_name_is_label(belfry_bytes_str("1")));
    assert_false(kube_name_is_word(belfry_bytes_str("1")));
    assert_false(kube_name_is_label(belfry_bytes_str("")));
    assert_false(kube_name_is_label(belfry_bytes_str("-a")));
    assert_false(kube_name_is_label(belfry_bytes_str("a-")));
    assert_false(kube_name_is_label(belfry_bytes_str("a.b")));
    assert_false(kube_name_is_label(belfry_bytes_str("A")));
    assert_true(kube_name_is_label(belfry_bytes_of(longest, KUBE_LABEL_MAX)));
    assert_false(kube_name_is_label(belfry_bytes_of(longest, KUBE_LABEL_MAX + 1)));
    assert_true(kube_name_is_subdomain(belfry_bytes_str("a.b-c.1")));
    assert_false(kube_name_is_subdomain(belfry_bytes_str("a..b")));
    assert_false(kube_name_is_subdomain(belfry_bytes_str(".a")));
    assert_false(kube_name_is_subdomain(belfry_bytes_str("a.")));
    assert_false(kube_name_is_subdomain(belfry_bytes_str("a/b")));
    assert_true(kube_name_is_subdomain(belfry_bytes_of(longest, KUBE_SUBDOMAIN_MAX)));
    assert_false(kube_name_is_subdomain(belfry_bytes_of(longest, KUBE_SUBDOMAIN_MAX + 1)));
}

/* ---- keys ---- */

static void has_parts(const struct kube_resource *it, const char *key, const char *namespace, const char *name)
{
    struct belfry_bytes found_namespace, found_name;
    if (!kube_resource_parts(it, belfry_bytes_str(key), &found_namespace, &found_name))
        fail_msg("no parts: %s", key);
    assert_true(belfry_bytes_equal(found_namespace, belfry_bytes_str(namespace)));
    assert_true(belfry_bytes_equal(found_name, belfry_bytes_str(name)));
}

static void has_none(const struct kube_resource *it, const char *const *keys)
{
    struct belfry_bytes namespace, name;
    for (; *keys != NULL; keys++) {
        if (kube_resource_parts(it, belfry_bytes_str(*keys), &namespace, &name))
            fail_msg("parts of %s", *keys);
    }
}

static void has_key(const struct kube_resource *it, const char *namespace, const char *name, const char *expected,
                    bool expected_filter)
{
    struct belfry_buf buf;
    bool filter = !expected_filter;
    belfry_buf_init(&buf);
    assert_int_equal(kube_resource_key(it, belfry_bytes_str(namespace), belfry_bytes_str(name), &buf, &filter),
                     BELFRY_OK);
    assert_int_equal(belfry_buf_append(&buf, "", 1), BELFRY_OK);
    assert_string_equal(belfry_buf_bytes(&buf).data, expected);
    assert_int_equal(filter, expected_filter);
    belfry_buf_fini(&buf);
}

static void a_namespaced_key_is_namespace_and_name(void **state)
{
    (void)state;
    struct kube_resource *it = thing("Namespaced", &(struct kube_resource_opts){0});
    has_parts(it, "/registry/x.io/things/ns/a.b", "ns", "a.b");
    has_none(it, (const char *const[]){"/registry/x.io/things/a", "/registry/x.io/things/ns/a/b",
                                       "/registry/x.io/things/n.s/a", "/registry/x.io/things/ns/A",
                                       "/registry/x.io/things/ns/", "/registry/x.io/things//a",
                                       "/registry/x.io/things/", "/registry/x.io/thingsx/ns/a", "/registry", "", NULL});
    has_key(it, "ns", "a", "/registry/x.io/things/ns/a", false);
    has_key(it, "ns", "", "/registry/x.io/things/ns/", false);
    has_key(it, "", "", "/registry/x.io/things/", false);
    has_key(it, "", "a", "/registry/x.io/things/", true);
    kube_resource_unref(it);
}

static void a_cluster_scoped_key_is_a_name(void **state)
{
    (void)state;
    struct kube_resource *it = thing("Cluster", &(struct kube_resource_opts){.prefix = "/app/{plural}"});
    assert_string_equal(it->prefix, "/app/things/");
    has_parts(it, "/app/things/a.b", "", "a.b");
    has_none(it, (const char *const[]){"/app/things/ns/a", "/app/things/", NULL});
    has_key(it, "", "a", "/app/things/a", false);
    has_key(it, "ignored", "a", "/app/things/a", false);
    has_key(it, "", "", "/app/things/", false);
    kube_resource_unref(it);
}

static void a_template_has_literals(void **state)
{
    (void)state;
    struct kube_resource *it =
        thing("Cluster", &(struct kube_resource_opts){.prefix = "/app/", .wrap_key = "{name}/config"});
    assert_string_equal(it->wrap_field, "spec");
    has_parts(it, "/app/a/config", "", "a");
    has_none(it,
             (const char *const[]){"/app/a", "/app/a/b/config", "/app/a/configs", "/app/config", "/app//config", NULL});
    has_key(it, "", "a", "/app/a/config", false);
    kube_resource_unref(it);

    it = thing("Namespaced",
               &(struct kube_resource_opts){.prefix = "/app/", .wrap_key = "x/{namespace}/cfg/{name}.json"});
    has_parts(it, "/app/x/ns/cfg/a.json", "ns", "a");
    has_parts(it, "/app/x/ns/cfg/a.json.json", "ns", "a.json");
    has_none(it, (const char *const[]){"/app/ns/cfg/a.json", "/app/x/ns/cf/a.json", "/app/x/ns/cfg/a",
                                       "/app/x/ns/cfg/.json", "/app/x/.json", "/app/x/", NULL});
    has_key(it, "ns", "a", "/app/x/ns/cfg/a.json", false);
    has_key(it, "ns", "", "/app/x/ns/cfg/", false);
    has_key(it, "", "", "/app/x/", false);
    kube_resource_unref(it);

    it = thing("Namespaced", &(struct kube_resource_opts){.prefix = "/app/", .wrap_key = "{namespace}a/b/{name}"});
    has_parts(it, "/app/aaa/b/c", "aa", "c");
    has_none(it, (const char *const[]){"/app/a/b/c", "/app//b/c", "/app/xb/b/c", NULL});
    kube_resource_unref(it);
}

static void a_name_may_come_first(void **state)
{
    (void)state;
    struct kube_resource *it =
        thing("Namespaced", &(struct kube_resource_opts){.prefix = "/app/", .wrap_key = "{name}/{namespace}"});
    has_parts(it, "/app/a.b/ns", "ns", "a.b");
    has_key(it, "ns", "a", "/app/a/ns", false);
    has_key(it, "ns", "", "/app/", true);
    has_key(it, "", "a", "/app/a/", false);
    has_key(it, "", "", "/app/", false);
    kube_resource_unref(it);
}

static void a_wrap_has_defaults(void **state)
{
    (void)state;
    struct kube_resource *it = thing("Namespaced", &(struct kube_resource_opts){.wrap_field = "data"});
    assert_string_equal(it->wrap_key, "{namespace}/{name}");
    assert_string_equal(it->wrap_field, "data");
    kube_resource_unref(it);
    it = thing("Cluster", &(struct kube_resource_opts){.wrap_field = "data"});
    assert_string_equal(it->wrap_key, "{name}");
    kube_resource_unref(it);
}

static void what_cannot_be_a_place_is_refused(void **state)
{
    (void)state;
    char text[1024], endless[KUBE_PREFIX_MAX + 2];
    memset(endless, 'x', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    const struct {
        const char *scope;
        struct kube_resource_opts opts;
        const char *why;
    } cases[] = {
        {"Cluster", {.prefix = ""}, "prefix: must have 1 to 512 bytes"},
        {"Cluster", {.prefix = endless}, "prefix: must have 1 to 512 bytes"},
        {"Cluster", {.prefix = "/{kind}/"}, "prefix: '/{kind}/' has braces"},
        {"Cluster", {.wrap_key = endless}, "wrap key: longer than 512 bytes"},
        {"Cluster", {.wrap_key = ""}, "wrap key: '' has no {name}"},
        {"Cluster", {.wrap_key = "{namespace}/{name}"}, "wrap key: '{namespace}/{name}' has a {namespace}, and"},
        {"Namespaced", {.wrap_key = "{name}"}, "wrap key: '{name}' has no {namespace}, and"},
        {"Namespaced", {.wrap_key = "{namespace}{name}"}, "wrap key: '{namespace}{name}' has no '/' between"},
        {"Namespaced", {.wrap_key = "{namespace}-{name}"}, "wrap key: '{namespace}-{name}' has no '/' between"},
        {"Cluster", {.wrap_key = "{name}/{name}"}, "wrap key: '{name}/{name}' has a part twice"},
        {"Cluster", {.wrap_key = "{x}/{name}"}, "wrap key: '{x}/{name}' has braces"},
        {"Cluster", {.wrap_field = "metadata"}, "wrap field: 'metadata' is not a field"},
        {"Cluster", {.wrap_field = "a.b"}, "wrap field: 'a.b' is not a field"},
        {"Cluster", {.wrap_field = ""}, "wrap field: '' is not a field"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        manifest_of(text, sizeof(text), cases[i].scope, "  versions: [{name: v1, served: true, storage: true}]\n");
        fails_with(text, &cases[i].opts, cases[i].why);
    }
}

static void the_hash_tells_manifests_and_places_apart(void **state)
{
    (void)state;
    struct kube_resource *a = read_plain(widgets), *b = read_plain(widgets);
    struct kube_resource *c = read_with(widgets, &(struct kube_resource_opts){.prefix = "/x/"});
    struct kube_resource *d = read_with(widgets, &(struct kube_resource_opts){.wrap_field = "spec"});
    struct kube_resource *e = thing("Cluster", &(struct kube_resource_opts){0});
    assert_true(a->hash == b->hash);
    assert_true(a->hash != c->hash && a->hash != d->hash && a->hash != e->hash);
    kube_resource_unref(a);
    kube_resource_unref(b);
    kube_resource_unref(c);
    kube_resource_unref(d);
    kube_resource_unref(e);
}

/* What a controller writes into a definition all day must not end the watches of its objects. */
static void the_hash_is_of_what_counts(void **state)
{
    (void)state;
    static const char spec[] = "  group: x.io\n  scope: Cluster\n  names: {plural: things, kind: Thing}\n"
                               "  versions: [{name: v1, served: true, storage: true, schema: {a: .inf}}]\n";
    static const char *const around[][2] = {
        {"metadata: {name: things.x.io}\nspec:\n", ""},
        {"metadata: {name: things.x.io, annotations: {a: b}}\nspec:\n", ""},
        {"metadata: {name: things.x.io}\n\nspec:\n", "status: {conditions: [{type: Established}]}\n"},
        {"metadata: {name: things.x.io}\nspec:\n", "  preserveUnknownFields: true\n"},
    };
    uint64_t hashes[4];
    for (size_t i = 0; i < 4; i++) {
        char text[1024];
        snprintf(text, sizeof(text), HEAD "%s%s%s", around[i][0], spec, around[i][1]);
        struct kube_resource *it = read_plain(text);
        hashes[i] = it->hash;
        kube_resource_unref(it);
    }
    assert_true(hashes[0] == hashes[1] && hashes[0] == hashes[2]);
    assert_true(hashes[0] != hashes[3]);
}

static void the_last_reference_frees(void **state)
{
    (void)state;
    size_t before = refuse_held();
    struct kube_resource *it = read_plain(widgets), *again = kube_resource_ref(it);
    assert_ptr_equal(it, again);
    kube_resource_unref(it);
    assert_string_equal(again->kind, "Widget");
    kube_resource_unref(again);
    kube_resource_unref(NULL);
    assert_int_equal(refuse_held(), before);
}

/* ---- no memory ---- */

static enum belfry_err read_and_ask(void)
{
    struct kube_resource *it = NULL;
    struct belfry_buf buf;
    char *why = NULL;
    bool filter;
    belfry_buf_init(&buf);
    enum belfry_err err =
        kube_resource_read(belfry_bytes_str(widgets), &(struct kube_resource_opts){.wrap_field = "spec"}, &it, &why);
    if (err == BELFRY_OK)
        err = kube_resource_key(it, belfry_bytes_str("a"), belfry_bytes_str("b"), &buf, &filter);
    belfry_buf_fini(&buf);
    free(why);
    kube_resource_unref(it);
    return err;
}

/* ---- from discovery ---- */

static const struct kube_api_resource pods = {
    .version = "v1", .group = "", .plural = "pods", .singular = "pod", .kind = "Pod", .namespaced = true};
static const struct kube_api_resource gadgets = {
    .version = "v1beta1", .group = "demo.example.com", .plural = "gadgets", .singular = "", .kind = "Gadget"};

static struct kube_resource *of_api(const struct kube_api_resource *of)
{
    struct kube_resource *it;
    assert_int_equal(kube_resource_of_api(of, &it), BELFRY_OK);
    return it;
}

static void a_built_in_type_is_known_by_its_discovery(void **state)
{
    (void)state;
    struct kube_resource *it = of_api(&pods);
    const struct kube_version *v1 = kube_resource_served(it, belfry_bytes_str("v1"));
    assert_non_null(v1);
    assert_string_equal(v1->api_version, "v1");
    assert_string_equal(it->list_kind, "PodList");
    assert_string_equal(it->prefix, "");
    assert_true(it->is_verbatim && it->namespaced);
    assert_string_equal(it->omitted, "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",");
    assert_string_equal(v1->fields[0].name, "spec.nodeName");
    for (size_t i = 0; i < v1->n_fields; i++)
        assert_true(v1->fields[i].path == NULL || belfry_kube_path_is_simple(v1->fields[i].path));
    kube_resource_unref(it);
}

static void a_field_of_a_built_in_type_may_have_a_value_that_is_not_written(void **state)
{
    (void)state;
    struct kube_api_resource nodes = {.version = "v1", .group = "", .plural = "nodes", .singular = "", .kind = "Node"};
    struct kube_resource *it = of_api(&nodes);
    assert_int_equal(it->versions[0].n_fields, 1);
    assert_string_equal(it->versions[0].fields[0].missing, "false");
    kube_resource_unref(it);
}

static void a_custom_resource_keeps_its_kind_in_lists(void **state)
{
    (void)state;
    struct kube_resource *it = of_api(&gadgets);
    assert_string_equal(it->versions[0].api_version, "demo.example.com/v1beta1");
    assert_null(it->omitted);
    assert_int_equal(it->versions[0].n_fields, 0);
    assert_true(it->is_verbatim && !it->namespaced);
    kube_resource_unref(it);
}

/* Paths come from a definition that the API server has accepted; what is no path here is left out, and relayed. */
static void a_custom_resource_has_the_fields_of_its_definition(void **state)
{
    (void)state;
    static const char *const paths[] = {".spec.color", "spec.size",       ".spec.list[0]",
                                        ".spec.a=b",   ".spec.deep.size", ""};
    struct kube_api_resource of = gadgets;
    of.fields = paths;
    of.n_fields = sizeof(paths) / sizeof(paths[0]);
    struct kube_resource *it = of_api(&of), *plain = of_api(&gadgets);
    assert_int_equal(it->versions[0].n_fields, 2);
    assert_string_equal(it->versions[0].fields[0].name, "spec.color");
    assert_string_equal(it->versions[0].fields[1].name, "spec.deep.size");
    assert_true(it->versions[0].no_namespace);
    assert_true(it->hash != plain->hash);
    kube_resource_unref(it);
    kube_resource_unref(plain);
}

static void the_fields_of_a_definition_are_bounded(void **state)
{
    (void)state;
    static const char *const paths[] = {".a", ".b", ".c", ".d", ".e", ".f", ".g", ".h", ".i", ".j"};
    struct kube_api_resource of = gadgets;
    of.fields = paths;
    of.n_fields = sizeof(paths) / sizeof(paths[0]);
    of.namespaced = true;
    struct kube_resource *it = of_api(&of);
    assert_int_equal(it->versions[0].n_fields, KUBE_CRD_FIELDS);
    assert_false(it->versions[0].no_namespace);
    kube_resource_unref(it);
}

static void names_of_an_api_server_are_its_own(void **state)
{
    (void)state;
    struct kube_resource *namespaced = of_api(&pods), *cluster = of_api(&gadgets);
    static const struct {
        const char *key, *namespace, *name; /* name NULL: no object */
    } keys[] = {{"a/b", "a", "b"},     {"a/system:b", "a", "system:b"},
                {"a/B_c", "a", "B_c"}, {"a", "", NULL},
                {"/b", "", NULL},      {"a/", "", NULL},
                {"a/b/c", "", NULL}},
      clusters[] = {{"system:node", "", "system:node"}, {"a/b", "", NULL}, {"", "", NULL}};
    struct belfry_bytes namespace, name;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        bool is = kube_resource_parts(namespaced, belfry_bytes_str(keys[i].key), &namespace, &name);
        assert_int_equal(is, keys[i].name != NULL);
        assert_true(!is || belfry_bytes_equal(namespace, belfry_bytes_str(keys[i].namespace)));
        assert_true(!is || belfry_bytes_equal(name, belfry_bytes_str(keys[i].name)));
    }
    for (size_t i = 0; i < sizeof(clusters) / sizeof(clusters[0]); i++)
        assert_int_equal(kube_resource_parts(cluster, belfry_bytes_str(clusters[i].key), &namespace, &name),
                         clusters[i].name != NULL);
    kube_resource_unref(namespaced);
    kube_resource_unref(cluster);
}

static void discovery_with_impossible_names_is_refused(void **state)
{
    (void)state;
    struct kube_resource *it = NULL;
    struct kube_api_resource wrong[] = {pods, pods, pods, pods, pods};
    wrong[0].group = "A/b";
    wrong[1].version = "";
    wrong[2].plural = "po/ds";
    wrong[3].kind = "Po\"d";
    wrong[4].kind = "";
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(kube_resource_of_api(&wrong[i], &it), BELFRY_ERR_INVALID);
    assert_null(it);
}

static enum belfry_err make_pods(void)
{
    struct kube_resource *it = NULL;
    enum belfry_err err = kube_resource_of_api(&pods, &it);
    kube_resource_unref(it);
    return err;
}

static enum belfry_err make_gadgets(void)
{
    static const char *const paths[] = {".spec.color", ".spec.list[0]"};
    struct kube_api_resource of = gadgets;
    struct kube_resource *it = NULL;
    of.fields = paths;
    of.n_fields = sizeof(paths) / sizeof(paths[0]);
    enum belfry_err err = kube_resource_of_api(&of, &it);
    kube_resource_unref(it);
    return err;
}

static enum belfry_err read_what_is_wrong(void)
{
    struct kube_resource *it = NULL;
    char *why = NULL;
    enum belfry_err err = kube_resource_read(belfry_bytes_str(HEAD "spec: {group: x.io, scope: Cluster}\n"),
                                             &(struct kube_resource_opts){0}, &it, &why);
    free(why); /* may be missing, then err is what counts */
    return err == BELFRY_ERR_INVALID ? BELFRY_OK : err;
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    assert_true(refuse_sweep(read_and_ask) > 40);
    assert_true(refuse_sweep(read_what_is_wrong) > 3);
    assert_true(refuse_sweep(make_pods) > 20);
    assert_true(refuse_sweep(make_gadgets) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_scope_are_the_manifests),
        cmocka_unit_test(served_versions_come_first_the_preferred_before_the_others),
        cmocka_unit_test(columns_fields_and_schema_belong_to_a_version),
        cmocka_unit_test(json_says_the_same),
        cmocka_unit_test(what_a_webhook_converts_is_served_as_it_is_stored),
        cmocka_unit_test(a_definition_is_read_as_kubernetes_stores_it),
        cmocka_unit_test(the_core_group_has_no_name),
        cmocka_unit_test(faults_name_their_field),
        cmocka_unit_test(faults_of_a_version_name_its_number),
        cmocka_unit_test(lists_have_bounds),
        cmocka_unit_test(versions_have_kubernetes_order),
        cmocka_unit_test(names_are_labels_and_subdomains),
        cmocka_unit_test(a_namespaced_key_is_namespace_and_name),
        cmocka_unit_test(a_cluster_scoped_key_is_a_name),
        cmocka_unit_test(a_template_has_literals),
        cmocka_unit_test(a_name_may_come_first),
        cmocka_unit_test(a_wrap_has_defaults),
        cmocka_unit_test(what_cannot_be_a_place_is_refused),
        cmocka_unit_test(the_hash_tells_manifests_and_places_apart),
        cmocka_unit_test(the_hash_is_of_what_counts),
        cmocka_unit_test(the_last_reference_frees),
        cmocka_unit_test(a_built_in_type_is_known_by_its_discovery),
        cmocka_unit_test(a_field_of_a_built_in_type_may_have_a_value_that_is_not_written),
        cmocka_unit_test(a_custom_resource_keeps_its_kind_in_lists),
        cmocka_unit_test(a_custom_resource_has_the_fields_of_its_definition),
        cmocka_unit_test(the_fields_of_a_definition_are_bounded),
        cmocka_unit_test(names_of_an_api_server_are_its_own),
        cmocka_unit_test(discovery_with_impossible_names_is_refused),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
