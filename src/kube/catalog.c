/* src/kube/catalog.c */
#include "kube/catalog.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "kube/name.h"
#include "kube/version.h"
#include "json/json.h"
#include "json/json_alc.h"

#define TOLD_MAX        8 /* rejected resources that *why names */
#define DOCUMENT_PATH   (KUBE_SUBDOMAIN_MAX + KUBE_LABEL_MAX + 32)
#define FIXED_DOCUMENTS 5 /* /api and /apis in two forms, /openapi/v3 */

struct entry {
    struct belfry_map_node by_plural, by_kind;
    struct kube_resource *resource; /* one reference */
};

/* An API group: its resources, and the versions in which any of them is served. */
struct group {
    const char *name;                       /* "": core */
    struct kube_resource *const *resources; /* lent */
    size_t n_resources;
    const char **versions; /* owned; the preferred one first; none if there are no resources */
    size_t n_versions;
};

struct document {
    struct belfry_map_node node;
    char path[DOCUMENT_PATH];
    bool aggregated;
    struct belfry_buf body;
    const struct group *group; /* NULL: the body is written. Otherwise write the schemas when requested, */
    const char *version;       /* for this version of the group */
};

struct kube_catalog {
    atomic_uint refs;
    /* fixed once made */
    struct entry *entries;
    size_t n_entries;
    struct belfry_map by_plural, by_kind; /* of entries */
    struct kube_resource **ordered;       /* the same resources, by group and plural; lent from entries */
    const char **guards;                  /* sorted, distinct; lent from resources */
    size_t n_guards;
    struct group *groups; /* the core group first, even without resources */
    size_t n_groups;
    struct document *documents;
    size_t n_documents;
    struct belfry_map by_path;
    uint64_t hash;
};

enum extent { WHOLE, PART };

/* A fixed key is safe: no peer chooses the content of these maps. */
static const struct belfry_hash_key hash_key = {0, 0};

/* ---- its life ---- */

static struct kube_catalog *mutable(const struct kube_catalog *catalog)
{
    return (struct kube_catalog *)(uintptr_t)catalog; /* only the reference count changes */
}

struct kube_catalog *kube_catalog_ref(const struct kube_catalog *catalog)
{
    atomic_fetch_add_explicit(&mutable(catalog)->refs, 1, memory_order_relaxed);
    return mutable(catalog);
}

static void catalog_destroy(struct kube_catalog *catalog)
{
    for (size_t i = 0; i < catalog->n_documents; i++)
        belfry_buf_fini(&catalog->documents[i].body);
    for (size_t i = 0; i < catalog->n_groups; i++)
        free(catalog->groups[i].versions);
    for (size_t i = 0; i < catalog->n_entries; i++)
        kube_resource_unref(catalog->entries[i].resource);
    belfry_map_fini(&catalog->by_plural);
    belfry_map_fini(&catalog->by_kind);
    belfry_map_fini(&catalog->by_path);
    free(catalog->documents);
    free(catalog->groups);
    free(catalog->guards);
    free(catalog->ordered);
    free(catalog->entries);
    free(catalog);
}

void kube_catalog_unref(const struct kube_catalog *catalog)
{
    if (catalog == NULL)
        return;
    if (atomic_fetch_sub_explicit(&mutable(catalog)->refs, 1, memory_order_acq_rel) == 1) /* uses end before the free */
        catalog_destroy(mutable(catalog));
}

/* ---- resources ---- */

static uint64_t hash_pair(struct belfry_bytes group, struct belfry_bytes name)
{
    return belfry_hash_int(belfry_hash(hash_key, group)) ^ belfry_hash(hash_key, name);
}

static bool text_is(const char *text, struct belfry_bytes bytes)
{
    return belfry_bytes_equal(belfry_bytes_str(text), bytes);
}

static const struct entry *find_plural(const struct kube_catalog *catalog, struct belfry_bytes group,
                                       struct belfry_bytes plural)
{
    struct belfry_map_node *node = belfry_map_first(&catalog->by_plural, hash_pair(group, plural));
    for (; node != NULL; node = belfry_map_next(node)) {
        const struct entry *entry = belfry_container(node, struct entry, by_plural);
        if (text_is(entry->resource->group, group) && text_is(entry->resource->plural, plural))
            return entry;
    }
    return NULL;
}

static const struct entry *find_kind(const struct kube_catalog *catalog, struct belfry_bytes group,
                                     struct belfry_bytes kind)
{
    struct belfry_map_node *node = belfry_map_first(&catalog->by_kind, hash_pair(group, kind));
    for (; node != NULL; node = belfry_map_next(node)) {
        const struct entry *entry = belfry_container(node, struct entry, by_kind);
        if (text_is(entry->resource->group, group) && text_is(entry->resource->kind, kind))
            return entry;
    }
    return NULL;
}

static enum belfry_err tell_left_out(struct belfry_buf *said, size_t n, const struct kube_resource *left_out,
                                     const struct kube_resource *stays)
{
    char text[2 * KUBE_SUBDOMAIN_MAX];
    int len;
    if (n > TOLD_MAX)
        return BELFRY_OK;
    if (n == TOLD_MAX)
        len = snprintf(text, sizeof(text), "; and others");
    else
        len = snprintf(text, sizeof(text), "%s%s%s%s: left out, for %s of kind %s came first", n > 0 ? "; " : "",
                       left_out->plural, left_out->group[0] == '\0' ? "" : ".", left_out->group, stays->plural,
                       stays->kind);
    size_t room = sizeof(text) - 1;
    return belfry_buf_append(said, text, (size_t)len < room ? (size_t)len : room);
}

static void add_entry(struct kube_catalog *catalog, const struct kube_resource *resource)
{
    struct entry *entry = &catalog->entries[catalog->n_entries];
    struct belfry_bytes group = belfry_bytes_str(resource->group);
    entry->resource = kube_resource_ref(resource);
    belfry_map_add(&catalog->by_plural, hash_pair(group, belfry_bytes_str(resource->plural)), &entry->by_plural);
    belfry_map_add(&catalog->by_kind, hash_pair(group, belfry_bytes_str(resource->kind)), &entry->by_kind);
    catalog->ordered[catalog->n_entries++] = entry->resource;
}

