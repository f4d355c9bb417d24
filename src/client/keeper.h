/* src/client/keeper.h
 *
 * keeper: decides when a kept lease is requested, renewed and given up. Time and answers in, requests and events out.
 *
 *     ASKING --granted--------------------------------> HELD --not renewed in time, or the server has lost it----> OVER
 *       | |                                             ^  |
 *       | `--"exists"--> FINDING --renewed: it is ours--'  `--renewed, or a renewal failed: it stays
 *       |                   |
 *       `-- failed ---------'----------------------------------------------------------------------------------> OVER
 *
 * We choose the id, 63 random bits, so a grant may be sent again if its answer was lost: a server that already has the
 * lease has it from us, and a renewal then tells its remaining time.
 *
 * A lease is ours for its TTL, counted by our clock from the moment when the successful renewal was handed to the
 * network: the server began to count later. Clocks may differ in speed by one part in a thousand.
 *
 * One request is in progress at a time. A failed renewal is repeated soon, as long as the lease may still exist.
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
    uint64_t patience_ms; /* for one request, including its retries */
    /* moved by turn and answer */
    enum belfry_keeper_state state;
    int64_t ttl_s;        /* as requested; from HELD on as granted */
    uint64_t sent_ms;     /* of the current request; BELFRY_NEVER: none */
    uint64_t next_ms;     /* when to send the next */
    uint64_t deadline_ms; /* HELD: certainly ours until then */
    bool gone;            /* the server said so */
    struct belfry_backoff backoff;
    struct belfry_rng rng;
    char why[BELFRY_KEEPER_WHY]; /* the last failure */
};

/* The next action: at most one request, then at most one event. */
struct belfry_keeper_step {
    enum belfry_keeper_send send;
    uint64_t wait_ms;                /* GRANT, RENEW: how long an answer is useful */
    struct belfry_lease_event event; /* .kind 0: none; END: any current request is useless. .why points
                                      * into the keeper */
};

/* The result of the current request. */
struct belfry_keeper_answer {
    enum belfry_err err;
    const char *why; /* err set */
    bool exists;     /* of a rejected grant: the lease already exists */
    int64_t ttl_s;   /* of a renewal, 0 or less or BELFRY_ERR_NOT_FOUND: the server does not have it */
};

/* `ttl_s` is at least 1. The first turn sends the grant. */
void belfry_keeper_init(struct belfry_keeper *k, int64_t id, int64_t ttl_s, uint64_t patience_ms, uint64_t seed);

/* Time has passed. */
struct belfry_keeper_step belfry_keeper_turn(struct belfry_keeper *k, uint64_t now_ms);

/* The current request was answered, or could not be started. */
struct belfry_keeper_step belfry_keeper_answer(struct belfry_keeper *k, const struct belfry_keeper_answer *answer,
                                               uint64_t now_ms);

/* When to call turn if nothing else happens. */
uint64_t belfry_keeper_due(const struct belfry_keeper *k);

uint64_t belfry_keeper_left_ms(const struct belfry_keeper *k, uint64_t now_ms); /* 0: expired, perhaps, or not held */

/* Whether the server may have the lease, so that a revocation is useful. */
bool belfry_keeper_may_exist(const struct belfry_keeper *k);

#endif
