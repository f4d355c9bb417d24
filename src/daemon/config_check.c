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

/* What must not be, and what to do about it. */
struct rule {
    bool is_broken;
    enum config_key key;
    const char *text;
};

/* Every rule that is broken; at a start the first of them. `about`: which address; NULL: the key says enough. */
static enum belfry_err tell_broken(const struct config_draft *draft, const char *about, const struct rule *rules,
                                   size_t n)
{
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < n && err == BELFRY_OK; i++)
        if (rules[i].is_broken)
            err = config_draft_go_on(draft, WRONG(draft, rules[i].key, "%s%s%s", about == NULL ? "" : about,
                                                  about == NULL ? "" : " ", rules[i].text));
    return err;
}

#define TELL_BROKEN(draft, about, rules) tell_broken(draft, about, rules, sizeof(rules) / sizeof((rules)[0]))

static enum belfry_err check_upstream(const struct config_draft *draft)
{
    const struct config *c = draft->config;
    const struct rule rules[] = {
        {c->n_upstream == 0 && c->upstream_kube == NULL && !is_unread(draft, KEY_UPSTREAM), KEY_UPSTREAM,
         "there is none: give at least one URL"},
        {c->upstream_cert != NULL && c->upstream_key == NULL, KEY_UPSTREAM_CERT,
         "its key is missing: give --upstream-key FILE too"},
        {c->upstream_key != NULL && c->upstream_cert == NULL, KEY_UPSTREAM_KEY,
         "its certificate is missing: give --upstream-cert FILE too"},
        {c->upstream_user != NULL && strchr(c->upstream_user, ':') != NULL, KEY_UPSTREAM_USER,
         "write the name alone; the password goes into --upstream-password-file"},
        {c->upstream_user != NULL && strchr(c->upstream_user, ':') == NULL && c->upstream_password_file == NULL,
         KEY_UPSTREAM_USER, "its password is missing: give --upstream-password-file FILE too"},
        {c->upstream_password_file != NULL && c->upstream_user == NULL, KEY_UPSTREAM_PASSWORD_FILE,
         "whose password? Give --upstream-user NAME too"}};
    return TELL_BROKEN(draft, NULL, rules);
}

#define FOR_ETCD "it is for a tier in front of etcd, and this one has --upstream-kube: leave it out"

static enum belfry_err check_kube(const struct config_draft *draft)
{
    const struct config *c = draft->config;
    bool is_kube = c->upstream_kube != NULL;
    if (is_kube && draft->origin[KEY_UPSTREAM].source == CONFIG_FROM_DEFAULT)
        config_drop(draft->config, KEY_UPSTREAM);
    const struct rule rules[] = {
        {!is_kube && c->n_follow > 0, KEY_FOLLOW, "of which API server? Give --upstream-kube WHERE too"},
        {!is_kube && c->upstream_token_file != NULL, KEY_UPSTREAM_TOKEN_FILE,
         "it is for the URLs of --upstream-kube: give that too"},
        {is_kube && c->n_upstream > 0, KEY_UPSTREAM,
         "upstream is etcd or, with --upstream-kube, an API server: keep one"},
        {is_kube && c->n_follow == 0 && !is_unread(draft, KEY_FOLLOW), KEY_UPSTREAM_KUBE,
         "which resources? Give --follow RESOURCE,... too"},
        {is_kube && c->upstream_cert != NULL, KEY_UPSTREAM_CERT, FOR_ETCD},
        {is_kube && c->upstream_key != NULL, KEY_UPSTREAM_KEY, FOR_ETCD},
        {is_kube && c->upstream_user != NULL, KEY_UPSTREAM_USER, FOR_ETCD},
        {is_kube && c->upstream_password_file != NULL, KEY_UPSTREAM_PASSWORD_FILE, FOR_ETCD},
        {is_kube && c->upstream_token_key != NULL, KEY_UPSTREAM_TOKEN_KEY, FOR_ETCD},
        {is_kube && c->pass_users, KEY_PASS_USERS, FOR_ETCD},
        {is_kube && c->resources.n > 0, KEY_RESOURCES, FOR_ETCD},
        {is_kube && c->n_scope > 0, KEY_SCOPE, FOR_ETCD},
        {is_kube && c->admin_tail, KEY_ADMIN_TAIL, FOR_ETCD}};
    return TELL_BROKEN(draft, NULL, rules);
}