static int by_group_and_plural(const void *a, const void *b)
{
    const struct kube_resource *const *x = a, *const *y = b;
    int order = strcmp((*x)->group, (*y)->group);
    return order != 0 ? order : strcmp((*x)->plural, (*y)->plural);
}

static enum belfry_err take_resources(struct kube_catalog *catalog, struct kube_resource *const *resources, size_t n,
                                      struct belfry_buf *said)
{
    enum belfry_err err = BELFRY_OK;
    size_t n_left_out = 0;
    catalog->entries = calloc(n + 1, sizeof(*catalog->entries)); /* + 1: never allocate zero bytes */
    catalog->ordered = calloc(n + 1, sizeof(*catalog->ordered));
    if (catalog->entries == NULL || catalog->ordered == NULL)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < n && err == BELFRY_OK; i++) {
        struct belfry_bytes group = belfry_bytes_str(resources[i]->group);
        const struct entry *same = find_plural(catalog, group, belfry_bytes_str(resources[i]->plural));
        if (same == NULL)
            same = find_kind(catalog, group, belfry_bytes_str(resources[i]->kind));
        if (same == NULL)
            add_entry(catalog, resources[i]);
        else
            err = tell_left_out(said, n_left_out++, resources[i], same->resource);
    }
    qsort(catalog->ordered, catalog->n_entries, sizeof(*catalog->ordered), by_group_and_plural);
    return err;
}

/* ---- guards ---- */

static int text_cmp(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum belfry_err collect_guards(struct kube_catalog *catalog)
{
    catalog->guards = calloc(catalog->n_entries + 1, sizeof(*catalog->guards));
    if (catalog->guards == NULL)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < catalog->n_entries; i++)
        catalog->guards[i] = catalog->ordered[i]->guard;
    qsort(catalog->guards, catalog->n_entries, sizeof(*catalog->guards), text_cmp);
    for (size_t i = 0; i < catalog->n_entries; i++) {
        if (catalog->n_guards == 0 || strcmp(catalog->guards[catalog->n_guards - 1], catalog->guards[i]) != 0)
            catalog->guards[catalog->n_guards++] = catalog->guards[i];
    }
    return BELFRY_OK;
}

size_t kube_catalog_guards(const struct kube_catalog *catalog)
{
    return catalog->n_guards;
}

const char *kube_catalog_guard(const struct kube_catalog *catalog, size_t i)
{
    return catalog->guards[i];
}

/* ---- groups ---- */

static int version_preference_cmp(const void *a, const void *b)
{
    return kube_version_order(*(const char *const *)a, *(const char *const *)b);
}

/* A group has few versions however many resources it has, so the array grows by one per new version. */
static enum belfry_err add_version(struct group *group, const char *name)
{
    for (size_t i = 0; i < group->n_versions; i++) {
        if (strcmp(group->versions[i], name) == 0)
            return BELFRY_OK;
    }
    const char **versions = realloc(group->versions, (group->n_versions + 1) * sizeof(*versions));
    if (versions == NULL)
        return BELFRY_ERR_NOMEM;
    versions[group->n_versions++] = name;
    group->versions = versions;
    return BELFRY_OK;
}

/* A core group without resources has no version, not even v1: kubectl takes an empty version for a failure of the
 * server, and then caches nothing. */
static enum belfry_err collect_versions(struct group *group)
{
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < group->n_resources; i++) {
        for (size_t k = 0; k < group->resources[i]->n_served && err == BELFRY_OK; k++)
            err = add_version(group, group->resources[i]->versions[k].name);
    }
    if (err == BELFRY_OK && group->n_versions > 0)
        qsort(group->versions, group->n_versions, sizeof(*group->versions), version_preference_cmp);
    return err;
}

/* Adds group number `n_groups`, which begins at resource number `from`. Returns where the next group begins. */
static size_t add_group(struct kube_catalog *catalog, const char *name, size_t from)
{
    size_t to = from;
    while (to < catalog->n_entries && strcmp(catalog->ordered[to]->group, name) == 0)
        to++;
    catalog->groups[catalog->n_groups++] =
        (struct group){.name = name, .resources = catalog->ordered + from, .n_resources = to - from};
    return to;
}

static enum belfry_err make_groups(struct kube_catalog *catalog)
{
    enum belfry_err err = BELFRY_OK;
    catalog->groups = calloc(catalog->n_entries + 1, sizeof(*catalog->groups));
    if (catalog->groups == NULL)
        return BELFRY_ERR_NOMEM;
    size_t at = add_group(catalog, "", 0);
    while (at < catalog->n_entries)
        at = add_group(catalog, catalog->ordered[at]->group, at);
    for (size_t i = 0; i < catalog->n_groups && err == BELFRY_OK; i++)
        err = collect_versions(&catalog->groups[i]);
    return err;
}

/* ---- discovery documents (docs/spec/kubernetes-watch.md 1.2) ---- */

#define GROUP_VERSION_MAX (KUBE_SUBDOMAIN_MAX + KUBE_LABEL_MAX + 2)
#define STATUS_NAME_MAX   (KUBE_LABEL_MAX + sizeof("/status"))

static void write_list(struct belfry_json *json, const char *name, char *const *texts, size_t n)
{
    if (n == 0)
        return;
    belfry_json_open(json, name, '[');
    for (size_t i = 0; i < n; i++)
        belfry_json_str(json, NULL, texts[i]);
    belfry_json_close(json, ']');
}

static void write_verbs(struct belfry_json *json)
{
    belfry_json_open(json, "verbs", '[');
    belfry_json_str(json, NULL, "get");
    belfry_json_str(json, NULL, "list");
    belfry_json_str(json, NULL, "watch");
    belfry_json_close(json, ']');
}

