/* src/kube/columns.c */
#include "kube/columns.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kube/age.h"
#include "json/document.h"
#include "json/json.h"
#include "json/json_alc.h"
#include "json/path.h"

#define UNKNOWN "<unknown>"

/* The real server's descriptions of the two built-in columns; clients show them unchanged. */
#define NAME_DESCRIPTION                                                                                               \
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow "  \
    "a client to request the generation of an appropriate name automatically. Name is primarily intended for "         \
    "creation idempotence and configuration definition. Cannot be updated. More info: "                                \
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
#define AGE_DESCRIPTION                                                                                                \
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not "           \
    "guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is "  \
    "represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "    \
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"

/* ---- columns ---- */

struct column {
    const char *name, *type, *format, *description;
    int64_t priority;
};

static void write_column(struct belfry_json *json, const struct column *column)
{
    belfry_json_open(json, NULL, '{');
    belfry_json_str(json, "name", column->name);
    belfry_json_str(json, "type", column->type);
    belfry_json_str(json, "format", column->format != NULL ? column->format : "");
    belfry_json_str(json, "description", column->description != NULL ? column->description : "");
    belfry_json_int(json, "priority", column->priority);
    belfry_json_close(json, '}');
}

enum belfry_err kube_table_columns(const struct kube_version *version, struct belfry_buf *out)
{
    static const struct column name = {"Name", "string", "name", NAME_DESCRIPTION, 0};
    static const struct column age = {"Age", "date", "", AGE_DESCRIPTION, 0};
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '[');
    write_column(&json, &name);
    for (size_t i = 0; i < version->n_columns; i++) {
        const struct kube_column *own = &version->columns[i];
        write_column(&json, &(struct column){own->name, own->type, own->format, own->description, own->priority});
    }
    if (version->n_columns == 0)
        write_column(&json, &age);
    belfry_json_close(&json, ']');
    return belfry_json_finish(&json);
}

/* ---- cells ---- */

static enum belfry_err write_raw(struct belfry_buf *out, const char *text)
{
    return belfry_buf_append(out, text, strlen(text));
}

static enum belfry_err write_string(struct belfry_buf *out, struct belfry_bytes text)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_text(&json, NULL, text);
    return belfry_json_finish(&json);
}

static enum belfry_err write_as_json(struct belfry_buf *out, yyjson_val *val)
{
    size_t len;
    char *text = yyjson_val_write_opts(val, YYJSON_WRITE_NOFLAG, &belfry_json_alc, &len, NULL);
    if (text == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = write_string(out, belfry_bytes_of(text, len));
    free(text);
    return err;
}

static enum belfry_err string_cell(struct belfry_buf *out, yyjson_val *val)
{
    if (yyjson_is_str(val) || yyjson_is_raw(val))
        return write_string(out, belfry_kube_document_bytes(val));
    if (yyjson_is_bool(val))
        return write_raw(out, yyjson_get_bool(val) ? "\"true\"" : "\"false\"");
    if (yyjson_is_ctn(val))
        return write_as_json(out, val);
    return write_raw(out, "null");
}

/* A number with a fraction is truncated, if the result is an int64. */
static enum belfry_err integer_cell(struct belfry_buf *out, yyjson_val *val)
{
    char text[32];
    if (belfry_kube_document_is_integer(val))
        return belfry_buf_append(out, belfry_kube_document_bytes(val).data, belfry_kube_document_bytes(val).len);
    if (!yyjson_is_raw(val))
        return write_raw(out, "null");
    double number = strtod(belfry_kube_document_bytes(val).data, NULL);
    if (!(number > -9.2e18 && number < 9.2e18))
        return write_raw(out, "null");
    snprintf(text, sizeof(text), "%" PRId64, (int64_t)number);
    return write_raw(out, text);
}

static enum belfry_err number_cell(struct belfry_buf *out, yyjson_val *val)
{
    if (!yyjson_is_raw(val))
        return write_raw(out, "null");
    return belfry_buf_append(out, belfry_kube_document_bytes(val).data, belfry_kube_document_bytes(val).len);
}

static enum belfry_err date_cell(struct belfry_buf *out, yyjson_val *val, int64_t now_s)
{
    char age[KUBE_AGE_MAX];
    if (val == NULL || yyjson_is_null(val))
        return write_raw(out, "\"" UNKNOWN "\"");
    if (!yyjson_is_str(val))
        return write_raw(out, "null");
    kube_age_write(belfry_kube_document_bytes(val), now_s, age);
    return write_string(out, belfry_bytes_str(age));
}

static enum belfry_err write_cell(struct belfry_buf *out, const char *type, yyjson_val *val, int64_t now_s)
{
    if (strcmp(type, "date") == 0)
        return date_cell(out, val, now_s);
    if (strcmp(type, "integer") == 0)
        return integer_cell(out, val);
    if (strcmp(type, "number") == 0)
        return number_cell(out, val);
    if (strcmp(type, "boolean") == 0)
        return write_raw(out, !yyjson_is_bool(val) ? "null" : yyjson_get_bool(val) ? "true" : "false");
    return string_cell(out, val);
}

static enum belfry_err write_own_cells(const struct kube_version *version, yyjson_val *root, int64_t now_s,
                                       struct belfry_buf *out)
{
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < version->n_columns && err == BELFRY_OK; i++) {
        const struct kube_column *column = &version->columns[i];
        yyjson_val *val = root == NULL ? NULL : belfry_kube_path_get(column->path, root, 0);
        err = write_raw(out, ",");
        if (err == BELFRY_OK)
            err = write_cell(out, column->type, val, now_s);
    }
    return err;
}

static enum belfry_err write_age_cell(yyjson_val *root, int64_t now_s, struct belfry_buf *out)
{
    enum belfry_err err = write_raw(out, ",");
    if (err != BELFRY_OK)
        return err;
    return date_cell(out, yyjson_obj_get(yyjson_obj_get(root, "metadata"), "creationTimestamp"), now_s);
}

static enum belfry_err write_cells(const struct kube_version *version, struct belfry_bytes name, yyjson_val *root,
                                   int64_t now_s, struct belfry_buf *out)
{
    enum belfry_err err = write_raw(out, "[");
    if (err == BELFRY_OK)
        err = write_string(out, name);
    if (err == BELFRY_OK)
        err = version->n_columns > 0 ? write_own_cells(version, root, now_s, out) : write_age_cell(root, now_s, out);
    return err == BELFRY_OK ? write_raw(out, "]") : err;
}

enum belfry_err kube_table_cells(const struct kube_version *version, const struct kube_object *object, int64_t rev,
                                 int64_t now_s, struct belfry_buf *out)
{
    char digits[32];
    struct belfry_kube_document document;
    snprintf(digits, sizeof(digits), "%" PRId64, rev);
    struct belfry_bytes parts[] = {object->head, belfry_bytes_str(digits), object->tail};
    enum belfry_err err = belfry_kube_document_read(parts, 3, &document);
    assert(err != BELFRY_ERR_INVALID); /* we wrote this JSON */
    if (err != BELFRY_OK)
        return err;
    err = write_cells(version, object->attributes.name, document.root, now_s, out);
    belfry_kube_document_fini(&document);
    return err;
}

enum belfry_err kube_table_no_cells(const struct kube_version *version, struct belfry_buf *out)
{
    return write_cells(version, belfry_bytes_str(""), NULL, 0, out);
}
