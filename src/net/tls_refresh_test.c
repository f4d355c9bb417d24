/* src/net/tls_refresh_test.c: where certificates come from: texts, and files that are rotated under way. Both ends are
 * ours, in memory: the server knows who the client says it is. */
#include <openssl/err.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>
#include <utime.h>

#include <cmocka.h>

#include "net/tls_both_test.h"
#include "net/tls_private.h"
#include "net/tls_test_keys.h"
#include "support/refuse.h"

static struct test_keys keys;
static struct belfry_tls *server; /* wants a client certificate */
static struct belfry_tls *any_server;

static int make_keys(void **state)
{
    (void)state;
    char why[256];
    keys_make(&keys);
    struct belfry_tls_server_opts opts = {.cert = keys.server, .key = keys.server_key, .client_ca = keys.ca};
    assert_int_equal(belfry_tls_create_server(&opts, &server, why, sizeof(why)), BELFRY_OK);
    opts.client_ca = NULL;
    assert_int_equal(belfry_tls_create_server(&opts, &any_server, why, sizeof(why)), BELFRY_OK);
    return 0;
}

static int remove_keys(void **state)
{
    (void)state;
    belfry_tls_destroy(server);
    belfry_tls_destroy(any_server);
    keys_remove(&keys);
    return 0;
}

/* ---- two ends ---- */

/* Who the server sees when a connection is made with `tls`; lent until the next. */
static const char *seen_user(struct belfry_tls *tls)
{
    static char user[64];
    struct both both;
    enum belfry_err err = connect_to(server, tls, &both);
    if (err != BELFRY_OK)
        fail_msg("%s, %s", belfry_tls_conn_why(both.client), belfry_tls_conn_why(both.server));
    snprintf(user, sizeof(user), "%s", belfry_tls_conn_user(both.server));
    both_end(&both);
    return user;
}

static struct belfry_tls *make_tls(struct belfry_tls_opts opts)
{
    struct belfry_tls *tls;
    char why[256];
    if (belfry_tls_create(&opts, &tls, why, sizeof(why)) != BELFRY_OK)
        fail_msg("%s", why);
    return tls;
}

/* ---- texts ---- */

struct texts {
    char ca[4096], client[4096], client_key[4096], locked_key[4096], server_key[4096];
};

static void read_text(const char *path, char *to)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    to[fread(to, 1, 4095, file)] = '\0';
    fclose(file);
}

static struct texts *read_texts(void)
{
    static struct texts texts;
    read_text(keys.ca, texts.ca);
    read_text(keys.client, texts.client);
    read_text(keys.client_key, texts.client_key);
    read_text(keys.locked_key, texts.locked_key);
    read_text(keys.server_key, texts.server_key);
    return &texts;
}

static void texts_serve_like_files(void **state)
{
    (void)state;
    struct texts *texts = read_texts();
    char chain[2 * sizeof(texts->ca) + 2], two[2 * sizeof(texts->ca)];
    snprintf(chain, sizeof(chain), "%.4095s\n%.4095s", texts->client, texts->ca);
    read_text(keys.other_ca, two);
    strcat(two, texts->ca);
    const struct belfry_tls_opts rows[] = {
        {.cacert_pem = texts->ca, .cert_pem = texts->client, .key_pem = texts->client_key},
        {.cacert = keys.ca, .cert_pem = texts->client, .key_pem = texts->client_key},
        {.cacert_pem = texts->ca, .cert = keys.client, .key_pem = texts->client_key},
        {.cacert_pem = two, .cert_pem = chain, .key = keys.client_key},
        {.cacert = "/nowhere", .cacert_pem = texts->ca, .cert_pem = texts->client, .key_pem = texts->client_key},
        {.skip_verify = true, .cert_pem = texts->client, .key_pem = texts->client_key},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_tls *tls = make_tls(rows[i]);
        assert_string_equal(seen_user(tls), "alice");
        belfry_tls_destroy(tls);
    }
}

