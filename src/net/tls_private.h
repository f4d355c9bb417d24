/* src/net/tls_private.h: what tls.c and tls_conn.c share. Thread: owner. */
#ifndef BELFRY_NET_TLS_PRIVATE_H
#define BELFRY_NET_TLS_PRIVATE_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include "net/tls.h"

struct belfry_tls {
    SSL_CTX *ctx;
    char *server_name; /* NULL: the host that is connected to */
};

/* OpenSSL's own words for the first error in its queue, which is emptied; "unknown reason" when there is none. */
void belfry_tls_reason(char *out, size_t out_len);

/* The common name in the subject of `cert`, "" when it has none. False: it does not fit, or holds a zero byte; cutting
 * it would make it the name of somebody else. */
bool belfry_tls_subject_name(const X509 *cert, char *out, size_t out_len);

#endif
