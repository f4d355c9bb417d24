/* src/json/json.h
 *
 * json: appends JSON to a buffer. The caller's names are not escaped; a name is NULL inside an array.
 *
 * The first error is kept: nothing is written after it, and belfry_json_finish() returns it.
 *
 * Thread: any. Memory: the buffer's.
 */
#ifndef BELFRY_JSON_JSON_H
#define BELFRY_JSON_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct belfry_json {
    struct belfry_buf *buf; /* lent */
    bool more;              /* the next value needs a comma */
    enum belfry_err err;
};

static inline struct belfry_json belfry_json_begin(struct belfry_buf *buf)
{
    return (struct belfry_json){.buf = buf};
}

void belfry_json_open(struct belfry_json *json, const char *name, char bracket); /* '{' or '[' */
void belfry_json_close(struct belfry_json *json, char bracket);                  /* '}' or ']' */

/* A string. If the bytes are not UTF-8, it is written as base64 (RFC 4648 section 4) under the name NAME_b64; in an
 * array each invalid byte becomes U+FFFD. */
void belfry_json_text(struct belfry_json *json, const char *name, struct belfry_bytes text);
void belfry_json_str(struct belfry_json *json, const char *name, const char *text); /* the same, up to its zero byte */
void belfry_json_int(struct belfry_json *json, const char *name, int64_t number);
void belfry_json_uint(struct belfry_json *json, const char *name, uint64_t number);
void belfry_json_real(struct belfry_json *json, const char *name, double number); /* finite */
void belfry_json_bool(struct belfry_json *json, const char *name, bool value);
void belfry_json_null(struct belfry_json *json, const char *name);

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_json_finish(const struct belfry_json *json);

#endif
