/* src/serve/rights/token_revision.c */
#include "serve/rights/token_revision.h"

#include "base/base64.h"
#include "json/document.h"

/* etcd reads the claim as a double: above 2^53 two revisions could be the same. */
#define REVISION_MAX (UINT64_C(1) << 53)

/* "HEADER.CLAIMS.SIGNATURE" */
static enum belfry_err find_claims(struct belfry_bytes token, struct belfry_bytes *out)
{
    const char *first = token.len > 0 ? memchr(token.data, '.', token.len) : NULL;
    if (first == NULL || token.len > TOKEN_REVISION_MAX)
        return BELFRY_ERR_INVALID;
    const char *claims = first + 1, *end = token.data + token.len;
    const char *second = memchr(claims, '.', (size_t)(end - claims));
    if (second == NULL || memchr(second + 1, '.', (size_t)(end - second - 1)) != NULL)
        return BELFRY_ERR_INVALID;
    *out = belfry_bytes_of(claims, (size_t)(second - claims));
    return BELFRY_OK;
}

static enum belfry_err read_number(struct belfry_bytes text, uint64_t *out)
{
    uint64_t number = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || number > REVISION_MAX / 10)
            return BELFRY_ERR_INVALID;
        number = number * 10 + (uint64_t)(text.data[i] - '0');
    }
    if (number == 0 || number > REVISION_MAX)
        return BELFRY_ERR_INVALID;
    *out = number;
    return BELFRY_OK;
}

static enum belfry_err read_claims(struct belfry_bytes text, uint64_t *out)
{
    struct belfry_kube_document document;
    enum belfry_err err = belfry_kube_document_read(&text, 1, &document);
    if (err != BELFRY_OK)
        return err;
    yyjson_val *revision = yyjson_obj_get(document.root, "revision");
    err = yyjson_is_raw(revision) ? read_number(belfry_kube_document_bytes(revision), out) : BELFRY_ERR_INVALID;
    belfry_kube_document_fini(&document);
    return err;
}

enum belfry_err token_revision_read(struct belfry_bytes token, uint64_t *out)
{
    struct belfry_bytes claims;
    struct belfry_buf text;
    belfry_buf_init(&text);
    enum belfry_err err = find_claims(token, &claims);
    if (err == BELFRY_OK)
        err = belfry_base64_decode(BELFRY_BASE64_URL, claims, &text);
    if (err == BELFRY_OK)
        err = read_claims(belfry_buf_bytes(&text), out);
    belfry_buf_fini(&text);
    return err;
}
