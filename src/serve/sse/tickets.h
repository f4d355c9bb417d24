/* src/serve/sse/tickets.h
 *
 * tickets: the keys in force, which all workers use and a reload replaces (daemon/reload.h). Everything else is in
 * ticket.h.
 *
 * Thread: any; init and fini: its owner.
 */
#ifndef BELFRY_SERVE_SSE_TICKETS_H
#define BELFRY_SERVE_SSE_TICKETS_H

#include <pthread.h>

#include "serve/sse/ticket.h"

struct tickets {
    pthread_mutex_t mu;
    /* under mu, which is held for a copy */
    struct ticket_keys keys;
    int64_t life_s; /* of a new ticket */
};

/* Begins without keys. */
void tickets_init(struct tickets *tickets);
void tickets_fini(struct tickets *tickets);

/* Replaces the keys by a copy of these; n may be 0. Returns whether they are others than before. */
bool tickets_set(struct tickets *tickets, const struct ticket_keys *keys, int64_t life_s);
bool tickets_has_keys(struct tickets *tickets);

/* As ticket_seal() and ticket_open(), with the keys in force. */
BELFRY_NODISCARD enum belfry_err tickets_seal(struct tickets *tickets, const struct identity *who, int64_t born_s,
                                              int64_t now_s, struct belfry_buf *out, int64_t *out_expires_s);
BELFRY_NODISCARD enum belfry_err tickets_open(struct tickets *tickets, struct belfry_bytes text, int64_t now_s,
                                              struct ticket *out);

#endif
