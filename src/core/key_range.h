/* src/core/key_range.h: the keys that a watcher wants, as etcd reads a request. Thread: any. Pure. */
#ifndef BELFRY_CORE_KEY_RANGE_H
#define BELFRY_CORE_KEY_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum range_kind {
    RANGE_KEY,    /* one key: `key` */
    RANGE_PREFIX, /* all keys that begin with `key`; an empty one: all keys */
    RANGE_SPAN    /* [key, end); an empty end: no upper bound */
};

struct range {
    enum range_kind kind;
    struct belfry_bytes key, end; /* end: of a span only */
};

/* Reads key and range_end of a create request: an empty key is "\0"; a range_end of "\0" means to the end; what
 * equals a prefix becomes one. The bytes stay the caller's (an empty key: a constant's). False: the range is empty. */
bool range_read(struct belfry_bytes key, struct belfry_bytes range_end, struct range *out);

/* Appends the end of the keys that begin with `prefix`, for an interval [prefix, end): nothing when there is none above
 * (an empty prefix, or 0xff alone). Errors: BELFRY_ERR_NOMEM. */
struct belfry_buf;
BELFRY_NODISCARD enum belfry_err range_prefix_end(struct belfry_bytes prefix, struct belfry_buf *out);

bool range_has(const struct range *range, struct belfry_bytes key);

/* Do all its keys begin with `prefix`? Everything lies within the empty one. */
bool range_within(const struct range *range, struct belfry_bytes prefix);

#endif
