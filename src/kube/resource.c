/* src/kube/resource.c */
#include "kube/resource.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/list.h"
#include "kube/builtin.h"
#include "kube/name.h"
#include "kube/version.h"
#include "json/json_alc.h"
#include "json/manifest.h"
#include "json/member.h"
#include "json/path.h"

/* ---- its life ---- */

struct kept {
    atomic_uint refs;
    struct kube_resource resource;
};

static struct kept *kept_of(const struct kube_resource *resource)
{
    return (struct kept *)(uintptr_t)belfry_container_const(resource, struct kept, resource); /* for the count */
}

struct kube_resource *kube_resource_ref(const struct kube_resource *resource)
{
    struct kept *kept = kept_of(resource);
    atomic_fetch_add_explicit(&kept->refs, 1, memory_order_relaxed);
    return &kept->resource;
}

static void free_texts(char **texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
}

static void version_fini(struct kube_version *version)
{
    for (size_t i = 0; i < version->n_columns; i++) {
        struct kube_column *column = &version->columns[i];
        free(column->name);
        free(column->type);
        free(column->format);
        free(column->description);
        belfry_kube_path_free(column->path);
    }
    for (size_t i = 0; i < version->n_fields; i++) {
        free(version->fields[i].name);
        belfry_kube_path_free(version->fields[i].path);
        belfry_kube_path_free(version->fields[i].otherwise);
    }
    free(version->columns);
    free(version->fields);
    free(version->name);
    free(version->api_version);
    free(version->deprecation_warning);
    free(version->schema);
}

static void resource_destroy(struct kept *kept)
{
    struct kube_resource *resource = &kept->resource;
    for (size_t i = 0; i < resource->n_versions; i++)
        version_fini(&resource->versions[i]);
    free(resource->versions);
    free_texts(resource->short_names, resource->n_short_names);
    free_texts(resource->categories, resource->n_categories);
    free(resource->group);
    free(resource->plural);
    free(resource->singular);
    free(resource->kind);
    free(resource->list_kind);
    free(resource->omitted);
    free(resource->prefix);
    free(resource->wrap_key);
    free(resource->wrap_field);
    free(resource->guard);
    free(kept);
}

void kube_resource_unref(const struct kube_resource *resource)
{
    if (resource == NULL)
        return;
    struct kept *kept = kept_of(resource);
    if (atomic_fetch_sub_explicit(&kept->refs, 1, memory_order_acq_rel) == 1) /* all uses happen before the free */
        resource_destroy(kept);
}

const struct kube_version *kube_resource_served(const struct kube_resource *resource, struct belfry_bytes version)
{
    for (size_t i = 0; i < resource->n_served; i++) {
        if (belfry_bytes_equal(belfry_bytes_str(resource->versions[i].name), version))
            return &resource->versions[i];
    }
    return NULL;
}

/* ---- where its objects are ---- */

#define NAMESPACE "{namespace}"
#define NAME      "{name}"

/* lead FIRST between SECOND tail; cluster-scoped: lead {name} tail. */
struct layout {
    struct belfry_bytes lead, between, tail;
    bool two, name_first;
};

static const char *template_of(const struct kube_resource *resource)
{
    if (resource->wrap_key != NULL)
        return resource->wrap_key;
    return resource->namespaced ? NAMESPACE "/" NAME : NAME;
}

/* NULL: the template is valid. Otherwise its error. */
static const char *split_template(const char *template, bool namespaced, struct layout *out)
{
    const char *name = strstr(template, NAME), *space = strstr(template, NAMESPACE);
    const char *end = template + strlen(template);
    if (name == NULL)
        return "has no {name}";
    if (namespaced != (space != NULL))
        return namespaced ? "has no {namespace}, and the resource is namespaced"
                          : "has a {namespace}, and the resource is cluster-scoped";
    const char *name_end = name + strlen(NAME), *space_end = namespaced ? space + strlen(NAMESPACE) : NULL;
    out->two = namespaced;
    out->name_first = namespaced && name < space;
    const char *begin = namespaced && !out->name_first ? space : name;
    const char *last = out->name_first ? space_end : name_end;
    out->lead = belfry_bytes_of(template, (size_t)(begin - template));
    out->tail = belfry_bytes_of(last, (size_t)(end - last));
    if (namespaced)
        out->between = out->name_first ? belfry_bytes_of(name_end, (size_t)(space - name_end))
                                       : belfry_bytes_of(space_end, (size_t)(name - space_end));
    return NULL;
}

static struct layout layout_of(const struct kube_resource *resource)
{
    struct layout layout = {0};
    const char *wrong =
        split_template(template_of(resource), resource->namespaced, &layout); /* checked when it was read */
    (void)wrong;
    return layout;
}

static struct belfry_bytes part(struct belfry_bytes whole, size_t from, size_t to)
{
    return belfry_bytes_of(whole.data + from, to - from);
}

static bool ends(struct belfry_bytes whole, struct belfry_bytes tail)
{
    return whole.len >= tail.len && belfry_bytes_equal(part(whole, whole.len - tail.len, whole.len), tail);
}

