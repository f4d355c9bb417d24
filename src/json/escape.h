/* src/json/escape.h: a string of JSON, as it stands between its quotes, is another text as soon as there is a backslash
 * in it. Thread: any. Pure. */
#ifndef BELFRY_JSON_ESCAPE_H
#define BELFRY_JSON_ESCAPE_H

#include <stdbool.h>

#include "base/buf.h"

/* Whether `raw` means `text`. What is no valid string means nothing. */
bool belfry_escape_is(struct belfry_bytes raw, const char *text);

/* Appends what `raw` means, in UTF-8. Errors: BELFRY_ERR_INVALID (an escape that JSON does not know, half a surrogate
 * pair), BELFRY_ERR_NOMEM; out may then have a part of it. */
BELFRY_NODISCARD enum belfry_err belfry_escape_undo(struct belfry_bytes raw, struct belfry_buf *out);

/* May `c` not stand in a string as it is? */
static inline bool belfry_escape_needed(char c)
{
    return (unsigned char)c < 0x20 || c == '"' || c == '\\';
}

/* Writes the shortest escape for `c`, which is ASCII, and returns its bytes. */
#define BELFRY_ESCAPE_MAX 6
size_t belfry_escape_write(char c, char out[BELFRY_ESCAPE_MAX]);

static inline bool belfry_escape_in(struct belfry_bytes raw)
{
    return raw.len > 0 && memchr(raw.data, '\\', raw.len) != NULL;
}

#endif
