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
        .help = "show this certificate to upstream (PEM)"},
    [KEY_UPSTREAM_KEY] = {KEY_UPSTREAM_KEY, "upstream-key", TEXT(upstream_key), .value_name = "FILE",
        .help = "the private key of --upstream-cert (PEM)"},
    [KEY_UPSTREAM_SERVER_NAME] = {KEY_UPSTREAM_SERVER_NAME, "upstream-server-name", TEXT(upstream_server_name),
        .value_name = "NAME",
        .help = "the name upstream's certificate must carry, if not the host"},
    [KEY_UPSTREAM_USER] = {KEY_UPSTREAM_USER, "upstream-user", TEXT(upstream_user), .value_name = "NAME",
        .help = "log in to upstream; needs --upstream-password-file"},
    [KEY_UPSTREAM_PASSWORD_FILE] = {KEY_UPSTREAM_PASSWORD_FILE, "upstream-password-file",
        TEXT(upstream_password_file), .value_name = "FILE",
        .help = "the file whose first line is the password"},
    [KEY_UPSTREAM_TOKEN_KEY] = {KEY_UPSTREAM_TOKEN_KEY, "upstream-token-key", TEXT(upstream_token_key),
        .value_name = "FILE",
        .help = "sign tokens for users of client certificates with this key of etcd's",
        .more = "The private key (PEM) of etcd's --auth-token jwt. Clients with a certificate of client-ca\n"
                "then need no password: the name in the certificate is their user. It needs\n"
                "--upstream-user, and belongs on tiers next to etcd only: whoever has the key is every\n"
                "user. The file must not be readable by other users of the machine."},
    [KEY_UPSTREAM_TOKEN_METHOD] = {KEY_UPSTREAM_TOKEN_METHOD, "upstream-token-method", TEXT(upstream_token_method),
        .value_name = "METHOD", .choices = MINT_METHODS, .described = "by the key",
        .help = "the sign-method of etcd's --auth-token",
        .more = "By default RS256 for an RSA key, EdDSA for an Ed25519 key, and for an EC key the one of\n"
                "its curve. With HS256, HS384 or HS512 the key is the bytes of the file."},
    [KEY_ALLOW_ROOT] = {KEY_ALLOW_ROOT, "allow-root", .kind = BELFRY_KIND_BOOL, AT(allow_root), .fallback = "false",
        .help = "let a client certificate be for the user root",
        .more = "Otherwise a certificate with that name is refused while auth is on."},
    [KEY_PASS_USERS] = {KEY_PASS_USERS, "pass-users", .kind = BELFRY_KIND_BOOL, AT(pass_users), .fallback = "false",
        .help = "pass users of client certificates on to the belfryd above",
        .more = "For tiers that are not next to etcd. The listener above must name this tier's\n"
                "--upstream-cert in users-from."},
    [KEY_UPSTREAM_KUBE] = {KEY_UPSTREAM_KUBE, "upstream-kube", TEXT(upstream_kube), .value_name = "WHERE",
        .help = "follow resources of Kubernetes API servers instead of etcd",
        .more = "WHERE is in-cluster, which is the service account of the pod; or the path of a kubeconfig,\n"
                "whose current context is used; or URLs of API servers with commas between them. The\n"
                "tier's own credential is a token, which needs the right to read what is followed and the\n"
                "ClusterRole system:auth-delegator. It needs --follow, and listeners serve Kubernetes' API\n"
                "only. What is not followed is relayed with the credential of its client."},
    [KEY_UPSTREAM_TOKEN_FILE] = {KEY_UPSTREAM_TOKEN_FILE, "upstream-token-file", TEXT(upstream_token_file),
        .value_name = "FILE", .help = "the tier's token for the URLs of --upstream-kube",
        .more = "The file is read again when it changes."},
    [KEY_FOLLOW] = {KEY_FOLLOW, "follow", .kind = BELFRY_KIND_LIST, .value_name = "RESOURCE,...",
        .help = "serve these resources of --upstream-kube from here; may repeat",
        .more = "A resource is PLURAL of the core group, PLURAL.GROUP, or PLURAL.VERSION.GROUP: pods,\n"
                "endpointslices.discovery.k8s.io, widgets.v1.demo.example.com. At most 200. One that the API\n"
                "server does not have is looked for again every 10 seconds, and relayed until it is there."},
    [KEY_RIGHTS_PERIOD] = {KEY_RIGHTS_PERIOD, "rights-period", MS(rights_period_ms), RANGE(SECOND, HOUR),
        .fallback = "10s", .help = "a right that upstream has revoked ends within this time",
        .more = "With auth on, upstream is asked about each token so often; when it cannot be asked for\n"
                "so long, watches pause until it can. Tiers below this one need the same or a longer time."},

    [KEY_LISTEN] = {KEY_LISTEN, "listen", .kind = BELFRY_KIND_WORDS, .value_name = "URL[,OPTION...]",
        .group = "Clients",
        .fallback = "http://127.0.0.1:23790", .help = "serve clients here; may repeat; options are below",
        .more = "The host is an address or localhost; at most 64. In the file each item is a url, or a\n"
                "map. The options, which are the keys of the map:"},
    [KEY_INSECURE_LISTEN] = {KEY_INSECURE_LISTEN, "insecure-listen",
        .kind = BELFRY_KIND_BOOL, AT(insecure_listen), .fallback = "false",
        .help = "allow plain HTTP on addresses that are not loopback",
        .more = "It is for --listen and --admin."},
    [KEY_ADMIN] = {KEY_ADMIN, "admin", .kind = BELFRY_KIND_TEXT, .value_name = "URL",
        .fallback = "http://127.0.0.1:23791", .help = "health, metrics and what operators look at",
        .more = "Plain HTTP or unix."},
    [KEY_ADMIN_TAIL] = {KEY_ADMIN_TAIL, "admin-tail", .kind = BELFRY_KIND_BOOL, AT(admin_tail), .fallback = "false",
        .help = "let the page of the admin address show changes of keys",
        .more = "All who can reach that address then see keys and values. So it must be loopback or unix,\n"
                "and the tier must have no credentials for upstream."},
    [KEY_ADVERTISE] = {KEY_ADVERTISE, "advertise", TEXT(advertise), .value_name = "URL",
        .described = "--listen, if one address", .help = "the address at which clients reach this tier",
        .more = "MemberList shows it, so that clients that sync with it stay here. The address of\n"
                "--listen is the default if one address can be reached by others, or if it is loopback\n"
                "only. For a listener on every address, on several, or whose certificate is not for its\n"
                "address there is no default: a warning says so, and MemberList shows the addresses of\n"
                "upstream."},
    [KEY_ALLOWED_HOSTS] = {KEY_ALLOWED_HOSTS, "allowed-hosts", .kind = BELFRY_KIND_LIST, .value_name = "NAME,...",
        .help = "other names by which plain HTTP may ask; * for all; may repeat",
        .more = "Plain HTTP that is not gRPC, on client and admin addresses, may always ask by address,\n"
                "localhost and the name in --advertise. A request by another name gets 421, so that no\n"
                "web page can ask through a visitor's browser. SIGHUP applies a change in the file."},
    [KEY_CORS_ORIGINS] = {KEY_CORS_ORIGINS, "cors-origins", .kind = BELFRY_KIND_LIST, .value_name = "ORIGIN,...",
        .help = "web pages of these origins may ask, and read /v1/events; may repeat",
        .more = "An origin is scheme://host or scheme://host:port, as a browser sends it: in lower case and\n"
                "without the default port. Pages that this tier serves itself need none. Without the option\n"
                "requests of other web pages get 403."},
    [KEY_TICKET_KEY_FILE] = {KEY_TICKET_KEY_FILE, "ticket-key-file", TEXT(ticket_key_file), .value_name = "FILE",
        .help = "seal tickets for EventSource with the first key in this file",
        .more = "One key per line, 32 bytes as base64 (openssl rand -base64 32) or hex, at most 4. All of\n"
                "them open tickets. Tiers with the same file accept each other's tickets. A ticket holds\n"
                "the credential of its client: whoever has a key can read it, or be any user of a\n"
                "certificate. The file must not be readable by other users of the machine. SIGHUP reads it\n"
                "again."},
    [KEY_TICKET_TIME] = {KEY_TICKET_TIME, "ticket-time", .kind = BELFRY_KIND_SECONDS, AT(ticket_time_s),
        .value_name = "TIME",
        RANGE(5, 3600), .fallback = "5m", .help = "a ticket expires after this time",
        .more = "A stream that was opened with a ticket receives the next one when 4/5 of it are over."},
    [KEY_NAME] = {KEY_NAME, "name", TEXT(name), .value_name = "NAME", .described = "the host name",
        .help = "what this tier is called in logs and by the tiers below",
        .more = "Each tier of a row needs a name of its own. A tier that finds its own name above it, or\n"
                "that is the ninth in a row, prints the chain, leaves that endpoint of --upstream alone,\n"
                "and ends with 1 when it has no other. At most 64 bytes of the name are told to others."},
    [KEY_RESOURCES] = {KEY_RESOURCES, "resources", .kind = BELFRY_KIND_WORDS, .value_name = "FILE[,OPTION...]",
        .help = "serve these CustomResourceDefinitions to kubectl and its like; may repeat",
        .more = "FILE may be a pattern. In the file each item is a FILE, or a map, in which wrap may\n"
                "itself be a map with field and key. The options, which are the keys of the map:"},

    [KEY_CACHE_DIR] = {KEY_CACHE_DIR, "cache-dir", TEXT(cache_dir), .value_name = "DIR", .group = "Replica",
        .described = "$CACHE_DIRECTORY, else ~/.cache/belfry", .help = "where the replica is kept",
        .more = "It is created if it is missing, with the folders above it. It is a cache: safe to delete\n"
                "while belfryd is stopped."},
    [KEY_SCOPE] = {KEY_SCOPE, "scope", .kind = BELFRY_KIND_WORDS, .value_name = "PREFIX", .described = "everything",
        .help = "follow only keys that begin with this",
        .more = "Today one prefix can be followed, and upstream must then be etcd 3.4.31, 3.5.13 or newer."},
    [KEY_LOG_BYTES] = {KEY_LOG_BYTES, "log-bytes", SIZE(log_bytes), RANGE(MIB, TIB), .fallback = "256MiB",
        .help = "changes kept in memory, which watchers are served from", .more = "At least 1MiB."},
    [KEY_HISTORY_BYTES] = {KEY_HISTORY_BYTES, "history-bytes", SIZE(history_bytes), RANGE(MIB, 64 * TIB),
        .fallback = "1GiB",
        .help = "changes kept on disk, for watchers that start in the past", .more = "At least 1MiB."},
    [KEY_HISTORY_AGE] = {KEY_HISTORY_AGE, "history-age", .kind = BELFRY_KIND_SECONDS, AT(history_age_s),
        .value_name = "TIME",
        RANGE(1, 87600 * 3600ull), .fallback = "1h", .help = "changes older than this leave the disk",
        .more = "In whole seconds."},

    [KEY_MEMORY_BYTES] = {KEY_MEMORY_BYTES, "memory-bytes", SIZE(memory_bytes), RANGE(0, 64 * TIB),
        .group = "Limits", .fallback = "0",
        .described = "0: 75 % of what there is", .help = "the bound for log, buffers and connections",
        .more = "It must be more than --log-bytes. What there is: the memory that machine and control group allow."},
    [KEY_MAX_STREAMS] = {KEY_MAX_STREAMS, "max-streams", COUNT(max_streams), RANGE(0, UINT32_MAX),
        .fallback = "10000",
        .help = "streams of one connection at once; more are refused; 0: no limit",
        .more = "A client that heeds the limit waits; the connection of one that does not is ended."},
    [KEY_MAX_CONNECTIONS] = {KEY_MAX_CONNECTIONS, "max-connections", COUNT(max_connections), RANGE(0, UINT32_MAX),
        .fallback = "0", .described = "0: by descriptors", .help = "connections of all clients together",
        .more = "It cannot be more than there are file descriptors for (LimitNOFILE, ulimit -n). Like each\n"
                "limit of all clients it is divided among the workers."},
    [KEY_MAX_WATCHERS] = {KEY_MAX_WATCHERS, "max-watchers", COUNT(max_watchers), RANGE(0, UINT32_MAX),
        .fallback = "0", .described = "0: by memory", .help = "watchers of all clients together",
        .more = "By default one for every 512 bytes of --memory-bytes. A watch beyond it is created and\n"
                "cancelled at once, with the reason; Kubernetes clients get 429."},
    [KEY_MAX_CALLS] = {KEY_MAX_CALLS, "max-calls", COUNT(max_calls), RANGE(1, UINT32_MAX), .fallback = "20000",
        .help = "relayed calls of all clients together; each is a stream in upstream",
        .more = "Lease keep-alives and elections are calls that last. A call beyond it gets status 8."},
    [KEY_CLIENT_SHARE] = {KEY_CLIENT_SHARE, "client-share", .kind = BELFRY_KIND_COUNT, AT(client_share),
        RANGE(1, 100), .fallback = "50",
        .value_name = "PERCENT", .help = "the most that one client can hold of each limit; 100: all of it",
        .more = "A client is the user of a certificate, otherwise an address (IPv6: the first 64 bits). With\n"
                "50 it may hold as much as it leaves free, so that there is room for others. When\n"
                "something is used up, a connection of the client that holds most of it is ended."},
    [KEY_TIER_SHARE] = {KEY_TIER_SHARE, "tier-share", .kind = BELFRY_KIND_COUNT, AT(tier_share),
        RANGE(1, 100), .fallback = "90",
        .value_name = "PERCENT", .help = "the same for a belfryd below, which stands for all of its clients",
        .more = "A belfryd below is known by its certificate: the listener names it in tiers or users-from."},
    [KEY_GREET_TIME] = {KEY_GREET_TIME, "greet-time", MS(greet_time_ms), RANGE(100, HOUR), .fallback = "10s",
        .help = "close what has not finished its handshake, or a head, by then",
        .more = "A connection has so long for a TLS handshake, for its first bytes, and for the head of a\n"
                "request that it has begun. From 100ms to 1h."},
    [KEY_MESSAGE_TIME] = {KEY_MESSAGE_TIME, "message-time", MS(message_time_ms), RANGE(100, HOUR), .fallback = "10s",
        .help = "end a call whose message is not whole after this time",
        .more = "The time begins with the head of a call that has one message, otherwise with the first\n"
                "byte of a message. Each 64KiB that come give as much again. Streams that wait in good\n"
                "order (keep-alives, watches before their first request) have no limit. From 100ms to 1h."},
    [KEY_UNREAD_TIME] = {KEY_UNREAD_TIME, "unread-time", MS(unread_time_ms), RANGE(SECOND, HOUR), .fallback = "1m",
        .help = "while memory is short, end clients that read nothing for so long",
        .more = "With enough memory there is no limit. From 1s to 1h."},
    [KEY_IDLE_TIME] = {KEY_IDLE_TIME, "idle-time", MS(idle_time_ms), RANGE(SECOND, 24 * HOUR), .fallback = "5m",
        .help = "close connections without a request after this time",
        .more = "HTTP/2 connections are asked to leave only while more than half of the connections that\n"
                "are possible are there, the longest idle first. From 1s to 24h."},
    [KEY_WORKERS] = {KEY_WORKERS, "workers", COUNT(workers), RANGE(0, 256), .fallback = "0",
        .described = "0: CPUs that affinity and cgroup allow", .help = "threads that serve clients",
        .more = "At most 256."},
    [KEY_READY_LAG] = {KEY_READY_LAG, "ready-lag", MS(ready_lag_ms), RANGE(2000, 24 * HOUR), .fallback = "5s",
        .help = "report not ready when lagging upstream by more than this",
        .more = "From 2s to 24h: an idle upstream is asked once a second."},
    [KEY_DRAIN] = {KEY_DRAIN, "drain", MS(drain_ms), RANGE(0, HOUR), .fallback = "30s",
        .help = "time in which clients are sent away after SIGTERM",
        .more = "New clients are served until it is over. At most 1h."},
    [KEY_PROGRESS_INTERVAL] = {KEY_PROGRESS_INTERVAL, "progress-interval", MS(progress_ms), RANGE(100, 24 * HOUR),
        .fallback = "10m",
        .help = "how often idle watchers hear how far they are",
        .more = "It is for watchers that asked for progress_notify. From 100ms to 24h."},

    [KEY_HARDEN] = {KEY_HARDEN, "harden", .kind = BELFRY_KIND_BOOL, AT(harden), .group = "Process",
        .fallback = "true", .help = "give up what belfryd does not need of the kernel; --harden=false: not",
        .more = "It can then execute no file, look into no other process, mount nothing and open no raw\n"
                "socket; other processes of its user cannot read its memory, and it leaves no core file.\n"
                "Debuggers and profilers of its user, and valgrind, need --harden=false."},

    [KEY_LOG_LEVEL] = {KEY_LOG_LEVEL, "log-level", .kind = BELFRY_KIND_CHOICE, AT(log_level), .group = "Log",
        .value_name = "LEVEL",
        .choices = "error|warn|info|debug", .fallback = "info", .help = "error, warn, info or debug",
        .more = "SIGHUP applies a change in the file."},
    [KEY_LOG_FORMAT] = {KEY_LOG_FORMAT, "log-format", .kind = BELFRY_KIND_CHOICE, AT(log_format),
        .value_name = "FORM",
        .choices = "logfmt|json", .fallback = "logfmt", .help = "logfmt or json, on standard error"},

    [KEY_CONFIG] = {KEY_CONFIG, "config", .kind = BELFRY_KIND_TEXT, .value_name = "FILE", .line_only = true,
        .group = "This program", .help = "read settings from this file (YAML; its keys are the flags' names)",
        .more = "There is none by default; the service uses /etc/belfry/belfryd.yaml."},
    [KEY_CHECK_CONFIG] = {KEY_CHECK_CONFIG, "check-config", .kind = BELFRY_KIND_BARE, .line_only = true,
        .help = "validate all settings, and try the files and addresses they name; exit",
        .more = "The status is 0 if a start would succeed, and 2 if not, with one line for each fault.\n"
                "Certificates, keys, password and definitions are read; the cache folder and the\n"
                "addresses are tried. Nothing is created or changed. An address that is taken is a\n"
                "warning only, and the lock of the cache folder is not tried, because belfryd may be\n"
                "running while its next configuration is checked. Upstream is not contacted."},
    [KEY_PRINT_CONFIG] = {KEY_PRINT_CONFIG, "print-config", .kind = BELFRY_KIND_BARE, .line_only = true,
        .help = "print every setting, and where it came from, as YAML; exit",
        .more = "The output is itself a configuration file."},
    [KEY_VERSION] = {KEY_VERSION, "version", .kind = BELFRY_KIND_BARE, .line_only = true,
        .help = "print the version; exit"},
    [KEY_HELP] = {KEY_HELP, "help", .letter = 'h', .kind = BELFRY_KIND_BARE, .line_only = true, .help = "this text"},
};

