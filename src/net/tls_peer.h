/* src/net/tls_peer.h
 *
 * tls_peer: what a server's certificate says of itself, for people: which names it is for, who signed it, and from when
 * to when it is valid. It decides nothing: whether a certificate is accepted is net/tls_conn.h's.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_NET_TLS_PEER_H
#define BELFRY_NET_TLS_PEER_H

#include <openssl/x509.h>
#include <stdint.h>

#define BELFRY_TLS_PEER_TEXT 256

struct belfry_tls_peer {
    int64_t begins_s, expires_s;       /* Unix time; INT64_MIN: it cannot be read */
    char names[BELFRY_TLS_PEER_TEXT];  /* "edge-7, localhost, 10.3.0.7": as many as fit; "": none */
    char issuer[BELFRY_TLS_PEER_TEXT]; /* the common name of its authority; "": none */
};

/* What could upset a terminal becomes '?'. OpenSSL's error queue is left empty. */
void belfry_tls_peer_read(const X509 *cert, struct belfry_tls_peer *out);

#endif
