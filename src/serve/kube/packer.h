/* src/serve/kube/packer.h
 *
 * packer: the body of a response as one gzip member, made piece by piece.
 *
 * Thread: owner; it may change hands between two calls; unchecked: readers pass it on.
 * Memory: about 270 KiB from its first piece to its end (zlib's window and tables), and what it appends.
 */
#ifndef BELFRY_SERVE_KUBE_PACKER_H
#define BELFRY_SERVE_KUBE_PACKER_H

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

struct packer;

enum packer_piece { PACKER_MORE, PACKER_LAST };

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err packer_create(struct packer **out);
void packer_destroy(struct packer *packer); /* NULL is fine */

/* Appends `in`, packed. Some of it may be held back until the next piece; the last piece flushes everything.
 * Errors: BELFRY_ERR_NOMEM: the member cannot be continued. */
BELFRY_NODISCARD enum belfry_err packer_add(struct packer *packer, struct belfry_bytes in, enum packer_piece piece,
                                            struct belfry_buf *out);

#endif