static void wrong_texts_are_told_with_the_reason(void **state)
{
    (void)state;
    struct texts *texts = read_texts();
    char half[4096], torn[8192];
    snprintf(half, sizeof(half), "%.*s", (int)strlen(texts->ca) / 2, texts->ca);
    snprintf(torn, sizeof(torn), "%s%s", texts->ca, half);
    const struct {
        struct belfry_tls_opts opts;
        enum belfry_err err;
        const char *why;
    } rows[] = {
        {{.cacert_pem = ""}, BELFRY_ERR_TLS, "CA certificate given as text: no start line"},
        {{.cacert_pem = "what"}, BELFRY_ERR_TLS, "CA certificate given as text"},
        {{.cacert_pem = half}, BELFRY_ERR_TLS, "CA certificate given as text"},
        {{.cacert_pem = torn}, BELFRY_ERR_TLS, "CA certificate given as text"},
        {{.cert_pem = texts->client}, BELFRY_ERR_INVALID, "the key file is missing"},
        {{.key_pem = texts->client_key}, BELFRY_ERR_INVALID, "the cert file is missing"},
        {{.cert_pem = "what", .key_pem = texts->client_key}, BELFRY_ERR_TLS, "certificate given as text"},
        {{.cert_pem = texts->client, .key_pem = "what"}, BELFRY_ERR_TLS, "key given as text"},
        {{.cert_pem = texts->client, .key_pem = texts->server_key},
         BELFRY_ERR_TLS,
         "key given as text: key values mismatch"},
        {{.cert_pem = texts->client, .key_pem = texts->locked_key}, BELFRY_ERR_TLS, "key given as text: it is locked"},
        {{.cert_pem = texts->client, .key = keys.locked_key}, BELFRY_ERR_TLS, "locked.key: it is locked"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct belfry_tls *tls = NULL;
        char why[256] = "";
        assert_int_equal(belfry_tls_create(&rows[i].opts, &tls, why, sizeof(why)), rows[i].err);
        assert_null(tls);
        if (strstr(why, rows[i].why) == NULL)
            fail_msg("row %zu: %s", i, why);
        assert_int_equal(ERR_peek_error(), 0);
    }
}

/* ---- files that change ---- */

/* A folder of its own with a copy of the client's certificate. */
struct rotated {
    char folder[64], cert[96], key[96];
};

static void copy_file(const char *from, const char *to)
{
    char text[4096], fresh[128];
    read_text(from, text);
    snprintf(fresh, sizeof(fresh), "%s.new", to);
    FILE *file = fopen(fresh, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(rename(fresh, to), 0);
}

static void rotated_init(struct rotated *r)
{
    strcpy(r->folder, "/tmp/belfry-tls-XXXXXX");
    assert_non_null(mkdtemp(r->folder));
    snprintf(r->cert, sizeof(r->cert), "%s/tls.crt", r->folder);
    snprintf(r->key, sizeof(r->key), "%s/tls.key", r->folder);
    copy_file(keys.client, r->cert);
    copy_file(keys.client_key, r->key);
}

static void rotated_fini(struct rotated *r)
{
    unlink(r->cert);
    unlink(r->key);
    assert_int_equal(rmdir(r->folder), 0);
}

static struct belfry_tls *make_rotated(const struct rotated *r)
{
    return make_tls((struct belfry_tls_opts){.cacert = keys.ca, .cert = r->cert, .key = r->key});
}

static void assert_refreshes(struct belfry_tls *tls)
{
    char why[256];
    if (belfry_tls_refresh(tls, why, sizeof(why)) != BELFRY_OK)
        fail_msg("%s", why);
    assert_string_equal(why, "");
    assert_false(belfry_tls_refresh_why(tls, why, sizeof(why)));
}

static void assert_stays(struct belfry_tls *tls, const char *wanted)
{
    char why[256], kept[256];
    assert_int_equal(belfry_tls_refresh(tls, why, sizeof(why)), BELFRY_ERR_TLS);
    if (strstr(why, wanted) == NULL)
        fail_msg("%s", why);
    assert_true(belfry_tls_refresh_why(tls, kept, sizeof(kept)));
    assert_string_equal(kept, why);
}

static void rotated_files_serve_the_connections_to_come(void **state)
{
    (void)state;
    static char wire[65536];
    struct rotated r;
    struct both before;
    char buf[16];
    size_t n;
    rotated_init(&r);
    struct belfry_tls *tls = make_rotated(&r);
    assert_int_equal(connect_to(server, tls, &before), BELFRY_OK);
    copy_file(keys.server, r.cert);
    copy_file(keys.server_key, r.key);
    assert_refreshes(tls);
    assert_string_equal(seen_user(tls), "etcd.test");
    /* The connection from before goes on as it is. */
    assert_string_equal(belfry_tls_conn_user(before.server), "alice");
    assert_int_equal(belfry_tls_conn_write(before.client, belfry_bytes_str("hello"), &n), BELFRY_OK);
    move_bytes(before.client, before.server, wire, sizeof(wire));
    assert_int_equal(belfry_tls_conn_read(before.server, buf, sizeof(buf), &n), BELFRY_OK);
    assert_memory_equal(buf, "hello", 5);
    both_end(&before);
    belfry_tls_destroy(tls);
    rotated_fini(&r);
}

static void files_that_did_not_change_are_not_read_again(void **state)
{
    (void)state;
    struct rotated r;
    rotated_init(&r);
    struct belfry_tls *tls = make_rotated(&r);
    SSL_CTX *first = tls->ctx;
    assert_refreshes(tls);
    assert_ptr_equal(tls->ctx, first);
    struct utimbuf past = {1, 1};
    assert_int_equal(utime(r.cert, &past), 0); /* the same bytes at another time: that is enough */
    assert_refreshes(tls);
    SSL_CTX *second = tls->ctx;
    assert_ptr_not_equal(second, first);
    assert_refreshes(tls);
    assert_ptr_equal(tls->ctx, second);
    belfry_tls_destroy(tls);
    rotated_fini(&r);
}

static void half_a_rotation_leaves_the_old_one_until_it_is_whole(void **state)
{
    (void)state;
    struct rotated r;
    rotated_init(&r);
    struct belfry_tls *tls = make_rotated(&r);
    copy_file(keys.server, r.cert); /* the key is still the old one */
    assert_stays(tls, "key values mismatch");
    assert_stays(tls, "key values mismatch"); /* tried again, though nothing changed since */
    assert_string_equal(seen_user(tls), "alice");
    assert_int_equal(unlink(r.key), 0);
    assert_stays(tls, "tls.key");
    assert_string_equal(seen_user(tls), "alice");
    FILE *file = fopen(r.key, "w");
    assert_non_null(file);
    fputs("-----BEGIN PRIVATE", file);
    fclose(file);
    assert_stays(tls, "tls.key");
    assert_string_equal(seen_user(tls), "alice");
    copy_file(keys.server_key, r.key);
    assert_refreshes(tls);
    assert_string_equal(seen_user(tls), "etcd.test");
    belfry_tls_destroy(tls);
    rotated_fini(&r);
}

static void count_line(enum belfry_log_level level, const char *event, const char *text, void *user)
{
    assert_int_equal(level, BELFRY_LOG_WARN);
    assert_string_equal(event, "tls_kept");
    assert_non_null(strstr(text, "tls.key"));
    ++*(int *)user;
}

static void what_cannot_be_used_is_logged_once_until_it_is_another(void **state)
{
    (void)state;
    struct rotated r;
    int n_lines = 0;
    struct belfry_log log = {.line = count_line, .user = &n_lines, .level = BELFRY_LOG_DEBUG};
    rotated_init(&r);
    struct belfry_tls *tls = make_rotated(&r);
    belfry_tls_log_refresh(tls, &log);
    assert_int_equal(n_lines, 0);
    for (int i = 0; i < 2; i++) { /* mended in between: then it is news again */
        assert_int_equal(unlink(r.key), 0);
        for (int n = 0; n < 3; n++) {
            assert_stays(tls, "tls.key");
            belfry_tls_log_refresh(tls, &log);
        }
        assert_int_equal(n_lines, i + 1);
        copy_file(keys.client_key, r.key);
        assert_refreshes(tls);
        belfry_tls_log_refresh(tls, &log);
        assert_int_equal(n_lines, i + 1);
    }
    belfry_tls_destroy(tls);
    rotated_fini(&r);
}

/* Kubernetes' way: tls.crt -> ..data/tls.crt, ..data -> a folder of that moment; the middle link is swapped. */
static void a_swapped_link_is_a_rotation(void **state)
{
    (void)state;
    struct rotated r = {.folder = "/tmp/belfry-tls-XXXXXX"};
    char path[4][128], data[128], fresh[128];
    assert_non_null(mkdtemp(r.folder));
    for (int i = 0; i < 2; i++) {
        char folder[96];
        snprintf(folder, sizeof(folder), "%s/v%d", r.folder, i);
        assert_int_equal(mkdir(folder, 0700), 0);
        snprintf(path[2 * i], sizeof(path[0]), "%s/tls.crt", folder);
        snprintf(path[2 * i + 1], sizeof(path[0]), "%s/tls.key", folder);
        copy_file(i == 0 ? keys.client : keys.server, path[2 * i]);
        copy_file(i == 0 ? keys.client_key : keys.server_key, path[2 * i + 1]);
    }
    snprintf(data, sizeof(data), "%s/..data", r.folder);
    snprintf(fresh, sizeof(fresh), "%s/..data_tmp", r.folder);
    snprintf(r.cert, sizeof(r.cert), "%s/tls.crt", r.folder);
    snprintf(r.key, sizeof(r.key), "%s/tls.key", r.folder);
    assert_int_equal(symlink("v0", data), 0);
    assert_int_equal(symlink("..data/tls.crt", r.cert), 0);
    assert_int_equal(symlink("..data/tls.key", r.key), 0);
    struct belfry_tls *tls = make_rotated(&r);
    assert_string_equal(seen_user(tls), "alice");
    assert_int_equal(symlink("v1", fresh), 0);
    assert_int_equal(rename(fresh, data), 0);
    assert_refreshes(tls);
    assert_string_equal(seen_user(tls), "etcd.test");
    belfry_tls_destroy(tls);
    for (int i = 0; i < 4; i++)
        unlink(path[i]);
    unlink(data);
    snprintf(path[0], sizeof(path[0]), "%s/v0", r.folder);
    snprintf(path[1], sizeof(path[0]), "%s/v1", r.folder);
    rmdir(path[0]);
    rmdir(path[1]);
    rotated_fini(&r);
}

static void texts_and_unchanged_servers_have_nothing_to_refresh(void **state)
{
    (void)state;
    struct texts *texts = read_texts();
    struct belfry_tls *tls = make_tls((struct belfry_tls_opts){.cacert_pem = texts->ca});
    SSL_CTX *before = tls->ctx;
    assert_refreshes(tls);
    assert_ptr_equal(tls->ctx, before);
    assert_refreshes(server);
    belfry_tls_destroy(tls);
}

/* ---- threads ---- */

static atomic_bool enough;

static void *dial_all_the_time(void *user)
{
    struct belfry_tls *tls = user;
    size_t n_failed = 0;
    while (!atomic_load(&enough)) {
        struct both both;
        char why[256];
        belfry_ignore(belfry_tls_refresh(tls, why, sizeof(why))); /* between the two renames it must fail */
        n_failed += connect_to(any_server, tls, &both) != BELFRY_OK;
        both_end(&both);
    }
    return (void *)n_failed;
}

static void threads_dial_while_files_are_rotated(void **state)
{
    (void)state;
    struct rotated r;
    pthread_t threads[3];
    rotated_init(&r);
    struct belfry_tls *tls = make_rotated(&r);
    atomic_store(&enough, false);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, dial_all_the_time, tls), 0);
    for (int i = 0; i < 40; i++) {
        copy_file(i % 2 == 0 ? keys.server : keys.client, r.cert);
        copy_file(i % 2 == 0 ? keys.server_key : keys.client_key, r.key);
        usleep(2000);
    }
    atomic_store(&enough, true);
    for (size_t i = 0; i < 3; i++) {
        void *n_failed;
        pthread_join(threads[i], &n_failed);
        assert_null(n_failed);
    }
    assert_refreshes(tls);
    assert_string_equal(seen_user(tls), "alice");
    belfry_tls_destroy(tls);
    rotated_fini(&r);
}

