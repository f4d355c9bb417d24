/* src/json/shallow.c */
#include "json/shallow.h"

#include "json/nest.h"

static struct belfry_bytes bytes_from(struct belfry_bytes text, size_t at)
{
    return belfry_bytes_of(text.data + at, text.len - at);
}

/* Skips white space and the comma or colon between tokens; valid JSON has no more than one there. */
static struct belfry_bytes behind_marks(struct belfry_bytes text)
{
    size_t at = 0;
    while (at < text.len && (belfry_nest_is_space(text.data[at]) || text.data[at] == ',' || text.data[at] == ':'))
        at++;
    return at == 0 ? text : bytes_from(text, at);
}

/* The length of the value at the front. */
static size_t value_len(struct belfry_bytes text)
{
    struct belfry_nest nest = {0};
    size_t at = 0;
    if (text.len > 0 && !belfry_nest_is_word(text.data[0]))
        return belfry_nest_skip(&nest, 0, text);
    while (at < text.len && belfry_nest_is_word(text.data[at]))
        at++;
    return at;
}

static struct belfry_bytes take_value(struct belfry_shallow *walk)
{
    walk->rest = behind_marks(walk->rest);
    size_t len = value_len(walk->rest);
    struct belfry_bytes value = belfry_bytes_of(walk->rest.data, len);
    if (len > 0)
        walk->rest = bytes_from(walk->rest, len);
    return value;
}

struct belfry_bytes belfry_shallow_value(struct belfry_bytes json)
{
    struct belfry_shallow walk = {json};
    return take_value(&walk);
}

bool belfry_shallow_next(struct belfry_shallow *walk, struct belfry_shallow_member *out)
{
    walk->rest = behind_marks(walk->rest);
    if (!belfry_shallow_is_string(walk->rest)) /* the end of the text, or the closing bracket */
        return false;
    out->name = belfry_shallow_text(take_value(walk));
    out->value = take_value(walk);
    return true;
}
