/* src/daemon/config_table.c: every key. Flags, environment, file, --help and --print-config are made from this. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "daemon/config_private.h"
#include "daemon/nearest.h"

#define KIB 1024ull
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)

#define SECOND 1000ull /* in ms */
#define HOUR   (3600 * SECOND)

static_assert(sizeof(((struct config *)0)->max_streams) == sizeof(unsigned), "a count is an unsigned");
static_assert(sizeof(enum belfry_log_level) == sizeof(unsigned), "a choice is as wide as an unsigned");
static_assert(sizeof(enum config_format) == sizeof(unsigned), "a choice is as wide as an unsigned");

#define AT(field)       .offset = offsetof(struct config, field)
#define TEXT(field)     .kind = CONFIG_KIND_TEXT, AT(field)
#define SIZE(field)     .kind = CONFIG_KIND_SIZE, AT(field), .value_name = "SIZE"
#define MS(field)       .kind = CONFIG_KIND_MS, AT(field), .value_name = "TIME"
#define COUNT(field)    .kind = CONFIG_KIND_COUNT, AT(field), .value_name = "N"
#define RANGE(from, to) .least = (from), .most = (to)

/* clang-format off */
const struct config_row config_rows[N_CONFIG_ROWS] = {
    [KEY_UPSTREAM] = {"upstream", .kind = CONFIG_KIND_UPSTREAM, .value_name = "URL,...", .group = "Upstream",
        .fallback = "http://127.0.0.1:2379",
        .help = "etcd members, or belfryd above; may repeat"},
    [KEY_UPSTREAM_CACERT] = {"upstream-cacert", TEXT(upstream_cacert), .value_name = "FILE",
        .described = "the system's", .help = "trust upstreams signed by these authorities (PEM)"},
    [KEY_UPSTREAM_CERT] = {"upstream-cert", TEXT(upstream_cert), .value_name = "FILE",
        .help = "show this certificate to upstream (PEM)"},
    [KEY_UPSTREAM_KEY] = {"upstream-key", TEXT(upstream_key), .value_name = "FILE",
        .help = "the private key of --upstream-cert (PEM)"},
    [KEY_UPSTREAM_SERVER_NAME] = {"upstream-server-name", TEXT(upstream_server_name), .value_name = "NAME",
        .help = "the name upstream's certificate must carry, if not the host"},
    [KEY_UPSTREAM_USER] = {"upstream-user", TEXT(upstream_user), .value_name = "NAME",
        .help = "log in to upstream; needs --upstream-password-file"},
    [KEY_UPSTREAM_PASSWORD_FILE] = {"upstream-password-file", TEXT(upstream_password_file), .value_name = "FILE",
        .help = "the file whose first line is the password"},

    [KEY_LISTEN] = {"listen", .kind = CONFIG_KIND_LISTEN, .value_name = "URL[,OPTION...]", .group = "Clients",
        .fallback = "http://127.0.0.1:23790", .help = "serve clients here; may repeat; options are below"},
    [KEY_INSECURE_LISTEN] = {"insecure-listen", .kind = CONFIG_KIND_BOOL, AT(insecure_listen), .fallback = "false",
        .help = "allow plain HTTP on addresses that are not loopback"},
    [KEY_ADMIN] = {"admin", .kind = CONFIG_KIND_ADMIN, AT(admin), .value_name = "URL",
        .fallback = "http://127.0.0.1:23791", .help = "health, metrics and what operators look at"},
    [KEY_ADVERTISE] = {"advertise", TEXT(advertise), .value_name = "URL",
        .described = "--listen, if one address", .help = "the address at which clients reach this tier"},
    [KEY_ALLOWED_HOSTS] = {"allowed-hosts", .kind = CONFIG_KIND_HOSTS, .value_name = "NAME,...",
        .help = "other names by which plain HTTP may ask; * for all; may repeat"},
    [KEY_NAME] = {"name", TEXT(name), .value_name = "NAME", .described = "the host name",
        .help = "what this tier is called in logs and by the tiers below"},
    [KEY_RESOURCES] = {"resources", .kind = CONFIG_KIND_RESOURCES, .value_name = "FILE[,OPTION...]",
        .help = "serve these CustomResourceDefinitions to kubectl and its like; may repeat"},

    [KEY_CACHE_DIR] = {"cache-dir", TEXT(cache_dir), .value_name = "DIR", .group = "Replica",
        .described = "$CACHE_DIRECTORY, else ~/.cache/belfry",
        .help = "where the replica is kept"},
    [KEY_SCOPE] = {"scope", .kind = CONFIG_KIND_SCOPE, .value_name = "PREFIX", .described = "everything",
        .help = "follow only keys that begin with this"},
    [KEY_LOG_BYTES] = {"log-bytes", SIZE(log_bytes), RANGE(MIB, TIB), .fallback = "256MiB",
        .help = "changes kept in memory, which watchers are served from"},
    [KEY_HISTORY_BYTES] = {"history-bytes", SIZE(history_bytes), RANGE(MIB, 64 * TIB), .fallback = "1GiB",
        .help = "changes kept on disk, for watchers that start in the past"},
    [KEY_HISTORY_AGE] = {"history-age", .kind = CONFIG_KIND_SECONDS, AT(history_age_s), .value_name = "TIME",
        RANGE(1, 87600 * 3600ull), .fallback = "1h", .help = "changes older than this leave the disk"},

    [KEY_MEMORY_BYTES] = {"memory-bytes", SIZE(memory_bytes), RANGE(0, 64 * TIB), .group = "Limits", .fallback = "0",
        .described = "0: 75 % of what there is",
        .help = "the bound for log, buffers and connections"},
    [KEY_MAX_STREAMS] = {"max-streams", COUNT(max_streams), RANGE(0, UINT32_MAX), .fallback = "10000",
        .help = "streams of one connection at once; more are refused; 0: no limit"},
    [KEY_WORKERS] = {"workers", COUNT(workers), RANGE(0, 256), .fallback = "0",
        .described = "0: CPUs that affinity and cgroup allow", .help = "threads that serve clients"},
    [KEY_READY_LAG] = {"ready-lag", MS(ready_lag_ms), RANGE(2000, 24 * HOUR), .fallback = "5s",
        .help = "behind upstream by more than this is not ready"},
    [KEY_DRAIN] = {"drain", MS(drain_ms), RANGE(0, HOUR), .fallback = "30s",
        .help = "on SIGTERM clients are sent away over this time"},
    [KEY_PROGRESS_INTERVAL] = {"progress-interval", MS(progress_ms), RANGE(100, 24 * HOUR), .fallback = "10m",
        .help = "how often idle watchers hear how far they are"},

    [KEY_LOG_LEVEL] = {"log-level", .kind = CONFIG_KIND_CHOICE, AT(log_level), .group = "Log", .value_name = "LEVEL",
        .choices = "error|warn|info|debug", .fallback = "info", .help = "error, warn, info or debug"},
    [KEY_LOG_FORMAT] = {"log-format", .kind = CONFIG_KIND_CHOICE, AT(log_format), .value_name = "FORM",
        .choices = "logfmt|json", .fallback = "logfmt", .help = "logfmt or json, on standard error"},

    [KEY_CONFIG] = {"config", .kind = CONFIG_KIND_ACTION, .value_name = "FILE", .group = "This program",
        .help = "read settings from this file (YAML; its keys are the flags' names)"},
    [KEY_CHECK_CONFIG] = {"check-config", .kind = CONFIG_KIND_ACTION,
        .help = "validate all settings, and try the files and addresses they name; exit"},
    [KEY_PRINT_CONFIG] = {"print-config", .kind = CONFIG_KIND_ACTION,
        .help = "print every setting, and where it came from, as YAML, and end"},
    [KEY_VERSION] = {"version", .kind = CONFIG_KIND_ACTION, .help = "print the version, and end"},
    [KEY_HELP] = {"help", .kind = CONFIG_KIND_ACTION, .help = "this text"},
};
/* clang-format on */

