/* src/kapi/kubeconfig_test.c */
#include "kapi/kubeconfig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/refuse.h"

#define PATH "/home/u/.kube/config"

static struct belfry_kubeconfig_file file_of(const char *path, const char *text)
{
    return (struct belfry_kubeconfig_file){path, belfry_bytes_str(text)};
}

static struct belfry_kubeconfig read_one(const char *text, const char *context)
{
    struct belfry_kubeconfig_file file = file_of(PATH, text);
    struct belfry_kubeconfig config;
    char why[BELFRY_KUBECONFIG_WHY] = "";
    if (belfry_kubeconfig_read(&file, 1, context, BELFRY_KUBECONFIG_WHOLE, &config, why) != BELFRY_OK)
        fail_msg("%s", why);
    return config;
}

static void assert_error(const char *text, const char *context, enum belfry_err err, const char *const *parts)
{
    struct belfry_kubeconfig_file file = file_of(PATH, text);
    struct belfry_kubeconfig config;
    char why[BELFRY_KUBECONFIG_WHY] = "";
    assert_int_equal(belfry_kubeconfig_read(&file, 1, context, BELFRY_KUBECONFIG_WHOLE, &config, why), err);
    assert_true(strncmp(why, PATH ": ", sizeof(PATH ": ") - 1) == 0);
    for (; *parts != NULL; parts++) {
        if (strstr(why, *parts) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", why, *parts);
    }
}
#define ASSERT_ERROR(text, context, err, ...) assert_error(text, context, err, (const char *const[]){__VA_ARGS__, NULL})

/* ---- what it says ---- */

static const char usual[] = "apiVersion: v1\n"
                            "kind: Config\n"
                            "preferences: {colors: true}\n"
                            "current-context: dev\n"
                            "clusters:\n"
                            "- name: c1\n"
                            "  cluster:\n"
                            "    server: https://10.0.0.1:6443\n"
                            "    certificate-authority-data: Q0EK\n"
                            "    disable-compression: true\n"
                            "    extensions: [{name: x, extension: {a: 1}}]\n"
                            "- name: c2\n"
                            "  cluster:\n"
                            "    server: https://api.example.com\n"
                            "    tls-server-name: inner.example.com\n"
                            "    insecure-skip-tls-verify: true\n"
                            "users:\n"
                            "- name: u1\n"
                            "  user:\n"
                            "    client-certificate-data: >\n"
                            "      Q0VS\n"
                            "      VAo=\n"
                            "    client-key-data: S0VZCg==\n"
                            "- name: u2\n"
                            "  user: {token: abc, tokenFile: tokens/t}\n"
                            "contexts:\n"
                            "- {name: dev, context: {cluster: c1, user: u1}}\n"
                            "- name: prod\n"
                            "  context: {cluster: c2, user: u2, namespace: web}\n"
                            "- {name: nobody, context: {cluster: c2, namespace: ''}}\n";

static void the_current_context_is_read(void **state)
{
    (void)state;
    struct belfry_kubeconfig config = read_one(usual, NULL);
    assert_string_equal(config.server, "https://10.0.0.1:6443");
    assert_string_equal(config.cacert_pem, "CA\n");
    assert_string_equal(config.cert_pem, "CERT\n");
    assert_string_equal(config.key_pem, "KEY\n");
    assert_null(config.server_name);
    assert_null(config.cacert_file);
    assert_null(config.token);
    assert_null(config.token_file);
    assert_null(config.ns);
    assert_false(config.skip_verify);
    belfry_kubeconfig_fini(&config);
    config = read_one(usual, "");
    assert_string_equal(config.server, "https://10.0.0.1:6443");
    belfry_kubeconfig_fini(&config);
}

static void another_context_is_read_by_its_name(void **state)
{
    (void)state;
    struct belfry_kubeconfig config = read_one(usual, "prod");
    assert_string_equal(config.server, "https://api.example.com");
    assert_string_equal(config.server_name, "inner.example.com");
    assert_string_equal(config.token, "abc");
    assert_string_equal(config.token_file, "/home/u/.kube/tokens/t");
    assert_string_equal(config.ns, "web");
    assert_true(config.skip_verify);
    assert_null(config.cert_pem);
    belfry_kubeconfig_fini(&config);
}

static void a_context_needs_no_user_and_an_empty_text_is_none(void **state)
{
    (void)state;
    struct belfry_kubeconfig config = read_one(usual, "nobody");
    assert_string_equal(config.server, "https://api.example.com");
    assert_null(config.token);
    assert_null(config.ns);
    belfry_kubeconfig_fini(&config);
    config = read_one("{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],"
                      " clusters: [{name: c, cluster: {server: 'http://h', certificate-authority: '', proxy-url: ''}}],"
                      " users: [{name: u, user: {token: '', as: '', as-groups: [], as-user-extra: {}, exec: null,"
                      " username: ''}}]}",
                      NULL);
    assert_null(config.cacert_file);
    assert_null(config.token);
    belfry_kubeconfig_fini(&config);
    config = read_one("{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],"
                      " clusters: [{name: c, cluster: {server: 'http://h'}}], users: [{name: u, user: null}]}",
                      NULL);
    assert_null(config.token);
    belfry_kubeconfig_fini(&config);
}

static void json_is_read_too(void **state)
{
    (void)state;
    struct belfry_kubeconfig config =
        read_one("{\"kind\":\"Config\",\"current-context\":\"x\",\"contexts\":[{\"name\":\"x\",\"context\":"
                 "{\"cluster\":\"c\",\"user\":\"u\"}}],\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":"
                 "\"https://h\"}}],\"users\":[{\"name\":\"u\",\"user\":{\"token\":\"t\"}}]}",
                 NULL);
    assert_string_equal(config.server, "https://h");
    assert_string_equal(config.token, "t");
    belfry_kubeconfig_fini(&config);
}

#define AROUND(cluster, user)                                                                                          \
    "{current-context: x, contexts: [{name: x, context: {cluster: c, user: eks}}],"                                    \
    " clusters: [{name: c, cluster: {" cluster "}}], users: [{name: eks, user: {" user "}}]}"
#define WITH_USER(user)       AROUND("server: 'https://h'", user)
#define WITH_CLUSTER(cluster) AROUND(cluster, "")

static void relative_paths_are_relative_to_their_file(void **state)
{
    (void)state;
    struct belfry_kubeconfig config = read_one(AROUND("server: 'https://h', certificate-authority: ../ca.crt",
                                                      "client-certificate: /abs/cert, client-key: key, tokenFile: t"),
                                               NULL);
    assert_string_equal(config.cacert_file, "/home/u/.kube/../ca.crt");
    assert_string_equal(config.cert_file, "/abs/cert");
    assert_string_equal(config.key_file, "/home/u/.kube/key");
    assert_string_equal(config.token_file, "/home/u/.kube/t");
    belfry_kubeconfig_fini(&config);

    struct belfry_kubeconfig_file here = file_of("config", WITH_USER("tokenFile: t"));
    char why[BELFRY_KUBECONFIG_WHY];
    assert_int_equal(belfry_kubeconfig_read(&here, 1, NULL, BELFRY_KUBECONFIG_WHOLE, &config, why), BELFRY_OK);
    assert_string_equal(config.token_file, "t");
    belfry_kubeconfig_fini(&config);
}

/* ---- several files ---- */

static const char first[] = "clusters: [{name: c, cluster: {server: 'https://a:6443'}}]\n"
                            "users: [{name: u, user: {token: ta}}]\n"
                            "contexts: [{name: x, context: {cluster: c, user: u}}]\n";
static const char second[] =
    "clusters: [{name: c, cluster: {server: 'https://b', tls-server-name: nb}},"
    " {name: d, cluster: {server: 'https://d', certificate-authority: rel/ca.crt}}]\n"
    "users: [{name: u, user: {token: tb, username: q}}]\n"
    "contexts: [{name: x, context: {cluster: d, user: u, namespace: nb}}, {name: z, context: {cluster: d, user: u}}]\n"
    "current-context: x\n";

/* As kubectl 1.32 merges the same two. */
static void of_each_name_the_first_file_counts(void **state)
{
    (void)state;
    struct belfry_kubeconfig_file files[] = {file_of("/one/config", first), file_of("/two/config", second)};
    struct belfry_kubeconfig config;
    char why[BELFRY_KUBECONFIG_WHY];
    assert_int_equal(belfry_kubeconfig_read(files, 2, NULL, BELFRY_KUBECONFIG_WHOLE, &config, why), BELFRY_OK);
    assert_string_equal(config.server, "https://a:6443");
    assert_string_equal(config.token, "ta");
    assert_null(config.server_name); /* entries are not mixed */
    assert_null(config.ns);
    belfry_kubeconfig_fini(&config);

    assert_int_equal(belfry_kubeconfig_read(files, 2, "z", BELFRY_KUBECONFIG_WHOLE, &config, why), BELFRY_OK);
    assert_string_equal(config.server, "https://d");
    assert_string_equal(config.cacert_file, "/two/rel/ca.crt");
    assert_string_equal(config.token, "ta");
    belfry_kubeconfig_fini(&config);
}

static void the_first_current_context_counts(void **state)
{
    (void)state;
    struct belfry_kubeconfig_file files[] = {file_of("/0", "current-context: ''"), file_of("/1", "current-context: z"),
                                             file_of("/2", first), file_of("/3", second)};
    struct belfry_kubeconfig config;
    char why[BELFRY_KUBECONFIG_WHY];
    assert_int_equal(belfry_kubeconfig_read(files, 4, NULL, BELFRY_KUBECONFIG_WHOLE, &config, why), BELFRY_OK);
    assert_string_equal(config.server, "https://d");
    belfry_kubeconfig_fini(&config);
}

static void a_wrong_file_is_an_error_also_when_it_is_not_needed(void **state)
{
    (void)state;
    struct belfry_kubeconfig_file files[] = {file_of("/one/config", first), file_of("/two/config", "kind: [")};
    struct belfry_kubeconfig config;
    char why[BELFRY_KUBECONFIG_WHY];
    assert_int_equal(belfry_kubeconfig_read(files, 2, "x", BELFRY_KUBECONFIG_WHOLE, &config, why), BELFRY_ERR_INVALID);
    assert_true(strncmp(why, "/two/config: line ", strlen("/two/config: line ")) == 0);
}

/* ---- refusals ---- */

static void what_this_library_cannot_do_is_refused_with_a_way_out(void **state)
{
    (void)state;
    ASSERT_ERROR(WITH_USER("exec: {apiVersion: client.authentication.k8s.io/v1, command: /usr/bin/aws, args: [eks]}"),
                 NULL, BELFRY_ERR_INVALID, "user \"eks\"", "program aws (exec)", "token-file", "client certificate");
    ASSERT_ERROR(WITH_USER("token: t, exec: {}"), NULL, BELFRY_ERR_INVALID, "exec");
    ASSERT_ERROR(WITH_USER("exec: {command: 7}"), NULL, BELFRY_ERR_INVALID, "program ? (exec)");
    ASSERT_ERROR(WITH_USER("auth-provider: {name: gcp}"), NULL, BELFRY_ERR_INVALID, "user \"eks\"",
                 "gcp (auth-provider)", "token-file");
    ASSERT_ERROR(WITH_USER("username: me, password: secret"), NULL, BELFRY_ERR_INVALID, "user \"eks\"",
                 "name and password", "token-file");
    ASSERT_ERROR(WITH_USER("password: secret"), NULL, BELFRY_ERR_INVALID, "name and password");
    ASSERT_ERROR(WITH_USER("token: t, as: root"), NULL, BELFRY_ERR_INVALID, "user \"eks\"", "(as)");
    ASSERT_ERROR(WITH_USER("as-groups: [a]"), NULL, BELFRY_ERR_INVALID, "(as-groups)");
    ASSERT_ERROR(WITH_USER("as-uid: '1'"), NULL, BELFRY_ERR_INVALID, "(as-uid)");
    ASSERT_ERROR(WITH_USER("as-user-extra: {a: [b]}"), NULL, BELFRY_ERR_INVALID, "(as-user-extra)");
    ASSERT_ERROR(WITH_CLUSTER("server: 'https://h', proxy-url: 'http://p:3128'"), NULL, BELFRY_ERR_INVALID,
                 "cluster \"c\"", "proxy-url");
}

static void a_password_is_not_told(void **state)
{
    (void)state;
    struct belfry_kubeconfig_file file = file_of(PATH, WITH_USER("username: me, password: secret"));
    struct belfry_kubeconfig config;
    char why[BELFRY_KUBECONFIG_WHY];
    assert_int_equal(belfry_kubeconfig_read(&file, 1, NULL, BELFRY_KUBECONFIG_WHOLE, &config, why), BELFRY_ERR_INVALID);
    assert_null(strstr(why, "secret"));
}

static void what_does_not_fit_together_is_refused(void **state)
{
    (void)state;
    ASSERT_ERROR(WITH_USER("client-certificate: a"), NULL, BELFRY_ERR_INVALID,
                 "client-certificate without its client-key");
    ASSERT_ERROR(WITH_USER("client-key-data: S0VZCg=="), NULL, BELFRY_ERR_INVALID,
                 "client-key without its client-certificate");
    ASSERT_ERROR(WITH_CLUSTER("server: 'https://h', certificate-authority: a, insecure-skip-tls-verify: true"), NULL,
                 BELFRY_ERR_INVALID, "cluster \"c\"", "insecure-skip-tls-verify");
    ASSERT_ERROR(WITH_CLUSTER("server: 'https://h', certificate-authority-data: Q0EK, insecure-skip-tls-verify: true"),
                 NULL, BELFRY_ERR_INVALID, "insecure-skip-tls-verify");
    ASSERT_ERROR(WITH_CLUSTER("server: ''"), NULL, BELFRY_ERR_INVALID, "cluster \"c\" has no server");
}

static void what_has_the_wrong_form_is_told_with_its_place(void **state)
{
    (void)state;
    ASSERT_ERROR("", NULL, BELFRY_ERR_INVALID, "empty");
    ASSERT_ERROR("[]", NULL, BELFRY_ERR_INVALID, "map");
    ASSERT_ERROR("kind: Pod\napiVersion: v1\n", NULL, BELFRY_ERR_INVALID, "kind", "not a kubeconfig", "Config");
    ASSERT_ERROR("apiVersion: v2\n", NULL, BELFRY_ERR_INVALID, "apiVersion", "v1");
    ASSERT_ERROR("current-context: &a x\nkind: *a\n", NULL, BELFRY_ERR_INVALID, "line 2", "alias");
    ASSERT_ERROR("current-context: 7\n", NULL, BELFRY_ERR_INVALID, "current-context", "text");
    ASSERT_ERROR("{current-context: x, contexts: {x: 1}}", NULL, BELFRY_ERR_INVALID, "contexts", "list");
    ASSERT_ERROR("{current-context: x, contexts: [7]}", NULL, BELFRY_ERR_INVALID, "contexts[0]", "map");
    ASSERT_ERROR("{current-context: x, contexts: [{name: x, context: 7}]}", NULL, BELFRY_ERR_INVALID,
                 "contexts[0].context", "map");
    ASSERT_ERROR("{current-context: x, contexts: [{name: x, context: {cluster: [c]}}]}", NULL, BELFRY_ERR_INVALID,
                 "contexts[0].context.cluster", "text");
    ASSERT_ERROR("{current-context: x, contexts: [{name: x, context: {cluster: c, namespace: 7}}]}", NULL,
                 BELFRY_ERR_INVALID, "contexts[0].context.namespace", "text");
    ASSERT_ERROR(WITH_USER("token: 123"), NULL, BELFRY_ERR_INVALID, "users[0].user.token", "number");
    ASSERT_ERROR(WITH_USER("client-key-data: '!'"), NULL, BELFRY_ERR_INVALID, "users[0].user.client-key-data",
                 "base64");
    ASSERT_ERROR(WITH_USER("client-key-data: AAAA"), NULL, BELFRY_ERR_INVALID, "client-key-data", "no PEM");
    ASSERT_ERROR(WITH_USER("client-key-data: ' '"), NULL, BELFRY_ERR_INVALID, "client-key-data", "no PEM");
    ASSERT_ERROR(WITH_CLUSTER("server: 'https://h', insecure-skip-tls-verify: yes"), NULL, BELFRY_ERR_INVALID,
                 "clusters[0].cluster.insecure-skip-tls-verify", "true or false");
    ASSERT_ERROR("{current-context: x, contexts: [{name: x, context: {cluster: c}}, {name: x}]}", NULL,
                 BELFRY_ERR_INVALID, "contexts[1].name", "\"x\"", "twice");
}

/* ---- missing entries ---- */

static void without_a_context_the_sentence_names_those_there_are(void **state)
{
    (void)state;
    ASSERT_ERROR(usual, "staging", BELFRY_ERR_NOT_FOUND, "no context \"staging\"", "dev, prod, nobody");
    ASSERT_ERROR("{contexts: [{name: a}, {name: b}, {noname: 1}]}", NULL, BELFRY_ERR_NOT_FOUND, "no current-context",
                 "option \"context\"", ": a, b");
    ASSERT_ERROR("{kind: Config}", NULL, BELFRY_ERR_NOT_FOUND, "no current-context", "none");
    ASSERT_ERROR("{contexts: [{name: c1}, {name: c2}, {name: c3}, {name: c4}, {name: c5}, {name: c6}, {name: c7},"
                 " {name: c8}, {name: c9}, {name: c10}, {name: c11}]}",
                 NULL, BELFRY_ERR_NOT_FOUND, "c9, c10, ...");
    ASSERT_ERROR(
        "{contexts: [{name: a}, {name: "
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "}, {name: b}]}",
        NULL, BELFRY_ERR_NOT_FOUND, ": a, ...");
}

static void a_cluster_or_user_that_is_nowhere_is_not_found(void **state)
{
    (void)state;
    ASSERT_ERROR("{current-context: x, contexts: [{name: x, context: {cluster: c}}]}", NULL, BELFRY_ERR_NOT_FOUND,
                 "context \"x\"", "cluster \"c\"");
    ASSERT_ERROR("{current-context: x, contexts: [{name: x, context: {user: u}}]}", NULL, BELFRY_ERR_NOT_FOUND,
                 "context \"x\" names no cluster");
    ASSERT_ERROR("{current-context: x, contexts: [{name: x}]}", NULL, BELFRY_ERR_NOT_FOUND, "names no cluster");
    ASSERT_ERROR("{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],"
                 " clusters: [{name: c, cluster: {server: 'https://h'}}]}",
                 NULL, BELFRY_ERR_NOT_FOUND, "context \"x\"", "user \"u\"");
}

static void of_several_files_the_sentence_says_how_many(void **state)
{
    (void)state;
    struct belfry_kubeconfig_file files[] = {file_of("/one/config", first), file_of("/two/config", second)};
    struct belfry_kubeconfig config;
    char why[BELFRY_KUBECONFIG_WHY];
    assert_int_equal(belfry_kubeconfig_read(files, 2, "gone", BELFRY_KUBECONFIG_WHOLE, &config, why),
                     BELFRY_ERR_NOT_FOUND);
    assert_string_equal(why, "2 files: there is no context \"gone\"; there are: x, z");
    assert_int_equal(belfry_kubeconfig_read(NULL, 0, NULL, BELFRY_KUBECONFIG_WHOLE, &config, why),
                     BELFRY_ERR_NOT_FOUND);
    assert_non_null(strstr(why, "no current-context"));
}

/* ---- the rest ---- */

static void without_the_user_its_entry_does_not_matter(void **state)
{
    (void)state;
    struct belfry_kubeconfig_file file = file_of(PATH, WITH_USER("exec: {command: aws}"));
    struct belfry_kubeconfig config;
    char why[BELFRY_KUBECONFIG_WHY];
    assert_int_equal(belfry_kubeconfig_read(&file, 1, NULL, BELFRY_KUBECONFIG_NO_USER, &config, why), BELFRY_OK);
    assert_string_equal(config.server, "https://h");
    belfry_kubeconfig_fini(&config);
    file = file_of(PATH, WITH_USER("token: t"));
    assert_int_equal(belfry_kubeconfig_read(&file, 1, NULL, BELFRY_KUBECONFIG_NO_USER, &config, why), BELFRY_OK);
    assert_null(config.token);
    belfry_kubeconfig_fini(&config);
}

static void sentences_end_with_what_to_do_however_long_the_names(void **state)
{
    (void)state;
    char path[600], text[1200], name[301];
    memset(path, 'p', sizeof(path));
    path[0] = path[590] = '/';
    path[sizeof(path) - 1] = '\0';
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    snprintf(
        text, sizeof(text),
        "{current-context: x, contexts: [{name: x, context: {cluster: c, user: %s}}],"
        " clusters: [{name: c, cluster: {server: 'https://h'}}], users: [{name: %s, user: {exec: {command: %s}}}]}",
        name, name, name);
    struct belfry_kubeconfig_file file = file_of(path, text);
    struct belfry_kubeconfig config;
    char why[BELFRY_KUBECONFIG_WHY];
    assert_int_equal(belfry_kubeconfig_read(&file, 1, NULL, BELFRY_KUBECONFIG_WHOLE, &config, why), BELFRY_ERR_INVALID);
    assert_true(strlen(why) < sizeof(why));
    assert_true(strncmp(why, "...ppp", 6) == 0);
    assert_non_null(strstr(why, "client certificate"));
}

static void a_path_is_not_cut_inside_a_character(void **state)
{
    (void)state;
    char path[201];
    for (size_t i = 0; i < 200; i += 2)
        memcpy(path + i, "\xc3\xa9", 2);
    path[0] = '/';
    path[1] = 'x';
    for (size_t len = 199; len <= 200; len++) {
        path[199] = len == 199 ? '\0' : '\xa9';
        path[200] = '\0';
        struct belfry_kubeconfig_file file = file_of(path, "[]");
        struct belfry_kubeconfig config;
        char why[BELFRY_KUBECONFIG_WHY];
        assert_int_equal(belfry_kubeconfig_read(&file, 1, NULL, BELFRY_KUBECONFIG_WHOLE, &config, why),
                         BELFRY_ERR_INVALID);
        assert_true(strncmp(why, "...\xc3\xa9\xc3\xa9", 7) == 0);
    }
}

static void a_file_over_3_mib_is_refused(void **state)
{
    (void)state;
    size_t len = 3 * 1024 * 1024 + 1;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, '#', len);
    struct belfry_kubeconfig_file file = {PATH, belfry_bytes_of(text, len)};
    struct belfry_kubeconfig config;
    char why[BELFRY_KUBECONFIG_WHY];
    assert_int_equal(belfry_kubeconfig_read(&file, 1, NULL, BELFRY_KUBECONFIG_WHOLE, &config, why), BELFRY_ERR_INVALID);
    assert_non_null(strstr(why, "3145728"));
    free(text);
}

