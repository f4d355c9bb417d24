/* src/kapi/kube_client.c */
#include "kapi/kube_client.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/owner.h"
#include "client/opts.h"
#include "kapi/kube_request.h"

#define USER_AGENT      "libbelfry/" BELFRY_VERSION
#define TIMEOUT_MS      30000
#define MAX_BYTES       (16 * 1024 * 1024) /* as in Go's frame decoder */
#define MAX_BYTES_LEAST (64 * 1024)

/* From the settings: what a connection, the token and a call need. */
static enum belfry_err open_parts(struct belfry_kube *k, const struct belfry_opts *opts, char *why, size_t len)
{
    const struct belfry_kubeconfig *config = &k->settings.config;
    struct belfry_tls_opts tls = {.cacert = config->cacert_file,
                                  .cert = config->cert_file,
                                  .key = config->key_file,
                                  .cacert_pem = config->cacert_pem,
                                  .cert_pem = config->cert_pem,
                                  .key_pem = config->key_pem,
                                  .server_name = config->server_name,
                                  .skip_verify = config->skip_verify,
                                  .http1 = true};
    enum belfry_err err = k->settings.endpoint.tls ? belfry_tls_create(&tls, &k->tls, why, len) : BELFRY_OK;
    if (err != BELFRY_OK)
        return err;

    const char *wrong = "";
    err = belfry_bearer_init(&k->bearer, config->token, config->token_file, belfry_clock_ms(), &wrong);
    if (err == BELFRY_ERR_AUTH) {
        snprintf(why, len, "token file %s: %s", config->token_file, wrong);
        return BELFRY_ERR_INVALID;
    }
    if (err == BELFRY_ERR_INVALID)
        snprintf(why, len, "the token is not one: it must be 1 to 65536 printable characters on one line");
    if (err != BELFRY_OK)
        return err;

    struct belfry_api_opts calls = {.b = k->b,
                                    .endpoint = &k->settings.endpoint,
                                    .tls = k->tls,
                                    .dial_timeout_ms = (uint32_t)belfry_opts_number(opts, BELFRY_OPT_DIAL_TIMEOUT),
                                    .user_agent = USER_AGENT};
    return belfry_api_create(&calls, &k->calls);
}

static bool opts_are_sane(const struct belfry_opts *opts, char *why, size_t len)
{
    const char *wrong = NULL;
    if (!belfry_opts_fit(opts, BELFRY_FOR_KUBE_OPEN))
        wrong = belfry_opts_why(opts);
    else if (belfry_opts_number(opts, BELFRY_OPT_DIAL_TIMEOUT) <= 0 ||
             belfry_opts_number(opts, BELFRY_OPT_COMMAND_TIMEOUT) <= 0)
        wrong = "dial-timeout and command-timeout must be above 0";
    else if (belfry_opts_number(opts, BELFRY_OPT_MAX_MESSAGE) < MAX_BYTES_LEAST)
        wrong = "max-message is under 64KiB: most objects would not fit";
    if (wrong != NULL)
        snprintf(why, len, "%s", wrong);
    return wrong == NULL;
}

static void free_kube(struct belfry_kube *k)
{
    belfry_api_destroy(k->calls);
    belfry_tls_destroy(k->tls);
    belfry_bearer_fini(&k->bearer);
    belfry_kube_settings_fini(&k->settings);
    free(k);
}

static void client_end_all(struct belfry_kube *k)
{
    struct belfry_list *node;
    k->closing = true; /* first, so that callbacks cannot open new requests */
    while ((node = belfry_list_pop(&k->users)) != NULL) {
        struct belfry_kube_user *user = belfry_container(node, struct belfry_kube_user, node);
        user->closing(user);
    }
    while (!belfry_list_empty(&k->requests)) {
        struct belfry_kube_request *request = belfry_request_of_node(k->requests.next);
        belfry_request_end(request, BELFRY_ERR_CANCELED, "the client was closed");
    }
}

static void on_session_close(struct belfry_guest *guest)
{
    struct belfry_kube *k = belfry_container(guest, struct belfry_kube, guest);
    client_end_all(k);
    free_kube(k);
}

int belfry_kube_open(struct belfry *b, const struct belfry_opts *opts, struct belfry_kube **out, char *why, size_t len)
{
    BELFRY_OWNER_ENTER(b);
    char sentence[BELFRY_KUBECONFIG_WHY] = "";
    if (why == NULL || len == 0) {
        why = sentence;
        len = sizeof(sentence);
    }
    why[0] = '\0';
    if (b->closing)
        return belfry_why_note(b, BELFRY_ERR_CANCELED, "the session is being closed");
    if (!opts_are_sane(opts, why, len))
        return belfry_why_note(b, BELFRY_ERR_INVALID, why);
    struct belfry_kube *k = calloc(1, sizeof(*k));
    if (k == NULL)
        return belfry_why_note(b, BELFRY_ERR_NOMEM, NULL);
    k->b = b;
    k->guest.close = on_session_close;
    belfry_list_init(&k->requests);
    belfry_list_init(&k->users);
    k->timeout_ms = TIMEOUT_MS;
    if (belfry_opts_is_set(opts, BELFRY_OPT_COMMAND_TIMEOUT))
        k->timeout_ms = (uint32_t)belfry_opts_number(opts, BELFRY_OPT_COMMAND_TIMEOUT);
    k->max_bytes = MAX_BYTES;
    if (belfry_opts_is_set(opts, BELFRY_OPT_MAX_MESSAGE))
        k->max_bytes = (size_t)belfry_opts_number(opts, BELFRY_OPT_MAX_MESSAGE);
    enum belfry_err err = belfry_kube_settings_read(opts, BELFRY_IN_CLUSTER_DIR, &k->settings, sentence);
    if (err != BELFRY_OK && why != sentence)
        snprintf(why, len, "%s", sentence);
    if (err == BELFRY_OK)
        err = open_parts(k, opts, why, len);
    if (err != BELFRY_OK) {
        free_kube(k);
        if (why[0] == '\0')
            snprintf(why, len, "%s", belfry_strerror(err));
        return belfry_why_note(b, err, why);
    }
    belfry_list_prepend(&b->guests, &k->guest.node);
    *out = k;
    return BELFRY_OK;
}

void belfry_kube_close(struct belfry_kube *k)
{
    if (k == NULL)
        return;
    BELFRY_OWNER_ENTER(k->b);
    client_end_all(k);
    belfry_list_remove(&k->guest.node);
    free_kube(k);
}

const char *belfry_kube_server(const struct belfry_kube *k)
{
    return k->settings.config.server;
}

const char *belfry_kube_namespace(const struct belfry_kube *k)
{
    return k->settings.config.ns;
}

void belfry_kube_set_warning(struct belfry_kube *k, belfry_kube_warning_fn fn, void *user)
{
    k->warning_fn = fn;
    k->warning_user = user;
}

const struct belfry_kube_stats *belfry_kube_get_stats(struct belfry_kube *k)
{
    BELFRY_OWNER_ENTER(k->b);
    struct belfry_pool_counts counts = belfry_api_counts(k->calls);
    k->stats.requests = belfry_api_requests(k->calls);
    k->stats.connects = counts.connects;
    k->stats.losses = counts.losses;
    k->stats.connections = counts.connections;
    k->stats.http2 = counts.http2;
    k->stats.token_reads = k->bearer.reads;
    return &k->stats;
}
