/* src/net/tls_tickets_test.c: sessions that are resumed, against a client made of plain OpenSSL. */
#include "net/tls_tickets.h"

#include <openssl/err.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "net/tls_conn.h"
#include "net/tls_test_keys.h"
#include "support/refuse.h"

#define SPAN BELFRY_TLS_TICKETS_SPAN_MS

static struct test_keys files;
static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
#define N_VERSIONS (sizeof(versions) / sizeof(versions[0]))

static int make_files(void **state)
{
    (void)state;
    keys_make(&files);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    keys_remove(&files);
    return 0;
}

static struct belfry_tls_tickets *make_tickets(void)
{
    struct belfry_tls_tickets *tickets;
    assert_int_equal(belfry_tls_tickets_create(0, &tickets), BELFRY_OK);
    return tickets;
}

/* A listener. client_ca NULL: it asks for no certificates. */
static struct belfry_tls *make_server(struct belfry_tls_tickets *tickets, const char *client_ca)
{
    struct belfry_tls_server_opts opts = {
        .cert = files.server, .key = files.server_key, .client_ca = client_ca, .tickets = tickets};
    struct belfry_tls *tls;
    char why[256];
    if (belfry_tls_create_server(&opts, &tls, why, sizeof(why)) != BELFRY_OK)
        fail_msg("%s", why);
    return tls;
}

/* ---- a client ---- */

struct visit {
    bool resumed, resumed_by_server;
    SSL_SESSION *session; /* what it could come back with */
};

static SSL_CTX *make_client(int version)
{
    static const unsigned char alpn[] = "\x02h2";
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    assert_non_null(ctx);
    SSL_CTX_set_max_proto_version(ctx, version);
    assert_int_equal(SSL_CTX_set_alpn_protos(ctx, alpn, 3), 0);
    assert_int_equal(SSL_CTX_use_certificate_file(ctx, files.client, SSL_FILETYPE_PEM), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, files.client_key, SSL_FILETYPE_PEM), 1);
    return ctx;
}

static void to_server(SSL *client, struct belfry_tls_conn *server)
{
    static char wire[65536];
    int n = BIO_read(SSL_get_wbio(client), wire, sizeof(wire));
    belfry_tls_conn_feed(server, belfry_bytes_of(wire, n > 0 ? (size_t)n : 0));
}

static void to_client(struct belfry_tls_conn *server, SSL *client)
{
    struct belfry_bytes output = belfry_tls_conn_output(server);
    if (output.len > 0)
        assert_int_equal(BIO_write(SSL_get_rbio(client), output.data, (int)output.len), output.len);
    belfry_tls_conn_sent(server, output.len);
}