/* No name contains a '/', so the first '/' in `text` is the first '/' of `between`. */
static bool cut_at(struct belfry_bytes text, struct belfry_bytes between, struct belfry_bytes *first,
                   struct belfry_bytes *second)
{
    const char *slash = memchr(text.data, '/', text.len);
    const char *own = memchr(between.data, '/', between.len);
    if (slash == NULL || own == NULL || slash - text.data < own - between.data)
        return false;
    size_t at = (size_t)(slash - text.data) - (size_t)(own - between.data);
    if (!belfry_bytes_begins(part(text, at, text.len), between))
        return false;
    *first = part(text, 0, at);
    *second = part(text, at + between.len, text.len);
    return true;
}

bool kube_resource_parts(const struct kube_resource *resource, struct belfry_bytes key, struct belfry_bytes *namespace,
                         struct belfry_bytes *name)
{
    struct layout layout = layout_of(resource);
    struct belfry_bytes prefix = belfry_bytes_str(resource->prefix);
    if (!belfry_bytes_begins(key, prefix))
        return false;
    struct belfry_bytes rest = part(key, prefix.len, key.len), first = {0}, second;
    if (!belfry_bytes_begins(rest, layout.lead))
        return false;
    rest = part(rest, layout.lead.len, rest.len);
    if (!ends(rest, layout.tail))
        return false;
    second = part(rest, 0, rest.len - layout.tail.len);
    if (layout.two && !cut_at(second, layout.between, &first, &second))
        return false;
    *namespace = !layout.two ? belfry_bytes_of("", 0) : layout.name_first ? second : first;
    *name = layout.name_first ? first : second;
    if (resource->is_verbatim)
        return name->len > 0 && memchr(name->data, '/', name->len) == NULL && (!layout.two || namespace->len > 0);
    return kube_name_is_subdomain(*name) && (!layout.two || kube_name_is_label(*namespace));
}

static enum belfry_err append_text(struct belfry_buf *out, struct belfry_bytes bytes)
{
    return bytes.len == 0 ? BELFRY_OK : belfry_buf_append(out, bytes.data, bytes.len);
}

enum belfry_err kube_resource_key(const struct kube_resource *resource, struct belfry_bytes namespace,
                                  struct belfry_bytes name, struct belfry_buf *out, bool *filter)
{
    struct layout layout = layout_of(resource);
    struct belfry_bytes first = layout.two && !layout.name_first ? namespace : name;
    struct belfry_bytes second = layout.name_first ? namespace : name;
    enum belfry_err err = append_text(out, belfry_bytes_str(resource->prefix));
    if (err == BELFRY_OK)
        err = append_text(out, layout.lead);
    *filter = layout.two && first.len == 0 && second.len > 0;
    if (err != BELFRY_OK || first.len == 0)
        return err;
    err = append_text(out, first);
    if (err == BELFRY_OK && layout.two)
        err = append_text(out, layout.between);
    if (err != BELFRY_OK || second.len == 0)
        return err;
    if (layout.two)
        err = append_text(out, second);
    return err == BELFRY_OK ? append_text(out, layout.tail) : err;
}

/* ---- a definition: its form ---- */

#define API_VERSION "apiextensions.k8s.io/v1"
#define OLD_VERSION "apiextensions.k8s.io/v1beta1"
#define KIND        "CustomResourceDefinition"
#define WORD        "names of 1 to 63 lower-case letters, digits and '-', a letter first"

static enum belfry_err check_text(const struct belfry_kube_members *m, const char *key, const char *expected)
{
    char *text = NULL;
    enum belfry_err err = belfry_kube_member_need(m, key, &text);
    if (err == BELFRY_OK && strcmp(text, expected) != 0)
        err = belfry_kube_member_wrong(m, key, "'%.128s': only %s is read", text, expected);
    free(text);
    return err;
}

static enum belfry_err read_api_version(const struct belfry_kube_members *m, bool *is_old)
{
    char *text = NULL;
    enum belfry_err err = belfry_kube_member_text(m, "apiVersion", &text);
    *is_old = err == BELFRY_OK && text != NULL && strcmp(text, OLD_VERSION) == 0;
    free(text);
    return err == BELFRY_OK && !*is_old ? check_text(m, "apiVersion", API_VERSION) : err;
}

/* ---- a definition: names ---- */

static enum belfry_err check_word(const struct belfry_kube_members *m, const char *key, const char *text)
{
    if (kube_name_is_word(belfry_bytes_str(text)))
        return BELFRY_OK;
    return belfry_kube_member_wrong(m, key, "'%.64s' is none of the " WORD, text);
}

static enum belfry_err read_words(const struct belfry_kube_members *m, const char *key, char ***words, size_t *n)
{
    yyjson_val *list, *element;
    enum belfry_err err = belfry_kube_member_list(m, key, KUBE_NAMES_MAX, &list);
    size_t i, count = yyjson_arr_size(list);
    if (err != BELFRY_OK || count == 0)
        return err;
    *words = calloc(count, sizeof(**words));
    if (*words == NULL)
        return BELFRY_ERR_NOMEM;
    yyjson_arr_foreach(list, i, count, element)
    {
        struct belfry_bytes word = belfry_bytes_of(yyjson_get_str(element), yyjson_get_len(element));
        if (!yyjson_is_str(element) || !kube_name_is_word(word))
            return belfry_kube_member_wrong(m, key, "must hold " WORD " alone");
        (*words)[*n] = strdup(word.data);
        if ((*words)[(*n)++] == NULL)
            return BELFRY_ERR_NOMEM;
    }
    return BELFRY_OK;
}

static char *to_lower(const char *text)
{
    char *copy = strdup(text);
    for (char *at = copy; at != NULL && *at != '\0'; at++) {
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
    }
    return copy;
}

