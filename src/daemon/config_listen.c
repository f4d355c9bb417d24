/* src/daemon/config_listen.c */
#include "daemon/config_listen.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config_table.h"

static const struct {
    const char *name;
    enum dialect dialect;
} dialects[] = {{"grpc", DIALECT_GRPC}, {"json", DIALECT_JSON}, {"kube", DIALECT_KUBE}, {"sse", DIALECT_SSE}};
#define N_DIALECTS (sizeof(dialects) / sizeof(dialects[0]))

enum belfry_err config_why(char why[CONFIG_WHY], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, CONFIG_WHY, format, args);
    va_end(args);
    return BELFRY_ERR_INVALID;
}

void config_listen_fini(struct config_listen *listen)
{
    free(listen->cert);
    free(listen->key);
    free(listen->client_ca);
    free(listen->crl);
    free(listen->tiers.text);
    free(listen->tiers.list);
    free(listen->users_from.text);
    free(listen->users_from.list);
    free(listen->proxies);
    *listen = (struct config_listen){0};
}

void config_listen_dialects(unsigned served, const char *separator, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < N_DIALECTS; i++)
        if ((served & dialects[i].dialect) != 0 && n < size)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n > 0 ? separator : "", dialects[i].name);
}

static enum belfry_err add_dialect(const char *name, size_t len, unsigned *out, char why[CONFIG_WHY])
{
    char today[64];
    size_t i = 0;
    while (i < N_DIALECTS && (strlen(dialects[i].name) != len || memcmp(dialects[i].name, name, len) != 0))
        i++;
    config_listen_dialects(CONFIG_DIALECTS, "+", today, sizeof(today));
    if (i == N_DIALECTS)
        return config_why(why, "'%.*s' is no dialect: use serve=%s", (int)(len < 64 ? len : 64), name, today);
    *out |= dialects[i].dialect;
    return BELFRY_OK;
}

static enum belfry_err set_dialects(const char *text, unsigned *out, char why[CONFIG_WHY])
{
    unsigned served = 0;
    while (true) {
        size_t len = strcspn(text, "+");
        enum belfry_err err = add_dialect(text, len, &served, why);
        if (err != BELFRY_OK)
            return err;
        if (text[len] == '\0')
            break;
        text += len + 1;
    }
    *out = served;
    return BELFRY_OK;
}

static enum belfry_err set_file(const char *name, const char *text, char **out, char why[CONFIG_WHY])
{
    if (*text == '\0')
        return config_why(why, "%s has no file: write %s=FILE", name, name);
    *out = strdup(text);
    return *out == NULL ? BELFRY_ERR_NOMEM : BELFRY_OK;
}

static enum belfry_err set_user(const char *text, enum belfry_tls_name *out, char why[CONFIG_WHY])
{
    static const char *const names[] = {
        [BELFRY_TLS_NAME_CN] = "cn", [BELFRY_TLS_NAME_URI] = "uri", [BELFRY_TLS_NAME_DNS] = "dns"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum belfry_tls_name)i;
            return BELFRY_OK;
        }
    }
    return config_why(why, "user: '%.64s' is no name of a certificate: use user=cn, user=uri or user=dns", text);
}

static const struct {
    const char *name;
    enum listen_rights rights;
    bool writes;
} rights_words[] = {{"upstream", LISTEN_RIGHTS_UPSTREAM, false},
                    {"open", LISTEN_RIGHTS_OPEN, false},
                    {"open+writes", LISTEN_RIGHTS_OPEN, true}};
#define N_RIGHTS_WORDS (sizeof(rights_words) / sizeof(rights_words[0]))

const char *config_listen_rights(const struct listen_policy *policy)
{
    for (size_t i = 0; i < N_RIGHTS_WORDS; i++)
        if (rights_words[i].rights == policy->rights && rights_words[i].writes == policy->open_writes)
            return rights_words[i].name;
    return NULL;
}