static void write_get_verb(struct belfry_json *json)
{
    belfry_json_open(json, "verbs", '[');
    belfry_json_str(json, NULL, "get");
    belfry_json_close(json, ']');
}

static void write_response_kind(struct belfry_json *json, const struct kube_resource *resource, const char *version)
{
    belfry_json_open(json, "responseKind", '{');
    belfry_json_str(json, "group", resource->group);
    belfry_json_str(json, "version", version);
    belfry_json_str(json, "kind", resource->kind);
    belfry_json_close(json, '}');
}

static void write_aggregated_resource(struct belfry_json *json, const struct kube_resource *resource,
                                      const struct kube_version *version)
{
    belfry_json_open(json, NULL, '{');
    belfry_json_str(json, "resource", resource->plural);
    write_response_kind(json, resource, version->name);
    belfry_json_str(json, "scope", resource->namespaced ? "Namespaced" : "Cluster");
    belfry_json_str(json, "singularResource", resource->singular);
    write_verbs(json);
    write_list(json, "shortNames", resource->short_names, resource->n_short_names);
    write_list(json, "categories", resource->categories, resource->n_categories);
    if (version->has_status) {
        belfry_json_open(json, "subresources", '[');
        belfry_json_open(json, NULL, '{');
        belfry_json_str(json, "subresource", "status");
        write_response_kind(json, resource, version->name);
        write_get_verb(json);
        belfry_json_close(json, '}');
        belfry_json_close(json, ']');
    }
    belfry_json_close(json, '}');
}

/* APIGroupDiscoveryList (apidiscovery.k8s.io/v2), without groups that have no resources. */
static enum belfry_err discovery_aggregated(const struct group *groups, size_t n, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "kind", "APIGroupDiscoveryList");
    belfry_json_str(&json, "apiVersion", "apidiscovery.k8s.io/v2");
    belfry_json_open(&json, "metadata", '{');
    belfry_json_close(&json, '}');
    belfry_json_open(&json, "items", '[');
    for (const struct group *group = groups; group < groups + n; group++) {
        if (group->n_resources == 0)
            continue;
        belfry_json_open(&json, NULL, '{');
        belfry_json_open(&json, "metadata", '{');
        if (group->name[0] != '\0')
            belfry_json_str(&json, "name", group->name);
        belfry_json_close(&json, '}');
        belfry_json_open(&json, "versions", '[');
        for (size_t i = 0; i < group->n_versions; i++) {
            belfry_json_open(&json, NULL, '{');
            belfry_json_str(&json, "version", group->versions[i]);
            belfry_json_open(&json, "resources", '[');
            for (size_t k = 0; k < group->n_resources; k++) {
                const struct kube_resource *resource = group->resources[k];
                const struct kube_version *served =
                    kube_resource_served(resource, belfry_bytes_str(group->versions[i]));
                if (served != NULL)
                    write_aggregated_resource(&json, resource, served);
            }
            belfry_json_close(&json, ']');
            belfry_json_str(&json, "freshness", "Current");
            belfry_json_close(&json, '}');
        }
        belfry_json_close(&json, ']');
        belfry_json_close(&json, '}');
    }
    belfry_json_close(&json, ']');
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}

/* APIVersions of the core group. */
static enum belfry_err discovery_versions(const struct group *core, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "kind", "APIVersions");
    belfry_json_open(&json, "versions", '[');
    for (size_t i = 0; i < core->n_versions; i++)
        belfry_json_str(&json, NULL, core->versions[i]);
    belfry_json_close(&json, ']');
    belfry_json_open(&json, "serverAddressByClientCIDRs", '[');
    belfry_json_close(&json, ']');
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}

static void group_version(const struct group *group, const char *version, char out[GROUP_VERSION_MAX])
{
    snprintf(out, GROUP_VERSION_MAX, "%s%s%s", group->name, group->name[0] == '\0' ? "" : "/", version);
}

static void write_version(struct belfry_json *json, const char *name, const struct group *group, const char *version)
{
    char text[GROUP_VERSION_MAX];
    group_version(group, version, text);
    belfry_json_open(json, name, '{');
    belfry_json_str(json, "groupVersion", text);
    belfry_json_str(json, "version", version);
    belfry_json_close(json, '}');
}

static void write_group(struct belfry_json *json, const struct group *group)
{
    belfry_json_str(json, "name", group->name);
    belfry_json_open(json, "versions", '[');
    for (size_t i = 0; i < group->n_versions; i++)
        write_version(json, NULL, group, group->versions[i]);
    belfry_json_close(json, ']');
    write_version(json, "preferredVersion", group, group->versions[0]);
}

/* APIGroupList of the others. */
static enum belfry_err discovery_groups(const struct group *groups, size_t n, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "kind", "APIGroupList");
    belfry_json_str(&json, "apiVersion", "v1");
    belfry_json_open(&json, "groups", '[');
    for (size_t i = 0; i < n; i++) {
        belfry_json_open(&json, NULL, '{');
        write_group(&json, &groups[i]);
        belfry_json_close(&json, '}');
    }
    belfry_json_close(&json, ']');
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}

/* One APIGroup. */
static enum belfry_err discovery_group(const struct group *group, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "kind", "APIGroup");
    belfry_json_str(&json, "apiVersion", "v1");
    write_group(&json, group);
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}

