/* src/server/inbound_round.c */
#include "server/inbound_round.h"

#include <assert.h>

void inbound_round_init(struct inbound_round *round)
{
    *round = (struct inbound_round){0};
    belfry_list_init(&round->members);
}

void inbound_round_join(struct inbound_round *round, struct belfry_list *member)
{
    belfry_list_append(&round->members, member);
    round->n++;
}

void inbound_round_leave(struct inbound_round *round, struct belfry_list *member)
{
    if (belfry_list_empty(member))
        return;
    belfry_list_remove(member);
    round->n--;
    if (round->n_due > round->n)
        round->n_due = round->n;
}

void inbound_round_pass(struct inbound_round *round, uint64_t passed_ms, uint64_t all_ms)
{
    round->n_due += (round->n * passed_ms + all_ms - 1) / all_ms;
    if (round->n_due > round->n)
        round->n_due = round->n;
}

bool inbound_round_is_due(const struct inbound_round *round)
{
    return round->n_due > 0;
}

struct belfry_list *inbound_round_next(struct inbound_round *round)
{
    assert(round->n_due > 0);
    struct belfry_list *member = round->members.next;
    belfry_list_remove(member);
    belfry_list_append(&round->members, member);
    round->n_due--;
    return member;
}
