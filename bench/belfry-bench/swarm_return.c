/* bench/belfry-bench/swarm_return.c: connections that the server has ended, and how they come back. The waits are
 * libbelfry's own, so that a storm of them is what a server would meet. */
#include <stdio.h>

#include "stopwatch.h"
#include "swarm_private.h"

#define FIRST_MS 50
#define MAX_MS   3000

void swarm_reconnect(struct swarm *swarm, uint64_t seed)
{
    swarm->reconnects = true;
    swarm->rng = (struct belfry_rng){seed};
    for (size_t i = 0; i < swarm->opts.n_conns; i++)
        belfry_backoff_init(&swarm->seats[i].backoff, FIRST_MS, MAX_MS);
}

static void leave(struct seat *seat)
{
    if (!seat->left)
        seat->swarm->n_left++;
    seat->left = true;
}

static void refuse(struct swarm *swarm, const char *why)
{
    swarm->refusals++;
    snprintf(swarm->refusal, sizeof(swarm->refusal), "%s", why);
}

bool swarm_lost(struct seat *seat, const char *why)
{
    struct swarm *swarm = seat->swarm;
    if (!swarm->reconnects)
        return false;
    if (seat->state == SEAT_AWAY)
        return true; /* its streams end one after the other */
    if (seat->n_created == swarm_per_seat(swarm))
        leave(seat);
    else
        refuse(swarm, why);
    swarm->n_created -= seat->n_created;
    seat->n_created = 0;
    seat->state = SEAT_AWAY;
    seat->due_ns = stopwatch_ns() + (uint64_t)belfry_backoff_next(&seat->backoff, &swarm->rng) * NS_PER_MS;
    belfry_list_append(&swarm->away, &seat->away);
    if (seat->due_ns < swarm->due_ns)
        swarm->due_ns = seat->due_ns;
    return true;
}

static void come_back(struct seat *seat)
{
    belfry_list_remove(&seat->away);
    swarm_seat_close(seat);
    swarm_seat_open(seat);
}

int swarm_tend(struct swarm *swarm)
{
    uint64_t now = stopwatch_ns();
    if (now < swarm->due_ns)
        return stopwatch_ms_until(swarm->due_ns);
    swarm->due_ns = UINT64_MAX;
    belfry_list_each_safe (node, &swarm->away) {
        struct seat *seat = belfry_container(node, struct seat, away);
        if (seat->due_ns <= now)
            come_back(seat);
        else if (seat->due_ns < swarm->due_ns)
            swarm->due_ns = seat->due_ns;
    }
    return stopwatch_ms_until(swarm->due_ns);
}

bool swarm_is_back(const struct swarm *swarm)
{
    return swarm->n_left == swarm->opts.n_conns && swarm->n_created == swarm->n_watchers;
}
