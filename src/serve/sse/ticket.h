/* src/serve/sse/ticket.h
 *
 * ticket: a credential that fits into a URL. A browser's EventSource cannot send an Authorization header, so a page
 * asks for a ticket with its own credential and opens the stream with ?ticket=TEXT. A ticket names the user as the
 * credential did, encrypted, and is good for minutes on every tier that has the key.
 *
 *     TEXT   = base64url( version 1 | nonce 12 | AES-256-GCM( plain ) | tag 16 )
 *     plain  = kind 1 | field 1 | born_s 8 | expires_s 8 | text
 *
 * The version is authenticated, too. Numbers are big-endian; times are seconds since 1970, by the machine's clock.
 * Clocks of tiers may differ by TICKET_SKEW_S.
 *
 * A stream that was opened with a ticket gets the next one before it expires, so each ticket has a parent. `born_s` is
 * the time of the first one of such a chain, which a client got for its own credential. A chain ends TICKET_CHAIN_S
 * after it, or TICKET_CERT_CHAIN_S if the credential was a certificate: upstream can end a token, but nothing shows a
 * later tier that a certificate was revoked. docs/decisions/0071-tickets.md has the reasons.
 *
 * Thread: any. Pure, except for the random nonce.
 */
#ifndef BELFRY_SERVE_SSE_TICKET_H
#define BELFRY_SERVE_SSE_TICKET_H

#include "base/base64.h"
#include "serve/rights/identity.h"
#include "serve/sse/ticket_keys.h"

#define TICKET_SKEW_S       30
#define TICKET_CHAIN_S      (12 * 3600)
#define TICKET_CERT_CHAIN_S 3600

#define TICKET_IDENTITY_BYTES 4096 /* of the token or the name */
#define TICKET_OVERHEAD_BYTES (1 + 12 + 18 + 16)
#define TICKET_TEXT_MAX       BELFRY_BASE64_LEN(TICKET_IDENTITY_BYTES + TICKET_OVERHEAD_BYTES)

struct ticket {
    struct identity who; /* kind, field, tag and text; rights and source are for the caller to fill in */
    int64_t born_s, expires_s;
    struct belfry_buf plain; /* owned; holds who.text */
};

/* What a ticket is made of. */
struct ticket_order {
    const struct identity *who;
    int64_t born_s; /* now_s, or that of its parent */
    int64_t now_s, life_s;
};

/* Appends a ticket, which expires life_s from now, or earlier at the end of its chain.
 * Errors: BELFRY_ERR_TIMEOUT (the chain has ended: the client must show its own credential again),
 *         BELFRY_ERR_TOO_LARGE (the identity has more than TICKET_IDENTITY_BYTES),
 *         BELFRY_ERR_UNSUPPORTED (there are no keys), BELFRY_ERR_NOMEM (also when OpenSSL fails). */
BELFRY_NODISCARD enum belfry_err ticket_seal(const struct ticket_keys *keys, const struct ticket_order *order,
                                             struct belfry_buf *out, int64_t *out_expires_s);

/* On BELFRY_OK the caller ends *out with ticket_fini().
 * Errors: BELFRY_ERR_AUTH (no ticket of these keys, whatever the reason), BELFRY_ERR_TIMEOUT (a ticket that has
 *         expired), BELFRY_ERR_UNSUPPORTED (there are no keys), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err ticket_open(const struct ticket_keys *keys, struct belfry_bytes text, int64_t now_s,
                                             struct ticket *out);
void ticket_fini(struct ticket *ticket); /* wipes the identity */

#endif
