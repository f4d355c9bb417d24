/* src/net/http_ask.c */
#include "net/http_ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/pack.h"

#define FIELD_OVERHEAD 32 /* RFC 9113, 6.5.2 */

/* The fields that every request has, in this order; those of the caller follow. */
enum { METHOD, SCHEME, PATH, AUTHORITY, N_FIXED };

struct belfry_http_ask {
    size_t bytes; /* of this block, text and all */
    size_t n;     /* nv[n] is kept free for a late field */
    bool has_user;
    nghttp2_nv nv[]; /* the text they point at follows, or is the origin's, or static */
};

bool belfry_http_is_token(struct belfry_bytes text)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && (c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return text.len > 0;
}

bool belfry_http_is_value(struct belfry_bytes value)
{
    return nghttp2_check_header_value_rfc9113((const uint8_t *)value.data, value.len) != 0;
}

bool belfry_http_is_secret(struct belfry_bytes name)
{
    return belfry_bytes_equal(name, belfry_bytes_str("token")) ||
           belfry_bytes_equal(name, belfry_bytes_str("authorization"));
}

/* Spaces at its ends are allowed, since they were to the client whose request is relayed. */
static bool is_text(struct belfry_bytes value)
{
    return value.len == 0 || nghttp2_check_header_value((const uint8_t *)value.data, value.len) != 0;
}

/* What the text of a head is like. */
struct measure {
    size_t bytes; /* to copy */
    bool upper;   /* a name has to be put into lower case */
};

/* Adds up the text of a list; false: something in it is not allowed. */
static bool measure_list(const struct belfry_http_field *fields, size_t n, struct measure *measure)
{
    if (n > BELFRY_HTTP_ASK_BYTES / FIELD_OVERHEAD)
        return false;
    for (size_t i = 0; i < n && measure->bytes <= BELFRY_HTTP_ASK_BYTES; i++) {
        /* nghttp2's check of names in lower case, which most are, is the faster one; it also allows those of
         * pseudo-fields. */
        struct belfry_bytes name = fields[i].name;
        bool lower =
            name.len > 0 && name.data[0] != ':' && nghttp2_check_header_name((const uint8_t *)name.data, name.len) != 0;
        measure->upper = measure->upper || !lower;
        if ((!lower && !belfry_http_is_token(name)) || !is_text(fields[i].value))
            return false;
        measure->bytes += name.len + fields[i].value.len;
    }
    return true;
}

static enum belfry_err measure_head(const struct belfry_http_ask_opts *opts, struct measure *out)
{
    struct measure measure = {.bytes = opts->method.len + opts->target.len};
    struct belfry_bytes target = opts->target;
    bool is_target = target.len > 0 && target.data[0] == '/' && is_text(target) &&
                     memchr(target.data, ' ', target.len) == NULL && memchr(target.data, '\t', target.len) == NULL;
    if (!belfry_http_is_token(opts->method) || !is_target || !measure_list(opts->fields, opts->n_fields, &measure) ||
        !measure_list(opts->more, opts->n_more, &measure))
        return BELFRY_ERR_INVALID;
    if (measure.bytes + (opts->n_fields + opts->n_more + N_FIXED + 1) * FIELD_OVERHEAD > BELFRY_HTTP_ASK_BYTES)
        return BELFRY_ERR_INVALID;
    *out = measure;
    return BELFRY_OK;
}

/* Credentials stay out of the compression state (RFC 7541, 7.1.3). A grpc-timeout has another value every time, and
 * would only push useful fields out of it. */
static nghttp2_nv nv_of(struct belfry_bytes name, struct belfry_bytes value)
{
    bool unindexed = belfry_http_is_secret(name) || belfry_bytes_equal(name, belfry_bytes_str("grpc-timeout"));
    /* nghttp2's field pointers are not const although it only reads them. */
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name.data, (uint8_t *)(uintptr_t)value.data, name.len, value.len,
                        unindexed ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE};
}

/* The block was measured before: `text` is where the next copy goes. */
static void copy_list(struct belfry_http_ask *ask, char **text, const struct belfry_http_field *fields, size_t n,
                      bool upper)
{
    for (size_t i = 0; i < n; i++) {
        char *to = *text;
        struct belfry_bytes name = belfry_pack(text, fields[i].name);
        for (size_t k = 0; upper && k < name.len; k++) {
            if (to[k] >= 'A' && to[k] <= 'Z')
                to[k] = (char)(to[k] - 'A' + 'a');
        }
        ask->nv[ask->n++] = nv_of(name, belfry_pack(text, fields[i].value));
        ask->has_user = ask->has_user || belfry_http_is_secret(name);
    }
}

