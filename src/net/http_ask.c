/* src/net/http_ask.c */
#include "net/http_ask.h"

#include <stdlib.h>
#include <string.h>

#define FIELD_OVERHEAD 32 /* RFC 9113, 6.5.2 */

/* The fields that every request has, in this order; those of the caller follow. */
enum { METHOD, SCHEME, PATH, AUTHORITY, USER_AGENT, N_FIXED };

struct belfry_http_ask {
    size_t bytes; /* of this block, text and all */
    size_t n;
    nghttp2_nv nv[]; /* the text they point at follows, or is the origin's, or static */
};

/* A token of RFC 9110, 5.6.2. */
static bool is_token(struct belfry_bytes text)
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

static bool is_target(const char *target)
{
    if (target[0] != '/')
        return false;
    for (const char *c = target; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~') /* char may be signed: bytes beyond ASCII are below zero, or above '~' */
            return false;
    }
    return true;
}

static bool is_value(struct belfry_bytes value)
{
    return nghttp2_check_header_value_rfc9113((const uint8_t *)value.data, value.len) != 0;
}

/* What belongs to the connection, and what would announce a body. */
static bool is_ours(struct belfry_bytes name)
{
    static const char *const ours[] = {"host",    "user-agent", "connection",        "keep-alive", "proxy-connection",
                                       "upgrade", "te",         "transfer-encoding", "trailer",    "content-length",
                                       "expect"};
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (name.len == strlen(ours[i]) && strncasecmp(name.data, ours[i], name.len) == 0)
            return true;
    }
    return false;
}

/* Stores the bytes of text to copy. */
static enum belfry_err measure(const struct belfry_http_origin *origin, const struct belfry_http_request *request,
                               size_t *out_text)
{
    if (!is_token(belfry_bytes_str(request->method)) || !is_target(request->target) ||
        !is_value(belfry_bytes_str(origin->authority)) || !is_value(belfry_bytes_str(origin->user_agent)))
        return BELFRY_ERR_INVALID;
    size_t text = strlen(request->method) + strlen(request->target);
    if (request->n_fields > BELFRY_HTTP_ASK_BYTES / FIELD_OVERHEAD)
        return BELFRY_ERR_INVALID;
    for (size_t i = 0; i < request->n_fields; i++) {
        const struct belfry_http_field *field = &request->fields[i];
        if (!is_token(field->name) || is_ours(field->name) || !is_value(field->value))
            return BELFRY_ERR_INVALID;
        text += field->name.len + field->value.len;
    }
    size_t shared = strlen(origin->scheme) + strlen(origin->authority) + strlen(origin->user_agent);
    if (text + shared + (request->n_fields + N_FIXED) * FIELD_OVERHEAD > BELFRY_HTTP_ASK_BYTES)
        return BELFRY_ERR_INVALID;
    *out_text = text;
    return BELFRY_OK;
}

/* Written in one pass over a block that was measured before: `text` is where the next copy goes. */
static struct belfry_bytes copy_text(char **text, struct belfry_bytes from)
{
    char *to = *text;
    if (from.len > 0)
        memcpy(to, from.data, from.len);
    *text += from.len;
    return belfry_bytes_of(to, from.len);
}

static struct belfry_bytes copy_name(char **text, struct belfry_bytes from)
{
    char *to = *text;
    struct belfry_bytes name = copy_text(text, from);
    for (size_t i = 0; i < name.len; i++) {
        if (to[i] >= 'A' && to[i] <= 'Z')
            to[i] = (char)(to[i] - 'A' + 'a');
    }
    return name;
}

static nghttp2_nv *add(struct belfry_http_ask *ask, struct belfry_bytes name, struct belfry_bytes value)
{
    nghttp2_nv *nv = &ask->nv[ask->n++];
    /* nghttp2's field pointers are not const although it only reads them. */
    *nv = (nghttp2_nv){(uint8_t *)(uintptr_t)name.data, (uint8_t *)(uintptr_t)value.data, name.len, value.len,
                       NGHTTP2_NV_FLAG_NONE};
    return nv;
}

