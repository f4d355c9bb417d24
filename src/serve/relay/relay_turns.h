/* src/serve/relay/relay_turns.h
 *
 * relay_turns: which calls are with upstream at a time, when there are very many.
 *
 * There is a number of places. While one is free a call gets it immediately. When none is, or when its client has half
 * of them, it waits, and clients take turns (rights/lanes.h). So a client that asks for more than upstream can
 * answer, or that does not read its answers, holds up itself and not the others.
 *
 * Thread: owner. Pure.
 * Memory: fixed; calls embed their turn.
 */
#ifndef BELFRY_SERVE_RELAY_RELAY_TURNS_H
#define BELFRY_SERVE_RELAY_RELAY_TURNS_H

#include "base/err.h"
#include "serve/rights/lanes.h"

struct relay_turns {
    struct lanes lanes;
    struct belfry_hash_key key;
    size_t places, held;
};

struct relay_turn {
    struct belfry_list node; /* while it waits, in its lane */
    struct lanes_source source;
    struct lane *lane; /* from relay_turn_take() on */
    bool held;
};

void relay_turns_init(struct relay_turns *turns, size_t places, struct belfry_hash_key key);

void relay_turn_init(struct relay_turn *turn, struct lanes_source source);

/* True: it has a place. False: it waits for relay_turns_next(). */
BELFRY_NODISCARD bool relay_turn_take(struct relay_turns *turns, struct relay_turn *turn);

/* Gives its place back, if it has one; it waits no more. True: somebody may be next. */
bool relay_turn_end(struct relay_turns *turns, struct relay_turn *turn);

/* The next one, which has a place now; NULL: none waits that may have one. */
struct relay_turn *relay_turns_next(struct relay_turns *turns);

#endif
