/* bench/belfry-attack/hpack.h
 *
 * hpack: header blocks by hand (RFC 7541), as an attacker wants them: large for the server and small on the wire.
 *
 * Thread: any. Pure.
 * Memory: through the buffer given; dies when memory is out.
 */
#ifndef ATTACK_HPACK_H
#define ATTACK_HPACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* The first entry of the server's table of fields is the one that was added last. */
#define HPACK_NEWEST 62

enum hpack_keep { HPACK_FORGET, HPACK_KEEP }; /* KEEP: the server puts the field into its table */

/* A field by its name and its value. */
void hpack_field(struct belfry_buf *block, enum hpack_keep keep, const char *name, const void *value, size_t len);

/* A field of the table, in one byte: `entry` is below 127. */
void hpack_entry(struct belfry_buf *block, unsigned entry);

/* The fields of a gRPC call of `path`. HPACK_KEEP: the four that are not static go into the table, where
 * hpack_call_again() finds them while `n_added` fields were added after them; then a head is 6 bytes. */
void hpack_call(struct belfry_buf *block, enum hpack_keep keep, const char *path);
void hpack_call_again(struct belfry_buf *block, unsigned n_added);

/* GET of `path`, accepting JSON. */
void hpack_get(struct belfry_buf *block, const char *path);

#endif