/* APIResourceList of one version. */
static enum belfry_err discovery_resources(const struct group *group, const char *version, struct belfry_buf *out)
{
    char text[GROUP_VERSION_MAX];
    struct belfry_json json = belfry_json_begin(out);
    group_version(group, version, text);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "kind", "APIResourceList");
    belfry_json_str(&json, "apiVersion", "v1");
    belfry_json_str(&json, "groupVersion", text);
    belfry_json_open(&json, "resources", '[');
    for (size_t i = 0; i < group->n_resources; i++) {
        const struct kube_version *served = kube_resource_served(group->resources[i], belfry_bytes_str(version));
        if (served == NULL)
            continue;
        const struct kube_resource *resource = group->resources[i];
        belfry_json_open(&json, NULL, '{');
        belfry_json_str(&json, "name", resource->plural);
        belfry_json_str(&json, "singularName", resource->singular);
        belfry_json_bool(&json, "namespaced", resource->namespaced);
        belfry_json_str(&json, "kind", resource->kind);
        write_verbs(&json);
        write_list(&json, "shortNames", resource->short_names, resource->n_short_names);
        write_list(&json, "categories", resource->categories, resource->n_categories);
        belfry_json_close(&json, '}');
        if (!served->has_status)
            continue;
        char name[STATUS_NAME_MAX];
        snprintf(name, sizeof(name), "%s/status", resource->plural);
        belfry_json_open(&json, NULL, '{');
        belfry_json_str(&json, "name", name);
        belfry_json_str(&json, "singularName", "");
        belfry_json_bool(&json, "namespaced", resource->namespaced);
        belfry_json_str(&json, "kind", resource->kind);
        write_get_verb(&json);
        belfry_json_close(&json, '}');
    }
    belfry_json_close(&json, ']');
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}

/* ---- OpenAPI: schemas ---- */

#define SCHEMA_NAME_MAX 512

#define OBJECT_META "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
#define LIST_META   "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
#define SCHEMA_REF  "#/components/schemas/"

static_assert(SCHEMA_NAME_MAX > KUBE_SUBDOMAIN_MAX + 3 * (KUBE_LABEL_MAX + 1), "every name fits");

/* The schemas of metadata that all resources share. */
/* clang-format off */
static const char object_meta[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"name\":{\"type\":\"string\","
    "\"description\":\"The name: one object of a kind has it in a namespace, or in all where there are none.\"},"
    "\"generateName\":{\"type\":\"string\","
    "\"description\":\"What a name that was made for the object begins with.\"},"
    "\"namespace\":{\"type\":\"string\","
    "\"description\":\"The namespace. Objects of cluster-scoped kinds have none.\"},"
    "\"uid\":{\"type\":\"string\","
    "\"description\":\"Tells objects apart that had the same name at different times.\"},"
    "\"resourceVersion\":{\"type\":\"string\",\"description\":\"The revision of etcd at which the object was last"
    " changed.\"},"
    "\"generation\":{\"type\":\"integer\",\"format\":\"int64\",\"description\":\"Grows with every change of what is"
    " wanted.\"},"
    "\"creationTimestamp\":{\"type\":\"string\",\"format\":\"date-time\","
    "\"description\":\"When the object was made.\"},"
    "\"deletionTimestamp\":{\"type\":\"string\",\"format\":\"date-time\","
    "\"description\":\"When its deletion was asked for.\"},"
    "\"deletionGracePeriodSeconds\":{\"type\":\"integer\",\"format\":\"int64\","
    "\"description\":\"How long it may take to end.\"},"
    "\"labels\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"
    "\"description\":\"Keys and values by which objects are selected.\"},"
    "\"annotations\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"
    "\"description\":\"Keys and values that are kept with the object and select nothing.\"},"
    "\"finalizers\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},"
    "\"description\":\"Who must agree before the object is gone.\"},"
    "\"ownerReferences\":{\"type\":\"array\",\"description\":\"The objects that this one belongs to.\",\"items\":{"
    "\"type\":\"object\",\"required\":[\"apiVersion\",\"kind\",\"name\",\"uid\"],\"properties\":{"
    "\"apiVersion\":{\"type\":\"string\",\"description\":\"The owner's API version.\"},"
    "\"kind\":{\"type\":\"string\",\"description\":\"The owner's kind.\"},"
    "\"name\":{\"type\":\"string\",\"description\":\"The owner's name.\"},"
    "\"uid\":{\"type\":\"string\",\"description\":\"The owner's uid.\"},"
    "\"controller\":{\"type\":\"boolean\",\"description\":\"Whether the owner is the one that manages it.\"},"
    "\"blockOwnerDeletion\":{\"type\":\"boolean\",\"description\":\"Whether the owner waits for this object to go"
    " first.\"}}}},"
    "\"managedFields\":{\"type\":\"array\",\"items\":{\"type\":\"object\"},"
    "\"description\":\"Who set which fields.\"}}}";

static const char list_meta[] =
    "{\"type\":\"object\",\"description\":\"What every list has.\",\"properties\":{"
    "\"resourceVersion\":{\"type\":\"string\",\"description\":\"The revision of etcd that the list shows.\"},"
    "\"continue\":{\"type\":\"string\",\"description\":\"Asks for the next page.\"},"
    "\"remainingItemCount\":{\"type\":\"integer\",\"format\":\"int64\",\"description\":\"How many objects follow.\"}}}";
/* clang-format on */

/* "demo.example.com" -> "com.example.demo" */
static void reverse_group(const char *group, char out[KUBE_SUBDOMAIN_MAX + 1])
{
    size_t end = strlen(group), n = 0;
    while (end > 0) {
        size_t begin = end;
        while (begin > 0 && group[begin - 1] != '.')
            begin--;
        memcpy(out + n, group + begin, end - begin);
        n += end - begin;
        end = begin > 0 ? begin - 1 : 0;
        if (end > 0)
            out[n++] = '.';
    }
    out[n] = '\0';
}

/* "com.example.demo.v1.Widget" for `kind`. */
static void schema_name(const struct kube_resource *resource, const struct kube_version *version, const char *kind,
                        char out[SCHEMA_NAME_MAX])
{
    char group[KUBE_SUBDOMAIN_MAX + 1] = "core";
    if (resource->group[0] != '\0')
        reverse_group(resource->group, group);
    snprintf(out, SCHEMA_NAME_MAX, "%s.%s.%s", group, version->name, kind);
}

/* Sets `name` of `object` to `value`. NULL for `object` or `value` means that memory ran out earlier. */
static bool schema_put(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name, yyjson_mut_val *value)
{
    yyjson_mut_val *key = yyjson_mut_strcpy(doc, name);
    return object != NULL && key != NULL && value != NULL && yyjson_mut_obj_put(object, key, value);
}

static bool schema_put_text(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name, const char *text)
{
    return schema_put(doc, object, name, yyjson_mut_strcpy(doc, text));
}

static bool schema_describe(yyjson_mut_doc *doc, yyjson_mut_val *properties, const char *name, const char *text)
{
    yyjson_mut_val *property = yyjson_mut_obj(doc);
    if (yyjson_mut_obj_get(properties, name) != NULL)
        return true;
    return schema_put_text(doc, property, "type", "string") && schema_put_text(doc, property, "description", text) &&
           schema_put(doc, properties, name, property);
}

/* Adds what every object has. */
static bool schema_complete(yyjson_mut_doc *doc, const struct kube_resource *resource,
                            const struct kube_version *version)
{
    yyjson_mut_val *root = yyjson_mut_doc_get_root(doc);
    yyjson_mut_val *properties = yyjson_mut_obj_get(root, "properties");
    if (!yyjson_mut_is_obj(properties)) {
        properties = yyjson_mut_obj(doc);
        if (!schema_put(doc, root, "properties", properties))
            return false;
    }
    if (!schema_describe(doc, properties, "apiVersion", "The group and version of this form of the object.") ||
        !schema_describe(doc, properties, "kind", "The kind of the object."))
        return false;

    /* a reference cannot have a description; allOf around it can */
    yyjson_mut_val *metadata = yyjson_mut_obj(doc), *all = yyjson_mut_arr(doc), *ref = yyjson_mut_obj(doc);
    if (!schema_put_text(doc, ref, "$ref", SCHEMA_REF OBJECT_META) || all == NULL || !yyjson_mut_arr_append(all, ref) ||
        !schema_put_text(doc, metadata, "description", "The object's name, and what was noted about it.") ||
        !schema_put(doc, metadata, "allOf", all) || !schema_put(doc, properties, "metadata", metadata))
        return false;

    yyjson_mut_val *kind = yyjson_mut_obj(doc), *kinds = yyjson_mut_arr(doc);
    return schema_put_text(doc, kind, "group", resource->group) && schema_put_text(doc, kind, "kind", resource->kind) &&
           schema_put_text(doc, kind, "version", version->name) && kinds != NULL &&
           yyjson_mut_arr_append(kinds, kind) && schema_put(doc, root, "x-kubernetes-group-version-kind", kinds);
}

/* Appends the schema of the resource's objects: the manifest's or, without one, a schema that allows anything. */
static enum belfry_err schema_write(const struct kube_resource *resource, const struct kube_version *version,
                                    struct belfry_buf *out)
{
    static const char anything[] = "{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true}";
    const char *given = version->schema == NULL ? anything : version->schema;
    enum belfry_err err = BELFRY_ERR_NOMEM; /* nothing else fails: the text is known to be valid */
    size_t len;
    char *text = NULL;

    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)given, strlen(given), YYJSON_READ_NUMBER_AS_RAW,
                                       &belfry_json_alc, NULL); /* does not write without YYJSON_READ_INSITU */
    yyjson_mut_doc *copy = doc == NULL ? NULL : yyjson_doc_mut_copy(doc, &belfry_json_alc);
    yyjson_doc_free(doc);

    if (copy != NULL && schema_complete(copy, resource, version))
        text = yyjson_mut_write_opts(copy, YYJSON_WRITE_NOFLAG, &belfry_json_alc, &len, NULL);
    if (text != NULL)
        err = belfry_buf_append(out, text, len);
    free(text);
    yyjson_mut_doc_free(copy);
    return err;
}

