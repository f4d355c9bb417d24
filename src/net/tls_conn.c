/* src/net/tls_conn.c */
#include "net/tls_conn.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/owner.h"
#include "net/tls_name.h"
#include "net/tls_peer.h"
#include "net/tls_private.h"

#define OUTPUT_MAX (64 * 1024) /* unsent bytes at which the next of ours means that the peer does not read */
#define RECORD_MAX 16384       /* plain bytes of one record, RFC 8446, section 5.1 */

struct belfry_tls_conn {
    SSL *ssl;
    struct belfry_bytes input; /* lent by feed; what OpenSSL has not taken yet */
    struct belfry_buf output;
    bool started; /* the first byte of the peer has been looked at */
    bool nomem;   /* `output` could not grow */
    bool http1;   /* a client's: HTTP/1.1 will do as well */
    char why[320];
    /* after the handshake */
    char alpn[16]; /* as much of it as fits, and what we know fits */
    /* a server's */
    enum belfry_tls_name name;
    char user[BELFRY_TLS_NAME_BYTES];
    uint64_t version;  /* of the files that the client's certificate was checked with */
    int64_t expires_s; /* the first of its chain; Unix time */
    BELFRY_OWNER;
};

/* OpenSSL reads from `input` and writes to `output` through a BIO of our own. */
static int bio_read(BIO *bio, char *buf, size_t cap, size_t *out_n)
{
    struct belfry_tls_conn *conn = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    size_t n = conn->input.len < cap ? conn->input.len : cap;
    if (n == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(buf, conn->input.data, n);
    conn->input.data += n;
    conn->input.len -= n;
    *out_n = n;
    return 1;
}

static int bio_write(BIO *bio, const char *data, size_t len, size_t *out_n)
{
    struct belfry_tls_conn *conn = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (belfry_buf_len(&conn->output) > OUTPUT_MAX)
        return 0;
    if (belfry_buf_append(&conn->output, data, len) != BELFRY_OK) {
        conn->nomem = true;
        return 0;
    }
    *out_n = len;
    return 1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static pthread_once_t method_once = PTHREAD_ONCE_INIT;
static BIO_METHOD *method; /* one for the process, as the methods of OpenSSL itself are */

static void make_method(void)
{
    BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "belfry");
    if (made == NULL)
        return;
    BIO_meth_set_read_ex(made, bio_read);
    BIO_meth_set_write_ex(made, bio_write);
    BIO_meth_set_ctrl(made, bio_ctrl);
    method = made;
}

static bool attach_bio(struct belfry_tls_conn *conn)
{
    pthread_once(&method_once, make_method);
    BIO *bio = method == NULL ? NULL : BIO_new(method);
    if (bio == NULL)
        return false;
    BIO_set_data(bio, conn);
    BIO_set_init(bio, 1);
    SSL_set_bio(conn->ssl, bio, bio);
    return true;
}

/* Certificates and SNI know neither the zone of an address nor the dot that ends an absolute name. */
static bool set_peer(SSL *ssl, const char *host)
{
    char name[256];
    snprintf(name, sizeof(name), "%s", host);
    name[strcspn(name, "%")] = '\0';
    struct in6_addr ignored;
    if (inet_pton(AF_INET, name, &ignored) == 1 || inet_pton(AF_INET6, name, &ignored) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    size_t len = strlen(name);
    if (len > 1 && name[len - 1] == '.')
        name[len - 1] = '\0';
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

static struct belfry_tls_conn *make_conn(SSL_CTX *ctx)
{
    struct belfry_tls_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return NULL;
    belfry_buf_init(&conn->output);
    conn->ssl = SSL_new(ctx);
    if (conn->ssl != NULL && attach_bio(conn))
        return conn;
    ERR_clear_error();
    belfry_tls_conn_destroy(conn);
    return NULL;
}

enum belfry_err belfry_tls_conn_create(struct belfry_tls *tls, const char *host, struct belfry_tls_conn **out)
{
    ERR_clear_error();
    uint64_t version;
    SSL_CTX *ctx = belfry_tls_context(tls, &version);
    struct belfry_tls_conn *conn = make_conn(ctx);
    SSL_CTX_free(ctx); /* the connection has its own reference */
    if (conn == NULL)
        return BELFRY_ERR_NOMEM;
    conn->http1 = tls->http1;
    if (!set_peer(conn->ssl, tls->server_name != NULL ? tls->server_name : host)) {
        ERR_clear_error();
        belfry_tls_conn_destroy(conn);
        return BELFRY_ERR_TLS;
    }
    SSL_set_connect_state(conn->ssl);
    BELFRY_OWNER_INIT(conn);
    *out = conn;
    return BELFRY_OK;
}

enum belfry_err belfry_tls_conn_accept(struct belfry_tls *tls, struct belfry_tls_conn **out)
{
    ERR_clear_error();
    uint64_t version;
    SSL_CTX *ctx = belfry_tls_context(tls, &version);
    struct belfry_tls_conn *conn = make_conn(ctx);
    SSL_CTX_free(ctx);
    if (conn == NULL)
        return BELFRY_ERR_NOMEM;
    conn->version = version;
    conn->name = tls->name;
    conn->expires_s = INT64_MAX;
    SSL_set_accept_state(conn->ssl);
    *out = conn;
    return BELFRY_OK;
}

const char *belfry_tls_conn_alpn(const struct belfry_tls_conn *conn)
{
    return conn->alpn;
}

const char *belfry_tls_conn_user(const struct belfry_tls_conn *conn)
{
    return conn->user;
}

bool belfry_tls_conn_is_resumed(const struct belfry_tls_conn *conn)
{
    return SSL_session_reused(conn->ssl) == 1;
}

/* An empty or unreadable name counts, and so does any of several: which of them a server reads is its own business. */
bool belfry_tls_conn_has_name(const struct belfry_tls_conn *conn)
{
    const X509 *cert = SSL_get_certificate(conn->ssl);
    return cert != NULL && X509_NAME_get_index_by_NID(X509_get_subject_name(cert), NID_commonName, -1) >= 0;
}

bool belfry_tls_conn_peer(const struct belfry_tls_conn *conn, struct belfry_tls_peer *out)
{
    const X509 *cert = SSL_get0_peer_certificate(conn->ssl);
    if (cert != NULL)
        belfry_tls_peer_read(cert, out);
    return cert != NULL;
}

void belfry_tls_conn_destroy(struct belfry_tls_conn *conn)
{
    if (conn == NULL)
        return;
    BELFRY_OWNER_CHECK(conn);
    SSL_free(conn->ssl);
    belfry_buf_fini(&conn->output);
    free(conn);
}

void belfry_tls_conn_feed(struct belfry_tls_conn *conn, struct belfry_bytes bytes)
{
    BELFRY_OWNER_CHECK(conn);
    conn->input = bytes;
}

static enum belfry_err fail_tls(struct belfry_tls_conn *conn, const char *sentence)
{
    snprintf(conn->why, sizeof(conn->why), "%s", sentence);
    ERR_clear_error();
    return BELFRY_ERR_TLS;
}

static enum belfry_err fail_verify(struct belfry_tls_conn *conn, long result)
{
    const char *remedy = SSL_is_server(conn->ssl) ? "the client must show one signed by the client CA"
                                                  : "name the CA of the server (cacert)";
    if (result == X509_V_ERR_HOSTNAME_MISMATCH || result == X509_V_ERR_IP_ADDRESS_MISMATCH)
        remedy = "connect by a name in the certificate, or set the server name";
    else if (result == X509_V_ERR_CERT_HAS_EXPIRED || result == X509_V_ERR_CERT_NOT_YET_VALID)
        remedy = "renew the certificate, or set the clock right";
    else if (result == X509_V_ERR_CERT_REVOKED)
        remedy = "the client needs a new certificate";
    else if (result == X509_V_ERR_UNABLE_TO_GET_CRL)
        remedy = "the crl file needs a list of the authority that signed it";
    else if (result == X509_V_ERR_CRL_SIGNATURE_FAILURE)
        remedy = "if two authorities have one name, their lists must have an authorityKeyIdentifier";
    snprintf(conn->why, sizeof(conn->why), "certificate verify failed: %s; %s", X509_verify_cert_error_string(result),
             remedy);
    ERR_clear_error();
    return BELFRY_ERR_TLS;
}

static enum belfry_err fail_alpn(struct belfry_tls_conn *conn)
{
    return fail_tls(conn, conn->http1 ? "the server speaks neither HTTP/2 nor HTTP/1.1 (ALPN h2, http/1.1)"
                                      : "the server did not offer HTTP/2 (ALPN h2)");
}

/* What others left in the queue, which is hardly ever something: to clear an empty one costs as much as a record's
 * encryption. */
static void clear_errors(void)
{
    if (ERR_peek_error() != 0)
        ERR_clear_error();
}

/* Translates what OpenSSL says after a call that gave nothing. */
static enum belfry_err tls_outcome(struct belfry_tls_conn *conn, int returned)
{
    char reason[192], sentence[sizeof(conn->why)];
    int error = SSL_get_error(conn->ssl, returned);
    if (conn->nomem || ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE) {
        ERR_clear_error();
        return BELFRY_ERR_NOMEM;
    }
    if (error == SSL_ERROR_WANT_READ) {
        clear_errors();
        return BELFRY_ERR_AGAIN;
    }
    if (error == SSL_ERROR_ZERO_RETURN)
        return BELFRY_ERR_UNAVAILABLE;
    if (belfry_buf_len(&conn->output) > OUTPUT_MAX)
        return fail_tls(conn, "the peer makes TLS answer and does not read the answers");

    /* That a certificate did not verify is the last error: what made it fail, such as a wrong signature, may be in the
     * queue before it. */
    int code = ERR_GET_REASON(ERR_peek_error());
    unsigned long last = ERR_peek_last_error();
    if (ERR_GET_LIB(last) == ERR_LIB_SSL && ERR_GET_REASON(last) == SSL_R_CERTIFICATE_VERIFY_FAILED)
        return fail_verify(conn, SSL_get_verify_result(conn->ssl));
    if (code == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
        return fail_tls(conn, "the client showed no certificate, and one is asked for");
    if (code == SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL)
        return fail_alpn(conn);
    bool is_about_ours =
        !SSL_is_server(conn->ssl) &&
        (code == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED || code == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
         code == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN || code == SSL_R_TLSV1_ALERT_UNKNOWN_CA);
    belfry_tls_reason(reason, sizeof(reason));
    snprintf(sentence, sizeof(sentence), "TLS failed: %s%s", reason,
             is_about_ours ? "; the server wants another client certificate (cert, key)" : "");
    return fail_tls(conn, sentence);
}

static int64_t first_expiry(STACK_OF(X509) * chain)
{
    int64_t first = INT64_MAX;
    for (int i = 0; i < sk_X509_num(chain); i++) {
        int64_t expires = belfry_tls_time(X509_get0_notAfter(sk_X509_value(chain, i)));
        first = expires < first ? expires : first;
    }
    return first;
}

/* Checks the client's chain as a handshake would, with the files as they are now. */
static enum belfry_err tls_verify_again(struct belfry_tls_conn *conn, SSL_CTX *ctx, X509 *cert, int64_t now_s)
{
    X509_STORE_CTX *verify = X509_STORE_CTX_new();
    enum belfry_err err = BELFRY_ERR_NOMEM;
    if (verify == NULL ||
        X509_STORE_CTX_init(verify, SSL_CTX_get_cert_store(ctx), cert, SSL_get_peer_cert_chain(conn->ssl)) != 1 ||
        X509_STORE_CTX_set_default(verify, "ssl_client") != 1)
        goto done;
    X509_STORE_CTX_set_time(verify, 0, (time_t)now_s);
    int result = X509_verify_cert(verify) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(verify);
    if (result == X509_V_ERR_OUT_OF_MEM)
        goto done;
    err = result == X509_V_OK ? BELFRY_OK : fail_verify(conn, result);
    if (err == BELFRY_OK)
        conn->expires_s = first_expiry(X509_STORE_CTX_get0_chain(verify));

done:
    X509_STORE_CTX_free(verify);
    ERR_clear_error();
    return err;
}

static bool store_has_cert(STACK_OF(X509_OBJECT) * objects, const X509 *cert)
{
    for (int i = 0; i < sk_X509_OBJECT_num(objects); i++) {
        const X509 *trusted = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, i));
        if (trusted != NULL && X509_cmp(trusted, cert) == 0)
            return true;
    }
    return false;
}

enum listed { LISTED_NOWHERE, LISTED_GOOD, LISTED_REVOKED };

/* What the lists of its authority say of a certificate; signatures are not checked here. */
static enum listed look_up_lists(STACK_OF(X509_OBJECT) * objects, X509 *cert)
{
    enum listed found = LISTED_NOWHERE;
    for (int i = 0; i < sk_X509_OBJECT_num(objects); i++) {
        X509_CRL *list = X509_OBJECT_get0_X509_CRL(sk_X509_OBJECT_value(objects, i));
        X509_REVOKED *ignored;
        if (list == NULL || X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_issuer_name(cert)) != 0)
            continue;
        if (X509_CRL_get0_by_cert(list, &ignored, cert) != 0)
            return LISTED_REVOKED;
        found = LISTED_GOOD;
    }
    return found;
}

/* Could the files as they are now say something else of a chain that was verified before? About a microsecond, where a
 * verification takes hundreds: after a new list only the few certificates in it are verified again. */
static bool is_suspect(X509_STORE *store, STACK_OF(X509) * chain)
{
    bool wants_list = (X509_VERIFY_PARAM_get_flags(X509_STORE_get0_param(store)) & X509_V_FLAG_CRL_CHECK) != 0;
    int n = sk_X509_num(chain);
    X509_STORE_lock(store);
    STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(store);
    bool suspect = n <= 0 || !store_has_cert(objects, sk_X509_value(chain, n - 1));
    for (int i = 0; i < n && wants_list && !suspect; i++) {
        enum listed found = look_up_lists(objects, sk_X509_value(chain, i));
        suspect = found == LISTED_REVOKED || (found == LISTED_NOWHERE && i == 0);
    }
    X509_STORE_unlock(store);
    return suspect;
}

enum belfry_err belfry_tls_conn_recheck(struct belfry_tls_conn *conn, struct belfry_tls *tls, int64_t now_s)
{
    BELFRY_OWNER_CHECK(conn);
    X509 *cert = SSL_get0_peer_certificate(conn->ssl);
    uint64_t version;
    if (cert == NULL || (now_s <= conn->expires_s && belfry_tls_version(tls) == conn->version))
        return BELFRY_OK;
    ERR_clear_error();
    SSL_CTX *ctx = belfry_tls_context(tls, &version);
    enum belfry_err err = BELFRY_OK;
    if (now_s > conn->expires_s || is_suspect(SSL_CTX_get_cert_store(ctx), SSL_get0_verified_chain(conn->ssl)))
        err = tls_verify_again(conn, ctx, cert, now_s);
    SSL_CTX_free(ctx);
    ERR_clear_error();
    if (err == BELFRY_OK)
        conn->version = version;
    return err;
}

enum belfry_err belfry_tls_conn_handshake(struct belfry_tls_conn *conn)
{
    BELFRY_OWNER_CHECK(conn);
    bool server = SSL_is_server(conn->ssl);

    /* The first byte of every TLS record is its type, 20 to 23; no answer of a plain HTTP server begins like that. */
    if (!conn->started && conn->input.len > 0) {
        conn->started = true;
        unsigned char first = (unsigned char)conn->input.data[0];
        if (first < 20 || first > 23)
            return fail_tls(conn, server
                                      ? "the client does not speak TLS; this address is https"
                                      : "the server does not speak TLS here; if it is a plain server, use http:// (or "
                                        "unix://)");
    }
    ERR_clear_error();
    int done = SSL_do_handshake(conn->ssl);
    if (done != 1)
        return tls_outcome(conn, done);

    const unsigned char *name;
    unsigned len;
    SSL_get0_alpn_selected(conn->ssl, &name, &len);
    snprintf(conn->alpn, sizeof(conn->alpn), "%.*s", (int)len, len > 0 ? (const char *)name : "");

    /* What the server chose must be something that we offered. */
    if (!server) {
        bool other = conn->alpn[0] == '\0' || strcmp(conn->alpn, "http/1.1") == 0;
        return strcmp(conn->alpn, "h2") == 0 || (conn->http1 && other) ? BELFRY_OK : fail_alpn(conn);
    }

    /* Which user the client is. */
    char why[BELFRY_TLS_NAME_WHY];
    const X509 *cert = SSL_get0_peer_certificate(conn->ssl);
    if (cert == NULL)
        return BELFRY_OK;
    conn->expires_s = first_expiry(SSL_get0_verified_chain(conn->ssl));
    return belfry_tls_name_read(cert, conn->name, conn->user, why) ? BELFRY_OK : fail_tls(conn, why);
}

/* Without bytes OpenSSL would say the same, after as much work as for a record. */
enum belfry_err belfry_tls_conn_read(struct belfry_tls_conn *conn, void *buf, size_t cap, size_t *out_n)
{
    BELFRY_OWNER_CHECK(conn);
    if (conn->input.len == 0 && SSL_has_pending(conn->ssl) == 0)
        return BELFRY_ERR_AGAIN;
    clear_errors();
    int done = SSL_read_ex(conn->ssl, buf, cap, out_n);
    return done == 1 ? BELFRY_OK : tls_outcome(conn, done);
}

enum belfry_err belfry_tls_conn_write(struct belfry_tls_conn *conn, struct belfry_bytes bytes, size_t *out_n)
{
    BELFRY_OWNER_CHECK(conn);
    clear_errors();
    int done = SSL_write_ex(conn->ssl, bytes.data, bytes.len < RECORD_MAX ? bytes.len : RECORD_MAX, out_n);
    enum belfry_err err = done == 1 ? BELFRY_OK : tls_outcome(conn, done);
    /* Only a handshake needs bytes of the peer to go on writing, and renegotiation is off. */
    return err == BELFRY_ERR_AGAIN ? fail_tls(conn, "TLS failed: the peer interrupted our writing") : err;
}

void belfry_tls_conn_end(struct belfry_tls_conn *conn)
{
    BELFRY_OWNER_CHECK(conn);
    ERR_clear_error();
    SSL_shutdown(conn->ssl); /* what comes of it is in the output, or is not */
    ERR_clear_error();
}

struct belfry_bytes belfry_tls_conn_output(const struct belfry_tls_conn *conn)
{
    return belfry_buf_len(&conn->output) == 0 ? (struct belfry_bytes){0} : belfry_buf_bytes(&conn->output);
}

void belfry_tls_conn_sent(struct belfry_tls_conn *conn, size_t len)
{
    BELFRY_OWNER_CHECK(conn);
    belfry_buf_take(&conn->output, len);
    /* A server has many connections, and most of them are idle: none keeps a buffer. */
    if (belfry_buf_len(&conn->output) == 0 && SSL_is_server(conn->ssl))
        belfry_buf_fini(&conn->output);
}

const char *belfry_tls_conn_why(const struct belfry_tls_conn *conn)
{
    return conn->why;
}
