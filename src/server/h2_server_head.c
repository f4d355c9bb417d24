/* src/server/h2_server_head.c: from nghttp2's fields, one at a time, to an exchange_head. */
#include <assert.h>
#include <stdalign.h>

#include "server/h2_server_private.h"

#define FIELD_OVERHEAD 32 /* RFC 9113, 6.5.2 */

struct lengths {
    uint32_t name, value;
};

void h2_head_clear(struct h2_head *head)
{
    belfry_buf_fini(&head->buf);
    *head = (struct h2_head){0};
}

bool h2_head_too_large(const struct h2_head *head)
{
    return head->list_bytes > H2_SERVER_HEADER_BYTES;
}

static size_t rounded(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

enum belfry_err h2_head_add(struct h2_head *head, struct belfry_bytes name, struct belfry_bytes value)
{
    if (h2_head_too_large(head))
        return BELFRY_OK;
    head->list_bytes += name.len + value.len + FIELD_OVERHEAD;
    if (h2_head_too_large(head)) {
        belfry_buf_fini(&head->buf);
        return BELFRY_OK;
    }
    struct lengths lengths = {(uint32_t)name.len, (uint32_t)value.len};
    enum belfry_err err = belfry_buf_append(&head->buf, &lengths, sizeof(lengths));
    if (err == BELFRY_OK)
        err = belfry_buf_append(&head->buf, name.data, name.len);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&head->buf, value.data, value.len);
    if (err == BELFRY_OK)
        head->n_fields++;
    return err;
}

/* nghttp2 lets each come once; of those it knows, ":protocol" is of no use to us. */
static void set_pseudo(struct exchange_head *head, struct exchange_field field)
{
    const struct {
        const char *name;
        struct belfry_bytes *place;
    } known[] = {{":method", &head->method},
                 {":scheme", &head->scheme},
                 {":path", &head->path},
                 {":authority", &head->authority}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (belfry_bytes_equal(field.name, belfry_bytes_str(known[i].name)))
            *known[i].place = field.value;
}

static bool is_pseudo(struct belfry_bytes name)
{
    return name.len > 0 && name.data[0] == ':';
}

static struct exchange_field read_field(const uint8_t *at)
{
    struct lengths lengths;
    memcpy(&lengths, at, sizeof(lengths));
    const uint8_t *name = at + sizeof(lengths);
    return (struct exchange_field){belfry_bytes_of(name, lengths.name),
                                   belfry_bytes_of(name + lengths.name, lengths.value)};
}

enum belfry_err h2_head_present(struct h2_head *head, struct exchange_head *out)
{
    *out = (struct exchange_head){0};
    size_t end = belfry_buf_len(&head->buf);
    size_t padding = rounded(end, alignof(struct exchange_field)) - end;
    uint8_t *to;
    enum belfry_err err = belfry_buf_reserve(&head->buf, padding + head->n_fields * sizeof(*out->fields), &to);
    if (err != BELFRY_OK)
        return err;
    assert(head->buf.start == 0);
    struct exchange_field *fields = (struct exchange_field *)(void *)(to + padding);
    const uint8_t *at = head->buf.data;
    for (size_t i = 0; i < head->n_fields; i++) {
        struct exchange_field field = read_field(at);
        at += sizeof(struct lengths) + field.name.len + field.value.len;
        if (is_pseudo(field.name))
            set_pseudo(out, field);
        else
            fields[out->n_fields++] = field;
    }
    out->fields = fields;
    if (out->authority.len == 0) /* RFC 9113, 8.3.1: one that was HTTP/1.1 before may name it there */
        out->authority = exchange_field(out, "host");
    return BELFRY_OK;
}
