/* src/net/carrier.h
 *
 * carrier: a transport with a protocol's machine on it (net/grpc, net/http), and the timer the machine needs.
 *
 * It carries bytes both ways, tells the machine the time, and puts off closing while the machine is on the stack. After
 * a gap of the clock (the process was stopped) the socket is read before the machine is told how late it is.
 *
 * Thread: owner (the loop's).
 */
#ifndef BELFRY_NET_CARRIER_H
#define BELFRY_NET_CARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include "net/transport.h"

/* What a machine must be able to do; each as in net/grpc.h. */
struct belfry_machine {
    enum belfry_err (*receive)(void *machine, struct belfry_bytes bytes, uint64_t now_ms);
    enum belfry_err (*pull)(void *machine, uint64_t now_ms, struct belfry_bytes *out);
    bool (*wants_write)(void *machine);
    bool (*wants_read)(void *machine); /* NULL: always */
    void (*lost)(void *machine, const char *why);
    enum belfry_err (*tick)(void *machine, uint64_t now_ms);
    uint64_t (*due)(const void *machine);
    bool (*draining)(const void *machine);
    void (*destroy)(void *machine);
    const char *nonsense; /* the sentence for a peer that breaks the protocol */
};

struct belfry_carrier;

struct belfry_carrier_events {
    /* `alpn`: what TLS agreed on, "" without TLS or agreement. */
    void (*up)(struct belfry_carrier *carrier, const char *alpn, void *user);
    /* It failed or ended; the machine has been told. No further callback: close it. */
    void (*lost)(struct belfry_carrier *carrier, enum belfry_err err, const char *why, void *user);
    /* The peer takes nothing new; what runs goes on. Once. */
    void (*draining)(struct belfry_carrier *carrier, void *user);
    /* It was closed, and now its memory is free, on a later turn of the loop. May be NULL. */
    void (*gone)(void *user);
};

/* Starts connecting. `machine` is owned from here on, also on failure. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err belfry_carrier_open(const struct belfry_transport_opts *transport,
                                                     const struct belfry_machine *kind, void *machine,
                                                     const struct belfry_carrier_events *events, void *user,
                                                     struct belfry_carrier **out);

/* Destroys the machine (whose calls are told), then the connection. From inside a callback of the machine it takes
 * effect when that has returned. NULL is fine. */
void belfry_carrier_close(struct belfry_carrier *carrier);

/* After using the machine from outside: what it has to send goes out, and its timer is set. */
void belfry_carrier_flush(struct belfry_carrier *carrier);

/* Around a call into the machine that may call back from inside: closing waits for the outermost leave. */
void belfry_carrier_enter(struct belfry_carrier *carrier);
void belfry_carrier_leave(struct belfry_carrier *carrier);

const struct belfry_endpoint *belfry_carrier_endpoint(const struct belfry_carrier *carrier);

#endif
