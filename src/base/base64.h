/* src/base/base64.h
 *
 * base64 (RFC 4648): bytes as text. Every run of bytes has exactly one valid text: unused bits must be zero.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_BASE_BASE64_H
#define BELFRY_BASE_BASE64_H

#include "base/buf.h"

enum belfry_base64 {
    BELFRY_BASE64_STANDARD, /* section 4, padded; white space is skipped */
    BELFRY_BASE64_URL       /* section 5, not padded, no white space */
};

/* An upper bound for the text length of `len` bytes. */
#define BELFRY_BASE64_LEN(len) (((len) + 2) / 3 * 4)

/* Writes the text to to[0, BELFRY_BASE64_LEN(bytes.len)) and returns its length. */
size_t belfry_base64_write(enum belfry_base64 form, struct belfry_bytes bytes, char *to);

/* Each appends to `out`, which is unchanged on failure. Errors: BELFRY_ERR_NOMEM; decode: BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err belfry_base64_encode(enum belfry_base64 form, struct belfry_bytes bytes,
                                                      struct belfry_buf *out);
BELFRY_NODISCARD enum belfry_err belfry_base64_decode(enum belfry_base64 form, struct belfry_bytes text,
                                                      struct belfry_buf *out);

#endif
