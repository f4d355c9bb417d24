/* src/daemon/config_test.c */
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

#include "base/rng.h"
#include "daemon/config.h"
#include "daemon/config_file.h"
#include "daemon/config_listen.h"
#include "daemon/service.h"
#include "support/refuse.h"

#define MAX_ARGS 40

/* Addresses that can be listened on, and never are here. */
#define SOCKET "unix:///tmp/belfry-none.sock"
#define ADMIN  "unix:///tmp/belfry-none-admin.sock"

extern char **environ;

/* What one load gave. */
static enum belfry_err err;
static enum config_do what;
static struct config config;
static char printed[32768], said[4096];
static char path[] = "/tmp/belfry-config-XXXXXX";

static void load_args(int argc, char **argv)
{
    FILE *out = fmemopen(printed, sizeof(printed), "w"), *mistakes = fmemopen(said, sizeof(said), "w");
    assert_non_null(out);
    assert_non_null(mistakes);
    memset(printed, 0, sizeof(printed));
    memset(said, 0, sizeof(said));
    config_fini(&config);
    err = config_load(argc, argv, out, mistakes, &config, &what);
    fclose(out);
    fclose(mistakes);
}

/* Ends with NULL. */
static void load(const char *first, ...)
{
    static char words[MAX_ARGS][6000];
    char *argv[MAX_ARGS + 1] = {words[0]};
    int argc = 1;
    strcpy(words[0], "belfryd");
    va_list args;
    va_start(args, first);
    for (const char *word = first; word != NULL; word = va_arg(args, const char *)) {
        assert_true(argc < MAX_ARGS && strlen(word) < sizeof(words[0]));
        strcpy(words[argc], word);
        argv[argc] = words[argc];
        argc++;
    }
    va_end(args);
    load_args(argc, argv);
}

static void load_ok(void)
{
    if (err != BELFRY_OK)
        fail_msg("refused: %s", said);
    assert_string_equal(said, "");
}

static void write_file_bytes(const char *text, size_t len)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    fclose(file);
}

static void write_file(const char *text)
{
    write_file_bytes(text, strlen(text));
}

static void load_file(const char *text)
{
    write_file(text);
    load("--config", path, NULL);
}

static void expect_in(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in: %s", part, text);
}

static void expect_mistake(const char *sentence)
{
    assert_int_equal(err, BELFRY_ERR_INVALID);
    expect_in(said, sentence);
    assert_int_equal(strncmp(said, "belfryd: ", 9), 0);
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1); /* one line */
    assert_string_equal(printed, "");
}

static int fresh(void **state)
{
    (void)state;
    static char *empty[] = {NULL};
    environ = empty;
    setenv("HOME", "/home/someone", 1);
    strcpy(path + strlen(path) - 6, "XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int done(void **state)
{
    (void)state;
    config_fini(&config);
    return unlink(path);
}

/* ---- defaults ---- */

static void without_any_flag_it_follows_this_machine_and_serves_on_loopback(void **state)
{
    (void)state;
    load(NULL);
    load_ok();
    assert_int_equal(what, CONFIG_RUN);
    assert_int_equal(config.n_upstream, 1);
    assert_string_equal(config.upstream[0].url, "http://127.0.0.1:2379");
    assert_int_equal(config.n_listen, 1);
    assert_string_equal(config.listen[0].endpoint.url, "http://127.0.0.1:23790");
    assert_int_equal(config.listen[0].policy.dialects, DIALECT_GRPC | DIALECT_JSON | DIALECT_KUBE | DIALECT_SSE);
    assert_false(config.listen[0].policy.read_only);
    assert_string_equal(config.admin.url, "http://127.0.0.1:23791");
    assert_string_equal(config.cache_dir, "/home/someone/.cache/belfry");
    assert_int_equal(config.n_scope, 0);
    assert_int_equal(config.log_bytes, 256 << 20);
    assert_int_equal(config.history_bytes, 1 << 30);
    assert_int_equal(config.history_age_s, 3600);
    assert_int_equal(config.memory_bytes, 0);
    assert_int_equal(config.max_streams, 10000);
    assert_int_equal(config.workers, service_cpus());
    assert_int_equal(config.ready_lag_ms, 5000);
    assert_int_equal(config.drain_ms, 30000);
    assert_int_equal(config.rights_period_ms, 10000);
    assert_int_equal(config.progress_ms, 600000);
    assert_int_equal(config.log_level, BELFRY_LOG_INFO);
    assert_int_equal(config.log_format, CONFIG_LOGFMT);
    assert_null(config.advertise);
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    assert_string_equal(config.name, host);
}

static void cache_dir_is_the_managers_then_the_desktops_then_the_homes(void **state)
{
    (void)state;
    setenv("XDG_CACHE_HOME", "relative", 1);
    load(NULL);
    assert_string_equal(config.cache_dir, "/home/someone/.cache/belfry");
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    load(NULL);
    assert_string_equal(config.cache_dir, "/xdg/belfry");
    setenv("CACHE_DIRECTORY", "/var/cache/belfry:/var/cache/other", 1);
    load(NULL);
    assert_string_equal(config.cache_dir, "/var/cache/belfry");
}

static void without_a_home_the_cache_dir_must_be_given(void **state)
{
    (void)state;
    unsetenv("HOME");
    load(NULL);
    expect_mistake("cache-dir: there is no home to keep it in: give --cache-dir DIR");
    load("--cache-dir", "/c", NULL);
    load_ok();
}

/* ---- each key from each source ---- */

/* Values for the file, the environment and the flag, and the line that is printed for each. */
static const struct {
    const char *name, *from_file, *from_env, *from_flag;
} scalars[] = {
    {"upstream-cacert", "/a", "/b", "/c"},
    {"upstream-server-name", "one", "two", "three"},
    {"insecure-listen", "true", "false", "true"},
    {"admin-tail", "true", "false", "true"},
    {"admin", "http://127.0.0.1:1", "http://127.0.0.1:2", "unix:///run/admin"},
    {"advertise", "http://a:1", "http://b:2", "https://c:3"},
    {"name", "one", "two", "three"},
    {"cache-dir", "/a", "/b", "/c"},
    {"log-bytes", "1MiB", "2MiB", "3GiB"},
    {"history-bytes", "1MiB", "2MiB", "3TiB"},
    {"history-age", "1s", "2m", "3h"},
    {"memory-bytes", "512MiB", "1GiB", "300000KiB"},
    {"max-streams", "1", "2", "4294967295"},
    {"workers", "1", "2", "256"},
    {"ready-lag", "2500ms", "2s", "1h"},
    {"drain", "0s", "2s", "1h"},
    {"rights-period", "1s", "30s", "1h"},
    {"progress-interval", "100ms", "2s", "1h"},
    {"log-level", "error", "warn", "debug"},
    {"log-format", "json", "logfmt", "json"},
};

static void expect_line(const char *name, const char *value, const char *note)
{
    char line[256], *at = NULL;
    snprintf(line, sizeof(line), "\n%s: %s ", name, value);
    at = strstr(printed, line);
    if (at == NULL)
        fail_msg("no line '%s: %s' in: %s", name, value, printed);
    char *end = strchr(at + 1, '\n');
    *end = '\0';
    expect_in(at, note);
    *end = '\n';
}

static void flag_wins_over_environment_over_file_over_default(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(scalars) / sizeof(scalars[0]); i++) {
        char text[256], env[BELFRY_OPT_ENV_NAME], flag[256];
        belfry_opt_env_name("BELFRYD_", scalars[i].name, env);
        snprintf(text, sizeof(text), "# one\n%s: %s\n", scalars[i].name, scalars[i].from_file);
        snprintf(flag, sizeof(flag), "--%s=%s", scalars[i].name, scalars[i].from_flag);
        write_file(text);
        load("--config", path, "--print-config", NULL);
        load_ok();
        assert_int_equal(what, CONFIG_EXIT);
        expect_line(scalars[i].name, scalars[i].from_file, "# file, line 2");
        setenv(env, scalars[i].from_env, 1);
        load("--config", path, "--print-config", NULL);
        expect_line(scalars[i].name, scalars[i].from_env, "# environment");
        load("--config", path, "--print-config", flag, NULL);
        expect_line(scalars[i].name, scalars[i].from_flag, "# flag");
        unsetenv(env);
        load("--print-config", flag, NULL);
        expect_line(scalars[i].name, scalars[i].from_flag, "# flag");
    }
}

static void keys_that_need_each_other_come_from_any_source(void **state)
{
    (void)state;
    setenv("BELFRYD_UPSTREAM_CERT", "/crt", 1);
    setenv("BELFRYD_UPSTREAM_PASSWORD_FILE", "/password", 1);
    write_file("upstream-user: root\nlisten: {url: 'http://127.0.0.1:23790', rights: upstream}\n");
    load("--config", path, "--upstream-key", "/key", NULL);
    load_ok();
    assert_string_equal(config.upstream_cert, "/crt");
    assert_string_equal(config.upstream_key, "/key");
    assert_string_equal(config.upstream_user, "root");
    assert_string_equal(config.upstream_password_file, "/password");
}

static void an_empty_text_takes_a_lower_value_away(void **state)
{
    (void)state;
    write_file("advertise: http://a:1\nscope: /a/\n");
    load("--config", path, "--advertise", "", "--scope", "", NULL);
    load_ok();
    assert_null(config.advertise);
    assert_int_equal(config.n_scope, 0);
    setenv("BELFRYD_ADVERTISE", "", 1); /* while an empty variable is none */
    load("--config", path, NULL);
    assert_string_equal(config.advertise, "http://a:1");
}

static void lists_are_replaced_by_a_higher_source_and_added_to_by_the_same(void **state)
{
    (void)state;
    write_file("upstream: [http://a:1, http://b:2]\nlisten:\n  - http://127.0.0.1:1\n  - http://127.0.0.1:2\n");
    load("--config", path, NULL);
    load_ok();
    assert_int_equal(config.n_upstream, 2);
    assert_string_equal(config.upstream[1].url, "http://b:2");
    assert_int_equal(config.n_listen, 2);
    setenv("BELFRYD_UPSTREAM", "http://c:3,http://d:4,http://e:5", 1);
    setenv("BELFRYD_LISTEN", " http://127.0.0.1:3,read-only  unix:///s\n", 1);
    load("--config", path, NULL);
    load_ok();
    assert_int_equal(config.n_upstream, 3);
    assert_int_equal(config.n_listen, 2);
    assert_true(config.listen[0].policy.read_only);
    assert_string_equal(config.listen[1].endpoint.url, "unix:///s");
    load("--config", path, "--upstream=http://f:6", "--listen", "http://[::1]:7", "--upstream", "g", "--listen",
         "http://localhost:8", NULL);
    load_ok();
    assert_int_equal(config.n_upstream, 2);
    assert_string_equal(config.upstream[1].url, "http://g:2379");
    assert_int_equal(config.n_listen, 2);
    assert_string_equal(config.listen[1].endpoint.url, "http://localhost:8");
}

static void a_scalar_flag_given_twice_is_the_last(void **state)
{
    (void)state;
    load("--name", "one", "--name=two", NULL);
    load_ok();
    assert_string_equal(config.name, "two");
}

static void allowed_hosts_are_names(void **state)
{
    (void)state;
    load("--allowed-hosts", "a.example,b-2", "--allowed-hosts", "*", NULL);
    load_ok();
    assert_int_equal(config.n_allowed_hosts, 3);
    assert_string_equal(config.allowed_hosts[1], "b-2");
    assert_string_equal(config.allowed_hosts[2], "*");
    load_file("allowed-hosts: [edge.example, tier_7]\n");
    load_ok();
    assert_int_equal(config.n_allowed_hosts, 2);
    load("--allowed-hosts", "http://a:1", NULL);
    expect_mistake("--allowed-hosts: 'http://a:1' is not a host's name: write it without scheme and port, or *");
    load("--allowed-hosts", "a,,b", NULL);
    expect_mistake("--allowed-hosts: '' is not a host's name");
}

static void a_scope_is_one_prefix(void **state)
{
    (void)state;
    load_file("scope: [/services/]\n");
    load_ok();
    assert_int_equal(config.n_scope, 1);
    assert_string_equal(config.scope[0], "/services/");
    load_file("scope: [/services/, /flags/]\n");
    expect_mistake(":1: scope: one prefix, or everything, can be followed today");
    load("--scope", "/a", "--scope", "/b", NULL);
    expect_mistake("--scope: one prefix, or everything, can be followed today");
}

static void the_config_file_may_be_named_by_the_environment(void **state)
{
    (void)state;
    write_file("name: from-file\n");
    setenv("BELFRYD_CONFIG", path, 1);
    load(NULL);
    load_ok();
    assert_string_equal(config.name, "from-file");
}

/* ---- resources ---- */

static void expect_reads_back(void);

/* A definition of its own in a file, named behind `path`. */
static const char *crd_file(const char *plural, char out[64])
{
    snprintf(out, 64, "%s-%s.yaml", path, plural);
    FILE *file = fopen(out, "w");
    assert_non_null(file);
    fprintf(file,
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s.example.com}\n"
            "spec:\n  group: example.com\n  scope: Namespaced\n  names: {plural: %s, kind: Kind%s}\n"
            "  versions:\n  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}\n",
            plural, plural, plural);
    fclose(file);
    return out;
}

