/* src/kapi/settings_test.c: with real files in a folder of its own, and an environment of its own. */
#include "kapi/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/refuse.h"

/* ---- the folder: a, b: kubeconfigs; home/.kube/config; pod/{token,ca.crt,namespace} ---- */

static char folder[64];

static const char *in(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *out = fopen(in(name), "we");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/belfry-settings-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    return mkdir(in("home"), 0700) + mkdir(in("home/.kube"), 0700) + mkdir(in("pod"), 0700);
}

static const char *const names[] = {"a", "b", "token", "home/.kube/config", "pod/token", "pod/ca.crt", "pod/namespace"};

static void clean(void)
{
    static const char *const variables[] = {"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unlink(in(names[i]));
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        unsetenv(variables[i]);
    setenv("HOME", in("home"), 1);
}

static int before(void **state)
{
    (void)state;
    clean();
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    clean();
    return rmdir(in("home/.kube")) + rmdir(in("home")) + rmdir(in("pod")) + rmdir(folder);
}

static void put_kubeconfig(const char *name, const char *server, const char *user)
{
    char text[1024];
    snprintf(text, sizeof(text),
             "{current-context: x, contexts: [{name: x, context: {cluster: c, user: u, namespace: web}},"
             " {name: y, context: {cluster: c}}], clusters: [{name: c, cluster: {server: '%s'}}],"
             " users: [{name: u, user: {%s}}]}",
             server, user);
    put(name, text);
}

static void be_a_pod(const char *host, const char *port)
{
    setenv("KUBERNETES_SERVICE_HOST", host, 1);
    setenv("KUBERNETES_SERVICE_PORT", port, 1);
    put("pod/token", "tok\n");
    put("pod/ca.crt", "CA\n");
    put("pod/namespace", "team-a\n");
}

/* ---- reading ---- */

#define END ((const char *)NULL)

/* Options by name and value, up to END. */
static struct belfry_opts *options(va_list args)
{
    struct belfry_opts *opts = NULL;
    for (const char *name; (name = va_arg(args, const char *)) != NULL;)
        assert_int_equal(belfry_opts_set(&opts, name, va_arg(args, const char *)), BELFRY_OK);
    return opts;
}

static void read_it(struct belfry_kube_settings *settings, ...)
{
    va_list args;
    va_start(args, settings);
    struct belfry_opts *opts = options(args);
    va_end(args);
    char why[BELFRY_KUBECONFIG_WHY] = "";
    if (belfry_kube_settings_read(opts, in("pod"), settings, why) != BELFRY_OK)
        fail_msg("%s", why);
    belfry_opts_free(opts);
}

static void assert_error(enum belfry_err err, const char *part, ...)
{
    va_list args;
    va_start(args, part);
    struct belfry_opts *opts = options(args);
    va_end(args);
    struct belfry_kube_settings settings;
    char why[BELFRY_KUBECONFIG_WHY] = "";
    enum belfry_err got = belfry_kube_settings_read(opts, in("pod"), &settings, why);
    if (got != err || strstr(why, part) == NULL)
        fail_msg("%s: %s; not %s: %s", belfry_errname(got), why, belfry_errname(err), part);
    belfry_opts_free(opts);
}

static void assert_server(const char *server, ...)
{
    struct belfry_kube_settings settings;
    va_list args;
    va_start(args, server);
    struct belfry_opts *opts = options(args);
    va_end(args);
    char why[BELFRY_KUBECONFIG_WHY] = "";
    if (belfry_kube_settings_read(opts, in("pod"), &settings, why) != BELFRY_OK)
        fail_msg("%s", why);
    assert_string_equal(settings.config.server, server);
    belfry_kube_settings_fini(&settings);
    belfry_opts_free(opts);
}

/* ---- where from ---- */

static void a_server_by_option_takes_nothing_from_a_file(void **state)
{
    (void)state;
    struct belfry_kube_settings settings;
    put_kubeconfig("a", "https://a", "token: t");
    setenv("KUBECONFIG", in("a"), 1);
    be_a_pod("10.0.0.1", "443");
    read_it(&settings, "server", "https://h:6443/x/", END);
    assert_string_equal(settings.config.server, "https://h:6443/x/");
    assert_string_equal(settings.endpoint.host, "h");
    assert_int_equal(settings.endpoint.port, 6443);
    assert_true(settings.endpoint.tls);
    assert_string_equal(settings.base, "/x");
    assert_string_equal(settings.config.ns, "default");
    assert_null(settings.config.token);
    assert_null(settings.config.token_file);
    assert_null(settings.config.cacert_file);
    belfry_kube_settings_fini(&settings);
    assert_error(BELFRY_ERR_INVALID, "server and kubeconfig", "server", "https://h", "kubeconfig", in("a"), END);
    assert_error(BELFRY_ERR_INVALID, "server and context", "server", "https://h", "context", "x", END);
}

static void the_places_are_looked_at_in_order(void **state)
{
    (void)state;
    be_a_pod("10.0.0.1", "443");
    assert_server("https://10.0.0.1:443", END);
    put_kubeconfig("home/.kube/config", "https://home", "");
    assert_server("https://home", END);
    put_kubeconfig("a", "https://a", "");
    setenv("KUBECONFIG", in("a"), 1);
    assert_server("https://a", END);
    put_kubeconfig("b", "https://b", "");
    assert_server("https://b", "kubeconfig", in("b"), END);
    assert_server("https://a", "kubeconfig", "", END); /* an empty option is none */
    setenv("KUBECONFIG", "", 1);
    assert_server("https://home", END);
}

static void a_kubeconfig_gives_the_namespace_and_the_user(void **state)
{
    (void)state;
    struct belfry_kube_settings settings;
    put_kubeconfig("a", "https://a", "token: t");
    read_it(&settings, "kubeconfig", in("a"), END);
    assert_string_equal(settings.config.ns, "web");
    assert_string_equal(settings.config.token, "t");
    assert_int_equal(settings.endpoint.port, 443);
    assert_string_equal(settings.base, "");
    belfry_kube_settings_fini(&settings);
    read_it(&settings, "kubeconfig", in("a"), "context", "y", "namespace", "other", END);
    assert_string_equal(settings.config.ns, "other");
    assert_null(settings.config.token);
    belfry_kube_settings_fini(&settings);
    assert_error(BELFRY_ERR_NOT_FOUND, "there are: x, y", "kubeconfig", in("a"), "context", "z", END);
}

static void of_several_files_those_that_are_missing_are_passed_over(void **state)
{
    (void)state;
    char paths[512];
    snprintf(paths, sizeof(paths), ":%s/gone:%s/a::%s/b:", folder, folder, folder);
    setenv("KUBECONFIG", paths, 1);
    put("a", "current-context: y");
    put_kubeconfig("b", "https://b", "token: t");
    struct belfry_kube_settings settings;
    read_it(&settings, END);
    assert_string_equal(settings.config.server, "https://b");
    assert_null(settings.config.token); /* of context y */
    belfry_kube_settings_fini(&settings);
    unlink(in("a"));
    unlink(in("b"));
    be_a_pod("10.0.0.1", "443"); /* files that were named are wanted */
    assert_error(BELFRY_ERR_NOT_FOUND, "$KUBECONFIG", END);
    assert_error(BELFRY_ERR_NOT_FOUND, "/gone", END);
}

static void there_may_be_32_files(void **state)
{
    (void)state;
    char paths[8192] = "";
    put_kubeconfig("a", "https://a", "");
    for (int i = 0; i < 32; i++) {
        strcat(paths, in("a"));
        strcat(paths, ":");
    }
    setenv("KUBECONFIG", paths, 1);
    assert_server("https://a", END);
    strcat(paths, in("a"));
    setenv("KUBECONFIG", paths, 1);
    assert_error(BELFRY_ERR_INVALID, "more than 32", END);
}

static void empty_files_say_nothing(void **state)
{
    (void)state;
    setenv("KUBECONFIG", "/dev/null", 1);
    assert_error(BELFRY_ERR_NOT_FOUND, "$KUBECONFIG is empty", END);
    be_a_pod("10.0.0.1", "443");
    assert_server("https://10.0.0.1:443", END);
    unsetenv("KUBECONFIG");
    put("home/.kube/config", "\n \n");
    assert_server("https://10.0.0.1:443", END);
    assert_error(BELFRY_ERR_INVALID, "empty", "kubeconfig", "/dev/null", END);
    put_kubeconfig("a", "https://a", "");
    char paths[256];
    snprintf(paths, sizeof(paths), "/dev/null:%s", in("a"));
    setenv("KUBECONFIG", paths, 1);
    assert_server("https://a", END);
}

static void files_that_cannot_be_read_are_named(void **state)
{
    (void)state;
    assert_error(BELFRY_ERR_NOT_FOUND, "/gone: No such file or directory", "kubeconfig", in("gone"), END);
    assert_error(BELFRY_ERR_NOT_FOUND, "Not a directory", "kubeconfig", "/dev/null/x", END);
    assert_error(BELFRY_ERR_INVALID, "Is a directory", "kubeconfig", folder, END);
    assert_error(BELFRY_ERR_INVALID, "larger than 3 MiB", "kubeconfig", "/dev/zero", END);
    setenv("KUBECONFIG", folder, 1);
    assert_error(BELFRY_ERR_INVALID, "Is a directory", END);
    put("a", "kind: [");
    assert_error(BELFRY_ERR_INVALID, "/a: line", "kubeconfig", in("a"), END);
}

static void where_nothing_is_the_sentence_says_where_was_looked(void **state)
{
    (void)state;
    assert_error(BELFRY_ERR_NOT_FOUND, "/home/.kube/config", END);
    assert_error(BELFRY_ERR_NOT_FOUND, "$KUBECONFIG is not set", END);
    assert_error(BELFRY_ERR_NOT_FOUND, "$KUBERNETES_SERVICE_HOST", END);
    assert_error(BELFRY_ERR_NOT_FOUND, "context \"x\"", "context", "x", END);
    setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1); /* half a pod */
    assert_error(BELFRY_ERR_NOT_FOUND, "no pod", END);
    unsetenv("HOME");
    assert_error(BELFRY_ERR_NOT_FOUND, "$HOME/.kube/config", END);
}

