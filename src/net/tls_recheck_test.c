/* src/net/tls_recheck_test.c: client certificates that end while their connection lives: expired, revoked, of an
 * authority that was removed. Both ends are ours, in memory; only files change, and the time that is passed in. */
#include <openssl/err.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "net/tls_both_test.h"
#include "net/tls_load.h"
#include "net/tls_test_keys.h"

#define DAY_S 86400

static struct test_keys folder; /* only its folder: every file is made here */
static struct issuer old_ca, new_ca, serving, alice, bob;
static char server_cert[96], server_key[96], alice_cert[96], alice_key[96], bob_cert[96], bob_key[96];
static char client_ca[96], crl[96];
static int64_t now_s;

static void write_cas(const struct issuer *first, const struct issuer *second)
{
    char fresh[128];
    FILE *file = keys_file(&folder, "ca.new", fresh, sizeof(fresh));
    assert_int_equal(PEM_write_X509(file, first->cert), 1);
    if (second != NULL)
        assert_int_equal(PEM_write_X509(file, second->cert), 1);
    fclose(file);
    assert_int_equal(rename(fresh, client_ca), 0);
}

static X509_CRL *crl_of(const struct issuer *ca, const struct issuer *revoked, long next_s)
{
    X509_CRL *list = X509_CRL_new();
    ASN1_TIME *at = ASN1_TIME_set(NULL, time(NULL) - 2 * DAY_S);
    keys_must(list != NULL && at != NULL && X509_CRL_set_version(list, 1) == 1);
    X509_CRL_set_issuer_name(list, X509_get_subject_name(ca->cert));
    X509_CRL_set1_lastUpdate(list, at);
    X509_gmtime_adj(at, next_s);
    X509_CRL_set1_nextUpdate(list, at);
    if (revoked != NULL) {
        X509_REVOKED *entry = X509_REVOKED_new();
        X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(revoked->cert));
        X509_gmtime_adj(at, -DAY_S);
        X509_REVOKED_set_revocationDate(entry, at);
        keys_must(X509_CRL_add0_revoked(list, entry) == 1);
    }
    X509_CRL_sort(list);
    keys_must(X509_CRL_sign(list, ca->key, EVP_sha256()) > 0);
    ASN1_TIME_free(at);
    return list;
}

/* A list of each authority; `second` may be NULL. */
static void write_crl(const struct issuer *ca, const struct issuer *revoked, long next_s, const struct issuer *second)
{
    char fresh[128];
    FILE *file = keys_file(&folder, "crl.new", fresh, sizeof(fresh));
    X509_CRL *list = crl_of(ca, revoked, next_s);
    assert_int_equal(PEM_write_X509_CRL(file, list), 1);
    X509_CRL_free(list);
    if (second != NULL) {
        list = crl_of(second, NULL, DAY_S);
        assert_int_equal(PEM_write_X509_CRL(file, list), 1);
        X509_CRL_free(list);
    }
    fclose(file);
    assert_int_equal(rename(fresh, crl), 0);
}

static int make_files(void **state)
{
    (void)state;
    now_s = (int64_t)time(NULL);
    strcpy(folder.folder, "/tmp/belfry-tls-XXXXXX");
    assert_non_null(mkdtemp(folder.folder));
    old_ca = keys_issue("old CA", NULL, NULL, 10);
    new_ca = keys_issue("new CA", NULL, NULL, 10);
    serving = keys_issue("etcd.test", "DNS:etcd.test", &old_ca, 5);
    alice = keys_issue("alice", "DNS:alice.test,URI:spiffe://test/alice", &old_ca, 5);
    bob = keys_issue("bob", "DNS:bob.test,DNS:b.test", &new_ca, 5);
    keys_write_cert(&folder, "server.pem", serving.cert, server_cert);
    keys_write_key(&folder, "server.key", serving.key, server_key, NULL);
    keys_write_cert(&folder, "alice.pem", alice.cert, alice_cert);
    keys_write_key(&folder, "alice.key", alice.key, alice_key, NULL);
    keys_write_cert(&folder, "bob.pem", bob.cert, bob_cert);
    keys_write_key(&folder, "bob.key", bob.key, bob_key, NULL);
    snprintf(client_ca, sizeof(client_ca), "%s/ca.pem", folder.folder);
    snprintf(crl, sizeof(crl), "%s/crl.pem", folder.folder);
    write_cas(&old_ca, &new_ca);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    const char *const paths[] = {server_cert, server_key, alice_cert, alice_key, bob_cert, bob_key, client_ca, crl};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        unlink(paths[i]);
    assert_int_equal(rmdir(folder.folder), 0);
    struct issuer *const issuers[] = {&old_ca, &new_ca, &serving, &alice, &bob};
    for (size_t i = 0; i < sizeof(issuers) / sizeof(issuers[0]); i++)
        keys_end(issuers[i]);
    return 0;
}

