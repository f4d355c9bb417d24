/* src/daemon/config_table.c */
#include "daemon/config_table.h"

#include "daemon/config.h"
#include "serve/rights/mint.h"

#define KIB 1024ull
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)

#define SECOND 1000ull /* in ms */
#define HOUR   (3600 * SECOND)

#define AT(field)       .offset = offsetof(struct config, field), .width = sizeof(((struct config *)0)->field)
#define TEXT(field)     .kind = BELFRY_KIND_TEXT, AT(field)
#define SIZE(field)     .kind = BELFRY_KIND_SIZE, AT(field), .value_name = "SIZE"
#define MS(field)       .kind = BELFRY_KIND_MS, AT(field), .value_name = "TIME"
#define COUNT(field)    .kind = BELFRY_KIND_COUNT, AT(field), .value_name = "N"
#define RANGE(from, to) .least = (from), .most = (to)

/* clang-format off */
const struct belfry_opt_row config_rows[N_CONFIG_ROWS] = {
    [KEY_UPSTREAM] = {KEY_UPSTREAM, "upstream", .kind = BELFRY_KIND_LIST, .value_name = "URL,...",
        .group = "Upstream",
        .fallback = "http://127.0.0.1:2379", .help = "etcd members, or belfryd above; may repeat",
        .more = "Each is http, https, unix or unixs; at most 64."},
    [KEY_UPSTREAM_CACERT] = {KEY_UPSTREAM_CACERT, "upstream-cacert", TEXT(upstream_cacert), .value_name = "FILE",
        .described = "the system's", .help = "trust upstreams signed by these authorities (PEM)"},
    [KEY_UPSTREAM_CERT] = {KEY_UPSTREAM_CERT, "upstream-cert", TEXT(upstream_cert), .value_name = "FILE",
        .help = "present this certificate to upstream (PEM)"},
    [KEY_UPSTREAM_KEY] = {KEY_UPSTREAM_KEY, "upstream-key", TEXT(upstream_key), .value_name = "FILE",
        .help = "the private key of --upstream-cert (PEM)"},
    [KEY_UPSTREAM_SERVER_NAME] = {KEY_UPSTREAM_SERVER_NAME, "upstream-server-name", TEXT(upstream_server_name),
        .value_name = "NAME",
        .help = "name in upstream's certificate, if it is not the host"},
    [KEY_UPSTREAM_USER] = {KEY_UPSTREAM_USER, "upstream-user", TEXT(upstream_user), .value_name = "NAME",
        .help = "log in to upstream; needs --upstream-password-file"},
    [KEY_UPSTREAM_PASSWORD_FILE] = {KEY_UPSTREAM_PASSWORD_FILE, "upstream-password-file",
        TEXT(upstream_password_file), .value_name = "FILE",
        .help = "file whose first line is the password"},
    [KEY_UPSTREAM_TOKEN_KEY] = {KEY_UPSTREAM_TOKEN_KEY, "upstream-token-key", TEXT(upstream_token_key),
        .value_name = "FILE",
        .help = "etcd's JWT key: sign tokens for users of client certificates",
        .more = "The private key (PEM) of etcd's --auth-token jwt. Clients with a certificate of client-ca\n"
                "then need no password: the name in the certificate is their user. It needs\n"
                "--upstream-user. Use it only on tiers next to etcd: the key can impersonate every user. The\n"
                "file must not be readable by other users of the machine."},
    [KEY_UPSTREAM_TOKEN_METHOD] = {KEY_UPSTREAM_TOKEN_METHOD, "upstream-token-method", TEXT(upstream_token_method),
        .value_name = "METHOD", .choices = MINT_METHODS, .described = "by the key",
        .help = "the sign-method of etcd's --auth-token",
        .more = "By default RS256 for an RSA key, EdDSA for an Ed25519 key, and for an EC key the one of\n"
                "its curve. With HS256, HS384 or HS512 the key is the bytes of the file."},
    [KEY_ALLOW_ROOT] = {KEY_ALLOW_ROOT, "allow-root", .kind = BELFRY_KIND_BOOL, AT(allow_root), .fallback = "false",
        .help = "allow client certificates for the user root",
        .more = "Otherwise such a certificate is rejected while auth is on."},
    [KEY_PASS_USERS] = {KEY_PASS_USERS, "pass-users", .kind = BELFRY_KIND_BOOL, AT(pass_users), .fallback = "false",
        .help = "forward users of client certificates to the belfryd above",
        .more = "For tiers that are not next to etcd. The listener above must name this tier's\n"
                "--upstream-cert in users-from."},
    [KEY_UPSTREAM_KUBE] = {KEY_UPSTREAM_KUBE, "upstream-kube", TEXT(upstream_kube), .value_name = "WHERE",
        .help = "follow resources of Kubernetes API servers instead of etcd",
        .more = "WHERE is in-cluster (the pod's service account), the path of a kubeconfig (its current\n"
                "context), or URLs of API servers separated by commas. The tier's token needs the right to\n"
                "read the followed resources and the ClusterRole system:auth-delegator. It needs --follow.\n"
                "Listeners then serve only the Kubernetes API. Requests for other resources are relayed with\n"
                "the client's own credential."},
    [KEY_UPSTREAM_TOKEN_FILE] = {KEY_UPSTREAM_TOKEN_FILE, "upstream-token-file", TEXT(upstream_token_file),
        .value_name = "FILE", .help = "the tier's token for the URLs of --upstream-kube",
        .more = "The file is read again when it changes."},
    [KEY_FOLLOW] = {KEY_FOLLOW, "follow", .kind = BELFRY_KIND_LIST, .value_name = "RESOURCE,...",
        .help = "resources of --upstream-kube to serve from this tier; may repeat",
        .more = "A resource is PLURAL of the core group, PLURAL.GROUP, or PLURAL.VERSION.GROUP: pods,\n"
                "endpointslices.discovery.k8s.io, widgets.v1.demo.example.com. At most 200. If the API server\n"
                "does not have a resource, the tier looks for it every 10 seconds and relays its requests\n"
                "until it exists."},
    [KEY_RIGHTS_PERIOD] = {KEY_RIGHTS_PERIOD, "rights-period", MS(rights_period_ms), RANGE(SECOND, HOUR),
        .fallback = "10s", .help = "end revoked rights within this time",
        .more = "With auth on, the tier checks each token with upstream this often. If upstream does not\n"
                "answer for this long, watches pause until it does. Tiers below need the same or more."},

    [KEY_LISTEN] = {KEY_LISTEN, "listen", .kind = BELFRY_KIND_WORDS, .value_name = "URL[,OPTION...]",
        .group = "Clients",
        .fallback = "http://127.0.0.1:23790", .help = "address for clients; may repeat; options are below",
        .more = "The host is an address or localhost; at most 64. In the file each item is a url, or a\n"
                "map. The options, which are the keys of the map:"},
    [KEY_INSECURE_LISTEN] = {KEY_INSECURE_LISTEN, "insecure-listen",
        .kind = BELFRY_KIND_BOOL, AT(insecure_listen), .fallback = "false",
        .help = "allow plain HTTP on addresses that are not loopback",
        .more = "Applies to --listen and --admin."},
    [KEY_ADMIN] = {KEY_ADMIN, "admin", .kind = BELFRY_KIND_TEXT, .value_name = "URL",
        .fallback = "http://127.0.0.1:23791", .help = "address for health, metrics and the operators' page",
        .more = "Plain HTTP or unix."},
    [KEY_ADMIN_TAIL] = {KEY_ADMIN_TAIL, "admin-tail", .kind = BELFRY_KIND_BOOL, AT(admin_tail), .fallback = "false",
        .help = "show changes of keys on the admin page",
        .more = "Everyone who reaches that address then sees keys and values. It must be loopback or unix,\n"
                "and the tier must have no credentials for upstream."},
    [KEY_ADVERTISE] = {KEY_ADVERTISE, "advertise", TEXT(advertise), .value_name = "URL",
        .described = "--listen, if one address", .help = "the address at which clients reach this tier",
        .more = "MemberList returns it, so that clients that sync their endpoints stay with this tier. The\n"
                "default is the address of --listen, if there is only one. There is no default for a\n"
                "listener on every address, on several, or with a certificate for another name: then the\n"
                "tier logs a warning, and MemberList returns the addresses of upstream."},
    [KEY_ALLOWED_HOSTS] = {KEY_ALLOWED_HOSTS, "allowed-hosts", .kind = BELFRY_KIND_LIST, .value_name = "NAME,...",
        .help = "further host names accepted in plain HTTP; * for all; may repeat",
        .more = "For plain HTTP other than gRPC, on client and admin addresses. IP addresses, localhost and\n"
                "the name in --advertise are always accepted. A request with another Host gets 421, which\n"
                "stops web pages that use a visitor's browser. SIGHUP applies a change in the file."},
    [KEY_CORS_ORIGINS] = {KEY_CORS_ORIGINS, "cors-origins", .kind = BELFRY_KIND_LIST, .value_name = "ORIGIN,...",
        .help = "serve web pages of these origins; they may also read /v1/events; may repeat",
        .more = "An origin is scheme://host or scheme://host:port, as a browser sends it: in lower case and\n"
                "without the default port. Pages that this tier serves itself need none. Without the option\n"
                "requests of other web pages get 403."},
    [KEY_TICKET_KEY_FILE] = {KEY_TICKET_KEY_FILE, "ticket-key-file", TEXT(ticket_key_file), .value_name = "FILE",
        .help = "keys that encrypt tickets for EventSource",
        .more = "One key per line, 32 bytes as base64 (openssl rand -base64 32) or hex, at most 4. The first\n"
                "encrypts tickets; all of them decrypt. Tiers with the same file accept each other's\n"
                "tickets. A ticket holds the client's credential: a stolen key reads it, and can impersonate\n"
                "any user of a certificate. The file must not be readable by other users of the machine.\n"
                "SIGHUP reads it again."},
    [KEY_TICKET_TIME] = {KEY_TICKET_TIME, "ticket-time", .kind = BELFRY_KIND_SECONDS, AT(ticket_time_s),
        .value_name = "TIME",
        RANGE(5, 3600), .fallback = "5m", .help = "a ticket expires after this time",
        .more = "A stream opened with a ticket receives the next one after 4/5 of this time."},
    [KEY_NAME] = {KEY_NAME, "name", TEXT(name), .value_name = "NAME", .described = "the host name",
        .help = "name of this tier in logs and for the tiers below",
        .more = "Stacked tiers need different names. A tier that finds its own name above itself, or that\n"
                "is the ninth in a row, logs the chain and stops using that endpoint of --upstream. If it\n"
                "has no other, it exits with 1. Other tiers see the first 64 bytes of the name."},
    [KEY_RESOURCES] = {KEY_RESOURCES, "resources", .kind = BELFRY_KIND_WORDS, .value_name = "FILE[,OPTION...]",
        .help = "serve these CustomResourceDefinitions to Kubernetes clients; may repeat",
        .more = "FILE may be a pattern. In the file each item is a FILE, or a map, in which wrap may\n"
                "itself be a map with field and key. The options, which are the keys of the map:"},

    [KEY_CACHE_DIR] = {KEY_CACHE_DIR, "cache-dir", TEXT(cache_dir), .value_name = "DIR", .group = "Replica",
        .described = "$CACHE_DIRECTORY, else ~/.cache/belfry", .help = "where the replica is kept",
        .more = "Created if missing, with its parent folders. It is a cache: safe to delete while belfryd is\n"
                "stopped."},
    [KEY_SCOPE] = {KEY_SCOPE, "scope", .kind = BELFRY_KIND_WORDS, .value_name = "PREFIX", .described = "everything",
        .help = "follow only keys that begin with this",
        .more = "One prefix. Upstream must then be etcd 3.4.31, 3.5.13 or newer."},
    [KEY_LOG_BYTES] = {KEY_LOG_BYTES, "log-bytes", SIZE(log_bytes), RANGE(MIB, TIB), .fallback = "256MiB",
        .help = "recent changes kept in memory for watchers", .more = "At least 1MiB."},
    [KEY_HISTORY_BYTES] = {KEY_HISTORY_BYTES, "history-bytes", SIZE(history_bytes), RANGE(MIB, 64 * TIB),
        .fallback = "1GiB",
        .help = "older changes kept on disk for watchers that start in the past", .more = "At least 1MiB."},
    [KEY_HISTORY_AGE] = {KEY_HISTORY_AGE, "history-age", .kind = BELFRY_KIND_SECONDS, AT(history_age_s),
        .value_name = "TIME",
        RANGE(1, 87600 * 3600ull), .fallback = "1h", .help = "delete changes on disk after this time",
        .more = "In whole seconds."},

    [KEY_MEMORY_BYTES] = {KEY_MEMORY_BYTES, "memory-bytes", SIZE(memory_bytes), RANGE(0, 64 * TIB),
        .group = "Limits", .fallback = "0",
        .described = "0: 75 % of the machine's", .help = "limit for log, watches, lists, buffers, connections",
        .more = "It must be more than --log-bytes. A control group's limit counts as the machine's memory."},
    [KEY_MAX_STREAMS] = {KEY_MAX_STREAMS, "max-streams", COUNT(max_streams), RANGE(0, UINT32_MAX),
        .fallback = "10000",
        .help = "concurrent streams per connection; 0: no limit",
        .more = "Further streams are rejected; a connection that ignores the limit is closed."},
    [KEY_MAX_CONNECTIONS] = {KEY_MAX_CONNECTIONS, "max-connections", COUNT(max_connections), RANGE(0, UINT32_MAX),
        .fallback = "0", .described = "0: by descriptors", .help = "connections of all clients",
        .more = "File descriptors bound it (LimitNOFILE, ulimit -n). Like every limit of all clients, it is\n"
                "divided among the workers."},
    [KEY_MAX_WATCHERS] = {KEY_MAX_WATCHERS, "max-watchers", COUNT(max_watchers), RANGE(0, UINT32_MAX),
        .fallback = "0", .described = "0: by memory", .help = "watchers of all clients",
        .more = "By default one for every 512 bytes of --memory-bytes. A watch beyond it is created and\n"
                "cancelled immediately with the reason; Kubernetes clients get 429."},
    [KEY_MAX_CALLS] = {KEY_MAX_CALLS, "max-calls", COUNT(max_calls), RANGE(1, UINT32_MAX), .fallback = "20000",
        .help = "relayed calls of all clients; each is a stream at upstream",
        .more = "Lease keep-alives and elections are long calls. A call beyond the limit gets status 8."},
    [KEY_CLIENT_SHARE] = {KEY_CLIENT_SHARE, "client-share", .kind = BELFRY_KIND_COUNT, AT(client_share),
        RANGE(1, 100), .fallback = "50",
        .value_name = "PERCENT", .help = "largest share of each limit that one client may hold; 100: no limit",
        .more = "A client is the user of a certificate, otherwise an address (IPv6: the first 64 bits). With\n"
                "50 a client may hold as much as is free, so others always find room. When a pool is full,\n"
                "the tier closes a connection of the client that holds most of it."},
    [KEY_TIER_SHARE] = {KEY_TIER_SHARE, "tier-share", .kind = BELFRY_KIND_COUNT, AT(tier_share),
        RANGE(1, 100), .fallback = "90",
        .value_name = "PERCENT", .help = "the same for a belfryd below, because it serves many clients",
        .more = "The listener names the certificates of such tiers in tiers or users-from."},
    [KEY_GREET_TIME] = {KEY_GREET_TIME, "greet-time", MS(greet_time_ms), RANGE(100, HOUR), .fallback = "10s",
        .help = "close connections that do not finish a handshake or head in this time",
        .more = "For a TLS handshake, for the first bytes, and for the head of a request that has begun. From\n"
                "100ms to 1h."},
    [KEY_MESSAGE_TIME] = {KEY_MESSAGE_TIME, "message-time", MS(message_time_ms), RANGE(100, HOUR), .fallback = "10s",
        .help = "end calls whose message is incomplete after this time",
        .more = "The time starts with the head of a call that has one message, otherwise with the first byte\n"
                "of a message. Each 64KiB received restarts it. Streams that wait between messages\n"
                "(keep-alives, watches before their first request) have no limit. From 100ms to 1h."},
    [KEY_UNREAD_TIME] = {KEY_UNREAD_TIME, "unread-time", MS(unread_time_ms), RANGE(SECOND, HOUR), .fallback = "1m",
        .help = "end clients that take under 64KiB in this time while memory is short",
        .more = "No limit while there is enough memory. From 1s to 1h."},
    [KEY_IDLE_TIME] = {KEY_IDLE_TIME, "idle-time", MS(idle_time_ms), RANGE(SECOND, 24 * HOUR), .fallback = "5m",
        .help = "close idle HTTP/1.1 connections after this; HTTP/2 if they are short",
        .more = "Idle: without a request. HTTP/2 connections are closed only while more than half of\n"
                "--max-connections are open, the longest idle first. From 1s to 24h."},
    [KEY_WORKERS] = {KEY_WORKERS, "workers", COUNT(workers), RANGE(0, 256), .fallback = "0",
        .described = "0: CPUs that affinity and cgroup allow", .help = "threads that serve clients",
        .more = "At most 256."},
    [KEY_READY_LAG] = {KEY_READY_LAG, "ready-lag", MS(ready_lag_ms), RANGE(2000, 24 * HOUR), .fallback = "5s",
        .help = "report not ready when lagging upstream by more than this",
        .more = "From 2s to 24h: the tier asks an idle upstream once per second."},
    [KEY_DRAIN] = {KEY_DRAIN, "drain", MS(drain_ms), RANGE(0, HOUR), .fallback = "30s",
        .help = "disconnect clients over this time after SIGTERM",
        .more = "New clients are served until then. At most 1h."},
    [KEY_PROGRESS_INTERVAL] = {KEY_PROGRESS_INTERVAL, "progress-interval", MS(progress_ms), RANGE(100, 24 * HOUR),
        .fallback = "10m",
        .help = "send progress to idle watchers this often",
        .more = "For watchers with progress_notify. From 100ms to 24h."},

    [KEY_HARDEN] = {KEY_HARDEN, "harden", .kind = BELFRY_KIND_BOOL, AT(harden), .group = "Process",
        .fallback = "true", .help = "drop unneeded kernel access; =false disables",
        .more = "belfryd then cannot execute files, inspect other processes, mount, or open raw sockets. Other\n"
                "processes of the same user cannot read its memory, and it writes no core file. Debuggers,\n"
                "profilers and valgrind need --harden=false."},

    [KEY_LOG_LEVEL] = {KEY_LOG_LEVEL, "log-level", .kind = BELFRY_KIND_CHOICE, AT(log_level), .group = "Log",
        .value_name = "LEVEL",
        .choices = "error|warn|info|debug", .fallback = "info", .help = "error, warn, info or debug",
        .more = "SIGHUP applies a change in the file."},
    [KEY_LOG_FORMAT] = {KEY_LOG_FORMAT, "log-format", .kind = BELFRY_KIND_CHOICE, AT(log_format),
        .value_name = "FORM",
        .choices = "logfmt|json", .fallback = "logfmt", .help = "logfmt or json, on standard error"},

    [KEY_CONFIG] = {KEY_CONFIG, "config", .kind = BELFRY_KIND_TEXT, .value_name = "FILE", .line_only = true,
        .group = "This program", .help = "read settings from this YAML file; keys are the flags' names",
        .more = "No default; the service uses /etc/belfry/belfryd.yaml."},
    [KEY_CHECK_CONFIG] = {KEY_CHECK_CONFIG, "check-config", .kind = BELFRY_KIND_BARE, .line_only = true,
        .help = "check all settings, and the files and addresses in them; exit",
        .more = "The status is 0 if a start would succeed, and 2 if not, with one line for each fault.\n"
                "It reads certificates, keys, passwords and definitions, and tries the cache folder and the\n"
                "addresses. It creates and changes nothing. An address in use is only a warning, and the\n"
                "lock of the cache folder is not tried, because belfryd may be running. It does not contact\n"
                "upstream."},
    [KEY_PRINT_CONFIG] = {KEY_PRINT_CONFIG, "print-config", .kind = BELFRY_KIND_BARE, .line_only = true,
        .help = "print every setting and its source as YAML; exit",
        .more = "The output is itself a configuration file."},
    [KEY_VERSION] = {KEY_VERSION, "version", .kind = BELFRY_KIND_BARE, .line_only = true,
        .help = "print the version; exit"},
    [KEY_HELP] = {KEY_HELP, "help", .letter = 'h', .kind = BELFRY_KIND_BARE, .line_only = true, .help = "this text"},
};