/* In front of Kubernetes every client is asked about, whatever the listener. */
static enum belfry_err check_kube_listen(const struct config_draft *draft, const struct config_listen *listen)
{
    const struct listen_policy *policy = &listen->policy;
    const struct rule rules[] = {
        {policy->rights == LISTEN_RIGHTS_OPEN || policy->open_writes, KEY_LISTEN,
         "has rights=open, but with --upstream-kube the API server decides what each client may do: leave it out"},
        {(policy->dialects & DIALECT_KUBE) == 0, KEY_LISTEN,
         "does not serve kube, and with --upstream-kube there is nothing else"}};
    return TELL_BROKEN(draft, listen->endpoint.url, rules);
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
    const struct config *c = draft->config;
    bool has_key = c->upstream_token_key != NULL, has_both = has_key && c->pass_users;
    const struct rule rules[] = {
        {has_both, KEY_PASS_USERS,
         "this tier has --upstream-token-key: keep that next to etcd, and --pass-users on tiers below"},
        {c->upstream_token_method != NULL && !has_key, KEY_UPSTREAM_TOKEN_METHOD,
         "the key is missing: give --upstream-token-key FILE too"},
        {c->allow_root && !has_key, KEY_ALLOW_ROOT,
         "it is for a tier with --upstream-token-key: give that, or take this out"},
        {has_key && c->upstream_user == NULL, KEY_UPSTREAM_TOKEN_KEY,
         "a token needs the revision of etcd's auth store, which the tier learns by logging in: give "
         "--upstream-user NAME and --upstream-password-file FILE too"},
        {(has_key || c->pass_users) && !asks_for_certificates(c), has_key ? KEY_UPSTREAM_TOKEN_KEY : KEY_PASS_USERS,
         "no listener asks clients for certificates: add client-ca=FILE to one"}};
    enum belfry_err err = TELL_BROKEN(draft, NULL, rules);
    for (size_t i = 0; i < c->n_upstream && c->pass_users && !has_both && err == BELFRY_OK; i++)
        if (!c->upstream[i].tls || c->upstream_cert == NULL)
            err = config_draft_go_on(draft, WRONG(draft, KEY_PASS_USERS,
                                                  "the tier above believes a certificate only: use https for %s, and "
                                                  "give --upstream-cert FILE",
                                                  c->upstream[i].url));
    return err;
}

#define NO_CERTIFICATE(name) "asks for no certificate, so " name " does nothing: add client-ca=FILE"

static enum belfry_err check_tls(const struct config_draft *draft, const struct config_listen *listen)
{
    const struct listen_policy *policy = &listen->policy;
    bool is_tls = listen->endpoint.tls, is_unix = listen->endpoint.is_unix;
    bool has_files = listen->cert != NULL || listen->key != NULL || listen->client_ca != NULL;
    bool has_users = draft->config->upstream_token_key != NULL || draft->config->pass_users;
    const struct rule rules[] = {
        {is_tls && (listen->cert == NULL || listen->key == NULL), KEY_LISTEN,
         "needs a certificate and its key: add ,cert=FILE,key=FILE"},
        {!is_tls && has_files && is_unix, KEY_LISTEN,
         "has no TLS, so cert, key and client-ca do nothing: write unixs://"},
        {!is_tls && has_files && !is_unix, KEY_LISTEN,
         "has no TLS, so cert, key and client-ca do nothing: write https://"},
        {listen->client_ca == NULL && listen->crl != NULL, KEY_LISTEN, NO_CERTIFICATE("crl")},
        {listen->client_ca == NULL && listen->user != BELFRY_TLS_NAME_CN, KEY_LISTEN, NO_CERTIFICATE("user")},
        {listen->client_ca == NULL && policy->tiers.n > 0, KEY_LISTEN, NO_CERTIFICATE("tiers")},
        {listen->client_ca == NULL && policy->users_from.n > 0, KEY_LISTEN, NO_CERTIFICATE("users-from")},
        {policy->users_from.n > 0 && !has_users, KEY_LISTEN,
         "has users-from, and this tier can tell upstream no user: give --upstream-token-key FILE if upstream is "
         "etcd, or --pass-users if it is belfryd"}};
    return TELL_BROKEN(draft, listen->endpoint.url, rules);
}

/* What the tier shows upstream to get access; NULL: nothing. A certificate without a common name opens a TLS port, too.
 */
static const char *credentials_of(const struct config *config)
{
    if (config->upstream_user != NULL)
        return "upstream-user";
    return config->upstream_cert != NULL && upstream_has_tls(config) ? "upstream-cert" : NULL;
}

