/* src/daemon/config.h
 *
 * config: what belfryd was asked to do: flags, then environment (BELFRYD_...), then the file, then defaults. One
 * table has every key: its name, its kind, its default, its sentence for --help; flag, environment and file all read
 * it.
 *
 * An unknown flag or key is an error that names the nearest one; a value that makes no sense one that says what
 * would. Sizes take B, KiB, MiB, GiB (and K, M, G); durations ms, s, m, h.
 *
 * --listen URL[,serve=grpc+json+kube+sse][,read-only][,cert=FILE,key=FILE][,client-ca=FILE][,crl=FILE]
 * [,user=cn|uri|dns][,rights=upstream|open|open+writes][,tiers=NAME+...][,users-from=NAME+...]
 * [,proxy-from=ADDRESS/BITS+...]; in the
 * file a list of URLs or of maps with url and these keys. Plain HTTP on an address that is not loopback needs
 * --insecure-listen; the admin address likewise. A listener without client-ca needs rights if the tier has credentials
 * for upstream (docs/decisions/0048-the-deputy-rule.md).
 *
 * --resources FILE[,prefix=P][,wrap=FIELD][,key=TEMPLATE], or crds-under=PREFIX for FILE; in the file a list of
 * FILEs or of maps with crd or crds-under, prefix, and wrap: FIELD or {field: FIELD, key: TEMPLATE}.
 *
 * The file holds at most 1 MiB, a list at most 64 items, a value at most 4095 bytes; all text is UTF-8.
 *
 * Thread: any; fixed once loaded.
 */
#ifndef BELFRY_DAEMON_CONFIG_H
#define BELFRY_DAEMON_CONFIG_H

#include <stdio.h>

#include "base/log.h"
#include "net/endpoint.h"
#include "net/tls.h"
#include "serve/kube/definitions.h"
#include "serve/route.h"
#include "serve/sse/ticket_keys.h"
#include "server/client_address.h"

/* NAME+NAME */
struct config_names {
    char *text; /* the names, each with its end; owned */
    const char **list;
};

struct config_listen {
    struct belfry_endpoint endpoint;
    char *cert, *key, *client_ca, *crl;    /* NULL: none; https and unixs need cert and key */
    enum belfry_tls_name user;             /* with client_ca */
    struct config_names tiers, users_from; /* with client_ca: those of the policy */
    struct client_network *proxies;        /* owned: proxy_from's */
    struct client_networks proxy_from;     /* balancers whose connections begin with a head of the PROXY protocol */
    struct listen_policy policy;
};

/* Resources that are served as Kubernetes' API: their definitions, and where their objects are. */
enum config_format { CONFIG_LOGFMT, CONFIG_JSON };

struct config {
    struct belfry_endpoint *upstream;
    size_t n_upstream;
    char *upstream_cacert, *upstream_cert, *upstream_key, *upstream_server_name, *upstream_user,
        *upstream_password_file, *upstream_token_key, *upstream_token_method; /* NULL: none */
    char *upstream_kube, *upstream_token_file;                                /* NULL: upstream is etcd; none */
    char **follow; /* resources (kfollow/resource_name.h); with upstream_kube */
    size_t n_follow;
    bool pass_users, allow_root;
    struct config_listen *listen;
    size_t n_listen;
    struct belfry_endpoint admin;
    char *advertise, *name, *cache_dir; /* advertise NULL: none */
    char **allowed_hosts;               /* names, beside the tier's own, or "*" */
    size_t n_allowed_hosts;
    char **cors_origins; /* "https://app.example", as a browser sends them; n 0: other origins may read nothing */
    size_t n_cors_origins;
    char *ticket_key_file;          /* NULL: none */
    struct ticket_keys ticket_keys; /* what it says; n 0: there is no file */
    char **scope;                   /* prefixes; n_scope 0: everything; today at most 1 */
    size_t n_scope;
    struct definition_sources resources;
    struct definitions *definitions; /* what their files say (definitions.h); NULL: there are no resources */
    size_t log_bytes, history_bytes, memory_bytes; /* memory_bytes: the bound for everything accounted; 0: 75 % of what
                                                      service_limits() has */
    uint64_t ticket_time_s, history_age_s, ready_lag_ms, drain_ms, progress_ms, rights_period_ms;
    uint64_t greet_time_ms, message_time_ms, unread_time_ms, idle_time_ms; /* for which clients are waited for */
    unsigned workers;                                                      /* at least 1 */
    uint32_t max_streams;                                                  /* 0: no limit */
    uint32_t max_connections, max_watchers;                                /* 0: what there is room for */
    uint32_t max_calls;
    uint32_t client_share, tier_share; /* percent */
    bool insecure_listen, admin_tail, harden;
    enum belfry_log_level log_level;
    enum config_format log_format;
    uint64_t in_file; /* bits 1 << enum config_key: what the file says, and nothing above it overrides */
};

enum config_do { CONFIG_RUN, CONFIG_EXIT }; /* EXIT: --help, --version, --check-config or --print-config was done */

/* Reads everything. Prints what was asked for to `out`, mistakes (one line: the argument, and a remedy) to `err`.
 * On failure nothing is left to be freed; config_fini() copes with it all the same.
 * Errors: BELFRY_ERR_INVALID (usage or configuration: exit 2), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err config_load(int argc, char **argv, FILE *out, FILE *err, struct config *config,
                                             enum config_do *what);
void config_fini(struct config *config);

/* What a listener needs for TLS; lent. */
static inline struct belfry_tls_server_opts config_listen_tls(const struct config_listen *listen)
{
    return (struct belfry_tls_server_opts){.cert = listen->cert,
                                           .key = listen->key,
                                           .client_ca = listen->client_ca,
                                           .crl = listen->crl,
                                           .name = listen->user};
}

/* Is there a listener that serves only while upstream has auth on? */
static inline bool config_needs_auth(const struct config *config)
{
    for (size_t i = 0; i < config->n_listen; i++)
        if (config->listen[i].policy.rights == LISTEN_RIGHTS_UPSTREAM)
            return true;
    return false;
}

/* The effective values as YAML that config_load() reads back. */
void config_print(const struct config *config, FILE *out);

#endif
