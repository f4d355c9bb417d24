/* src/net/tls.h
 *
 * tls: what a side needs to speak TLS: whom it trusts and who it is. One context serves many connections.
 *
 * A context follows its files when they change, as they do when certificates are rotated. A client's looks at them
 * before each connection (net/transport), a server's when its owner calls belfry_tls_refresh().
 *
 * Thread: any, once it is created: the connections of several threads may share one.
 */
#ifndef BELFRY_NET_TLS_H
#define BELFRY_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"

struct belfry_tls;
struct belfry_tls_tickets;

struct belfry_tls_opts {
    const char *cacert;     /* PEM file; NULL: the system's */
    const char *cert, *key; /* PEM files, both or neither; cert may hold a chain */
    /* The same as PEM texts instead, each for itself; NULL: the files. Copied. */
    const char *cacert_pem, *cert_pem, *key_pem;
    const char *server_name; /* NULL: the host that is connected to */
    bool skip_verify;
    bool http1; /* HTTP/1.1 will do as well: ALPN h2 and http/1.1, in this order, and a server without ALPN is fine */
};

/* Reads the files. TLS 1.2 at least, ALPN h2 unless `http1`. On failure a sentence naming the file is stored in why.
 * Errors: BELFRY_ERR_TLS, BELFRY_ERR_NOMEM, BELFRY_ERR_INVALID (cert without key). */
BELFRY_NODISCARD enum belfry_err belfry_tls_create(const struct belfry_tls_opts *opts, struct belfry_tls **out,
                                                   char *why, size_t why_len);

/* Looks whether a file of the context is another than when it was read (links followed: Kubernetes swaps one),
 * and reads all anew if so, for the connections to come. When they cannot be used, as in the middle of a rotation, the
 * context stays as it is, why has a sentence, and the next call tries again.
 * Errors: BELFRY_ERR_TLS, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_tls_refresh(struct belfry_tls *tls, char *why, size_t why_len);

/* What the last refresh failed with, for whoever owns the context and did not refresh it himself; "" when it did not.
 * True: there is something. */
bool belfry_tls_refresh_why(struct belfry_tls *tls, char *out, size_t out_len);

/* Logs it, once for each time that it is another ("tls_kept"). */
void belfry_tls_log_refresh(struct belfry_tls *tls, const struct belfry_log *log);

/* Which name in a client's certificate is the user's (tls_name.h). */
enum belfry_tls_name { BELFRY_TLS_NAME_CN, BELFRY_TLS_NAME_URI, BELFRY_TLS_NAME_DNS };

struct belfry_tls_server_opts {
    const char *cert, *key; /* PEM files; cert may hold a chain */
    const char *client_ca;  /* PEM file: clients must show a certificate signed by it; NULL: none is asked for */
    const char *crl;        /* PEM file: certificates that its lists revoke are refused; NULL: none is revoked */
    enum belfry_tls_name name;
    /* Seals session tickets (net/tls_tickets.h), and outlives all connections. NULL: no tickets. With client_ca there
     * are none, either: each connection has to prove its certificate, with the files as they are then. */
    struct belfry_tls_tickets *tickets;
};

/* The other side: ALPN h2 and http/1.1, in this order of preference, none is fine.
 *
 * With a crl, the authority that signed a client's certificate must have a list there; the authorities above it may. A
 * list whose next update is overdue still counts, as in etcd: a list that was not renewed must not stop every client
 * (belfry_tls_crl_due()). Errors: as above. */
BELFRY_NODISCARD enum belfry_err belfry_tls_create_server(const struct belfry_tls_server_opts *opts,
                                                          struct belfry_tls **out, char *why, size_t why_len);

/* Grows each time when refresh has read other files. */
uint64_t belfry_tls_version(struct belfry_tls *tls);

/* The end of its own certificate, in seconds of Unix time; INT64_MAX: it has none. */
int64_t belfry_tls_expires(struct belfry_tls *tls);

/* When the first list of the crl should be replaced by a newer one, in seconds of Unix time; INT64_MAX: never. */
int64_t belfry_tls_crl_due(struct belfry_tls *tls);

/* Is the first certificate of the PEM file for `host`, a name or an address? False also when it cannot be read. */
bool belfry_tls_cert_is_for(const char *cert, const char *host);

/* Connections made with it keep what they need. NULL is fine. */
void belfry_tls_destroy(struct belfry_tls *tls);

#endif