static enum belfry_err check_kind(const struct belfry_kube_members *m, const char *key, const char *kind)
{
    char *low = to_lower(kind);
    if (low == NULL)
        return BELFRY_ERR_NOMEM;
    bool ok = kube_name_is_word(belfry_bytes_str(low));
    free(low);
    return ok ? BELFRY_OK
              : belfry_kube_member_wrong(m, key, "'%.64s' is no kind: letters, digits and '-', at most %d", kind,
                                         KUBE_LABEL_MAX);
}

static enum belfry_err read_names(const struct belfry_kube_members *spec, struct kube_resource *out)
{
    struct belfry_kube_members names;
    enum belfry_err err = belfry_kube_member_object(spec, "names", &names);
    if (err == BELFRY_OK)
        err = belfry_kube_member_need(&names, "plural", &out->plural);
    if (err == BELFRY_OK)
        err = belfry_kube_member_need(&names, "kind", &out->kind);
    if (err == BELFRY_OK)
        err = belfry_kube_member_text(&names, "singular", &out->singular);
    if (err == BELFRY_OK)
        err = belfry_kube_member_text(&names, "listKind", &out->list_kind);
    if (err != BELFRY_OK)
        return err;

    /* what is not given follows from the kind */
    if (out->singular == NULL)
        out->singular = to_lower(out->kind);
    if (out->list_kind == NULL) {
        size_t room = strlen(out->kind) + sizeof("List");
        out->list_kind = malloc(room);
        if (out->list_kind != NULL)
            snprintf(out->list_kind, room, "%sList", out->kind);
    }
    if (out->singular == NULL || out->list_kind == NULL)
        return BELFRY_ERR_NOMEM;

    err = check_word(&names, "plural", out->plural);
    if (err == BELFRY_OK)
        err = check_kind(&names, "kind", out->kind);
    if (err == BELFRY_OK)
        err = check_kind(&names, "listKind", out->list_kind);
    if (err == BELFRY_OK)
        err = check_word(&names, "singular", out->singular);
    if (err == BELFRY_OK && strcmp(out->kind, out->list_kind) == 0)
        err = belfry_kube_member_wrong(&names, "listKind", "the same as kind");

    if (err == BELFRY_OK)
        err = read_words(&names, "shortNames", &out->short_names, &out->n_short_names);
    if (err == BELFRY_OK)
        err = read_words(&names, "categories", &out->categories, &out->n_categories);
    return err;
}

/* The object that holds `key`: the version or, in a v1beta1, possibly the common part. */
static const struct belfry_kube_members *where_is(const struct belfry_kube_members *m,
                                                  const struct belfry_kube_members *common, const char *key)
{
    return common != NULL && yyjson_obj_get(m->object, key) == NULL ? common : m;
}

/* ---- a definition: additionalPrinterColumns of a version ---- */

static bool is_column_type(const char *type)
{
    static const char *const types[] = {"integer", "number", "string", "boolean", "date"};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(type, types[i]) == 0)
            return true;
    }
    return false;
}

/* *text is the path as written; the caller frees it. */
static enum belfry_err read_path(const struct belfry_kube_members *m, const char *key, char **text,
                                 struct belfry_kube_path **out)
{
    enum belfry_err err = belfry_kube_member_need(m, key, text);
    if (err != BELFRY_OK)
        return err;
    err = belfry_kube_path_read(belfry_bytes_str(*text), out);
    if (err == BELFRY_ERR_INVALID)
        return belfry_kube_member_wrong(m, key, "'%.128s' is no path that is read here, such as .spec.replicas", *text);
    return err;
}

static enum belfry_err read_column(const struct belfry_kube_members *m, const char *path_key,
                                   struct kube_column *column)
{
    char *text = NULL;
    enum belfry_err err = belfry_kube_member_need(m, "name", &column->name);
    if (err == BELFRY_OK)
        err = belfry_kube_member_need(m, "type", &column->type);
    if (err == BELFRY_OK && !is_column_type(column->type))
        err = belfry_kube_member_wrong(m, "type", "'%.64s' is none of integer, number, string, boolean, date",
                                       column->type);
    if (err == BELFRY_OK)
        err = belfry_kube_member_text(m, "format", &column->format);
    if (err == BELFRY_OK)
        err = belfry_kube_member_text(m, "description", &column->description);
    if (err == BELFRY_OK)
        err = belfry_kube_member_int32(m, "priority", &column->priority);
    if (err == BELFRY_OK)
        err = read_path(m, path_key, &text, &column->path);
    free(text);
    return err;
}

static enum belfry_err read_columns(const struct belfry_kube_members *m, const struct belfry_kube_members *common,
                                    struct kube_version *version)
{
    static const char key[] = "additionalPrinterColumns";
    const char *path_key = common != NULL ? "JSONPath" : "jsonPath"; /* v1beta1 spells only this key with capitals */
    yyjson_val *list;
    m = where_is(m, common, key);
    enum belfry_err err = belfry_kube_member_list(m, key, KUBE_COLUMNS_MAX, &list);
    size_t n = yyjson_arr_size(list);
    if (err != BELFRY_OK || n == 0)
        return err;
    version->columns = calloc(n, sizeof(*version->columns));
    if (version->columns == NULL)
        return BELFRY_ERR_NOMEM;
    yyjson_arr_iter iter = yyjson_arr_iter_with(list);
    for (size_t i = 0; i < n && err == BELFRY_OK; i++) {
        struct belfry_kube_members column;
        err = belfry_kube_member_element(m, key, i, yyjson_arr_iter_next(&iter), &column);
        version->n_columns = i + 1;
        if (err == BELFRY_OK)
            err = read_column(&column, path_key, &version->columns[i]);
    }
    return err;
}

