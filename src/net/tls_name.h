/* src/net/tls_name.h
 *
 * tls_name: the name of the user that a client's certificate is for.
 *
 * CN: the last common name of the subject, which is the one that Go's crypto/x509, and so etcd, reads. URI, DNS: the
 * only subject alternative name of that type; with two of them it would be unclear which is the user.
 *
 * A name has at most 255 bytes, UTF-8 (a URI or DNS name ASCII), without control characters and double quotes, so that
 * it can be shown and logged. A certificate with any other name is not usable: if the name were cut or mended, it could
 * become the name of another user.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_NET_TLS_NAME_H
#define BELFRY_NET_TLS_NAME_H

#include <openssl/x509.h>
#include <stdbool.h>

#include "net/tls.h"

#define BELFRY_TLS_NAME_BYTES 256 /* with its end */
#define BELFRY_TLS_NAME_WHY   160

/* Stores the name, "" when the certificate has none of that type. False: it is not usable; a sentence is in why.
 * OpenSSL's error queue is left empty. */
BELFRY_NODISCARD bool belfry_tls_name_read(const X509 *cert, enum belfry_tls_name type, char out[BELFRY_TLS_NAME_BYTES],
                                           char why[BELFRY_TLS_NAME_WHY]);

#endif
