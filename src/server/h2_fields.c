/* src/server/h2_fields.c */
#include "server/h2_fields.h"

#include <stdlib.h>
#include <string.h>

static uint8_t *bytes_copy(uint8_t **at, const uint8_t *from, size_t len)
{
    uint8_t *to = *at;
    if (len > 0)
        memcpy(to, from, len);
    *at = to + len;
    return to;
}

struct h2_fields *h2_fields_copy(const struct belfry_http_field *fields, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += fields[i].name.len + fields[i].value.len;
    struct h2_fields *copy = malloc(sizeof(*copy) + n * sizeof(copy->list[0]) + bytes);
    if (copy == NULL)
        return NULL;
    copy->n = n;
    uint8_t *at = (uint8_t *)(copy->list + n);
    for (size_t i = 0; i < n; i++) {
        nghttp2_nv *field = &copy->list[i];
        *field = h2_field(fields[i].name, fields[i].value);
        field->name = bytes_copy(&at, field->name, field->namelen);
        field->value = bytes_copy(&at, field->value, field->valuelen);
    }
    return copy;
}