static enum belfry_err set_rights(const char *text, struct listen_policy *out, char why[CONFIG_WHY])
{
    for (size_t i = 0; i < N_RIGHTS_WORDS; i++) {
        if (strcmp(text, rights_words[i].name) == 0) {
            out->rights = rights_words[i].rights;
            out->open_writes = rights_words[i].writes;
            return BELFRY_OK;
        }
    }
    return config_why(why, "rights: '%.64s' is unknown: use rights=upstream, rights=open or rights=open+writes", text);
}

static enum belfry_err set_reads(const char *text, enum listen_reads *out, char why[CONFIG_WHY])
{
    bool relays = strcmp(text, "relay") == 0;
    if (!relays && strcmp(text, "replica") != 0)
        return config_why(why, "reads: '%.64s' is unknown: use reads=replica or reads=relay", text);
    *out = relays ? LISTEN_READS_RELAY : LISTEN_READS_REPLICA;
    return BELFRY_OK;
}

static enum belfry_err set_consistency(const char *text, enum listen_consistency *out, char why[CONFIG_WHY])
{
    bool is_serializable = strcmp(text, "serializable") == 0;
    if (!is_serializable && strcmp(text, "asked") != 0)
        return config_why(why, "consistency: '%.64s' is unknown: use consistency=asked or consistency=serializable",
                          text);
    *out = is_serializable ? LISTEN_CONSISTENCY_SERIALIZABLE : LISTEN_CONSISTENCY_ASKED;
    return BELFRY_OK;
}

/* NAME+NAME; `name` is the setting's. */
static enum belfry_err set_names(const char *name, const char *text, struct config_names *names,
                                 struct listen_names *out, char why[CONFIG_WHY])
{
    size_t n = 0;
    names->text = strdup(text);
    names->list = calloc(CONFIG_NAMES, sizeof(names->list[0]));
    if (names->text == NULL || names->list == NULL)
        return BELFRY_ERR_NOMEM;
    for (char *rest = names->text; rest != NULL; n++) {
        if (n == CONFIG_NAMES)
            return config_why(why, "%s has more than %d names", name, CONFIG_NAMES);
        names->list[n] = strsep(&rest, "+");
        if (names->list[n][0] == '\0')
            return config_why(why, "%s has an empty name: write %s=NAME or %s=NAME+NAME", name, name, name);
    }
    *out = (struct listen_names){names->list, n};
    return BELFRY_OK;
}

/* ADDRESS/BITS+ADDRESS/BITS */
static enum belfry_err set_proxy_from(struct config_listen *listen, const char *text, char why[CONFIG_WHY])
{
    char *words = strdup(text), *rest = words, reason[CONFIG_WHY - 16];
    size_t n = 0;
    enum belfry_err err = BELFRY_OK;
    listen->proxies = calloc(CONFIG_PROXY_FROM, sizeof(listen->proxies[0]));
    if (words == NULL || listen->proxies == NULL)
        err = BELFRY_ERR_NOMEM;
    for (; err == BELFRY_OK && rest != NULL; n++) {
        const char *word = strsep(&rest, "+");
        if (n == CONFIG_PROXY_FROM)
            err = config_why(why, "proxy-from has more than %d networks", CONFIG_PROXY_FROM);
        else if (client_network_parse(word, &listen->proxies[n], reason, sizeof(reason)) != BELFRY_OK)
            err = config_why(why, "proxy-from: %s", reason);
    }
    free(words);
    if (err == BELFRY_OK)
        listen->proxy_from = (struct client_networks){listen->proxies, n};
    return err;
}

/* The sockets are bound by address: a name could mean several, or another one tomorrow. */
static bool is_address(const struct belfry_endpoint *endpoint)
{
    char host[sizeof(endpoint->host)];
    struct in6_addr ignored;
    snprintf(host, sizeof(host), "%s", endpoint->host);
    host[strcspn(host, "%")] = '\0'; /* the zone of an IPv6 address */
    return endpoint->is_unix || strcmp(host, "localhost") == 0 || inet_pton(AF_INET, host, &ignored) == 1 ||
           inet_pton(AF_INET6, host, &ignored) == 1;
}

