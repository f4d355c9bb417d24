/* src/client/witness.h
 *
 * witness: the newest put seen on a stream, kept as evidence of the past that we have seen.
 *
 * A cluster that was restored from a backup and then written past our place has the same cluster id, the same members
 * and a higher revision than we remember: no header shows the difference. But the key that we saw written at revision R
 * was not written at R there, or not with the same value. After every reconnect that key is read at R. The answer is
 * the same put, another one (the past was rewritten), or no evidence (R has been compacted).
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

/* Forgets the evidence, when another past becomes valid. */
void belfry_witness_forget(struct belfry_witness *witness);

/* Takes an event; keeps it if it is a put and newer than the one kept. One whose key the same revision deletes is not
 * kept. Without memory nothing is kept. */
void belfry_witness_note(struct belfry_witness *witness, const struct belfry_wire_event *event);

/* Whether the RangeResponse to a read of .key at .rev shows another past. */
bool belfry_witness_contradicts(const struct belfry_witness *witness, struct belfry_bytes response);

#endif
