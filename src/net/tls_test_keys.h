/* src/net/tls_test_keys.h: certificates for the unit suites, made when they run, in a folder that they remove. */
#ifndef BELFRY_NET_TLS_TEST_KEYS_H
#define BELFRY_NET_TLS_TEST_KEYS_H

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct test_keys {
    char folder[64];
    char ca[96];                       /* trusts the two below */
    char other_ca[96];                 /* trusts nothing here */
    char server[96], server_key[96];   /* for etcd.test and 127.0.0.1 */
    char client[96], client_key[96];   /* a client's */
    char unnamed[96], unnamed_key[96]; /* likewise, without a common name */
    char forged[96], forged_key[96];   /* likewise, signed by another CA of the same name */
    char old_server[96], old_key[96];  /* as server, but expired */
    char locked_key[96];               /* the client's key behind a pass phrase */
};

struct issuer {
    X509 *cert;
    EVP_PKEY *key;
};

static inline void keys_must(bool fine)
{
    if (!fine)
        abort();
}

static inline void keys_extend(X509 *cert, X509 *ca, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, ca, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    keys_must(extension != NULL && X509_add_ext(cert, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

/* A certificate for `names` ("DNS:a,IP:1.2.3.4"; NULL makes a CA), signed by `by` (NULL: by itself). common_name NULL:
 * it has an organization only. */
static inline struct issuer keys_issue(const char *common_name, const char *names, const struct issuer *by, long days)
{
    static long serial = 1;
    struct issuer made = {X509_new(), EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256")};
    keys_must(made.cert != NULL && made.key != NULL);
    X509 *signer = by == NULL ? made.cert : by->cert;
    X509_NAME *subject = X509_get_subject_name(made.cert);
    X509_set_version(made.cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.cert), serial++);
    X509_gmtime_adj(X509_getm_notBefore(made.cert), -2 * 86400);
    X509_gmtime_adj(X509_getm_notAfter(made.cert), days * 86400);
    X509_NAME_add_entry_by_txt(subject, common_name != NULL ? "CN" : "O", MBSTRING_ASC,
                               (const unsigned char *)(common_name != NULL ? common_name : "belfry"), -1, -1, 0);
    X509_set_issuer_name(made.cert, X509_get_subject_name(signer));
    X509_set_pubkey(made.cert, made.key);
    keys_extend(made.cert, signer, NID_basic_constraints, names == NULL ? "critical,CA:TRUE" : "critical,CA:FALSE");
    if (names != NULL)
        keys_extend(made.cert, signer, NID_subject_alt_name, names);
    keys_must(X509_sign(made.cert, by == NULL ? made.key : by->key, EVP_sha256()) > 0);
    return made;
}

static inline FILE *keys_file(const struct test_keys *keys, const char *name, char *path, size_t path_len)
{
    snprintf(path, path_len, "%s/%s", keys->folder, name);
    FILE *file = fopen(path, "w");
    keys_must(file != NULL);
    return file;
}

static inline void keys_write_cert(const struct test_keys *keys, const char *name, X509 *cert, char *path)
{
    FILE *file = keys_file(keys, name, path, 96);
    keys_must(PEM_write_X509(file, cert) == 1);
    fclose(file);
}

static inline void keys_write_key(const struct test_keys *keys, const char *name, EVP_PKEY *key, char *path,
                                  const char *phrase)
{
    FILE *file = keys_file(keys, name, path, 96);
    keys_must(PEM_write_PKCS8PrivateKey(file, key, phrase == NULL ? NULL : EVP_aes_128_cbc(), phrase,
                                        phrase == NULL ? 0 : (int)strlen(phrase), NULL, NULL) == 1);
    fclose(file);
}

static inline void keys_end(struct issuer *issuer)
{
    X509_free(issuer->cert);
    EVP_PKEY_free(issuer->key);
}

static inline void keys_make(struct test_keys *keys)
{
    static const char server_names[] = "DNS:etcd.test,DNS:localhost,IP:127.0.0.1";
    memset(keys, 0, sizeof(*keys));
    strcpy(keys->folder, "/tmp/belfry-tls-XXXXXX");
    keys_must(mkdtemp(keys->folder) != NULL);
    struct issuer ca = keys_issue("test CA", NULL, NULL, 10), other = keys_issue("other CA", NULL, NULL, 10);
    struct issuer server = keys_issue("etcd.test", server_names, &ca, 5);
    struct issuer old = keys_issue("etcd.test", server_names, &ca, -1);
    struct issuer client = keys_issue("alice", "DNS:alice.test", &ca, 5);
    struct issuer unnamed = keys_issue(NULL, "DNS:alice.test", &ca, 5);
    struct issuer stranger = keys_issue("test CA", NULL, NULL, 10);
    struct issuer forged = keys_issue("alice", "DNS:alice.test", &stranger, 5);
    keys_write_cert(keys, "ca.pem", ca.cert, keys->ca);
    keys_write_cert(keys, "other-ca.pem", other.cert, keys->other_ca);
    keys_write_cert(keys, "server.pem", server.cert, keys->server);
    keys_write_key(keys, "server.key", server.key, keys->server_key, NULL);
    keys_write_cert(keys, "old.pem", old.cert, keys->old_server);
    keys_write_key(keys, "old.key", old.key, keys->old_key, NULL);
    keys_write_cert(keys, "client.pem", client.cert, keys->client);
    keys_write_key(keys, "client.key", client.key, keys->client_key, NULL);
    keys_write_cert(keys, "unnamed.pem", unnamed.cert, keys->unnamed);
    keys_write_key(keys, "unnamed.key", unnamed.key, keys->unnamed_key, NULL);
    keys_write_cert(keys, "forged.pem", forged.cert, keys->forged);
    keys_write_key(keys, "forged.key", forged.key, keys->forged_key, NULL);
    keys_write_key(keys, "locked.key", client.key, keys->locked_key, "secret");
    keys_end(&ca);
    keys_end(&other);
    keys_end(&server);
    keys_end(&old);
    keys_end(&client);
    keys_end(&unnamed);
    keys_end(&stranger);
    keys_end(&forged);
}

static inline void keys_remove(const struct test_keys *keys)
{
    const char *const paths[] = {keys->ca,          keys->other_ca, keys->server,     keys->server_key,
                                 keys->old_server,  keys->client,   keys->client_key, keys->unnamed,
                                 keys->unnamed_key, keys->old_key,  keys->locked_key, keys->forged,
                                 keys->forged_key};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        unlink(paths[i]);
    rmdir(keys->folder);
}

#endif
