/* src/server/fields.c */
#include "server/fields.h"

#include <stdlib.h>

#define FIRST_CAP 8

void fields_fini(struct fields *fields)
{
    belfry_buf_fini(&fields->text);
    free(fields->list);
    fields_init(fields);
}

void fields_clear(struct fields *fields)
{
    belfry_buf_clear(&fields->text);
    fields->n = 0;
}

static enum belfry_err make_room(struct fields *fields)
{
    if (fields->n < fields->cap)
        return BELFRY_OK;
    size_t cap = fields->cap == 0 ? FIRST_CAP : fields->cap * 2;
    struct exchange_field *list = realloc(fields->list, cap * sizeof(*list));
    if (list == NULL)
        return BELFRY_ERR_NOMEM;
    fields->list = list;
    fields->cap = cap;
    return BELFRY_OK;
}

enum belfry_err fields_add(struct fields *fields, struct belfry_bytes name, struct belfry_bytes value)
{
    uint8_t *to;
    enum belfry_err err = make_room(fields);
    if (err == BELFRY_OK)
        err = belfry_buf_reserve(&fields->text, name.len + value.len + 1, &to); /* never NULL, not even for nothing */
    if (err != BELFRY_OK)
        return err;
    if (name.len > 0)
        memcpy(to, name.data, name.len);
    if (value.len > 0)
        memcpy(to + name.len, value.data, value.len);
    belfry_buf_grown(&fields->text, name.len + value.len);
    fields->list[fields->n].name.len = name.len;
    fields->list[fields->n++].value.len = value.len;
    return BELFRY_OK;
}

const struct exchange_field *fields_list(struct fields *fields)
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