static enum belfry_err read_two(void)
{
    struct belfry_kubeconfig_file files[] = {
        file_of("/one/config", "current-context: x"),
        file_of("/two/config", AROUND("server: 'https://h', certificate-authority-data: Q0EK",
                                      "client-certificate: c, client-key-data: S0VZCg==, token: t, tokenFile: f"))};
    struct belfry_kubeconfig config = {0};
    char why[BELFRY_KUBECONFIG_WHY];
    enum belfry_err err = belfry_kubeconfig_read(files, 2, NULL, BELFRY_KUBECONFIG_WHOLE, &config, why);
    if (err == BELFRY_ERR_NOMEM)
        assert_non_null(strstr(why, "memory"));
    belfry_kubeconfig_fini(&config);
    return err;
}

static enum belfry_err fail_at_the_end(void)
{
    struct belfry_kubeconfig_file file = file_of(PATH, WITH_USER("token: t, client-key: k"));
    struct belfry_kubeconfig config = {0};
    char why[BELFRY_KUBECONFIG_WHY];
    enum belfry_err err = belfry_kubeconfig_read(&file, 1, NULL, BELFRY_KUBECONFIG_WHOLE, &config, why);
    return err == BELFRY_ERR_INVALID ? BELFRY_OK : err;
}

static void refused_memory_leaks_nothing(void **state)
{
    (void)state;
    assert_true(refuse_sweep(read_two) >= 20);
    assert_true(refuse_sweep(fail_at_the_end) >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_current_context_is_read),
        cmocka_unit_test(another_context_is_read_by_its_name),
        cmocka_unit_test(a_context_needs_no_user_and_an_empty_text_is_none),
        cmocka_unit_test(json_is_read_too),
        cmocka_unit_test(relative_paths_are_relative_to_their_file),
        cmocka_unit_test(of_each_name_the_first_file_counts),
        cmocka_unit_test(the_first_current_context_counts),
        cmocka_unit_test(a_wrong_file_is_an_error_also_when_it_is_not_needed),
        cmocka_unit_test(what_this_library_cannot_do_is_refused_with_a_way_out),
        cmocka_unit_test(a_password_is_not_told),
        cmocka_unit_test(what_does_not_fit_together_is_refused),
        cmocka_unit_test(what_has_the_wrong_form_is_told_with_its_place),
        cmocka_unit_test(without_a_context_the_sentence_names_those_there_are),
        cmocka_unit_test(a_cluster_or_user_that_is_nowhere_is_not_found),
        cmocka_unit_test(of_several_files_the_sentence_says_how_many),
        cmocka_unit_test(without_the_user_its_entry_does_not_matter),
        cmocka_unit_test(sentences_end_with_what_to_do_however_long_the_names),
        cmocka_unit_test(a_path_is_not_cut_inside_a_character),
        cmocka_unit_test(a_file_over_3_mib_is_refused),
        cmocka_unit_test(refused_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
