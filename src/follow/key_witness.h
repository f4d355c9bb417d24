/* src/follow/key_witness.h
 *
 * key_witness: is upstream's past still ours, when upstream has compacted the overlap away? What can still be compared
 * is one key of our newest revision with events, read as it was at the compaction: it must be as we left it.
 *
 * If the compaction is at our head or before it, nothing can have changed that key since. If it is at the revision
 * after our head, the key may have been changed just there, and then it proves nothing. A replica without events, one
 * whose last event was a delete, and one whose last revision is so large that it is read in slices, prove nothing,
 * either: what comes later in that revision may change the key again.
 *
 * A part of the store may see no event for days. If it has no events left to take a key from, the witness is the newest
 * row of its state. That shows less: not what was deleted since, and not what another past has written elsewhere. The
 * state is walked through for it, once until the next event.
 *
 * Thread: owner (ingest's). Pure, given a store.
 */
#ifndef BELFRY_FOLLOW_KEY_WITNESS_H
#define BELFRY_FOLLOW_KEY_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "follow/ingest.h"

/* One of zeroes is empty. */
struct key_witness {
    struct belfry_buf key, kv; /* kv: as on the wire */
    bool deleted;              /* our last revision deleted the key */
    int64_t at;                /* the revision at which upstream is to read it */
    uint64_t row_past;         /* the newest row was looked for in the state of this past, not 0, */
    int64_t row_overlap;       /* when this was ingest_overlap(): it is the same until that changes */
};

enum key_verdict {
    KEY_SAME,   /* upstream has what we have: its past is ours */
    KEY_OTHER,  /* it has something else: its past is another */
    KEY_UNKNOWN /* the key proves nothing */
};

void key_witness_fini(struct key_witness *witness);

/* Takes a key of the newest revision that ingest holds events of, or the newest row (above), to be read at `at`.
 * Commits what ingest has, because a store reads only that. Errors: BELFRY_ERR_NOT_FOUND (there is nothing to compare
 * with); others (memory, the disk) pass: try again. */
BELFRY_NODISCARD enum belfry_err key_witness_find(struct key_witness *witness, struct store *store,
                                                  struct ingest *ingest, int64_t at, uint64_t now_ms);

/* Judges a RangeResponse that begins with the key, if there is such a key. `head`: ours. */
enum key_verdict key_witness_judge(const struct key_witness *witness, struct belfry_bytes response, int64_t head);

#endif