/* ---- OpenAPI: operations ---- */

#define TEXT_MAX (KUBE_SUBDOMAIN_MAX + 2 * KUBE_LABEL_MAX + 64)
#define REF_MAX  (SCHEMA_NAME_MAX + sizeof(SCHEMA_REF))
#define ID_MAX   128

/* One version of one resource, and where to write it. */
struct page {
    struct belfry_json *json;
    const struct kube_resource *resource;
    const struct kube_version *version;
};

struct parameter {
    const char *name, *type;
};

static const struct parameter list_parameters[] = {
    {"allowWatchBookmarks", "boolean"},
    {"continue", "string"},
    {"fieldSelector", "string"},
    {"labelSelector", "string"},
    {"limit", "integer"},
    {"resourceVersion", "string"},
    {"resourceVersionMatch", "string"},
    {"sendInitialEvents", "boolean"},
    {"timeoutSeconds", "integer"},
    {"watch", "boolean"},
};
static const struct parameter get_parameters[] = {{"resourceVersion", "string"}};
static const struct parameter patch_parameters[] = {
    {"dryRun", "string"}, {"fieldManager", "string"}, {"fieldValidation", "string"}};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct operation {
    const char *method, *action, *description;
    const char *id_head, *id_tail; /* text before and after the kind: "listNamespaced" Widget "" */
    const char *kind;              /* of the answer; NULL: always rejected */
    const struct parameter *parameters;
    size_t n_parameters;
};

static void write_parameter(struct belfry_json *json, const char *in, const char *name, const char *type)
{
    belfry_json_open(json, NULL, '{');
    belfry_json_str(json, "name", name);
    belfry_json_str(json, "in", in);
    if (strcmp(in, "path") == 0)
        belfry_json_bool(json, "required", true);
    belfry_json_open(json, "schema", '{');
    belfry_json_str(json, "type", type);
    belfry_json_close(json, '}');
    belfry_json_close(json, '}');
}

static void write_ref(const struct page *page, const char *name, const char *kind)
{
    char schema[SCHEMA_NAME_MAX], ref[REF_MAX];
    schema_name(page->resource, page->version, kind, schema);
    snprintf(ref, sizeof(ref), "%s%s", SCHEMA_REF, schema);
    belfry_json_open(page->json, name, '{');
    belfry_json_str(page->json, "$ref", ref);
    belfry_json_close(page->json, '}');
}

