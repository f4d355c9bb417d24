/* src/informer/index_path.c */
#include "informer/index_path.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "informer/index.h"
#include "json/document.h"
#include "json/json_alc.h"
#include "json/path.h"

static void add_json(struct belfry_index_values *values, yyjson_val *value)
{
    size_t len;
    yyjson_write_err why;
    char *json = yyjson_val_write_opts(value, YYJSON_WRITE_NOFLAG, &belfry_json_alc, &len, &why);
    if (json == NULL) { /* no memory: any parsed value can be written */
        belfry_index_fail(values);
        return;
    }
    belfry_index_add(values, belfry_bytes_of(json, len));
    free(json);
}

/* As in belfry_json_at(): a string is its text, null counts as missing. */
static void add_value(yyjson_val *value, void *user)
{
    struct belfry_index_values *values = user;
    if (yyjson_is_str(value) || yyjson_is_raw(value))
        belfry_index_add(values, belfry_kube_document_bytes(value));
    else if (!yyjson_is_null(value))
        add_json(values, value);
}

static void find_values(const struct belfry_object *object, struct belfry_index_values *values, void *user)
{
    const struct belfry_kube_path *path = user;
    struct belfry_bytes json = belfry_object_value(object);
    struct belfry_kube_document document;
    enum belfry_err err = belfry_kube_document_read(&json, 1, &document);
    if (err == BELFRY_OK) {
        belfry_kube_path_each(path, document.root, add_value, values);
        belfry_kube_document_fini(&document);
    } else if (err == BELFRY_ERR_NOMEM) {
        belfry_index_fail(values);
    }
}

static void free_path(void *user)
{
    belfry_kube_path_free(user);
}

enum belfry_err belfry_index_path_add(struct belfry_store *store, const char *name, const char *path)
{
    struct belfry_kube_path *read;
    enum belfry_err err = belfry_kube_path_read(belfry_bytes_str(path), &read);
    return err == BELFRY_OK ? belfry_store_index(store, name, find_values, read, free_path) : err;
}
