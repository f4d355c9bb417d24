/* src/net/tls.c */
#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/secret.h"
#include "net/tls_private.h"
#include "net/tls_tickets.h"

/* Of TLS 1.2: keys that are lost later open no old record, and records are authenticated as they are encrypted. TLS 1.3
 * has no other suites. */
#define SUITES "ECDHE+AESGCM:ECDHE+CHACHA20"

static enum belfry_err set_protocol(SSL_CTX *ctx)
{
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_read_ahead(ctx, 1); /* one read for all records that are there, not two for each */
    bool fine = SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 && SSL_CTX_set_cipher_list(ctx, SUITES) == 1;
    return fine ? BELFRY_OK : BELFRY_ERR_TLS;
}

static struct belfry_tls *make(void)
{
    struct belfry_tls *tls = calloc(1, sizeof(*tls));
    if (tls != NULL) {
        pthread_mutex_init(&tls->reading, NULL);
        pthread_mutex_init(&tls->mu, NULL);
    }
    return tls;
}

void belfry_tls_destroy(struct belfry_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->ctx);
    pthread_mutex_destroy(&tls->mu);
    pthread_mutex_destroy(&tls->reading);
    for (size_t i = 0; i < BELFRY_TLS_FILES; i++) {
        free(tls->sources[i].file);
        belfry_secret_free(tls->sources[i].pem);
    }
    free(tls->server_name);
    free(tls);
}

SSL_CTX *belfry_tls_context(struct belfry_tls *tls, uint64_t *version)
{
    pthread_mutex_lock(&tls->mu);
    SSL_CTX *ctx = tls->ctx;
    *version = tls->version;
    SSL_CTX_up_ref(ctx);
    pthread_mutex_unlock(&tls->mu);
    return ctx;
}

/* ---- a client's ---- */

