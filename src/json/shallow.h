/* src/json/shallow.h
 *
 * shallow: finds the members of a JSON object in its text, without parsing their values. The JSON must be known to be
 * valid. (A parser would not tell where in the text a value is.)
 *
 *     {"kind":"Pod","spec":{"a":[1,2]}}        kind, "Pod"        spec, {"a":[1,2]}
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_JSON_SHALLOW_H
#define BELFRY_JSON_SHALLOW_H

#include <stdbool.h>

#include "base/bytes.h"

struct belfry_shallow {
    struct belfry_bytes rest; /* lent: the part not walked yet */
};

struct belfry_shallow_member {
    struct belfry_bytes name;  /* without its quotes, escapes not decoded */
    struct belfry_bytes value; /* raw text, without white space around it */
};

/* `json` without the white space around it. */
struct belfry_bytes belfry_shallow_value(struct belfry_bytes json);

/* Starts a walk of `object`, which begins with its bracket; its closing bracket may be missing. */
static inline struct belfry_shallow belfry_shallow_walk(struct belfry_bytes object)
{
    return (struct belfry_shallow){belfry_bytes_of(object.data + 1, object.len - 1)};
}

/* The next member; false after the last. */
bool belfry_shallow_next(struct belfry_shallow *walk, struct belfry_shallow_member *out);

static inline bool belfry_shallow_is_object(struct belfry_bytes value)
{
    return value.len > 0 && value.data[0] == '{';
}

static inline bool belfry_shallow_is_array(struct belfry_bytes value)
{
    return value.len > 0 && value.data[0] == '[';
}

static inline bool belfry_shallow_is_string(struct belfry_bytes value)
{
    return value.len > 0 && value.data[0] == '"';
}

/* Missing or null; Kubernetes treats both alike. */
static inline bool belfry_shallow_is_nothing(struct belfry_bytes value)
{
    return value.len == 0 || value.data[0] == 'n';
}

/* The bytes between the quotes of a string. */
static inline struct belfry_bytes belfry_shallow_text(struct belfry_bytes string)
{
    return belfry_bytes_of(string.data + 1, string.len - 2);
}

#endif
