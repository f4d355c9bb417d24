/* src/client/witness.h
 *
 * witness: the newest put seen on a stream, kept as evidence of which past we have seen.
 *
 * A cluster that was restored from a backup and then written past our place has the same cluster id, the same members
 * and a higher revision than we remember: nothing in a header tells. But the key that we saw written at revision R was
 * not written at R there, or not so. After every reconnect that key is read at R; what comes back is the same put,
 * another (the past was rewritten), or nothing that tells (R has been compacted).
 *
 * Thread: owner. Pure.
 * Memory: one key.
 */
#ifndef BELFRY_CLIENT_WITNESS_H
#define BELFRY_CLIENT_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "wire/scan.h"

struct belfry_witness {
    int64_t rev; /* 0: nothing seen yet */
    int64_t create_rev, version;
    size_t value_len;
    uint64_t value_hash; /* of its first bytes */
    struct belfry_buf key;
};

void belfry_witness_init(struct belfry_witness *witness);
void belfry_witness_fini(struct belfry_witness *witness);

/* Something else is to be believed from now on: forget. */
void belfry_witness_forget(struct belfry_witness *witness);

/* An event was seen; it is kept if it is a put and newer than what is kept. For want of memory nothing is kept. */
void belfry_witness_note(struct belfry_witness *witness, const struct belfry_wire_event *event);

/* Does the RangeResponse to a read of .key at .rev show another past? */
bool belfry_witness_contradicts(const struct belfry_witness *witness, struct belfry_bytes response);

#endif
