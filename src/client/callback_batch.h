/* src/client/callback_batch.h
 *
 * batch: the argument of a callback, and the walk over its events behind the public type.
 *
 * Events come from one of three places: responses of a watch (a group), a page of a listing, or a list of vanished
 * keys. A mask, if there is one, selects the visible events.
 *
 * Thread: owner. Lives on the stack of the function that calls back.
 */
#ifndef BELFRY_CLIENT_CALLBACK_BATCH_H
#define BELFRY_CLIENT_CALLBACK_BATCH_H

#include <belfry/belfry.h>

#include "client/watch/inbox.h"

enum belfry_batch_source { BELFRY_FROM_NOTHING, BELFRY_FROM_GROUP, BELFRY_FROM_PAGE, BELFRY_FROM_KEYS };

struct belfry_batch_view {
    struct belfry_batch batch; /* first: the public pointer is a pointer to this */
    enum belfry_batch_source source;
    struct belfry_inbox_group group; /* GROUP */
    struct belfry_bytes page;        /* PAGE: a RangeResponse */
    const struct belfry_bytes *keys; /* KEYS: n_keys of them */
    size_t n_keys;
    const uint8_t *mask; /* one bit per event; NULL: all */
    /* the walk */
    struct belfry_inbox_walk walk;
    size_t at, index;
    struct belfry_event event; /* the current one */
};

/* Converts an event to the public type. */
void belfry_batch_event(const struct belfry_wire_event *from, struct belfry_event *to);
void belfry_batch_kv(const struct belfry_wire_kv *from, struct belfry_event *to);
void belfry_batch_header(const struct belfry_wire_header *from, struct belfry_header *to);

#endif