static void write_answer(const struct page *page, const char *kind)
{
    struct belfry_json *json = page->json;
    belfry_json_open(json, "responses", '{');
    belfry_json_open(json, kind == NULL ? "405" : "200", '{');
    belfry_json_str(json, "description", kind == NULL ? "Method Not Allowed" : "OK");
    if (kind != NULL) {
        belfry_json_open(json, "content", '{');
        belfry_json_open(json, "application/json", '{');
        write_ref(page, "schema", kind);
        belfry_json_close(json, '}');
        belfry_json_close(json, '}');
    }
    belfry_json_close(json, '}');
    belfry_json_close(json, '}');
}

static void write_kind(const struct page *page, const char *name, const char *kind)
{
    belfry_json_open(page->json, name, '{');
    belfry_json_str(page->json, "group", page->resource->group);
    belfry_json_str(page->json, "kind", kind);
    belfry_json_str(page->json, "version", page->version->name);
    belfry_json_close(page->json, '}');
}

static void write_operation(const struct page *page, const struct operation *it)
{
    struct belfry_json *json = page->json;
    char id[ID_MAX];
    snprintf(id, sizeof(id), "%s%s%s", it->id_head, page->resource->kind, it->id_tail);
    belfry_json_open(json, it->method, '{');
    belfry_json_str(json, "description", it->description);
    belfry_json_str(json, "operationId", id);
    belfry_json_open(json, "parameters", '[');
    for (size_t i = 0; i < it->n_parameters; i++)
        write_parameter(json, "query", it->parameters[i].name, it->parameters[i].type);
    belfry_json_close(json, ']');
    write_answer(page, it->kind);
    belfry_json_str(json, "x-kubernetes-action", it->action);
    write_kind(page, "x-kubernetes-group-version-kind", page->resource->kind);
    belfry_json_close(json, '}');
}

/* ---- OpenAPI: paths ---- */

enum {
    IN_NAMESPACE = 1, /* {namespace} is in the path */
    WITH_NAME = 2     /* {name} is in the path */
};

static void open_path(const struct page *page, unsigned parts)
{
    const struct kube_resource *resource = page->resource;
    char path[TEXT_MAX];
    snprintf(path, sizeof(path), "/%s/%s/%s%s%s", resource->group[0] == '\0' ? "api" : "apis",
             page->version->api_version, (parts & IN_NAMESPACE) != 0 ? "namespaces/{namespace}/" : "", resource->plural,
             (parts & WITH_NAME) != 0 ? "/{name}" : "");
    belfry_json_open(page->json, path, '{');
}

static void close_path(const struct page *page, unsigned parts)
{
    if (parts != 0) {
        belfry_json_open(page->json, "parameters", '[');
        if ((parts & WITH_NAME) != 0)
            write_parameter(page->json, "path", "name", "string");
        if ((parts & IN_NAMESPACE) != 0)
            write_parameter(page->json, "path", "namespace", "string");
        belfry_json_close(page->json, ']');
    }
    belfry_json_close(page->json, '}');
}

static void write_list_path(const struct page *page, unsigned parts)
{
    bool all = page->resource->namespaced && parts == 0;
    open_path(page, parts);
    write_operation(page, &(struct operation){.method = "get",
                                              .action = "list",
                                              .description = "Lists or watches objects.",
                                              .id_head = parts == 0 ? "list" : "listNamespaced",
                                              .id_tail = all ? "ForAllNamespaces" : "",
                                              .kind = page->resource->list_kind,
                                              .parameters = list_parameters,
                                              .n_parameters = COUNT(list_parameters)});
    close_path(page, parts);
}

/* kubectl reads from the PATCH operation whether the server validates fields. Without one, create and apply stop with a
 * misleading message about a schema that could not be downloaded. With one, kubectl sends the request and shows the
 * server's rejection. */
static void write_object_path(const struct page *page)
{
    bool namespaced = page->resource->namespaced;
    unsigned parts = WITH_NAME | (namespaced ? IN_NAMESPACE : 0);
    open_path(page, parts);
    write_operation(page, &(struct operation){.method = "get",
                                              .action = "get",
                                              .description = "Reads one object.",
                                              .id_head = namespaced ? "readNamespaced" : "read",
                                              .id_tail = "",
                                              .kind = page->resource->kind,
                                              .parameters = get_parameters,
                                              .n_parameters = COUNT(get_parameters)});
    write_operation(page, &(struct operation){.method = "patch",
                                              .action = "patch",
                                              .description = "Is always refused: objects are written to etcd.",
                                              .id_head = namespaced ? "patchNamespaced" : "patch",
                                              .id_tail = "",
                                              .parameters = patch_parameters,
                                              .n_parameters = COUNT(patch_parameters)});
    close_path(page, parts);
}

static void write_paths(const struct page *page)
{
    write_list_path(page, 0);
    if (page->resource->namespaced)
        write_list_path(page, IN_NAMESPACE);
    write_object_path(page);
}

/* ---- OpenAPI: the schemas in a document ---- */

/* Opens a member whose value, an object, is appended unchanged. */
static void write_whole(struct belfry_json *json, const char *name, struct belfry_bytes object)
{
    belfry_json_open(json, name, '{');
    if (json->err == BELFRY_OK && object.len > 2) /* without its own braces */
        json->err = belfry_buf_append(json->buf, object.data + 1, object.len - 2);
    belfry_json_close(json, '}');
}

static void write_text_property(struct belfry_json *json, const char *name, const char *description)
{
    belfry_json_open(json, name, '{');
    belfry_json_str(json, "type", "string");
    belfry_json_str(json, "description", description);
    belfry_json_close(json, '}');
}

