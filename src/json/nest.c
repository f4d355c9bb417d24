/* src/json/nest.c: every byte that a client receives passes here several times, so this file is written for speed: the
 * state is kept in registers, and strings, the larger part of Kubernetes objects, are scanned eight bytes at a time. */
#include "json/nest.h"

#include <endian.h>
#include <stdint.h>

#define ONES  0x0101010101010101u
#define HIGHS 0x8080808080808080u

/* Sets the high bit of each byte that equals `c`. Correct from the lowest byte up to the first match; not above it. */
static inline uint64_t bytes_equal_to(uint64_t eight, char c)
{
    uint64_t zero_where_equal = eight ^ (ONES * (unsigned char)c);
    return (zero_where_equal - ONES) & ~zero_where_equal & HIGHS;
}

/* The next quote or backslash. */
static inline const char *string_end(const char *at, const char *end)
{
    for (uint64_t eight; end - at >= (ptrdiff_t)sizeof(eight); at += sizeof(eight)) {
        memcpy(&eight, at, sizeof(eight));
        eight = le64toh(eight); /* the lowest byte is the first */
        uint64_t found = bytes_equal_to(eight, '"') | bytes_equal_to(eight, '\\');
        if (found != 0)
            return at + __builtin_ctzll(found) / 8;
    }
    while (at < end && *at != '"' && *at != '\\')
        at++;
    return at;
}

/* The next quote or bracket. Outside of strings it is near. */
static inline const char *plain_end(const char *at, const char *end)
{
    static const bool counts[256] = {['"'] = true, ['{'] = true, ['['] = true, ['}'] = true, [']'] = true};
    while (at < end && !counts[(unsigned char)*at])
        at++;
    return at;
}

/* A quote or a bracket outside of strings. */
static inline void nest_pass(struct belfry_nest *nest, char c)
{
    if (c == '"')
        nest->in = BELFRY_NEST_STRING;
    else if (c == '{' || c == '[')
        nest->depth++;
    else
        nest->depth--;
}

size_t belfry_nest_skip(struct belfry_nest *nest, size_t floor, struct belfry_bytes text)
{
    const char *at = text.data, *end = at + text.len;
    struct belfry_nest now = *nest;
    while (at < end) {
        switch (now.in) {
        case BELFRY_NEST_PLAIN:
            at = plain_end(at, end);
            if (at < end)
                nest_pass(&now, *at++);
            break;
        case BELFRY_NEST_STRING:
            at = string_end(at, end);
            if (at < end)
                now.in = *at++ == '"' ? BELFRY_NEST_PLAIN : BELFRY_NEST_ESCAPE;
            break;
        case BELFRY_NEST_ESCAPE:
            at++;
            now.in = BELFRY_NEST_STRING;
            break;
        }
        if (belfry_nest_back(&now, floor))
            break;
    }
    *nest = now;
    return (size_t)(at - text.data);
}
