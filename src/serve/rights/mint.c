/* src/serve/rights/mint.c */
#include "serve/rights/mint.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/secret_file.h"
#include "json/json.h"

#define SIGNATURE_MAX 2048 /* RSA with 16384 bits */

enum key_kind { KEY_RSA, KEY_EC, KEY_ED25519, KEY_BYTES };

struct method {
    const char *name;
    enum key_kind key;
    const char *digest; /* NULL: the key's own */
    bool pss;
    const char *curve; /* EC, as OpenSSL calls it */
    int integer_bytes; /* EC: of each half of a signature */
};

/* The first that a key fits is its usual one. */
static const struct method methods[] = {
    {.name = "RS256", .key = KEY_RSA, .digest = "SHA256"},
    {.name = "RS384", .key = KEY_RSA, .digest = "SHA384"},
    {.name = "RS512", .key = KEY_RSA, .digest = "SHA512"},
    {.name = "PS256", .key = KEY_RSA, .digest = "SHA256", .pss = true},
    {.name = "PS384", .key = KEY_RSA, .digest = "SHA384", .pss = true},
    {.name = "PS512", .key = KEY_RSA, .digest = "SHA512", .pss = true},
    {.name = "ES256", .key = KEY_EC, .digest = "SHA256", .curve = "prime256v1", .integer_bytes = 32},
    {.name = "ES384", .key = KEY_EC, .digest = "SHA384", .curve = "secp384r1", .integer_bytes = 48},
    {.name = "ES512", .key = KEY_EC, .digest = "SHA512", .curve = "secp521r1", .integer_bytes = 66},
    {.name = "EdDSA", .key = KEY_ED25519},
    {.name = "HS256", .key = KEY_BYTES, .digest = "SHA256"},
    {.name = "HS384", .key = KEY_BYTES, .digest = "SHA384"},
    {.name = "HS512", .key = KEY_BYTES, .digest = "SHA512"},
};
#define N_METHODS (sizeof(methods) / sizeof(methods[0]))

struct mint {
    const struct method *method;
    EVP_PKEY *key;
};

__attribute__((format(printf, 3, 4))) static enum belfry_err mint_fail(char why[MINT_WHY], const char *file,
                                                                       const char *format, ...)
{
    va_list args;
    int n = snprintf(why, MINT_WHY, "%.200s ", file);
    va_start(args, format);
    vsnprintf(why + n, MINT_WHY - (size_t)n, format, args);
    va_end(args);
    ERR_clear_error();
    return BELFRY_ERR_INVALID;
}

/* ---- the key ---- */

/* OpenSSL would ask for the pass phrase on the terminal. */
static int give_no_phrase(char *to, int size, int writes, void *user)
{
    (void)writes;
    *(bool *)user = true;
    if (size > 0)
        to[0] = '\0';
    return -1;
}

static enum belfry_err mint_read_pem(struct mint *mint, struct belfry_bytes text, const char *file, char why[MINT_WHY])
{
    bool locked = false;
    BIO *bio = BIO_new_mem_buf(text.data, (int)text.len);
    if (bio == NULL)
        return BELFRY_ERR_NOMEM;
    mint->key = PEM_read_bio_PrivateKey(bio, NULL, give_no_phrase, &locked);
    BIO_free(bio);
    if (mint->key != NULL)
        return BELFRY_OK;
    if (locked)
        return mint_fail(why, file, "has a pass phrase: write it without one (openssl pkey -in FILE -out KEY)");
    return mint_fail(why, file, "has no private key (PEM): give the file of priv-key in etcd's --auth-token");
}

static bool mint_fits(const struct mint *mint, const struct method *method)
{
    char curve[32] = "";
    switch (method->key) {
    case KEY_RSA:
        return EVP_PKEY_is_a(mint->key, "RSA") == 1;
    case KEY_EC:
        return EVP_PKEY_is_a(mint->key, "EC") == 1 &&
               EVP_PKEY_get_group_name(mint->key, curve, sizeof(curve), NULL) == 1 && strcmp(curve, method->curve) == 0;
    case KEY_ED25519:
        return EVP_PKEY_is_a(mint->key, "ED25519") == 1;
    case KEY_BYTES:
        break;
    }
    return false;
}