const struct belfry_opt_row config_listen_rows[N_LISTEN_PARTS] = {
    [LISTEN_URL] = {LISTEN_URL, "url", .kind = BELFRY_KIND_TEXT, .value_name = "URL", .help = "the address"},
    [LISTEN_SERVE] = {LISTEN_SERVE, "serve", .kind = BELFRY_KIND_TEXT, .value_name = "DIALECT+...",
        .choices = "grpc|kube",
        .described = "all: grpc+json+kube+sse", .help = "what is spoken there",
        .more = "grpc is etcd's own API, kube Kubernetes list/watch of --resources. In the file it may be a list."},
    [LISTEN_READ_ONLY] = {LISTEN_READ_ONLY, "read-only", .kind = BELFRY_KIND_BOOL,
        .help = "only methods known to read are relayed to upstream"},
    [LISTEN_READS] = {LISTEN_READS, "reads", .kind = BELFRY_KIND_CHOICE, .value_name = "WHERE",
        .choices = "replica|relay", .described = "replica",
        .help = "who answers reads of etcd's API: the tier's replica, or upstream",
        .more = "replica: what the replica cannot answer is relayed and counted (belfry_reads_total)."},
    [LISTEN_CONSISTENCY] = {LISTEN_CONSISTENCY, "consistency", .kind = BELFRY_KIND_CHOICE, .value_name = "LEVEL",
        .choices = "asked|serializable", .described = "asked",
        .help = "how new the answers to reads are",
        .more = "asked: as each request says; etcd's default is linearizable. serializable: every read is\n"
                "answered by the replica as it is, without asking upstream, for clients that cannot ask for\n"
                "it. Requests of belfryds below are answered as they say."},
    [LISTEN_CERT] = {LISTEN_CERT, "cert", .kind = BELFRY_KIND_TEXT, .value_name = "FILE",
        .help = "for https and unixs: the certificate (PEM)"},
    [LISTEN_KEY] = {LISTEN_KEY, "key", .kind = BELFRY_KIND_TEXT, .value_name = "FILE",
        .help = "for https and unixs: its private key (PEM)"},
    [LISTEN_CLIENT_CA] = {LISTEN_CLIENT_CA, "client-ca", .kind = BELFRY_KIND_TEXT, .value_name = "FILE",
        .help = "clients must show a certificate of these authorities"},
    [LISTEN_CRL] = {LISTEN_CRL, "crl", .kind = BELFRY_KIND_TEXT, .value_name = "FILE",
        .help = "with client-ca: lists of revoked certificates (PEM)",
        .more = "The authority that signed a client's certificate must have a list there. cert, key,\n"
                "client-ca and crl are read again when they change. A connection whose certificate has\n"
                "expired, was revoked, or is of an authority that was removed ends within --rights-period."},
    [LISTEN_USER] = {LISTEN_USER, "user", .kind = BELFRY_KIND_CHOICE, .value_name = "NAME",
        .choices = "cn|uri|dns", .described = "cn",
        .help = "with client-ca: which name in a certificate is the user's",
        .more = "cn is the common name, as etcd reads it; uri and dns the only alternative name of that type."},
    [LISTEN_RIGHTS] = {LISTEN_RIGHTS, "rights", .kind = BELFRY_KIND_TEXT, .value_name = "RIGHTS",
        .choices = "upstream|open|open+writes",
        .help = "what clients may do: upstream, open or open+writes",
        .more = "Needed without client-ca if the tier has credentials for upstream (upstream-user, or\n"
                "upstream-cert): clients that show nothing would have access by them.\n"
                "upstream: upstream has auth on, and each client its own rights there. While auth is\n"
                "found off, the listener is not ready.\n"
                "open: everyone who can connect may read what the tier may; a client with a token has\n"
                "the rights of its user. open+writes: writes are relayed, too."},
    [LISTEN_TIERS] = {LISTEN_TIERS, "tiers", .kind = BELFRY_KIND_TEXT, .value_name = "NAME+...",
        .help = "with client-ca: belfryds below, which have --tier-share",
        .more = "The names in their certificates. In the file it may be a list."},
    [LISTEN_USERS_FROM] = {LISTEN_USERS_FROM, "users-from", .kind = BELFRY_KIND_TEXT, .value_name = "NAME+...",
        .help = "with client-ca: tiers below that may name their clients' users",
        .more = "The names in the certificates of belfryds with --pass-users. Such a certificate can act as\n"
                "every user but root. In the file it may be a list."},
    [LISTEN_PROXY_FROM] = {LISTEN_PROXY_FROM, "proxy-from", .kind = BELFRY_KIND_TEXT,
        .value_name = "ADDRESS/BITS+...",
        .help = "balancers that name their clients by the PROXY protocol, version 2",
        .more = "A connection from these addresses (unix: of a Unix socket) must begin with such a head,\n"
                "before TLS too, or is closed. Whoever can connect from them can claim any address.\n"
                "Connections from elsewhere have their own address. In the file it may be a list."},
};

