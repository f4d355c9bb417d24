/* src/serve/rights/review_users.h
 *
 * review_users: whose token is this, as upstream said lately? A table of the answers to TokenReviews. A token that is
 * nobody's is kept for REVIEW_BAD_MS, so that a flood of one wrong token costs one review.
 *
 * The caller decides how old an answer may be. Tokens are kept as a SHA-256.
 *
 * Thread: owner. Pure: the time is put in.
 * Memory: about 150 bytes per token and the user's text. At bytes_max the oldest goes.
 */
#ifndef BELFRY_SERVE_RIGHTS_REVIEW_USERS_H
#define BELFRY_SERVE_RIGHTS_REVIEW_USERS_H

#include <stdbool.h>

#include "serve/rights/review_text.h"

#define REVIEW_BAD_MS 1000

struct review_users;

BELFRY_NODISCARD enum belfry_err review_users_create(uint64_t period_ms, size_t bytes_max, struct review_users **out);
void review_users_destroy(struct review_users *users); /* NULL is fine */

/* Upstream was asked at since_ms, or later. `user` NULL: the token is nobody's. Answers older than a period are dropped
 * at this occasion. Without memory nothing is kept. */
void review_users_keep(struct review_users *users, struct belfry_bytes token, const struct review_user *user,
                       uint64_t since_ms, uint64_t now_ms);

struct review_known {
    bool is_bad;              /* the token is nobody's */
    struct belfry_bytes spec; /* as review_user has them; lent until the next call */
    struct belfry_bytes name;
    uint64_t since_ms;
};

/* Is an answer known that is at most within_ms old? */
bool review_users_find(const struct review_users *users, struct belfry_bytes token, uint64_t within_ms, uint64_t now_ms,
                       struct review_known *out);

size_t review_users_count(const struct review_users *users);
size_t review_users_bytes(const struct review_users *users);

#endif
