/* src/serve/rights/inquiry.h
 *
 * inquiry: the question of a tier below what a client of its own may read (rights_request.h), answered by this tier's
 * permit. Equal questions share one call upstream, however many tiers below ask them, and so do this tier's own.
 *
 * The answers are etcd's, with their codes and messages:
 *
 *     11 future revision                      the token may read all ranges; with the age of the answer
 *     7                                       it may not read one of them
 *     16 invalid auth token, 3 revision of auth store is old, 3 user name is empty
 *     14                                      upstream cannot be asked
 *     4                                       upstream does not answer for this token, though it answers others
 *
 * A question of several ranges may receive 7 although all are allowed, if the same token was asked about with a range
 * that is not. The tier below then asks for fewer, as it does after any 7.
 *
 * Anyone may send such a question with a token. The answer says no more than etcd's own, and costs upstream no more. An
 * open listener (listen_policy.h) grants nothing here: the clients of a tier below have the rights of their tokens, and
 * what its listeners add.
 *
 * Thread: owner (the loop's). The answer comes from the loop, never from inside inquiry_open().
 * Memory: about 400 bytes per range, for at most INQUIRY_RANGES ranges; permit.h bounds the rest.
 */
#ifndef BELFRY_SERVE_RIGHTS_INQUIRY_H
#define BELFRY_SERVE_RIGHTS_INQUIRY_H

#include "serve/rights/permit.h"

#define INQUIRY_BYTES  (60 * 1024) /* of a request's body; a longer one is no question */
#define INQUIRY_RANGES 4096        /* that wait for answers at once */

/* Where questions wait. Zeroed, but for the permit, which outlives it. */
struct inquiries {
    struct permit *permit;
    size_t n_ranges;
};

struct inquiry;

/* By its head, may a request be such a question? *out_within_ms: how old the answer may be. */
bool inquiry_is(const struct exchange_head *head, const struct identity *who, uint64_t *out_within_ms);

struct inquiry_answer {
    int code; /* gRPC's */
    const char *message;
    uint64_t age_ms; /* of 11: the age that the answer had when the question came */
};

/* `answer` is lent. The inquiry is gone when it returns. */
typedef void (*inquiry_fn)(const struct inquiry_answer *answer, void *user);

struct inquiry_request {
    const struct identity *who;
    struct belfry_bytes path, body; /* body: with gRPC's prefix */
    uint64_t within_ms;
};

/* Everything is copied. Errors: BELFRY_ERR_PROTOCOL (it is no such question), BELFRY_ERR_LIMIT, BELFRY_ERR_NOMEM: after
 * each the request can be relayed. */
BELFRY_NODISCARD enum belfry_err inquiry_open(struct inquiries *all, const struct inquiry_request *request,
                                              uint64_t now_ms, inquiry_fn fn, void *user, struct inquiry **out);
void inquiry_cancel(struct inquiry *inquiry); /* no answer will come; NULL is fine */

#endif