const struct belfry_opt_row config_resource_rows[N_RESOURCE_PARTS] = {
    [RESOURCE_CRD] = {RESOURCE_CRD, "crd", .kind = BELFRY_KIND_TEXT, .value_name = "FILE",
        .help = "the definition; may be a pattern of files"},
    [RESOURCE_UNDER] = {RESOURCE_UNDER, "crds-under", .kind = BELFRY_KIND_TEXT, .value_name = "PREFIX",
        .help = "in the place of FILE: definitions in etcd, which are followed"},
    [RESOURCE_PREFIX] = {RESOURCE_PREFIX, "prefix", .kind = BELFRY_KIND_TEXT, .value_name = "PREFIX",
        .described = "/registry/{group}/{plural}/", .help = "the objects' keys"},
    [RESOURCE_WRAP] = {RESOURCE_WRAP, "wrap", .kind = BELFRY_KIND_TEXT, .value_name = "FIELD",
        .help = "values are no objects yet: they become this field of one"},
    [RESOURCE_KEY] = {RESOURCE_KEY, "key", .kind = BELFRY_KIND_TEXT, .value_name = "TEMPLATE",
        .described = "{namespace}/{name}", .help = "then their keys behind the prefix"},
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
    .about = "belfryd: follows an etcd cluster with one watch and serves any number of watchers,\n"
             "over etcd's own API.\n"
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
           "(upper case, - as _); several listeners or resources are separated by blanks. A flag wins over\n"
           "the environment, that over the file, that over the default.\n"
           "\nExit code: 0 stopped as asked, 1 failed, 2 wrong usage or configuration.\n"
           "\nSee belfryd(8) and belfryd.yaml(5).\n",
};