static struct belfry_tls *make_server(const char *crl_file, enum belfry_tls_name name)
{
    struct belfry_tls_server_opts opts = {
        .cert = server_cert, .key = server_key, .client_ca = client_ca, .crl = crl_file, .name = name};
    struct belfry_tls *tls;
    char why[256];
    if (belfry_tls_create_server(&opts, &tls, why, sizeof(why)) != BELFRY_OK)
        fail_msg("%s", why);
    return tls;
}

static enum belfry_err connect_as(struct belfry_tls *server, const char *cert, const char *key, struct both *both)
{
    struct belfry_tls_opts opts = {.cert = cert, .key = key, .skip_verify = true};
    struct belfry_tls *tls;
    char why[256];
    assert_int_equal(belfry_tls_create(&opts, &tls, why, sizeof(why)), BELFRY_OK);
    enum belfry_err err = connect_to(server, tls, both);
    belfry_tls_destroy(tls);
    return err;
}

static void assert_refreshes(struct belfry_tls *tls)
{
    char why[256];
    if (belfry_tls_refresh(tls, why, sizeof(why)) != BELFRY_OK)
        fail_msg("%s", why);
}

static void assert_lives(struct both *both, struct belfry_tls *tls, int64_t at_s)
{
    if (belfry_tls_conn_recheck(both->server, tls, at_s) != BELFRY_OK)
        fail_msg("%s", belfry_tls_conn_why(both->server));
    assert_int_equal(ERR_peek_error(), 0);
}

static void assert_ends(struct both *both, struct belfry_tls *tls, int64_t at_s, const char *part)
{
    assert_int_equal(belfry_tls_conn_recheck(both->server, tls, at_s), BELFRY_ERR_TLS);
    if (strstr(belfry_tls_conn_why(both->server), part) == NULL)
        fail_msg("%s", belfry_tls_conn_why(both->server));
    assert_int_equal(ERR_peek_error(), 0);
}

static void certificate_ends_when_it_expires(void **state)
{
    (void)state;
    struct belfry_tls *tls = make_server(NULL, BELFRY_TLS_NAME_CN);
    struct both both;
    assert_int_equal(connect_as(tls, alice_cert, alice_key, &both), BELFRY_OK);
    int64_t expires_s = belfry_tls_time(X509_get0_notAfter(alice.cert));
    assert_in_range(expires_s - now_s, 5 * DAY_S - 60, 5 * DAY_S + 60);
    assert_lives(&both, tls, now_s);
    assert_lives(&both, tls, expires_s - 1);
    assert_ends(&both, tls, expires_s + 1, "certificate has expired");
    both_end(&both);
    belfry_tls_destroy(tls);
}

static void certificate_ends_with_its_authority(void **state)
{
    (void)state;
    struct belfry_tls *tls = make_server(NULL, BELFRY_TLS_NAME_CN);
    struct both of_old, of_new, late;
    assert_int_equal(connect_as(tls, alice_cert, alice_key, &of_old), BELFRY_OK);
    assert_int_equal(connect_as(tls, bob_cert, bob_key, &of_new), BELFRY_OK);
    uint64_t version = belfry_tls_version(tls);
    write_cas(&new_ca, NULL);
    assert_lives(&of_old, tls, now_s); /* the file was not read yet */
    assert_refreshes(tls);
    assert_int_equal(belfry_tls_version(tls), version + 1);
    assert_ends(&of_old, tls, now_s, "signed by the client CA");
    assert_lives(&of_new, tls, now_s);
    assert_int_equal(connect_as(tls, alice_cert, alice_key, &late), BELFRY_ERR_TLS);
    both_end(&late);
    write_cas(&old_ca, &new_ca);
    assert_refreshes(tls);
    assert_lives(&of_new, tls, now_s);
    both_end(&of_old);
    both_end(&of_new);
    belfry_tls_destroy(tls);
}

