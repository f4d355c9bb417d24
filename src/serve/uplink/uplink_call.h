/* src/serve/uplink/uplink_call.h
 *
 * uplink_call: what uplink.c (where a call waits) and uplink_conn.c (where it runs) both know of a call.
 *
 * Thread: owner.
 */
#ifndef BELFRY_SERVE_UPLINK_UPLINK_CALL_H
#define BELFRY_SERVE_UPLINK_UPLINK_CALL_H

#include "serve/uplink/uplink.h"
#include "serve/uplink/uplink_conn.h"
#include "serve/uplink/uplink_head.h"

/*     WAITING <--> RUNNING --> OVER
 *
 * Back to WAITING only if its HEADERS never left. */
enum call_state {
    CALL_WAITING,
    CALL_RUNNING, /* submitted; sent or not */
    CALL_OVER     /* the response is complete, the owner has not closed it yet */
};

struct uplink_call {
    /* fixed at creation */
    struct uplink *uplink;
    const struct uplink_events *events;
    void *user;
    unsigned *pin; /* lent; may be NULL */
    enum uplink_caller caller;
    /* owner */
    struct belfry_list node; /* of those that wait for an endpoint, run on a connection, or are over */
    enum call_state state;
    struct uplink_conn *conn; /* RUNNING */
    struct belfry_h2_stream stream;
    struct uplink_head *head; /* owned; NULL once it has left */
    bool lent;                /* RUNNING: by a name that is not its caller's */
    uint64_t since_ms;        /* waiting for an endpoint to be reached */
};

/* RUNNING -> OVER: its response is complete. It is in no list. */
void uplink_call_over(struct uplink_call *call);

/* Its last event; the call is gone. It is in no list. */
void uplink_call_end(struct uplink_call *call, const struct uplink_end *end);

#endif
