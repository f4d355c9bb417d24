/* src/kube/openapi.c */
#include "kube/openapi.h"

#include <stdio.h>

#include "kube/name.h"
#include "kube/schema.h"
#include "json/json.h"

#define TEXT_MAX (KUBE_SUBDOMAIN_MAX + 2 * KUBE_LABEL_MAX + 64)
#define REF_MAX  (KUBE_SCHEMA_NAME_MAX + sizeof(KUBE_SCHEMA_REF))
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
    char schema[KUBE_SCHEMA_NAME_MAX], ref[REF_MAX];
    kube_schema_name(page->resource, page->version, kind, schema);
    snprintf(ref, sizeof(ref), "%s%s", KUBE_SCHEMA_REF, schema);
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

/* ---- paths ---- */

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

/* ---- schemas ---- */

/* Opens a member whose value, an object, is appended unchanged. */
static void write_whole(struct belfry_json *json, const char *name, struct belfry_bytes object)
{
    belfry_json_open(json, name, '{');
    if (json->err == BELFRY_OK && object.len > 2) /* without its own braces */
        json->err = belfry_buf_append(json->buf, object.data + 1, object.len - 2);
    belfry_json_close(json, '}');
}

static void write_object_schema(const struct page *page)
{
    char name[KUBE_SCHEMA_NAME_MAX];
    struct belfry_buf schema;
    belfry_buf_init(&schema);
    kube_schema_name(page->resource, page->version, page->resource->kind, name);
    enum belfry_err err = kube_schema_write(page->resource, page->version, &schema);
    if (err == BELFRY_OK)
        write_whole(page->json, name, belfry_buf_bytes(&schema));
    else
        page->json->err = err;
    belfry_buf_fini(&schema);
}

static void write_text_property(struct belfry_json *json, const char *name, const char *description)
{
    belfry_json_open(json, name, '{');
    belfry_json_str(json, "type", "string");
    belfry_json_str(json, "description", description);
    belfry_json_close(json, '}');
}

static void write_list_properties(const struct page *page)
{
    struct belfry_json *json = page->json;
    belfry_json_open(json, "properties", '{');
    write_text_property(json, "apiVersion", "The group and version of this form of the list.");
    write_text_property(json, "kind", "The kind of the list.");
    belfry_json_open(json, "metadata", '{');
    belfry_json_str(json, "$ref", KUBE_SCHEMA_REF KUBE_SCHEMA_LIST_META);
    belfry_json_close(json, '}');
    belfry_json_open(json, "items", '{');
    belfry_json_str(json, "type", "array");
    write_ref(page, "items", page->resource->kind);
    belfry_json_close(json, '}');
    belfry_json_close(json, '}');
}

static void write_list_schema(const struct page *page)
{
    struct belfry_json *json = page->json;
    char name[KUBE_SCHEMA_NAME_MAX];
    kube_schema_name(page->resource, page->version, page->resource->list_kind, name);
    belfry_json_open(json, name, '{');
    belfry_json_str(json, "type", "object");
    belfry_json_open(json, "required", '[');
    belfry_json_str(json, NULL, "items");
    belfry_json_close(json, ']');
    write_list_properties(page);
    belfry_json_open(json, "x-kubernetes-group-version-kind", '[');
    write_kind(page, NULL, page->resource->list_kind);
    belfry_json_close(json, ']');
    belfry_json_close(json, '}');
}

static void write_schemas(const struct page *page)
{
    write_object_schema(page);
    write_list_schema(page);
}

/* ---- the document ---- */

static void write_each(struct belfry_json *json, const struct kube_group *group, const char *version,
                       void (*write)(const struct page *page))
{
    for (size_t i = 0; i < group->n_resources && json->err == BELFRY_OK; i++) {
        const struct kube_version *served = kube_resource_served(group->resources[i], belfry_bytes_str(version));
        if (served != NULL)
            write(&(struct page){json, group->resources[i], served});
    }
}

enum belfry_err kube_openapi_write(const struct kube_group *group, const char *version, struct belfry_buf *out)
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
    write_whole(&json, KUBE_SCHEMA_OBJECT_META, belfry_bytes_str(kube_schema_object_meta));
    write_whole(&json, KUBE_SCHEMA_LIST_META, belfry_bytes_str(kube_schema_list_meta));
    belfry_json_close(&json, '}');
    belfry_json_close(&json, '}');
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}
