/* src/net/percent.h
 *
 * percent: the encoding of grpc-message: what is not printable ASCII, and % itself, comes as %XX.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_NET_PERCENT_H
#define BELFRY_NET_PERCENT_H

#include "base/bytes.h"

/* Decodes `in` into `out`, which has room for in.len + 1 bytes, ends it with NUL and returns its length. Never fails:
 * an escape that is broken, or that would put a NUL into a string, stays as it came. */
size_t belfry_percent_decode(struct belfry_bytes in, char *out);

/* Encodes `in` into `out`, which has room for 3 * in.len + 1 bytes, ends it with NUL and returns its length. */
size_t belfry_percent_encode(struct belfry_bytes in, char *out);

#endif
