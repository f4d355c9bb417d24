/* src/serve/reads/read_rights.h
 *
 * read_rights: may a client read everything that its request names? One answer for all ranges of a Txn, in both of its
 * branches: as etcd, which answers none of it to a client that may not read all.
 *
 * Thread: owner (the worker's). The answer never comes from inside read_rights_ask().
 * Memory: a question for each range, of READ_RIGHTS_MAX at most.
 */
#ifndef BELFRY_SERVE_READS_READ_RIGHTS_H
#define BELFRY_SERVE_READS_READ_RIGHTS_H

#include "serve/reads/read_request.h"
#include "serve/rights/permit.h"

#define READ_RIGHTS_MAX 32 /* ranges that differ, of one request */

struct read_rights;

/* Asks once; `request` is lent for the call. fn: as permit_ask() has it; all is gone when it returns.
 * Errors: BELFRY_ERR_LIMIT (too many ranges, or none, which needs a user all the same; or too many questions wait),
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err read_rights_ask(struct permit *permit, const struct identity *who,
                                                 const struct read_request *request, uint64_t now_ms, permit_fn fn,
                                                 void *user, struct read_rights **out);
void read_rights_cancel(struct read_rights *rights); /* no answer will come; NULL is fine */

#endif
