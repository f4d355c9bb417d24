/* src/daemon/config_check.c */
#include "daemon/config_check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/password_file.h"
#include "daemon/config_listen.h"
#include "daemon/kube_upstream.h"
#include "net/tls.h"
#include "opt/nearest.h"
#include "replica/folder.h"
#include "serve/kube/definitions.h"
#include "serve/rights/mint.h"
#include "server/listener.h"

extern char **environ;

static bool is_unread(const struct config_draft *draft, enum config_key key)
{
    return (draft->faults->unread >> key & 1) != 0;
}

/* Tells a mistake in the value of `key`, wherever that came from. A value that could not be read has been told. */
#define WRONG(draft, key, ...)                                                                                         \
    (is_unread(draft, key) ? BELFRY_ERR_INVALID                                                                        \
                           : config_draft_wrong(draft, &config_rows[key], (draft)->origin[key], __VA_ARGS__))

static bool upstream_has_tls(const struct config *config)
{
    bool tls = false;
    for (size_t i = 0; i < config->n_upstream; i++)
        tls = tls || config->upstream[i].tls;
    return tls;
}

static enum belfry_err check_upstream(const struct config_draft *draft)
{
    const struct config *config = draft->config;
    if (config->n_upstream == 0 && config->upstream_kube == NULL && !is_unread(draft, KEY_UPSTREAM))
        return WRONG(draft, KEY_UPSTREAM, "there is none: give at least one URL");
    if (config->upstream_cert != NULL && config->upstream_key == NULL)
        return WRONG(draft, KEY_UPSTREAM_CERT, "its key is missing: give --upstream-key FILE too");
    if (config->upstream_key != NULL && config->upstream_cert == NULL)
        return WRONG(draft, KEY_UPSTREAM_KEY, "its certificate is missing: give --upstream-cert FILE too");
    if (config->upstream_user != NULL && strchr(config->upstream_user, ':') != NULL)
        return WRONG(draft, KEY_UPSTREAM_USER, "write the name alone; the password goes into --upstream-password-file");
    if (config->upstream_user != NULL && config->upstream_password_file == NULL)
        return WRONG(draft, KEY_UPSTREAM_USER, "its password is missing: give --upstream-password-file FILE too");
    if (config->upstream_password_file != NULL && config->upstream_user == NULL)
        return WRONG(draft, KEY_UPSTREAM_PASSWORD_FILE, "whose password? Give --upstream-user NAME too");
    return BELFRY_OK;
}

/* What means nothing in front of Kubernetes; N_CONFIG_KEYS: none of it is given. */
static enum config_key only_for_etcd(const struct config *config)
{
    return config->upstream_cert != NULL            ? KEY_UPSTREAM_CERT
           : config->upstream_key != NULL           ? KEY_UPSTREAM_KEY
           : config->upstream_user != NULL          ? KEY_UPSTREAM_USER
           : config->upstream_password_file != NULL ? KEY_UPSTREAM_PASSWORD_FILE
           : config->upstream_token_key != NULL     ? KEY_UPSTREAM_TOKEN_KEY
           : config->pass_users                     ? KEY_PASS_USERS
           : config->resources.n > 0                ? KEY_RESOURCES
           : config->n_scope > 0                    ? KEY_SCOPE
           : config->admin_tail                     ? KEY_ADMIN_TAIL
                                                    : N_CONFIG_KEYS;
}

static enum belfry_err check_kube(const struct config_draft *draft)
{
    const struct config *config = draft->config;
    if (config->upstream_kube == NULL && config->n_follow > 0)
        return WRONG(draft, KEY_FOLLOW, "of which API server? Give --upstream-kube WHERE too");
    if (config->upstream_kube == NULL && config->upstream_token_file != NULL)
        return WRONG(draft, KEY_UPSTREAM_TOKEN_FILE, "it is for the URLs of --upstream-kube: give that too");
    if (config->upstream_kube == NULL)
        return BELFRY_OK;
    if (draft->origin[KEY_UPSTREAM].source == CONFIG_FROM_DEFAULT)
        config_drop(draft->config, KEY_UPSTREAM);
    if (config->n_upstream > 0)
        return WRONG(draft, KEY_UPSTREAM, "upstream is etcd or, with --upstream-kube, an API server: keep one");
    if (config->n_follow == 0)
        return WRONG(draft, KEY_UPSTREAM_KUBE, "which resources? Give --follow RESOURCE,... too");
    enum config_key other = only_for_etcd(config);
    return other == N_CONFIG_KEYS ? BELFRY_OK
                                  : WRONG(draft, other,
                                          "it is for a tier in front of etcd, and this one has "
                                          "--upstream-kube: leave it out");
}