/* ---- a pod ---- */

static void a_pod_has_its_service_account(void **state)
{
    (void)state;
    struct belfry_kube_settings settings;
    be_a_pod("10.96.0.1", "6443");
    read_it(&settings, END);
    assert_string_equal(settings.config.server, "https://10.96.0.1:6443");
    assert_string_equal(settings.config.token_file, in("pod/token"));
    assert_string_equal(settings.config.cacert_file, in("pod/ca.crt"));
    assert_string_equal(settings.config.ns, "team-a");
    assert_int_equal(settings.endpoint.port, 6443);
    belfry_kube_settings_fini(&settings);
    be_a_pod("fd00::1", "443");
    unlink(in("pod/namespace"));
    read_it(&settings, END);
    assert_string_equal(settings.config.server, "https://[fd00::1]:443");
    assert_string_equal(settings.endpoint.host, "fd00::1");
    assert_string_equal(settings.config.ns, "default");
    belfry_kube_settings_fini(&settings);
    be_a_pod("[fd00::1]", "443");
    assert_server("https://[fd00::1]:443", END);
}

static void a_pod_without_its_files_is_told_which(void **state)
{
    (void)state;
    be_a_pod("10.96.0.1", "443");
    unlink(in("pod/token"));
    assert_error(BELFRY_ERR_INVALID, "pod/token cannot be read: No such file or directory", END);
    assert_server("https://10.96.0.1:443", "token", "mine", END);
    unlink(in("pod/ca.crt"));
    assert_error(BELFRY_ERR_INVALID, "pod/ca.crt cannot be read: No such file or directory", END);
    be_a_pod("10.96.0.1", "443");
    unlink(in("pod/namespace"));
    assert_int_equal(mkdir(in("pod/namespace"), 0700), 0);
    assert_error(BELFRY_ERR_INVALID, "pod/namespace cannot be read: Is a directory", END);
    assert_int_equal(rmdir(in("pod/namespace")), 0);
    be_a_pod("10.96.0.1", "tcp");
    assert_error(BELFRY_ERR_INVALID, "port", END);
}

