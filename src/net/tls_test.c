/* src/net/tls_test.c: contexts, and connections against a server of OpenSSL's in memory. */
#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/tls_conn.h"
#include "net/tls_test_keys.h"
#include "support/refuse.h"

static struct test_keys keys;

static int make_keys(void **state)
{
    (void)state;
    keys_make(&keys);
    return 0;
}

static int remove_keys(void **state)
{
    (void)state;
    keys_remove(&keys);
    return 0;
}

/* How the server of a test differs from a good one. */
struct server_opts {
    bool no_alpn, http1_alpn, want_client_cert, expired;
    int max_version; /* 0: any */
};

struct server {
    SSL_CTX *ctx;
    SSL *ssl;
    BIO *in, *out;
};

static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                           unsigned in_len, void *user)
{
    const struct server_opts *opts = user;
    const char *wanted = opts->http1_alpn ? "\x08http/1.1" : "\x02h2";
    unsigned char *chosen;
    (void)ssl;
    if (SSL_select_next_proto(&chosen, out_len, (const unsigned char *)wanted, (unsigned)strlen(wanted), in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static struct server start_server(struct server_opts *opts)
{
    struct server s = {.ctx = SSL_CTX_new(TLS_server_method())};
    SSL_CTX_use_certificate_chain_file(s.ctx, opts->expired ? keys.old_server : keys.server);
    SSL_CTX_use_PrivateKey_file(s.ctx, opts->expired ? keys.old_key : keys.server_key, SSL_FILETYPE_PEM);
    if (!opts->no_alpn)
        SSL_CTX_set_alpn_select_cb(s.ctx, select_protocol, opts);
    if (opts->want_client_cert) {
        SSL_CTX_load_verify_file(s.ctx, keys.ca);
        SSL_CTX_set_verify(s.ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    if (opts->max_version != 0) {
        SSL_CTX_set_security_level(s.ctx, 0);
        SSL_CTX_set_min_proto_version(s.ctx, 0);
        SSL_CTX_set_max_proto_version(s.ctx, opts->max_version);
    }
    s.ssl = SSL_new(s.ctx);
    s.in = BIO_new(BIO_s_mem());
    s.out = BIO_new(BIO_s_mem());
    SSL_set_bio(s.ssl, s.in, s.out);
    SSL_set_accept_state(s.ssl);
    return s;
}

static void stop_server(struct server *s)
{
    SSL_free(s->ssl);
    SSL_CTX_free(s->ctx);
    ERR_clear_error();
}

static void client_to_server(struct belfry_tls_conn *conn, struct server *s)
{
    struct belfry_bytes output = belfry_tls_conn_output(conn);
    if (output.len > 0)
        assert_int_equal(BIO_write(s->in, output.data, (int)output.len), (int)output.len);
    belfry_tls_conn_sent(conn, output.len);
}

/* Stored by the test, since the connection borrows it. */
struct wire {
    char bytes[256 * 1024];
    size_t len;
};

static void server_to_client(struct server *s, struct belfry_tls_conn *conn, struct wire *wire)
{
    int n = BIO_read(s->out, wire->bytes, sizeof(wire->bytes));
    wire->len = n > 0 ? (size_t)n : 0;
    belfry_tls_conn_feed(conn, belfry_bytes_of(wire->bytes, wire->len));
}

/* Both ends in turn until the client is done one way or the other. */
static enum belfry_err shake_hands(struct belfry_tls_conn *conn, struct server *s)
{
    static struct wire wire;
    enum belfry_err err = belfry_tls_conn_handshake(conn);
    for (int turns = 0; err == BELFRY_ERR_AGAIN && turns < 10; turns++) {
        client_to_server(conn, s);
        SSL_do_handshake(s->ssl);
        server_to_client(s, conn, &wire);
        err = belfry_tls_conn_handshake(conn);
    }
    client_to_server(conn, s);
    SSL_do_handshake(s->ssl);
    ERR_clear_error();
    return err;
}

static struct belfry_tls *make_tls(struct belfry_tls_opts opts)
{
    struct belfry_tls *tls;
    char why[256];
    if (belfry_tls_create(&opts, &tls, why, sizeof(why)) != BELFRY_OK)
        fail_msg("%s", why);
    return tls;
}

static struct belfry_tls_conn *make_conn(struct belfry_tls_opts opts, const char *host)
{
    struct belfry_tls_conn *conn;
    struct belfry_tls *tls = make_tls(opts);
    assert_int_equal(belfry_tls_conn_create(tls, host, &conn), BELFRY_OK);
    belfry_tls_destroy(tls); /* the connection keeps what it needs */
    return conn;
}

static void wrong_files_are_named_with_the_reason(void **state)
{
    (void)state;
    char nowhere[128];
    snprintf(nowhere, sizeof(nowhere), "%s/nowhere.pem", keys.folder);
    const struct {
        struct belfry_tls_opts opts;
        enum belfry_err err;
        const char *file, *part;
    } rows[] = {
        {{.cacert = nowhere}, BELFRY_ERR_TLS, nowhere, "No such file"},
        {{.cacert = keys.server_key}, BELFRY_ERR_TLS, keys.server_key, "certificate"},
        {{.cert = nowhere, .key = keys.client_key}, BELFRY_ERR_TLS, nowhere, "No such file"},
        {{.cert = keys.client, .key = nowhere}, BELFRY_ERR_TLS, nowhere, "No such file"},
        {{.cert = keys.client_key, .key = keys.client_key}, BELFRY_ERR_TLS, keys.client_key, "no start line"},
        {{.cert = keys.client, .key = keys.server_key}, BELFRY_ERR_TLS, keys.server_key, "mismatch"},
        {{.cert = keys.client, .key = keys.locked_key}, BELFRY_ERR_TLS, keys.locked_key, "pass phrase"},
        {{.cert = keys.client}, BELFRY_ERR_INVALID, "key file", "missing"},
        {{.key = keys.client_key}, BELFRY_ERR_INVALID, "cert file", "missing"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_tls *tls = NULL;
        char why[256] = "";
        assert_int_equal(belfry_tls_create(&rows[i].opts, &tls, why, sizeof(why)), rows[i].err);
        assert_null(tls);
        if (strstr(why, rows[i].file) == NULL || strstr(why, rows[i].part) == NULL)
            fail_msg("row %zu: %s", i, why);
        assert_int_equal(ERR_peek_error(), 0);
    }
}

static void system_store_can_be_used(void **state)
{
    (void)state;
    struct server_opts opts = {0};
    struct server server = start_server(&opts);
    struct belfry_tls_conn *conn = make_conn((struct belfry_tls_opts){0}, "etcd.test");
    assert_int_equal(shake_hands(conn, &server), BELFRY_ERR_TLS); /* nobody trusts a CA made a second ago */
    assert_non_null(strstr(belfry_tls_conn_why(conn), "certificate verify failed"));
    belfry_tls_conn_destroy(conn);
    stop_server(&server);
}

static void handshakes_end_as_they_should(void **state)
{
    (void)state;
    const char *const alpn = "the server did not offer HTTP/2 (ALPN h2)";
    const struct {
        const char *name, *host;
        struct belfry_tls_opts client;
        struct server_opts server;
        const char *why; /* NULL: it succeeds */
    } rows[] = {
        {"right name", "etcd.test", {.cacert = keys.ca}, {0}, NULL},
        {"absolute name", "etcd.test.", {.cacert = keys.ca}, {0}, NULL},
        {"right address", "127.0.0.1", {.cacert = keys.ca}, {0}, NULL},
        {"wrong name", "other.test", {.cacert = keys.ca}, {0}, "hostname mismatch; connect by a name"},
        {"wrong address", "127.0.0.9", {.cacert = keys.ca}, {0}, "IP address mismatch; connect by a name"},
        {"wrong v6 address", "::1", {.cacert = keys.ca}, {0}, "IP address mismatch"},
        {"server name", "other.test", {.cacert = keys.ca, .server_name = "etcd.test"}, {0}, NULL},
        {"wrong server name", "etcd.test", {.cacert = keys.ca, .server_name = "x.test"}, {0}, "hostname mismatch"},
        {"wrong CA", "etcd.test", {.cacert = keys.other_ca}, {0}, "name the CA of the server (cacert)"},
        {"expired", "etcd.test", {.cacert = keys.ca}, {.expired = true}, "certificate has expired; renew"},
        {"unverified", "other.test", {.skip_verify = true}, {.expired = true}, NULL},
        {"no ALPN", "etcd.test", {.cacert = keys.ca}, {.no_alpn = true}, alpn},
        {"HTTP/1 only", "etcd.test", {.cacert = keys.ca}, {.http1_alpn = true}, alpn},
        {"no ALPN, which will do", "etcd.test", {.cacert = keys.ca, .http1 = true}, {.no_alpn = true}, NULL},
        {"HTTP/1 only, which will do", "etcd.test", {.cacert = keys.ca, .http1 = true}, {.http1_alpn = true}, NULL},
        {"HTTP/2, and either will do", "etcd.test", {.cacert = keys.ca, .http1 = true}, {0}, NULL},
        {"TLS 1.2", "etcd.test", {.cacert = keys.ca}, {.max_version = TLS1_2_VERSION}, NULL},
        {"TLS 1.1", "etcd.test", {.cacert = keys.ca}, {.max_version = TLS1_1_VERSION}, "TLS failed"},
        {"client certificate",
         "etcd.test",
         {.cacert = keys.ca, .cert = keys.client, .key = keys.client_key},
         {.want_client_cert = true},
         NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct server_opts opts = rows[i].server;
        struct server server = start_server(&opts);
        struct belfry_tls_conn *conn = make_conn(rows[i].client, rows[i].host);
        enum belfry_err err = shake_hands(conn, &server);
        if (err != (rows[i].why == NULL ? BELFRY_OK : BELFRY_ERR_TLS))
            fail_msg("%s: %s, %s", rows[i].name, belfry_errname((int)err), belfry_tls_conn_why(conn));
        if (rows[i].why != NULL && strstr(belfry_tls_conn_why(conn), rows[i].why) == NULL)
            fail_msg("%s: %s", rows[i].name, belfry_tls_conn_why(conn));
        if (err == BELFRY_OK)
            assert_string_equal(belfry_tls_conn_alpn(conn), opts.no_alpn ? "" : opts.http1_alpn ? "http/1.1" : "h2");
        assert_int_equal(ERR_peek_error(), 0);
        belfry_tls_conn_destroy(conn);
        stop_server(&server);
    }
}

static void names_and_only_names_are_sent_as_sni(void **state)
{
    (void)state;
    static const struct {
        const char *host, *server_name, *sni;
    } rows[] = {{"etcd.test", NULL, "etcd.test"},
                {"localhost.", NULL, "localhost"},
                {"127.0.0.1", NULL, NULL},
                {"fe80::1%eth0", NULL, NULL},
                {"127.0.0.1", "etcd.test", "etcd.test"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct server_opts opts = {.max_version = TLS1_2_VERSION};
        struct server server = start_server(&opts);
        struct belfry_tls_conn *conn =
            make_conn((struct belfry_tls_opts){.skip_verify = true, .server_name = rows[i].server_name}, rows[i].host);
        assert_int_equal(shake_hands(conn, &server), BELFRY_OK);
        const char *sni = SSL_get_servername(server.ssl, TLSEXT_NAMETYPE_host_name);
        if (rows[i].sni == NULL)
            assert_null(sni);
        else
            assert_string_equal(sni, rows[i].sni);
        belfry_tls_conn_destroy(conn);
        stop_server(&server);
    }
}

/* In TLS 1.3 the client is done before the server has looked at its certificate: the alert comes with the first read.
 */
static void missing_client_certificate_is_told_with_a_remedy(void **state)
{
    (void)state;
    static struct wire wire;
    struct server_opts opts = {.want_client_cert = true};
    struct server server = start_server(&opts);
    struct belfry_tls_conn *conn = make_conn((struct belfry_tls_opts){.cacert = keys.ca}, "etcd.test");
    char buf[64];
    size_t n;
    assert_int_equal(shake_hands(conn, &server), BELFRY_OK);
    server_to_client(&server, conn, &wire);
    assert_int_equal(belfry_tls_conn_read(conn, buf, sizeof(buf), &n), BELFRY_ERR_TLS);
    assert_non_null(strstr(belfry_tls_conn_why(conn), "certificate required"));
    assert_non_null(strstr(belfry_tls_conn_why(conn), "(cert, key)"));
    belfry_tls_conn_destroy(conn);
    stop_server(&server);
}

static void plain_servers_are_recognised(void **state)
{
    (void)state;
    static const struct belfry_bytes answers[] = {
        {"HTTP/1.1 400 Bad Request\r\n\r\n", 28}, {"\0\0\6\4\0\0\0\0\0\0\5\0\0\x40\0", 15}, {"H", 1}};
    for (size_t i = 0; i < 3; i++) {
        struct belfry_tls_conn *conn = make_conn((struct belfry_tls_opts){.cacert = keys.ca}, "etcd.test");
        assert_int_equal(belfry_tls_conn_handshake(conn), BELFRY_ERR_AGAIN);
        belfry_tls_conn_feed(conn, answers[i]);
        assert_int_equal(belfry_tls_conn_handshake(conn), BELFRY_ERR_TLS);
        assert_non_null(strstr(belfry_tls_conn_why(conn), "does not speak TLS"));
        belfry_tls_conn_destroy(conn);
    }
}

static void garbage_in_the_handshake_is_an_error(void **state)
{
    (void)state;
    struct belfry_tls_conn *conn = make_conn((struct belfry_tls_opts){.cacert = keys.ca}, "etcd.test");
    char garbage[600];
    memset(garbage, 22, sizeof(garbage));
    assert_int_equal(belfry_tls_conn_handshake(conn), BELFRY_ERR_AGAIN);
    belfry_tls_conn_feed(conn, belfry_bytes_of(garbage, sizeof(garbage)));
    assert_int_equal(belfry_tls_conn_handshake(conn), BELFRY_ERR_TLS);
    assert_non_null(strstr(belfry_tls_conn_why(conn), "TLS failed"));
    belfry_tls_conn_destroy(conn);
}

static void bytes_cut_anywhere_are_put_together_again(void **state)
{
    (void)state;
    static struct wire wire;
    static char sent[40000], got[40000];
    struct server_opts opts = {0};
    struct server server = start_server(&opts);
    struct belfry_tls_conn *conn = make_conn((struct belfry_tls_opts){.cacert = keys.ca}, "etcd.test");
    assert_int_equal(shake_hands(conn, &server), BELFRY_OK);
    for (size_t i = 0; i < sizeof(sent); i++)
        sent[i] = (char)(i * 7 >> 3);
    assert_int_equal(SSL_write(server.ssl, sent, sizeof(sent)), (int)sizeof(sent));
    server_to_client(&server, conn, &wire);

    size_t total = 0, n;
    for (size_t at = 0, step = 1; at < wire.len; at += step, step = step % 1500 + 1) {
        size_t len = wire.len - at < step ? wire.len - at : step;
        char *piece = test_malloc(len); /* a block of its own, so that reading past it is caught */
        memcpy(piece, wire.bytes + at, len);
        belfry_tls_conn_feed(conn, belfry_bytes_of(piece, len));
        enum belfry_err err;
        while ((err = belfry_tls_conn_read(conn, got + total, sizeof(got) - total, &n)) == BELFRY_OK)
            if ((total += n) == sizeof(got))
                break;
        assert_true(err == BELFRY_ERR_AGAIN || total == sizeof(got));
        test_free(piece);
    }
    assert_int_equal(total, sizeof(sent));
    assert_memory_equal(sent, got, sizeof(sent));
    belfry_tls_conn_destroy(conn);
    stop_server(&server);
}

static void writing_takes_one_record_at_a_time(void **state)
{
    (void)state;
    static char sent[40000], got[40000];
    struct server_opts opts = {0};
    struct server server = start_server(&opts);
    struct belfry_tls_conn *conn = make_conn((struct belfry_tls_opts){.cacert = keys.ca}, "etcd.test");
    assert_int_equal(shake_hands(conn, &server), BELFRY_OK);
    memset(sent, 'x', sizeof(sent));
    for (size_t at = 0, n; at < sizeof(sent); at += n) {
        assert_int_equal(belfry_tls_conn_write(conn, belfry_bytes_of(sent + at, sizeof(sent) - at), &n), BELFRY_OK);
        assert_in_range(n, 1, 16384);
        client_to_server(conn, &server);
    }
    for (size_t at = 0; at < sizeof(got);) {
        int n = SSL_read(server.ssl, got + at, (int)(sizeof(got) - at));
        assert_true(n > 0);
        at += (size_t)n;
    }
    assert_memory_equal(sent, got, sizeof(sent));
    belfry_tls_conn_destroy(conn);
    stop_server(&server);
}

static void unsent_output_is_bounded(void **state)
{
    (void)state;
    static char sent[16384];
    struct server_opts opts = {0};
    struct server server = start_server(&opts);
    struct belfry_tls_conn *conn = make_conn((struct belfry_tls_opts){.cacert = keys.ca}, "etcd.test");
    enum belfry_err err = shake_hands(conn, &server);
    for (int i = 0; err == BELFRY_OK && i < 100; i++) {
        size_t n;
        err = belfry_tls_conn_write(conn, belfry_bytes_of(sent, sizeof(sent)), &n);
    }
    assert_int_equal(err, BELFRY_ERR_TLS);
    assert_in_range(belfry_tls_conn_output(conn).len, 64 * 1024, 96 * 1024);
    belfry_tls_conn_destroy(conn);
    stop_server(&server);
}

static void goodbyes_are_told_apart_from_failures(void **state)
{
    (void)state;
    static struct wire wire;
    struct server_opts opts = {0};
    struct server server = start_server(&opts);
    struct belfry_tls_conn *conn = make_conn((struct belfry_tls_opts){.cacert = keys.ca}, "etcd.test");
    char buf[64];
    size_t n;
    assert_int_equal(shake_hands(conn, &server), BELFRY_OK);
    SSL_shutdown(server.ssl);
    server_to_client(&server, conn, &wire);
    assert_int_equal(belfry_tls_conn_read(conn, buf, sizeof(buf), &n), BELFRY_ERR_UNAVAILABLE);
    belfry_tls_conn_end(conn);
    client_to_server(conn, &server);
    assert_int_equal(SSL_read(server.ssl, buf, sizeof(buf)), 0);
    assert_int_equal(SSL_get_error(server.ssl, 0), SSL_ERROR_ZERO_RETURN);
    belfry_tls_conn_destroy(conn);
    stop_server(&server);
}

/* ---- the server's side, against our own client or OpenSSL's ---- */

static struct belfry_tls *make_server_tls(const char *client_ca)
{
    struct belfry_tls *tls;
    char why[256];
    struct belfry_tls_server_opts opts = {.cert = keys.server, .key = keys.server_key, .client_ca = client_ca};
    if (belfry_tls_create_server(&opts, &tls, why, sizeof(why)) != BELFRY_OK)
        fail_msg("%s", why);
    return tls;
}

/* A client of OpenSSL's: what it offers and shows. */
struct client_opts {
    const char *alpn; /* NULL: none */
    const char *cert, *key;
    int max_version;
};

static struct server start_client(const struct client_opts *opts)
{
    struct server c = {.ctx = SSL_CTX_new(TLS_client_method())};
    if (opts->cert != NULL) {
        SSL_CTX_use_certificate_chain_file(c.ctx, opts->cert);
        SSL_CTX_use_PrivateKey_file(c.ctx, opts->key, SSL_FILETYPE_PEM);
    }
    if (opts->alpn != NULL)
        SSL_CTX_set_alpn_protos(c.ctx, (const unsigned char *)opts->alpn, (unsigned)strlen(opts->alpn));
    if (opts->max_version != 0) {
        SSL_CTX_set_security_level(c.ctx, 0);
        SSL_CTX_set_min_proto_version(c.ctx, 0);
        SSL_CTX_set_max_proto_version(c.ctx, opts->max_version);
    }
    c.ssl = SSL_new(c.ctx);
    c.in = BIO_new(BIO_s_mem());
    c.out = BIO_new(BIO_s_mem());
    SSL_set_bio(c.ssl, c.in, c.out);
    SSL_set_connect_state(c.ssl);
    return c;
}

static enum belfry_err serve_hands(struct belfry_tls_conn *conn, struct server *client)
{
    static struct wire wire;
    enum belfry_err err = BELFRY_ERR_AGAIN;
    for (int turns = 0; err == BELFRY_ERR_AGAIN && turns < 10; turns++) {
        SSL_do_handshake(client->ssl);
        server_to_client(client, conn, &wire);
        err = belfry_tls_conn_handshake(conn);
        client_to_server(conn, client);
    }
    ERR_clear_error();
    return err;
}

static void servers_agree_on_a_protocol_and_know_the_client(void **state)
{
    (void)state;
    const char *const alice = keys.client, *const alice_key = keys.client_key;
    const struct {
        const char *name;
        bool mutual;
        struct client_opts client;
        const char *alpn, *user, *why; /* why NULL: it succeeds */
    } rows[] = {
        {"h2", false, {.alpn = "\x02h2"}, "h2", "", NULL},
        {"both, h2 last", false, {.alpn = "\x08http/1.1\x02h2"}, "h2", "", NULL},
        {"http/1.1", false, {.alpn = "\x08http/1.1"}, "http/1.1", "", NULL},
        {"no ALPN", false, {0}, "", "", NULL},
        {"unknown ALPN", false, {.alpn = "\x03irc"}, NULL, NULL, "TLS failed"},
        {"TLS 1.2", false, {.alpn = "\x02h2", .max_version = TLS1_2_VERSION}, "h2", "", NULL},
        {"TLS 1.1", false, {.max_version = TLS1_1_VERSION}, NULL, NULL, "TLS failed: unsupported protocol"},
        {"unasked", false, {.cert = alice, .key = alice_key}, "", "", NULL},
        {"mutual", true, {.cert = alice, .key = alice_key}, "", "alice", NULL},
        {"mutual 1.2", true, {.cert = alice, .key = alice_key, .max_version = TLS1_2_VERSION}, "", "alice", NULL},
        {"no certificate", true, {0}, NULL, NULL, "the client showed no certificate"},
        {"expired", true, {.cert = keys.old_server, .key = keys.old_key}, NULL, NULL, "certificate has expired"},
        {"forged",
         true,
         {.cert = keys.forged, .key = keys.forged_key},
         NULL,
         NULL,
         "certificate signature failure; the"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_tls *tls = make_server_tls(rows[i].mutual ? keys.ca : NULL);
        struct belfry_tls_conn *conn;
        struct server client = start_client(&rows[i].client);
        assert_int_equal(belfry_tls_conn_accept(tls, &conn), BELFRY_OK);
        belfry_tls_destroy(tls); /* reloaded meanwhile: the connection keeps what it needs */
        enum belfry_err err = serve_hands(conn, &client);
        if (err != (rows[i].why == NULL ? BELFRY_OK : BELFRY_ERR_TLS))
            fail_msg("%s: %s, %s", rows[i].name, belfry_errname((int)err), belfry_tls_conn_why(conn));
        if (rows[i].why != NULL && strstr(belfry_tls_conn_why(conn), rows[i].why) == NULL)
            fail_msg("%s: %s", rows[i].name, belfry_tls_conn_why(conn));
        if (rows[i].why == NULL) {
            assert_string_equal(belfry_tls_conn_alpn(conn), rows[i].alpn);
            assert_string_equal(belfry_tls_conn_user(conn), rows[i].user);
        }
        assert_int_equal(ERR_peek_error(), 0);
        belfry_tls_conn_destroy(conn);
        stop_server(&client);
    }
}

static void a_client_of_another_ca_is_refused(void **state)
{
    (void)state;
    struct belfry_tls *tls = make_server_tls(keys.other_ca);
    struct belfry_tls_conn *conn;
    struct client_opts opts = {.cert = keys.client, .key = keys.client_key};
    struct server client = start_client(&opts);
    assert_int_equal(belfry_tls_conn_accept(tls, &conn), BELFRY_OK);
    assert_int_equal(serve_hands(conn, &client), BELFRY_ERR_TLS);
    assert_non_null(strstr(belfry_tls_conn_why(conn), "signed by the client CA"));
    assert_string_equal(belfry_tls_conn_user(conn), "");
    belfry_tls_conn_destroy(conn);
    belfry_tls_destroy(tls);
    stop_server(&client);
}

static void plain_clients_are_recognised(void **state)
{
    (void)state;
    struct belfry_tls *tls = make_server_tls(NULL);
    struct belfry_tls_conn *conn;
    assert_int_equal(belfry_tls_conn_accept(tls, &conn), BELFRY_OK);
    belfry_tls_conn_feed(conn, belfry_bytes_str("GET / HTTP/1.1\r\n"));
    assert_int_equal(belfry_tls_conn_handshake(conn), BELFRY_ERR_TLS);
    assert_non_null(strstr(belfry_tls_conn_why(conn), "the client does not speak TLS"));
    belfry_tls_conn_destroy(conn);
    belfry_tls_destroy(tls);
}

static void wrong_files_of_a_server_are_named(void **state)
{
    (void)state;
    const struct {
        struct belfry_tls_server_opts opts;
        enum belfry_err err;
        const char *part;
    } rows[] = {
        {{.cert = keys.server}, BELFRY_ERR_INVALID, "the key file is missing"},
        {{.key = keys.server_key}, BELFRY_ERR_INVALID, "the cert file is missing"},
        {{.cert = keys.server, .key = keys.client_key}, BELFRY_ERR_TLS, "mismatch"},
        {{.cert = keys.server, .key = keys.server_key, .client_ca = keys.server_key}, BELFRY_ERR_TLS, "client CA file"},
        {{.cert = keys.server, .key = keys.server_key, .client_ca = "nowhere.pem"}, BELFRY_ERR_TLS, "No such file"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_tls *tls = NULL;
        char why[256] = "";
        assert_int_equal(belfry_tls_create_server(&rows[i].opts, &tls, why, sizeof(why)), rows[i].err);
        assert_null(tls);
        if (strstr(why, rows[i].part) == NULL)
            fail_msg("row %zu: %s", i, why);
        assert_int_equal(ERR_peek_error(), 0);
    }
}

static bool has_name(const char *cert, const char *key)
{
    struct belfry_tls *tls;
    struct belfry_tls_conn *conn;
    char why[256];
    struct belfry_tls_opts opts = {.cacert = keys.ca, .cert = cert, .key = key};
    assert_int_equal(belfry_tls_create(&opts, &tls, why, sizeof(why)), BELFRY_OK);
    assert_int_equal(belfry_tls_conn_create(tls, "127.0.0.1", &conn), BELFRY_OK);
    belfry_tls_destroy(tls); /* the connection knows its certificate by itself */
    bool found = belfry_tls_conn_has_name(conn);
    belfry_tls_conn_destroy(conn);
    return found;
}

static void certificate_is_for_its_names_and_addresses(void **state)
{
    (void)state;
    assert_true(belfry_tls_cert_is_for(keys.server, "etcd.test"));
    assert_true(belfry_tls_cert_is_for(keys.server, "127.0.0.1"));
    assert_false(belfry_tls_cert_is_for(keys.server, "127.0.0.2"));
    assert_false(belfry_tls_cert_is_for(keys.server, "other.test"));
    assert_false(belfry_tls_cert_is_for("/nonexistent", "etcd.test"));
    assert_false(belfry_tls_cert_is_for(keys.server_key, "etcd.test"));
}

static void a_connection_knows_whether_its_own_certificate_has_a_common_name(void **state)
{
    (void)state;
    assert_true(has_name(keys.client, keys.client_key));
    assert_false(has_name(keys.unnamed, keys.unnamed_key));
    assert_false(has_name(NULL, NULL));
}

static enum belfry_err server_scenario(void)
{
    struct belfry_tls *tls = NULL;
    struct belfry_tls_conn *conn = NULL;
    char why[256];
    size_t n;
    struct belfry_tls_server_opts opts = {.cert = keys.server, .key = keys.server_key, .client_ca = keys.ca};
    struct client_opts client_opts = {.alpn = "\x02h2", .cert = keys.client, .key = keys.client_key};
    struct server client = start_client(&client_opts);
    enum belfry_err err = belfry_tls_create_server(&opts, &tls, why, sizeof(why));
    if (err == BELFRY_OK)
        err = belfry_tls_conn_accept(tls, &conn);
    if (err == BELFRY_OK)
        err = serve_hands(conn, &client);
    if (err == BELFRY_OK)
        err = belfry_tls_conn_write(conn, belfry_bytes_str("hello"), &n);
    if (err == BELFRY_OK)
        client_to_server(conn, &client);
    belfry_tls_conn_destroy(conn);
    belfry_tls_destroy(tls);
    stop_server(&client);
    return err;
}

static void refused_memory_of_a_server_is_reported(void **state)
{
    (void)state;
    assert_true(refuse_sweep(server_scenario) >= 4);
}

static enum belfry_err tls_scenario(void)
{
    static struct wire wire;
    struct server_opts opts = {0};
    struct belfry_tls *tls = NULL;
    struct belfry_tls_conn *conn = NULL;
    char why[256], buf[4096];
    size_t n;
    struct belfry_tls_opts client = {.cacert = keys.ca, .server_name = "etcd.test"};
    struct server server = start_server(&opts);
    enum belfry_err err = belfry_tls_create(&client, &tls, why, sizeof(why));
    if (err == BELFRY_OK)
        err = belfry_tls_conn_create(tls, "127.0.0.1", &conn);
    if (err == BELFRY_OK)
        err = shake_hands(conn, &server);
    if (err == BELFRY_OK)
        err = belfry_tls_conn_write(conn, belfry_bytes_of(wire.bytes, 16384), &n);
    if (err == BELFRY_OK) {
        client_to_server(conn, &server);
        SSL_write(server.ssl, "hello", 5);
        server_to_client(&server, conn, &wire);
        err = belfry_tls_conn_read(conn, buf, sizeof(buf), &n);
    }
    belfry_tls_conn_destroy(conn);
    belfry_tls_destroy(tls);
    stop_server(&server);
    return err;
}

static void refused_memory_is_reported(void **state)
{
    (void)state;
    assert_true(refuse_sweep(tls_scenario) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_files_are_named_with_the_reason),
        cmocka_unit_test(system_store_can_be_used),
        cmocka_unit_test(handshakes_end_as_they_should),
        cmocka_unit_test(names_and_only_names_are_sent_as_sni),
        cmocka_unit_test(missing_client_certificate_is_told_with_a_remedy),
        cmocka_unit_test(plain_servers_are_recognised),
        cmocka_unit_test(garbage_in_the_handshake_is_an_error),
        cmocka_unit_test(bytes_cut_anywhere_are_put_together_again),
        cmocka_unit_test(writing_takes_one_record_at_a_time),
        cmocka_unit_test(unsent_output_is_bounded),
        cmocka_unit_test(goodbyes_are_told_apart_from_failures),
        cmocka_unit_test(servers_agree_on_a_protocol_and_know_the_client),
        cmocka_unit_test(a_client_of_another_ca_is_refused),
        cmocka_unit_test(plain_clients_are_recognised),
        cmocka_unit_test(wrong_files_of_a_server_are_named),
        cmocka_unit_test(certificate_is_for_its_names_and_addresses),
        cmocka_unit_test(a_connection_knows_whether_its_own_certificate_has_a_common_name),
        cmocka_unit_test(refused_memory_is_reported),
        cmocka_unit_test(refused_memory_of_a_server_is_reported),
    };
    return cmocka_run_group_tests(tests, make_keys, remove_keys);
}