/* In front of Kubernetes every client is asked about, whatever the listener. */
static enum belfry_err check_kube_listen(const struct config_draft *draft, const struct config_listen *listen)
{
    const struct listen_policy *policy = &listen->policy;
    if (draft->config->upstream_kube == NULL)
        return BELFRY_OK;
    if (policy->rights == LISTEN_RIGHTS_OPEN || policy->open_writes)
        return WRONG(draft, KEY_LISTEN,
                     "%s has rights=open, but with --upstream-kube the API server decides what each client may do: "
                     "leave it out",
                     listen->endpoint.url);
    if ((policy->dialects & DIALECT_KUBE) == 0)
        return WRONG(draft, KEY_LISTEN, "%s does not serve kube, and with --upstream-kube there is nothing else",
                     listen->endpoint.url);
    return BELFRY_OK;
}

static bool asks_for_certificates(const struct config *config)
{
    for (size_t i = 0; i < config->n_listen; i++)
        if (config->listen[i].client_ca != NULL)
            return true;
    return false;
}

/* Decision 0050: the key next to etcd, and names from tier to tier below it. */
static enum belfry_err check_users(const struct config_draft *draft)
{
    const struct config *config = draft->config;
    bool has_key = config->upstream_token_key != NULL;
    enum config_key key = has_key ? KEY_UPSTREAM_TOKEN_KEY : KEY_PASS_USERS;
    if (has_key && config->pass_users)
        return WRONG(draft, KEY_PASS_USERS,
                     "this tier has --upstream-token-key: keep that next to etcd, and --pass-users on tiers below");
    if (config->upstream_token_method != NULL && !has_key)
        return WRONG(draft, KEY_UPSTREAM_TOKEN_METHOD, "the key is missing: give --upstream-token-key FILE too");
    if (config->allow_root && !has_key)
        return WRONG(draft, KEY_ALLOW_ROOT, "it is for a tier with --upstream-token-key: give that, or take this out");
    if (has_key && config->upstream_user == NULL)
        return WRONG(draft, key,
                     "a token needs the revision of etcd's auth store, which the tier learns by logging in: give "
                     "--upstream-user NAME and --upstream-password-file FILE too");
    for (size_t i = 0; i < config->n_upstream && config->pass_users; i++)
        if (!config->upstream[i].tls || config->upstream_cert == NULL)
            return WRONG(draft, key,
                         "the tier above believes a certificate only: use https for %s, and give "
                         "--upstream-cert FILE",
                         config->upstream[i].url);
    if ((has_key || config->pass_users) && !asks_for_certificates(config))
        return WRONG(draft, key, "no listener asks clients for certificates: add client-ca=FILE to one");
    return BELFRY_OK;
}

