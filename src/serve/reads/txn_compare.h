/* src/serve/reads/txn_compare.h
 *
 * txn_compare: does a comparison of a Txn hold?
 *
 * As in etcd: one over a range holds if it holds for every key of it. Where there is no key, version, revisions and
 * lease are 0, but no comparison of a value holds.
 *
 * Thread: any. Pure, given a store.
 */
#ifndef BELFRY_SERVE_READS_TXN_COMPARE_H
#define BELFRY_SERVE_READS_TXN_COMPARE_H

#include "serve/reads/range_answer.h"
#include "wire/scan.h"

/* Reads the store as it is now. Each key but the first takes one from source->walk. Errors: BELFRY_ERR_TOO_LARGE (there
 * are more), BELFRY_ERR_IO, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err txn_compare(struct range_source *source, const struct belfry_wire_compare *compare,
                                             bool *holds);

#endif
