/* src/net/tls_tickets.h
 *
 * tls_tickets: the keys that seal session tickets. A ticket lets a client that comes back skip the certificates.
 *
 * Under TLS 1.2 a ticket holds the secret of its session, so its key opens what was recorded of that session. OpenSSL's
 * own key lives as long as its context; these are replaced every hour, are known to this process only, and are wiped
 * when they end:
 *
 *     fresh --1 h--> old: opens tickets, seals none --1 h--> wiped
 *
 * A ticket is good for one hour, so its key is there for all of its life. All servers of a process share the keys; that
 * a ticket of one server is not good at another is the server's business (net/tls.c).
 *
 * Thread: any; create and destroy: owner.
 */
#ifndef BELFRY_NET_TLS_TICKETS_H
#define BELFRY_NET_TLS_TICKETS_H

#include <openssl/ssl.h>
#include <stdint.h>

#include "base/err.h"

#define BELFRY_TLS_TICKETS_SPAN_MS ((uint64_t)3600 * 1000)

struct belfry_tls_tickets;

/* Draws the first key. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_TLS (no randomness). */
BELFRY_NODISCARD enum belfry_err belfry_tls_tickets_create(uint64_t now_ms, struct belfry_tls_tickets **out);
void belfry_tls_tickets_destroy(struct belfry_tls_tickets *tickets); /* NULL is fine */

/* Replaces keys whose time is over; due once a minute or more often. Without randomness they stay until the next
 * call. */
void belfry_tls_tickets_rotate(struct belfry_tls_tickets *tickets, uint64_t now_ms);

/* Lets a server's context issue tickets, one per connection, and take them. The keys must outlive all connections of
 * the context. */
void belfry_tls_tickets_serve(struct belfry_tls_tickets *tickets, SSL_CTX *ctx);

#endif
