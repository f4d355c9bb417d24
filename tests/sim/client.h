/* tests/sim/client.h
 *
 * client: a user of Watch streams, not always a nice one: it watches all kinds of ranges from all kinds of starts,
 * reads slowly or not at all, cancels, goes away, and goes on elsewhere where it was. The checker hears all of it.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_CLIENT_H
#define BELFRY_SIM_CLIENT_H

#include <stdbool.h>

#include "sim/auth.h"
#include "sim/checker.h"
#include "sim/link.h"
#include "sim/sched.h"

struct client;

struct client_opts {
    struct sched *sched;
    struct checker *checker;
    struct history *history;
    unsigned number;
    void *user;
    enum checker_kind kind; /* TIER, or of streams of lines: one watch each */
    bool by_gateway;        /* TIER: its messages come as lines of JSON (gateway.h) */
    struct auth *auth;      /* NULL: the cluster has none */
    unsigned auth_user;
    bool by_name; /* it needs no token */
    /* A stream somewhere, as `who`: of lines, if *kind says so, otherwise it is told there whether it is etcd's own;
     * NULL: nobody answers now. */
    struct link *(*dial)(void *user, struct actor *client, size_t window, const struct auth_who *who,
                         enum checker_kind *kind);
};

struct client *client_create(const struct client_opts *opts);
void client_destroy(struct client *client); /* NULL is fine */

/* No more tricks: it reads what comes and stays where it is. */
void client_settle(struct client *client);

/* How many streams it has now: 0 or 1. */
bool client_connected(const struct client *client);

#endif
