/* src/server/inbound_round.h
 *
 * inbound_round: a list that is gone round once in a given time, so that the work is spread over it. As time passes,
 * so many members become due, those first whose last turn is longest ago.
 *
 * Thread: owner. Pure; the time is given.
 * Memory: none of its own; members embed their node.
 */
#ifndef BELFRY_SERVER_INBOUND_ROUND_H
#define BELFRY_SERVER_INBOUND_ROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct inbound_round {
    struct belfry_list members; /* the next whose turn it is first */
    size_t n, n_due;            /* members; how many of them are due now */
};

void inbound_round_init(struct inbound_round *round);

void inbound_round_join(struct inbound_round *round, struct belfry_list *member);
void inbound_round_leave(struct inbound_round *round, struct belfry_list *member); /* one that has not joined is fine */

/* So much time has passed, of `all_ms` for all members. Members that were due before and have had no turn stay due. */
void inbound_round_pass(struct inbound_round *round, uint64_t passed_ms, uint64_t all_ms);

/* Is any member due? */
bool inbound_round_is_due(const struct inbound_round *round);

/* The next member that is due; its turn comes again after all others. Only while inbound_round_is_due(). */
struct belfry_list *inbound_round_next(struct inbound_round *round);

#endif
