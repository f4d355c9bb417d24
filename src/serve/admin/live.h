/* src/serve/admin/live.h
 *
 * live: the open pages, which receive the same messages as server-sent events (text/event-stream).
 *
 * A message is written to each page whose connection has room for all of it. A page without room misses the message;
 * after LIVE_MISSES in a row its response is reset, and the browser connects again. So a page that is not read holds at
 * most EXCHANGE_ROOM bytes.
 *
 * Thread: owner (the front's loop).
 * Memory: at most LIVE_MAX pages.
 */
#ifndef BELFRY_SERVE_ADMIN_LIVE_H
#define BELFRY_SERVE_ADMIN_LIVE_H

#include "base/list.h"
#include "base/owner.h"
#include "server/exchange.h"

#define LIVE_MAX    32
#define LIVE_MISSES 30

struct live {
    struct belfry_list viewers;
    size_t n;
    uint64_t missed; /* messages, of all pages */
    BELFRY_OWNER;
};

void live_init(struct live *live);
void live_fini(struct live *live); /* resets the responses that are open */

/* Answers a request with a stream that stays open. False: there are LIVE_MAX already, or there is no memory; the
 * exchange is untouched. */
bool live_open(struct live *live, struct exchange *x);

/* One message for every page: whole events, as text/event-stream writes them. */
void live_send(struct live *live, struct belfry_bytes message);

#endif