/* ---- a definition: selectableFields of a version ---- */

static enum belfry_err check_field(const struct belfry_kube_members *m, const struct kube_version *version,
                                   const char *text, const struct belfry_kube_path *path)
{
    if (!belfry_kube_path_is_simple(path) || text[0] != '.')
        return belfry_kube_member_wrong(m, "jsonPath", "'%.128s' must be names with dots between, such as .spec.color",
                                        text);
    if (strncmp(text, ".metadata.", 10) == 0 || strcmp(text, ".metadata") == 0)
        return belfry_kube_member_wrong(m, "jsonPath", "'%.128s' is in metadata, which has its own selectors", text);
    if (strpbrk(text, "=!,\\") != NULL) /* the operators of a field selector */
        return belfry_kube_member_wrong(m, "jsonPath", "'%.128s' cannot be written in a field selector", text);
    for (size_t i = 0; i + 1 < version->n_fields; i++) {
        if (strcmp(version->fields[i].name, text + 1) == 0)
            return belfry_kube_member_wrong(m, "jsonPath", "'%.128s' is there twice", text);
    }
    return BELFRY_OK;
}

static enum belfry_err read_field(const struct belfry_kube_members *m, const struct kube_version *version,
                                  struct kube_field *field)
{
    char *text = NULL;
    enum belfry_err err = read_path(m, "jsonPath", &text, &field->path);
    if (err == BELFRY_OK)
        err = check_field(m, version, text, field->path);
    if (err == BELFRY_OK) {
        field->name = strdup(text + 1);
        err = field->name == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
    }
    free(text);
    return err;
}

static enum belfry_err read_fields(const struct belfry_kube_members *m, const struct belfry_kube_members *common,
                                   struct kube_version *version)
{
    static const char key[] = "selectableFields";
    yyjson_val *list;
    m = where_is(m, common, key);
    enum belfry_err err = belfry_kube_member_list(m, key, KUBE_CRD_FIELDS, &list);
    size_t n = yyjson_arr_size(list);
    if (err != BELFRY_OK || n == 0)
        return err;
    version->fields = calloc(n, sizeof(*version->fields));
    if (version->fields == NULL)
        return BELFRY_ERR_NOMEM;
    yyjson_arr_iter iter = yyjson_arr_iter_with(list);
    for (size_t i = 0; i < n && err == BELFRY_OK; i++) {
        struct belfry_kube_members field;
        err = belfry_kube_member_element(m, key, i, yyjson_arr_iter_next(&iter), &field);
        version->n_fields = i + 1;
        if (err == BELFRY_OK)
            err = read_field(&field, version, &version->fields[i]);
    }
    return err;
}

/* ---- a definition: a version ---- */

/* Fills *out; on failure partly. `common` is the spec of a v1beta1, which holds what versions share; NULL for v1. */
static enum belfry_err read_version(const struct belfry_kube_members *m, const struct belfry_kube_members *common,
                                    const char *group, struct kube_version *out)
{
    enum belfry_err err = belfry_kube_member_need(m, "name", &out->name);
    if (err != BELFRY_OK)
        return err;
    if (!kube_name_is_word(belfry_bytes_str(out->name)))
        return belfry_kube_member_wrong(m, "name", "'%.64s' is not a version name, such as v1", out->name);
    size_t room = strlen(group) + strlen(out->name) + 2;
    out->api_version = malloc(room);
    if (out->api_version == NULL)
        return BELFRY_ERR_NOMEM;
    snprintf(out->api_version, room, "%s%s%s", group, group[0] == '\0' ? "" : "/", out->name);

    err = belfry_kube_member_bool(m, "served", &out->served);
    if (err == BELFRY_OK)
        err = belfry_kube_member_bool(m, "storage", &out->storage);
    if (err == BELFRY_OK)
        err = belfry_kube_member_bool(m, "deprecated", &out->deprecated);
    if (err == BELFRY_OK)
        err = belfry_kube_member_text(m, "deprecationWarning", &out->deprecation_warning);

    struct belfry_kube_members subresources, status, scale;
    if (err == BELFRY_OK)
        err = belfry_kube_member_object(where_is(m, common, "subresources"), "subresources", &subresources);
    if (err == BELFRY_OK)
        err = belfry_kube_member_object(&subresources, "status", &status);
    if (err == BELFRY_OK)
        err = belfry_kube_member_object(&subresources, "scale", &scale);
    if (err == BELFRY_OK) {
        out->has_status = status.object != NULL;
        out->has_scale = scale.object != NULL;
        err = read_columns(m, common, out);
    }
    if (err == BELFRY_OK)
        err = read_fields(m, common, out);
    if (err != BELFRY_OK)
        return err;

    /* the schema, as it is */
    struct belfry_kube_members schema, openapi;
    yyjson_write_err why = {0};
    const struct belfry_kube_members *holder = where_is(m, common, "schema");
    err = belfry_kube_member_object(holder, holder == common ? "validation" : "schema", &schema);
    if (err == BELFRY_OK)
        err = belfry_kube_member_object(&schema, "openAPIV3Schema", &openapi);
    if (err != BELFRY_OK || openapi.object == NULL)
        return err;
    out->schema = yyjson_val_write_opts(openapi.object, YYJSON_WRITE_NOFLAG, &belfry_json_alc, NULL, &why);
    if (out->schema != NULL)
        return BELFRY_OK;
    return why.code == YYJSON_WRITE_ERROR_MEMORY_ALLOCATION
               ? BELFRY_ERR_NOMEM
               : belfry_kube_member_wrong(&schema, "openAPIV3Schema", "%s", why.msg);
}

