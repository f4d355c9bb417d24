/* src/client/range_bytes.h
 *
 * range: how a struct belfry_range is written on the wire: key and range_end. Thread: owner. Pure.
 */
#ifndef BELFRY_CLIENT_RANGE_BYTES_H
#define BELFRY_CLIENT_RANGE_BYTES_H

#include <belfry/belfry.h>

/* A copy in one allocation; release it with free(). */
struct belfry_wire_range {
    struct belfry_bytes key, end;
};

/* Errors: BELFRY_ERR_INVALID (an empty interval, or an unknown kind), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_range_wire(struct belfry_range range, struct belfry_wire_range **out);

/* A sentence about such an error; NULL: belfry_strerror() says it all. */
const char *belfry_range_why(enum belfry_err err);

#endif
