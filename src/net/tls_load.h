/* src/net/tls_load.h
 *
 * tls_load: certificates and keys, from files or texts, into an OpenSSL context.
 *
 * Thread: any. On failure a sentence is in why.
 * Errors of all that return one: BELFRY_ERR_TLS, BELFRY_ERR_NOMEM.
 */
#ifndef BELFRY_NET_TLS_LOAD_H
#define BELFRY_NET_TLS_LOAD_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Where a certificate or a key comes from. */
struct belfry_tls_source {
    char *file, *pem; /* owned; the file counts only without the text. Both NULL: nowhere */
};

/* Loads the authorities that a client trusts: those of `from`, or the system's. */
BELFRY_NODISCARD enum belfry_err belfry_tls_load_trust(SSL_CTX *ctx, const struct belfry_tls_source *from, char *why,
                                                       size_t why_len);

/* Loads the certificate and the key that this side presents; without a certificate it presents none. */
BELFRY_NODISCARD enum belfry_err belfry_tls_load_identity(SSL_CTX *ctx, const struct belfry_tls_source *cert,
                                                          const struct belfry_tls_source *key, char *why,
                                                          size_t why_len);

/* Loads the authorities of `file`: a server accepts only clients with a certificate that one of them signed. */
BELFRY_NODISCARD enum belfry_err belfry_tls_load_client_ca(SSL_CTX *ctx, const char *file, char *why, size_t why_len);

/* Loads the lists of revoked certificates in `file`, for the authorities loaded before; NULL: none. *due becomes the
 * first time at which one of them should be replaced, in seconds of Unix time. */
BELFRY_NODISCARD enum belfry_err belfry_tls_load_crl(SSL_CTX *ctx, const char *file, int64_t *due, char *why,
                                                     size_t why_len);

/* A time in a certificate or a list, in seconds of Unix time; INT64_MIN when it cannot be read. */
int64_t belfry_tls_time(const ASN1_TIME *time);

/* OpenSSL's own words for the first error in its queue, which is emptied; "unknown reason" when there is none. */
void belfry_tls_reason(char *out, size_t out_len);

#endif
