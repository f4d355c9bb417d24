/* src/server/intake.h
 *
 * intake: the memory that each connection of one loop holds for requests that are not whole, and which connection is
 * ended when a pool is full.
 *
 * A request is whole when its end was received. A stream of messages is whole between messages, from its first whole
 * message on. Memory kept for any other request counts here, as a share of its connection. A well-behaved connection (a
 * tier below, a client with a thousand watches) therefore has a share near 0, however much it uses.
 *
 * When a pool has no room, the connection with the largest share is ended, never the request that needs room. If no
 * share reaches INTAKE_LEAST nothing is ended: the pool is full of legitimate use, and its owner refuses the request.
 * The share of a connection that is ending counts as free immediately; its memory is freed within a turn of the loop.
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

#define INTAKE_LEAST (256 * 1024) /* a connection with a smaller share is never ended: 4 x EXCHANGE_WINDOW */

struct intake_conn;

struct intake {
    /* Ends the connection: it takes no more input, and its exchanges end soon, but not from inside this call. */
    void (*end)(struct intake_conn *conn, void *user);
    void *user;
    struct belfry_list conns; /* of intake_conn.node: those that have a share and are not ending */
    size_t leaving;           /* the shares of those that are ending */
    uint64_t ended;           /* connections, ever */
};

/* A connection's share; embedded in exchange_conn. All zero: it is not counted, and never ended. */
struct intake_conn {
    struct intake *intake;
    struct belfry_list node;
    size_t bytes;
    bool ending;
};

void intake_init(struct intake *intake, void (*end)(struct intake_conn *conn, void *user), void *user);

void intake_join(struct intake *intake, struct intake_conn *conn);
/* The connection is closing for another reason: its share counts as free. */
void intake_leave(struct intake_conn *conn);

/* A part of the share changed from `before` to `after` bytes. */
void intake_count(struct intake_conn *conn, size_t before, size_t after);

/* Are `used` bytes within the bound `max` of a pool? If not, connections are ended until they are. `asker` is the
 * connection that needs room, NULL: a new one. False: there is no room, because the asker has the largest share, and is
 * ending now, or because no share reaches INTAKE_LEAST. */
bool intake_has_room(struct intake *intake, struct intake_conn *asker, size_t used, size_t max);

#endif
