/* src/net/gzip.h
 *
 * gzip: unpacks a compressed message.
 *
 * Thread: any. Pure.
 * Memory: the result grows by doubling as bytes come out, up to the caller's limit: a small message that unpacks to
 * gigabytes costs no more than that.
 */
#ifndef BELFRY_NET_GZIP_H
#define BELFRY_NET_GZIP_H

#include "base/blob.h"
#include "base/bytes.h"
#include "base/err.h"

#define BELFRY_GZIP_RATIO 16
#define BELFRY_GZIP_ANY   ((size_t)64 * 1024)

/* What a request of `packed` bytes may unpack to: a few bytes must not cost milliseconds. No client has such ones. */
static inline size_t belfry_gzip_allowance(size_t packed)
{
    return packed > BELFRY_GZIP_ANY / BELFRY_GZIP_RATIO ? packed * BELFRY_GZIP_RATIO : BELFRY_GZIP_ANY;
}

/* Unpacks `in` (one or more whole gzip members). On BELFRY_OK the caller owns the reference in *out.
 * Errors: BELFRY_ERR_PROTOCOL (not gzip, damaged or cut short), BELFRY_ERR_TOO_LARGE (more than max_bytes),
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_gzip_unpack(struct belfry_bytes in, size_t max_bytes, struct belfry_blob **out);

/* Unpacks into `to` what `in`, the beginning of a gzip member, holds of the first `cap` bytes; *out_n: how many those
 * are. Where it is damaged, or not gzip, it ends. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_gzip_front(struct belfry_bytes in, uint8_t *to, size_t cap, size_t *out_n);

#endif