static enum belfry_err set_client_protocol(SSL_CTX *ctx, bool http1)
{
    static const unsigned char alpn[] = "\x02h2\x08http/1.1";
    enum belfry_err err = set_protocol(ctx);
    if (err != BELFRY_OK)
        return err;
    return SSL_CTX_set_alpn_protos(ctx, alpn, http1 ? sizeof(alpn) - 1 : 3) == 0 ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

static enum belfry_err load_client(const struct belfry_tls *tls, SSL_CTX *ctx, char *why, size_t why_len)
{
    const struct belfry_tls_source *sources = tls->sources;
    enum belfry_err err = set_client_protocol(ctx, tls->http1);
    if (err != BELFRY_OK)
        snprintf(why, why_len, "TLS 1.2 or ALPN is not possible with this OpenSSL");
    SSL_CTX_set_verify(ctx, tls->skip_verify ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    if (err == BELFRY_OK && !tls->skip_verify)
        err = belfry_tls_load_trust(ctx, &sources[BELFRY_TLS_CACERT], why, why_len);
    if (err == BELFRY_OK)
        err = belfry_tls_load_identity(ctx, &sources[BELFRY_TLS_CERT], &sources[BELFRY_TLS_KEY], why, why_len);
    return err;
}

/* ---- a server's ---- */

/* RFC 7301: a client that offers something, and nothing of ours, is refused; one that offers nothing never comes here.
 */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                           unsigned in_len, void *user)
{
    static const unsigned char ours[] = "\x02h2\x08http/1.1";
    unsigned char *chosen;
    (void)ssl, (void)user;
    if (SSL_select_next_proto(&chosen, out_len, ours, sizeof(ours) - 1, in, in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* A ticket holds a client's certificate without the chain that was verified: a resumed session could outlive its
 * authority, its list and its expiry. So a server that asks for certificates issues no tickets and takes none. */
static void set_tickets(const struct belfry_tls *tls, SSL_CTX *ctx)
{
    if (tls->tickets != NULL && tls->sources[BELFRY_TLS_CACERT].file == NULL) {
        belfry_tls_tickets_serve(tls->tickets, ctx);
        return;
    }
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(ctx, 0);
}

/* Sessions are kept by clients only, as tickets: a cache here would be memory that any client can fill. */
static enum belfry_err set_server_protocol(const struct belfry_tls *tls, SSL_CTX *ctx)
{
    enum belfry_err err = set_protocol(ctx);
    SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    set_tickets(tls, ctx);
    if (err == BELFRY_OK && SSL_CTX_set_session_id_context(ctx, tls->sessions, sizeof(tls->sessions)) != 1)
        err = BELFRY_ERR_TLS;
    return err;
}

static enum belfry_err load_server(const struct belfry_tls *tls, SSL_CTX *ctx, int64_t *crl_due, char *why,
                                   size_t why_len)
{
    const struct belfry_tls_source *sources = tls->sources;
    enum belfry_err err = set_server_protocol(tls, ctx);
    if (err != BELFRY_OK)
        snprintf(why, why_len, "TLS 1.2 is not possible with this OpenSSL");
    if (err == BELFRY_OK)
        err = belfry_tls_load_identity(ctx, &sources[BELFRY_TLS_CERT], &sources[BELFRY_TLS_KEY], why, why_len);
    if (err == BELFRY_OK)
        err = belfry_tls_load_client_ca(ctx, sources[BELFRY_TLS_CACERT].file, why, why_len);
    return err == BELFRY_OK ? belfry_tls_load_crl(ctx, sources[BELFRY_TLS_CRL].file, crl_due, why, why_len) : err;
}

/* ---- files that change ---- */

/* A context of what the sources hold now. */
static enum belfry_err load(const struct belfry_tls *tls, SSL_CTX **out, int64_t *crl_due, char *why, size_t why_len)
{
    ERR_clear_error();
    snprintf(why, why_len, "%s", belfry_strerror(BELFRY_ERR_NOMEM));
    SSL_CTX *ctx = SSL_CTX_new(tls->is_server ? TLS_server_method() : TLS_client_method());
    if (ctx == NULL)
        return BELFRY_ERR_NOMEM;
    *crl_due = INT64_MAX;
    enum belfry_err err =
        tls->is_server ? load_server(tls, ctx, crl_due, why, why_len) : load_client(tls, ctx, why, why_len);
    ERR_clear_error();
    if (err == BELFRY_OK)
        *out = ctx;
    else
        SSL_CTX_free(ctx);
    return err;
}

static int64_t expiry_of(const SSL_CTX *ctx)
{
    X509 *own = SSL_CTX_get0_certificate(ctx);
    return own != NULL ? belfry_tls_time(X509_get0_notAfter(own)) : INT64_MAX;
}

/* A file that is not there has a stamp of its own: all zero. */
static void take_stamps(const struct belfry_tls *tls, struct belfry_tls_stamp stamps[BELFRY_TLS_FILES])
{
    for (size_t i = 0; i < BELFRY_TLS_FILES; i++) {
        const struct belfry_tls_source *from = &tls->sources[i];
        struct stat st;
        memset(&stamps[i], 0, sizeof(stamps[i])); /* padding too: they are compared as bytes */
        if (from->pem != NULL || from->file == NULL || stat(from->file, &st) != 0)
            continue;
        stamps[i].dev = st.st_dev;
        stamps[i].ino = st.st_ino;
        stamps[i].size = st.st_size;
        stamps[i].mtime.tv_sec = st.st_mtim.tv_sec;
        stamps[i].mtime.tv_nsec = st.st_mtim.tv_nsec;
    }
}

/* Reads what changed. The stamps are taken first: what changes while it is read is found changed again. Locked:
 * reading. */
static enum belfry_err refresh(struct belfry_tls *tls, char *why, size_t why_len)
{
    struct belfry_tls_stamp stamps[BELFRY_TLS_FILES];
    take_stamps(tls, stamps);
    if (tls->version > 0 && memcmp(stamps, tls->stamps, sizeof(stamps)) == 0)
        return BELFRY_OK;
    SSL_CTX *ctx = NULL;
    int64_t crl_due;
    enum belfry_err err = load(tls, &ctx, &crl_due, why, why_len);
    if (err != BELFRY_OK)
        return err;
    int64_t expires_s = expiry_of(ctx);
    pthread_mutex_lock(&tls->mu);
    SSL_CTX *before = tls->ctx;
    tls->ctx = ctx;
    tls->crl_due = crl_due;
    tls->expires_s = expires_s;
    tls->version++;
    pthread_mutex_unlock(&tls->mu);
    SSL_CTX_free(before);
    memcpy(tls->stamps, stamps, sizeof(stamps));
    return BELFRY_OK;
}

enum belfry_err belfry_tls_refresh(struct belfry_tls *tls, char *why, size_t why_len)
{
    char reason[sizeof(tls->refresh_why)];
    pthread_mutex_lock(&tls->reading);
    enum belfry_err err = refresh(tls, reason, sizeof(reason));
    if (err == BELFRY_OK)
        reason[0] = '\0';
    pthread_mutex_lock(&tls->mu);
    memcpy(tls->refresh_why, reason, sizeof(reason));
    pthread_mutex_unlock(&tls->mu);
    pthread_mutex_unlock(&tls->reading);
    snprintf(why, why_len, "%s", reason);
    return err;
}

bool belfry_tls_refresh_why(struct belfry_tls *tls, char *out, size_t out_len)
{
    pthread_mutex_lock(&tls->mu);
    snprintf(out, out_len, "%s", tls->refresh_why);
    pthread_mutex_unlock(&tls->mu);
    return out[0] != '\0';
}

void belfry_tls_log_refresh(struct belfry_tls *tls, const struct belfry_log *log)
{
    char why[sizeof(tls->refresh_why)];
    pthread_mutex_lock(&tls->mu);
    bool news = strcmp(tls->refresh_why, tls->logged_why) != 0;
    memcpy(why, tls->refresh_why, sizeof(why));
    memcpy(tls->logged_why, why, sizeof(why));
    pthread_mutex_unlock(&tls->mu);
    if (news && why[0] != '\0')
        belfry_logf(log, BELFRY_LOG_WARN, "tls_kept", "why=\"%s\"", why);
}

static bool copy(const char *from, char **out)
{
    return from == NULL || (*out = strdup(from)) != NULL;
}

static bool copy_opts(struct belfry_tls *tls, const struct belfry_tls_opts *opts)
{
    struct belfry_tls_source *sources = tls->sources;
    tls->skip_verify = opts->skip_verify;
    tls->http1 = opts->http1;
    return copy(opts->server_name, &tls->server_name) && copy(opts->cacert, &sources[BELFRY_TLS_CACERT].file) &&
           copy(opts->cacert_pem, &sources[BELFRY_TLS_CACERT].pem) &&
           copy(opts->cert, &sources[BELFRY_TLS_CERT].file) && copy(opts->cert_pem, &sources[BELFRY_TLS_CERT].pem) &&
           copy(opts->key, &sources[BELFRY_TLS_KEY].file) && copy(opts->key_pem, &sources[BELFRY_TLS_KEY].pem);
}

enum belfry_err belfry_tls_create(const struct belfry_tls_opts *opts, struct belfry_tls **out, char *why,
                                  size_t why_len)
{
    bool cert = opts->cert != NULL || opts->cert_pem != NULL, key = opts->key != NULL || opts->key_pem != NULL;
    if (cert != key) {
        snprintf(why, why_len, "a client certificate needs both its cert file and its key file; the %s is missing",
                 cert ? "key file" : "cert file");
        return BELFRY_ERR_INVALID;
    }
    snprintf(why, why_len, "%s", belfry_strerror(BELFRY_ERR_NOMEM));
    struct belfry_tls *tls = make();
    enum belfry_err err = tls != NULL && copy_opts(tls, opts) ? BELFRY_OK : BELFRY_ERR_NOMEM;
    if (err == BELFRY_OK)
        err = refresh(tls, why, why_len); /* nobody else knows of it yet */
    if (err != BELFRY_OK) {
        belfry_tls_destroy(tls);
        return err;
    }
    *out = tls;
    return BELFRY_OK;
}

static enum belfry_err name_sessions(struct belfry_tls *tls, char *why, size_t why_len)
{
    if (RAND_bytes(tls->sessions, sizeof(tls->sessions)) == 1)
        return BELFRY_OK;
    snprintf(why, why_len, "OpenSSL has no randomness");
    return BELFRY_ERR_TLS;
}

enum belfry_err belfry_tls_create_server(const struct belfry_tls_server_opts *opts, struct belfry_tls **out, char *why,
                                         size_t why_len)
{
    if (opts->cert == NULL || opts->key == NULL) {
        snprintf(why, why_len, "a TLS server needs both its cert file and its key file; the %s is missing",
                 opts->cert == NULL ? "cert file" : "key file");
        return BELFRY_ERR_INVALID;
    }
    snprintf(why, why_len, "%s", belfry_strerror(BELFRY_ERR_NOMEM));
    struct belfry_tls *tls = make();
    bool copied = tls != NULL && copy(opts->cert, &tls->sources[BELFRY_TLS_CERT].file) &&
                  copy(opts->key, &tls->sources[BELFRY_TLS_KEY].file) &&
                  copy(opts->client_ca, &tls->sources[BELFRY_TLS_CACERT].file) &&
                  copy(opts->crl, &tls->sources[BELFRY_TLS_CRL].file);
    enum belfry_err err = copied ? BELFRY_OK : BELFRY_ERR_NOMEM;
    if (copied) {
        tls->is_server = true;
        tls->name = opts->name;
        tls->tickets = opts->tickets;
        err = name_sessions(tls, why, why_len);
    }
    if (err == BELFRY_OK)
        err = refresh(tls, why, why_len);
    if (err != BELFRY_OK) {
        belfry_tls_destroy(tls);
        return err;
    }
    *out = tls;
    return BELFRY_OK;
}

uint64_t belfry_tls_version(struct belfry_tls *tls)
{
    pthread_mutex_lock(&tls->mu);
    uint64_t version = tls->version;
    pthread_mutex_unlock(&tls->mu);
    return version;
}

int64_t belfry_tls_expires(struct belfry_tls *tls)
{
    pthread_mutex_lock(&tls->mu);
    int64_t expires_s = tls->expires_s;
    pthread_mutex_unlock(&tls->mu);
    return expires_s;
}

int64_t belfry_tls_crl_due(struct belfry_tls *tls)
{
    pthread_mutex_lock(&tls->mu);
    int64_t due = tls->crl_due;
    pthread_mutex_unlock(&tls->mu);
    return due;
}

bool belfry_tls_cert_is_for(const char *cert, const char *host)
{
    BIO *file = BIO_new_file(cert, "r");
    X509 *leaf = file != NULL ? PEM_read_bio_X509(file, NULL, NULL, NULL) : NULL;
    bool is = leaf != NULL && (X509_check_ip_asc(leaf, host, 0) == 1 || X509_check_host(leaf, host, 0, 0, NULL) == 1);
    X509_free(leaf);
    BIO_free(file);
    ERR_clear_error();
    return is;
}
