/* src/kube/crd_version.c */
#include "kube/crd_version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "kube/name.h"
#include "json/json_alc.h"
#include "json/path.h"

/* The object that holds `key`: the version or, in a v1beta1, possibly the common part. */
static const struct belfry_kube_members *where_is(const struct belfry_kube_members *m,
                                                  const struct belfry_kube_members *common, const char *key)
{
    return common != NULL && yyjson_obj_get(m->object, key) == NULL ? common : m;
}

/* ---- additionalPrinterColumns ---- */

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

/* ---- selectableFields ---- */

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

/* ---- the version ---- */

static enum belfry_err read_name(const struct belfry_kube_members *m, const char *group, struct kube_version *version)
{
    enum belfry_err err = belfry_kube_member_need(m, "name", &version->name);
    if (err != BELFRY_OK)
        return err;
    if (!kube_name_is_word(belfry_bytes_str(version->name)))
        return belfry_kube_member_wrong(m, "name", "'%.64s' is not a version name, such as v1", version->name);
    size_t room = strlen(group) + strlen(version->name) + 2;
    version->api_version = malloc(room);
    if (version->api_version == NULL)
        return BELFRY_ERR_NOMEM;
    snprintf(version->api_version, room, "%s%s%s", group, group[0] == '\0' ? "" : "/", version->name);
    return BELFRY_OK;
}

static enum belfry_err read_flags(const struct belfry_kube_members *m, struct kube_version *version)
{
    enum belfry_err err = belfry_kube_member_bool(m, "served", &version->served);
    if (err == BELFRY_OK)
        err = belfry_kube_member_bool(m, "storage", &version->storage);
    if (err == BELFRY_OK)
        err = belfry_kube_member_bool(m, "deprecated", &version->deprecated);
    if (err == BELFRY_OK)
        err = belfry_kube_member_text(m, "deprecationWarning", &version->deprecation_warning);
    return err;
}

static enum belfry_err read_subresources(const struct belfry_kube_members *m, const struct belfry_kube_members *common,
                                         struct kube_version *version)
{
    struct belfry_kube_members subresources, one;
    enum belfry_err err = belfry_kube_member_object(where_is(m, common, "subresources"), "subresources", &subresources);
    if (err == BELFRY_OK)
        err = belfry_kube_member_object(&subresources, "status", &one);
    if (err != BELFRY_OK)
        return err;
    version->has_status = one.object != NULL;
    err = belfry_kube_member_object(&subresources, "scale", &one);
    version->has_scale = err == BELFRY_OK && one.object != NULL;
    return err;
}

static enum belfry_err read_schema(const struct belfry_kube_members *m, const struct belfry_kube_members *common,
                                   struct kube_version *version)
{
    struct belfry_kube_members schema, openapi;
    yyjson_write_err why = {0};
    m = where_is(m, common, "schema");
    enum belfry_err err = belfry_kube_member_object(m, m == common ? "validation" : "schema", &schema);
    if (err == BELFRY_OK)
        err = belfry_kube_member_object(&schema, "openAPIV3Schema", &openapi);
    if (err != BELFRY_OK || openapi.object == NULL)
        return err;
    version->schema = yyjson_val_write_opts(openapi.object, YYJSON_WRITE_NOFLAG, &belfry_json_alc, NULL, &why);
    if (version->schema != NULL)
        return BELFRY_OK;
    return why.code == YYJSON_WRITE_ERROR_MEMORY_ALLOCATION
               ? BELFRY_ERR_NOMEM
               : belfry_kube_member_wrong(&schema, "openAPIV3Schema", "%s", why.msg);
}

enum belfry_err kube_crd_version_read(const struct belfry_kube_members *members,
                                      const struct belfry_kube_members *common, const char *group,
                                      struct kube_version *out)
{
    enum belfry_err err = read_name(members, group, out);
    if (err == BELFRY_OK)
        err = read_flags(members, out);
    if (err == BELFRY_OK)
        err = read_subresources(members, common, out);
    if (err == BELFRY_OK)
        err = read_columns(members, common, out);
    if (err == BELFRY_OK)
        err = read_fields(members, common, out);
    if (err == BELFRY_OK)
        err = read_schema(members, common, out);
    return err;
}

static void column_fini(struct kube_column *column)
{
    free(column->name);
    free(column->type);
    free(column->format);
    free(column->description);
    belfry_kube_path_free(column->path);
}

void kube_version_fini(struct kube_version *version)
{
    for (size_t i = 0; i < version->n_columns; i++)
        column_fini(&version->columns[i]);
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
