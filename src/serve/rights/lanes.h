/* src/serve/rights/lanes.h
 *
 * lanes: fair turns for those who wait for one of a bounded number of places. Whoever comes by one connection waits in
 * one lane. Clients (server/shares.h) take turns, and in its turn the lanes of a client do: one with a hundred
 * connections has no more turns than one with a single connection.
 *
 * A lane gets a place while it has less than a part of those that are free. If that is an eighth, one lane has a ninth
 * of all places at most, and each that takes all it can leaves eight ninths of the rest to others, however long a place
 * is held: of 768 places, ten such lanes leave 230.
 *
 * The lanes of one client together get a place while they have fewer than are free: half of all at
 * most, however many connections it has.
 *
 * There are LANES of them, and room for as many clients. A client has LANES_OF_CLIENT at most, so that one with a
 * thousand connections leaves lanes to others. A connection gets a lane that nobody uses, if one of LANES_PROBED is
 * so; else it shares one of its own client's, and only if there is none of those, one of another's. Connections that
 * share a lane share its turns. One more is for those who are known to be good, whatever connection they come by.
 *
 * Thread: owner. Memory: fixed.
 */
#ifndef BELFRY_SERVE_RIGHTS_LANES_H
#define BELFRY_SERVE_RIGHTS_LANES_H

#include "base/hash.h"
#include "base/list.h"

#define LANES           1024
#define LANES_OF_CLIENT 16
#define LANES_PROBED    8

/* Where somebody comes from, as numbers; 0 for both: nowhere. */
struct lanes_source {
    uint64_t connection, client;
};

/* The lanes of one client; a few clients share it if their hashes do. */
struct lanes_client {
    struct belfry_list node;  /* of lanes.turns */
    struct belfry_list turns; /* its lanes in which somebody waits */
    size_t held;              /* places of all its lanes */
};

struct lane {
    struct belfry_list node;    /* of its client's turns; it may have become empty there */
    struct belfry_list waiting; /* the owner's nodes, which may be removed at any time */
    size_t held;                /* places */
    struct lanes_client *client;
    struct lanes_source source; /* who uses it, or has used it last: the first of those who do */
};

struct lanes {
    size_t part;              /* a lane may have fewer than one of so many free places */
    struct belfry_list turns; /* of lanes_client.node */
    struct lane all[LANES];
    struct lanes_client clients[LANES];
    struct lane known;
    struct lanes_client of_known;
};

void lanes_init(struct lanes *lanes, size_t part);

/* For somebody who begins to wait now: a lane that nobody waits in and that has no place may be another's next time.
 * The key keeps peers from choosing whose lane they share. */
struct lane *lanes_of(struct lanes *lanes, struct belfry_hash_key key, struct lanes_source source);

void lanes_wait(struct lanes *lanes, struct lane *lane, struct belfry_list *node);

/* The lane whose turn it is, when so many places are free; NULL: none waits that may have one. */
struct lane *lanes_next(const struct lanes *lanes, size_t free);

/* Takes the first that waits in the lane, which has its next turn after its client's others. The client has it after
 * all other clients. */
struct belfry_list *lanes_take(struct lanes *lanes, struct lane *lane);

/* The owner counts the places of a lane. */
void lane_hold(struct lane *lane);
void lane_release(struct lane *lane);

#endif
