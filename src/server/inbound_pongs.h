/* src/server/inbound_pongs.h
 *
 * inbound_pongs: answers to PINGs that wait for company. Clients of gRPC send a PING after nearly every delivery. An
 * answer that is sent with the next delivery costs neither side a system call of its own, nor TLS a record. It waits
 * for INBOUND_PONGS_MS at most: clients measure bandwidth with such PINGs, which is of interest while bytes flow, and
 * then the next delivery is soon.
 *
 * Thread: owner (the loop's).
 * Memory: none of its own; connections embed their pong.
 */
#ifndef BELFRY_SERVER_INBOUND_PONGS_H
#define BELFRY_SERVER_INBOUND_PONGS_H

#include <uv.h>

#include "base/list.h"

#define INBOUND_PONGS_MS 50

/* The answer that a connection owes. Taken out of the list it does not wait any more. */
struct inbound_pong {
    struct belfry_list node;
    uint64_t due_ms;
};

/* It has waited long enough, and is not waiting any more. */
typedef void (*inbound_pongs_fn)(struct inbound_pong *pong);

struct inbound_pongs {
    uv_timer_t timer;
    struct belfry_list waiting; /* the first that is due first */
    inbound_pongs_fn fn;
};

void inbound_pongs_init(struct inbound_pongs *pongs, uv_loop_t *loop, inbound_pongs_fn fn);

/* Nothing is added after this. `closed` is called for its handle, whose data is `data`. */
void inbound_pongs_close(struct inbound_pongs *pongs, uv_close_cb closed, void *data);

/* One that waits already keeps its time. */
void inbound_pongs_add(struct inbound_pongs *pongs, struct inbound_pong *pong, uint64_t now_ms);

#endif
