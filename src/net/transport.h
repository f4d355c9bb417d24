/* src/net/transport.h
 *
 * transport: a byte stream to one endpoint: name resolved, addresses tried in turn (each gets a fair part of the time
 * left), TCP or unix socket, TLS or plain.
 *
 *     RESOLVING -> CONNECTING -> (HANDSHAKE) -> UP -> LOST -> CLOSED        any state may go to LOST and to CLOSED
 *                      ^---- next address ---'
 *
 * Writing is by pull: when the socket takes bytes, the owner is asked for them. Whatever it gives is written before it
 * is asked again. After belfry_transport_kick() it is asked on the loop's next turn (or on this one, from inside a
 * callback of the transport); never from inside belfry_transport_kick().
 *
 * A peer that is gone without a word is found by TCP itself, within a minute: whoever only reads would wait for ever.
 *
 * Thread: owner (the loop's).
 * Memory: reads go through one buffer of 64 KiB on the stack of the loop's turn (TLS: 16 KiB more for what they decrypt
 *         to); nothing is queued for writing but the rest of what was pulled last, and up to 80 KiB of it encrypted.
 */
#ifndef BELFRY_NET_TRANSPORT_H
#define BELFRY_NET_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/err.h"
#include "net/dns.h"
#include "net/endpoint.h"
#include "net/tls.h"

struct belfry_transport;

struct belfry_transport_events {
    void (*up)(struct belfry_transport *t, void *user);
    /* Lent for the call. At most 16 reads of 64 KiB a turn, so that one busy peer does not starve the loop. */
    void (*bytes)(struct belfry_transport *t, struct belfry_bytes bytes, void *user);
    /* The next bytes to write, lent until the next pull; empty: nothing. */
    struct belfry_bytes (*pull)(struct belfry_transport *t, void *user);
    /* It failed or the peer ended it; `why` names the cause ("connection refused", "certificate verify failed: ...").
     * The transport makes no further callback; the owner closes it, now or later. */
    void (*lost)(struct belfry_transport *t, enum belfry_err err, const char *why, void *user);
};

struct belfry_transport_opts {
    uv_loop_t *loop;
    struct belfry_dns *dns;
    const struct belfry_endpoint *endpoint; /* copied */
    struct belfry_tls *tls;                 /* NULL for plain; required when endpoint->tls; outlives dialing. Files
                                               of it that have changed are read anew first: belfry_tls_refresh() */
    uint32_t dial_timeout_ms;               /* from resolving to up; not 0 */
};

/* Starts connecting. No callback comes from inside. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_INVALID. What else goes wrong
 * comes as `lost`: BELFRY_ERR_RESOLVE, _UNAVAILABLE (refused, unreachable, ended), _TIMEOUT, _TLS, _IO, _LIMIT, _NOMEM.
 */
BELFRY_NODISCARD enum belfry_err belfry_transport_open(const struct belfry_transport_opts *opts,
                                                       const struct belfry_transport_events *events, void *user,
                                                       struct belfry_transport **out);

/* There is something to pull. */
void belfry_transport_kick(struct belfry_transport *t);

/* After up: what TLS agreed on ("h2", "http/1.1"); "" without TLS or agreement. Lent until it is lost or closed. */
const char *belfry_transport_alpn(const struct belfry_transport *t);

/* After up: whether we have presented a certificate with a common name (net/tls_conn.h); false without TLS. */
bool belfry_transport_has_name(const struct belfry_transport *t);

/* After up: what the server's certificate says (net/tls_peer.h). False: there is none. */
struct belfry_tls_peer;
bool belfry_transport_peer(const struct belfry_transport *t, struct belfry_tls_peer *out);

/* true: the socket is not read until false is said. What was read from it before (64 KiB at most, TLS: 16 KiB more) is
 * still given. Nothing is lost meanwhile, but all of it waits, the end of the connection too, also if writing finds it.
 */
void belfry_transport_hold(struct belfry_transport *t, bool hold);

/* No callback comes after it; the handles finish closing on the loop. May be called from inside a callback. NULL is
 * fine. */
void belfry_transport_close(struct belfry_transport *t);

#endif