static void a_resource_has_options_on_the_command_line(void **state)
{
    (void)state;
    char first[64], second[64], word[200];
    crd_file("firsts", first);
    snprintf(word, sizeof(word), "%s,prefix=/config/,wrap=spec,key={namespace}/{name}", crd_file("seconds", second));
    load("--resources", first, "--resources", word, "--resources", "crds-under=/registry/crds/", NULL);
    load_ok();
    assert_int_equal(config.resources.n, 3);
    assert_string_equal(config.resources.all[0].crd, first);
    assert_null(config.resources.all[0].prefix);
    assert_string_equal(config.resources.all[1].prefix, "/config/");
    assert_string_equal(config.resources.all[1].wrap, "spec");
    assert_string_equal(config.resources.all[1].key, "{namespace}/{name}");
    assert_null(config.resources.all[2].crd);
    assert_string_equal(config.resources.all[2].under, "/registry/crds/");
    expect_reads_back();
    assert_int_equal(config.resources.n, 3);
    assert_string_equal(config.resources.all[1].key, "{namespace}/{name}");
    unlink(first);
    unlink(second);
}

static void a_resource_is_a_map_in_the_file(void **state)
{
    (void)state;
    char first[64], second[64], third[64], text[600];
    snprintf(text, sizeof(text),
             "resources:\n"
             "  - %s\n"
             "  - {crd: %s, prefix: /config/, wrap: {field: spec, key: '{namespace}/x/{name}'}}\n"
             "  - crd: %s\n"
             "    wrap: data\n",
             crd_file("firsts", first), crd_file("seconds", second), crd_file("thirds", third));
    load_file(text);
    load_ok();
    assert_int_equal(config.resources.n, 3);
    assert_string_equal(config.resources.all[0].crd, first);
    assert_string_equal(config.resources.all[1].wrap, "spec");
    assert_string_equal(config.resources.all[1].key, "{namespace}/x/{name}");
    assert_string_equal(config.resources.all[2].wrap, "data");
    assert_null(config.resources.all[2].key);
    unlink(first);
    unlink(second);
    unlink(third);
}

static void a_definition_that_makes_no_sense_is_named(void **state)
{
    (void)state;
    char first[64], second[64], text[300];
    crd_file("firsts", first);
    load("--resources", first, "--resources", first, NULL);
    expect_mistake("firsts");
    snprintf(second, sizeof(second), "%s-none*.yaml", path);
    load("--resources", second, NULL);
    expect_mistake("there is no such file");
    FILE *file = fopen(first, "w");
    assert_non_null(file);
    fputs("kind: Deployment\n", file);
    fclose(file);
    load("--resources", first, NULL);
    snprintf(text, sizeof(text), "--resources: %s: ", first);
    expect_mistake(text);
    unlink(first);
}

static void what_a_resource_lacks_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *item, *mistake;
    } cases[] = {
        {"{crds-under: /c/, prefix: /a/}", "must have {plural}"},
        {"{prefix: /a/}", "say where its definition is"},
        {"{crd: /a, crds-under: /b/}", "and not both"},
        {"{crd: /a, prefix: /b}", "must end in '/'"},
        {"{crd: /a, perfix: /b/}", "did you mean prefix?"},
        {"{crd: /a, crd: /b}", "crd is there twice"},
        {"{crd: /a, wrap: {fied: spec}}", "wrap has field and key"},
        {"{crd: /a, wrap: [spec]}", "this is a list"},
        {"{crd: ''}", "crd has no value"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[200];
        snprintf(text, sizeof(text), "resources: [%s]\n", cases[i].item);
        load_file(text);
        expect_mistake(cases[i].mistake);
    }
}

