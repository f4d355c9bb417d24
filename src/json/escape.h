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

static inline bool belfry_escape_in(struct belfry_bytes raw)
{
    return raw.len > 0 && memchr(raw.data, '\\', raw.len) != NULL;
}

#endif
