/* src/json/escape.h: the escapes of JSON strings, given as the raw bytes between their quotes.
 * Thread: any. Pure. */
#ifndef BELFRY_JSON_ESCAPE_H
#define BELFRY_JSON_ESCAPE_H

#include <stdbool.h>

#include "base/buf.h"

/* Whether `raw` decodes to `text`. False if `raw` is invalid. */
bool belfry_escape_is(struct belfry_bytes raw, const char *text);

/* Decodes `raw` and appends it as UTF-8. Errors: BELFRY_ERR_INVALID (an unknown escape, half of a surrogate pair),
 * BELFRY_ERR_NOMEM; `out` may then contain a part of it. */
BELFRY_NODISCARD enum belfry_err belfry_escape_undo(struct belfry_bytes raw, struct belfry_buf *out);

/* Whether `c` must be escaped in a string. */
static inline bool belfry_escape_needed(char c)
{
    return (unsigned char)c < 0x20 || c == '"' || c == '\\';
}

/* Writes the shortest escape for `c`, which is ASCII, and returns its length. */
#define BELFRY_ESCAPE_MAX 6
size_t belfry_escape_write(char c, char out[BELFRY_ESCAPE_MAX]);

static inline bool belfry_escape_in(struct belfry_bytes raw)
{
    return raw.len > 0 && memchr(raw.data, '\\', raw.len) != NULL;
}

#endif
