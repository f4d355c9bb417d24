/* src/net/tls.h
 *
 * tls: what a client needs to speak TLS: whom it trusts and who it is. One context serves many connections.
 *
 * Thread: owner.
 */
#ifndef BELFRY_NET_TLS_H
#define BELFRY_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct belfry_tls;

struct belfry_tls_opts {
    const char *cacert;      /* PEM file; NULL: the system's */
    const char *cert, *key;  /* PEM files, both or neither; cert may hold a chain */
    const char *server_name; /* NULL: the host that is connected to */
    bool skip_verify;
};

/* Reads the files. TLS 1.2 at least, ALPN h2. On failure a sentence naming the file is stored in why.
 * Errors: BELFRY_ERR_TLS, BELFRY_ERR_NOMEM, BELFRY_ERR_INVALID (cert without key). */
BELFRY_NODISCARD enum belfry_err belfry_tls_create(const struct belfry_tls_opts *opts, struct belfry_tls **out,
                                                   char *why, size_t why_len);

/* Connections made with it keep what they need. NULL is fine. */
void belfry_tls_destroy(struct belfry_tls *tls);

#endif