/* ---- a definition: all versions ---- */

/* Served versions first; within each group the preferred version first. */
static int version_cmp(const void *a, const void *b)
{
    const struct kube_version *x = a, *y = b;
    if (x->served != y->served)
        return x->served ? -1 : 1;
    return kube_version_order(x->name, y->name);
}

static enum belfry_err check_versions(const struct belfry_kube_members *spec, struct kube_resource *out)
{
    size_t n_storage = 0;
    for (size_t i = 0; i < out->n_versions; i++) {
        n_storage += out->versions[i].storage;
        out->n_served += out->versions[i].served;
        for (size_t k = 0; k < i; k++) {
            if (strcmp(out->versions[i].name, out->versions[k].name) == 0)
                return belfry_kube_member_wrong(spec, "versions", "%s is there twice", out->versions[i].name);
        }
    }
    if (n_storage != 1)
        return belfry_kube_member_wrong(spec, "versions", "%zu have storage: true: one must have it", n_storage);
    return out->n_served > 0 ? BELFRY_OK : belfry_kube_member_wrong(spec, "versions", "none of them can be served");
}

static enum belfry_err read_versions(const struct belfry_kube_members *spec, bool is_old, struct kube_resource *out)
{
    static const char key[] = "versions";
    yyjson_val *list;
    enum belfry_err err = belfry_kube_member_list(spec, key, KUBE_VERSIONS_MAX, &list);
    size_t n = yyjson_arr_size(list);
    if (err == BELFRY_OK && n == 0)
        err = belfry_kube_member_wrong(spec, key, "missing");
    if (err != BELFRY_OK)
        return err;
    out->versions = calloc(n, sizeof(*out->versions));
    if (out->versions == NULL)
        return BELFRY_ERR_NOMEM;
    yyjson_arr_iter iter = yyjson_arr_iter_with(list);
    for (size_t i = 0; i < n && err == BELFRY_OK; i++) {
        struct belfry_kube_members version;
        err = belfry_kube_member_element(spec, key, i, yyjson_arr_iter_next(&iter), &version);
        out->n_versions = i + 1;
        if (err == BELFRY_OK)
            err = read_version(&version, is_old ? spec : NULL, out->group, &out->versions[i]);
    }
    return err;
}

static enum belfry_err read_conversion(const struct belfry_kube_members *spec, struct kube_resource *out)
{
    struct belfry_kube_members conversion;
    char *strategy = NULL;
    enum belfry_err err = belfry_kube_member_object(spec, "conversion", &conversion);
    if (err == BELFRY_OK)
        err = belfry_kube_member_text(&conversion, "strategy", &strategy);
    if (err != BELFRY_OK || strategy == NULL || strcmp(strategy, "None") == 0) {
        free(strategy);
        return err;
    }
    free(strategy);
    for (size_t i = 0; i < out->n_versions; i++)
        out->versions[i].served = out->versions[i].served && out->versions[i].storage;
    return BELFRY_OK;
}

/* ---- a definition: the whole ---- */

static enum belfry_err read_group(const struct belfry_kube_members *spec, struct kube_resource *out)
{
    enum belfry_err err = belfry_kube_member_text(spec, "group", &out->group);
    if (err != BELFRY_OK)
        return err;
    if (out->group == NULL)
        return belfry_kube_member_wrong(spec, "group", "missing");
    if (out->group[0] != '\0' && !kube_name_is_subdomain(belfry_bytes_str(out->group)))
        return belfry_kube_member_wrong(spec, "group", "'%.128s' is not a lower-case domain name", out->group);
    return BELFRY_OK;
}

static enum belfry_err read_scope(const struct belfry_kube_members *spec, struct kube_resource *out)
{
    char *scope = NULL;
    enum belfry_err err = belfry_kube_member_need(spec, "scope", &scope);
    if (err != BELFRY_OK)
        return err;
    out->namespaced = strcmp(scope, "Namespaced") == 0;
    if (!out->namespaced && strcmp(scope, "Cluster") != 0)
        err = belfry_kube_member_wrong(spec, "scope", "'%.64s' is neither Namespaced nor Cluster", scope);
    free(scope);
    return err;
}

/* Kubernetes' own rule. It finds manifests whose names were changed in one place only. */
static enum belfry_err check_own_name(const struct belfry_kube_members *root, const struct kube_resource *out)
{
    struct belfry_kube_members metadata;
    char *name = NULL;
    enum belfry_err err = belfry_kube_member_object(root, "metadata", &metadata);
    if (err == BELFRY_OK)
        err = belfry_kube_member_need(&metadata, "name", &name);
    if (err != BELFRY_OK)
        return err;
    size_t len = strlen(out->plural);
    const char *rest = strncmp(name, out->plural, len) == 0 ? name + len : NULL;
    bool same =
        rest != NULL && (out->group[0] == '\0' ? rest[0] == '\0' : rest[0] == '.' && strcmp(rest + 1, out->group) == 0);
    if (!same)
        err = belfry_kube_member_wrong(&metadata, "name", "'%.128s' must be spec.names.plural.spec.group: %s%s%s", name,
                                       out->plural, out->group[0] == '\0' ? "" : ".", out->group);
    free(name);
    return err;
}

