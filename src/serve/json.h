/* src/serve/json.h
 *
 * json: writes JSON at the end of a buffer. Names are the caller's own and are not escaped; NULL inside an array.
 *
 * Errors stick: after the first nothing more is written, and json_finish() tells it.
 *
 * Thread: any. Memory: the buffer's.
 */
#ifndef BELFRY_SERVE_JSON_H
#define BELFRY_SERVE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct json {
    struct belfry_buf *buf; /* lent */
    bool more;              /* a comma goes before what comes next */
    enum belfry_err err;
};

static inline struct json json_begin(struct belfry_buf *buf)
{
    return (struct json){.buf = buf};
}

void json_open(struct json *json, const char *name, char bracket); /* '{' or '[' */
void json_close(struct json *json, char bracket);                  /* '}' or ']' */

/* A string. Bytes that are not UTF-8 go under name_b64, in base64 (RFC 4648 section 4); in an array each of them becomes
 * U+FFFD. */
void json_text(struct json *json, const char *name, struct belfry_bytes text);
void json_str(struct json *json, const char *name, const char *text); /* the same, up to its zero byte */
void json_int(struct json *json, const char *name, int64_t number);
void json_uint(struct json *json, const char *name, uint64_t number);
void json_real(struct json *json, const char *name, double number); /* finite */
void json_bool(struct json *json, const char *name, bool value);

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err json_finish(const struct json *json);

/* How many bytes at the front are one UTF-8 character (RFC 3629: nothing overlong, no surrogates); 0: none. */
size_t json_utf8(struct belfry_bytes bytes);

#endif