/* ---- options replace ---- */

static void credentials_by_option_replace_the_user(void **state)
{
    (void)state;
    struct belfry_kube_settings settings;
    put("token", "from-file");
    put_kubeconfig("a", "https://a", "exec: {command: aws}");
    setenv("KUBECONFIG", in("a"), 1);
    assert_error(BELFRY_ERR_INVALID, "program aws", END);
    read_it(&settings, "token-file", in("token"), END); /* as the sentence advises */
    assert_string_equal(settings.config.token_file, in("token"));
    belfry_kube_settings_fini(&settings);

    put_kubeconfig("a", "https://a",
                   "token: t, tokenFile: /gone, client-certificate-data: Q0VSVAo=, client-key-data: S0VZCg==");
    read_it(&settings, "token", "mine", END);
    assert_string_equal(settings.config.token, "mine");
    assert_null(settings.config.token_file);
    assert_null(settings.config.cert_pem);
    assert_string_equal(settings.config.ns, "web");
    belfry_kube_settings_fini(&settings);

    read_it(&settings, "cert", "c.pem", "key", "k.pem", END);
    assert_string_equal(settings.config.cert_file, "c.pem");
    assert_string_equal(settings.config.key_file, "k.pem");
    assert_null(settings.config.cert_pem);
    assert_null(settings.config.key_pem);
    assert_null(settings.config.token);
    belfry_kube_settings_fini(&settings);
    assert_error(BELFRY_ERR_INVALID, "option cert needs key", "cert", "c.pem", END);
    assert_error(BELFRY_ERR_INVALID, "option key needs cert", "key", "k.pem", END);

    be_a_pod("10.0.0.1", "443");
    setenv("KUBECONFIG", "/dev/null", 1);
    read_it(&settings, "token", "mine", "server-name", "kubernetes", END);
    assert_null(settings.config.token_file);
    assert_string_equal(settings.config.cacert_file, in("pod/ca.crt"));
    assert_string_equal(settings.config.server_name, "kubernetes");
    belfry_kube_settings_fini(&settings);
}

