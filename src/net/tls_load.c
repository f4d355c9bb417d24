/* src/net/tls_load.c */
#include "net/tls_load.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

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

static enum belfry_err fail(const char *what, const char *where, char *why, size_t why_len)
{
    char reason[192];
    bool nomem = ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE;
    belfry_tls_reason(reason, sizeof(reason));
    snprintf(why, why_len, "%s %s: %s", what, where, reason);
    return nomem ? BELFRY_ERR_NOMEM : BELFRY_ERR_TLS;
}

/* `what` without the word "file", which is only said of one. */
static enum belfry_err fail_source(const char *what, const struct belfry_tls_source *from, char *why, size_t why_len)
{
    char subject[64];
    if (from->pem != NULL)
        return fail(what, "given as text", why, why_len);
    snprintf(subject, sizeof(subject), "%s file", what);
    return fail(subject, from->file, why, why_len);
}

/* OpenSSL's own way would ask on the terminal, in the middle of somebody else's program. */
static int no_passphrase(char *buf, int size, int writing, void *user)
{
    (void)buf, (void)size, (void)writing;
    *(bool *)user = true;
    return -1;
}

/* ---- texts ---- */

/* After the last certificate of a text: whether nothing but the end stopped the reading. */
static bool at_end(void)
{
    unsigned long code = ERR_peek_last_error();
    bool end = ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
    if (end)
        ERR_clear_error();
    return end;
}

static X509 *next_certificate(BIO *text)
{
    bool ignored = false;
    return PEM_read_bio_X509_AUX(text, NULL, no_passphrase, &ignored);
}

static bool trust_text(SSL_CTX *ctx, const char *pem)
{
    BIO *text = BIO_new_mem_buf(pem, -1);
    X509 *cert = text != NULL ? next_certificate(text) : NULL;
    bool fine = cert != NULL;
    while (cert != NULL && fine) {
        fine = X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), cert) == 1;
        X509_free(cert);
        cert = fine ? next_certificate(text) : NULL;
    }
    BIO_free(text);
    return fine && at_end();
}

static bool use_chain_text(SSL_CTX *ctx, const char *pem)
{
    BIO *text = BIO_new_mem_buf(pem, -1);
    X509 *cert = text != NULL ? next_certificate(text) : NULL;
    bool fine = cert != NULL && SSL_CTX_use_certificate(ctx, cert) == 1;
    X509_free(cert);
    while (fine && (cert = next_certificate(text)) != NULL) {
        fine = SSL_CTX_add0_chain_cert(ctx, cert) == 1;
        if (!fine)
            X509_free(cert);
    }
    BIO_free(text);
    return fine && at_end();
}

static bool use_key_text(SSL_CTX *ctx, const char *pem, bool *locked)
{
    BIO *text = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = text != NULL ? PEM_read_bio_PrivateKey(text, NULL, no_passphrase, locked) : NULL;
    bool fine = key != NULL && SSL_CTX_use_PrivateKey(ctx, key) == 1;
    EVP_PKEY_free(key);
    BIO_free(text);
    return fine;
}

/* ---- either ---- */

enum belfry_err belfry_tls_load_trust(SSL_CTX *ctx, const struct belfry_tls_source *from, char *why, size_t why_len)
{
    if (from->pem == NULL && from->file == NULL)
        return SSL_CTX_set_default_verify_paths(ctx) == 1 ? BELFRY_OK
                                                          : fail("CA certificates", "of the system", why, why_len);
    bool loaded = from->pem != NULL ? trust_text(ctx, from->pem) : SSL_CTX_load_verify_file(ctx, from->file) == 1;
    return loaded ? BELFRY_OK : fail_source("CA certificate", from, why, why_len);
}

static bool use_chain(SSL_CTX *ctx, const struct belfry_tls_source *from)
{
    if (from->pem != NULL)
        return use_chain_text(ctx, from->pem);
    return SSL_CTX_use_certificate_chain_file(ctx, from->file) == 1;
}

