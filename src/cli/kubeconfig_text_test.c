/* src/cli/kubeconfig_text_test.c */
#include "cli/kubeconfig_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/flags.h"

#define HTTP  "http://127.0.0.1:23790"
#define HTTPS "https://belfry.example.com:23790"

static const struct belfry_bytes authority = {"CA", 2}, certificate = {"CERT", 4}, key = {"KEY", 3};

static void assert_written(const struct kubeconfig *config, const char *expected)
{
    char text[4096] = "", why[FLAGS_WHY];
    FILE *out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    assert_int_equal(kubeconfig_check(config, why), BELFRY_OK);
    kubeconfig_write(out, config);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
}

static void http_needs_no_credentials(void **state)
{
    (void)state;
    const struct kubeconfig config = {.server = HTTP, .name = "belfry"};
    assert_written(&config, "apiVersion: v1\nkind: Config\n"
                            "clusters:\n- name: \"belfry\"\n  cluster:\n    server: \"" HTTP "\"\n"
                            "    insecure-skip-tls-verify: true\n"
                            "users:\n- name: \"belfry\"\n  user: {}\n"
                            "contexts:\n- name: \"belfry\"\n  context:\n    cluster: \"belfry\"\n"
                            "    user: \"belfry\"\n"
                            "current-context: \"belfry\"\n");
    assert_null(kubeconfig_warning(&config));
}

static void https_has_everything_embedded(void **state)
{
    (void)state;
    const struct kubeconfig config = {.server = HTTPS,
                                      .name = "x\"y",
                                      .namespace = "prod",
                                      .token = "s3cr\\et",
                                      .server_name = "other",
                                      .authority = authority,
                                      .certificate = certificate,
                                      .key = key};
    assert_written(&config, "apiVersion: v1\nkind: Config\n"
                            "clusters:\n- name: \"x\\\"y\"\n  cluster:\n    server: \"" HTTPS "\"\n"
                            "    certificate-authority-data: \"Q0E=\"\n"
                            "    tls-server-name: \"other\"\n"
                            "users:\n- name: \"x\\\"y\"\n  user:\n    token: \"s3cr\\\\et\"\n"
                            "    client-certificate-data: \"Q0VSVA==\"\n"
                            "    client-key-data: \"S0VZ\"\n"
                            "contexts:\n- name: \"x\\\"y\"\n  context:\n    cluster: \"x\\\"y\"\n"
                            "    user: \"x\\\"y\"\n    namespace: \"prod\"\n"
                            "current-context: \"x\\\"y\"\n");
    assert_null(kubeconfig_warning(&config));
}

static void https_without_credentials_gets_a_token_that_means_nothing(void **state)
{
    (void)state;
    const struct kubeconfig config = {.server = HTTPS, .name = "belfry", .skip_verify = true};
    assert_written(&config, "apiVersion: v1\nkind: Config\n"
                            "clusters:\n- name: \"belfry\"\n  cluster:\n    server: \"" HTTPS "\"\n"
                            "    insecure-skip-tls-verify: true\n"
                            "users:\n- name: \"belfry\"\n  user:\n    token: \"none\"\n"
                            "contexts:\n- name: \"belfry\"\n  context:\n    cluster: \"belfry\"\n"
                            "    user: \"belfry\"\n"
                            "current-context: \"belfry\"\n");
    assert_non_null(strstr(kubeconfig_warning(&config), "would ask for a name and a password"));
}

static void a_warning_says_what_kubectl_does_not_send(void **state)
{
    (void)state;
    const struct kubeconfig plain = {.server = HTTP, .name = "b", .token = "t"};
    assert_non_null(strstr(kubeconfig_warning(&plain), "sends no token over http://"));
    const struct kubeconfig token = {.server = HTTPS, .name = "b", .token = "t"};
    assert_null(kubeconfig_warning(&token));
    const struct kubeconfig cert = {.server = HTTPS, .name = "b", .certificate = certificate, .key = key};
    assert_null(kubeconfig_warning(&cert));
}

static void what_clients_would_not_take_is_refused(void **state)
{
    (void)state;
    static const struct {
        struct kubeconfig config;
        const char *why;
    } rows[] = {
        {{.server = "127.0.0.1:23790", .name = "b"}, "--server: must be http://"},
        {{.server = "unix:///run/belfry", .name = "b"}, "--server: must be http://"},
        {{.server = "ftp://a", .name = "b"}, "--server: must be http://"},
        {{.server = "http://", .name = "b"}, "--server: must be http://"},
        {{.server = "https:///path", .name = "b"}, "--server: must be http://"},
        {{.server = "", .name = "b"}, "--server: must be printable"},
        {{.server = HTTP, .name = ""}, "--name: must be printable"},
        {{.server = HTTP, .name = "b", .namespace = "a b"}, "--namespace: must be printable"},
        {{.server = HTTPS, .name = "b", .token = "a\nb"}, "--token: must be printable"},
        {{.server = HTTPS, .name = "b", .token = "caf\xc3\xa9"}, "--token: must be printable"},
        {{.server = HTTPS, .name = "b", .token = ""}, "--token: must be printable"},
        {{.server = HTTPS, .name = "b", .server_name = "\x7f"}, "--server-name: must be printable"},
        {{.server = HTTPS, .name = "b", .certificate = {"C", 1}}, "give both or neither"},
        {{.server = HTTPS, .name = "b", .key = {"K", 1}}, "give both or neither"},
        {{.server = HTTP, .name = "b", .authority = {"A", 1}}, "--certificate-authority: is for"},
        {{.server = HTTP, .name = "b", .certificate = {"C", 1}, .key = {"K", 1}}, "--client-certificate: is for"},
        {{.server = HTTPS, .name = "b", .authority = {"A", 1}, .skip_verify = true}, "exclude each other"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char why[FLAGS_WHY] = "";
        if (kubeconfig_check(&rows[i].config, why) != BELFRY_ERR_INVALID || strstr(why, rows[i].why) == NULL)
            fail_msg("row %zu: '%s' has no '%s'", i, why, rows[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_needs_no_credentials),
        cmocka_unit_test(https_has_everything_embedded),
        cmocka_unit_test(https_without_credentials_gets_a_token_that_means_nothing),
        cmocka_unit_test(a_warning_says_what_kubectl_does_not_send),
        cmocka_unit_test(what_clients_would_not_take_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