static void whom_to_believe_is_replaced_as_one_thing(void **state)
{
    (void)state;
    struct belfry_kube_settings settings;
    put("a", "{current-context: x, contexts: [{name: x, context: {cluster: c}}, {name: y, context: {cluster: d}}],"
             " clusters: [{name: c, cluster: {server: 'https://h', certificate-authority-data: Q0EK}},"
             " {name: d, cluster: {server: 'https://h', insecure-skip-tls-verify: true}}]}");
    setenv("KUBECONFIG", in("a"), 1);
    read_it(&settings, "cacert", "ca.pem", END);
    assert_string_equal(settings.config.cacert_file, "ca.pem");
    assert_null(settings.config.cacert_pem); /* which would win */
    belfry_kube_settings_fini(&settings);
    read_it(&settings, "insecure-skip-tls-verify", "true", END);
    assert_true(settings.config.skip_verify);
    assert_null(settings.config.cacert_pem);
    belfry_kube_settings_fini(&settings);
    read_it(&settings, "insecure-skip-tls-verify", "false", END);
    assert_string_equal(settings.config.cacert_pem, "CA\n");
    belfry_kube_settings_fini(&settings);
    read_it(&settings, "context", "y", "cacert", "ca.pem", END);
    assert_false(settings.config.skip_verify);
    belfry_kube_settings_fini(&settings);
    read_it(&settings, "context", "y", "insecure-skip-tls-verify", "false", END);
    assert_false(settings.config.skip_verify);
    belfry_kube_settings_fini(&settings);
    assert_error(BELFRY_ERR_INVALID, "exclude each other", "cacert", "a", "insecure-skip-tls-verify", "true", END);
}

