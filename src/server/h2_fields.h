/* src/server/h2_fields.h
 *
 * h2_fields: fields as nghttp2 takes them, lent or copied.
 *
 * Thread: owner.
 * Memory: a copy is one allocation, ended with free().
 */
#ifndef BELFRY_SERVER_H2_FIELDS_H
#define BELFRY_SERVER_H2_FIELDS_H

#include <nghttp2/nghttp2.h>

#include "net/http_field.h"

struct h2_fields {
    size_t n;
    nghttp2_nv list[]; /* their bytes follow */
};

/* A field whose bytes are lent. nghttp2 does not write there. */
static inline nghttp2_nv h2_field(struct belfry_bytes name, struct belfry_bytes value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name.data,
                        .value = (uint8_t *)(uintptr_t)value.data,
                        .namelen = name.len,
                        .valuelen = value.len};
}

/* NULL: no memory. */
struct h2_fields *h2_fields_copy(const struct belfry_http_field *fields, size_t n);

#endif