enum belfry_err belfry_http_ask_create(const struct belfry_http_ask_opts *opts, struct belfry_http_ask **out)
{
    struct measure measure;
    enum belfry_err err = measure_head(opts, &measure);
    if (err != BELFRY_OK)
        return err;
    size_t n_fields = N_FIXED + opts->n_fields + opts->n_more + 1;
    size_t bytes = sizeof(struct belfry_http_ask) + n_fields * sizeof(nghttp2_nv) + measure.bytes;
    struct belfry_http_ask *ask = malloc(bytes);
    if (ask == NULL)
        return BELFRY_ERR_NOMEM;
    *ask = (struct belfry_http_ask){.bytes = bytes, .n = N_FIXED};
    char *text = (char *)&ask->nv[n_fields];
    ask->nv[METHOD] = nv_of(belfry_bytes_str(":method"), belfry_pack(&text, opts->method));
    ask->nv[PATH] = nv_of(belfry_bytes_str(":path"), belfry_pack(&text, opts->target));
    copy_list(ask, &text, opts->fields, opts->n_fields, measure.upper);
    copy_list(ask, &text, opts->more, opts->n_more, measure.upper);
    *out = ask;
    return BELFRY_OK;
}

void belfry_http_ask_destroy(struct belfry_http_ask *ask)
{
    if (ask != NULL)
        explicit_bzero(ask, ask->bytes);
    free(ask);
}

size_t belfry_http_ask_bytes(const struct belfry_http_ask *ask)
{
    return ask->bytes;
}

bool belfry_http_ask_is_head(const struct belfry_http_ask *ask)
{
    const nghttp2_nv *method = &ask->nv[METHOD];
    return belfry_bytes_equal(belfry_bytes_of(method->value, method->valuelen), belfry_bytes_str("HEAD"));
}

bool belfry_http_ask_has_user(const struct belfry_http_ask *ask)
{
    return ask->has_user;
}

const nghttp2_nv *belfry_http_ask_fields(struct belfry_http_ask *ask, const struct belfry_http_origin *origin,
                                         const struct belfry_http_field *late, size_t *out_n)
{
    ask->nv[SCHEME] = nv_of(belfry_bytes_str(":scheme"), belfry_bytes_str(origin->scheme));
    ask->nv[AUTHORITY] = nv_of(belfry_bytes_str(":authority"), belfry_bytes_str(origin->authority));
    if (late != NULL)
        ask->nv[ask->n] = nv_of(late->name, late->value);
    *out_n = ask->n + (late != NULL);
    return ask->nv;
}

static uint8_t *put_bytes(uint8_t *to, const void *from, size_t len)
{
    if (len > 0)
        memcpy(to, from, len);
    return to + len;
}

static uint8_t *put_text(uint8_t *to, const char *text)
{
    return put_bytes(to, text, strlen(text));
}

enum belfry_err belfry_http_ask_write(const nghttp2_nv *fields, size_t n, struct belfry_buf *out)
{
    size_t most = 64; /* the words below, and the end */
    for (size_t i = 0; i < n; i++)
        most += fields[i].namelen + fields[i].valuelen + 4;
    uint8_t *start;
    enum belfry_err err = belfry_buf_reserve(out, most, &start);
    if (err != BELFRY_OK)
        return err;
    uint8_t *at = put_bytes(start, fields[METHOD].value, fields[METHOD].valuelen);
    at = put_text(at, " ");
    at = put_bytes(at, fields[PATH].value, fields[PATH].valuelen);
    at = put_text(at, " HTTP/1.1\r\nhost: ");
    at = put_bytes(at, fields[AUTHORITY].value, fields[AUTHORITY].valuelen);
    for (size_t i = N_FIXED; i < n; i++) {
        at = put_text(at, "\r\n");
        at = put_bytes(at, fields[i].name, fields[i].namelen);
        at = put_text(at, ": ");
        at = put_bytes(at, fields[i].value, fields[i].valuelen);
    }
    at = put_text(at, "\r\n\r\n");
    belfry_buf_grown(out, (size_t)(at - start));
    return BELFRY_OK;
}
