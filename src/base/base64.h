/* src/base/base64.h
 *
 * base64 (RFC 4648): bytes as text. There is one text for each run of bytes: bits that are left over are zero.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_BASE_BASE64_H
#define BELFRY_BASE_BASE64_H

#include "base/buf.h"

enum belfry_base64 {
    BELFRY_BASE64_STANDARD, /* section 4, padded; white space anywhere in it is passed over */
    BELFRY_BASE64_URL       /* section 5, not padded, nothing else in it */
};

/* The bytes of the longest text of `len` bytes. */
#define BELFRY_BASE64_LEN(len) (((len) + 2) / 3 * 4)

/* Writes the text to to[0, BELFRY_BASE64_LEN(bytes.len)) and returns its bytes. */
size_t belfry_base64_write(enum belfry_base64 form, struct belfry_bytes bytes, char *to);

/* Each appends to `out`, which is unchanged on failure. Errors: BELFRY_ERR_NOMEM; decode: BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err belfry_base64_encode(enum belfry_base64 form, struct belfry_bytes bytes,
                                                      struct belfry_buf *out);
BELFRY_NODISCARD enum belfry_err belfry_base64_decode(enum belfry_base64 form, struct belfry_bytes text,
                                                      struct belfry_buf *out);

#endif
