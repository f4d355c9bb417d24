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

/* Unpacks `in` (one or more whole gzip members). On BELFRY_OK the caller owns the reference in *out.
 * Errors: BELFRY_ERR_PROTOCOL (not gzip, damaged or cut short), BELFRY_ERR_TOO_LARGE (more than max_bytes),
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_gzip_unpack(struct belfry_bytes in, size_t max_bytes, struct belfry_blob **out);

#endif
