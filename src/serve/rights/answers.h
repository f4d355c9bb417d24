/* src/serve/rights/answers.h
 *
 * answers: what upstream has allowed, for all workers of a tier. Each worker has a table of its own (rights.h) and asks
 * for itself, but first looks here whether another worker has received an answer that is young enough. So a token whose
 * clients are spread over many workers costs upstream one call for the same ranges, not one per worker.
 *
 * Only "allowed" is kept: the token and the range as a SHA-256, and the time from which the answer is. What an answer
 * is worth, each worker's table decides by its age.
 *
 * Thread: any. One mutex, held for the ranges of one question.
 * Memory: about 100 bytes per answer, at most ANSWERS_MAX; then the oldest goes.
 */
#ifndef BELFRY_SERVE_RIGHTS_ANSWERS_H
#define BELFRY_SERVE_RIGHTS_ANSWERS_H

#include "serve/rights/rights.h"

#define ANSWERS_MAX (256 * 1024)

struct answers;

/* Answers that are older than period_ms are dropped. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err answers_create(uint64_t period_ms, struct answers **out);
void answers_destroy(struct answers *answers); /* NULL is fine */

/* All ranges of the question are allowed, as etcd said at since_ms or later. Without memory nothing is kept. */
void answers_keep(struct answers *answers, const struct rights_question *question, uint64_t since_ms, uint64_t now_ms);

/* Are all its ranges known to be allowed, by answers that are at most question->within_ms old? *out_since_ms: the time
 * of the oldest. */
bool answers_find(struct answers *answers, const struct rights_question *question, uint64_t now_ms,
                  uint64_t *out_since_ms);

/* The same for one range. */
void answers_keep_one(struct answers *answers, const struct rights_who *who, const struct rights_range *range,
                      uint64_t since_ms, uint64_t now_ms);
bool answers_find_one(struct answers *answers, const struct rights_who *who, const struct rights_range *range,
                      uint64_t within_ms, uint64_t now_ms, uint64_t *out_since_ms);

size_t answers_count(struct answers *answers);

#endif
