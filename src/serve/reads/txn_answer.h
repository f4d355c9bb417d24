/* src/serve/reads/txn_answer.h
 *
 * txn_answer: a read-only Txn answered from the store: which branch, and the bytes of the response.
 *
 * Comparisons and Ranges see one state of the store: one view. As in etcd, the revisions of all Ranges of the branch
 * are looked at before any is read, and the other branch is not looked at. Each RangeResponse has a header with nothing
 * but the revision.
 *
 * Thread: any. Pure, given a store.
 */
#ifndef BELFRY_SERVE_READS_TXN_ANSWER_H
#define BELFRY_SERVE_READS_TXN_ANSWER_H

#include "serve/reads/range_answer.h"
#include "serve/reads/read_request.h"

#define TXN_ANSWER_OLDER 8 /* Ranges of a branch at older revisions: each may take a millisecond */

/* As range_answer(), for a Txn: a whole TxnResponse behind gRPC's prefix. RANGE_ANSWER_BYTES and _WALK are for all
 * Ranges and comparisons together. */
BELFRY_NODISCARD enum belfry_err txn_answer(struct store *store, const struct read_request *request,
                                            const struct range_upstream *upstream, struct belfry_buf *out,
                                            struct range_answer *answer);

#endif