const struct belfry_opt_row config_listen_rows[N_LISTEN_PARTS] = {
    [LISTEN_URL] = {LISTEN_URL, "url", .kind = BELFRY_KIND_TEXT, .value_name = "URL", .help = "the address"},
    [LISTEN_SERVE] = {LISTEN_SERVE, "serve", .kind = BELFRY_KIND_TEXT, .value_name = "DIALECT+...",
        .choices = "grpc|kube",
        .described = "all: grpc+json+kube+sse", .help = "protocols",
        .more = "grpc is etcd's own API, kube Kubernetes list/watch of --resources. In the file it may be a list."},
    [LISTEN_READ_ONLY] = {LISTEN_READ_ONLY, "read-only", .kind = BELFRY_KIND_BOOL,
        .help = "relay only methods that are known to read"},
    [LISTEN_READS] = {LISTEN_READS, "reads", .kind = BELFRY_KIND_CHOICE, .value_name = "WHERE",
        .choices = "replica|relay", .described = "replica",
        .help = "answer reads from the tier's replica, or relay them to upstream",
        .more = "Reads that the replica cannot answer are relayed and counted (belfry_reads_total)."},
    [LISTEN_CONSISTENCY] = {LISTEN_CONSISTENCY, "consistency", .kind = BELFRY_KIND_CHOICE, .value_name = "LEVEL",
        .choices = "asked|serializable", .described = "asked",
        .help = "asked: as each read says; serializable: all from the replica",
        .more = "etcd's default is linearizable. serializable is for clients that cannot ask for it. Reads of\n"
                "belfryds below are always answered as they say."},
    [LISTEN_CERT] = {LISTEN_CERT, "cert", .kind = BELFRY_KIND_TEXT, .value_name = "FILE",
        .help = "for https and unixs: the certificate (PEM)"},
    [LISTEN_KEY] = {LISTEN_KEY, "key", .kind = BELFRY_KIND_TEXT, .value_name = "FILE",
        .help = "for https and unixs: its private key (PEM)"},
    [LISTEN_CLIENT_CA] = {LISTEN_CLIENT_CA, "client-ca", .kind = BELFRY_KIND_TEXT, .value_name = "FILE",
        .help = "clients must present a certificate of these authorities"},
    [LISTEN_CRL] = {LISTEN_CRL, "crl", .kind = BELFRY_KIND_TEXT, .value_name = "FILE",
        .help = "with client-ca: lists of revoked certificates (PEM)",
        .more = "The authority that signed a client's certificate must have a list there. cert, key,\n"
                "client-ca and crl are read again when they change. A connection whose certificate has\n"
                "expired, was revoked, or is of an authority that was removed ends within --rights-period."},
    [LISTEN_USER] = {LISTEN_USER, "user", .kind = BELFRY_KIND_CHOICE, .value_name = "NAME",
        .choices = "cn|uri|dns", .described = "cn",
        .help = "with client-ca: the name in a certificate that is the user",
        .more = "cn: the common name, as in etcd. uri, dns: the only alternative name of that type."},
    [LISTEN_RIGHTS] = {LISTEN_RIGHTS, "rights", .kind = BELFRY_KIND_TEXT, .value_name = "RIGHTS",
        .choices = "upstream|open|open+writes",
        .help = "what clients may do: upstream, open or open+writes",
        .more = "Needed without client-ca if the tier has credentials for upstream (upstream-user, or\n"
                "upstream-cert): otherwise clients without credentials would use the tier's.\n"
                "upstream: upstream has auth on, and each client has its own rights there. While auth is\n"
                "off, the listener is not ready.\n"
                "open: every client may read what the tier may read; a client with a token has the rights\n"
                "of its user. open+writes: writes are relayed as well."},
    [LISTEN_TIERS] = {LISTEN_TIERS, "tiers", .kind = BELFRY_KIND_TEXT, .value_name = "NAME+...",
        .help = "with client-ca: belfryds below, which get --tier-share",
        .more = "The names in their certificates. In the file it may be a list."},
    [LISTEN_USERS_FROM] = {LISTEN_USERS_FROM, "users-from", .kind = BELFRY_KIND_TEXT, .value_name = "NAME+...",
        .help = "with client-ca: tiers below that may name their clients' users",
        .more = "The names in the certificates of belfryds with --pass-users. Such a certificate can act as\n"
                "any user except root. In the file it may be a list."},
    [LISTEN_PROXY_FROM] = {LISTEN_PROXY_FROM, "proxy-from", .kind = BELFRY_KIND_TEXT,
        .value_name = "ADDRESS/BITS+...",
        .help = "balancers that send the PROXY protocol, version 2",
        .more = "A connection from these addresses (unix: from a Unix socket) must begin with a PROXY header,\n"
                "before TLS, or it is closed. Every host in them can claim any client address. Other\n"
                "connections keep their own address. In the file it may be a list."},
};

