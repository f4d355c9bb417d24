/* src/kube/discovery.c */
#include "kube/discovery.h"

#include <stdio.h>

#include "kube/name.h"
#include "json/json.h"

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

/* ---- aggregated ---- */

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

static void write_aggregated_version(struct belfry_json *json, const struct kube_group *group, const char *name)
{
    belfry_json_open(json, NULL, '{');
    belfry_json_str(json, "version", name);
    belfry_json_open(json, "resources", '[');
    for (size_t i = 0; i < group->n_resources; i++) {
        const struct kube_version *version = kube_resource_served(group->resources[i], belfry_bytes_str(name));
        if (version != NULL)
            write_aggregated_resource(json, group->resources[i], version);
    }
    belfry_json_close(json, ']');
    belfry_json_str(json, "freshness", "Current");
    belfry_json_close(json, '}');
}

static void write_aggregated_group(struct belfry_json *json, const struct kube_group *group)
{
    belfry_json_open(json, NULL, '{');
    belfry_json_open(json, "metadata", '{');
    if (group->name[0] != '\0')
        belfry_json_str(json, "name", group->name);
    belfry_json_close(json, '}');
    belfry_json_open(json, "versions", '[');
    for (size_t i = 0; i < group->n_versions; i++)
        write_aggregated_version(json, group, group->versions[i]);
    belfry_json_close(json, ']');
    belfry_json_close(json, '}');
}

enum belfry_err kube_discovery_aggregated(const struct kube_group *groups, size_t n, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "kind", "APIGroupDiscoveryList");
    belfry_json_str(&json, "apiVersion", "apidiscovery.k8s.io/v2");
    belfry_json_open(&json, "metadata", '{');
    belfry_json_close(&json, '}');
    belfry_json_open(&json, "items", '[');
    for (size_t i = 0; i < n; i++) {
        if (groups[i].n_resources > 0)
            write_aggregated_group(&json, &groups[i]);
    }
    belfry_json_close(&json, ']');
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}

/* ---- legacy ---- */

enum belfry_err kube_discovery_versions(const struct kube_group *core, struct belfry_buf *out)
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

static void group_version(const struct kube_group *group, const char *version, char out[GROUP_VERSION_MAX])
{
    snprintf(out, GROUP_VERSION_MAX, "%s%s%s", group->name, group->name[0] == '\0' ? "" : "/", version);
}

static void write_version(struct belfry_json *json, const char *name, const struct kube_group *group,
                          const char *version)
{
    char text[GROUP_VERSION_MAX];
    group_version(group, version, text);
    belfry_json_open(json, name, '{');
    belfry_json_str(json, "groupVersion", text);
    belfry_json_str(json, "version", version);
    belfry_json_close(json, '}');
}

static void write_group(struct belfry_json *json, const struct kube_group *group)
{
    belfry_json_str(json, "name", group->name);
    belfry_json_open(json, "versions", '[');
    for (size_t i = 0; i < group->n_versions; i++)
        write_version(json, NULL, group, group->versions[i]);
    belfry_json_close(json, ']');
    write_version(json, "preferredVersion", group, group->versions[0]);
}

enum belfry_err kube_discovery_groups(const struct kube_group *groups, size_t n, struct belfry_buf *out)
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

enum belfry_err kube_discovery_group(const struct kube_group *group, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "kind", "APIGroup");
    belfry_json_str(&json, "apiVersion", "v1");
    write_group(&json, group);
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}

static void write_resource(struct belfry_json *json, const struct kube_resource *resource)
{
    belfry_json_open(json, NULL, '{');
    belfry_json_str(json, "name", resource->plural);
    belfry_json_str(json, "singularName", resource->singular);
    belfry_json_bool(json, "namespaced", resource->namespaced);
    belfry_json_str(json, "kind", resource->kind);
    write_verbs(json);
    write_list(json, "shortNames", resource->short_names, resource->n_short_names);
    write_list(json, "categories", resource->categories, resource->n_categories);
    belfry_json_close(json, '}');
}

static void write_status(struct belfry_json *json, const struct kube_resource *resource)
{
    char name[STATUS_NAME_MAX];
    snprintf(name, sizeof(name), "%s/status", resource->plural);
    belfry_json_open(json, NULL, '{');
    belfry_json_str(json, "name", name);
    belfry_json_str(json, "singularName", "");
    belfry_json_bool(json, "namespaced", resource->namespaced);
    belfry_json_str(json, "kind", resource->kind);
    write_get_verb(json);
    belfry_json_close(json, '}');
}

enum belfry_err kube_discovery_resources(const struct kube_group *group, const char *version, struct belfry_buf *out)
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
        write_resource(&json, group->resources[i]);
        if (served->has_status)
            write_status(&json, group->resources[i]);
    }
    belfry_json_close(&json, ']');
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}
