/* src/daemon/config_table.h: every setting of belfryd, in one table (opt/options.h). Thread: any. */
#ifndef BELFRY_DAEMON_CONFIG_TABLE_H
#define BELFRY_DAEMON_CONFIG_TABLE_H

#include "opt/options.h"
#include "serve/route.h"

/* What this version can serve: the default of a listener, and all that one may ask for. */
#define CONFIG_DIALECTS (DIALECT_GRPC | DIALECT_JSON | DIALECT_KUBE | DIALECT_SSE)

/* The id of each row, which is its place. */
enum config_key {
    KEY_UPSTREAM,
    KEY_UPSTREAM_CACERT,
    KEY_UPSTREAM_CERT,
    KEY_UPSTREAM_KEY,
    KEY_UPSTREAM_SERVER_NAME,
    KEY_UPSTREAM_USER,
    KEY_UPSTREAM_PASSWORD_FILE,
    KEY_UPSTREAM_TOKEN_KEY,
    KEY_UPSTREAM_TOKEN_METHOD,
    KEY_ALLOW_ROOT,
    KEY_PASS_USERS,
    KEY_UPSTREAM_KUBE,
    KEY_UPSTREAM_TOKEN_FILE,
    KEY_FOLLOW,
    KEY_RIGHTS_PERIOD,
    KEY_LISTEN,
    KEY_INSECURE_LISTEN,
    KEY_ADMIN,
    KEY_ADMIN_TAIL,
    KEY_ADVERTISE,
    KEY_ALLOWED_HOSTS,
    KEY_CORS_ORIGINS,
    KEY_TICKET_KEY_FILE,
    KEY_TICKET_TIME,
    KEY_NAME,
    KEY_RESOURCES,
    KEY_CACHE_DIR,
    KEY_SCOPE,
    KEY_LOG_BYTES,
    KEY_HISTORY_BYTES,
    KEY_HISTORY_AGE,
    KEY_MEMORY_BYTES,
    KEY_MAX_STREAMS,
    KEY_MAX_CONNECTIONS,
    KEY_MAX_WATCHERS,
    KEY_MAX_CALLS,
    KEY_CLIENT_SHARE,
    KEY_TIER_SHARE,
    KEY_GREET_TIME,
    KEY_MESSAGE_TIME,
    KEY_UNREAD_TIME,
    KEY_IDLE_TIME,
    KEY_WORKERS,
    KEY_READY_LAG,
    KEY_DRAIN,
    KEY_PROGRESS_INTERVAL,
    KEY_HARDEN,
    KEY_LOG_LEVEL,
    KEY_LOG_FORMAT,
    N_CONFIG_KEYS, /* the rest are of the command line alone, and not in struct config */
    KEY_CONFIG = N_CONFIG_KEYS,
    KEY_CHECK_CONFIG,
    KEY_PRINT_CONFIG,
    KEY_VERSION,
    KEY_HELP,
    N_CONFIG_ROWS
};

/* The settings of a listener and of a resource, in the order of their rows; see opt/options.h, parts. */
enum listen_part {
    LISTEN_URL,
    LISTEN_SERVE,
    LISTEN_READ_ONLY,
    LISTEN_READS,
    LISTEN_CONSISTENCY,
    LISTEN_CERT,
    LISTEN_KEY,
    LISTEN_CLIENT_CA,
    LISTEN_CRL,
    LISTEN_USER,
    LISTEN_RIGHTS,
    LISTEN_TIERS,
    LISTEN_USERS_FROM,
    LISTEN_PROXY_FROM,
    N_LISTEN_PARTS
};
enum resource_part { RESOURCE_CRD, RESOURCE_UNDER, RESOURCE_PREFIX, RESOURCE_WRAP, RESOURCE_KEY, N_RESOURCE_PARTS };

extern const struct belfry_opt_table config_table;
extern const struct belfry_opt_row config_rows[N_CONFIG_ROWS];
extern const struct belfry_opt_row config_listen_rows[N_LISTEN_PARTS];
extern const struct belfry_opt_row config_resource_rows[N_RESOURCE_PARTS];

static inline bool config_row_is_list(const struct belfry_opt_row *row)
{
    return row->kind == BELFRY_KIND_LIST || row->kind == BELFRY_KIND_WORDS;
}

#endif