static enum belfry_err check_tls(const struct config_draft *draft, const struct config_listen *listen)
{
    const char *url = listen->endpoint.url;
    bool complete = listen->cert != NULL && listen->key != NULL;
    if (listen->endpoint.tls && !complete)
        return WRONG(draft, KEY_LISTEN, "%s needs a certificate and its key: add ,cert=FILE,key=FILE", url);
    if (!listen->endpoint.tls && (listen->cert != NULL || listen->key != NULL || listen->client_ca != NULL))
        return WRONG(draft, KEY_LISTEN, "%s has no TLS, so cert, key and client-ca do nothing: write %s", url,
                     listen->endpoint.is_unix ? "unixs://" : "https://");
    if (listen->client_ca == NULL && (listen->crl != NULL || listen->user != BELFRY_TLS_NAME_CN))
        return WRONG(draft, KEY_LISTEN, "%s asks for no certificate, so %s does nothing: add client-ca=FILE", url,
                     listen->crl != NULL ? "crl" : "user");
    if ((listen->policy.tiers.n > 0 || listen->policy.users_from.n > 0) && listen->client_ca == NULL)
        return WRONG(draft, KEY_LISTEN, "%s asks for no certificate, so %s does nothing: add client-ca=FILE", url,
                     listen->policy.tiers.n > 0 ? "tiers" : "users-from");
    if (listen->policy.users_from.n > 0 && draft->config->upstream_token_key == NULL && !draft->config->pass_users)
        return WRONG(draft, KEY_LISTEN,
                     "%s has users-from, and this tier can tell upstream no user: give --upstream-token-key FILE if "
                     "upstream is etcd, or --pass-users if it is belfryd",
                     url);
    return BELFRY_OK;
}

/* What the tier shows upstream to get access; NULL: nothing. A certificate without a common name opens a TLS port, too.
 */
static const char *credentials_of(const struct config *config)
{
    if (config->upstream_user != NULL)
        return "upstream-user";
    return config->upstream_cert != NULL && upstream_has_tls(config) ? "upstream-cert" : NULL;
}

/* Decision 0048: what upstream says at the moment does not count here, nor whether the address is loopback. */
static enum belfry_err check_reads(const struct config_draft *draft, const struct config_listen *listen)
{
    const struct listen_policy *policy = &listen->policy;
    if (policy->reads == LISTEN_READS_RELAY && policy->consistency == LISTEN_CONSISTENCY_SERIALIZABLE)
        return WRONG(draft, KEY_LISTEN,
                     "%s has reads=relay and consistency=serializable, but what is relayed is answered as it asks: "
                     "keep one",
                     listen->endpoint.url);
    return BELFRY_OK;
}

static enum belfry_err check_rights(const struct config_draft *draft, const struct config_listen *listen)
{
    const char *credentials = credentials_of(draft->config);
    const struct listen_policy *policy = &listen->policy;
    if (draft->config->upstream_kube != NULL)
        return check_kube_listen(draft, listen);
    if (policy->read_only && policy->open_writes)
        return WRONG(draft, KEY_LISTEN, "%s is read-only and has rights=open+writes: keep one", listen->endpoint.url);
    if (credentials == NULL || listen->client_ca != NULL || policy->rights != LISTEN_RIGHTS_ASKED)
        return BELFRY_OK;
    return WRONG(draft, KEY_LISTEN,
                 "%s asks clients for no certificate, and this tier has credentials for upstream (%s), which would "
                 "count for everyone who can connect: add ,rights=upstream if auth is on there, or ,rights=open if "
                 "everyone may read what the tier may (,rights=open+writes: and write), or ,client-ca=FILE to https",
                 listen->endpoint.url, credentials);
}

static enum belfry_err check_open(const struct config_draft *draft, enum config_key key,
                                  const struct belfry_endpoint *endpoint)
{
    if (draft->config->insecure_listen || endpoint->tls || belfry_endpoint_is_loopback(endpoint))
        return BELFRY_OK;
    return WRONG(draft, key, "%s exposes all data without encryption or authentication: %s, or give --insecure-listen",
                 endpoint->url, key == KEY_ADMIN ? "listen on loopback" : "use https");
}

static bool listens_at(const struct config *config, size_t n, const char *url)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(config->listen[i].endpoint.url, url) == 0)
            return true;
    return false;
}

