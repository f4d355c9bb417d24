/* src/serve/reads/range_answer.h
 *
 * range_answer: a Range answered from the store: which rows, in which order, and the bytes of the response.
 *
 * Byte for byte what etcd answers (docs/spec/etcd-watch.md has its rules), but for the order of rows that are equal in
 * what is sorted by: here it is the order of keys, in etcd it is not defined.
 *
 * etcd looks at every row of the range when it filters or sorts. Here a filter passes over rows as they are read; a
 * sort keeps its rows in memory, and gives up if they are too many.
 *
 * Thread: any. Pure, given a store.
 */
#ifndef BELFRY_SERVE_READS_RANGE_ANSWER_H
#define BELFRY_SERVE_READS_RANGE_ANSWER_H

#include "base/buf.h"
#include "core/response.h"
#include "core/store.h"
#include "judge/etcd_version.h"
#include "wire/scan.h"

#define RANGE_ANSWER_PIECE (64 * 1024)   /* the most of a Range that is answered in one piece: more is read in slices */
#define RANGE_ANSWER_BYTES (1024 * 1024) /* the most that is kept to be sorted, or answered to a Txn */
#define RANGE_ANSWER_WALK  10000 /* rows, of history or passed over by a filter, that are looked at for one answer */

/* The etcd in whose place it is answered. */
struct range_upstream {
    struct response_identity identity; /* of headers */
    enum etcd_keys_only keys_only;
};

/* May the store answer it as etcd would? False: it has no key, an order that is none, or something odd. */
bool range_answer_knows(const struct belfry_wire_range_request *request);

/* Where rows are read, and how many more may be. The Ranges of a Txn share one. */
struct range_source {
    struct store *store;
    struct store_view *view; /* NULL: each Range has a snapshot of its own */
    size_t bytes;            /* of rows that are written, or kept to be sorted */
    size_t walk;             /* rows that are looked at and not written */
    size_t older_walk;       /* of history, on the way to one Range's revision */
    enum etcd_keys_only keys_only;
};
#define RANGE_SOURCE(store_, keys_only_)                                                                               \
    {                                                                                                                  \
        .store = (store_), .bytes = RANGE_ANSWER_BYTES, .walk = RANGE_ANSWER_WALK, .older_walk = RANGE_ANSWER_WALK,    \
        .keys_only = (keys_only_)                                                                                      \
    }

/* Appends a RangeResponse without its header to `out`, and takes from `source` what was used. *page says what the
 * header needs. Errors: as range_answer(); `out` has a part then. */
BELFRY_NODISCARD enum belfry_err range_answer_rest(struct range_source *source,
                                                   const struct belfry_wire_range_request *request,
                                                   struct belfry_buf *out, struct store_page *page);

struct range_answer {
    int64_t revision; /* of the store, as the response's header says it */
    uint64_t past;    /* of which it is */
};

/* Appends the response, a whole RangeResponse behind gRPC's prefix, to `out`, which is empty. The header's revision is
 * the store's; `upstream` says the rest of it.
 * Errors: BELFRY_ERR_AGAIN (the request's revision is above the store's), BELFRY_ERR_COMPACTED (below the window, or
 * too far from what is there), BELFRY_ERR_TOO_LARGE (RANGE_ANSWER_PIECE, _BYTES or _WALK), BELFRY_ERR_UNSUPPORTED (how
 * upstream would answer is not known), BELFRY_ERR_IO, BELFRY_ERR_NOMEM.
 * After an error `out` is empty. */
BELFRY_NODISCARD enum belfry_err range_answer(struct store *store, const struct belfry_wire_range_request *request,
                                              const struct range_upstream *upstream, struct belfry_buf *out,
                                              struct range_answer *answer);

#endif