const struct belfry_opt_row config_resource_rows[N_RESOURCE_PARTS] = {
    [RESOURCE_CRD] = {RESOURCE_CRD, "crd", .kind = BELFRY_KIND_TEXT, .value_name = "FILE",
        .help = "the definition; may be a pattern of files"},
    [RESOURCE_UNDER] = {RESOURCE_UNDER, "crds-under", .kind = BELFRY_KIND_TEXT, .value_name = "PREFIX",
        .help = "instead of FILE: follow the definitions under this prefix in etcd"},
    [RESOURCE_PREFIX] = {RESOURCE_PREFIX, "prefix", .kind = BELFRY_KIND_TEXT, .value_name = "PREFIX",
        .described = "/registry/{group}/{plural}/", .help = "prefix of the objects' keys"},
    [RESOURCE_WRAP] = {RESOURCE_WRAP, "wrap", .kind = BELFRY_KIND_TEXT, .value_name = "FIELD",
        .help = "values are not objects: put them into this field of one"},
    [RESOURCE_KEY] = {RESOURCE_KEY, "key", .kind = BELFRY_KIND_TEXT, .value_name = "TEMPLATE",
        .described = "{namespace}/{name}", .help = "with wrap: the form of the keys after the prefix"},
};

static const struct belfry_opt_parts parts[] = {
    {"listen", "Options of a listener, each after a comma", config_listen_rows, N_LISTEN_PARTS},
    {"resources", "Options of --resources, each after a comma; FILE may be a pattern", config_resource_rows,
     N_RESOURCE_PARTS},
};
/* clang-format on */

