/* src/serve/relay/relay_room.c */
#include "serve/relay/relay_room.h"

void relay_room_init(struct relay_room *room)
{
    *room = (struct relay_room){0};
    belfry_list_init(&room->slow);
}

void relay_holding_init(struct relay_holding *holding, struct relay_room *room, struct shares_conn *share)
{
    *holding = (struct relay_holding){.room = room, .share = share};
    belfry_list_init(&holding->slow);
}

void relay_holding_end(struct relay_holding *holding)
{
    relay_holding_set(holding, 0, 0, false);
}

void relay_holding_set(struct relay_holding *holding, size_t request, size_t response, bool waits)
{
    struct relay_room *room = holding->room;
    size_t held = request + response;
    room->held = room->held - holding->held + held;
    room->held_down = room->held_down - holding->held_down + response;
    if (room->held > room->held_peak)
        room->held_peak = room->held;
    shares_count(holding->share, SHARES_CALL_BYTES, holding->held, held);
    holding->held = held;
    holding->held_down = response;
    if (!waits)
        belfry_list_remove(&holding->slow);
    else if (belfry_list_empty(&holding->slow))
        belfry_list_append(&room->slow, &holding->slow);
}

void relay_holding_progress(struct relay_holding *holding)
{
    if (belfry_list_empty(&holding->slow))
        return;
    belfry_list_remove(&holding->slow);
    belfry_list_append(&holding->room->slow, &holding->slow);
}

/* Of the same client; NULL: there is none among the first. */
static struct relay_holding *slowest_beside(const struct relay_holding *holding)
{
    size_t n = 0;
    belfry_list_each (node, &holding->room->slow) {
        struct relay_holding *other = belfry_container(node, struct relay_holding, slow);
        if (shares_same_client(other->share, holding->share))
            return other;
        if (++n == RELAY_ROOM_LOOK)
            break;
    }
    return NULL;
}

bool relay_holding_has_room(const struct relay_holding *holding, size_t n, struct relay_holding **out_slow)
{
    const struct relay_room *room = holding->room;
    *out_slow = NULL;
    if (shares_has(holding->share, SHARES_CALL_BYTES, n))
        return true;
    bool is_full_of_responses = room->held_down > room->held / 2;
    if (!is_full_of_responses && shares_make_room(holding->share, SHARES_CALL_BYTES, n))
        return true;
    struct relay_holding *slowest = slowest_beside(holding);
    if (slowest == NULL)
        return shares_make_room(holding->share, SHARES_CALL_BYTES, n);
    if (slowest != holding && !holding->share->ending)
        *out_slow = slowest;
    return false;
}

bool relay_holding_make_room(struct relay_holding *holding, size_t n, void (*end)(struct relay_holding *slow))
{
    struct relay_holding *slow;
    while (!relay_holding_has_room(holding, n, &slow)) {
        if (slow == NULL)
            return false;
        end(slow);
    }
    return true;
}
