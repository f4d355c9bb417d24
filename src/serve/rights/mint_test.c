/* src/serve/rights/mint_test.c: each token is verified with the public key, by OpenSSL. */
#include "serve/rights/mint.h"

#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base64.h"
#include "support/refuse.h"

static char folder[64], file[96];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/mint_test.XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/key", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(folder);
}

static void write_file(const void *data, size_t len)
{
    unlink(file);
    int fd = open(file, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0 && write(fd, data, len) == (ssize_t)len);
    close(fd);
}

static void write_key(EVP_PKEY *key, const char *phrase)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text;
    assert_int_equal(PEM_write_bio_PKCS8PrivateKey(bio, key, phrase != NULL ? EVP_aes_128_cbc() : NULL, phrase,
                                                   phrase != NULL ? (int)strlen(phrase) : 0, NULL, NULL),
                     1);
    long len = BIO_get_mem_data(bio, &text);
    write_file(text, (size_t)len);
    BIO_free(bio);
}

static EVP_PKEY *make_key(const char *kind)
{
    EVP_PKEY *key = strcmp(kind, "RSA") == 0       ? EVP_RSA_gen(2048)
                    : strcmp(kind, "ED25519") == 0 ? EVP_PKEY_Q_keygen(NULL, NULL, kind)
                                                   : EVP_EC_gen(kind);
    assert_non_null(key);
    write_key(key, NULL);
    return key;
}

/* ---- verifying ---- */

struct parts {
    char header[200], claims[2000];
    struct belfry_buf signature;
    struct belfry_bytes is_signed;
};

static void decode_part(struct belfry_bytes text, char *out, size_t size)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    assert_int_equal(belfry_base64_decode(BELFRY_BASE64_URL, text, &buf), BELFRY_OK);
    assert_true(belfry_buf_len(&buf) < size);
    memcpy(out, buf.data + buf.start, belfry_buf_len(&buf));
    out[belfry_buf_len(&buf)] = '\0';
    belfry_buf_fini(&buf);
}

static void take_apart(struct belfry_bytes token, struct parts *out)
{
    const char *end = token.data + token.len, *dot = memchr(token.data, '.', token.len);
    assert_non_null(dot);
    const char *second = memchr(dot + 1, '.', (size_t)(end - dot - 1));
    assert_non_null(second);
    assert_null(memchr(second + 1, '.', (size_t)(end - second - 1)));
    decode_part(belfry_bytes_of(token.data, (size_t)(dot - token.data)), out->header, sizeof(out->header));
    decode_part(belfry_bytes_of(dot + 1, (size_t)(second - dot - 1)), out->claims, sizeof(out->claims));
    out->is_signed = belfry_bytes_of(token.data, (size_t)(second - token.data));
    belfry_buf_init(&out->signature);
    assert_int_equal(belfry_base64_decode(BELFRY_BASE64_URL, belfry_bytes_of(second + 1, (size_t)(end - second - 1)),
                                          &out->signature),
                     BELFRY_OK);
}

/* r and s to DER, as OpenSSL wants them. */
static size_t to_der(struct belfry_bytes halves, unsigned char **out)
{
    ECDSA_SIG *pair = ECDSA_SIG_new();
    const unsigned char *at = (const unsigned char *)halves.data;
    int half = (int)halves.len / 2;
    assert_int_equal(ECDSA_SIG_set0(pair, BN_bin2bn(at, half, NULL), BN_bin2bn(at + half, half, NULL)), 1);
    *out = NULL;
    int len = i2d_ECDSA_SIG(pair, out);
    assert_true(len > 0);
    ECDSA_SIG_free(pair);
    return (size_t)len;
}

static bool is_verified(EVP_PKEY *key, const char *digest, bool pss, struct belfry_bytes text,
                        struct belfry_bytes signature)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *key_ctx = NULL;
    unsigned char *der = NULL;
    size_t len = signature.len;
    const unsigned char *bytes = (const unsigned char *)signature.data;
    if (EVP_PKEY_is_a(key, "EC")) {
        len = to_der(signature, &der);
        bytes = der;
    }
    assert_int_equal(EVP_DigestVerifyInit_ex(ctx, &key_ctx, digest, NULL, NULL, key, NULL), 1);
    if (pss)
        assert_true(EVP_PKEY_CTX_set_rsa_padding(key_ctx, RSA_PKCS1_PSS_PADDING) == 1 &&
                    EVP_PKEY_CTX_set_rsa_pss_saltlen(key_ctx, RSA_PSS_SALTLEN_DIGEST) == 1);
    bool verified = EVP_DigestVerify(ctx, bytes, len, (const unsigned char *)text.data, text.len) == 1;
    OPENSSL_free(der);
    EVP_MD_CTX_free(ctx);
    return verified;
}