static enum belfry_err scenario(void)
{
    struct texts *texts = read_texts();
    struct belfry_tls_opts opts = {
        .cacert = keys.ca, .cert_pem = texts->client, .key_pem = texts->client_key, .server_name = "etcd.test"};
    struct belfry_tls *tls = NULL;
    struct both both = {NULL, NULL};
    char why[256];
    enum belfry_err err = belfry_tls_create(&opts, &tls, why, sizeof(why));
    if (err == BELFRY_OK)
        err = belfry_tls_refresh(tls, why, sizeof(why));
    if (err == BELFRY_OK)
        err = connect_to(server, tls, &both);
    both_end(&both);
    belfry_tls_destroy(tls);
    return err;
}

static void refused_memory_is_reported(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) >= 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_serve_like_files),
        cmocka_unit_test(wrong_texts_are_told_with_the_reason),
        cmocka_unit_test(rotated_files_serve_the_connections_to_come),
        cmocka_unit_test(files_that_did_not_change_are_not_read_again),
        cmocka_unit_test(half_a_rotation_leaves_the_old_one_until_it_is_whole),
        cmocka_unit_test(what_cannot_be_used_is_logged_once_until_it_is_another),
        cmocka_unit_test(a_swapped_link_is_a_rotation),
        cmocka_unit_test(texts_and_unchanged_servers_have_nothing_to_refresh),
        cmocka_unit_test(threads_dial_while_files_are_rotated),
        cmocka_unit_test(refused_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, make_keys, remove_keys);
}
