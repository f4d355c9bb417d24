/* src/server/intake.h
 *
 * intake: how much each connection of one loop holds of requests that are not whole, and which connection is ended when
 * a pool is full.
 *
 * A request is whole when its end has come; a stream of messages while no message is begun, from its first whole message
 * on. Until then whatever is kept for it counts here, as a share of its connection. A connection in good order (a tier
 * below, a client with a thousand watches) therefore has a share near 0, however much it uses.
 *
 * When a pool has no room, the connection with the largest share is ended, never the request that asks for room. If no
 * share reaches INTAKE_LEAST nothing is ended: then the pool is full of good use, and its owner refuses as it always did.
 * The share of a connection that is ending counts as free at once; its memory follows within a turn of the loop.
 *
 * Thread: owner (the loop's). Pure.
 * Memory: none of its own. The largest share is looked for only while a pool is full.
 */
#ifndef BELFRY_SERVER_INTAKE_H
#define BELFRY_SERVER_INTAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

#define INTAKE_LEAST (256 * 1024) /* a smaller share is no reason to end a connection: 4 x EXCHANGE_WINDOW */

struct intake_conn;

struct intake {
    /* Ends the connection: it takes no more input, and its exchanges end soon, but not from inside. */
    void (*end)(struct intake_conn *conn, void *user);
    void *user;
    struct belfry_list conns; /* of intake_conn.node: those that have a share and are not ending */
    size_t leaving;           /* the shares of those that are ending */
    uint64_t ended;           /* connections, ever */
};

/* A connection's share; embedded in exchange_conn. All zero: nobody counts, and there is never room to be made. */
struct intake_conn {
    struct intake *intake;
    struct belfry_list node;
    size_t bytes;
    bool ending;
};

void intake_init(struct intake *intake, void (*end)(struct intake_conn *conn, void *user), void *user);

void intake_join(struct intake *intake, struct intake_conn *conn);
void intake_leave(
    struct intake_conn *conn); /* it is closing anyway: its share counts as free, and goes with its exchanges */

/* What counted as `before` counts as `after`. */
void intake_count(struct intake_conn *conn, size_t before, size_t after);

/* Is `used`, of a pool that may have `max`, within its bound? If it is not, connections are ended until it is. `asker` is
 * the connection for which room is needed, NULL: a new one. False: there is no room, either because the asker has the
 * largest share, and is ending now, or because no share reaches INTAKE_LEAST. */
bool intake_has_room(struct intake *intake, struct intake_conn *asker, size_t used, size_t max);

#endif