static void write_schemas(const struct page *page)
{
    struct belfry_json *json = page->json;
    char name[SCHEMA_NAME_MAX];

    /* of the objects */
    struct belfry_buf schema;
    belfry_buf_init(&schema);
    schema_name(page->resource, page->version, page->resource->kind, name);
    enum belfry_err err = schema_write(page->resource, page->version, &schema);
    if (err == BELFRY_OK)
        write_whole(json, name, belfry_buf_bytes(&schema));
    else
        json->err = err;
    belfry_buf_fini(&schema);

    /* of the lists of them */
    schema_name(page->resource, page->version, page->resource->list_kind, name);
    belfry_json_open(json, name, '{');
    belfry_json_str(json, "type", "object");
    belfry_json_open(json, "required", '[');
    belfry_json_str(json, NULL, "items");
    belfry_json_close(json, ']');
    belfry_json_open(json, "properties", '{');
    write_text_property(json, "apiVersion", "The group and version of this form of the list.");
    write_text_property(json, "kind", "The kind of the list.");
    belfry_json_open(json, "metadata", '{');
    belfry_json_str(json, "$ref", SCHEMA_REF LIST_META);
    belfry_json_close(json, '}');
    belfry_json_open(json, "items", '{');
    belfry_json_str(json, "type", "array");
    write_ref(page, "items", page->resource->kind);
    belfry_json_close(json, '}');
    belfry_json_close(json, '}');
    belfry_json_open(json, "x-kubernetes-group-version-kind", '[');
    write_kind(page, NULL, page->resource->list_kind);
    belfry_json_close(json, ']');
    belfry_json_close(json, '}');
}

/* ---- OpenAPI: the document ---- */

static void write_each(struct belfry_json *json, const struct group *group, const char *version,
                       void (*write)(const struct page *page))
{
    for (size_t i = 0; i < group->n_resources && json->err == BELFRY_OK; i++) {
        const struct kube_version *served = kube_resource_served(group->resources[i], belfry_bytes_str(version));
        if (served != NULL)
            write(&(struct page){json, group->resources[i], served});
    }
}

/* Appends the OpenAPI 3.0 document of one version of a group. */
static enum belfry_err openapi_write(const struct group *group, const char *version, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "openapi", "3.0.0");
    belfry_json_open(&json, "info", '{');
    belfry_json_str(&json, "title", "belfry");
    belfry_json_str(&json, "version", version);
    belfry_json_close(&json, '}');
    belfry_json_open(&json, "paths", '{');
    write_each(&json, group, version, write_paths);
    belfry_json_close(&json, '}');
    belfry_json_open(&json, "components", '{');
    belfry_json_open(&json, "schemas", '{');
    write_each(&json, group, version, write_schemas);
    write_whole(&json, OBJECT_META, belfry_bytes_str(object_meta));
    write_whole(&json, LIST_META, belfry_bytes_str(list_meta));
    belfry_json_close(&json, '}');
    belfry_json_close(&json, '}');
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}

/* ---- all documents ---- */

static uint64_t hash_path(struct belfry_bytes path, bool aggregated)
{
    return belfry_hash(hash_key, path) + aggregated;
}

/* The caller prints the path into document->path and then calls document_added(). */
static struct document *next_document(struct kube_catalog *catalog)
{
    struct document *document = &catalog->documents[catalog->n_documents++];
    belfry_buf_init(&document->body);
    return document;
}

static void document_added(struct kube_catalog *catalog, struct document *document)
{
    belfry_map_add(&catalog->by_path, hash_path(belfry_bytes_str(document->path), document->aggregated),
                   &document->node);
}

static struct belfry_buf *add_document(struct kube_catalog *catalog, const char *path, bool aggregated)
{
    struct document *document = next_document(catalog);
    snprintf(document->path, sizeof(document->path), "%s", path);
    document->aggregated = aggregated;
    document_added(catalog, document);
    return &document->body;
}

/* "/apis/G/V" or "/api/V", after `head`. */
static struct document *add_version_document(struct kube_catalog *catalog, const char *head, const struct group *group,
                                             const char *version)
{
    struct document *document = next_document(catalog);
    bool core = group->name[0] == '\0';
    snprintf(document->path, sizeof(document->path), "%s%s%s/%s", head, core ? "/api" : "/apis/", group->name, version);
    document_added(catalog, document);
    return document;
}

/* Most of the work is here, so a partial catalog leaves the schemas until they are requested. */
static enum belfry_err make_openapi(struct kube_catalog *catalog, enum extent extent)
{
    struct belfry_json json = belfry_json_begin(add_document(catalog, "/openapi/v3", false));
    enum belfry_err err = BELFRY_OK;
    belfry_json_open(&json, NULL, '{');
    belfry_json_open(&json, "paths", '{');
    for (size_t i = 0; i < catalog->n_groups; i++) {
        const struct group *group = &catalog->groups[i];
        for (size_t k = 0; k < group->n_versions && err == BELFRY_OK; k++) {
            struct document *document = add_version_document(catalog, "/openapi/v3", group, group->versions[k]);
            char url[DOCUMENT_PATH + 32];
            uint64_t hash = 0;
            if (extent == WHOLE) {
                err = openapi_write(group, group->versions[k], &document->body);
                hash = belfry_hash(hash_key, belfry_buf_bytes(&document->body));
            } else {
                document->group = group;
                document->version = group->versions[k];
                for (size_t r = 0; r < group->n_resources; r++)
                    hash = belfry_hash_int(hash ^ group->resources[r]->hash);
            }
            snprintf(url, sizeof(url), "%s?hash=%016" PRIX64, document->path, hash);
            belfry_json_open(&json, document->path + strlen("/openapi/v3/"), '{');
            belfry_json_str(&json, "serverRelativeURL", url);
            belfry_json_close(&json, '}');
        }
    }
    belfry_json_close(&json, '}');
    belfry_json_close(&json, '}');
    return err == BELFRY_OK ? belfry_json_finish(&json) : err;
}

static enum belfry_err make_documents(struct kube_catalog *catalog, enum extent extent)
{
    size_t n = FIXED_DOCUMENTS;
    for (size_t i = 0; i < catalog->n_groups; i++)
        n += 1 + 2 * catalog->groups[i].n_versions;
    catalog->documents = calloc(n, sizeof(*catalog->documents));
    if (catalog->documents == NULL)
        return BELFRY_ERR_NOMEM;

