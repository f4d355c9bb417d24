/* src/serve/relay/relay_turns.c */
#include "serve/relay/relay_turns.h"

#include <assert.h>

#define PART 1 /* a connection has fewer places than are free */

void relay_turns_init(struct relay_turns *turns, size_t places, struct belfry_hash_key key)
{
    turns->places = places;
    turns->held = 0;
    turns->key = key;
    lanes_init(&turns->lanes, PART);
}

void relay_turn_init(struct relay_turn *turn, struct lanes_source source)
{
    *turn = (struct relay_turn){.source = source};
    belfry_list_init(&turn->node);
}

static struct relay_turn *next_of(const struct relay_turns *turns)
{
    struct lane *lane = lanes_next(&turns->lanes, turns->places - turns->held);
    return lane == NULL ? NULL : belfry_container(lane->waiting.next, struct relay_turn, node);
}

static void turn_give(struct relay_turns *turns, struct relay_turn *turn)
{
    (void)lanes_take(&turns->lanes, turn->lane);
    lane_hold(turn->lane);
    turn->held = true;
    turns->held++;
}

bool relay_turn_take(struct relay_turns *turns, struct relay_turn *turn)
{
    assert(!turn->held && belfry_list_empty(&turn->node));
    turn->lane = lanes_of(&turns->lanes, turns->key, turn->source);
    lanes_wait(&turns->lanes, turn->lane, &turn->node);
    if (next_of(turns) != turn)
        return false;
    turn_give(turns, turn);
    return true;
}

bool relay_turn_end(struct relay_turns *turns, struct relay_turn *turn)
{
    belfry_list_remove(&turn->node);
    if (!turn->held)
        return false;
    lane_release(turn->lane);
    turn->held = false;
    turns->held--;
    return !belfry_list_empty(&turns->lanes.turns);
}

struct relay_turn *relay_turns_next(struct relay_turns *turns)
{
    struct relay_turn *turn = next_of(turns);
    if (turn != NULL)
        turn_give(turns, turn);
    return turn;
}
