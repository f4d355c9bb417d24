/* src/server/fields.h
 *
 * fields: header fields that are kept longer than they are lent: a request's until it can be sent, a block's until it
 * is whole. Order and repetition stay as they came.
 *
 * Thread: owner. Pure.
 * Memory: names and values, and 32 bytes each; whoever adds has bounded them (a header block is at most 64 KiB).
 */
#ifndef BELFRY_SERVER_FIELDS_H
#define BELFRY_SERVER_FIELDS_H

#include "base/buf.h"
#include "server/exchange.h"

struct fields {
    struct belfry_buf text;      /* names and values, one behind the other */
    struct exchange_field *list; /* owned; the lengths hold, the pointers only after fields_list() */
    size_t n, cap;
};

static inline void fields_init(struct fields *fields)
{
    *fields = (struct fields){0};
}

void fields_fini(struct fields *fields);  /* may be used again */
void fields_clear(struct fields *fields); /* keeps the storage */

/* Adds a copy. Errors: BELFRY_ERR_NOMEM, unchanged. */
BELFRY_NODISCARD enum belfry_err fields_add(struct fields *fields, struct belfry_bytes name, struct belfry_bytes value);

/* All of them, fields->n; lent until the next change. */
const struct exchange_field *fields_list(struct fields *fields);

/* True for fields that speak of one connection and not of the request (RFC 9113, 8.2.2), for pseudo-headers, and for
 * host, which goes with them. */
bool fields_is_hop(struct belfry_bytes name, struct belfry_bytes value);

#endif