/* ---- listeners ---- */

static void a_listener_has_options_on_the_command_line(void **state)
{
    (void)state;
    load("--listen", "https://0.0.0.0:8443,serve=grpc,read-only,cert=/c,key=/k,client-ca=/ca,crl=/r,user=dns", NULL);
    load_ok();
    const struct config_listen *listen = &config.listen[0];
    assert_true(listen->endpoint.tls && listen->policy.read_only);
    assert_int_equal(listen->policy.dialects, DIALECT_GRPC);
    assert_string_equal(listen->cert, "/c");
    assert_string_equal(listen->key, "/k");
    assert_string_equal(listen->client_ca, "/ca");
    assert_string_equal(listen->crl, "/r");
    assert_int_equal(listen->user, BELFRY_TLS_NAME_DNS);
    load("--listen", "http://127.0.0.1:1,read-only=false", NULL);
    load_ok();
    assert_false(config.listen[0].policy.read_only);
}

static void a_listener_is_a_map_in_the_file(void **state)
{
    (void)state;
    load_file("listen:\n"
              "  - http://127.0.0.1:23790\n"
              "  - url: https://0.0.0.0:8443\n"
              "    serve: [grpc]\n"
              "    read-only: true\n"
              "    cert: /c,with comma\n"
              "    key: /k\n"
              "  - {url: 'unix:///s', serve: grpc}\n");
    load_ok();
    assert_int_equal(config.n_listen, 3);
    assert_string_equal(config.listen[1].cert, "/c,with comma");
    assert_true(config.listen[1].policy.read_only);
    assert_true(config.listen[2].endpoint.is_unix);
    load_file("listen: {url: 'http://127.0.0.1:5'}\n");
    load_ok();
    assert_int_equal(config.listen[0].endpoint.port, 5);
}

/* Every kind of listener before every kind of credential, and what each rights= makes of it. */
static void listener_before_credentials_says_which_rights_its_clients_have(void **state)
{
    (void)state;
    static const struct {
        const char *upstream, *flags[4];
        const char *named; /* as the mistake names it; NULL: no credentials */
    } tiers[] = {{"http://e:1", {NULL}, NULL},
                 {"https://e:1", {"--upstream-cacert", "/ca", NULL}, NULL},
                 {"https://e:1", {"--upstream-cert", "/c", "--upstream-key", "/k"}, "(upstream-cert)"},
                 {"http://e:1,https://f:1", {"--upstream-cert", "/c", "--upstream-key", "/k"}, "(upstream-cert)"},
                 {"http://e:1", {"--upstream-cert", "/c", "--upstream-key", "/k"}, NULL}, /* it is never shown */
                 {"http://e:1", {"--upstream-user", "u", "--upstream-password-file", "/p"}, "(upstream-user)"}};
    static const struct {
        const char *text;
        bool asks; /* clients for a certificate */
    } listeners[] = {{"http://127.0.0.1:1", false},
                     {"unix:///s", false},
                     {"https://0.0.0.0:1,cert=/c,key=/k", false},
                     {"https://0.0.0.0:1,cert=/c,key=/k,client-ca=/d", true}};
    static const char *const rights[] = {"", ",rights=upstream", ",rights=open", ",rights=open+writes"};
    for (size_t i = 0; i < 6 * 4 * 4; i++) {
        size_t t = i / 16, l = i / 4 % 4, r = i % 4;
        const char *const *flags = tiers[t].flags;
        char listen[256];
        snprintf(listen, sizeof(listen), "%s%s", listeners[l].text, rights[r]);
        load("--listen", listen, "--upstream", tiers[t].upstream, flags[0], flags[0] == NULL ? NULL : flags[1],
             flags[2], flags[2] == NULL ? NULL : flags[3], NULL);
        if (r == 0 && tiers[t].named != NULL && !listeners[l].asks) {
            expect_mistake(tiers[t].named);
            expect_in(said, "add ,rights=upstream if auth is on there, or ,rights=open if everyone may read");
            continue;
        }
        load_ok();
        const struct listen_policy *policy = &config.listen[0].policy;
        static const enum listen_rights made[] = {LISTEN_RIGHTS_ASKED, LISTEN_RIGHTS_UPSTREAM, LISTEN_RIGHTS_OPEN,
                                                  LISTEN_RIGHTS_OPEN};
        assert_int_equal(policy->rights, made[r]);
        assert_int_equal(listen_policy_writes(policy), r != 2);
        assert_int_equal(config_needs_auth(&config), r == 1);
    }
}

static void loopback_is_known_in_all_its_forms(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        bool loopback;
    } cases[] = {{"http://127.0.0.1:1", true},          {"http://127.9.9.9:1", true},    {"http://[::1]:1", true},
                 {"http://[::ffff:127.0.0.1]:1", true}, {"http://localhost:1", true},    {"unix:///s", true},
                 {"http://0.0.0.0:1", false},           {"http://[::]:1", false},        {"http://10.0.0.1:1", false},
                 {"http://128.0.0.1:1", false},         {"http://[fe80::1%lo]:1", false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        load("--listen", cases[i].url, NULL);
        if (cases[i].loopback)
            load_ok();
        else
            expect_mistake("--insecure-listen");
        load("--listen", cases[i].url, "--insecure-listen", NULL);
        load_ok();
        assert_int_equal(belfry_endpoint_is_loopback(&config.listen[0].endpoint), cases[i].loopback);
    }
}

/* ---- mistakes ---- */