static enum belfry_err mint_choose(struct mint *mint, const char *file, char why[MINT_WHY])
{
    for (size_t i = 0; i < N_METHODS; i++) {
        if (!mint_fits(mint, &methods[i]))
            continue;
        if (mint->method == NULL)
            mint->method = &methods[i];
        if (mint->method == &methods[i])
            return BELFRY_OK;
    }
    if (mint->method != NULL)
        return mint_fail(why, file, "is no key for %s: name the sign-method of etcd's --auth-token",
                         mint->method->name);
    return mint_fail(why, file, "is a key that etcd has no method for: use RSA, EC (P-256, P-384, P-521) or Ed25519");
}

static enum belfry_err mint_take_bytes(struct mint *mint, struct belfry_bytes bytes, const char *file,
                                       char why[MINT_WHY])
{
    if (bytes.len == 0)
        return mint_fail(why, file, "is empty: a key for %s is the bytes of the file", mint->method->name);
    mint->key = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, (const unsigned char *)bytes.data, bytes.len);
    return mint->key != NULL ? BELFRY_OK : BELFRY_ERR_NOMEM;
}

static const struct method *method_named(const char *name)
{
    for (size_t i = 0; i < N_METHODS; i++)
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    return NULL;
}

static enum belfry_err mint_load(struct mint *mint, const char *file, char why[MINT_WHY])
{
    struct belfry_buf text;
    belfry_buf_init(&text);
    enum belfry_err err = belfry_secret_file_read(file, MINT_KEY_MAX, &text, why, MINT_WHY);
    bool is_bytes = mint->method != NULL && mint->method->key == KEY_BYTES;
    if (err == BELFRY_OK && is_bytes)
        err = mint_take_bytes(mint, belfry_buf_bytes(&text), file, why);
    else if (err == BELFRY_OK)
        err = mint_read_pem(mint, belfry_buf_bytes(&text), file, why);
    if (err == BELFRY_OK && !is_bytes)
        err = mint_choose(mint, file, why);
    belfry_secret_buf_fini(&text);
    return err;
}

enum belfry_err mint_create(const char *file, const char *method, struct mint **out, char why[MINT_WHY])
{
    struct mint *mint = calloc(1, sizeof(*mint));
    snprintf(why, MINT_WHY, "out of memory");
    if (mint == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = BELFRY_OK;
    if (method != NULL && (mint->method = method_named(method)) == NULL) {
        snprintf(why, MINT_WHY, "'%.64s' is no method of signing: use one of " MINT_METHODS, method);
        err = BELFRY_ERR_INVALID;
    }
    if (err == BELFRY_OK)
        err = mint_load(mint, file, why);
    ERR_clear_error();
    if (err != BELFRY_OK) {
        mint_destroy(mint);
        return err;
    }
    *out = mint;
    return BELFRY_OK;
}

void mint_destroy(struct mint *mint)
{
    if (mint == NULL)
        return;
    EVP_PKEY_free(mint->key);
    free(mint);
}

const char *mint_method(const struct mint *mint)
{
    return mint->method->name;
}

/* ---- tokens ---- */

/* JWT has r and s of a fixed length, one after the other (RFC 7518, 3.4); OpenSSL has DER. */
static bool join_halves(const struct method *method, unsigned char *signature, size_t *len)
{
    const unsigned char *at = signature;
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &at, (long)*len);
    if (pair == NULL)
        return false;
    int half = method->integer_bytes;
    bool joined = BN_bn2binpad(ECDSA_SIG_get0_r(pair), signature, half) == half &&
                  BN_bn2binpad(ECDSA_SIG_get0_s(pair), signature + half, half) == half;
    *len = 2 * (size_t)half;
    ECDSA_SIG_free(pair);
    return joined;
}