const struct belfry_opt_table config_table = {
    .program = "belfryd",
    .ask = "belfryd --help",
    .env = {"BELFRYD_"},
    .rows = config_rows,
    .n_rows = N_CONFIG_ROWS,
    .parts = parts,
    .n_parts = sizeof(parts) / sizeof(parts[0]),
    .about = "belfryd: follows etcd, or resources of Kubernetes API servers, and serves any number of\n"
             "watchers.\n"
             "\nUsage: belfryd [flags]\n"
             "\nWithout any flag it follows the etcd of this machine and serves on loopback.\n"
             "[Defaults are in brackets.]\n",
    .end = "Sizes: 512KiB, 256MiB, 4GiB. Times: 500ms, 5s, 10m, 1h30m.\n"
           "\nExamples:\n"
           "  belfryd\n"
           "  belfryd --upstream https://etcd-1:2379,https://etcd-2:2379 --upstream-cacert ca.crt\n"
           "  belfryd --listen https://0.0.0.0:23790,cert=tls.crt,key=tls.key,client-ca=ca.crt\n"
           "  belfryd --config /etc/belfry/belfryd.yaml --check-config\n"
           "\nEnvironment: BELFRYD_LOG_BYTES stands for --log-bytes, and so on for every flag\n"
           "(upper case, - as _); separate several listeners or resources by blanks. A flag overrides the\n"
           "environment, the environment the file, and the file the default.\n"
           "\nExit code: 0 stopped as asked, 1 failed, 2 wrong usage or configuration.\n"
           "\nSee belfryd(8) and belfryd.yaml(5).\n",
};