static enum belfry_err set_url(const char *text, struct belfry_endpoint *out, char why[CONFIG_WHY])
{
    enum belfry_err err = belfry_endpoint_parse(text, strlen(text), out, why, CONFIG_WHY);
    if (err != BELFRY_OK || is_address(out))
        return err;
    return config_why(why, "'%.128s' is a name: write an address, such as 127.0.0.1, 0.0.0.0 or [::], or localhost",
                      out->host);
}

enum belfry_err config_listen_set(struct config_listen *listen, unsigned *seen, const char *name, const char *text,
                                  char why[CONFIG_WHY])
{
    const char *nearest;
    const struct belfry_opt_row *row =
        belfry_opt_find(config_listen_rows, N_LISTEN_PARTS, name, strlen(name), &nearest);
    if (row == NULL && nearest != NULL)
        return config_why(why, "a listener has no '%.48s': did you mean %s?", name, nearest);
    if (row == NULL)
        return config_why(
            why,
            "a listener has no '%.48s': it has url, serve, read-only, reads, consistency, cert, key, client-ca, crl, "
            "user, rights, tiers, users-from and proxy-from",
            name);
    if ((*seen & 1u << row->id) != 0)
        return config_why(why, "%s is there twice: keep one", name);
    *seen |= 1u << row->id;
    switch ((enum listen_part)row->id) {
    case LISTEN_URL:
        return set_url(text, &listen->endpoint, why);
    case LISTEN_SERVE:
        return set_dialects(text, &listen->policy.dialects, why);
    case LISTEN_READ_ONLY:
        if (!belfry_value_bool(text, &listen->policy.read_only))
            return config_why(why, "read-only: '%.64s' is neither true nor false", text);
        return BELFRY_OK;
    case LISTEN_READS:
        return set_reads(text, &listen->policy.reads, why);
    case LISTEN_CONSISTENCY:
        return set_consistency(text, &listen->policy.consistency, why);
    case LISTEN_CERT:
        return set_file(name, text, &listen->cert, why);
    case LISTEN_KEY:
        return set_file(name, text, &listen->key, why);
    case LISTEN_CLIENT_CA:
        return set_file(name, text, &listen->client_ca, why);
    case LISTEN_CRL:
        return set_file(name, text, &listen->crl, why);
    case LISTEN_USER:
        return set_user(text, &listen->user, why);
    case LISTEN_RIGHTS:
        return set_rights(text, &listen->policy, why);
    case LISTEN_USERS_FROM:
        return set_names(name, text, &listen->users_from, &listen->policy.users_from, why);
    case LISTEN_TIERS:
        return set_names(name, text, &listen->tiers, &listen->policy.tiers, why);
    case LISTEN_PROXY_FROM:
        return set_proxy_from(listen, text, why);
    case N_LISTEN_PARTS:
        break;
    }
    return BELFRY_ERR_INVALID;
}

/* One of the words between commas: NAME=VALUE, or read-only alone. */
static enum belfry_err set_word(struct config_listen *listen, unsigned *seen, char *word, char why[CONFIG_WHY])
{
    char *value = strchr(word, '=');
    if (value != NULL)
        *value++ = '\0';
    else if (strcmp(word, config_listen_rows[LISTEN_READ_ONLY].name) != 0)
        return config_why(why, "'%.48s' is no option: write NAME=VALUE, or read-only", word);
    return config_listen_set(listen, seen, word, value == NULL ? "true" : value, why);
}

enum belfry_err config_listen_parse(const char *text, struct config_listen *listen, char why[CONFIG_WHY])
{
    unsigned seen = 0;
    char *words = strdup(text), *rest = words;
    *listen = (struct config_listen){.policy.dialects = CONFIG_DIALECTS};
    if (words == NULL)
        return BELFRY_ERR_NOMEM;
    enum belfry_err err =
        config_listen_set(listen, &seen, config_listen_rows[LISTEN_URL].name, strsep(&rest, ","), why);
    while (err == BELFRY_OK && rest != NULL)
        err = set_word(listen, &seen, strsep(&rest, ","), why);
    free(words);
    if (err != BELFRY_OK)
        config_listen_fini(listen);
    return err;
}
