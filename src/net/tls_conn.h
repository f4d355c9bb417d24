/* src/net/tls_conn.h
 *
 * tls_conn: one TLS connection without its socket: the peer's bytes go in, bytes for the peer and plain bytes come out.
 *
 * OpenSSL never sees a descriptor, so it can neither block nor raise SIGPIPE. Its error queue is empty after each call.
 *
 * Thread: owner (the transport's).
 * Memory: bytes fed are lent, not copied; the owner writes out what belfry_tls_conn_output() gives before it encrypts
 *         more. A peer that makes us answer (key updates, alerts) without reading ends at 64 KiB of unsent answers.
 */
#ifndef BELFRY_NET_TLS_CONN_H
#define BELFRY_NET_TLS_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "net/tls.h"

struct belfry_tls_conn;

/* `host` is verified and sent as SNI (names only), unless the context has a server name of its own.
 * Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_TLS. */
BELFRY_NODISCARD enum belfry_err belfry_tls_conn_create(struct belfry_tls *tls, const char *host,
                                                        struct belfry_tls_conn **out);

/* The server's side of a connection: `tls` is of belfry_tls_create_server(). */
BELFRY_NODISCARD enum belfry_err belfry_tls_conn_accept(struct belfry_tls *tls, struct belfry_tls_conn **out);

/* After the handshake: what was agreed on by ALPN ("h2", "http/1.1", "" for none), and the user's name in the client's
 * certificate ("" without one; tls_name.h). Lent for the life of the connection. */
const char *belfry_tls_conn_alpn(const struct belfry_tls_conn *conn);
const char *belfry_tls_conn_user(const struct belfry_tls_conn *conn);

/* After the handshake: it went on with an earlier session, so no certificates were shown. */
bool belfry_tls_conn_is_resumed(const struct belfry_tls_conn *conn);

/* True when the certificate that this side presents has a common name in its subject, whatever it is: a server such as
 * etcd may take every request on this connection for that user's. It stays true to the certificate that this connection
 * began with, also when the context has read another one since. */
bool belfry_tls_conn_has_name(const struct belfry_tls_conn *conn);

/* After the handshake: would the client's certificate still be accepted? `tls` is the one that the connection was
 * accepted with, and now_s Unix time. As long as the files of `tls` are those that the connection began with, or was
 * last checked with, this compares two numbers. After a change, a certificate is verified again only if a list names it
 * or its authority is not among the trusted ones as it was. Without a client certificate it always succeeds.
 * Errors: BELFRY_ERR_TLS (it has expired, was revoked, or its authority is gone; belfry_tls_conn_why()),
 *         BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_tls_conn_recheck(struct belfry_tls_conn *conn, struct belfry_tls *tls,
                                                         int64_t now_s);

/* A client's, after the handshake: what the server's certificate says. False: it showed none. */
struct belfry_tls_peer;
bool belfry_tls_conn_peer(const struct belfry_tls_conn *conn, struct belfry_tls_peer *out);

void belfry_tls_conn_destroy(struct belfry_tls_conn *conn);

/* Lends bytes of the peer until the next feed; handshake and read consume them. */
void belfry_tls_conn_feed(struct belfry_tls_conn *conn, struct belfry_bytes bytes);

/* Takes the handshake as far as it goes; there may be output afterwards, on failure too (an alert).
 * Errors: BELFRY_ERR_AGAIN (more bytes of the peer are needed), BELFRY_ERR_TLS, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_tls_conn_handshake(struct belfry_tls_conn *conn);

/* Decrypts into buf. Errors: BELFRY_ERR_AGAIN (all that was fed is used up), BELFRY_ERR_UNAVAILABLE (the peer ended
 * TLS in good order), BELFRY_ERR_TLS, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_tls_conn_read(struct belfry_tls_conn *conn, void *buf, size_t cap,
                                                      size_t *out_n);

/* Encrypts the first bytes, at most one record; on BELFRY_OK at least one byte was taken.
 * Errors: BELFRY_ERR_TLS, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_tls_conn_write(struct belfry_tls_conn *conn, struct belfry_bytes bytes,
                                                       size_t *out_n);

/* Says goodbye (close_notify), as far as there is memory for it. */
void belfry_tls_conn_end(struct belfry_tls_conn *conn);

/* What waits for the socket, lent until the next call; belfry_tls_conn_sent() takes bytes off its front. */
struct belfry_bytes belfry_tls_conn_output(const struct belfry_tls_conn *conn);
void belfry_tls_conn_sent(struct belfry_tls_conn *conn, size_t len);

/* The sentence for the last BELFRY_ERR_TLS. */
const char *belfry_tls_conn_why(const struct belfry_tls_conn *conn);

#endif
