/* src/kapi/json_at.c: reads one value from JSON by a path (belfry/object.h). */
#include <stdlib.h>

#include <belfry/object.h>

#include "json/document.h"
#include "json/json_alc.h"
#include "json/path.h"

static enum belfry_err hand_over(struct belfry_bytes text, char *out, size_t cap, size_t *out_len)
{
    if (out_len != NULL)
        *out_len = text.len;
    if (text.len >= cap)
        return BELFRY_ERR_TOO_LARGE;
    if (text.len > 0)
        memcpy(out, text.data, text.len);
    out[text.len] = '\0';
    return BELFRY_OK;
}

static enum belfry_err write_value(yyjson_val *value, char *out, size_t cap, size_t *out_len)
{
    if (yyjson_is_null(value))
        return BELFRY_ERR_NOT_FOUND;
    if (yyjson_is_str(value) || yyjson_is_raw(value))
        return hand_over(belfry_kube_document_bytes(value), out, cap, out_len);
    size_t len;
    char *json = yyjson_val_write_opts(value, YYJSON_WRITE_NOFLAG, &belfry_json_alc, &len, NULL);
    if (json == NULL) /* no memory: any parsed value can be written */
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = hand_over(belfry_bytes_of(json, len), out, cap, out_len);
    free(json);
    return err;
}

static enum belfry_err follow_path(const struct belfry_kube_path *path, struct belfry_bytes json, char *out, size_t cap,
                                   size_t *out_len)
{
    struct belfry_kube_document document;
    enum belfry_err err = belfry_kube_document_read(&json, 1, &document);
    if (err != BELFRY_OK)
        return err;
    yyjson_val *value = belfry_kube_path_get(path, document.root, 0);
    err = value == NULL ? BELFRY_ERR_NOT_FOUND : write_value(value, out, cap, out_len);
    belfry_kube_document_fini(&document);
    return err;
}

int belfry_json_at(struct belfry_bytes json, const char *path, char *out, size_t cap, size_t *out_len)
{
    struct belfry_kube_path *steps;
    enum belfry_err err = belfry_kube_path_read(belfry_bytes_str(path), &steps);
    if (err != BELFRY_OK)
        return err;
    err = follow_path(steps, json, out, cap, out_len);
    belfry_kube_path_free(steps);
    return err;
}
