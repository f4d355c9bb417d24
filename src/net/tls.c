/* src/net/tls.c */
#include "net/tls.h"

#include <openssl/err.h>
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

static enum belfry_err load_identity(SSL_CTX *ctx, const struct belfry_tls_opts *opts, char *why, size_t why_len)
{
    bool locked = false;
    if (opts->cert == NULL)
        return BELFRY_OK;
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, &locked);
    if (SSL_CTX_use_certificate_chain_file(ctx, opts->cert) != 1)
        return fail_file("certificate file", opts->cert, why, why_len);
    int loaded = SSL_CTX_use_PrivateKey_file(ctx, opts->key, SSL_FILETYPE_PEM);
    SSL_CTX_set_default_passwd_cb(ctx, NULL); /* no file is read any more */
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    if (loaded == 1 && SSL_CTX_check_private_key(ctx) == 1)
        return BELFRY_OK;
    if (!locked)
        return fail_file("key file", opts->key, why, why_len);
    snprintf(why, why_len, "key file %s: it is locked by a pass phrase; give a key without one", opts->key);
    return BELFRY_ERR_TLS;
}

static enum belfry_err set_protocol(SSL_CTX *ctx)
{
    static const unsigned char alpn[] = {2, 'h', '2'};
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1)
        return BELFRY_ERR_TLS;
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
    if ((err = set_protocol(tls->ctx)) != BELFRY_OK) {
        snprintf(why, why_len, "TLS 1.2 or ALPN is not possible with this OpenSSL");
        goto fail;
    }
    if ((err = load_trust(tls->ctx, opts, why, why_len)) != BELFRY_OK ||
        (err = load_identity(tls->ctx, opts, why, why_len)) != BELFRY_OK)
        goto fail;
    ERR_clear_error();
    *out = tls;
    return BELFRY_OK;

fail:
    ERR_clear_error();
    belfry_tls_destroy(tls);
    return err;
}

void belfry_tls_destroy(struct belfry_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->ctx);
    free(tls->server_name);
    free(tls);
}
