/* src/client/keeper.h
 *
 * keeper: when a kept lease is asked for, renewed and given up. Time and answers in, requests and events out.
 *
 *     ASKING --granted--------------------------------> HELD --not renewed in time, or the server says it is gone--> OVER
 *       | |                                             ^  |
 *       | `--"exists"--> FINDING --renewed: it is ours--'  `--renewed, or a renewal failed: it stays
 *       |                   |
 *       `-- failed ---------'-----------------------------------------------------------------------------------> OVER
 *
 * The id is ours, 63 random bits, so a grant may be sent again when its answer was lost: a server that has the lease
 * already has it from us, and a renewal then tells how long it lives.
 *
 * A lease is ours for its ttl counted from the moment at which the renewal that succeeded was handed to the network, by
 * our clock: the server began to count later. Clocks may differ in speed by one part in a thousand.
 *
 * One request is under way at a time. A failed renewal is repeated soon, for as long as the lease may still be there.
 *
 * Thread: owner. Pure. Memory: none.
 */
#ifndef BELFRY_CLIENT_KEEPER_H
#define BELFRY_CLIENT_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include <belfry/lease.h>

#include "base/backoff.h"
#include "base/clock.h"

#define BELFRY_KEEPER_WHY 512

enum belfry_keeper_state { BELFRY_KEEPER_ASKING, BELFRY_KEEPER_FINDING, BELFRY_KEEPER_HELD, BELFRY_KEEPER_OVER };

enum belfry_keeper_send { BELFRY_KEEPER_NONE, BELFRY_KEEPER_GRANT, BELFRY_KEEPER_RENEW };

struct belfry_keeper {
    /* fixed */
    int64_t id;
    uint64_t patience_ms; /* for one request, all its tries together */
    /* moved by turn and answer */
    enum belfry_keeper_state state;
    int64_t ttl_s;        /* asked for; from HELD on as the server granted it */
    uint64_t sent_ms;     /* of the request under way; BELFRY_NEVER: none is */
    uint64_t next_ms;     /* when to send the next */
    uint64_t deadline_ms; /* HELD: certainly ours before it */
    bool gone;            /* the server said so */
    struct belfry_backoff backoff;
    struct belfry_rng rng;
    char why[BELFRY_KEEPER_WHY]; /* what went wrong last */
};

/* What is to be done: at most one request, then at most one event. */
struct belfry_keeper_step {
    enum belfry_keeper_send send;
    uint64_t wait_ms;                /* GRANT, RENEW: how long an answer is of use */
    struct belfry_lease_event event; /* .kind 0: none; END: whatever is under way is of no use any more. .why is lent
                                      * from the keeper */
};

/* What came of the request under way. */
struct belfry_keeper_answer {
    enum belfry_err err;
    const char *why; /* err set */
    bool exists;     /* of a grant that was refused: because the lease is there */
    int64_t ttl_s;   /* of a renewal 0 or less, or BELFRY_ERR_NOT_FOUND: the server does not have it */
};

/* `ttl_s` is at least 1. The first turn sends the grant. */
void belfry_keeper_init(struct belfry_keeper *k, int64_t id, int64_t ttl_s, uint64_t patience_ms, uint64_t seed);

/* Time has passed. */
struct belfry_keeper_step belfry_keeper_turn(struct belfry_keeper *k, uint64_t now_ms);

/* The request under way has its answer; one that could not even be started has one, too. */
struct belfry_keeper_step belfry_keeper_answer(struct belfry_keeper *k, const struct belfry_keeper_answer *answer,
                                               uint64_t now_ms);

/* When to call turn though nothing happened. */
uint64_t belfry_keeper_due(const struct belfry_keeper *k);

uint64_t belfry_keeper_left_ms(const struct belfry_keeper *k, uint64_t now_ms); /* 0: it may be gone, or is not had */

/* Is there anything at the server that a revocation could end? */
bool belfry_keeper_may_exist(const struct belfry_keeper *k);

#endif