/* Connects with `with`, which may be NULL, until both ends are done and the client has read what comes after. */
static struct visit visit(struct belfry_tls *tls, int version, SSL_SESSION *with)
{
    struct visit found = {0};
    struct belfry_tls_conn *server;
    SSL_CTX *ctx = make_client(version);
    SSL *client = SSL_new(ctx);
    enum belfry_err err = BELFRY_ERR_AGAIN;
    int done = 0;
    char byte;
    assert_int_equal(belfry_tls_conn_accept(tls, &server), BELFRY_OK);
    SSL_set_bio(client, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(client);
    if (with != NULL)
        assert_int_equal(SSL_set_session(client, with), 1);
    for (int turns = 0; turns < 10 && (done != 1 || err != BELFRY_OK); turns++) {
        done = SSL_do_handshake(client);
        to_server(client, server);
        if (err == BELFRY_ERR_AGAIN)
            err = belfry_tls_conn_handshake(server);
        to_client(server, client);
    }
    if (err != BELFRY_OK || done != 1)
        fail_msg("%s", belfry_tls_conn_why(server));
    assert_int_equal(SSL_read(client, &byte, 1), -1); /* tickets of TLS 1.3 come after the handshake */
    found.resumed = SSL_session_reused(client) == 1;
    found.resumed_by_server = belfry_tls_conn_is_resumed(server);
    found.session = SSL_get1_session(client);
    SSL_set_quiet_shutdown(client, 1);
    SSL_shutdown(client); /* else the session counts as broken */
    SSL_free(client);
    SSL_CTX_free(ctx);
    belfry_tls_conn_destroy(server);
    ERR_clear_error();
    return found;
}

/* Does a session of `first` resume at `second`? */
static bool resumes(struct belfry_tls *second, int version, SSL_SESSION *session)
{
    struct visit again = visit(second, version, session);
    assert_int_equal(again.resumed, again.resumed_by_server);
    SSL_SESSION_free(again.session);
    return again.resumed;
}

/* ---- tests ---- */

static void a_client_that_comes_back_resumes(void **state)
{
    (void)state;
    struct belfry_tls_tickets *tickets = make_tickets();
    struct belfry_tls *server = make_server(tickets, NULL);
    for (size_t i = 0; i < N_VERSIONS; i++) {
        struct visit first = visit(server, versions[i], NULL);
        assert_false(first.resumed || first.resumed_by_server);
        assert_int_equal(SSL_SESSION_has_ticket(first.session), 1);
        assert_true(SSL_SESSION_get_ticket_lifetime_hint(first.session) <= SPAN / 1000);
        assert_true(resumes(server, versions[i], first.session));
        SSL_SESSION_free(first.session);
    }
    belfry_tls_destroy(server);
    belfry_tls_tickets_destroy(tickets);
}

static void a_key_opens_tickets_for_one_span_more_and_then_none(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_VERSIONS; i++) {
        struct belfry_tls_tickets *tickets = make_tickets();
        struct belfry_tls *server = make_server(tickets, NULL);
        struct visit first = visit(server, versions[i], NULL);
        belfry_tls_tickets_rotate(tickets, SPAN - 1); /* too early: nothing happens */
        assert_true(resumes(server, versions[i], first.session));
        belfry_tls_tickets_rotate(tickets, SPAN);
        struct visit second = visit(server, versions[i], NULL);
        assert_true(resumes(server, versions[i], first.session));
        belfry_tls_tickets_rotate(tickets, 2 * SPAN);
        assert_false(resumes(server, versions[i], first.session));
        assert_true(resumes(server, versions[i], second.session));
        belfry_tls_tickets_rotate(tickets, 5 * SPAN); /* as after a long sleep */
        assert_false(resumes(server, versions[i], second.session));
        SSL_SESSION_free(first.session);
        SSL_SESSION_free(second.session);
        belfry_tls_destroy(server);
        belfry_tls_tickets_destroy(tickets);
    }
}

static void a_ticket_of_one_listener_is_not_good_at_another(void **state)
{
    (void)state;
    struct belfry_tls_tickets *tickets = make_tickets();
    struct belfry_tls *here = make_server(tickets, NULL), *there = make_server(tickets, NULL);
    struct belfry_tls *closed = make_server(tickets, files.ca);
    for (size_t i = 0; i < N_VERSIONS; i++) {
        struct visit first = visit(here, versions[i], NULL);
        assert_false(resumes(there, versions[i], first.session));
        assert_false(resumes(closed, versions[i], first.session));
        assert_true(resumes(here, versions[i], first.session));
        SSL_SESSION_free(first.session);
    }
    belfry_tls_destroy(here);
    belfry_tls_destroy(there);
    belfry_tls_destroy(closed);
    belfry_tls_tickets_destroy(tickets);
}

static void a_listener_that_asks_for_certificates_issues_no_tickets(void **state)
{
    (void)state;
    struct belfry_tls_tickets *tickets = make_tickets();
    struct belfry_tls *server = make_server(tickets, files.ca);
    for (size_t i = 0; i < N_VERSIONS; i++) {
        struct visit first = visit(server, versions[i], NULL);
        assert_int_equal(SSL_SESSION_has_ticket(first.session), 0);
        assert_false(resumes(server, versions[i], first.session));
        SSL_SESSION_free(first.session);
    }
    belfry_tls_destroy(server);
    belfry_tls_tickets_destroy(tickets);
}