static void certificate_ends_when_it_is_revoked(void **state)
{
    (void)state;
    struct both hers, his, late;
    write_crl(&old_ca, NULL, DAY_S, &new_ca);
    struct belfry_tls *tls = make_server(crl, BELFRY_TLS_NAME_CN);
    assert_int_equal(connect_as(tls, alice_cert, alice_key, &hers), BELFRY_OK);
    assert_int_equal(connect_as(tls, bob_cert, bob_key, &his), BELFRY_OK);
    assert_lives(&hers, tls, now_s);
    write_crl(&old_ca, &alice, DAY_S, &new_ca);
    assert_refreshes(tls);
    assert_ends(&hers, tls, now_s, "certificate revoked");
    assert_lives(&his, tls, now_s);
    assert_int_equal(connect_as(tls, alice_cert, alice_key, &late), BELFRY_ERR_TLS);
    assert_non_null(strstr(belfry_tls_conn_why(late.server), "certificate revoked; the client needs a new"));
    both_end(&late);
    both_end(&hers);
    both_end(&his);
    belfry_tls_destroy(tls);
}

static void list_that_is_overdue_still_counts(void **state)
{
    (void)state;
    struct both hers, his;
    write_crl(&old_ca, &alice, -60, &new_ca);
    struct belfry_tls *tls = make_server(crl, BELFRY_TLS_NAME_CN);
    assert_in_range(now_s - belfry_tls_crl_due(tls), 0, 120);
    assert_int_equal(connect_as(tls, alice_cert, alice_key, &hers), BELFRY_ERR_TLS);
    assert_non_null(strstr(belfry_tls_conn_why(hers.server), "certificate revoked"));
    assert_int_equal(connect_as(tls, bob_cert, bob_key, &his), BELFRY_OK);
    write_crl(&new_ca, NULL, -60, &old_ca);
    assert_refreshes(tls);
    assert_lives(&his, tls, now_s);
    both_end(&hers);
    both_end(&his);
    belfry_tls_destroy(tls);
}

static void authority_without_a_list_is_refused(void **state)
{
    (void)state;
    struct both his;
    write_crl(&old_ca, NULL, DAY_S, NULL);
    struct belfry_tls *tls = make_server(crl, BELFRY_TLS_NAME_CN);
    assert_int_equal(connect_as(tls, bob_cert, bob_key, &his), BELFRY_ERR_TLS);
    assert_non_null(strstr(belfry_tls_conn_why(his.server), "the crl file needs a list of the authority"));
    both_end(&his);
    /* nor does a connection outlive the list of its authority */
    write_crl(&old_ca, NULL, DAY_S, &new_ca);
    assert_refreshes(tls);
    assert_int_equal(connect_as(tls, bob_cert, bob_key, &his), BELFRY_OK);
    write_crl(&old_ca, NULL, DAY_S, NULL);
    assert_refreshes(tls);
    assert_ends(&his, tls, now_s, "the crl file needs a list of the authority");
    both_end(&his);
    belfry_tls_destroy(tls);
}

static void certificate_ends_when_an_authority_above_its_own_is_revoked(void **state)
{
    (void)state;
    struct both hers, late;
    struct issuer middle = keys_issue("middle CA", NULL, &old_ca, 5);
    struct issuer carol = keys_issue("carol", "DNS:carol.test", &middle, 5);
    char cert[96], key[96];
    keys_write_key(&folder, "carol.key", carol.key, key, NULL);
    FILE *file = keys_file(&folder, "carol.pem", cert, sizeof(cert));
    assert_int_equal(PEM_write_X509(file, carol.cert), 1);
    assert_int_equal(PEM_write_X509(file, middle.cert), 1);
    fclose(file);
    write_crl(&middle, NULL, DAY_S, &old_ca);
    struct belfry_tls *tls = make_server(crl, BELFRY_TLS_NAME_CN);
    assert_int_equal(connect_as(tls, cert, key, &hers), BELFRY_OK);
    write_crl(&old_ca, &middle, DAY_S, &middle);
    assert_refreshes(tls);
    assert_ends(&hers, tls, now_s, "certificate revoked");
    assert_int_equal(connect_as(tls, cert, key, &late), BELFRY_ERR_TLS);
    both_end(&late);
    both_end(&hers);
    belfry_tls_destroy(tls);
    keys_end(&middle);
    keys_end(&carol);
    unlink(cert);
    unlink(key);
}

static void list_of_a_stranger_revokes_nothing(void **state)
{
    (void)state;
    struct both hers;
    struct issuer forger = keys_issue("old CA", NULL, NULL, 10); /* by name, not by key */
    write_crl(&old_ca, NULL, DAY_S, &new_ca);
    struct belfry_tls *tls = make_server(crl, BELFRY_TLS_NAME_CN);
    assert_int_equal(connect_as(tls, alice_cert, alice_key, &hers), BELFRY_OK);
    write_crl(&forger, &alice, DAY_S, &old_ca);
    assert_refreshes(tls);
    if (belfry_tls_conn_recheck(hers.server, tls, now_s) != BELFRY_OK) /* it may end, but not as revoked */
        assert_null(strstr(belfry_tls_conn_why(hers.server), "revoked"));
    both_end(&hers);
    belfry_tls_destroy(tls);
    keys_end(&forger);
}

