/* src/judge/judge_recency.h
 *
 * judge_recency: whether the answers of a store with revisions are as new as what was known before they were asked for.
 *
 * An answer tells the revision of the store. A linearizable read must not tell an older revision than any read or write
 * that had ended, at any client, before the read was sent. A write must tell a newer one. This holds across keys, so it
 * finds a stale answer although the key itself has not changed.
 *
 * Thread: owner. Pure: no clock, no I/O.
 * Memory: 16 bytes per answer until the call returns.
 */
#ifndef BELFRY_JUDGE_JUDGE_RECENCY_H
#define BELFRY_JUDGE_JUDGE_RECENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct judge_answer {
    int64_t call_ns, end_ns;
    int64_t rev;  /* of the answer's header */
    bool changed; /* a write that changed something, so that the revision is its own */
};

struct judge_recency_result {
    size_t n_stale;      /* answers */
    size_t stale, newer; /* if there is one: the first by its call, and an answer that had ended before with a larger
                            revision, or to a write the same */
};

/* `answers` are in any order and lent for the call. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err judge_recency(const struct judge_answer *answers, size_t n,
                                               struct judge_recency_result *out);

#endif