static bool sign_with(const struct mint *mint, EVP_MD_CTX *ctx, struct belfry_bytes text, unsigned char *to,
                      size_t *len)
{
    const struct method *method = mint->method;
    EVP_PKEY_CTX *key_ctx = NULL;
    if (EVP_DigestSignInit_ex(ctx, &key_ctx, method->digest, NULL, NULL, mint->key, NULL) != 1)
        return false;
    if (method->pss && (EVP_PKEY_CTX_set_rsa_padding(key_ctx, RSA_PKCS1_PSS_PADDING) != 1 ||
                        EVP_PKEY_CTX_set_rsa_pss_saltlen(key_ctx, RSA_PSS_SALTLEN_DIGEST) != 1))
        return false;
    if (EVP_DigestSign(ctx, to, len, (const unsigned char *)text.data, text.len) != 1)
        return false;
    return method->key != KEY_EC || join_halves(method, to, len);
}

static enum belfry_err mint_sign(const struct mint *mint, struct belfry_bytes text, struct belfry_buf *out)
{
    unsigned char signature[SIGNATURE_MAX];
    size_t len = sizeof(signature);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool is_signed = ctx != NULL && sign_with(mint, ctx, text, signature, &len);
    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    if (!is_signed)
        return BELFRY_ERR_NOMEM;
    return belfry_base64_encode(BELFRY_BASE64_URL, belfry_bytes_of(signature, len), out);
}

static enum belfry_err write_part(struct belfry_json *json, struct belfry_buf *part, struct belfry_buf *out)
{
    belfry_json_close(json, '}');
    enum belfry_err err = belfry_json_finish(json);
    if (err == BELFRY_OK)
        err = belfry_base64_encode(BELFRY_BASE64_URL, belfry_buf_bytes(part), out);
    belfry_buf_clear(part);
    return err;
}

/* "HEADER.CLAIMS", both as base64. */
static enum belfry_err write_claims(const struct mint *mint, const struct mint_claims *claims, struct belfry_buf *out)
{
    struct belfry_buf part;
    belfry_buf_init(&part);
    struct belfry_json json = belfry_json_begin(&part);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "alg", mint->method->name);
    belfry_json_str(&json, "typ", "JWT");
    enum belfry_err err = write_part(&json, &part, out);
    if (err == BELFRY_OK)
        err = belfry_buf_append(out, ".", 1);
    json = belfry_json_begin(&part);
    belfry_json_open(&json, NULL, '{');
    belfry_json_text(&json, "username", claims->user);
    belfry_json_uint(&json, "revision", claims->revision);
    belfry_json_int(&json, "exp", claims->expires_s);
    if (err == BELFRY_OK)
        err = write_part(&json, &part, out);
    belfry_buf_fini(&part);
    return err;
}

enum belfry_err mint_token(const struct mint *mint, const struct mint_claims *claims, struct belfry_buf *out)
{
    struct belfry_buf token;
    belfry_buf_init(&token);
    enum belfry_err err = write_claims(mint, claims, &token);
    struct belfry_bytes is_signed = belfry_buf_bytes(&token);
    struct belfry_buf signature;
    belfry_buf_init(&signature);
    if (err == BELFRY_OK)
        err = mint_sign(mint, is_signed, &signature);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&token, ".", 1);
    struct belfry_bytes tail = belfry_buf_bytes(&signature);
    if (err == BELFRY_OK)
        err = belfry_buf_append(&token, tail.data, tail.len);
    struct belfry_bytes whole = belfry_buf_bytes(&token);
    if (err == BELFRY_OK)
        err = belfry_buf_append(out, whole.data, whole.len);
    belfry_buf_fini(&signature);
    belfry_buf_fini(&token);
    return err;
}
