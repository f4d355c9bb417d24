/* src/serve/sse/sse_state.h
 *
 * sse_state: the state of several ranges, read from the store step by step, as messages. All steps show one revision:
 * the first determines it, the others read the store as it was then. Each is a short snapshot of its own, so a client
 * that stops reading keeps no page of the store.
 *
 * Thread: any; one caller at a time.
 * Memory: a key; and the caller's buffer, which a step makes at most SSE_STATE_BYTES and one row longer.
 */
#ifndef BELFRY_SERVE_SSE_SSE_STATE_H
#define BELFRY_SERVE_SSE_SSE_STATE_H

#include "core/store.h"
#include "serve/sse/sse_ranges.h"
#include "serve/sse/sse_text.h"

#define SSE_STATE_BYTES (16 * 1024)
#define SSE_STATE_ROWS  256  /* of one step */
#define SSE_STATE_WALK  2048 /* rows of history that one step looks at */

struct sse_state {
    /* fixed */
    struct sse_ranges ranges; /* lent */
    enum sse_value value;
    /* owner */
    size_t at;              /* the range that is being read; ranges.n: all were */
    struct belfry_buf next; /* where in it; empty: at its beginning */
    int64_t rev;            /* 0: no step was made */
    uint64_t past;          /* of rev */
    uint64_t cluster_id;    /* likewise */
    uint64_t n;             /* keys so far */
};

void sse_state_init(struct sse_state *state, const struct sse_ranges *ranges, enum sse_value value);
void sse_state_fini(struct sse_state *state);

static inline bool sse_state_is_done(const struct sse_state *state)
{
    return state->at == state->ranges.n;
}

/* Reads a part, and appends its message, if it has one. Errors: BELFRY_ERR_COMPACTED (the revision has left the
 * window), BELFRY_ERR_CANCELED (the past was rewritten since the first step): begin anew. BELFRY_ERR_AGAIN (the store
 * is empty yet), BELFRY_ERR_IO, BELFRY_ERR_NOMEM. After an error `out` is as it was. */
BELFRY_NODISCARD enum belfry_err sse_state_step(struct sse_state *state, struct store *store, struct belfry_buf *out);

#endif