static void add_field(struct belfry_http_ask *ask, char **text, const struct belfry_http_field *field)
{
    struct belfry_bytes name = copy_name(text, field->name);
    nghttp2_nv *nv = add(ask, name, copy_text(text, field->value));
    /* Credentials stay out of the compression state (RFC 7541, 7.1.3). */
    if (belfry_bytes_equal(name, belfry_bytes_str("authorization")))
        nv->flags = NGHTTP2_NV_FLAG_NO_INDEX;
}

enum belfry_err belfry_http_ask_create(const struct belfry_http_origin *origin,
                                       const struct belfry_http_request *request, struct belfry_http_ask **out)
{
    size_t n_text;
    enum belfry_err err = measure(origin, request, &n_text);
    if (err != BELFRY_OK)
        return err;
    size_t n_fields = N_FIXED + request->n_fields;
    size_t bytes = sizeof(struct belfry_http_ask) + n_fields * sizeof(nghttp2_nv) + n_text;
    struct belfry_http_ask *ask = malloc(bytes);
    if (ask == NULL)
        return BELFRY_ERR_NOMEM;
    ask->bytes = bytes;
    ask->n = 0;
    char *text = (char *)&ask->nv[n_fields];
    add(ask, belfry_bytes_str(":method"), copy_text(&text, belfry_bytes_str(request->method)));
    add(ask, belfry_bytes_str(":scheme"), belfry_bytes_str(origin->scheme));
    add(ask, belfry_bytes_str(":path"), copy_text(&text, belfry_bytes_str(request->target)));
    add(ask, belfry_bytes_str(":authority"), belfry_bytes_str(origin->authority));
    add(ask, belfry_bytes_str("user-agent"), belfry_bytes_str(origin->user_agent));
    for (size_t i = 0; i < request->n_fields; i++)
        add_field(ask, &text, &request->fields[i]);
    *out = ask;
    return BELFRY_OK;
}

void belfry_http_ask_destroy(struct belfry_http_ask *ask)
{
    if (ask != NULL)
        explicit_bzero(ask, ask->bytes);
    free(ask);
}

bool belfry_http_ask_is_head(const struct belfry_http_ask *ask)
{
    const nghttp2_nv *method = &ask->nv[METHOD];
    return belfry_bytes_equal(belfry_bytes_of(method->value, method->valuelen), belfry_bytes_str("HEAD"));
}

const nghttp2_nv *belfry_http_ask_fields(const struct belfry_http_ask *ask, size_t *out_n)
{
    *out_n = ask->n;
    return ask->nv;
}

static uint8_t *put(uint8_t *to, const void *from, size_t len)
{
    if (len > 0)
        memcpy(to, from, len);
    return to + len;
}

static uint8_t *put_text(uint8_t *to, const char *text)
{
    return put(to, text, strlen(text));
}

enum belfry_err belfry_http_ask_write(const struct belfry_http_ask *ask, struct belfry_buf *out)
{
    size_t most = 64; /* the words below, and the end */
    for (size_t i = 0; i < ask->n; i++)
        most += ask->nv[i].namelen + ask->nv[i].valuelen + 4;
    uint8_t *start;
    enum belfry_err err = belfry_buf_reserve(out, most, &start);
    if (err != BELFRY_OK)
        return err;
    uint8_t *at = put(start, ask->nv[METHOD].value, ask->nv[METHOD].valuelen);
    at = put_text(at, " ");
    at = put(at, ask->nv[PATH].value, ask->nv[PATH].valuelen);
    at = put_text(at, " HTTP/1.1\r\nhost: ");
    at = put(at, ask->nv[AUTHORITY].value, ask->nv[AUTHORITY].valuelen);
    for (size_t i = USER_AGENT; i < ask->n; i++) {
        at = put_text(at, "\r\n");
        at = put(at, ask->nv[i].name, ask->nv[i].namelen);
        at = put_text(at, ": ");
        at = put(at, ask->nv[i].value, ask->nv[i].valuelen);
    }
    at = put_text(at, "\r\n\r\n");
    belfry_buf_grown(out, (size_t)(at - start));
    return BELFRY_OK;
}
