/* src/serve/rights/rights_request.h
 *
 * rights_request: a question about rights as it travels: from a tier to etcd, or to the tier above, which answers it
 * itself (inquiry.h).
 *
 *     KV/Range   key, range_end, revision 9223372036854775807                     one range
 *     KV/Txn     a list of such Ranges, without comparisons                       several
 *
 *     belfry-rights: 4000          of the request: it is such a question, and its answer may be 4000 ms old
 *     belfry-rights-age: 1200      of the answer 11: etcd was asked 1200 ms before the question came, or later
 *
 * The age is counted from when the question came, not from when the answer was sent, because the tier below counts from
 * when it sent the question: the time for which it waited for the answer must not count twice. If etcd was asked after
 * the question came, the age is 0.
 *
 * etcd ignores the first field and sends no second one: its answers have no age. A tier without inquiry.h relays both.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_RIGHTS_RIGHTS_REQUEST_H
#define BELFRY_SERVE_RIGHTS_RIGHTS_REQUEST_H

#include "base/buf.h"
#include "serve/rights/rights.h"

#define RIGHTS_REQUEST_FIELD  "belfry-rights"
#define RIGHTS_REQUEST_AGE    "belfry-rights-age"
#define RIGHTS_REQUEST_MS_MAX 1000000000 /* that a field may say: eleven days */
#define RIGHTS_REQUEST_MS     11         /* bytes of the largest, with NUL */

/* The answer of etcd to a token that may read all ranges, with code 11. */
#define RIGHTS_REQUEST_ALLOWED "etcdserver: mvcc: required revision is a future revision"

/* The method for a question of so many ranges. */
const char *rights_request_path(size_t n_ranges);

/* Writes the message. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err rights_request_write(struct belfry_buf *buf, const struct rights_question *question);

/* Reads a message of that method: the ranges, lent. Errors: BELFRY_ERR_PROTOCOL (it is not byte for byte what is
 * written above for up to RIGHTS_BATCH ranges, so it may ask for something else), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err rights_request_read(struct belfry_bytes path, struct belfry_bytes message,
                                                     struct rights_range out[RIGHTS_BATCH], size_t *out_n);

/* The value of either field: digits alone, at most RIGHTS_REQUEST_MS_MAX. False: it is not. */
bool rights_request_read_ms(struct belfry_bytes value, uint64_t *out_ms);

/* Writes it, ends it with NUL and returns it as bytes; larger values become RIGHTS_REQUEST_MS_MAX. */
struct belfry_bytes rights_request_write_ms(uint64_t ms, char out[RIGHTS_REQUEST_MS]);

#endif