    const struct group *core = catalog->groups, *others = catalog->groups + 1;
    size_t n_others = catalog->n_groups - 1;
    enum belfry_err err = discovery_versions(core, add_document(catalog, "/api", false));
    if (err == BELFRY_OK)
        err = discovery_aggregated(core, 1, add_document(catalog, "/api", true));
    if (err == BELFRY_OK)
        err = discovery_groups(others, n_others, add_document(catalog, "/apis", false));
    if (err == BELFRY_OK)
        err = discovery_aggregated(others, n_others, add_document(catalog, "/apis", true));

    for (size_t i = 0; i < catalog->n_groups && err == BELFRY_OK; i++) {
        const struct group *group = &catalog->groups[i];
        if (group->name[0] != '\0') {
            char path[DOCUMENT_PATH];
            snprintf(path, sizeof(path), "/apis/%s", group->name);
            err = discovery_group(group, add_document(catalog, path, false));
        }
        for (size_t k = 0; k < group->n_versions && err == BELFRY_OK; k++) {
            struct document *document = add_version_document(catalog, "", group, group->versions[k]);
            err = discovery_resources(group, group->versions[k], &document->body);
        }
    }
    return err == BELFRY_OK ? make_openapi(catalog, extent) : err;
}

static const struct document *find_document(const struct kube_catalog *catalog, struct belfry_bytes path,
                                            bool aggregated)
{
    struct belfry_map_node *node = belfry_map_first(&catalog->by_path, hash_path(path, aggregated));
    for (; node != NULL; node = belfry_map_next(node)) {
        const struct document *document = belfry_container(node, struct document, node);
        if (document->aggregated == aggregated && text_is(document->path, path))
            return document;
    }
    return NULL;
}

/* ---- the catalog ---- */

static uint64_t hash_resources(const struct kube_catalog *catalog)
{
    uint64_t hash = belfry_hash_int(catalog->n_entries + 1);
    for (size_t i = 0; i < catalog->n_entries; i++)
        hash = belfry_hash_int(hash ^ catalog->ordered[i]->hash);
    return hash;
}

static enum belfry_err catalog_make(struct kube_resource *const *resources, size_t n, enum extent extent,
                                    struct kube_catalog **out, char **why)
{
    struct belfry_buf said;
    *why = NULL;
    if (n > KUBE_RESOURCES_MAX)
        return BELFRY_ERR_LIMIT;
    struct kube_catalog *catalog = calloc(1, sizeof(*catalog));
    if (catalog == NULL)
        return BELFRY_ERR_NOMEM;
    atomic_init(&catalog->refs, 1);
    belfry_map_init(&catalog->by_plural);
    belfry_map_init(&catalog->by_kind);
    belfry_map_init(&catalog->by_path);
    belfry_buf_init(&said);
    enum belfry_err err = take_resources(catalog, resources, n, &said);
    if (err == BELFRY_OK)
        err = collect_guards(catalog);
    if (err == BELFRY_OK)
        err = make_groups(catalog);
    if (err == BELFRY_OK)
        err = make_documents(catalog, extent);
    if (err == BELFRY_OK) {
        catalog->hash = hash_resources(catalog);
        struct belfry_bytes left_out = belfry_buf_bytes(&said);
        *why = left_out.len == 0 ? NULL : strndup(left_out.data, left_out.len);
        *out = catalog;
    } else
        kube_catalog_unref(catalog);
    belfry_buf_fini(&said);
    return err;
}

enum belfry_err kube_catalog_make(struct kube_resource *const *resources, size_t n, struct kube_catalog **out,
                                  char **why)
{
    return catalog_make(resources, n, WHOLE, out, why);
}

enum belfry_err kube_catalog_part(const struct kube_catalog *catalog, const bool *seen, struct kube_catalog **out)
{
    struct kube_resource **resources = calloc(catalog->n_entries + 1, sizeof(*resources));
    char *nothing = NULL;
    size_t n = 0;
    if (resources == NULL)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < catalog->n_entries; i++) {
        const char *guard = catalog->ordered[i]->guard;
        const char **at = bsearch(&guard, catalog->guards, catalog->n_guards, sizeof(guard), text_cmp);
        if (seen[at - catalog->guards])
            resources[n++] = catalog->ordered[i];
    }
    enum belfry_err err = catalog_make(resources, n, PART, out, &nothing);
    free(nothing);
    free(resources);
    return err;
}

size_t kube_catalog_count(const struct kube_catalog *catalog)
{
    return catalog->n_entries;
}

const struct kube_resource *kube_catalog_at(const struct kube_catalog *catalog, size_t i)
{
    return catalog->ordered[i];
}

bool kube_catalog_find(const struct kube_catalog *catalog, struct belfry_bytes group, struct belfry_bytes version,
                       struct belfry_bytes plural, const struct kube_resource **resource,
                       const struct kube_version **served)
{
    const struct entry *entry = find_plural(catalog, group, plural);
    const struct kube_version *found = entry == NULL ? NULL : kube_resource_served(entry->resource, version);
    if (found == NULL)
        return false;
    *resource = entry->resource;
    *served = found;
    return true;
}

enum belfry_err kube_catalog_document(const struct kube_catalog *catalog, struct belfry_bytes path, bool aggregated,
                                      struct belfry_buf *out)
{
    if (path.len > 1 && path.data[path.len - 1] == '/')
        path.len--;
    const struct document *document = aggregated ? find_document(catalog, path, true) : NULL;
    if (document == NULL)
        document = find_document(catalog, path, false);
    if (document == NULL)
        return BELFRY_ERR_NOT_FOUND;
    if (document->group != NULL)
        return openapi_write(document->group, document->version, out);
    struct belfry_bytes body = belfry_buf_bytes(&document->body);
    return belfry_buf_append(out, body.data, body.len);
}

uint64_t kube_catalog_hash(const struct kube_catalog *catalog)
{
    return catalog->hash;
}
