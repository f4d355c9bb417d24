/* src/server/inbound_put_off.h
 *
 * inbound_put_off: connections with input that are read after the others. They have their turn once per turn of the
 * loop, after it has polled, in order, for INBOUND_PUT_OFF_NS in all; the rest come first in the next. While there are
 * any the loop does not block.
 *
 * Thread: owner (the loop's).
 * Memory: none of its own; connections embed their node.
 */
#ifndef BELFRY_SERVER_INBOUND_PUT_OFF_H
#define BELFRY_SERVER_INBOUND_PUT_OFF_H

#include <uv.h>

#include "base/list.h"

#define INBOUND_PUT_OFF_NS 2000000

/* It is the turn of this one, which is no longer put off. */
typedef void (*inbound_put_off_fn)(struct belfry_list *node, uint64_t now_ms);

struct inbound_put_off {
    uv_check_t check;
    uv_idle_t idle; /* active while there are any */
    struct belfry_list nodes;
    inbound_put_off_fn fn;
};

void inbound_put_off_init(struct inbound_put_off *put_off, uv_loop_t *loop, inbound_put_off_fn fn);

/* Nothing is added after this. `closed` is called for each of its two handles, whose data is `data`. */
#define INBOUND_PUT_OFF_HANDLES 2
void inbound_put_off_close(struct inbound_put_off *put_off, uv_close_cb closed, void *data);

/* One that is put off already stays where it is. Removing its node from the list takes it back. */
void inbound_put_off_add(struct inbound_put_off *put_off, struct belfry_list *node);

#endif