static bool use_key(SSL_CTX *ctx, const struct belfry_tls_source *from, bool *locked)
{
    if (from->pem != NULL)
        return use_key_text(ctx, from->pem, locked);
    return SSL_CTX_use_PrivateKey_file(ctx, from->file, SSL_FILETYPE_PEM) == 1;
}

enum belfry_err belfry_tls_load_identity(SSL_CTX *ctx, const struct belfry_tls_source *cert,
                                         const struct belfry_tls_source *key, char *why, size_t why_len)
{
    bool locked = false;
    if (cert->pem == NULL && cert->file == NULL)
        return BELFRY_OK;
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, &locked);
    if (!use_chain(ctx, cert))
        return fail_source("certificate", cert, why, why_len);
    bool loaded = use_key(ctx, key, &locked);
    SSL_CTX_set_default_passwd_cb(ctx, NULL); /* nothing is read any more */
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    if (loaded && SSL_CTX_check_private_key(ctx) == 1)
        return BELFRY_OK;
    if (!locked)
        return fail_source("key", key, why, why_len);
    snprintf(why, why_len, "key %s%s: it is locked by a pass phrase; give a key without one",
             key->pem != NULL ? "given as text" : "file ", key->pem != NULL ? "" : key->file);
    return BELFRY_ERR_TLS;
}

enum belfry_err belfry_tls_load_client_ca(SSL_CTX *ctx, const char *file, char *why, size_t why_len)
{
    if (file == NULL)
        return BELFRY_OK;
    if (SSL_CTX_load_verify_file(ctx, file) != 1)
        return fail("client CA file", file, why, why_len);
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(file);
    if (names == NULL)
        return fail("client CA file", file, why, why_len);
    SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return BELFRY_OK;
}

/* ---- lists of revoked certificates ---- */

int64_t belfry_tls_time(const ASN1_TIME *time)
{
    struct tm tm;
    return time != NULL && ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : INT64_MIN;
}

/* The errors that tls.h tolerates. */
static int on_verify(int ok, X509_STORE_CTX *verify)
{
    int error = X509_STORE_CTX_get_error(verify);
    bool tolerated = error == X509_V_ERR_CRL_HAS_EXPIRED ||
                     (error == X509_V_ERR_UNABLE_TO_GET_CRL && X509_STORE_CTX_get_error_depth(verify) > 0);
    if (ok == 0 && tolerated) {
        X509_STORE_CTX_set_error(verify, X509_V_OK);
        return 1;
    }
    return ok;
}

static X509_CRL *next_crl(BIO *text)
{
    bool ignored = false;
    return PEM_read_bio_X509_CRL(text, NULL, no_passphrase, &ignored);
}

static bool add_crls(X509_STORE *store, BIO *text, int64_t *due)
{
    X509_CRL *crl = next_crl(text);
    bool fine = crl != NULL;
    while (crl != NULL && fine) {
        int64_t next = belfry_tls_time(X509_CRL_get0_nextUpdate(crl));
        if (next != INT64_MIN && next < *due)
            *due = next;
        fine = X509_STORE_add_crl(store, crl) == 1;
        X509_CRL_free(crl);
        crl = fine ? next_crl(text) : NULL;
    }
    return fine && at_end();
}

enum belfry_err belfry_tls_load_crl(SSL_CTX *ctx, const char *file, int64_t *due, char *why, size_t why_len)
{
    *due = INT64_MAX;
    if (file == NULL)
        return BELFRY_OK;
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    BIO *text = BIO_new_file(file, "r");
    bool loaded = text != NULL && add_crls(store, text, due);
    BIO_free(text);
    if (!loaded)
        return fail("crl file", file, why, why_len);
    X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
    X509_STORE_set_verify_cb(store, on_verify);
    return BELFRY_OK;
}
