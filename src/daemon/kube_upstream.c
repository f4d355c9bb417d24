/* src/daemon/kube_upstream.c */
#include "daemon/kube_upstream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kapi/pod.h"

static enum belfry_err set_option(struct belfry_opts **opts, const char *name, const char *value, char *why, size_t len)
{
    if (value == NULL)
        return BELFRY_OK;
    enum belfry_err err = (enum belfry_err)belfry_opts_set(opts, name, value);
    if (err == BELFRY_ERR_INVALID)
        snprintf(why, len, "%s", belfry_opts_why(*opts));
    return err;
}

struct server {
    const char *url, *cacert, *server_name, *token_file;
};

static enum belfry_err add_server(struct kube_upstream *upstream, const struct server *server, char *why, size_t len)
{
    if (upstream->n == KUBE_UPSTREAM_MAX) {
        snprintf(why, len, "more than %d servers: name some of them", KUBE_UPSTREAM_MAX);
        return BELFRY_ERR_INVALID;
    }
    struct belfry_opts **opts = &upstream->opts[upstream->n++];
    enum belfry_err err = set_option(opts, "server", server->url, why, len);
    if (err == BELFRY_OK)
        err = set_option(opts, "cacert", server->cacert, why, len);
    if (err == BELFRY_OK)
        err = set_option(opts, "server-name", server->server_name, why, len);
    return err == BELFRY_OK ? set_option(opts, "token-file", server->token_file, why, len) : err;
}

static enum belfry_err add_pod(struct kube_upstream *upstream, char *why, size_t len)
{
    struct belfry_kubeconfig pod = {0};
    char sentence[BELFRY_KUBECONFIG_WHY] = "";
    if (!belfry_pod_is_here()) {
        snprintf(why, len, "this process is not in a pod: KUBERNETES_SERVICE_HOST and _PORT are not set");
        return BELFRY_ERR_INVALID;
    }
    enum belfry_err err = belfry_pod_read(BELFRY_IN_CLUSTER_DIR, BELFRY_KUBECONFIG_WHOLE, &pod, sentence);
    if (err == BELFRY_OK) {
        struct server server = {.url = pod.server, .cacert = pod.cacert_file, .token_file = pod.token_file};
        err = add_server(upstream, &server, why, len);
    } else
        snprintf(why, len, "%s", sentence);
    belfry_kubeconfig_fini(&pod);
    return err;
}

static enum belfry_err add_urls(struct kube_upstream *upstream, const struct config *config, char *why, size_t len)
{
    char *urls = strdup(config->upstream_kube), *rest = urls;
    enum belfry_err err = urls == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
    for (char *url; err == BELFRY_OK && (url = strsep(&rest, ",")) != NULL;) {
        struct server server = {.url = url,
                                .cacert = config->upstream_cacert,
                                .server_name = config->upstream_server_name,
                                .token_file = config->upstream_token_file};
        err = add_server(upstream, &server, why, len);
    }
    free(urls);
    return err;
}

static enum belfry_err add_servers(struct kube_upstream *upstream, const struct config *config, char *why, size_t len)
{
    const char *where = config->upstream_kube;
    if (strcmp(where, "in-cluster") == 0)
        return add_pod(upstream, why, len);
    if (strncmp(where, "http://", 7) == 0 || strncmp(where, "https://", 8) == 0)
        return add_urls(upstream, config, why, len);
    upstream->n = 1;
    return set_option(&upstream->opts[0], "kubeconfig", where, why, len);
}

static enum belfry_err check_credential(const struct belfry_kubeconfig *config, char *why, size_t len)
{
    if (config->cert_file != NULL || config->cert_pem != NULL) {
        snprintf(
            why, len,
            "the tier's credential is a client certificate, which would count for relayed requests too. Make a "
            "token for it: kubectl create serviceaccount belfry; kubectl create token belfry --duration 24h "
            ">token; and give --upstream-kube URL --upstream-cacert FILE --upstream-token-file token; it needs the "
            "rights in packaging/kubernetes/overlays/kube/rbac.yaml");
        return BELFRY_ERR_INVALID;
    }
    if (config->token == NULL && config->token_file == NULL) {
        snprintf(why, len,
                 "the tier has no token for the API server: give --upstream-token-file FILE (kubectl create token NAME "
                 "makes one)");
        return BELFRY_ERR_INVALID;
    }
    return BELFRY_OK;
}

static enum belfry_err create_tls(struct kube_upstream *upstream, char *why, size_t len)
{
    const struct belfry_kubeconfig *config = &upstream->settings.config;
    struct belfry_tls_opts tls = {.cacert = config->cacert_file,
                                  .cacert_pem = config->cacert_pem,
                                  .server_name = config->server_name,
                                  .skip_verify = config->skip_verify};
    return upstream->settings.endpoint.tls ? belfry_tls_create(&tls, &upstream->tls, why, len) : BELFRY_OK;
}

/* Relayed requests of all servers have one base path, and go over TLS or not. */
static enum belfry_err read_settings(struct kube_upstream *upstream, char *why, size_t len)
{
    char sentence[BELFRY_KUBECONFIG_WHY] = "";
    for (unsigned i = 0; i < upstream->n; i++) {
        struct belfry_kube_settings settings = {0}, *first = &upstream->settings;
        enum belfry_err err = belfry_kube_settings_read(upstream->opts[i], BELFRY_IN_CLUSTER_DIR, &settings, sentence);
        if (err != BELFRY_OK) {
            snprintf(why, len, "%s", sentence);
            return err;
        }
        upstream->endpoints[i] = settings.endpoint;
        if (i == 0) {
            *first = settings;
            continue;
        }
        bool is_alike = strcmp(settings.base, first->base) == 0 && settings.endpoint.tls == first->endpoint.tls;
        belfry_kube_settings_fini(&settings);
        if (!is_alike) {
            snprintf(why, len, "the servers must have the same scheme and the same path");
            return BELFRY_ERR_INVALID;
        }
    }
    return BELFRY_OK;
}

enum belfry_err kube_upstream_read(const struct config *config, struct kube_upstream *out, char *why, size_t why_len)
{
    *out = (struct kube_upstream){.n = 0};
    enum belfry_err err = add_servers(out, config, why, why_len);
    if (err == BELFRY_OK)
        err = read_settings(out, why, why_len);
    if (err == BELFRY_OK)
        err = check_credential(&out->settings.config, why, why_len);
    if (err == BELFRY_OK)
        err = create_tls(out, why, why_len);
    if (err != BELFRY_OK)
        kube_upstream_fini(out);
    return err;
}

void kube_upstream_fini(struct kube_upstream *upstream)
{
    for (unsigned i = 0; i < KUBE_UPSTREAM_MAX; i++)
        belfry_opts_free(upstream->opts[i]);
    belfry_kube_settings_fini(&upstream->settings);
    belfry_tls_destroy(upstream->tls);
    *upstream = (struct kube_upstream){.n = 0};
}
