/* src/net/tls.c */
#include "net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/tls_private.h"

void belfry_tls_reason(char *out, size_t out_len)
{
    unsigned long code = ERR_get_error();
    const char *reason = ERR_SYSTEM_ERROR(code) ? NULL : ERR_reason_error_string(code);
    char system[128];
    if (ERR_SYSTEM_ERROR(code))
        reason = strerror_r(ERR_GET_REASON(code), system, sizeof(system));
    snprintf(out, out_len, "%s", reason != NULL ? reason : "unknown reason");
    ERR_clear_error();
}

static enum belfry_err fail_file(const char *what, const char *file, char *why, size_t why_len)
{
    char reason[192];
    bool nomem = ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE;
    belfry_tls_reason(reason, sizeof(reason));
    snprintf(why, why_len, "%s %s: %s", what, file, reason);
    return nomem ? BELFRY_ERR_NOMEM : BELFRY_ERR_TLS;
}

/* OpenSSL's own way would ask on the terminal, in the middle of somebody else's program. */
static int no_passphrase(char *buf, int size, int writing, void *user)
{
    (void)buf, (void)size, (void)writing;
    *(bool *)user = true;
    return -1;
}

static enum belfry_err load_trust(SSL_CTX *ctx, const struct belfry_tls_opts *opts, char *why, size_t why_len)
{
    if (opts->skip_verify) {
        SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
        return BELFRY_OK;
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (opts->cacert == NULL)
        return SSL_CTX_set_default_verify_paths(ctx) == 1 ? BELFRY_OK
                                                          : fail_file("CA certificates", "of the system", why, why_len);
    if (SSL_CTX_load_verify_file(ctx, opts->cacert) == 1)
        return BELFRY_OK;
    return fail_file("CA certificate file", opts->cacert, why, why_len);
}

static enum belfry_err load_identity(SSL_CTX *ctx, const char *cert, const char *key, char *why, size_t why_len)
{
    bool locked = false;
    if (cert == NULL)
        return BELFRY_OK;
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, &locked);
    if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
        return fail_file("certificate file", cert, why, why_len);
    int loaded = SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM);
    SSL_CTX_set_default_passwd_cb(ctx, NULL); /* no file is read any more */
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    if (loaded == 1 && SSL_CTX_check_private_key(ctx) == 1)
        return BELFRY_OK;
    if (!locked)
        return fail_file("key file", key, why, why_len);
    snprintf(why, why_len, "key file %s: it is locked by a pass phrase; give a key without one", key);
    return BELFRY_ERR_TLS;
}

static enum belfry_err set_protocol(SSL_CTX *ctx)
{
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 ? BELFRY_OK : BELFRY_ERR_TLS;
}