static enum belfry_err check_listen(const struct config_draft *draft)
{
    const struct config *config = draft->config;
    if (config->n_listen == 0)
        return WRONG(draft, KEY_LISTEN, "there is none: give at least one address");
    for (size_t i = 0; i < config->n_listen; i++) {
        const struct config_listen *listen = &config->listen[i];
        enum belfry_err err = listens_at(config, i, listen->endpoint.url)
                                  ? WRONG(draft, KEY_LISTEN, "%s is there twice: keep one", listen->endpoint.url)
                                  : check_tls(draft, listen);
        if (err == BELFRY_OK)
            err = check_open(draft, KEY_LISTEN, &listen->endpoint);
        if (err == BELFRY_OK)
            err = check_rights(draft, listen);
        if (err == BELFRY_OK)
            err = check_reads(draft, listen);
        if (config_draft_go_on(draft, err) != BELFRY_OK)
            return err;
    }
    if (listens_at(config, config->n_listen, config->admin.url))
        return WRONG(draft, KEY_ADMIN, "%s is an address of --listen already: give it one of its own",
                     config->admin.url);
    return check_open(draft, KEY_ADMIN, &config->admin);
}

/* The admin address knows no users. So its tail may show only what upstream shows to everyone. */
static enum belfry_err check_tail(const struct config_draft *draft)
{
    const struct config *config = draft->config;
    const char *credentials = credentials_of(config);
    if (!config->admin_tail)
        return BELFRY_OK;
    if (!belfry_endpoint_is_loopback(&config->admin))
        return WRONG(draft, KEY_ADMIN_TAIL,
                     "it would show keys and values to everyone who can reach %s: let --admin "
                     "be loopback or unix",
                     config->admin.url);
    if (credentials != NULL)
        return WRONG(draft, KEY_ADMIN_TAIL,
                     "this tier has credentials for upstream (%s), and the tail would show what "
                     "they can read to everyone who can reach --admin: leave it off",
                     credentials);
    if (config_needs_auth(config))
        return WRONG(draft, KEY_ADMIN_TAIL,
                     "a listener has rights=upstream, and the tail asks for no right: leave it "
                     "off");
    return BELFRY_OK;
}

/* A tier that follows itself would be ready for ever and know nothing. */
static enum belfry_err check_circle(const struct config_draft *draft)
{
    const struct config *config = draft->config;
    for (size_t i = 0; i < config->n_upstream; i++)
        if (listens_at(config, config->n_listen, config->upstream[i].url) ||
            strcmp(config->upstream[i].url, config->admin.url) == 0)
            return WRONG(draft, KEY_UPSTREAM, "%s is this belfryd's own address: name what it should follow",
                         config->upstream[i].url);
    return BELFRY_OK;
}

static bool is_printable(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

static enum belfry_err check_identity(const struct config_draft *draft)
{
    const struct config *config = draft->config;
    struct belfry_endpoint ignored;
    char why[CONFIG_WHY];
    if (config->name == NULL || strlen(config->name) > 253 || !is_printable(config->name))
        return WRONG(draft, KEY_NAME, "a name has 1 to 253 printable characters");
    if (config->cache_dir == NULL)
        return WRONG(draft, KEY_CACHE_DIR, "there is no home to keep it in: give --cache-dir DIR");
    if (config->advertise != NULL &&
        belfry_endpoint_parse(config->advertise, strlen(config->advertise), &ignored, why, sizeof(why)) != BELFRY_OK)
        return WRONG(draft, KEY_ADVERTISE, "%s", why);
    return BELFRY_OK;
}

static enum belfry_err check_memory(const struct config_draft *draft)
{
    const struct config *config = draft->config;
    char memory[BELFRY_VALUE_MAX], log[BELFRY_VALUE_MAX];
    if (config->memory_bytes == 0 || config->memory_bytes > config->log_bytes)
        return BELFRY_OK;
    belfry_value_write_size(config->memory_bytes, memory);
    belfry_value_write_size(config->log_bytes, log);
    return WRONG(draft, KEY_MEMORY_BYTES,
                 "%s does not even hold --log-bytes, which is %s: raise one or lower the other", memory, log);
}

/* What the files say is kept for the tier: they are read once. */
static enum belfry_err read_resources(const struct config_draft *draft)
{
    struct config *config = draft->config;
    char why[CONFIG_WHY];
    if (config->resources.n == 0)
        return BELFRY_OK;
    config->resources.scope = config->n_scope > 0 ? config->scope[0] : NULL;
    enum belfry_err err = definitions_load(&config->resources, &config->definitions, why, sizeof(why));
    return err == BELFRY_ERR_INVALID ? WRONG(draft, KEY_RESOURCES, "%s", why) : err;
}

/* As the resources: kept, so that a reload with a file that cannot be used changes nothing. */
static enum belfry_err read_ticket_keys(const struct config_draft *draft)
{
    struct config *config = draft->config;
    char why[TICKET_KEYS_WHY];
    if (config->ticket_key_file == NULL)
        return BELFRY_OK;
    enum belfry_err err = ticket_keys_load(config->ticket_key_file, &config->ticket_keys, why);
    return err == BELFRY_ERR_INVALID ? WRONG(draft, KEY_TICKET_KEY_FILE, "%s", why) : err;
}

enum belfry_err config_check(const struct config_draft *draft)
{
    static enum belfry_err (*const checks[])(const struct config_draft *draft) = {
        check_kube, check_upstream, check_listen, check_users,      check_circle,
        check_tail, check_identity, check_memory, read_ticket_keys, read_resources};
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && err == BELFRY_OK; i++)
        err = config_draft_go_on(draft, checks[i](draft));
    return err;
}