/* ---- tests ---- */

static const struct mint_claims alice = {.user = {"alice", 5}, .revision = 17, .expires_s = INT64_C(1767225600)};

static void check_token(EVP_PKEY *key, const char *method, const char *digest, size_t bytes)
{
    struct mint *mint;
    struct parts parts;
    struct belfry_buf token;
    char why[MINT_WHY], header[100];
    belfry_buf_init(&token);
    assert_int_equal(mint_create(file, method, &mint, why), BELFRY_OK);
    assert_int_equal(mint_token(mint, &alice, &token), BELFRY_OK);
    take_apart(belfry_buf_bytes(&token), &parts);
    snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"typ\":\"JWT\"}", mint_method(mint));
    assert_string_equal(parts.header, header);
    assert_true(method == NULL || strcmp(mint_method(mint), method) == 0);
    assert_string_equal(parts.claims, "{\"username\":\"alice\",\"revision\":17,\"exp\":1767225600}");
    assert_true(bytes == 0 || belfry_buf_len(&parts.signature) == bytes);
    bool pss = strncmp(mint_method(mint), "PS", 2) == 0;
    assert_true(is_verified(key, digest, pss, parts.is_signed, belfry_buf_bytes(&parts.signature)));
    parts.signature.data[parts.signature.start + 9] ^= 1;
    assert_false(is_verified(key, digest, pss, parts.is_signed, belfry_buf_bytes(&parts.signature)));
    belfry_buf_fini(&parts.signature);
    belfry_buf_fini(&token);
    mint_destroy(mint);
}

static void rsa_key_signs_by_each_of_its_methods(void **state)
{
    (void)state;
    EVP_PKEY *key = make_key("RSA");
    static const char *const methods[][2] = {{NULL, "SHA256"},    {"RS256", "SHA256"}, {"RS384", "SHA384"},
                                             {"RS512", "SHA512"}, {"PS256", "SHA256"}, {"PS384", "SHA384"},
                                             {"PS512", "SHA512"}};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        check_token(key, methods[i][0], methods[i][1], 256);
    EVP_PKEY_free(key);
}

static void ec_signature_is_two_integers_of_a_fixed_length(void **state)
{
    (void)state;
    static const struct {
        const char *curve, *method, *digest;
        size_t bytes;
    } curves[] = {
        {"P-256", "ES256", "SHA256", 64}, {"P-384", "ES384", "SHA384", 96}, {"P-521", "ES512", "SHA512", 132}};
    for (size_t i = 0; i < 3; i++) {
        EVP_PKEY *key = make_key(curves[i].curve);
        check_token(key, NULL, curves[i].digest, curves[i].bytes);
        for (int n = 0; n < 200; n++) /* one in 256 has a leading zero */
            check_token(key, curves[i].method, curves[i].digest, curves[i].bytes);
        EVP_PKEY_free(key);
    }
}

static void ed25519_key_signs(void **state)
{
    (void)state;
    EVP_PKEY *key = make_key("ED25519");
    check_token(key, NULL, NULL, 64);
    check_token(key, "EdDSA", NULL, 64);
    EVP_PKEY_free(key);
}

/* The same signature is made with OpenSSL's HMAC. */
static void bytes_of_a_file_are_a_key_when_the_method_says_so(void **state)
{
    (void)state;
    static const unsigned char secret[] = "not a PEM\n\0\xff, whole";
    struct mint *mint;
    struct parts parts;
    struct belfry_buf token;
    char why[MINT_WHY];
    unsigned char expected[EVP_MAX_MD_SIZE];
    size_t len;
    write_file(secret, sizeof(secret));
    assert_int_equal(mint_create(file, "HS384", &mint, why), BELFRY_OK);
    belfry_buf_init(&token);
    assert_int_equal(mint_token(mint, &alice, &token), BELFRY_OK);
    take_apart(belfry_buf_bytes(&token), &parts);
    assert_string_equal(parts.header, "{\"alg\":\"HS384\",\"typ\":\"JWT\"}");
    assert_non_null(EVP_Q_mac(NULL, "HMAC", NULL, "SHA384", NULL, secret, sizeof(secret),
                              (const unsigned char *)parts.is_signed.data, parts.is_signed.len, expected,
                              sizeof(expected), &len));
    assert_int_equal(belfry_buf_len(&parts.signature), len);
    assert_memory_equal(parts.signature.data + parts.signature.start, expected, len);
    belfry_buf_fini(&parts.signature);
    belfry_buf_fini(&token);
    mint_destroy(mint);
}

