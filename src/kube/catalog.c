/* src/kube/catalog.c */
#include "kube/catalog.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "kube/discovery.h"
#include "kube/group.h"
#include "kube/name.h"
#include "kube/openapi.h"
#include "kube/version.h"
#include "json/json.h"

#define TOLD_MAX        8 /* rejected resources that *why names */
#define DOCUMENT_PATH   (KUBE_SUBDOMAIN_MAX + KUBE_LABEL_MAX + 32)
#define FIXED_DOCUMENTS 5 /* /api and /apis in two forms, /openapi/v3 */

struct entry {
    struct belfry_map_node by_plural, by_kind;
    struct kube_resource *resource; /* one reference */
};

struct document {
    struct belfry_map_node node;
    char path[DOCUMENT_PATH];
    bool aggregated;
    struct belfry_buf body;
    const struct kube_group *group; /* NULL: the body is written. Otherwise write the schemas when requested, */
    const char *version;            /* for this version of the group */
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
    struct kube_group *groups; /* the core group first, even without resources */
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

static bool has_version(const struct kube_group *group, const char *name)
{
    for (size_t i = 0; i < group->n_versions; i++) {
        if (strcmp(group->versions[i], name) == 0)
            return true;
    }
    return false;
}

static int version_preference_cmp(const void *a, const void *b)
{
    return kube_version_order(*(const char *const *)a, *(const char *const *)b);
}

/* A group has few versions however many resources it has, so the array grows by one per new version. */
static enum belfry_err add_version(struct kube_group *group, const char *name)
{
    if (has_version(group, name))
        return BELFRY_OK;
    const char **versions = realloc(group->versions, (group->n_versions + 1) * sizeof(*versions));
    if (versions == NULL)
        return BELFRY_ERR_NOMEM;
    versions[group->n_versions++] = name;
    group->versions = versions;
    return BELFRY_OK;
}

/* A core group without resources has no version, not even v1: kubectl takes an empty version for a failure of the
 * server, and then caches nothing. */
static enum belfry_err collect_versions(struct kube_group *group)
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
        (struct kube_group){.name = name, .resources = catalog->ordered + from, .n_resources = to - from};
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

/* ---- documents ---- */

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
static struct document *add_version_document(struct kube_catalog *catalog, const char *head,
                                             const struct kube_group *group, const char *version)
{
    struct document *document = next_document(catalog);
    bool core = group->name[0] == '\0';
    snprintf(document->path, sizeof(document->path), "%s%s%s/%s", head, core ? "/api" : "/apis/", group->name, version);
    document_added(catalog, document);
    return document;
}

static uint64_t hash_group(const struct kube_group *group)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < group->n_resources; i++)
        hash = belfry_hash_int(hash ^ group->resources[i]->hash);
    return hash;
}

static void write_openapi_link(struct belfry_json *json, const struct document *document)
{
    char url[DOCUMENT_PATH + 32];
    bool is_written = document->group == NULL;
    uint64_t hash = is_written ? belfry_hash(hash_key, belfry_buf_bytes(&document->body)) : hash_group(document->group);
    snprintf(url, sizeof(url), "%s?hash=%016" PRIX64, document->path, hash);
    belfry_json_open(json, document->path + strlen("/openapi/v3/"), '{');
    belfry_json_str(json, "serverRelativeURL", url);
    belfry_json_close(json, '}');
}

/* Most of the work is here, so a partial catalog leaves the schemas until they are requested. */
static enum belfry_err make_openapi(struct kube_catalog *catalog, enum extent extent)
{
    struct belfry_json json = belfry_json_begin(add_document(catalog, "/openapi/v3", false));
    enum belfry_err err = BELFRY_OK;
    belfry_json_open(&json, NULL, '{');
    belfry_json_open(&json, "paths", '{');
    for (size_t i = 0; i < catalog->n_groups; i++) {
        const struct kube_group *group = &catalog->groups[i];
        for (size_t k = 0; k < group->n_versions && err == BELFRY_OK; k++) {
            struct document *document = add_version_document(catalog, "/openapi/v3", group, group->versions[k]);
            if (extent == WHOLE) {
                err = kube_openapi_write(group, group->versions[k], &document->body);
            } else {
                document->group = group;
                document->version = group->versions[k];
            }
            write_openapi_link(&json, document);
        }
    }
    belfry_json_close(&json, '}');
    belfry_json_close(&json, '}');
    return err == BELFRY_OK ? belfry_json_finish(&json) : err;
}

static enum belfry_err make_group_documents(struct kube_catalog *catalog, const struct kube_group *group)
{
    enum belfry_err err = BELFRY_OK;
    if (group->name[0] != '\0') {
        char path[DOCUMENT_PATH];
        snprintf(path, sizeof(path), "/apis/%s", group->name);
        err = kube_discovery_group(group, add_document(catalog, path, false));
    }
    for (size_t i = 0; i < group->n_versions && err == BELFRY_OK; i++) {
        struct document *document = add_version_document(catalog, "", group, group->versions[i]);
        err = kube_discovery_resources(group, group->versions[i], &document->body);
    }
    return err;
}

static enum belfry_err make_roots(struct kube_catalog *catalog)
{
    const struct kube_group *core = catalog->groups, *others = catalog->groups + 1;
    size_t n = catalog->n_groups - 1;
    enum belfry_err err = kube_discovery_versions(core, add_document(catalog, "/api", false));
    if (err == BELFRY_OK)
        err = kube_discovery_aggregated(core, 1, add_document(catalog, "/api", true));
    if (err == BELFRY_OK)
        err = kube_discovery_groups(others, n, add_document(catalog, "/apis", false));
    if (err == BELFRY_OK)
        err = kube_discovery_aggregated(others, n, add_document(catalog, "/apis", true));
    return err;
}

static enum belfry_err make_documents(struct kube_catalog *catalog, enum extent extent)
{
    size_t n = FIXED_DOCUMENTS;
    for (size_t i = 0; i < catalog->n_groups; i++)
        n += 1 + 2 * catalog->groups[i].n_versions;
    catalog->documents = calloc(n, sizeof(*catalog->documents));
    if (catalog->documents == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = make_roots(catalog);
    for (size_t i = 0; i < catalog->n_groups && err == BELFRY_OK; i++)
        err = make_group_documents(catalog, &catalog->groups[i]);
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
        return kube_openapi_write(document->group, document->version, out);
    struct belfry_bytes body = belfry_buf_bytes(&document->body);
    return belfry_buf_append(out, body.data, body.len);
}

uint64_t kube_catalog_hash(const struct kube_catalog *catalog)
{
    return catalog->hash;
}
