/* src/net/tls_load.c */
#include "net/tls_load.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>

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

/* ---- names ---- */

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