static enum belfry_err check_reads(const struct config_draft *draft, const struct config_listen *listen)
{
    const struct listen_policy *policy = &listen->policy;
    const struct rule rules[] = {
        {policy->reads == LISTEN_READS_RELAY && policy->consistency == LISTEN_CONSISTENCY_SERIALIZABLE, KEY_LISTEN,
         "has reads=relay and consistency=serializable, but what is relayed is answered as it asks: keep one"}};
    return TELL_BROKEN(draft, listen->endpoint.url, rules);
}

/* Decision 0048: what upstream says at the moment does not count here, nor whether the address is loopback. */
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

static enum belfry_err check_listener(const struct config_draft *draft, const struct config_listen *listen)
{
    enum belfry_err err = check_tls(draft, listen);
    if (err == BELFRY_OK)
        err = config_draft_go_on(draft, check_open(draft, KEY_LISTEN, &listen->endpoint));
    if (err == BELFRY_OK)
        err = config_draft_go_on(draft, check_rights(draft, listen));
    if (err == BELFRY_OK)
        err = check_reads(draft, listen);
    return err;
}

static enum belfry_err check_listen(const struct config_draft *draft)
{
    const struct config *config = draft->config;
    enum belfry_err err = BELFRY_OK;
    if (config->n_listen == 0)
        err = WRONG(draft, KEY_LISTEN, "there is none: give at least one address");
    err = config_draft_go_on(draft, err);
    for (size_t i = 0; i < config->n_listen && err == BELFRY_OK; i++) {
        const char *url = config->listen[i].endpoint.url;
        if (listens_at(config, i, url))
            err = config_draft_go_on(draft, WRONG(draft, KEY_LISTEN, "%s is there twice: keep one", url));
        else
            err = check_listener(draft, &config->listen[i]);
    }
    if (err == BELFRY_OK && listens_at(config, config->n_listen, config->admin.url))
        return WRONG(draft, KEY_ADMIN, "%s is an address of --listen already: give it one of its own",
                     config->admin.url);
    return err == BELFRY_OK ? check_open(draft, KEY_ADMIN, &config->admin) : err;
}

/* The admin address knows no users. So its tail may show only what upstream shows to everyone. */
static enum belfry_err check_tail(const struct config_draft *draft)
{
    const struct config *config = draft->config;
    const char *credentials = credentials_of(config);
    enum belfry_err err = BELFRY_OK;
    if (!config->admin_tail || config->upstream_kube != NULL)
        return BELFRY_OK;
    if (!belfry_endpoint_is_loopback(&config->admin))
        err = WRONG(draft, KEY_ADMIN_TAIL,
                    "it would show keys and values to everyone who can reach %s: let --admin be loopback or unix",
                    config->admin.url);
    err = config_draft_go_on(draft, err);
    if (credentials != NULL && err == BELFRY_OK)
        err = WRONG(draft, KEY_ADMIN_TAIL,
                    "this tier has credentials for upstream (%s), and the tail would show what they can read to "
                    "everyone who can reach --admin: leave it off",
                    credentials);
    err = config_draft_go_on(draft, err);
    if (config_needs_auth(config) && err == BELFRY_OK)
        err = WRONG(draft, KEY_ADMIN_TAIL,
                    "a listener has rights=upstream, and the tail asks for no right: leave it off");
    return err;
}

/* A tier that follows itself would be ready for ever and know nothing. */
static enum belfry_err check_circle(const struct config_draft *draft)
{
    const struct config *config = draft->config;
    enum belfry_err err = BELFRY_OK;
    for (size_t i = 0; i < config->n_upstream && err == BELFRY_OK; i++) {
        const char *url = config->upstream[i].url;
        if (listens_at(config, config->n_listen, url) || strcmp(url, config->admin.url) == 0)
            err = config_draft_go_on(
                draft, WRONG(draft, KEY_UPSTREAM, "%s is this belfryd's own address: name what it should follow", url));
    }
    return err;
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
    const struct config *c = draft->config;
    struct belfry_endpoint ignored;
    char why[CONFIG_WHY] = "";
    bool has_place = c->advertise == NULL ||
                     belfry_endpoint_parse(c->advertise, strlen(c->advertise), &ignored, why, sizeof(why)) == BELFRY_OK;
    const struct rule rules[] = {
        {c->name == NULL || strlen(c->name) > 253 || !is_printable(c->name), KEY_NAME,
         "a name has 1 to 253 printable characters"},
        {c->cache_dir == NULL, KEY_CACHE_DIR, "there is no home to keep it in: give --cache-dir DIR"},
        {!has_place, KEY_ADVERTISE, why}};
    return TELL_BROKEN(draft, NULL, rules);
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
