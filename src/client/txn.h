/* src/client/txn.h: a transaction as bytes. Thread: owner. */
#ifndef BELFRY_CLIENT_TXN_H
#define BELFRY_CLIENT_TXN_H

#include <belfry/belfry.h>
#include <stdbool.h>

#include "base/bytes.h"

/* The TxnRequest built so far, lent. Errors: the first error of its steps. */
BELFRY_NODISCARD enum belfry_err belfry_txn_request(const struct belfry_txn *txn, struct belfry_bytes *out);

/* Whether a step writes or is a linearizable get. Without such a step, the transaction is a serializable read. */
bool belfry_txn_needs_leader(const struct belfry_txn *txn);

/* What it was, in a sentence; NULL: belfry_strerror() says it all. */
const char *belfry_txn_why(const struct belfry_txn *txn);

#endif
