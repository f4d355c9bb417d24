/* src/json/nest.h
 *
 * nest: tracks how deeply a JSON text is nested in brackets, and whether it is in a string, across pieces of the text.
 *
 * It looks at quotes, backslashes and brackets, each byte once. It does not check that closing brackets match; a JSON
 * parser does. The depth is a counter, so memory does not grow with it.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_JSON_NEST_H
#define BELFRY_JSON_NEST_H

#include <stdbool.h>

#include "base/bytes.h"

enum belfry_nest_in { BELFRY_NEST_PLAIN, BELFRY_NEST_STRING, BELFRY_NEST_ESCAPE }; /* ESCAPE: after a backslash */

struct belfry_nest {
    size_t depth; /* open brackets */
    enum belfry_nest_in in;
};

/* Skips until `floor` brackets are open and no string is, or until `text` ends; returns the number of bytes skipped.
 * Either the nest is already deeper than `floor`, or the text begins with a quote or an opening bracket. */
size_t belfry_nest_skip(struct belfry_nest *nest, size_t floor, struct belfry_bytes text);

/* Whether belfry_nest_skip() has reached `floor`. */
static inline bool belfry_nest_back(const struct belfry_nest *nest, size_t floor)
{
    return nest->in == BELFRY_NEST_PLAIN && nest->depth == floor;
}

/* JSON white space. */
static inline bool belfry_nest_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* A byte of a number, true, false or null. Such a word ends at the first other byte. */
static inline bool belfry_nest_is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
           c == '.';
}

#endif