static enum belfry_err set_client_protocol(SSL_CTX *ctx)
{
    static const unsigned char alpn[] = {2, 'h', '2'};
    enum belfry_err err = set_protocol(ctx);
    if (err != BELFRY_OK)
        return err;
    return SSL_CTX_set_alpn_protos(ctx, alpn, sizeof(alpn)) == 0 ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

enum belfry_err belfry_tls_create(const struct belfry_tls_opts *opts, struct belfry_tls **out, char *why,
                                  size_t why_len)
{
    enum belfry_err err = BELFRY_ERR_NOMEM;
    if ((opts->cert == NULL) != (opts->key == NULL)) {
        snprintf(why, why_len, "a client certificate needs both its cert file and its key file; the %s is missing",
                 opts->cert == NULL ? "cert file" : "key file");
        return BELFRY_ERR_INVALID;
    }
    ERR_clear_error();
    snprintf(why, why_len, "%s", belfry_strerror(BELFRY_ERR_NOMEM));
    struct belfry_tls *tls = calloc(1, sizeof(*tls));
    if (tls == NULL)
        goto fail;
    if (opts->server_name != NULL && (tls->server_name = strdup(opts->server_name)) == NULL)
        goto fail;
    tls->ctx = SSL_CTX_new(TLS_client_method());
    if (tls->ctx == NULL)
        goto fail;
    if ((err = set_client_protocol(tls->ctx)) != BELFRY_OK) {
        snprintf(why, why_len, "TLS 1.2 or ALPN is not possible with this OpenSSL");
        goto fail;
    }
    if ((err = load_trust(tls->ctx, opts, why, why_len)) != BELFRY_OK ||
        (err = load_identity(tls->ctx, opts->cert, opts->key, why, why_len)) != BELFRY_OK)
        goto fail;
    ERR_clear_error();
    *out = tls;
    return BELFRY_OK;

fail:
    ERR_clear_error();
    belfry_tls_destroy(tls);
    return err;
}

/* RFC 7301: a client that offers something, and nothing of ours, is refused; one that offers nothing never comes here. */
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

/* Resumed sessions are worth little to connections that live for days, and their tickets are memory of each. */
static enum belfry_err set_server_protocol(SSL_CTX *ctx)
{
    enum belfry_err err = set_protocol(ctx);
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_num_tickets(ctx, 0);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    return err;
}

static enum belfry_err load_client_ca(SSL_CTX *ctx, const char *file, char *why, size_t why_len)
{
    if (file == NULL)
        return BELFRY_OK;
    if (SSL_CTX_load_verify_file(ctx, file) != 1)
        return fail_file("client CA file", file, why, why_len);
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(file);
    if (names == NULL)
        return fail_file("client CA file", file, why, why_len);
    SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return BELFRY_OK;
}

enum belfry_err belfry_tls_create_server(const struct belfry_tls_server_opts *opts, struct belfry_tls **out, char *why,
                                         size_t why_len)
{
    enum belfry_err err = BELFRY_ERR_NOMEM;
    if (opts->cert == NULL || opts->key == NULL) {
        snprintf(why, why_len, "a TLS server needs both its cert file and its key file; the %s is missing",
                 opts->cert == NULL ? "cert file" : "key file");
        return BELFRY_ERR_INVALID;
    }
    ERR_clear_error();
    snprintf(why, why_len, "%s", belfry_strerror(BELFRY_ERR_NOMEM));
    struct belfry_tls *tls = calloc(1, sizeof(*tls));
    if (tls == NULL || (tls->ctx = SSL_CTX_new(TLS_server_method())) == NULL)
        goto fail;
    if ((err = set_server_protocol(tls->ctx)) != BELFRY_OK) {
        snprintf(why, why_len, "TLS 1.2 is not possible with this OpenSSL");
        goto fail;
    }
    if ((err = load_identity(tls->ctx, opts->cert, opts->key, why, why_len)) != BELFRY_OK ||
        (err = load_client_ca(tls->ctx, opts->client_ca, why, why_len)) != BELFRY_OK)
        goto fail;
    ERR_clear_error();
    *out = tls;
    return BELFRY_OK;

fail:
    ERR_clear_error();
    belfry_tls_destroy(tls);
    return err;
}

bool belfry_tls_subject_name(const X509 *cert, char *out, size_t out_len)
{
    const X509_NAME *subject = X509_get_subject_name(cert);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    unsigned char *name = NULL;
    out[0] = '\0';
    if (at < 0)
        return true;
    int len = ASN1_STRING_to_UTF8(&name, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    bool usable = len >= 0 && (size_t)len < out_len && memchr(name, '\0', (size_t)len) == NULL;
    if (usable) {
        memcpy(out, name, (size_t)len);
        out[len] = '\0';
    }
    OPENSSL_free(name);
    return usable;
}

enum belfry_err belfry_tls_common_name(const char *cert, char *out, size_t out_len)
{
    bool ignored = false, found = false;
    ERR_clear_error();
    BIO *file = BIO_new_file(cert, "r");
    X509 *parsed = file == NULL ? NULL : PEM_read_bio_X509(file, NULL, no_passphrase, &ignored);
    if (parsed != NULL)
        found = belfry_tls_subject_name(parsed, out, out_len);
    X509_free(parsed);
    BIO_free(file);
    ERR_clear_error();
    return found ? BELFRY_OK : BELFRY_ERR_TLS;
}

void belfry_tls_destroy(struct belfry_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->ctx);
    free(tls->server_name);
    free(tls);
}
