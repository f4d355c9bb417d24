/* tests/support/txntext.h: a transaction as one line, read back by protobuf-c:
 *
 *     mod key > 0; value other = x | put key=v lease=31 prev-kv; get a..b limit=3 | del key
 *
 * Thread: owner. */
#ifndef BELFRY_TESTS_TXNTEXT_H
#define BELFRY_TESTS_TXNTEXT_H

#include <belfry/belfry.h>

/* Lent until the next call. Fails the cmocka test when the transaction cannot be sent. */
const char *txntext(const struct belfry_txn *txn);

#endif