static void every_mistake_on_the_command_line_has_a_sentence_and_a_remedy(void **state)
{
    (void)state;
    static const struct {
        const char *flag, *value, *sentence;
    } cases[] = {
        {"--upstraem", "x", "belfryd: unknown flag --upstraem: did you mean --upstream?"},
        {"--history-byte=1", NULL, "unknown flag --history-byte: did you mean --history-bytes?"},
        {"--frobnicate", NULL, "unknown flag --frobnicate: 'belfryd --help' lists them"},
        {"serve", NULL, "unexpected 'serve': flags begin with --; 'belfryd --help' lists them"},
        {"-x", NULL, "unknown flag -x: 'belfryd --help' lists them"},
        {"--name", NULL, "--name needs a value: --name NAME"},
        {"--cache-dir", "--check-config",
         "--cache-dir needs a value, and --check-config looks like a flag: --cache-dir DIR, or "
         "--cache-dir=--check-config if it is meant"},
        {"--check-config=yes", NULL, "--check-config takes no value"},
        {"--config", "/nonexistent/file", "--config: /nonexistent/file cannot be opened: No such file or directory"},
        {"--config", "/", "the file cannot be read"},
        {"--log-bytes", "much", "--log-bytes: 'much' is not a size: write 512KiB, 256MiB or 4GiB"},
        {"--log-bytes", "256MB", "--log-bytes: '256MB' is not a size"},
        {"--log-bytes", "-1", "'-1' is not a size"},
        {"--log-bytes", "1KiB", "--log-bytes: 1KiB is out of range: it goes from 1MiB to 1TiB"},
        {"--log-bytes", "99999999999999999999", "is not a size"},
        {"--ready-lag", "5", "--ready-lag: '5' is not a time: write 500ms, 5s, 10m or 1h30m"},
        {"--progress-interval", "99ms", "--progress-interval: 99ms is out of range: it goes from 100ms to 24h"},
        {"--history-age", "1500ms", "--history-age: '1500ms' is not a time in whole seconds"},
        {"--history-age", "0", "--history-age: 0 is out of range: it goes from 1s to 87600h"},
        {"--workers", "two", "--workers: 'two' is not a whole number"},
        {"--workers", "257", "--workers: 257 is out of range: it goes from 0 to 256"},
        {"--max-streams", "4294967296", "out of range: it goes from 0 to 4294967295"},
        {"--max-streams", "99999999999999999999999", "out of range"},
        {"--insecure-listen=yes", NULL, "--insecure-listen: 'yes' is neither true nor false"},
        {"--log-level", "loud", "--log-level: 'loud' is not one of error|warn|info|debug"},
        {"--log-format", "xml", "--log-format: 'xml' is not one of logfmt|json"},
        {"--upstream", "", "--upstream: endpoint \"\": it is empty"},
        {"--upstream", "ftp://a", "--upstream: endpoint \"ftp://a\": the scheme is unknown"},
        {"--upstream-cert", "/c", "--upstream-cert: its key is missing: give --upstream-key FILE too"},
        {"--upstream-key", "/k", "--upstream-key: its certificate is missing: give --upstream-cert FILE too"},
        {"--upstream-user", "root:pw", "--upstream-user: write the name alone"},
        {"--upstream-user", "root", "--upstream-user: its password is missing: give --upstream-password-file FILE too"},
        {"--upstream-password-file", "/p", "whose password? Give --upstream-user NAME too"},
        {"--upstream", "http://127.0.0.1:23790", "is this belfryd's own address: name what it should follow"},
        {"--upstream", "http://127.0.0.1:23791", "is this belfryd's own address"},
        {"--listen", "http://example.org:1", "'example.org' is a name: write an address, such as 127.0.0.1"},
        {"--listen", "http://10.0.0.1:1",
         "--listen: http://10.0.0.1:1 exposes all data without encryption or authentication: "
         "use https, or give --insecure-listen"},
        {"--listen", "https://127.0.0.1:1",
         "--listen: https://127.0.0.1:1 needs a certificate and its key: add ,cert=FILE,key=FILE"},
        {"--listen", "https://127.0.0.1:1,cert=/c", "needs a certificate and its key"},
        {"--listen", "unixs:///s,key=/k", "needs a certificate and its key"},
        {"--listen", "http://127.0.0.1:1,cert=/c,key=/k",
         "has no TLS, so cert, key and client-ca do nothing: write https"},
        {"--listen", "unix:///s,client-ca=/k", "write unixs://"},
        {"--listen", "http://127.0.0.1:1,serve=grpc+ws", "'ws' is no dialect: use serve=grpc+json+kube+sse"},
        {"--listen", "http://127.0.0.1:1,serve=soap", "'soap' is no dialect: use serve=grpc"},
        {"--listen", "http://127.0.0.1:1,serve=", "'' is no dialect"},
        {"--listen", "http://127.0.0.1:1,cert=", "cert has no file: write cert=FILE"},
        {"--listen", "http://127.0.0.1:1,server=grpc", "a listener has no 'server': did you mean serve?"},
        {"--listen", "http://127.0.0.1:1,colour=red", "a listener has no 'colour': it has url, serve"},
        {"--listen", "http://127.0.0.1:1,readonly", "'readonly' is no option: write NAME=VALUE, or read-only"},
        {"--listen", "http://127.0.0.1:1,read-only=perhaps", "read-only: 'perhaps' is neither true nor false"},
        {"--listen", "http://127.0.0.1:1,read-only,read-only", "read-only is there twice: keep one"},
        {"--listen", "http://127.0.0.1:1,rights=all",
         "rights: 'all' is unknown: use rights=upstream, rights=open or rights=open+writes"},
        {"--listen", "http://127.0.0.1:1,rights=upstream+writes", "rights: 'upstream+writes' is unknown"},
        {"--listen", "http://127.0.0.1:1,rights=open+writes,read-only", "is read-only and has rights=open+writes"},
        {"--listen", "https://127.0.0.1:1,cert=/c,key=/k,client-ca=/d,user=email",
         "user: 'email' is no name of a certificate: use user=cn, user=uri or user=dns"},
        {"--listen", "https://127.0.0.1:1,cert=/c,key=/k,user=dns",
         "asks for no certificate, so user does nothing: add client-ca=FILE"},
        {"--listen", "https://127.0.0.1:1,cert=/c,key=/k,crl=/l", "so crl does nothing: add client-ca=FILE"},
        {"--listen", "http://127.0.0.1:23791", "--listen already: give it one of its own"},
        {"--admin", "http://0.0.0.0:1", "listen on loopback, or give --insecure-listen"},
        {"--admin", "https://127.0.0.1:1", "--admin: TLS is not served here: use http on loopback, or unix:///PATH"},
        {"--admin", "http://127.0.0.1:1,read-only", "--admin: it takes a URL alone, without options"},
        {"--admin", "http://example.org:1", "'example.org' is a name"},
        {"--admin-tail=maybe", NULL, "--admin-tail: 'maybe' is neither true nor false"},
        {"--advertise", "ftp://a", "--advertise: endpoint \"ftp://a\": the scheme is unknown"},
        {"--name", "", "--name: a name has 1 to 253 printable characters"},
        {"--name", "a\nb", "--name: a name has 1 to 253 printable characters"},
        {"--name", "\xff", "--name: the value is not UTF-8"},
        {"--cache-dir", "", "--cache-dir: there is no home to keep it in"},
        {"--memory-bytes", "64MiB", "--memory-bytes: 64MiB does not even hold --log-bytes, which is 256MiB"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        load(cases[i].flag, cases[i].value, NULL);
        expect_mistake(cases[i].sentence);
    }
    load("--listen", "http://127.0.0.1:1", "--listen", "http://127.0.0.1:1", NULL);
    expect_mistake("http://127.0.0.1:1 is there twice: keep one");
}

static void every_mistake_in_the_file_names_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"name: a\nhistroy-bytes: 1GiB\n", ":2: unknown key 'histroy-bytes': did you mean history-bytes?"},
        {"colour: red\n", ":1: unknown key 'colour': 'belfryd --help' lists them"},
        {"name: a\n\nname: b\n", ":3: name: the key is there twice: keep one"},
        {"name: [a, b]\n", ":1: name: this is a list: write one value"},
        {"log-bytes: {a: b}\n", ":1: log-bytes: this is a map: write one value"},
        {"log-bytes: much\n", ":1: log-bytes: 'much' is not a size"},
        {"upstream:\n  - http://a\n  - {url: b}\n", ":3: upstream: this is a map: write one value"},
        {"upstream: []\n", ":1: upstream: there is none: give at least one URL"},
        {"listen: []\n", ":1: listen: there is none: give at least one address"},
        {"name:\n", ":1: name: the value is missing: write one, or leave the key out"},
        {"name: \"a\\0b\"\n", ":1: name: the value holds a zero byte"},
        {"help: true\n", ":1: help: this is a flag alone: take it out of the file"},
        {"[a]: b\n", ":1: this is a list: write one value"},
        {"- name\n", ":1: the file must hold keys and values, as in 'name: edge-7'"},
        {"just words\n", ":1: the file must hold keys and values"},
        {"name: a\n---\nname: b\n", ":3: a second document: put all keys into the first"},
        {"name: a\n\tdrain: 1s\n", ":2: while scanning a plain scalar, found a tab character that violates"},
        {"log-level: info\ndrain:\n\t1s\n", ":3: while scanning for the next token, found character that cannot start"},
        {"\"a\\nb\": c\n", ":1: unknown key 'a?b'"},
        {"name: 'a\n", "found unexpected end of stream"},
        {"name: a\n b: c\n", ":2: mapping values are not allowed in this context"},
        {"name: \xff\n", "invalid leading UTF-8 octet, at byte 6 of the file"},
        {"name: *x\n", ":1: found undefined alias"},
        {"listen:\n  - serve: grpc\n", ":2: listen: a listener without url: add url: http://127.0.0.1:23790"},
        {"listen:\n  - url: http://127.0.0.1:1\n    sevre: grpc\n",
         ":3: listen: a listener has no 'sevre': did you mean serve?"},
        {"listen:\n  - url: http://127.0.0.1:1\n    url: http://127.0.0.1:1\n", ":3: listen: url is there twice"},
        {"listen:\n  - url: http://127.0.0.1:1\n    serve: [grpc, ws]\n", ":3: listen: 'ws' is no dialect"},
        {"listen:\n  - url: http://127.0.0.1:1\n    serve: []\n", ":3: listen: '' is no dialect"},
        {"listen:\n  - url: http://127.0.0.1:1\n    cert: [a]\n", ":3: listen: this is a list: write one value"},
        {"listen:\n  - url: [a]\n", ":2: listen: this is a list"},
        {"listen: &x\n  - *x\n", "this is a list"},
        {"listen: http://10.0.0.1:1\n", ":1: listen: http://10.0.0.1:1 exposes all data"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        load_file(cases[i].text);
        expect_mistake(cases[i].sentence);
        expect_in(said, path);
    }
}

static void a_mistake_in_the_environment_names_the_variable(void **state)
{
    (void)state;
    setenv("BELFRYD_LOG_BYTES", "much", 1);
    load(NULL);
    expect_mistake("belfryd: BELFRYD_LOG_BYTES: 'much' is not a size");
}

