/* src/cli/kubeconfig_text.c */
#include "cli/kubeconfig_text.h"

#include <string.h>

#include "cli/flags.h"
#include "cli/out/out_json.h"

/* Over https:// kubectl asks for a name and a password when it has no credentials at all. */
#define NO_TOKEN "none"

static bool is_https(const struct kubeconfig *config)
{
    return strncmp(config->server, "https://", strlen("https://")) == 0;
}

static bool has_credentials(const struct kubeconfig *config)
{
    return config->token != NULL || config->certificate.len > 0;
}

/* ---- what fits together ---- */

static enum belfry_err wrong(char *why, const char *flag, const char *what)
{
    snprintf(why, FLAGS_WHY, "%s: %s", flag, what);
    return BELFRY_ERR_INVALID;
}

/* None of them has blanks or control bytes, not even in a client that would take them: a token goes into a header. */
static bool is_plain(const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        if (*at <= ' ' || *at > '~')
            return false;
    return *text != '\0';
}

static enum belfry_err check_texts(const struct kubeconfig *config, char *why)
{
    const struct {
        const char *flag, *text;
    } texts[] = {{"--server", config->server},
                 {"--name", config->name},
                 {"--namespace", config->namespace},
                 {"--token", config->token},
                 {"--server-name", config->server_name}};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].text != NULL && !is_plain(texts[i].text))
            return wrong(why, texts[i].flag, "must be printable ASCII without blanks, and not empty");
    return BELFRY_OK;
}

static enum belfry_err check_server(const char *server, char *why)
{
    const char *colon = strstr(server, "://");
    size_t scheme = colon == NULL ? 0 : (size_t)(colon - server);
    bool known = (scheme == 4 && memcmp(server, "http", 4) == 0) || (scheme == 5 && memcmp(server, "https", 5) == 0);
    if (!known || colon[3] == '\0' || colon[3] == '/')
        return wrong(why, "--server", "must be http://host:port or https://host:port");
    return BELFRY_OK;
}

enum belfry_err kubeconfig_check(const struct kubeconfig *config, char *why)
{
    enum belfry_err err = check_texts(config, why);
    if (err == BELFRY_OK)
        err = check_server(config->server, why);
    if (err != BELFRY_OK)
        return err;
    if ((config->certificate.len > 0) != (config->key.len > 0))
        return wrong(why, "--client-certificate and --client-key", "give both or neither");
    if (!is_https(config) && config->authority.len > 0)
        return wrong(why, "--certificate-authority", "is for a --server with https://");
    if (!is_https(config) && config->certificate.len > 0)
        return wrong(why, "--client-certificate", "is for a --server with https://");
    if (config->skip_verify && config->authority.len > 0)
        return wrong(why, "--certificate-authority and --insecure-skip-tls-verify", "exclude each other: choose one");
    return BELFRY_OK;
}

const char *kubeconfig_warning(const struct kubeconfig *config)
{
    if (!is_https(config) && config->token != NULL)
        return "kubectl sends no token over http://, though other clients do: it needs a --server with https://";
    if (is_https(config) && !has_credentials(config))
        return "without credentials kubectl would ask for a name and a password, so a placeholder token was written: "
               "give --token-file, or --client-certificate and --client-key";
    return NULL;
}

/* ---- the file ---- */

/* A JSON string is one of YAML, too. */
static void write_text(FILE *out, const char *label, const char *text)
{
    fputs(label, out);
    json_string(out, (struct belfry_bytes){text, strlen(text)});
    fputc('\n', out);
}

static void write_pem(FILE *out, const char *label, struct belfry_bytes pem)
{
    if (pem.len == 0)
        return;
    fputs(label, out);
    json_base64(out, pem);
    fputc('\n', out);
}

static void write_cluster(FILE *out, const struct kubeconfig *config)
{
    write_text(out, "clusters:\n- name: ", config->name);
    write_text(out, "  cluster:\n    server: ", config->server);
    write_pem(out, "    certificate-authority-data: ", config->authority);
    if (config->server_name != NULL && is_https(config))
        write_text(out, "    tls-server-name: ", config->server_name);
    if (config->skip_verify || !is_https(config)) /* @kubernetes/client-node takes http:// only with it */
        fputs("    insecure-skip-tls-verify: true\n", out);
}

static void write_context(FILE *out, const struct kubeconfig *config)
{
    write_text(out, "contexts:\n- name: ", config->name);
    write_text(out, "  context:\n    cluster: ", config->name);
    write_text(out, "    user: ", config->name);
    if (config->namespace != NULL)
        write_text(out, "    namespace: ", config->namespace);
}

static void write_user(FILE *out, const struct kubeconfig *config)
{
    bool dummy = is_https(config) && !has_credentials(config);
    write_text(out, "users:\n- name: ", config->name);
    if (!dummy && !has_credentials(config)) {
        fputs("  user: {}\n", out);
        return;
    }
    fputs("  user:\n", out);
    if (dummy || config->token != NULL)
        write_text(out, "    token: ", dummy ? NO_TOKEN : config->token);
    write_pem(out, "    client-certificate-data: ", config->certificate);
    write_pem(out, "    client-key-data: ", config->key);
}

void kubeconfig_write(FILE *out, const struct kubeconfig *config)
{
    fputs("apiVersion: v1\nkind: Config\n", out);
    write_cluster(out, config);
    write_user(out, config);
    write_context(out, config);
    write_text(out, "current-context: ", config->name);
}