/* Fills what a definition defines, but not prefix and wrap; on failure partly. */
static enum belfry_err crd_read(yyjson_val *manifest, struct kube_resource *out, struct belfry_kube_fault *fault)
{
    struct belfry_kube_members root = {.object = manifest, .fault = fault}, spec;
    bool is_old = false;
    enum belfry_err err = check_text(&root, "kind", KIND);
    if (err == BELFRY_OK)
        err = read_api_version(&root, &is_old);
    if (err == BELFRY_OK)
        err = belfry_kube_member_object(&root, "spec", &spec);
    if (err == BELFRY_OK)
        err = read_group(&spec, out);
    if (err == BELFRY_OK)
        err = read_scope(&spec, out);
    if (err == BELFRY_OK)
        err = read_names(&spec, out);
    if (err == BELFRY_OK)
        err = check_own_name(&root, out);
    if (err == BELFRY_OK)
        err = read_versions(&spec, is_old, out);
    if (err == BELFRY_OK)
        err = read_conversion(&spec, out);
    if (err == BELFRY_OK)
        err = check_versions(&spec, out);
    if (err == BELFRY_OK)
        qsort(out->versions, out->n_versions, sizeof(*out->versions), version_cmp);
    return err;
}

/* ---- from a definition and options ---- */

#define DEFAULT_PREFIX "/registry/{group}/{plural}/"

static size_t count_in(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what))
        n++;
    return n;
}

static bool has_brace(struct belfry_bytes text)
{
    return text.len > 0 && (memchr(text.data, '{', text.len) != NULL || memchr(text.data, '}', text.len) != NULL);
}

static enum belfry_err check_template(const struct kube_resource *resource, struct belfry_kube_fault *fault)
{
    const char *text = resource->wrap_key;
    struct layout layout = {0};
    if (strlen(text) > KUBE_PREFIX_MAX)
        return belfry_kube_fault_say(fault, "wrap key: longer than %d bytes", KUBE_PREFIX_MAX);
    const char *wrong = split_template(text, resource->namespaced, &layout);
    if (wrong == NULL && (count_in(text, NAME) > 1 || count_in(text, NAMESPACE) > 1))
        wrong = "has a part twice";
    else if (wrong == NULL && (has_brace(layout.lead) || has_brace(layout.between) || has_brace(layout.tail)))
        wrong = "has braces around something other than {namespace} and {name}";
    else if (wrong == NULL && layout.two &&
             (layout.between.len == 0 || memchr(layout.between.data, '/', layout.between.len) == NULL))
        wrong = "has no '/' between {namespace} and {name}";
    return wrong == NULL ? BELFRY_OK : belfry_kube_fault_say(fault, "wrap key: '%.128s' %s", text, wrong);
}

static bool is_field_name(const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    static const char *const taken[] = {"apiVersion", "kind", "metadata"};
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        if (strcmp(text, taken[i]) == 0)
            return false;
    }
    size_t len = strlen(text);
    return len > 0 && len <= KUBE_LABEL_MAX && strspn(text, letters) == len;
}