static void what_a_file_can_make_grow_is_bounded(void **state)
{
    (void)state;
    static char big[CONFIG_FILE_MAX + 100];
    memset(big, '#', sizeof(big));
    write_file_bytes(big, sizeof(big));
    load("--config", path, NULL);
    expect_mistake("the file is larger than 1048576 bytes");
    memset(big, '\n', sizeof(big));
    write_file_bytes(big, CONFIG_FILE_MAX);
    load("--config", path, NULL);
    load_ok();

    size_t n = (size_t)sprintf(big, "name: ");
    memset(big + n, 'a', CONFIG_TEXT_MAX);
    write_file_bytes(big, n + CONFIG_TEXT_MAX);
    load("--config", path, NULL);
    expect_mistake("name: the value is longer than 4095 bytes");
    big[n + CONFIG_TEXT_MAX] = '\0';
    load("--name", big + n, NULL);
    expect_mistake("--name: the value is longer than 4095 bytes");

    for (int over = 0; over <= 1; over++) {
        n = (size_t)sprintf(big, "upstream:\n");
        for (int i = 0; i < CONFIG_LIST_MAX + over; i++)
            n += (size_t)sprintf(big + n, " - http://a:%d\n", i + 1);
        load_file(big);
        assert_int_equal(err, over ? BELFRY_ERR_INVALID : BELFRY_OK);
        n = (size_t)sprintf(big, "listen:\n");
        for (int i = 0; i < CONFIG_LIST_MAX + over; i++)
            n += (size_t)sprintf(big + n, " - http://127.0.0.1:%d\n", i + 1);
        load_file(big);
        assert_int_equal(err, over ? BELFRY_ERR_INVALID : BELFRY_OK);
    }
    expect_mistake("more than 64 of them");
}

static void an_empty_file_changes_nothing(void **state)
{
    (void)state;
    static const char *const empty[] = {"", "# nothing\n", "---\n", "--- {}\n...\n"};
    for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
        load_file(empty[i]);
        load_ok();
        assert_int_equal(config.log_bytes, 256 << 20);
    }
}

/* ---- what is printed ---- */

static void help_names_every_flag_its_default_and_the_exit_codes(void **state)
{
    (void)state;
    load("--help", "--frobnicate", NULL);
    load_ok();
    assert_int_equal(what, CONFIG_EXIT);
    for (enum config_key key = 0; key < N_CONFIG_ROWS; key++) {
        char flag[64];
        snprintf(flag, sizeof(flag), " --%s", config_rows[key].name);
        expect_in(printed, flag);
        expect_in(printed, config_rows[key].help);
    }
    for (const char *at = printed; *at != '\0'; at += strcspn(at, "\n") + 1)
        assert_true(strcspn(at, "\n") <= 110);
    expect_in(printed, "[http://127.0.0.1:23790]");
    char served[64], all[80];
    config_listen_dialects(CONFIG_DIALECTS, "+", served, sizeof(served));
    snprintf(all, sizeof(all), "[all: %s]", served);
    expect_in(printed, all);
    expect_in(printed, "Exit code: 0 stopped as asked, 1 failed, 2 wrong usage or configuration.");
    load("-h", NULL);
    assert_int_equal(what, CONFIG_EXIT);
    expect_in(printed, "Usage: belfryd");
}

static void version_is_one_line(void **state)
{
    (void)state;
    load("--version", NULL);
    load_ok();
    assert_int_equal(what, CONFIG_EXIT);
    assert_string_equal(printed, "belfryd " BELFRY_VERSION "\n");
}

static void check_config_says_ok(void **state)
{
    (void)state;
    setenv("BELFRYD_SERVICE_HOST", "10.0.0.1", 1); /* Kubernetes' own, for a service of this name */
    load("--check-config", "--cache-dir", "/tmp/belfry-none", "--listen", SOCKET, "--admin", ADMIN, NULL);
    load_ok();
    assert_int_equal(what, CONFIG_EXIT);
    assert_string_equal(printed, "configuration ok\n");
}

static void secrets_that_everybody_may_read_are_warned_about(void **state)
{
    (void)state;
    char secret[] = "/tmp/belfry-secret-XXXXXX";
    int fd = mkstemp(secret);
    assert_int_equal(write(fd, "secret\n", 7), 7);
    for (int open = 0; open < 2; open++) {
        char expected[160] = "configuration ok\n";
        assert_int_equal(fchmod(fd, open ? 0644 : 0640), 0);
        if (open)
            snprintf(expected, sizeof(expected),
                     "warning: %s: every user of this machine may read this secret: chmod o-r it\nconfiguration ok\n",
                     secret);
        load("--check-config", "--cache-dir", "/tmp/belfry-none", "--listen", SOCKET ",rights=upstream", "--admin",
             ADMIN, "--upstream-user", "root", "--upstream-password-file", secret, NULL);
        load_ok();
        assert_string_equal(printed, expected);
    }
    close(fd);
    unlink(secret);
}

static size_t n_told(void)
{
    size_t n = 0;
    for (const char *at = said; (at = strstr(at, "belfryd: ")) != NULL; at++)
        n++;
    return n;
}

/* One run is enough to correct all of them; a start stops at the first. */
static void check_config_tells_faults_of_every_source(void **state)
{
    (void)state;
    write_file(
        "log-level: loud\nworkres: 2\nupstream: ['ftp://a']\nlog-bytes: 1KiB\nlisten:\n  - url: https://127.0.0.1:1\n"
        "  - url: http://10.0.0.1:2\n");
    setenv("BELFRYD_READY_LAG", "5", 1);
    load("--check-config", "--config", path, "--cache-dir", "/tmp/belfry-none", "--admin", ADMIN, "--max-streams",
         "many", "--upstream-user", "root", "--history-age", "0", NULL);
    assert_int_equal(err, BELFRY_ERR_INVALID);
    static const char *const faults[] = {"log-level: 'loud' is not one of",
                                         "unknown key 'workres': did you mean workers?",
                                         "upstream: endpoint \"ftp://a\"",
                                         "log-bytes: 1KiB is out of range",
                                         "BELFRYD_READY_LAG: '5' is not",
                                         "--max-streams: 'many' is not",
                                         "--history-age: 0 is out of range",
                                         "https://127.0.0.1:1 needs a certificate",
                                         "http://10.0.0.1:2 exposes all",
                                         "--upstream-user: its password is missing",
                                         "https://127.0.0.1:1 asks clients for no certificate",
                                         "http://10.0.0.1:2 asks clients for no certificate"};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        expect_in(said, faults[i]);
    assert_int_equal(n_told(), sizeof(faults) / sizeof(faults[0])); /* and nothing that follows from another */
    assert_null(strstr(printed, "configuration ok"));
    load("--config", path, NULL);
    assert_int_equal(err, BELFRY_ERR_INVALID);
    assert_int_equal(n_told(), 1);
    write_file("upstream-user: belfry\nupstream-password-file: "
               "/nowhere/password\nrights-period: soon\n");
    load("--check-config", "--config", path, "--admin", ADMIN, "--listen", SOCKET ",rights=upstream", "--cache-dir",
         path, NULL);
    unsetenv("BELFRYD_READY_LAG");
    expect_in(said, "rights-period: 'soon'");
    expect_in(said, "upstream-password-file: /nowhere/password cannot be read"); /* files are tried all the same */
    expect_in(said, "cache-dir: ");
}

/* Several of one source, of one listener, and words that are no flags at all. */
static void check_config_tells_all_faults_of_one_source(void **state)
{
    (void)state;
    load("--workres", "2", "--frob", "-q", "stray", "--check-config", "--cache-dir", "/tmp/belfry-none", "--admin",
         "http://10.0.0.1:2", "--upstream", "http://10.0.0.1:2", "--upstream-cert", "c", "--upstream-user", "a:b",
         "--upstream-token-method", "HS256", "--allow-root", "--admin-tail", "--advertise", "ftp://a", "--listen",
         "http://10.0.0.1:1,crl=/c,reads=relay,consistency=serializable,rights=upstream", NULL);
    assert_int_equal(err, BELFRY_ERR_INVALID);
    static const char *const faults[] = {"unknown flag --workres: did you mean --workers?",
                                         "unknown flag --frob: 'belfryd --help' lists them",
                                         "unknown flag -q: 'belfryd --help' lists them",
                                         "--upstream-cert: its key is missing",
                                         "--upstream-user: write the name alone",
                                         "http://10.0.0.1:1 asks for no certificate, so crl does nothing",
                                         "http://10.0.0.1:1 exposes all",
                                         "http://10.0.0.1:1 has reads=relay and consistency=serializable",
                                         "--admin: http://10.0.0.1:2 exposes all",
                                         "--upstream-token-method: the key is missing",
                                         "--allow-root: it is for a tier with --upstream-token-key",
                                         "--upstream: http://10.0.0.1:2 is this belfryd's own address",
                                         "--admin-tail: it would show keys and values to everyone",
                                         "--admin-tail: this tier has credentials for upstream (upstream-user)",
                                         "--admin-tail: a listener has rights=upstream",
                                         "--advertise: "};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        expect_in(said, faults[i]);
    assert_int_equal(n_told(), sizeof(faults) / sizeof(faults[0]));
    load("--workers", "2", "stray", "--frob", NULL); /* a start stops at the first */
    assert_int_equal(n_told(), 1);
    expect_in(said, "unexpected 'stray'");
}

