/* src/net/carrier.h
 *
 * carrier: a transport with a connection of net/call.h on it, and the timer which that needs.
 *
 * It carries bytes both ways, tells the connection the time, and puts off closing while the connection is on the stack.
 * After a gap of the clock (the process was stopped) the socket is read before the connection is told how late it is.
 *
 *     DIALING --> UP --> RETIRED --last call ended--> closed        any state may go to lost, and to closed
 *
 * Thread: owner (the loop's).
 */
#ifndef BELFRY_NET_CARRIER_H
#define BELFRY_NET_CARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include "net/call.h"
#include "net/transport.h"

struct belfry_carrier;

struct belfry_carrier_events {
    /* `alpn`: what TLS agreed on, "" without TLS or agreement. The moment for belfry_http_start(), if it is NEW. */
    void (*up)(struct belfry_carrier *carrier, const char *alpn, void *user);
    /* Bytes are about to be pulled, or came: the moment to open calls that wait for room. May be NULL. */
    void (*feed)(struct belfry_carrier *carrier, void *user);
    /* It failed or ended; the calls have been told, but for held ones that are `patient`. No further callback: close or
     * retire it. */
    void (*lost)(struct belfry_carrier *carrier, enum belfry_err err, const char *why, void *user);
    /* The peer takes nothing new; what runs goes on. Once. Also after a call over HTTP/1.1 was cancelled. */
    void (*draining)(struct belfry_carrier *carrier, void *user);
    /* It was closed, and now its memory is free, on a later turn of the loop. May be NULL. */
    void (*gone)(void *user);
};

struct belfry_carrier_opts {
    struct belfry_transport_opts transport;
    struct belfry_http *http; /* owned from here on, also when opening fails */
    const char *nonsense;     /* the sentence for a peer that breaks the protocol; static; NULL: what exactly it did */
    struct belfry_list *all;  /* the owner's carriers: it is in this list until it is closed; NULL: in none */
    const struct belfry_carrier_events *events;
    void *user;
};

/* Starts connecting. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err belfry_carrier_open(const struct belfry_carrier_opts *opts,
                                                     struct belfry_carrier **out);

/* The owner gives it no more calls and forgets it: no event follows but `gone`. Those that run go on, and it closes
 * with the last of them. Also from `lost`: it closes when the held calls that are to be told later were told. */
void belfry_carrier_retire(struct belfry_carrier *carrier);

/* Ends every call (which is told), then the connection. From inside an event of a call it takes effect when that has
 * returned. NULL is fine. */
void belfry_carrier_close(struct belfry_carrier *carrier);

/* Closes all that are in the list, retired ones too; `why` is what their calls are told. */
void belfry_carrier_close_all(struct belfry_list *all, const char *why);

/* After using the connection from outside: what it has to send goes out, and its timer is set. */
void belfry_carrier_flush(struct belfry_carrier *carrier);

/* Around a use of the connection that may call back from inside: closing waits for the outermost leave. */
void belfry_carrier_enter(struct belfry_carrier *carrier);
void belfry_carrier_leave(struct belfry_carrier *carrier);

/* Once it is up: whether we have presented a certificate with a common name (net/transport.h). */
bool belfry_carrier_has_name(const struct belfry_carrier *carrier);

struct belfry_http *belfry_carrier_http(const struct belfry_carrier *carrier);
const struct belfry_endpoint *belfry_carrier_endpoint(const struct belfry_carrier *carrier);
void *belfry_carrier_user(const struct belfry_carrier *carrier);

#endif