static enum belfry_err set_text(char **out, const char *text)
{
    *out = strdup(text);
    return *out == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

static enum belfry_err set_wrap(struct kube_resource *resource, const struct kube_resource_opts *opts,
                                struct belfry_kube_fault *fault)
{
    if (opts->wrap_key == NULL && opts->wrap_field == NULL)
        return BELFRY_OK;
    enum belfry_err err = set_text(&resource->wrap_field, opts->wrap_field == NULL ? "spec" : opts->wrap_field);
    if (err == BELFRY_OK && !is_field_name(resource->wrap_field))
        err = belfry_kube_fault_say(fault, "wrap field: '%.64s' is not a field that can be filled, such as spec",
                                    resource->wrap_field);
    if (err == BELFRY_OK)
        err = set_text(&resource->wrap_key, opts->wrap_key == NULL ? template_of(resource) : opts->wrap_key);
    return err == BELFRY_OK ? check_template(resource, fault) : err;
}

/* The replacement for "{group}" or "{plural}" at `at`, and the length of the placeholder; NULL: an ordinary byte. */
static const char *placeholder(const struct kube_resource *resource, const char *at, size_t *len)
{
    bool core = resource->group[0] == '\0';
    if (strncmp(at, "{group}", 7) == 0) {
        *len = core && at[7] == '/' ? 8 : 7;
        return resource->group;
    }
    *len = strlen("{plural}");
    return strncmp(at, "{plural}", *len) == 0 ? resource->plural : NULL;
}

static enum belfry_err expand(const struct kube_resource *resource, const char *text, struct belfry_buf *out)
{
    enum belfry_err err = BELFRY_OK;
    while (*text != '\0' && err == BELFRY_OK) {
        size_t len;
        const char *value = placeholder(resource, text, &len);
        err = value == NULL ? belfry_buf_append(out, text, 1) : append_text(out, belfry_bytes_str(value));
        text += value == NULL ? 1 : len;
    }
    if (err == BELFRY_OK && !ends(belfry_buf_bytes(out), belfry_bytes_str("/")))
        err = belfry_buf_append(out, "/", 1);
    return err == BELFRY_OK ? belfry_buf_append(out, "", 1) : err;
}

static enum belfry_err set_prefix(struct kube_resource *resource, const char *text, struct belfry_kube_fault *fault)
{
    struct belfry_buf buf;
    if (text == NULL)
        text = DEFAULT_PREFIX;
    if (text[0] == '\0' || strlen(text) > KUBE_PREFIX_MAX)
        return belfry_kube_fault_say(fault, "prefix: must have 1 to %d bytes", KUBE_PREFIX_MAX);
    belfry_buf_init(&buf);
    enum belfry_err err = expand(resource, text, &buf);
    if (err == BELFRY_OK && has_brace(belfry_buf_bytes(&buf)))
        err = belfry_kube_fault_say(
            fault, "prefix: '%.128s' has braces around something other than {group} and {plural}", text);
    if (err == BELFRY_OK)
        err = set_text(&resource->prefix, belfry_buf_bytes(&buf).data);
    belfry_buf_fini(&buf);
    return err;
}

static uint64_t hash_more(uint64_t hash, const char *text)
{
    static const struct belfry_hash_key key = {1, 0}; /* fixed: nobody gains by a collision */
    return belfry_hash_int(hash ^ (text == NULL ? 0 : belfry_hash(key, belfry_bytes_str(text))));
}

/* Hashes the spec as yyjson writes it, and the manifest's apiVersion: the same spec can mean different things in v1 and
 * v1beta1. */
static enum belfry_err hash_all(yyjson_val *manifest, struct kube_resource *resource)
{
    size_t len;
    yyjson_val *spec = yyjson_obj_get(manifest, "spec");
    char *text = yyjson_val_write_opts(spec, YYJSON_WRITE_ALLOW_INF_AND_NAN | YYJSON_WRITE_ALLOW_INVALID_UNICODE,
                                       &belfry_json_alc, &len, NULL);
    if (text == NULL)
        return BELFRY_ERR_NOMEM;
    uint64_t hash = belfry_hash((struct belfry_hash_key){0, 0}, belfry_bytes_of(text, len));
    free(text);
    hash = hash_more(hash, yyjson_get_str(yyjson_obj_get(manifest, "apiVersion")));
    hash = hash_more(hash, resource->prefix);
    hash = hash_more(hash, resource->wrap_key);
    resource->hash = hash_more(hash, resource->wrap_field);
    return BELFRY_OK;
}

static struct kept *kept_make(void)
{
    struct kept *kept = calloc(1, sizeof(*kept));
    if (kept != NULL)
        atomic_init(&kept->refs, 1);
    return kept;
}

enum belfry_err kube_resource_read(struct belfry_bytes manifest, const struct kube_resource_opts *opts,
                                   struct kube_resource **out, char **why)
{
    struct belfry_kube_fault fault = {.text = ""};
    struct kept *kept = kept_make();
    yyjson_doc *doc = NULL;
    *why = NULL;
    if (kept == NULL)
        return BELFRY_ERR_NOMEM;

    struct kube_resource *resource = &kept->resource;
    enum belfry_err err = belfry_kube_manifest_read(manifest, &doc, &fault);
    if (err == BELFRY_OK)
        err = crd_read(yyjson_doc_get_root(doc), resource, &fault);
    if (err == BELFRY_OK)
        err = set_prefix(resource, opts->prefix, &fault);
    if (err == BELFRY_OK)
        err = set_wrap(resource, opts, &fault);
    if (err == BELFRY_OK)
        err = set_text(&resource->guard, opts->under != NULL ? opts->under : resource->prefix);
    if (err == BELFRY_OK)
        err = hash_all(yyjson_doc_get_root(doc), resource);
    yyjson_doc_free(doc);

    if (err == BELFRY_OK) {
        *out = resource;
        return BELFRY_OK;
    }
    if (err == BELFRY_ERR_INVALID)
        *why = strdup(fault.text);
    kube_resource_unref(resource);
    return err;
}

/* ---- from discovery ---- */

#define TEXT_MAX 1024 /* of a text that is made of names; a name is shorter than KUBE_SUBDOMAIN_MAX */

/* Groups and plurals are parts of paths. A kind is shown in JSON as it is. */
static bool is_api_resource(const struct kube_api_resource *of)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t kind = strlen(of->kind);
    return (of->group[0] == '\0' || kube_name_is_subdomain(belfry_bytes_str(of->group))) &&
           kube_name_is_word(belfry_bytes_str(of->version)) && kube_name_is_subdomain(belfry_bytes_str(of->plural)) &&
           kind > 0 && kind <= KUBE_LABEL_MAX && strspn(of->kind, letters) == kind &&
           strlen(of->singular) <= KUBE_SUBDOMAIN_MAX;
}

static enum belfry_err set_path(struct belfry_kube_path **out, const char *text)
{
    return text == NULL ? BELFRY_OK : belfry_kube_path_read(belfry_bytes_str(text), out);
}

static enum belfry_err set_field(struct kube_field *field, const struct kube_builtin_field *from)
{
    char path[TEXT_MAX];
    snprintf(path, sizeof(path), ".%s", from->name);
    field->missing = from->missing;
    enum belfry_err err = set_text(&field->name, from->name);
    if (err == BELFRY_OK && !from->is_empty)
        err = set_path(&field->path, from->path == NULL ? path : from->path);
    return err == BELFRY_OK ? set_path(&field->otherwise, from->otherwise) : err;
}