static void names_are_escaped(void **state)
{
    (void)state;
    EVP_PKEY *key = make_key("P-256");
    struct mint *mint;
    struct parts parts;
    struct belfry_buf token;
    char why[MINT_WHY];
    struct mint_claims claims = {.user = belfry_bytes_str("a\\\",\"username\":\"root\xc3\xa4"), .revision = 1};
    belfry_buf_init(&token);
    assert_int_equal(mint_create(file, NULL, &mint, why), BELFRY_OK);
    assert_int_equal(mint_token(mint, &claims, &token), BELFRY_OK);
    take_apart(belfry_buf_bytes(&token), &parts);
    assert_string_equal(parts.claims,
                        "{\"username\":\"a\\\\\\\",\\\"username\\\":\\\"root\xc3\xa4\",\"revision\":1,\"exp\":0}");
    belfry_buf_fini(&parts.signature);
    belfry_buf_fini(&token);
    mint_destroy(mint);
    EVP_PKEY_free(key);
}

static void refused(const char *method, const char *what)
{
    struct mint *mint = NULL;
    char why[MINT_WHY];
    assert_int_equal(mint_create(file, method, &mint, why), BELFRY_ERR_INVALID);
    assert_null(mint);
    if (strstr(why, what) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why, what);
}

static void key_that_cannot_be_used_is_refused_with_a_remedy(void **state)
{
    (void)state;
    EVP_PKEY *rsa = make_key("RSA");
    refused("RS257", "'RS257' is no method of signing: use one of RS256|");
    refused("ES256", "is no key for ES256: name the sign-method");
    chmod(file, 0644);
    refused(NULL, "can be read by every user of this machine: run chmod o-rwx on it");
    chmod(file, 0602);
    refused(NULL, "can be written by every user");
    write_key(rsa, "phrase");
    refused(NULL, "has a pass phrase: write it without one");
    EVP_PKEY_free(rsa);
    EVP_PKEY_free(make_key("secp256k1"));
    refused(NULL, "is a key that etcd has no method for");
    EVP_PKEY_free(make_key("P-384"));
    refused("ES256", "is no key for ES256");
    refused("EdDSA", "is no key for EdDSA");
    write_file("-----BEGIN PUBLIC KEY-----\n", 27);
    refused(NULL, "has no private key (PEM): give the file of priv-key");
    write_file("", 0);
    refused(NULL, "has no private key");
    refused("HS256", "is empty");
    static char long_file[MINT_KEY_MAX + 1];
    write_file(long_file, sizeof(long_file));
    refused("HS256", "is too long for a key");
    unlink(file);
    refused(NULL, "cannot be read: No such file");
    assert_int_equal(mkfifo(file, 0600), 0);
    refused(NULL, "is no file that can be read");
}

static enum belfry_err scenario(void)
{
    struct mint *mint = NULL;
    struct belfry_buf token;
    char why[MINT_WHY];
    belfry_buf_init(&token);
    enum belfry_err err = mint_create(file, NULL, &mint, why);
    if (err == BELFRY_OK)
        err = mint_token(mint, &alice, &token);
    belfry_buf_fini(&token);
    mint_destroy(mint);
    return err;
}

static void every_refused_allocation_is_reported(void **state)
{
    (void)state;
    EVP_PKEY_free(make_key("P-256"));
    assert_true(refuse_sweep(scenario) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rsa_key_signs_by_each_of_its_methods),
        cmocka_unit_test(ec_signature_is_two_integers_of_a_fixed_length),
        cmocka_unit_test(ed25519_key_signs),
        cmocka_unit_test(bytes_of_a_file_are_a_key_when_the_method_says_so),
        cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(key_that_cannot_be_used_is_refused_with_a_remedy),
        cmocka_unit_test(every_refused_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
