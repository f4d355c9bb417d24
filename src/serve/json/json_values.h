/* src/serve/json/json_values.h
 *
 * json_values: JSON values that follow each other, such as the requests of a stream, cut out of bytes as they come.
 * Each is found by its brackets and quotes; whether it is JSON, its reader finds out.
 *
 * Thread: owner. Pure; unchecked: a part of its call.
 * Memory: what has come and was not taken; the owner bounds it.
 */
#ifndef BELFRY_SERVE_JSON_JSON_VALUES_H
#define BELFRY_SERVE_JSON_JSON_VALUES_H

#include "base/buf.h"
#include "json/nest.h"

struct json_values {
    struct belfry_buf bytes;
    size_t looked; /* bytes of the first value that were looked at */
    struct belfry_nest nest;
    bool ended; /* no more bytes come */
};

void json_values_init(struct json_values *values);
void json_values_fini(struct json_values *values);

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err json_values_add(struct json_values *values, struct belfry_bytes bytes);
void json_values_end(struct json_values *values);

/* The first value, lent until it is taken; false: it is not whole. After the end, what is left of one counts as it. */
bool json_values_first(struct json_values *values, struct belfry_bytes *out);
void json_values_take(struct json_values *values); /* it is the next one's turn */

#endif
