/* src/json/document.c */
#include "json/document.h"

#include <stdlib.h>

#include "json/json_alc.h"

/* yyjson decodes strings in place and needs a few bytes of padding after the text. */
static enum belfry_err join_parts(const struct belfry_bytes *parts, size_t n_parts, char **out, size_t *out_len)
{
    size_t len = 0, at = 0;
    for (size_t i = 0; i < n_parts; i++)
        len += parts[i].len;
    char *text = malloc(len + YYJSON_PADDING_SIZE);
    if (text == NULL)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < n_parts; i++) {
        if (parts[i].len > 0)
            memcpy(text + at, parts[i].data, parts[i].len);
        at += parts[i].len;
    }
    memset(text + len, 0, YYJSON_PADDING_SIZE);
    *out = text;
    *out_len = len;
    return BELFRY_OK;
}

enum belfry_err belfry_kube_document_read(const struct belfry_bytes *parts, size_t n_parts,
                                          struct belfry_kube_document *out)
{
    char *text;
    size_t len;
    yyjson_read_err why;
    if (join_parts(parts, n_parts, &text, &len) != BELFRY_OK)
        return BELFRY_ERR_NOMEM;
    yyjson_doc *doc =
        yyjson_read_opts(text, len, YYJSON_READ_INSITU | YYJSON_READ_NUMBER_AS_RAW, &belfry_json_alc, &why);
    if (doc == NULL) {
        free(text);
        return why.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION ? BELFRY_ERR_NOMEM : BELFRY_ERR_INVALID;
    }
    *out = (struct belfry_kube_document){.text = text, .doc = doc, .root = yyjson_doc_get_root(doc)};
    return BELFRY_OK;
}

void belfry_kube_document_fini(struct belfry_kube_document *document)
{
    yyjson_doc_free(document->doc);
    free(document->text);
}

bool belfry_kube_document_is_integer(yyjson_val *val)
{
    if (!yyjson_is_raw(val))
        return false;
    struct belfry_bytes text = belfry_kube_document_bytes(val);
    return memchr(text.data, '.', text.len) == NULL && memchr(text.data, 'e', text.len) == NULL &&
           memchr(text.data, 'E', text.len) == NULL;
}
