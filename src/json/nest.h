/* src/json/nest.h
 *
 * nest: how deep inside brackets and strings a text of JSON is, kept from piece to piece.
 *
 * It looks at quotes, backslashes and brackets, each byte once; that a bracket is closed by its like is for a reader of
 * JSON to find out. Depth is a counter: nothing here grows with it.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_JSON_NEST_H
#define BELFRY_JSON_NEST_H

#include <stdbool.h>

#include "base/bytes.h"

enum belfry_nest_in { BELFRY_NEST_PLAIN, BELFRY_NEST_STRING, BELFRY_NEST_ESCAPE }; /* ESCAPE: behind a backslash */

struct belfry_nest {
    size_t depth; /* open brackets */
    enum belfry_nest_in in;
};

/* Goes on until it is back at `floor` open brackets and in no string, or `text` ends; returns how many bytes that were.
 * It is inside already, or the text begins with a quote or an opening bracket. */
size_t belfry_nest_skip(struct belfry_nest *nest, size_t floor, struct belfry_bytes text);

/* Back there, once something was skipped. */
static inline bool belfry_nest_back(const struct belfry_nest *nest, size_t floor)
{
    return nest->in == BELFRY_NEST_PLAIN && nest->depth == floor;
}

/* White space of JSON. */
static inline bool belfry_nest_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* A byte of a number, true, false or null. They end at the first that is none. */
static inline bool belfry_nest_is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
           c == '.';
}

#endif