/* ---- checks ---- */

static void a_token_goes_over_plain_http_to_loopback_only(void **state)
{
    (void)state;
    put("token", "t");
    assert_server("http://127.0.0.1:8080", "server", "http://127.0.0.1:8080", "token", "t", END);
    assert_server("http://[::1]", "server", "http://[::1]", "token-file", in("token"), END);
    assert_server("http://h", "server", "http://h", END);
    assert_error(BELFRY_ERR_INVALID, "plain http", "server", "http://h", "token", "t", END);
    assert_error(BELFRY_ERR_INVALID, "plain http", "server", "http://h", "token-file", in("token"), END);
    put_kubeconfig("a", "http://10.0.0.1", "token: t");
    assert_error(BELFRY_ERR_INVALID, "plain http", "kubeconfig", in("a"), END);
}

static void what_cannot_be_used_is_refused(void **state)
{
    (void)state;
    assert_error(BELFRY_ERR_INVALID, "https:// or http://", "server", "h:6443", END);
    assert_error(BELFRY_ERR_INVALID, "/gone: No such file", "server", "https://h", "token-file", in("gone"), END);
    assert_error(BELFRY_ERR_INVALID, "Is a directory", "server", "https://h", "token-file", folder, END);
    static const char *const wrong[] = {
        "Web", "a/b", "-a", "a-", "a.b", " ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_error(BELFRY_ERR_INVALID, "namespace", "server", "https://h", "namespace", wrong[i], END);
}

static enum belfry_err read_all_kinds(void)
{
    struct belfry_kube_settings settings = {0};
    struct belfry_opts *opts = NULL;
    char why[BELFRY_KUBECONFIG_WHY];
    enum belfry_err err = (enum belfry_err)belfry_opts_set(&opts, "cacert", "ca.pem");
    if (err == BELFRY_OK)
        err = belfry_kube_settings_read(opts, in("pod"), &settings, why);
    belfry_kube_settings_fini(&settings);
    belfry_opts_free(opts);
    return err;
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    be_a_pod("10.0.0.1", "443");
    assert_true(refuse_sweep(read_all_kinds) >= 8);
    put_kubeconfig("home/.kube/config", "https://home", "token: t");
    assert_true(refuse_sweep(read_all_kinds) >= 20);
    put_kubeconfig("a", "https://a", "token: t");
    char paths[256];
    snprintf(paths, sizeof(paths), "/dev/null:%s:%s", in("gone"), in("a"));
    setenv("KUBECONFIG", paths, 1);
    assert_true(refuse_sweep(read_all_kinds) >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_server_by_option_takes_nothing_from_a_file, before),
        cmocka_unit_test_setup(the_places_are_looked_at_in_order, before),
        cmocka_unit_test_setup(a_kubeconfig_gives_the_namespace_and_the_user, before),
        cmocka_unit_test_setup(of_several_files_those_that_are_missing_are_passed_over, before),
        cmocka_unit_test_setup(there_may_be_32_files, before),
        cmocka_unit_test_setup(empty_files_say_nothing, before),
        cmocka_unit_test_setup(files_that_cannot_be_read_are_named, before),
        cmocka_unit_test_setup(where_nothing_is_the_sentence_says_where_was_looked, before),
        cmocka_unit_test_setup(a_pod_has_its_service_account, before),
        cmocka_unit_test_setup(a_pod_without_its_files_is_told_which, before),
        cmocka_unit_test_setup(credentials_by_option_replace_the_user, before),
        cmocka_unit_test_setup(whom_to_believe_is_replaced_as_one_thing, before),
        cmocka_unit_test_setup(a_token_goes_over_plain_http_to_loopback_only, before),
        cmocka_unit_test_setup(what_cannot_be_used_is_refused, before),
        cmocka_unit_test_setup(refused_memory_leaks_nothing, before),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
