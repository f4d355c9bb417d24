/* src/net/tls_private.h: the fields of a context (tls.c), for its connections (tls_conn.c). Thread: as net/tls.h says.
 */
#ifndef BELFRY_NET_TLS_PRIVATE_H
#define BELFRY_NET_TLS_PRIVATE_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "net/tls.h"
#include "net/tls_load.h"

/* What tells one version of a file from another; all zero: there is none. */
struct belfry_tls_stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec mtime;
};

enum { BELFRY_TLS_CACERT, BELFRY_TLS_CERT, BELFRY_TLS_KEY, BELFRY_TLS_CRL, BELFRY_TLS_FILES };

struct belfry_tls {
    /* fixed at creation */
    struct belfry_tls_source sources[BELFRY_TLS_FILES]; /* CACERT: a server's client_ca; CRL: a server's */
    char *server_name;                                  /* NULL: the host that is connected to */
    bool skip_verify, http1;
    bool is_server;
    /* a server's */
    enum belfry_tls_name name;
    struct belfry_tls_tickets *tickets; /* lent; NULL: none are issued */
    unsigned char sessions[16];         /* by which its sessions are told from those of other servers */
    /* under reading, which is held while files are read; mu may be taken inside it */
    pthread_mutex_t reading;
    struct belfry_tls_stamp stamps[BELFRY_TLS_FILES]; /* of what is in ctx */
    /* under mu, which is held for a copy */
    pthread_mutex_t mu;
    SSL_CTX *ctx;
    uint64_t version;           /* of ctx; written under reading, too */
    int64_t crl_due, expires_s; /* of ctx */
    char refresh_why[400], logged_why[400];
};

/* A reference to the context that serves now; SSL_CTX_free() ends it. */
SSL_CTX *belfry_tls_context(struct belfry_tls *tls, uint64_t *version);

#endif
