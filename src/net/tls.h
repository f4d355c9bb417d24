/* src/net/tls.h
 *
 * tls: what a side needs to speak TLS: whom it trusts and who it is. One context serves many connections.
 *
 * Thread: owner; a server's context may be used by connections on several threads, and is reloaded by making a new one.
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

struct belfry_tls_server_opts {
    const char *cert, *key; /* PEM files; cert may hold a chain */
    const char *client_ca;  /* PEM file: clients must show a certificate signed by it; NULL: none is asked for */
};

/* The other side: ALPN h2 and http/1.1, in this order of preference, none is fine. Errors: as above. */
BELFRY_NODISCARD enum belfry_err belfry_tls_create_server(const struct belfry_tls_server_opts *opts,
                                                          struct belfry_tls **out, char *why, size_t why_len);

/* The common name in the subject of a certificate file, for who must know it; "" when it has none.
 * Errors: BELFRY_ERR_TLS (the file cannot be read). */
BELFRY_NODISCARD enum belfry_err belfry_tls_common_name(const char *cert, char *out, size_t out_len);

/* Connections made with it keep what they need. NULL is fine. */
void belfry_tls_destroy(struct belfry_tls *tls);

#endif
