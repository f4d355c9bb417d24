/* src/base/query.h: the query of a URL, name=value&..., in the encoding of HTML forms. Thread: any. Pure. */
#ifndef BELFRY_BASE_QUERY_H
#define BELFRY_BASE_QUERY_H

#include <stdbool.h>

#include "base/bytes.h"

/* Takes the next pair from *query, both parts still encoded. False: there is none. */
bool belfry_query_next(struct belfry_bytes *query, struct belfry_bytes *name, struct belfry_bytes *value);

/* Decodes into `out`, which has room for in.len bytes: %XX, and + for a blank. False: a broken escape. */
bool belfry_query_decode(struct belfry_bytes in, char *out, size_t *out_len);

#endif