/* ---- what is probably not meant ---- */

static void warn_open(const struct belfry_endpoint *endpoint, FILE *out)
{
    if (endpoint->tls || belfry_endpoint_is_loopback(endpoint))
        return;
    fprintf(out, "warning: %s is plain HTTP for whoever can reach it (insecure-listen)\n", endpoint->url);
}

static void warn_upstream(const struct config *config, FILE *out)
{
    if (upstream_has_tls(config) || config->upstream_kube != NULL ||
        (config->upstream_cacert == NULL && config->upstream_cert == NULL && config->upstream_server_name == NULL))
        return;
    fputs("warning: no upstream is https, so upstream-cacert, upstream-cert and upstream-server-name do nothing\n",
          out);
}

/* A Kubernetes service called belfryd puts variables of this prefix into every pod, so only near misses are told. */
static void warn_variable(const char *variable, FILE *out)
{
    char name[BELFRY_NEAREST_MAX + 1];
    size_t n = 0, from = strlen(config_table.env[0]);
    const char *nearest;
    if (strncmp(variable, config_table.env[0], from) != 0)
        return;
    for (const char *at = variable + from; *at != '\0' && *at != '=' && n < BELFRY_NEAREST_MAX; at++)
        name[n++] = (char)(*at == '_' ? '-' : *at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
    name[n] = '\0';
    if (belfry_opt_find(config_rows, N_CONFIG_ROWS, name, n, &nearest) != NULL || nearest == NULL)
        return;
    char meant[BELFRY_OPT_ENV_NAME];
    belfry_opt_env_name(config_table.env[0], nearest, meant);
    fprintf(out, "warning: %.*s in the environment is no setting: did you mean %s?\n", (int)strcspn(variable, "="),
            variable, meant);
}

/* Group members may read it: a service's group, or Kubernetes' fsGroup, is given that on purpose. */
static bool others_may_read(const char *path)
{
    struct stat st;
    return path != NULL && stat(path, &st) == 0 && (st.st_mode & S_IROTH) != 0;
}

void config_each_open_secret(const struct config *config, void (*fn)(const char *path, void *user), void *user)
{
    const char *const files[] = {config->upstream_password_file, config->upstream_token_file, config->upstream_key,
                                 config->upstream_token_key, config->ticket_key_file};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (others_may_read(files[i]))
            fn(files[i], user);
    for (size_t i = 0; i < config->n_listen; i++)
        if (others_may_read(config->listen[i].key))
            fn(config->listen[i].key, user);
}

static void warn_secret(const char *path, void *user)
{
    fprintf(user, "warning: %s: every user of this machine may read this secret: chmod o-r it\n", path);
}

void config_warn(const struct config_draft *draft, FILE *out)
{
    config_each_open_secret(draft->config, warn_secret, out);
    const struct config *config = draft->config;
    warn_upstream(config, out);
    warn_open(&config->admin, out);
    for (size_t i = 0; i < config->n_listen; i++)
        warn_open(&config->listen[i].endpoint, out);
    if (config->n_scope > 0)
        fputs("warning: with a scope upstream must be etcd 3.4.31, 3.5.13 or newer: older ones tell progress wrongly\n",
              out);
    for (char **at = environ; *at != NULL; at++)
        warn_variable(*at, out);
}

/* ---- what a start would need of this machine ---- */

/* Tells a fault. Missing memory is not one: the configuration may be right. */
static enum belfry_err judge(const struct config_draft *draft, enum config_key key, enum belfry_err err,
                             const char *why)
{
    if (err == BELFRY_OK || err == BELFRY_ERR_NOMEM)
        return err;
    return config_draft_wrong(draft, &config_rows[key], draft->origin[key], "%s", why);
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
    if (!upstream_has_tls(config))
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

static enum belfry_err try_kube(const struct config_draft *draft)
{
    struct kube_upstream upstream;
    char why[CONFIG_WHY] = "";
    if (draft->config->upstream_kube == NULL)
        return BELFRY_OK;
    enum belfry_err err = kube_upstream_read(draft->config, &upstream, why, sizeof(why));
    if (err == BELFRY_OK)
        kube_upstream_fini(&upstream);
    return judge(draft, KEY_UPSTREAM_KUBE, err, why);
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

static enum belfry_err try_token_key(const struct config_draft *draft)
{
    const struct config *config = draft->config;
    struct mint *mint = NULL;
    char why[MINT_WHY];
    if (config->upstream_token_key == NULL)
        return BELFRY_OK;
    enum belfry_err err = mint_create(config->upstream_token_key, config->upstream_token_method, &mint, why);
    if (err == BELFRY_OK)
        mint_destroy(mint);
    return judge(draft, KEY_UPSTREAM_TOKEN_KEY, err, why);
}

static enum belfry_err try_listener_tls(const struct config_draft *draft, const struct config_listen *listen)
{
    struct belfry_tls *tls = NULL;
    char why[CONFIG_WHY] = "";
    if (!listen->endpoint.tls)
        return BELFRY_OK;
    struct belfry_tls_server_opts opts = config_listen_tls(listen);
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
    if (draft->config->cache_dir == NULL)
        return BELFRY_OK; /* told */
    enum belfry_err err = folder_try(draft->config->cache_dir, why, sizeof(why));
    return judge(draft, KEY_CACHE_DIR, err, why);
}

/* The trials go on after a fault, so that one run tells all of them. What is wrong already is not tried. */
static void keep_first(enum belfry_err *err, enum belfry_err next)
{
    if (*err == BELFRY_OK || next == BELFRY_ERR_NOMEM)
        *err = next;
}

enum belfry_err config_try(const struct config_draft *draft, FILE *out)
{
    static const struct {
        enum config_key key;
        enum belfry_err (*trial)(const struct config_draft *draft);
    } trials[] = {{KEY_UPSTREAM, try_upstream_tls},
                  {KEY_UPSTREAM_KUBE, try_kube},
                  {KEY_UPSTREAM_PASSWORD_FILE, try_password},
                  {KEY_UPSTREAM_TOKEN_KEY, try_token_key},
                  {KEY_CACHE_DIR, try_cache_dir}};
    const struct config *config = draft->config;
    uint64_t wrong = draft->faults->keys;
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++)
        if ((wrong >> trials[i].key & 1) == 0)
            keep_first(&err, trials[i].trial(draft));
    for (size_t i = 0; i < config->n_listen && (wrong >> KEY_LISTEN & 1) == 0; i++) {
        keep_first(&err, try_listener_tls(draft, &config->listen[i]));
        keep_first(&err, try_address(draft, KEY_LISTEN, &config->listen[i].endpoint, out));
    }
    if ((wrong >> KEY_ADMIN & 1) == 0)
        keep_first(&err, try_address(draft, KEY_ADMIN, &config->admin, out));
    return err;
}
