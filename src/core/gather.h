/* src/core/gather.h
 *
 * gather: the nodes of the interest index that want a batch, each with its events. The answer is kept until the index
 * or the question changes, so a thousand streams that receive the same batch look it up once.
 *
 * Thread: the worker's.
 * Memory: at most GATHER_PAIRS_MAX pairs of (event, node) per batch.
 */
#ifndef BELFRY_CORE_GATHER_H
#define BELFRY_CORE_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/interest.h"
#include "core/response.h"
#include "core/turn.h"

#define GATHER_PAIRS_MAX (256 * 1024) /* a batch with more is processed in slices, as an extent is */

struct gather_group {
    struct interest_node *node;
    uint32_t first, n; /* its events: picks[first, first + n) */
    uint32_t order;    /* of appearance */
};

struct gather {
    /* fixed at creation, lent */
    struct turn *turn;
    struct interest *interest;
    lines_attribute_fn attribute;
    void *attribute_user;
    /* the answer; rev 0: none */
    int64_t rev;
    unsigned population;
    uint64_t generation; /* of the interest index */
    bool too_large;
    struct gather_group *groups;
    size_t n_groups;
    uint32_t *picks; /* numbers of events, ascending in each group */
    /* storage */
    size_t cap_groups, cap_picks, n_pairs, cap_pairs;
    struct gather_pair *pairs;
};

void gather_init(struct gather *gather, struct turn *turn, struct interest *interest, lines_attribute_fn attribute,
                 void *attribute_user);
void gather_fini(struct gather *gather);
void gather_forget(struct gather *gather); /* another past: equal revisions are other batches */

/* Finds the nodes with watchers in `population` that want the batch. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_TOO_LARGE
 * (more than GATHER_PAIRS_MAX: process it as an extent). */
BELFRY_NODISCARD enum belfry_err gather_batch(struct gather *gather, const struct batch *batch, unsigned population);

/* The same for one event of a batch or slice; the array is the index's, good until the next call. Errors:
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err gather_event(struct gather *gather, const struct batch *batch, uint32_t event,
                                              unsigned population, struct interest_node ***nodes, size_t *n);

size_t gather_bytes(const struct gather *gather);

/* The events of a group, as a response wants them. */
static inline struct response_pick gather_pick(const struct gather *gather, const struct batch *batch,
                                               const struct gather_group *group)
{
    return (struct response_pick){.batch = batch, .events = gather->picks + group->first, .n = group->n};
}

#endif
