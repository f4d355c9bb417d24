/* src/serve/uplink/uplink_head.c */
#include "serve/uplink/uplink_head.h"

#include <stdlib.h>
#include <string.h>

#include "serve/uplink/via.h"

#define FIELD_OVERHEAD 32
#define AT_SCHEME      1
#define AT_PATH        2
#define AT_AUTHORITY   3
#define N_PSEUDO       4

struct uplink_head {
    size_t bytes; /* of the whole */
    size_t n;     /* behind them is one more, for AS_NOBODY */
    bool has_user;
    nghttp2_nv nv[]; /* the text they point at follows, or is static, or the endpoint's, or the uplink's */
};

/* nghttp2's field pointers are not const although it only reads them. */
static nghttp2_nv nv_of(const char *name, size_t name_len, const char *value, size_t value_len)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, name_len, value_len,
                        NGHTTP2_NV_FLAG_NONE};
}

static nghttp2_nv nv_str(const char *name, const char *value)
{
    return nv_of(name, strlen(name), value, strlen(value));
}

static bool is_text(struct belfry_bytes value)
{
    return value.len == 0 || nghttp2_check_header_value((const uint8_t *)value.data, value.len) != 0;
}

static bool is_allowed(const struct exchange_field *field)
{
    return field->name.len > 0 && field->name.data[0] != ':' &&
           nghttp2_check_header_name((const uint8_t *)field->name.data, field->name.len) != 0 && is_text(field->value);
}

static enum belfry_err measure(struct belfry_bytes path, const struct exchange_field *fields, size_t n,
                               size_t *out_text)
{
    if (path.len == 0 || path.data[0] != '/' || !is_text(path) || n > UPLINK_HEAD_BYTES / FIELD_OVERHEAD)
        return BELFRY_ERR_INVALID;
    size_t text = path.len;
    for (size_t i = 0; i < n && text <= UPLINK_HEAD_BYTES; i++) {
        if (!is_allowed(&fields[i]) || fields[i].name.len > UPLINK_HEAD_BYTES)
            return BELFRY_ERR_INVALID;
        text += fields[i].name.len + fields[i].value.len;
    }
    if (text + (n + N_PSEUDO) * FIELD_OVERHEAD > UPLINK_HEAD_BYTES)
        return BELFRY_ERR_INVALID;
    *out_text = text;
    return BELFRY_OK;
}

static const char *copy_text(char **to, struct belfry_bytes text)
{
    char *copy = *to;
    if (text.len > 0)
        memcpy(copy, text.data, text.len);
    *to += text.len;
    return copy;
}

static bool is_user(struct belfry_bytes name)
{
    return belfry_bytes_equal(name, belfry_bytes_str("token")) ||
           belfry_bytes_equal(name, belfry_bytes_str("authorization"));
}

/* Credentials stay out of the compression state (RFC 7541, 7.1.3), and so does what is another value every time. */
static bool is_unindexed(struct belfry_bytes name)
{
    return is_user(name) || belfry_bytes_equal(name, belfry_bytes_str("grpc-timeout"));
}

static nghttp2_nv copy_field(char **to, const struct exchange_field *field)
{
    const char *name = copy_text(to, field->name);
    nghttp2_nv nv = nv_of(name, field->name.len, copy_text(to, field->value), field->value.len);
    if (is_unindexed(field->name))
        nv.flags = NGHTTP2_NV_FLAG_NO_INDEX;
    return nv;
}

enum belfry_err uplink_head_create(struct belfry_bytes path, const struct exchange_field *fields, size_t n,
                                   const char *via, struct uplink_head **out)
{
    size_t text, n_all = N_PSEUDO + n + (via != NULL);
    enum belfry_err err = measure(path, fields, n, &text);
    if (err != BELFRY_OK)
        return err;
    size_t bytes = sizeof(struct uplink_head) + (n_all + 1) * sizeof(nghttp2_nv) + text;
    struct uplink_head *head = malloc(bytes);
    if (head == NULL)
        return BELFRY_ERR_NOMEM;
    head->bytes = bytes;
    head->n = n_all;
    head->has_user = false;
    char *to = (char *)&head->nv[n_all + 1];
    head->nv[0] = nv_str(":method", "POST");
    head->nv[AT_PATH] = nv_of(":path", strlen(":path"), copy_text(&to, path), path.len);
    for (size_t i = 0; i < n; i++) {
        head->nv[N_PSEUDO + i] = copy_field(&to, &fields[i]);
        head->has_user = head->has_user || is_user(fields[i].name);
    }
    if (via != NULL)
        head->nv[N_PSEUDO + n] = nv_str(VIA_FIELD, via);
    head->nv[n_all] = nv_str("grpcgateway-accept", "belfry");
    *out = head;
    return BELFRY_OK;
}

void uplink_head_destroy(struct uplink_head *head)
{
    if (head != NULL)
        explicit_bzero(head, head->bytes);
    free(head);
}

bool uplink_head_has_user(const struct uplink_head *head)
{
    return head->has_user;
}

size_t uplink_head_bytes(const struct uplink_head *head)
{
    return head->bytes;
}

const nghttp2_nv *uplink_head_fields(struct uplink_head *head, const struct belfry_endpoint *endpoint,
                                     enum uplink_head_as as, size_t *out_n)
{
    head->nv[AT_SCHEME] = nv_str(":scheme", endpoint->tls ? "https" : "http");
    head->nv[AT_AUTHORITY] = nv_str(":authority", endpoint->authority);
    *out_n = head->n + (as == UPLINK_HEAD_AS_NOBODY);
    return head->nv;
}
