/* src/serve/rights/reviews.h
 *
 * reviews: asks Kubernetes what a client may read (asker.h): a TokenReview says who the client is, and a
 * SubjectAccessReview for each subject (review_subject.h) says whether it may. Both are sent with the tier's own
 * credential, which needs the ClusterRole system:auth-delegator.
 *
 *     the user is known, and young enough?  --no--> TokenReview --nobody--> no such token
 *        |yes                                            |
 *        v                                               v
 *     for each subject: allowed without its selectors? --no--> and with them? --no--> forbidden
 *
 * A selector only narrows a request. So a user who may read without it may read with it, and all watches of one user on
 * one resource share one review, however many selectors they have. Only a user who is refused without it is asked about
 * with it, such as a node's agent, who may read the pods of its own node. An API server before 1.31 ignores selectors
 * in a review, and refuses both.
 *
 * An answer is from the time of the oldest review that it depends on. Only an answer of upstream allows anything: an
 * error, a strange answer or none at all is RIGHTS_UNREACHABLE, and the next server is asked first.
 *
 * At most REVIEWS_UNDER_WAY reviews are under way at once, and half of them are of new clients, so that a crowd does
 * not exceed the number of requests that an API server takes, and does not keep running watches waiting. Renewals go
 * first. Calls take turns.
 *
 * Thread: owner (the loop's).
 */
#ifndef BELFRY_SERVE_RIGHTS_REVIEWS_H
#define BELFRY_SERVE_RIGHTS_REVIEWS_H

#include "serve/rights/answers.h"
#include "serve/rights/asker.h"
#include "serve/uplink/own_token.h"
#include "serve/uplink/uplink.h"

#define REVIEWS_UNDER_WAY   128
#define REVIEWS_FIRST       64                 /* of them that clients without an answer may take */
#define REVIEWS_OF_CALL     8                  /* of one question, at once */
#define REVIEWS_USERS_BYTES (16 * 1024 * 1024) /* of users that are known */

struct reviews;

struct reviews_opts {
    struct uplink *uplink; /* to the API servers; outlives it, as do: */
    uv_loop_t *loop;
    struct own_token *own_token;
    struct answers *answers; /* of all workers, those that permit has. NULL: none */
    size_t n_members;        /* endpoints of the uplink; 0: one */
    uint64_t period_ms;      /* that of permit */
    const struct belfry_log *log;
};

BELFRY_NODISCARD enum belfry_err reviews_create(const struct reviews_opts *opts, struct reviews **out);
void reviews_destroy(struct reviews *reviews); /* after its permit; NULL is fine */

struct asker *reviews_asker(struct reviews *reviews); /* for permit_opts.asker */

struct reviews_stats {
    uint64_t token_reviews, access_reviews; /* sent */
    uint64_t bad_tokens, forbidden;         /* answers */
    uint64_t failed;                        /* no answer, or not one that says anything */
    size_t under_way, users;
};
void reviews_stats(const struct reviews *reviews, struct reviews_stats *out);

#endif
