/* src/net/gunzip.h
 *
 * gunzip: unpacks a compressed message piece by piece, as its bytes come in. gzip.h unpacks one that is there whole.
 *
 * Thread: owner. Pure; unchecked: a part of what it belongs to.
 * Memory: BELFRY_GUNZIP_BYTES, however large the message is.
 */
#ifndef BELFRY_NET_GUNZIP_H
#define BELFRY_NET_GUNZIP_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

#define BELFRY_GUNZIP_PIECE ((size_t)4 * 1024)
#define BELFRY_GUNZIP_BYTES ((size_t)48 * 1024) /* zlib's window and state, and a piece */

struct belfry_gunzip;

/* max_bytes: of what is unpacked. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_gunzip_create(size_t max_bytes, struct belfry_gunzip **out);
void belfry_gunzip_destroy(struct belfry_gunzip *gunzip); /* NULL: nothing */

/* Takes bytes from the front of *in. *out is what they unpack to, at most a piece, lent until the next call; empty: all
 * of *in is taken. Errors: BELFRY_ERR_PROTOCOL (not gzip, or damaged), BELFRY_ERR_TOO_LARGE (more than max_bytes),
 * BELFRY_ERR_NOMEM. After an error it is only destroyed. */
BELFRY_NODISCARD enum belfry_err belfry_gunzip_next(struct belfry_gunzip *gunzip, struct belfry_bytes *in,
                                                    struct belfry_bytes *out);

/* Is all that came whole? A message is one gzip member or more. */
bool belfry_gunzip_is_whole(const struct belfry_gunzip *gunzip);

#endif
