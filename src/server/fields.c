/* src/server/fields.c */
#include "server/fields.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 8

void fields_fini(struct fields *fields)
{
    if (fields->text.data != NULL)
        explicit_bzero(fields->text.data, fields->text.cap); /* tokens are among them */
    belfry_buf_fini(&fields->text);
    free(fields->list);
    fields_init(fields);
}

void fields_clear(struct fields *fields)
{
    belfry_buf_clear(&fields->text);
    fields->n = fields->ended = 0;
}

/* ---- adding ---- */

static enum belfry_err fields_make_room(struct fields *fields)
{
    if (fields->n < fields->cap)
        return BELFRY_OK;
    size_t cap = fields->cap == 0 ? FIRST_CAP : fields->cap * 2;
    struct belfry_http_field *list = realloc(fields->list, cap * sizeof(*list));
    if (list == NULL)
        return BELFRY_ERR_NOMEM;
    fields->list = list;
    fields->cap = cap;
    return BELFRY_OK;
}

enum belfry_err fields_add(struct fields *fields, struct belfry_bytes name, struct belfry_bytes value)
{
    uint8_t *to;
    enum belfry_err err = fields_make_room(fields);
    if (err == BELFRY_OK)
        err = belfry_buf_reserve(&fields->text, name.len + value.len + 1, &to); /* never NULL, not even for nothing */
    if (err != BELFRY_OK)
        return err;
    if (name.len > 0)
        memcpy(to, name.data, name.len);
    if (value.len > 0)
        memcpy(to + name.len, value.data, value.len);
    belfry_buf_grown(&fields->text, name.len + value.len);
    fields->ended += name.len + value.len;
    fields->list[fields->n].name.len = name.len;
    fields->list[fields->n++].value.len = value.len;
    return BELFRY_OK;
}

enum belfry_err fields_text(struct fields *fields, struct belfry_bytes piece)
{
    return belfry_buf_append(&fields->text, piece.data, piece.len);
}

/* The text that is not part of a complete name or value. */
static char *open_text(struct fields *fields, size_t *out_len)
{
    *out_len = belfry_buf_len(&fields->text) - fields->ended;
    return *out_len == 0 ? NULL : (char *)fields->text.data + fields->text.start + fields->ended;
}

enum belfry_err fields_end_name(struct fields *fields)
{
    size_t len;
    char *name = open_text(fields, &len);
    enum belfry_err err = fields_make_room(fields);
    if (err != BELFRY_OK)
        return err;
    for (size_t i = 0; i < len; i++) {
        if (name[i] >= 'A' && name[i] <= 'Z')
            name[i] = (char)(name[i] - 'A' + 'a');
    }
    fields->ended += len;
    fields->list[fields->n++] = (struct belfry_http_field){.name.len = len};
    return BELFRY_OK;
}

void fields_end_value(struct fields *fields)
{
    size_t len;
    const char *value = open_text(fields, &len);
    while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t')) {
        len--;
        fields->text.end--;
    }
    fields->ended += len;
    fields->list[fields->n - 1].value.len = len;
}

/* ---- reading ---- */

const struct belfry_http_field *fields_list(struct fields *fields)
{
    const char *at = belfry_buf_bytes(&fields->text).data;
    for (size_t i = 0; i < fields->n; i++) {
        fields->list[i].name.data = at;
        at += fields->list[i].name.len;
        fields->list[i].value.data = at;
        at += fields->list[i].value.len;
    }
    return fields->list;
}

struct exchange_head fields_head(struct fields *fields)
{
    struct exchange_head head = {.fields = fields_list(fields), .n_fields = fields->n};
    const struct {
        struct belfry_bytes name, *place;
    } known[] = {{belfry_bytes_str(":method"), &head.method},
                 {belfry_bytes_str(":scheme"), &head.scheme},
                 {belfry_bytes_str(":path"), &head.path},
                 {belfry_bytes_str(":authority"), &head.authority}};
    for (; head.n_fields > 0 && belfry_bytes_begins(head.fields->name, belfry_bytes_str(":")); head.n_fields--) {
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
            if (belfry_bytes_equal(head.fields->name, known[i].name))
                *known[i].place = head.fields->value;
        }
        head.fields++;
    }
    if (head.authority.len == 0) /* RFC 9113, 8.3.1: one that was HTTP/1.1 before may name it there */
        head.authority = exchange_field(&head, "host");
    return head;
}

int fields_status(struct fields *fields)
{
    const struct belfry_http_field *list = fields_list(fields);
    int status = 0;
    if (fields->n == 0 || !belfry_bytes_equal(list[0].name, belfry_bytes_str(":status")))
        return 0;
    for (size_t i = 0; i < list[0].value.len && i < 3; i++)
        status = status * 10 + (list[0].value.data[i] - '0');
    return status;
}

size_t fields_bytes(const struct fields *fields)
{
    return fields->text.cap + fields->cap * sizeof(fields->list[0]);
}

bool fields_is_hop(struct belfry_bytes name, struct belfry_bytes value)
{
    static const char *const hops[] = {"connection",        "keep-alive", "proxy-connection",
                                       "transfer-encoding", "upgrade",    "host"};
    if (name.len == 0 || name.data[0] == ':')
        return true;
    if (belfry_bytes_equal(name, belfry_bytes_str("te")))
        return !belfry_bytes_equal(value, belfry_bytes_str("trailers"));
    for (size_t i = 0; i < sizeof(hops) / sizeof(hops[0]); i++) {
        if (belfry_bytes_equal(name, belfry_bytes_str(hops[i])))
            return true;
    }
    return false;
}

bool fields_is_of_browser(struct belfry_bytes name)
{
    return belfry_bytes_equal(name, belfry_bytes_str("origin")) ||
           belfry_bytes_begins(name, belfry_bytes_str("sec-fetch-"));
}