static void check_config_warns_of_what_is_probably_not_meant(void **state)
{
    (void)state;
    setenv("BELFRYD_LISTNE", "http://127.0.0.1:1", 1);
    load("--check-config", "--upstream-cacert", "/nonexistent/ca", "--listen", "http://0.0.0.0:23799",
         "--insecure-listen", "--scope", "/a/", "--cache-dir", "/tmp/belfry-none", "--admin", ADMIN, NULL);
    load_ok();
    expect_in(printed, "warning: no upstream is https");
    expect_in(printed, "warning: http://0.0.0.0:23799 is plain HTTP for whoever can reach it (insecure-listen)\n");
    expect_in(printed, "warning: with a scope upstream must be etcd 3.4.31, 3.5.13 or newer");
    expect_in(printed, "warning: BELFRYD_LISTNE in the environment is no setting: did you mean BELFRYD_LISTEN?\n");
    expect_in(printed, "\nconfiguration ok\n");
}

/* Flags of a --check-config that finds nothing wrong by itself. */
#define CHECKED "--check-config", "--cache-dir", "/tmp/belfry-none", "--admin", ADMIN, "--listen"

static void check_config_refuses_files_that_a_start_could_not_use(void **state)
{
    (void)state;
    char listen[256], wanted[512];
    write_file("this is no certificate\n");
    snprintf(listen, sizeof(listen), "unixs:///tmp/belfry-none.sock,cert=%s,key=%s", path, path);
    load(CHECKED, listen, NULL);
    expect_mistake("--listen: ");
    expect_in(said, path);
    load(CHECKED, "unixs:///tmp/belfry-none.sock,cert=/nowhere/tls.crt,key=/nowhere/tls.key", NULL);
    expect_mistake("--listen: ");
    expect_in(said, "/nowhere/tls.crt");
    load(CHECKED, SOCKET, "--upstream", "https://127.0.0.1:1", "--upstream-cacert", path, NULL);
    expect_mistake("--upstream-cacert: ");
    load(CHECKED, SOCKET ",rights=open", "--upstream", "https://127.0.0.1:1", "--upstream-cert", "/nowhere/c",
         "--upstream-key", "/nowhere/k", NULL);
    expect_mistake("--upstream-cert: ");
    load(CHECKED, SOCKET ",rights=upstream", "--upstream-user", "belfry", "--upstream-password-file",
         "/nowhere/password", NULL);
    expect_mistake("--upstream-password-file: /nowhere/password cannot be read: No such file or directory");
    write_file("");
    load(CHECKED, SOCKET ",rights=upstream", "--upstream-user", "belfry", "--upstream-password-file", path, NULL);
    snprintf(wanted, sizeof(wanted), "--upstream-password-file: %s is empty", path);
    expect_mistake(wanted);
}

static void check_config_refuses_addresses_and_folders_that_a_start_could_not_use(void **state)
{
    (void)state;
    load(CHECKED, "http://192.0.2.7:23799", "--insecure-listen", NULL);
    assert_int_equal(err, BELFRY_ERR_INVALID);
    expect_in(said, "belfryd: --listen: cannot listen on http://192.0.2.7:23799 ");
    load("--check-config", "--cache-dir", path, "--admin", ADMIN, "--listen", SOCKET, NULL); /* a file */
    expect_mistake("--cache-dir: ");
    expect_in(said, "Not a directory");
    load("--check-config", "--cache-dir", "/tmp/belfry-none/a/b", "--admin", ADMIN, "--listen", SOCKET, NULL);
    load_ok();
    assert_int_equal(access("/tmp/belfry-none", F_OK), -1);
}

static void check_config_tells_every_fault(void **state)
{
    (void)state;
    load("--check-config", "--cache-dir", path, "--admin", "unix:///nowhere/admin.sock", "--listen",
         "unixs:///nowhere/socket,cert=/nowhere/c,key=/nowhere/k,rights=open", "--upstream-user", "belfry",
         "--upstream-password-file", "/nowhere/password", NULL);
    assert_int_equal(err, BELFRY_ERR_INVALID);
    assert_string_equal(printed, "");
    static const char *const faults[] = {"--upstream-password-file: ",
                                         "--listen: ",
                                         "/nowhere/c",
                                         "cannot listen on unixs:///nowhere/socket",
                                         "--admin: cannot listen on unix:///nowhere/admin.sock",
                                         "--cache-dir: "};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        expect_in(said, faults[i]);
}

static void value_that_looks_like_a_flag_is_taken_after_an_equals_sign(void **state)
{
    (void)state;
    load("--name=--check-config", NULL);
    load_ok();
    assert_int_equal(what, CONFIG_RUN);
    assert_string_equal(config.name, "--check-config");
}

static void start_itself_leaves_files_to_those_who_use_them(void **state)
{
    (void)state;
    load("--upstream-user", "belfry", "--upstream-password-file", "/nowhere/password", "--listen",
         "http://127.0.0.1:1,rights=upstream", NULL);
    load_ok();
    assert_int_equal(what, CONFIG_RUN);
}

/* Writes `config`, reads that as a file, and writes again: both must be the same. */
static void expect_reads_back(void)
{
    static char first[32768];
    char again[sizeof(first)] = "";
    FILE *out = fmemopen(first, sizeof(first), "w");
    config_print(&config, out);
    fclose(out);
    write_file(first);
    load("--config", path, NULL);
    load_ok();
    out = fmemopen(again, sizeof(again), "w");
    config_print(&config, out);
    fclose(out);
    assert_string_equal(again, first);
}

static void the_default_prints_and_reads_back(void **state)
{
    (void)state;
    load(NULL);
    load_ok();
    expect_reads_back();
    load("--print-config", NULL);
    expect_line("log-bytes", "256MiB", "# default");
    write_file(printed); /* with its comments too */
    load("--config", path, NULL);
    load_ok();
}

static const char *one_of(struct belfry_rng *rng, const char *const *list, size_t n)
{
    return list[belfry_rng_below(rng, n)];
}

static void any_config_prints_and_reads_back(void **state)
{
    (void)state;
    static const char *const texts[] = {"plain",
                                        "/path/with space",
                                        "true",
                                        "null",
                                        "~",
                                        "a: b",
                                        "# no",
                                        "'\"\\",
                                        "-",
                                        "\xc3\xa9",
                                        "\xe2\x80\xa8",
                                        "\xef\xbb\xbf",
                                        "\xf0\x9f\x94\x94",
                                        "1e3",
                                        "x:",
                                        "[a]",
                                        "&x",
                                        "*x",
                                        "!tag",
                                        "%dir",
                                        "a,b",
                                        " lead",
                                        "trail ",
                                        "\t",
                                        "0x10",
                                        "yes"};
    static const char *const listens[] = {"http://127.0.0.1:1", "unix:///a b",
                                          "https://0.0.0.0:4,cert=/c: d,key=#k,client-ca=~,crl=:,user=uri",
                                          "http://[::1]:5,read-only,rights=open", "unixs:///s,cert=\xc3\xa9,key=' '"};
    struct belfry_rng rng = {.state = 42};
    for (int i = 0; i < 200; i++) {
        char log[32], age[32], lag[32];
        snprintf(log, sizeof(log), "%u", 1048576 + (unsigned)belfry_rng_below(&rng, 1u << 30));
        snprintf(age, sizeof(age), "%us", 1 + (unsigned)belfry_rng_below(&rng, 1000000));
        snprintf(lag, sizeof(lag), "%ums", 2000 + (unsigned)belfry_rng_below(&rng, 1000000));
        const char *text = one_of(&rng, texts, sizeof(texts) / sizeof(texts[0]));
        const char *name = one_of(&rng, texts, sizeof(texts) / sizeof(texts[0]));
        if (strcmp(name, "\t") == 0) /* the only one that is no name */
            name = "edge";
        size_t first = belfry_rng_below(&rng, 5);
        load("--listen", listens[first], "--listen", listens[(first + 1) % 5], "--log-bytes", log, "--history-age", age,
             "--ready-lag", lag, "--cache-dir", text, "--scope", text, "--name", name, "--upstream", "a,unix:///b c",
             NULL);
        load_ok();
        assert_string_equal(config.cache_dir, text);
        expect_reads_back();
        assert_string_equal(config.cache_dir, text);
        assert_string_equal(config.scope[0], text);
        assert_string_equal(config.name, name);
    }
}

