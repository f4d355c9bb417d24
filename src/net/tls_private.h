/* src/net/tls_private.h: what the parts of net/tls.h share. Thread: as said there.
 *
 *     tls.c       contexts
 *     tls_load.c  what is put into them: files and texts
 *     tls_conn.c  connections
 */
#ifndef BELFRY_NET_TLS_PRIVATE_H
#define BELFRY_NET_TLS_PRIVATE_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "net/tls.h"

/* What tells one version of a file from another; all zero: there is none. */
struct belfry_tls_stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec mtime;
};

enum { BELFRY_TLS_CACERT, BELFRY_TLS_CERT, BELFRY_TLS_KEY, BELFRY_TLS_FILES };

/* Where one of them comes from. */
struct belfry_tls_source {
    char *file, *pem; /* owned; the file counts only without the text. Both NULL: nowhere */
};

struct belfry_tls {
    /* fixed at creation */
    struct belfry_tls_source sources[BELFRY_TLS_FILES]; /* a client's */
    char *server_name;                                  /* NULL: the host that is connected to */
    bool skip_verify, http1;
    bool is_server; /* ctx is fixed, too */
    /* under mu, which is held while files are read: who dials meanwhile waits for them */
    pthread_mutex_t mu;
    SSL_CTX *ctx;
    struct belfry_tls_stamp stamps[BELFRY_TLS_FILES]; /* of what is in ctx */
    char refresh_why[400], logged_why[400];
};

/* A reference to the context that serves now; SSL_CTX_free() ends it. */
SSL_CTX *belfry_tls_context(struct belfry_tls *tls);

/* OpenSSL's own words for the first error in its queue, which is emptied; "unknown reason" when there is none. */
void belfry_tls_reason(char *out, size_t out_len);

/* The common name in the subject of `cert`, "" when it has none. False: it does not fit, or holds a zero byte; cutting
 * it would make it the name of somebody else. */
bool belfry_tls_subject_name(const X509 *cert, char *out, size_t out_len);

/* ---- tls_load.c; on failure a sentence is in why. Errors: BELFRY_ERR_TLS, BELFRY_ERR_NOMEM ---- */

/* Whom a client trusts: the certificates of `from`, or the system's. */
BELFRY_NODISCARD enum belfry_err belfry_tls_load_trust(SSL_CTX *ctx, const struct belfry_tls_source *from, char *why,
                                                       size_t why_len);

/* Who we are; nobody when there is no certificate. */
BELFRY_NODISCARD enum belfry_err belfry_tls_load_identity(SSL_CTX *ctx, const struct belfry_tls_source *cert,
                                                          const struct belfry_tls_source *key, char *why,
                                                          size_t why_len);

/* Which clients a server lets in: those with a certificate signed by one of `file`. */
BELFRY_NODISCARD enum belfry_err belfry_tls_load_client_ca(SSL_CTX *ctx, const char *file, char *why, size_t why_len);

#endif