/* Those that the server's version has. */
static enum belfry_err set_builtin_fields(struct kube_version *version, const struct kube_builtin_type *type,
                                          unsigned minor)
{
    enum belfry_err err = BELFRY_OK;
    version->no_namespace = type->no_namespace;
    version->fields = calloc(type->n_fields, sizeof(*version->fields));
    if (version->fields == NULL)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < type->n_fields && err == BELFRY_OK; i++)
        if (kube_builtin_has(&type->fields[i], minor))
            err = set_field(&version->fields[version->n_fields++], &type->fields[i]);
    return err;
}

/* BELFRY_ERR_INVALID: no path of a field. */
static enum belfry_err set_custom_field(struct kube_field *field, const char *text)
{
    if (text[0] != '.' || strpbrk(text, "=!,\\") != NULL)
        return BELFRY_ERR_INVALID;
    enum belfry_err err = set_path(&field->path, text);
    if (err == BELFRY_OK && !belfry_kube_path_is_simple(field->path))
        err = BELFRY_ERR_INVALID;
    if (err == BELFRY_OK)
        err = set_text(&field->name, text + 1);
    if (err == BELFRY_OK)
        return BELFRY_OK;
    belfry_kube_path_free(field->path);
    *field = (struct kube_field){0};
    return err;
}

/* As the definition has them. A cluster-scoped custom resource cannot be selected by a namespace. */
static enum belfry_err set_custom_fields(struct kube_version *version, const struct kube_api_resource *of)
{
    version->no_namespace = !of->namespaced;
    if (of->n_fields == 0)
        return BELFRY_OK;
    version->fields = calloc(of->n_fields, sizeof(*version->fields));
    if (version->fields == NULL)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < of->n_fields && version->n_fields < KUBE_CRD_FIELDS; i++) {
        enum belfry_err err = set_custom_field(&version->fields[version->n_fields], of->fields[i]);
        if (err == BELFRY_ERR_NOMEM)
            return err;
        version->n_fields += err == BELFRY_OK;
    }
    return BELFRY_OK;
}

static enum belfry_err set_version(struct kube_resource *resource, const struct kube_api_resource *of)
{
    char text[TEXT_MAX];
    resource->versions = calloc(1, sizeof(*resource->versions));
    if (resource->versions == NULL)
        return BELFRY_ERR_NOMEM;
    struct kube_version *version = &resource->versions[0];
    resource->n_versions = resource->n_served = 1;
    version->served = version->storage = true;
    snprintf(text, sizeof(text), "%s%s%s", of->group, of->group[0] == '\0' ? "" : "/", of->version);
    enum belfry_err err = set_text(&version->name, of->version);
    if (err == BELFRY_OK)
        err = set_text(&version->api_version, text);
    if (err != BELFRY_OK)
        return err;

    const struct kube_builtin_type *type = kube_builtin_find(of->group, of->version, of->plural);
    if (type != NULL)
        return set_builtin_fields(version, type, of->minor);
    return kube_builtin_is_group(of->group) ? BELFRY_OK : set_custom_fields(version, of);
}

/* The kind of its lists, and what items of lists omit. */
static enum belfry_err set_made_texts(struct kube_resource *resource)
{
    char text[TEXT_MAX];
    snprintf(text, sizeof(text), "%sList", resource->kind);
    enum belfry_err err = set_text(&resource->list_kind, text);
    if (err != BELFRY_OK || !kube_builtin_is_group(resource->group))
        return err;
    snprintf(text, sizeof(text), "{\"kind\":\"%s\",\"apiVersion\":\"%s\",", resource->kind,
             resource->versions[0].api_version);
    return set_text(&resource->omitted, text);
}

static uint64_t hash_api(const struct kube_api_resource *of, const struct kube_version *version)
{
    uint64_t hash = hash_more(hash_more(of->namespaced, of->group), of->version);
    hash = hash_more(hash_more(hash, of->plural), of->kind);
    for (size_t i = 0; i < version->n_fields; i++)
        hash = hash_more(hash, version->fields[i].name);
    return hash;
}

enum belfry_err kube_resource_of_api(const struct kube_api_resource *of, struct kube_resource **out)
{
    if (!is_api_resource(of))
        return BELFRY_ERR_INVALID;
    struct kept *kept = kept_make();
    if (kept == NULL)
        return BELFRY_ERR_NOMEM;

    struct kube_resource *resource = &kept->resource;
    resource->namespaced = of->namespaced;
    resource->is_verbatim = true;
    enum belfry_err err = set_text(&resource->group, of->group);
    if (err == BELFRY_OK)
        err = set_text(&resource->plural, of->plural);
    if (err == BELFRY_OK)
        err = set_text(&resource->singular, of->singular);
    if (err == BELFRY_OK)
        err = set_text(&resource->kind, of->kind);
    if (err == BELFRY_OK)
        err = set_text(&resource->prefix, "");
    if (err == BELFRY_OK)
        err = set_text(&resource->guard, "");
    if (err == BELFRY_OK)
        err = set_version(resource, of);
    if (err == BELFRY_OK) {
        resource->hash = hash_api(of, &resource->versions[0]);
        err = set_made_texts(resource);
    }

    if (err == BELFRY_OK)
        *out = resource;
    else
        kube_resource_unref(resource);
    return err;
}