static void origins_of_pages_are_as_browsers_send_them(void **state)
{
    (void)state;
    load(NULL);
    load_ok();
    assert_int_equal(config.n_cors_origins, 0);
    load("--cors-origins", "https://a.example,http://localhost:8080", "--cors-origins", "http://[::1]:1", NULL);
    load_ok();
    expect_reads_back();
    assert_int_equal(config.n_cors_origins, 3);
    assert_string_equal(config.cors_origins[1], "http://localhost:8080");
    load_file("cors-origins: [https://edge.example]\n");
    load_ok();
    assert_string_equal(config.cors_origins[0], "https://edge.example");
    load("--cors-origins", "*", NULL);
    expect_mistake("--cors-origins: '*' would let every web page read what its visitor may: name the origins");
    load("--cors-origins", "https://a,b.example", NULL);
    expect_mistake("--cors-origins: 'b.example' is not an origin: write scheme://host");
}

#define KUBE "--upstream-kube", "https://127.0.0.1:6443"

static void resources_of_an_api_server_are_followed(void **state)
{
    (void)state;
    load(KUBE, "--follow", "pods,endpointslices.discovery.k8s.io", "--follow", "widgets.v1.demo.example.com", NULL);
    load_ok();
    expect_reads_back();
    assert_string_equal(config.upstream_kube, "https://127.0.0.1:6443");
    assert_int_equal(config.n_follow, 3);
    assert_string_equal(config.follow[1], "endpointslices.discovery.k8s.io");
    load_file("upstream-kube: in-cluster\nfollow: [pods, nodes]\n");
    load_ok();
    assert_int_equal(config.n_follow, 2);

    load("--follow", "pods", NULL);
    expect_mistake("--follow: of which API server? Give --upstream-kube WHERE too");
    load(KUBE, NULL);
    expect_mistake("--upstream-kube: which resources? Give --follow RESOURCE,... too");
    load(KUBE, "--follow", "pods", "--upstream", "http://127.0.0.1:1", NULL);
    expect_mistake("--upstream: upstream is etcd or, with --upstream-kube, an API server: keep one");
    load("--upstream-token-file", "/etc/token", NULL);
    expect_mistake("--upstream-token-file: it is for the URLs of --upstream-kube: give that too");
    load(KUBE, "--follow", "pods,Pods", NULL);
    expect_mistake("--follow: 'Pods' is not a resource: write PLURAL, PLURAL.GROUP or PLURAL.VERSION.GROUP");
    load(KUBE, "--follow", "widgets.v1.demo.example.com,widgets.v2.demo.example.com", NULL);
    expect_mistake("--follow: 'widgets.v2.demo.example.com' is there twice: keep one");
}

static void what_is_for_etcd_is_refused_in_front_of_an_api_server(void **state)
{
    static const char *const others[] = {"--scope=/a/",  "--upstream-user=root", "--upstream-cert=cert.pem",
                                         "--admin-tail", "--pass-users",         "--resources=widgets.yaml"};
    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        load(KUBE, "--follow", "pods", others[i], NULL);
        expect_mistake("it is for a tier in front of etcd, and this one has --upstream-kube: leave it out");
    }
    load(KUBE, "--follow", "pods", "--listen", SOCKET ",rights=open", NULL);
    expect_mistake("has rights=open, but with --upstream-kube the API server decides what each client may do");
    load(KUBE, "--follow", "pods", "--listen", SOCKET ",serve=grpc", NULL);
    expect_mistake("does not serve kube, and with --upstream-kube there is nothing else");
    load(KUBE, "--follow", "pods", "--listen", SOCKET ",rights=upstream", NULL);
    load_ok();
}