const struct config_row *config_row_named(const char *name, size_t len, const char **nearest)
{
    char word[NEAREST_MAX + 2];
    *nearest = NULL;
    for (enum config_key key = 0; key < N_CONFIG_ROWS; key++)
        if (strlen(config_rows[key].name) == len && memcmp(config_rows[key].name, name, len) == 0)
            return &config_rows[key];
    if (len >= sizeof(word))
        return NULL;
    memcpy(word, name, len);
    word[len] = '\0';
    for (enum config_key key = 0; key < N_CONFIG_ROWS; key++)
        nearest_consider(word, config_rows[key].name, nearest);
    return NULL;
}

void config_env_name(const struct config_row *row, char out[CONFIG_ENV_NAME])
{
    size_t n = strlen(CONFIG_ENV);
    memcpy(out, CONFIG_ENV, n);
    for (const char *at = row->name; *at != '\0'; at++)
        out[n++] = (char)(*at == '-' ? '_' : *at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
    out[n] = '\0';
}

bool config_row_is_list(const struct config_row *row)
{
    return row->kind == CONFIG_KIND_UPSTREAM || row->kind == CONFIG_KIND_LISTEN || row->kind == CONFIG_KIND_SCOPE ||
           row->kind == CONFIG_KIND_HOSTS || row->kind == CONFIG_KIND_RESOURCES;
}
