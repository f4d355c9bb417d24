/* src/serve/reads/range_slices.h
 *
 * range_slices: a Range whose rows are too many for one answer in memory, read from the store slice by slice, and the
 * bytes of its response.
 *
 *     as one message:  MEASURING --the range was read--> WRITING --it was read again--> DONE
 *     as chunks:       WRITING --the range was read--> DONE
 *
 * gRPC's prefix says how long a message is. So the response of a Range is read twice: the first time its rows are
 * added up, the second time they are written. RangeStream's response is a message for each slice and is read once; the
 * first has RANGE_SLICES_CHUNK rows, and each next one twice as many until they are about as large as a slice.
 *
 * All slices show one state: the first determines the revision, the others read the store as it was then
 * (replica/older.h). Each is a short snapshot of its own, so a client that stops reading keeps no page of the store.
 * When the revision leaves the window, or the past is rewritten, the answer cannot go on.
 *
 * Thread: any. One caller at a time. It reads the clock.
 * Memory: three keys; and the caller's buffer, which a slice makes at most RANGE_SLICES_BYTES and one row long.
 */
#ifndef BELFRY_SERVE_READS_RANGE_SLICES_H
#define BELFRY_SERVE_READS_RANGE_SLICES_H

#include "base/buf.h"
#include "core/response.h"
#include "core/store.h"
#include "judge/etcd_version.h"
#include "wire/scan.h"

#define RANGE_SLICES_LEAST ((size_t)8 * 1024)  /* of rows that are written in one slice, and then one more: */
#define RANGE_SLICES_BYTES ((size_t)56 * 1024) /* at least, and at most */
#define RANGE_SLICES_ROOM  ((size_t)64 * 1024) /* what a slice has at least: enough where rows are small */
#define RANGE_SLICES_NS    500000              /* in which rows are read for one slice */
#define RANGE_SLICES_WALK  2048                /* rows of history that are looked at for one slice */
#define RANGE_SLICES_CHUNK 10                  /* rows of the first chunk, as etcd's */

enum range_slices_form { RANGE_SLICES_MESSAGE, RANGE_SLICES_CHUNKS };
enum range_slices_state { RANGE_SLICES_MEASURING, RANGE_SLICES_WRITING, RANGE_SLICES_DONE };

struct range_slices {
    /* fixed */
    const struct belfry_wire_range_request *request; /* lent */
    enum range_slices_form form;
    enum etcd_keys_only keys_only;
    struct belfry_buf end_bytes;
    struct belfry_bytes end; /* as store_read.end */
    /* owner */
    enum range_slices_state state;
    /* from the first slice: */
    bool begun;
    int64_t rev;      /* of all rows */
    int64_t head_rev; /* of the store, as the response's header says it */
    uint64_t past;    /* of which both are */
    uint64_t count;
    /* of the present pass: */
    struct belfry_buf next; /* where the next slice begins; empty: at the request's key */
    struct belfry_buf cut;  /* while rows are read: where the slice after this one begins */
    uint64_t rows, bytes;   /* that were measured, or written */
    bool headed;            /* WRITING a message: its prefix and header are written */
    bool more;              /* there is a row beyond the limit */
    /* of passes before: */
    uint64_t measured;
    size_t chunk_rows; /* of the next chunk, at most */
};

/* Can this Range be read in slices? Not if it must be sorted. */
bool range_slices_can(const struct belfry_wire_range_request *request);

/* `request` lives as long; `keys_only` says how upstream's etcd answers it. Errors: BELFRY_ERR_NOMEM;
 * range_slices_fini() is fine all the same. */
BELFRY_NODISCARD enum belfry_err range_slices_init(struct range_slices *slices,
                                                   const struct belfry_wire_range_request *request,
                                                   enum range_slices_form form, enum etcd_keys_only keys_only);
void range_slices_fini(struct range_slices *slices);

/* Reads one slice, and appends what can be sent, perhaps nothing, to `out`, which is empty: about `bytes`, within
 * RANGE_SLICES_LEAST and _BYTES. slices->state says whether that was the last one.
 * Errors: BELFRY_ERR_AGAIN (the request's revision is above the store's), BELFRY_ERR_COMPACTED (it is below the window,
 * or too far from what is there), BELFRY_ERR_CANCELED (the past was rewritten since the first slice),
 * BELFRY_ERR_TOO_LARGE (for one message), BELFRY_ERR_UNSUPPORTED (range_row_init()), BELFRY_ERR_IO, BELFRY_ERR_NOMEM.
 * After an error `out` is empty. After any but AGAIN it cannot go on. */
BELFRY_NODISCARD enum belfry_err range_slices_step(struct range_slices *slices, struct store *store,
                                                   const struct response_identity *identity, size_t bytes,
                                                   struct belfry_buf *out);

#endif