static void at_most_200_resources_are_followed(void **state)
{
    char text[2000] = "";
    (void)state;
    for (int i = 0; i < 200; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%sr%d", i > 0 ? "," : "", i);
    load(KUBE, "--follow", text, NULL);
    load_ok();
    assert_int_equal(config.n_follow, 200);
    load(KUBE, "--follow", text, "--follow", "one-more", NULL);
    expect_mistake("--follow: more than 200 of them: start a second belfryd");
}

static void keys_of_tickets_are_read_with_the_configuration(void **state)
{
    (void)state;
    char keys[] = "/tmp/belfry-config-keys-XXXXXX";
    int fd = mkstemp(keys);
    assert_true(fd >= 0 && write(fd, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", 45) == 45);
    load(NULL);
    load_ok();
    assert_null(config.ticket_key_file);
    assert_int_equal(config.ticket_keys.n, 0);
    load("--ticket-key-file", keys, NULL);
    load_ok();
    expect_reads_back();
    assert_string_equal(config.ticket_key_file, keys);
    assert_int_equal(config.ticket_keys.n, 1);
    assert_int_equal(config.ticket_keys.key[0][31], 31);
    assert_int_equal(fchmod(fd, 0644), 0);
    load("--ticket-key-file", keys, NULL);
    expect_mistake("can be read by every user of this machine: run chmod o-rwx on it");
    close(fd);
    unlink(keys);
    load("--ticket-key-file", "/nowhere/keys", NULL);
    expect_mistake("--ticket-key-file: /nowhere/keys cannot be read: No such file or directory");
}

#define ASKS "https://127.0.0.1:1,cert=/c,key=/k,client-ca=/d"

static void users_of_certificates_need_a_key_or_a_tier_above(void **state)
{
    (void)state;
    load("--listen", ASKS ",users-from=leaf-1+leaf 2", "--upstream-user", "u", "--upstream-password-file", "/p",
         "--upstream-token-key", "/k", "--upstream-token-method", "ES256", "--allow-root", NULL);
    load_ok();
    assert_string_equal(config.upstream_token_key, "/k");
    assert_string_equal(config.upstream_token_method, "ES256");
    assert_true(config.allow_root && !config.pass_users);
    assert_int_equal(config.listen[0].policy.users_from.n, 2);
    assert_string_equal(config.listen[0].policy.users_from.list[0], "leaf-1");
    assert_string_equal(config.listen[0].policy.users_from.list[1], "leaf 2");
    expect_reads_back();
    assert_string_equal(config.listen[0].policy.users_from.list[1], "leaf 2");
    load("--listen", ASKS ",users-from=a", "--upstream", "https://e:1", "--upstream-cert", "/c", "--upstream-key", "/k",
         "--pass-users", NULL);
    load_ok();
    assert_true(config.pass_users);
    load("--listen", ASKS, "--upstream-token-key", "/k", NULL);
    expect_mistake("give --upstream-user NAME and --upstream-password-file FILE too");
    load("--listen", ASKS, "--upstream-token-method", "RS256", NULL);
    expect_mistake("the key is missing: give --upstream-token-key FILE too");
    load("--listen", ASKS, "--allow-root", NULL);
    expect_mistake("it is for a tier with --upstream-token-key");
    load("--listen", ASKS, "--upstream-user", "u", "--upstream-password-file", "/p", "--upstream-token-key", "/k",
         "--pass-users", NULL);
    expect_mistake("keep that next to etcd, and --pass-users on tiers below");
    load("--listen", ASKS, "--pass-users", NULL);
    expect_mistake("the tier above believes a certificate only: use https for http://127.0.0.1:2379");
    load("--listen", ASKS, "--upstream", "https://e:1", "--pass-users", NULL);
    expect_mistake("and give --upstream-cert FILE");
    load("--listen", "http://127.0.0.1:1,rights=upstream", "--upstream-user", "u", "--upstream-password-file", "/p",
         "--upstream-token-key", "/k", NULL);
    expect_mistake("no listener asks clients for certificates: add client-ca=FILE to one");
    load("--listen", "http://127.0.0.1:1,users-from=a", NULL);
    expect_mistake("asks for no certificate, so users-from does nothing: add client-ca=FILE");
    load("--listen", ASKS ",users-from=a", NULL);
    expect_mistake("this tier can tell upstream no user: give --upstream-token-key FILE if upstream is etcd");
    load("--check-config", "--cache-dir", "/tmp/belfry-none/a", "--admin", ADMIN, "--listen", ASKS, "--upstream-user",
         "u", "--upstream-password-file", "/p", "--upstream-token-key", "/nowhere/key", NULL);
    expect_in(said, "--upstream-token-key: /nowhere/key cannot be read: No such file or directory");
    load("--listen", ASKS ",users-from=a++b", NULL);
    expect_mistake("users-from has an empty name");
}

static void the_tail_shows_no_more_than_upstream_shows_to_everyone(void **state)
{
    (void)state;
    load("--admin-tail", NULL);
    load_ok();
    assert_true(config.admin_tail);
    load("--admin-tail", "--admin", "unix:///run/admin", NULL);
    load_ok();
    load("--admin-tail", "--admin", "http://0.0.0.0:1", "--insecure-listen", NULL);
    expect_mistake(
        "--admin-tail: it would show keys and values to everyone who can reach http://0.0.0.0:1: let --admin "
        "be loopback or unix");
    load("--admin-tail", "--listen", "http://127.0.0.1:1,rights=open", "--upstream-user", "u",
         "--upstream-password-file", "/p", NULL);
    expect_mistake("--admin-tail: this tier has credentials for upstream (upstream-user), and the tail would show");
    load("--admin-tail", "--listen", "http://127.0.0.1:1,rights=open", "--upstream", "https://e:1", "--upstream-cert",
         "/c", "--upstream-key", "/k", NULL);
    expect_mistake("--admin-tail: this tier has credentials for upstream (upstream-cert), and the tail would show");
    load("--admin-tail", "--listen", "http://127.0.0.1:1,rights=upstream", NULL);
    expect_mistake("--admin-tail: a listener has rights=upstream, and the tail asks for no right: leave it off");
}

static void tiers_below_are_named(void **state)
{
    (void)state;
    load("--listen", ASKS ",tiers=leaf-1+leaf-2", NULL);
    load_ok();
    expect_reads_back();
    assert_int_equal(config.listen[0].policy.tiers.n, 2);
    assert_true(listen_policy_is_tier(&config.listen[0].policy, "leaf-2"));
    assert_false(listen_policy_is_tier(&config.listen[0].policy, "leaf"));
    assert_int_equal(config.listen[0].policy.users_from.n, 0); /* it may not speak for others */
    load("--listen", "http://127.0.0.1:1,tiers=a", NULL);
    expect_mistake("asks for no certificate, so tiers does nothing: add client-ca=FILE");
    load("--listen", ASKS ",tiers=+a", NULL);
    expect_mistake("tiers has an empty name: write tiers=NAME or tiers=NAME+NAME");
    load("--client-share", "0", NULL);
    expect_mistake("client-share");
    load("--tier-share", "101", NULL);
    expect_mistake("tier-share");
}

static void balancers_are_networks(void **state)
{
    (void)state;
    char text[CLIENT_ADDRESS_TEXT];
    load("--listen", "http://127.0.0.1:1,proxy-from=10.0.7.0/24+fd00:7::/64+unix", NULL);
    load_ok();
    assert_int_equal(config.listen[0].proxy_from.n, 3);
    expect_reads_back();
    assert_int_equal(config.listen[0].proxy_from.n, 3);
    client_network_text(&config.listen[0].proxy_from.list[1], text);
    assert_string_equal(text, "fd00:7::/64");
    load("--listen", "http://127.0.0.1:1", NULL);
    load_ok();
    assert_int_equal(config.listen[0].proxy_from.n, 0);
    load("--listen", "http://127.0.0.1:1,proxy-from=10.0.7.1/24", NULL);
    expect_mistake("proxy-from: '10.0.7.1/24' is no network: write 10.0.7.0/24");
    load("--listen", "http://127.0.0.1:1,proxy-from=10.0.7.1++unix", NULL);
    expect_mistake("proxy-from: '' is no address");
    char many[1024] = "http://127.0.0.1:1,proxy-from=unix";
    for (int i = 0; i < CONFIG_PROXY_FROM; i++)
        strcat(many, "+unix");
    load("--listen", many, NULL);
    expect_mistake("proxy-from has more than 64 networks");
}

/* ---- no memory ---- */

static enum belfry_err load_everything(void)
{
    char *argv[] = {
        (char[]){"belfryd"},
        (char[]){"--upstream"},
        (char[]){"a,b"},
        (char[]){"--listen"},
        (char[]){"https://127.0.0.1:1,cert=/c,key=/k,client-ca=/d,crl=/e,users-from=x+y,proxy-from=10.0.0.0/8+unix"},
        (char[]){"--scope=/a/"},
        (char[]){"--config"},
        path,
        (char[]){"--admin=unix:///a"},
        NULL};
    struct config made;
    enum config_do ignored;
    FILE *null = fopen("/dev/null", "w");
    enum belfry_err result = config_load(9, argv, null, null, &made, &ignored);
    if (result == BELFRY_OK)
        config_fini(&made);
    fclose(null);
    return result;
}

static void a_refused_allocation_leaks_nothing(void **state)
{
    (void)state;
    write_file(
        "upstream: [a, b]\nscope: [/x]\nname: edge\nlisten:\n  - http://127.0.0.1:2\n"
        "  - {url: 'https://127.0.0.1:3', cert: /c, key: /k, client-ca: /d, users-from: [a, b], proxy-from: [unix]}\n"
        "upstream-user: u\nupstream-password-file: /p\nupstream-token-key: /k\n");
    assert_true(refuse_sweep(load_everything) > 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, done)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_any_flag_it_follows_this_machine_and_serves_on_loopback),
        TEST(cache_dir_is_the_managers_then_the_desktops_then_the_homes),
        TEST(without_a_home_the_cache_dir_must_be_given),
        TEST(flag_wins_over_environment_over_file_over_default),
        TEST(keys_that_need_each_other_come_from_any_source),
        TEST(an_empty_text_takes_a_lower_value_away),
        TEST(lists_are_replaced_by_a_higher_source_and_added_to_by_the_same),
        TEST(a_scalar_flag_given_twice_is_the_last),
        TEST(allowed_hosts_are_names),
        TEST(origins_of_pages_are_as_browsers_send_them),
        TEST(resources_of_an_api_server_are_followed),
        TEST(what_is_for_etcd_is_refused_in_front_of_an_api_server),
        TEST(at_most_200_resources_are_followed),
        TEST(keys_of_tickets_are_read_with_the_configuration),
        TEST(a_scope_is_one_prefix),
        TEST(the_config_file_may_be_named_by_the_environment),
        TEST(a_resource_has_options_on_the_command_line),
        TEST(a_resource_is_a_map_in_the_file),
        TEST(a_definition_that_makes_no_sense_is_named),
        TEST(what_a_resource_lacks_is_told),
        TEST(a_listener_has_options_on_the_command_line),
        TEST(a_listener_is_a_map_in_the_file),
        TEST(listener_before_credentials_says_which_rights_its_clients_have),
        TEST(users_of_certificates_need_a_key_or_a_tier_above),
        TEST(the_tail_shows_no_more_than_upstream_shows_to_everyone),
        TEST(tiers_below_are_named),
        TEST(balancers_are_networks),
        TEST(loopback_is_known_in_all_its_forms),
        TEST(every_mistake_on_the_command_line_has_a_sentence_and_a_remedy),
        TEST(every_mistake_in_the_file_names_its_line),
        TEST(a_mistake_in_the_environment_names_the_variable),
        TEST(what_a_file_can_make_grow_is_bounded),
        TEST(an_empty_file_changes_nothing),
        TEST(help_names_every_flag_its_default_and_the_exit_codes),
        TEST(version_is_one_line),
        TEST(check_config_says_ok),
        TEST(secrets_that_everybody_may_read_are_warned_about),
        TEST(check_config_tells_faults_of_every_source),
        TEST(check_config_tells_all_faults_of_one_source),
        TEST(check_config_warns_of_what_is_probably_not_meant),
        TEST(check_config_refuses_files_that_a_start_could_not_use),
        TEST(check_config_refuses_addresses_and_folders_that_a_start_could_not_use),
        TEST(check_config_tells_every_fault),
        TEST(value_that_looks_like_a_flag_is_taken_after_an_equals_sign),
        TEST(start_itself_leaves_files_to_those_who_use_them),
        TEST(the_default_prints_and_reads_back),
        TEST(any_config_prints_and_reads_back),
        TEST(a_refused_allocation_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
