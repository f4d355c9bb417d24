/* src/daemon/config_try.c: what a start would need of this machine, tried without changing anything. */
#include <string.h>

#include "base/password_file.h"
#include "daemon/config_private.h"
#include "net/tls.h"
#include "replica/folder.h"
#include "server/listener.h"

/* Tells a fault. Missing memory is not one: the configuration may be right. */
static enum belfry_err judge(const struct config_draft *draft, enum config_key key, enum belfry_err err,
                             const char *why)
{
    if (err == BELFRY_OK || err == BELFRY_ERR_NOMEM)
        return err;
    return config_wrong(draft, &config_rows[key], draft->origin[key], "%s", why);
}

/* Which file the sentence is about. */
static enum config_key upstream_key_named(const struct config *config, const char *why)
{
    if (config->upstream_key != NULL && strstr(why, config->upstream_key) != NULL)
        return KEY_UPSTREAM_KEY;
    if (config->upstream_cert != NULL && strstr(why, config->upstream_cert) != NULL)
        return KEY_UPSTREAM_CERT;
    return KEY_UPSTREAM_CACERT;
}

static enum belfry_err try_upstream_tls(const struct config_draft *draft)
{
    const struct config *config = draft->config;
    struct belfry_tls *tls = NULL;
    char why[CONFIG_WHY] = "";
    bool wanted = false;
    for (size_t i = 0; i < config->n_upstream; i++)
        wanted = wanted || config->upstream[i].tls;
    if (!wanted)
        return BELFRY_OK;
    struct belfry_tls_opts opts = {.cacert = config->upstream_cacert,
                                   .cert = config->upstream_cert,
                                   .key = config->upstream_key,
                                   .server_name = config->upstream_server_name};
    enum belfry_err err = belfry_tls_create(&opts, &tls, why, sizeof(why));
    if (err == BELFRY_OK)
        belfry_tls_destroy(tls);
    return judge(draft, upstream_key_named(config, why), err, why);
}

static enum belfry_err try_password(const struct config_draft *draft)
{
    char password[BELFRY_PASSWORD_MAX], why[CONFIG_WHY];
    if (draft->config->upstream_password_file == NULL)
        return BELFRY_OK;
    enum belfry_err err = belfry_password_file_read(draft->config->upstream_password_file, password, why, sizeof(why));
    explicit_bzero(password, sizeof(password));
    return judge(draft, KEY_UPSTREAM_PASSWORD_FILE, err, why);
}

static enum belfry_err try_listener_tls(const struct config_draft *draft, const struct config_listen *listen)
{
    struct belfry_tls *tls = NULL;
    char why[CONFIG_WHY] = "";
    if (!listen->endpoint.tls)
        return BELFRY_OK;
    struct belfry_tls_server_opts opts = {.cert = listen->cert, .key = listen->key, .client_ca = listen->client_ca};
    enum belfry_err err = belfry_tls_create_server(&opts, &tls, why, sizeof(why));
    if (err == BELFRY_OK)
        belfry_tls_destroy(tls);
    return judge(draft, KEY_LISTEN, err, why);
}

/* The belfryd that is to be restarted with this configuration may have the address: that is worth a warning. */
static enum belfry_err try_address(const struct config_draft *draft, enum config_key key,
                                   const struct belfry_endpoint *endpoint, FILE *out)
{
    char why[CONFIG_WHY];
    enum belfry_err err = listener_try(endpoint, why, sizeof(why));
    if (err != BELFRY_ERR_LIMIT)
        return judge(draft, key, err, why);
    fprintf(out, "warning: %s\n", why);
    return BELFRY_OK;
}

static enum belfry_err try_cache_dir(const struct config_draft *draft)
{
    char why[CONFIG_WHY];
    enum belfry_err err = folder_try(draft->config->cache_dir, why, sizeof(why));
    return judge(draft, KEY_CACHE_DIR, err, why);
}

/* The trials go on after a fault, so that one run tells all of them. */
static void keep_first(enum belfry_err *err, enum belfry_err next)
{
    if (*err == BELFRY_OK || next == BELFRY_ERR_NOMEM)
        *err = next;
}

enum belfry_err config_try(const struct config_draft *draft, FILE *out)
{
    const struct config *config = draft->config;
    enum belfry_err err = try_upstream_tls(draft);
    keep_first(&err, try_password(draft));
    for (size_t i = 0; i < config->n_listen; i++) {
        keep_first(&err, try_listener_tls(draft, &config->listen[i]));
        keep_first(&err, try_address(draft, KEY_LISTEN, &config->listen[i].endpoint, out));
    }
    keep_first(&err, try_address(draft, KEY_ADMIN, &config->admin, out));
    keep_first(&err, try_cache_dir(draft));
    return err;
}
