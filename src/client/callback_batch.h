/* src/client/callback_batch.h
 *
 * batch: what a callback is given, and the walk over its events behind the public type.
 *
 * Events come from one of three places: responses of a watch (a group), a page of a listing, or a list of keys that
 * have vanished. A mask, where there is one, says which of them are to be seen.
 *
 * Thread: owner. Lives on the stack of whoever calls back.
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
    const uint8_t *mask; /* one bit for each event; NULL: all */
    /* the walk */
    struct belfry_inbox_walk walk;
    size_t at, index;
    struct belfry_event event; /* the one that the caller looks at */
};

/* An event as the public type. */
void belfry_batch_event(const struct belfry_wire_event *from, struct belfry_event *to);
void belfry_batch_kv(const struct belfry_wire_kv *from, struct belfry_event *to);
void belfry_batch_header(const struct belfry_wire_header *from, struct belfry_header *to);

#endif
