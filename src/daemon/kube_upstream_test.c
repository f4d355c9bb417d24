/* src/daemon/kube_upstream_test.c */
#include "daemon/kube_upstream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/refuse.h"

static char token_path[] = "/tmp/belfry-token-XXXXXX", config_path[] = "/tmp/belfry-kubeconfig-XXXXXX";
static struct kube_upstream upstream;
static char why[512];

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

static enum belfry_err read_where(const char *where, const char *token_file)
{
    char kube[512], token[64];
    snprintf(kube, sizeof(kube), "%s", where);
    snprintf(token, sizeof(token), "%s", token_file != NULL ? token_file : "");
    struct config config = {.upstream_kube = kube, .upstream_token_file = token_file != NULL ? token : NULL};
    why[0] = '\0';
    return kube_upstream_read(&config, &upstream, why, sizeof(why));
}

static void expect_wrong(const char *where, const char *token_file, const char *sentence)
{
    assert_int_equal(read_where(where, token_file), BELFRY_ERR_INVALID);
    if (strstr(why, sentence) == NULL)
        fail_msg("'%s' is not in: %s", sentence, why);
    assert_int_equal(upstream.n, 0);
}

static void urls_have_one_base_and_one_token(void **state)
{
    (void)state;
    assert_int_equal(read_where("http://127.0.0.1:1/a/b,http://127.0.0.1:2/a/b", token_path), BELFRY_OK);
    assert_int_equal(upstream.n, 2);
    assert_string_equal(upstream.endpoints[0].url, "http://127.0.0.1:1");
    assert_string_equal(upstream.endpoints[1].url, "http://127.0.0.1:2");
    assert_string_equal(upstream.settings.base, "/a/b");
    assert_string_equal(upstream.settings.config.token_file, token_path);
    assert_null(upstream.tls);
    kube_upstream_fini(&upstream);
    expect_wrong("http://127.0.0.1:1/a,http://127.0.0.1:2/b", token_path, "the same scheme and the same path");
    expect_wrong("http://127.0.0.1:1,https://127.0.0.1:2", token_path, "the same scheme and the same path");
}

static void a_kubeconfig_with_a_token_is_read(void **state)
{
    (void)state;
    write_text(config_path, "{\"apiVersion\":\"v1\",\"kind\":\"Config\",\"current-context\":\"c\","
                            "\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":\"http://127.0.0.1:7\"}}],"
                            "\"users\":[{\"name\":\"u\",\"user\":{\"token\":\"secret\"}}],"
                            "\"contexts\":[{\"name\":\"c\",\"context\":{\"cluster\":\"c\",\"user\":\"u\"}}]}");
    assert_int_equal(read_where(config_path, NULL), BELFRY_OK);
    assert_int_equal(upstream.n, 1);
    assert_string_equal(upstream.endpoints[0].url, "http://127.0.0.1:7");
    assert_string_equal(upstream.settings.config.token, "secret");
    kube_upstream_fini(&upstream);
}

/* A relayed request would count as the tier's own. */
static void a_client_certificate_is_refused(void **state)
{
    (void)state;
    write_text(config_path, "{\"apiVersion\":\"v1\",\"kind\":\"Config\",\"current-context\":\"c\","
                            "\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":\"http://127.0.0.1:7\"}}],"
                            "\"users\":[{\"name\":\"u\",\"user\":{\"token\":\"secret\","
                            "\"client-certificate\":\"/c.pem\",\"client-key\":\"/c.key\"}}],"
                            "\"contexts\":[{\"name\":\"c\",\"context\":{\"cluster\":\"c\",\"user\":\"u\"}}]}");
    expect_wrong(config_path, NULL, "kubectl create token belfry");
    expect_wrong(config_path, NULL, "it needs the rights in packaging/kubernetes/overlays/kube/rbac.yaml");
}

static void a_tier_without_a_token_is_refused(void **state)
{
    (void)state;
    expect_wrong("http://127.0.0.1:1", NULL, "the tier has no token for the API server");
}

static void outside_of_a_pod_there_is_no_cluster(void **state)
{
    (void)state;
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBERNETES_SERVICE_PORT");
    expect_wrong("in-cluster", NULL, "this process is not in a pod");
}

static void servers_are_bounded(void **state)
{
    char urls[1024] = "";
    (void)state;
    for (int i = 0; i <= KUBE_UPSTREAM_MAX; i++)
        snprintf(urls + strlen(urls), sizeof(urls) - strlen(urls), "%s://127.0.0.1:%d", i > 0 ? ",http" : "http",
                 i + 1);
    expect_wrong(urls, token_path, "more than 16 servers");
}

static enum belfry_err scenario(void)
{
    enum belfry_err err = read_where("http://127.0.0.1:1,http://127.0.0.1:2", token_path);
    kube_upstream_fini(&upstream);
    return err;
}

static void without_memory_nothing_is_left(void **state)
{
    (void)state;
    assert_true(refuse_sweep(scenario) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_have_one_base_and_one_token),     cmocka_unit_test(a_kubeconfig_with_a_token_is_read),
        cmocka_unit_test(a_client_certificate_is_refused),      cmocka_unit_test(a_tier_without_a_token_is_refused),
        cmocka_unit_test(outside_of_a_pod_there_is_no_cluster), cmocka_unit_test(servers_are_bounded),
        cmocka_unit_test(without_memory_nothing_is_left),
    };
    int fds[] = {mkstemp(token_path), mkstemp(config_path)};
    if (fds[0] < 0 || fds[1] < 0 || write(fds[0], "secret\n", 7) != 7)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(token_path);
    unlink(config_path);
    return failed;
}