static void crl_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    struct belfry_tls_server_opts opts = {
        .cert = server_cert, .key = server_key, .client_ca = client_ca, .crl = client_ca};
    struct belfry_tls *tls;
    char why[256];
    assert_int_equal(belfry_tls_create_server(&opts, &tls, why, sizeof(why)), BELFRY_ERR_TLS);
    assert_non_null(strstr(why, "crl file "));
    opts.crl = "/nonexistent/crl.pem";
    assert_int_equal(belfry_tls_create_server(&opts, &tls, why, sizeof(why)), BELFRY_ERR_TLS);
    assert_non_null(strstr(why, "crl file /nonexistent/crl.pem: No such file"));
    /* in the middle of a rotation the lists from before count */
    struct both hers;
    write_crl(&old_ca, &alice, DAY_S, &new_ca);
    tls = make_server(crl, BELFRY_TLS_NAME_CN);
    assert_int_equal(truncate(crl, 40), 0);
    assert_int_equal(belfry_tls_refresh(tls, why, sizeof(why)), BELFRY_ERR_TLS);
    assert_int_equal(connect_as(tls, alice_cert, alice_key, &hers), BELFRY_ERR_TLS);
    both_end(&hers);
    belfry_tls_destroy(tls);
}

static void server_presents_its_new_certificate(void **state)
{
    (void)state;
    struct both before, after;
    struct belfry_tls *tls = make_server(NULL, BELFRY_TLS_NAME_CN);
    struct issuer renewed = keys_issue("etcd.test", "DNS:etcd.test", &old_ca, 5);
    assert_int_equal(connect_as(tls, alice_cert, alice_key, &before), BELFRY_OK);
    keys_write_cert(&folder, "server.pem", renewed.cert, server_cert);
    char why[256];
    assert_int_equal(belfry_tls_refresh(tls, why, sizeof(why)), BELFRY_ERR_TLS); /* its key is not there yet */
    keys_write_key(&folder, "server.key", renewed.key, server_key, NULL);
    assert_refreshes(tls);
    assert_int_equal(connect_as(tls, alice_cert, alice_key, &after), BELFRY_OK);
    assert_lives(&before, tls, now_s);
    both_end(&before);
    both_end(&after);
    belfry_tls_destroy(tls);
    keys_end(&serving);
    serving = renewed;
}

static void user_is_the_name_that_was_configured(void **state)
{
    (void)state;
    static const struct {
        enum belfry_tls_name name;
        const char *alice; /* NULL: refused */
        const char *bob;
    } rows[] = {{BELFRY_TLS_NAME_CN, "alice", "bob"},
                {BELFRY_TLS_NAME_URI, "spiffe://test/alice", ""},
                {BELFRY_TLS_NAME_DNS, "alice.test", NULL}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_tls *tls = make_server(NULL, rows[i].name);
        struct both hers, his;
        assert_int_equal(connect_as(tls, alice_cert, alice_key, &hers), BELFRY_OK);
        assert_string_equal(belfry_tls_conn_user(hers.server), rows[i].alice);
        assert_int_equal(connect_as(tls, bob_cert, bob_key, &his), rows[i].bob != NULL ? BELFRY_OK : BELFRY_ERR_TLS);
        assert_string_equal(belfry_tls_conn_user(his.server), rows[i].bob != NULL ? rows[i].bob : "");
        both_end(&hers);
        both_end(&his);
        belfry_tls_destroy(tls);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certificate_ends_when_it_expires),
        cmocka_unit_test(certificate_ends_with_its_authority),
        cmocka_unit_test(certificate_ends_when_it_is_revoked),
        cmocka_unit_test(list_that_is_overdue_still_counts),
        cmocka_unit_test(authority_without_a_list_is_refused),
        cmocka_unit_test(list_of_a_stranger_revokes_nothing),
        cmocka_unit_test(certificate_ends_when_an_authority_above_its_own_is_revoked),
        cmocka_unit_test(crl_that_cannot_be_read_is_named),
        cmocka_unit_test(server_presents_its_new_certificate),
        cmocka_unit_test(user_is_the_name_that_was_configured),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