static void without_keys_there_are_no_tickets(void **state)
{
    (void)state;
    struct belfry_tls *server = make_server(NULL, NULL);
    for (size_t i = 0; i < N_VERSIONS; i++) {
        struct visit first = visit(server, versions[i], NULL);
        assert_int_equal(SSL_SESSION_has_ticket(first.session), 0);
        assert_false(resumes(server, versions[i], first.session));
        SSL_SESSION_free(first.session);
    }
    belfry_tls_destroy(server);
}

static void a_new_certificate_of_the_listener_keeps_its_tickets(void **state)
{
    (void)state;
    char why[256];
    struct belfry_tls_tickets *tickets = make_tickets();
    struct belfry_tls *server = make_server(tickets, NULL);
    struct visit first = visit(server, TLS1_3_VERSION, NULL);
    uint64_t before = belfry_tls_version(server);
    FILE *file = fopen(files.server, "a"); /* another file, by its size */
    assert_non_null(file);
    assert_int_equal(fputc('\n', file), '\n');
    fclose(file);
    assert_int_equal(belfry_tls_refresh(server, why, sizeof(why)), BELFRY_OK);
    assert_true(belfry_tls_version(server) > before);
    assert_true(resumes(server, TLS1_3_VERSION, first.session));
    SSL_SESSION_free(first.session);
    belfry_tls_destroy(server);
    belfry_tls_tickets_destroy(tickets);
}

/* The session as its client keeps it, with one bit of the ticket turned over. */
static SSL_SESSION *damage(SSL_SESSION *session, size_t at)
{
    const unsigned char *ticket;
    size_t len;
    unsigned char *text = NULL, *found;
    SSL_SESSION_get0_ticket(session, &ticket, &len);
    int n = i2d_SSL_SESSION(session, &text);
    assert_true(n > 0);
    found = memmem(text, (size_t)n, ticket, len);
    assert_non_null(found);
    found[at % len] ^= 1;
    const unsigned char *from = text;
    SSL_SESSION *damaged = d2i_SSL_SESSION(NULL, &from, n);
    assert_non_null(damaged);
    OPENSSL_free(text);
    return damaged;
}

static void a_damaged_ticket_leads_to_a_full_handshake(void **state)
{
    (void)state;
    static const size_t places[] = {0, 15, 16, 31, 32, 100, SIZE_MAX};
    struct belfry_tls_tickets *tickets = make_tickets();
    struct belfry_tls *server = make_server(tickets, NULL);
    for (size_t i = 0; i < N_VERSIONS; i++) {
        struct visit first = visit(server, versions[i], NULL);
        for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
            SSL_SESSION *damaged = damage(first.session, places[p]);
            assert_false(resumes(server, versions[i], damaged));
            SSL_SESSION_free(damaged);
        }
        assert_true(resumes(server, versions[i], first.session));
        SSL_SESSION_free(first.session);
    }
    belfry_tls_destroy(server);
    belfry_tls_tickets_destroy(tickets);
}

static enum belfry_err scenario(void)
{
    struct belfry_tls_tickets *tickets;
    enum belfry_err err = belfry_tls_tickets_create(0, &tickets);
    if (err != BELFRY_OK)
        return err;
    belfry_tls_tickets_rotate(tickets, SPAN);
    belfry_tls_tickets_destroy(tickets);
    return BELFRY_OK;
}

static void a_refused_allocation_leaks_nothing(void **state)
{
    (void)state;
    assert_int_equal(refuse_sweep(scenario), 1);
    belfry_tls_tickets_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_comes_back_resumes),
        cmocka_unit_test(a_key_opens_tickets_for_one_span_more_and_then_none),
        cmocka_unit_test(a_ticket_of_one_listener_is_not_good_at_another),
        cmocka_unit_test(a_listener_that_asks_for_certificates_issues_no_tickets),
        cmocka_unit_test(without_keys_there_are_no_tickets),
        cmocka_unit_test(a_new_certificate_of_the_listener_keeps_its_tickets),
        cmocka_unit_test(a_damaged_ticket_leads_to_a_full_handshake),
        cmocka_unit_test(a_refused_allocation_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
