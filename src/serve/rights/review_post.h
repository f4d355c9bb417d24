/* src/serve/rights/review_post.h
 *
 * review_post: one review on its way to the API server, by the tier's own credential, and its answer.
 *
 * Thread: owner (the loop's). The answer comes from the loop, never from inside review_post_open().
 * Memory: the question, and REVIEW_ANSWER_MAX bytes of the answer; a longer one is no answer.
 */
#ifndef BELFRY_SERVE_RIGHTS_REVIEW_POST_H
#define BELFRY_SERVE_RIGHTS_REVIEW_POST_H

#include "serve/uplink/uplink.h"

#define REVIEW_ANSWER_MAX (256 * 1024)

struct review_post;

struct review_post_answer {
    int status;               /* of HTTP; 0: no answer came */
    struct belfry_bytes body; /* this and the next are lent */
    const char *why;          /* status 0 */
};

/* The post is gone when it returns. */
typedef void (*review_post_fn)(const struct review_post_answer *answer, void *user);

struct review_post_opts {
    struct uplink *uplink;
    unsigned pin;                      /* as uplink_open() takes it */
    struct belfry_bytes authorization; /* {NULL, 0}: none */
    const char *path;
    struct belfry_buf *body; /* taken over: it is empty afterwards, whatever is returned */
    review_post_fn fn;
    void *user;
};

/* Errors: as uplink_open(). */
BELFRY_NODISCARD enum belfry_err review_post_open(const struct review_post_opts *opts, struct review_post **out);
void review_post_cancel(struct review_post *post); /* no answer will come; NULL is fine */

#endif
