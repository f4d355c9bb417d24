/* src/serve/relay/relay_room.h
 *
 * relay_room: the bytes that relayed calls hold, and the call that ends when there is no room for more.
 *
 * What a call holds counts to its client as SHARES_CALL_BYTES (shares.h). When there is no room, or when more than half
 * of all bytes are responses, the call of the same client that has read nothing for longest makes room: then most bytes
 * wait for clients that do not read, and no sender is to blame.
 *
 * Thread: owner. Pure.
 * Memory: fixed; calls embed their holding. RELAY_ROOM_LOOK calls at most are looked at to find the slowest.
 */
#ifndef BELFRY_SERVE_RELAY_RELAY_ROOM_H
#define BELFRY_SERVE_RELAY_RELAY_ROOM_H

#include <stdbool.h>

#include "base/list.h"
#include "server/shares.h"

#define RELAY_ROOM_LOOK 1024

struct relay_room {
    size_t held, held_peak;  /* bytes of all calls: now, and the most since the beginning */
    size_t held_down;        /* of `held`: responses */
    struct belfry_list slow; /* calls whose client is behind; first the one that has taken nothing for longest */
};

/* What one call holds. */
struct relay_holding {
    struct relay_room *room;
    struct shares_conn *share; /* its connection's; lent */
    size_t held, held_down;
    struct belfry_list slow; /* while a response waits */
};

void relay_room_init(struct relay_room *room);

void relay_holding_init(struct relay_holding *holding, struct relay_room *room, struct shares_conn *share);
void relay_holding_end(struct relay_holding *holding); /* it holds nothing, and is no longer known */

/* It holds this much now. `waits`: bytes of its response wait for the client. */
void relay_holding_set(struct relay_holding *holding, size_t request, size_t response, bool waits);

/* Its client has read something: all others are slower. */
void relay_holding_progress(struct relay_holding *holding);

/* True: it may hold `n` more bytes. False: *out_slow must end, and then ask again; NULL: there is no room. */
bool relay_holding_has_room(const struct relay_holding *holding, size_t n, struct relay_holding **out_slow);

/* Makes room for `n` more bytes, if necessary by ending slower calls of the same client. `end` ends such a call, and
 * its holding with it. False: there is no room, and this call must end. */
BELFRY_NODISCARD bool relay_holding_make_room(struct relay_holding *holding, size_t n,
                                              void (*end)(struct relay_holding *slow));

#endif
