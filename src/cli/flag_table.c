/* src/cli/flag_table.c: belfryctl's commands and options (opt/options.h). */
#include "cli/flags.h"

const struct belfry_opt_command command_rows[N_COMMANDS] = {
    [CMD_NONE] = {.name = "", .arguments = "", .max_args = 0, .summary = ""},
    [CMD_GET] =
        {
            .name = "get",
            .arguments = "KEY [RANGE_END]",
            .min_args = 1,
            .max_args = 2,
            .summary = "read a key, or the keys of a range",
            .notes = "Prints each key and its value on a line of its own, as etcdctl does. With\n"
                     "RANGE_END: the keys from KEY up to, not including, RANGE_END. A key that does\n"
                     "not exist prints nothing and is not an error.",
            .example = "belfryctl get --prefix /services/\n"
                       "belfryctl get /services/web/1 --print-value-only\n"
                       "belfryctl get '' --prefix --count-only",
        },
    [CMD_PUT] =
        {
            .name = "put",
            .arguments = "KEY [VALUE]",
            .min_args = 1,
            .max_args = 2,
            .summary = "write a key",
            .notes = "Without VALUE, or with VALUE -, the value is read from standard input to its\n"
                     "end. Put a value that begins with a dash after --; there, - is a plain value. A\n"
                     "write is never sent twice: if the connection breaks during it, belfryctl says\n"
                     "that it may or may not have happened.",
            .example = "belfryctl put /flags/dark on\n"
                       "belfryctl put /conf/app < app.json\n"
                       "belfryctl put /offset -- -5",
        },
    [CMD_DEL] =
        {
            .name = "del",
            .arguments = "KEY [RANGE_END]",
            .min_args = 1,
            .max_args = 2,
            .summary = "delete a key, or the keys of a range",
            .notes = "Prints how many keys were deleted.",
            .example = "belfryctl del /flags/dark\n"
                       "belfryctl del --prefix /jobs/done/ --prev-kv",
        },
    [CMD_TXN] =
        {
            .name = "txn",
            .arguments = "",
            .max_args = 0,
            .summary = "run several requests atomically, if conditions hold",
            .notes = "Reads three lists from standard input, each ended by a blank line: conditions,\n"
                     "requests if all of them hold, requests if not. Conditions compare ver (version),\n"
                     "create and mod (revisions), val (value) or lease of a key by = != < and >; both\n"
                     "sides are in quotes. Requests are get, put and del with their flags. Words with\n"
                     "blanks are in quotes. Prints SUCCESS if the conditions held, otherwise FAILURE,\n"
                     "and the output of each request that ran.",
            .example = "belfryctl txn <<'END'\n"
                       "mod(\"/flags/dark\") = \"0\"\n"
                       "\n"
                       "put /flags/dark \"on and off\"\n"
                       "\n"
                       "get /flags/dark\n"
                       "\n"
                       "END",
        },
    [CMD_WATCH] =
        {
            .name = "watch",
            .arguments = "KEY [RANGE_END]",
            .min_args = 1,
            .max_args = 2,
            .summary = "show changes as they happen, from now or from a revision",
            .notes = "Prints every change once, in order, each revision whole. When an endpoint is\n"
                     "lost, the watch resumes at another without a gap, and says so on standard error.\n"
                     "On a terminal it prints a table, otherwise what etcdctl prints; -w and --output\n"
                     "choose. It ends with Ctrl-C, or when its output is closed.",
            .example = "belfryctl watch --prefix /services/\n"
                       "belfryctl watch --prefix /services/ --rev 48120701 --output json\n"
                       "belfryctl watch /flags/dark -w simple | head -3",
        },
    [CMD_FOLLOW] =
        {
            .name = "follow",
            .arguments = "KEY [RANGE_END]",
            .min_args = 1,
            .max_args = 2,
            .summary = "show the state, then changes as they happen",
            .notes = "Prints every key, then a line that marks the end of the state, then changes until\n"
                     "Ctrl-C. Unlike a watch it needs no revision and never ends with \"compacted\": if\n"
                     "history was lost, it prints what changed meanwhile as state and deletes.",
            .example = "belfryctl follow --prefix /services/\n"
                       "belfryctl follow --prefix /services/ --once --output json",
        },
    [CMD_LEASE] =
        {
            .name = "lease",
            .arguments = "WHAT [TTL|ID]",
            .words = "grant|revoke|timetolive|list|keep-alive",
            .min_args = 1,
            .max_args = 2,
            .summary = "create, end, show, list or renew leases",
            .notes = "lease grant TTL        create a lease of TTL seconds\n"
                     "lease revoke ID        end it and delete its keys\n"
                     "lease timetolive ID    print its remaining time; --keys: and its keys\n"
                     "lease list             list all leases\n"
                     "lease keep-alive ID    renew it until it ends, or Ctrl-C; --once: once\n"
                     "IDs are hexadecimal, as they are printed.",
            .example = "belfryctl lease grant 60\n"
                       "belfryctl lease timetolive 694d77aa9e38260f --keys\n"
                       "belfryctl lease keep-alive 694d77aa9e38260f",
        },
    [CMD_MEMBER] =
        {
            .name = "member",
            .arguments = "list",
            .words = "list",
            .min_args = 1,
            .max_args = 1,
            .summary = "list the members of the cluster",
            .notes = "One line per member: ID, status, name, peer addresses, client addresses, and\n"
                     "whether it is a learner. --output table prints the table of etcdctl -w table.",
            .example = "belfryctl member list\n"
                       "belfryctl member list --output table",
        },
    [CMD_STATUS] =
        {
            .name = "status",
            .arguments = "",
            .max_args = 0,
            .summary = "show the status of every endpoint",
            .notes = "One row per endpoint: member, version, size, revision and leader. The row of an\n"
                     "endpoint that does not answer says why. Exit code 1 if some do not answer, 3 if\n"
                     "none does.",
            .example = "belfryctl --endpoints http://10.0.0.1:2379,http://10.0.0.2:2379 status",
        },
    [CMD_TOP] =
        {
            .name = "top",
            .arguments = "",
            .max_args = 0,
            .summary = "show a belfryd live: its state, watchers, clients and their lag",
            .notes = "Asks the admin address of a belfryd every --interval. Keys: ? help, arrows, PgUp\n"
                     "and PgDn scroll, s sort, g group, / filter, c clients or watchers, q quit. It fits\n"
                     "80 columns; wider terminals show more columns (from 100, 120 and 140). If the output\n"
                     "is not a terminal, it prints once, as with --once. A full pool has a line in the\n"
                     "head, with the client that holds most. CPU of clients is an estimate of their share\n"
                     "over about 10 seconds. Without --sort the largest lag or CPU is first. Exit code 3\n"
                     "if the admin address does not answer.",
            .example = "belfryctl top\n"
                       "belfryctl top --admin http://10.0.0.7:23791 --filter /services/\n"
                       "belfryctl top --once --group range\n"
                       "belfryctl top --clients --sort memory\n"
                       "belfryctl top --once --output json",
        },
    [CMD_TREE] =
        {
            .name = "tree",
            .arguments = "",
            .max_args = 0,
            .summary = "show the tiers above and below a belfryd, and how far each is behind",
            .notes = "Asks the admin address of a belfryd. One row per level, etcd first: name, version,\n"
                     "standing, age of the report, revision, lag in revisions, and hop: the time that a\n"
                     "revision takes from the level above, measured, with its largest possible error.\n"
                     "etcd does not say when it published: below it, hop is half a round trip (rtt/2). A\n"
                     "level that has stopped reporting keeps its last standing with a question mark:\n"
                     "ready?. \"broken\" names the highest level that is in trouble, what it is, and for\n"
                     "how long. \"below\" lists the tiers that watch this one. Exit code 3 when the admin\n"
                     "address does not answer.",
            .example = "belfryctl tree\n"
                       "belfryctl tree --admin http://10.0.0.7:23791 --output json",
        },
    [CMD_HEALTH] =
        {
            .name = "health",
            .arguments = "",
            .max_args = 0,
            .summary = "check whether a belfryd is alive or ready: one line and an exit code",
            .notes = "For probes without a shell or curl. Asks the admin address of a belfryd whether\n"
                     "the process is alive or, with --ready, ready for clients. Prints \"alive\",\n"
                     "\"ready\", or \"not ready\" with the reasons. With --wait it retries until the answer\n"
                     "is yes or the time is over, and prints the last answer. Exit code 0 for yes, 1 for\n"
                     "no and for no answer within --command-timeout. Always 0 or 1, or 2 for wrong usage.",
            .example = "belfryctl health\n"
                       "belfryctl health --ready --wait 30s\n"
                       "belfryctl health --ready --command-timeout 1s\n"
                       "belfryctl health --ready --admin unix:///run/belfry/admin.sock",
        },
    [CMD_DOCTOR] =
        {
            .name = "doctor",
            .arguments = "[KEY [RANGE_END]]",
            .max_args = 2,
            .summary = "find faults between here, a belfryd and etcd, and how to fix them",
            .notes = "One line per step: ok, warn or fail, the finding, and the remedy. \"skip\" lists the\n"
                     "steps that cannot run because an earlier one failed. --endpoints defaults to\n"
                     "127.0.0.1:23790. With KEY it checks whether these credentials may read and watch\n"
                     "KEY. It asks the members of etcd from this machine, at the addresses that the\n"
                     "tier uses, with the same credentials. It writes nothing without --write-key. Exit\n"
                     "code 1 if a step failed, otherwise 0.",
            .more =
                "The steps: name, connect, tls and certificate of each endpoint. tier: does the admin address\n"
                "answer? disk, upstream, replica, lag (of each level of the tree), clock, descriptors, pools, auth\n"
                "and ready: what the tier says of itself. scope, identity and rights: what a client with these\n"
                "credentials is answered. advertise: do clients that sync their endpoints stay with the tier?\n"
                "members and versions: does each member of upstream answer, how fast, and does its version have\n"
                "known bugs? write: a new key on its way through the tier to etcd, and as an event back down all\n"
                "levels. The key is deleted again.\n"
                "\n"
                "Of a tier in front of Kubernetes API servers, resources: is each that it follows ready? The steps\n"
                "that are about keys and members of etcd are left out.\n"
                "\n"
                "Without --admin, the admin address of this machine is asked if the first endpoint is on this\n"
                "machine. The clock is compared with that of this machine. A lag counts if it lasts for half a\n"
                "second.",
            .example = "belfryctl doctor\n"
                       "belfryctl doctor --endpoints https://edge-7:23790 --cacert ca.pem --prefix /services/\n"
                       "belfryctl doctor --admin http://10.3.0.7:23791 --write-key /tmp/doctor --output json",
        },
    [CMD_VERIFY] =
        {
            .name = "verify",
            .arguments = "[KEY [RANGE_END]]",
            .max_args = 2,
            .summary = "prove that a tier delivers what etcd delivers",
            .notes = "Watches the etcd of --reference and the tier of --endpoints (default\n"
                     "127.0.0.1:23790), and compares every event: kind, key, value, revisions, version\n"
                     "and lease, and prev_kv if both have it. Without KEY: all keys. Watchers come and go\n"
                     "on the tier as clients do: from now, from old revisions, on the range and on parts\n"
                     "of it. Prints violations as they are found, the first 20 in full; at the end the\n"
                     "number of events and their lag. Ctrl-C ends it early. Exit code 1 for any\n"
                     "violation, 0 for none, 3 if a side cannot be reached. User, password and\n"
                     "certificates are for both sides; --reference-user, --reference-cert and so on\n"
                     "replace them for the reference. It writes nothing without --write, and deletes\n"
                     "what it wrote.",
            .more =
                "--kube: the tier follows a Kubernetes API server, and --reference is that server. Every event of\n"
                "the resource is compared, and in the end what both list. --endpoints is the tier's URL; --token\n"
                "or --token-file logs in at both, with rights to list and watch the resource.\n"
                "\n"
                "One side may speak TLS (https://) and the other not. If they have different authorities, users or\n"
                "client certificates, --cacert, --user, --cert and --key are for the tier, and --reference-cacert,\n"
                "--reference-user, --reference-cert and --reference-key for the reference.\n"
                "\n"
                "What is checked, by the names that are printed: filter, ordered, unique, atomic, bookmarkable,\n"
                "resumable, is_create, reliable and prev_kv are what etcd promises of a watch. progress: progress\n"
                "never reports a revision whose events have not all arrived. content: values and numbers are the\n"
                "same. header: headers are of the same cluster, and not older than their events. end: no watch ends\n"
                "with \"compacted\" unless the reference has compacted that revision. alive: every event comes within "
                "--max-lag; a watcher that replays\n"
                "history, or resumes after its connection was lost, receives something new within that time.\n"
                "\n"
                "The time does not count while the reference does not answer, while belfryctl itself is stopped or\n"
                "starved, and while it has unread data. While the tier cannot be reached at\n"
                "all nothing is a violation: how long that was is printed, and if it is still so at the end, the\n"
                "exit code is 3, because what is missing has not been verified.\n"
                "\n"
                "prev_kv may be missing where the reference has it: etcd leaves it out when the revision before the\n"
                "event has been compacted by the time it is sent, and so does a tier that read the event later than\n"
                "the reference did. Such events are counted. Once a second the reference is asked whether the\n"
                "revision before the newest of them can still be read: if so, no compaction explains it, and it is\n"
                "a violation.\n"
                "\n"
                "Lag is the time between an event on the reference's watch and on a watcher that has caught up, both\n"
                "as seen here; an event that the tier brings first counts as 0, and is counted. The newest revisions\n"
                "of the reference are kept in 128 MiB (of values only digests); what a watcher receives later than\n"
                "that is counted as not judged. Each watch needs the memory of one response besides. Every watcher\n"
                "that starts at an old revision is a replay of up to --history revisions for the tier: a smaller\n"
                "value is less work for it.\n"
                "\n"
                "etcd before 3.5.18 may forget a delete at the very revision that was compacted; a tier that relies\n"
                "on it can be blamed for it.",
            .example = "belfryctl verify --reference http://10.0.0.1:2379 --endpoints http://10.0.0.7:23790\n"
                       "belfryctl verify --reference etcd:2379 --endpoints belfry:23790 --prefix /registry/ --for 1h\n"
                       "belfryctl verify --reference https://etcd:2379 --reference-cacert etcd-ca.pem \\\n"
                       "    --reference-cert me.pem --reference-key me.key \\\n"
                       "    --endpoints https://belfry:23790 --cacert ca.pem --user me --password-file pass\n"
                       "belfryctl verify --reference etcd:2379 --endpoints belfry:23790 \\\n"
                       "    --write 100 --write-prefix /tmp/verify/ --for 1m --output json",
        },
    [CMD_KUBE] =
        {
            .name = "kube",
            .arguments = "config",
            .words = "config",
            .min_args = 1,
            .max_args = 1,
            .summary = "print a kubeconfig for a belfryd",
            .notes = "Does not connect. Files are embedded, so the kubeconfig can be moved; keep it secret\n"
                     "if it holds a key or a token. kubectl sends credentials only over https://, and\n"
                     "asks for a name and a password if it has none: then a placeholder token is\n"
                     "written, and a line on standard error says so. On the command line --endpoints,\n"
                     "--cacert, --cert and --key are other words for --server, --certificate-authority,\n"
                     "--client-certificate and --client-key. --server-name and\n"
                     "--insecure-skip-tls-verify are written as well.",
            .example = "belfryctl kube config > belfry.kubeconfig\n"
                       "kubectl --kubeconfig belfry.kubeconfig get widgets --watch\n"
                       "belfryctl kube config --server https://belfry.example.com:23790 \\\n"
                       "    --certificate-authority ca.pem --token-file token > belfry.kubeconfig",
        },
    [CMD_COMPLETION] =
        {
            .name = "completion",
            .arguments = "SHELL",
            .words = "bash|zsh|fish",
            .min_args = 1,
            .max_args = 1,
            .summary = "print the completion script for bash, zsh or fish",
            .notes = "The packages install it. Without them, load it in the shell's start file, or write\n"
                     "it where the shell looks for completions.",
            .example = "source <(belfryctl completion bash)\n"
                       "belfryctl completion zsh > ~/.zsh/functions/_belfryctl\n"
                       "belfryctl completion fish > ~/.config/fish/completions/belfryctl.fish",
        },
    [CMD_HELP] =
        {
            .name = "help",
            .arguments = "[COMMAND]",
            .words = "get|put|del|txn|watch|follow|lease|member|status|top|tree|health|doctor|verify|kube|completion|"
                     "version",
            .max_args = 1,
            .summary = "show this text, or the help of a command",
        },
    [CMD_VERSION] = {.name = "version", .arguments = "", .max_args = 0, .summary = "print the version"},
};

#define ON(command) (1u << (command)) /* belfry_opt_row.on */
#define RANGES      (ON(CMD_GET) | ON(CMD_DEL) | ON(CMD_WATCH) | ON(CMD_FOLLOW) | ON(CMD_DOCTOR))
#define LIVE        (ON(CMD_WATCH) | ON(CMD_FOLLOW))
#define ASKS_ADMIN  (ON(CMD_TOP) | ON(CMD_TREE) | ON(CMD_HEALTH) | ON(CMD_DOCTOR))

/* clang-format off */
#define BOOL               .kind = BELFRY_KIND_BOOL
#define COUNT              .kind = BELFRY_KIND_COUNT, .value_name = "N"
#define SIZE               .kind = BELFRY_KIND_SIZE_DECIMAL, .value_name = "SIZE"
#define TIME               .kind = BELFRY_KIND_MS, .value_name = "TIME", .most = INT32_MAX /* as poll(2): 24 days */
#define TEXT(value)        .kind = BELFRY_KIND_TEXT, .value_name = value
#define CHOICE(value, all) .kind = BELFRY_KIND_CHOICE, .value_name = value, .choices = all

static const struct belfry_opt_row flag_rows[] = {
    {FLAG_ENDPOINTS, "endpoints", .kind = BELFRY_KIND_LIST, .value_name = "URL,...", .fallback = "127.0.0.1:2379",
     .help = "host:port, http://, https:// or unix:///path; may repeat"},
    {FLAG_USER, "user", TEXT("NAME[:PASSWORD]"), .taker = TAKER_OPEN,
     .help = "log in; asks for the password if none is given"},
    {FLAG_PASSWORD, "password", TEXT("PASSWORD"), .taker = TAKER_OPEN,
     .help = "the password; other users can see it: prefer --password-file"},
    {FLAG_PASSWORD_FILE, "password-file", TEXT("FILE"), .taker = TAKER_OPEN,
     .help = "file whose first line is the password"},
    {FLAG_CACERT, "cacert", TEXT("FILE"), .taker = TAKER_OPEN,
     .help = "trust servers signed by these authorities (PEM)"},
    {FLAG_CERT, "cert", TEXT("FILE"), .taker = TAKER_OPEN, .help = "present this certificate to the server (PEM)"},
    {FLAG_KEY, "key", TEXT("FILE"), .taker = TAKER_OPEN, .help = "the private key of --cert (PEM)"},
    {FLAG_SERVER_NAME, "server-name", TEXT("NAME"), .taker = TAKER_OPEN,
     .help = "name in the server's certificate, if it is not the host"},
    {FLAG_INSECURE_SKIP_TLS_VERIFY, "insecure-skip-tls-verify", BOOL, .taker = TAKER_OPEN,
     .help = "accept any certificate; for tests only"},
    {FLAG_INSECURE_TRANSPORT, "insecure-transport", BOOL, .fallback = "true",
     .help = "=false: use TLS for endpoints without a scheme"},
    {FLAG_DIAL_TIMEOUT, "dial-timeout", TIME, .fallback = "2s", .taker = TAKER_OPEN,
     .help = "time limit for connecting to one endpoint"},
    {FLAG_COMMAND_TIMEOUT, "command-timeout", TIME, .fallback = "5s", .taker = TAKER_OPEN,
     .help = "time limit for one answer, with all retries"},
    {FLAG_KEEPALIVE_TIME, "keepalive-time", TIME, .fallback = "10s", .taker = TAKER_OPEN,
     .help = "ping an idle connection this often; at least 10s"},
    {FLAG_KEEPALIVE_TIMEOUT, "keepalive-timeout", TIME, .fallback = "5s", .taker = TAKER_OPEN,
     .help = "leave an endpoint that does not answer a ping within this time"},
    {FLAG_HASLEADER, "hasleader", BOOL, .fallback = "true", .taker = TAKER_OPEN,
     .help = "leave a leaderless member; =false: stay. Serializable reads go without"},
    {FLAG_MAX_MESSAGE, "max-message", SIZE, .fallback = "512MiB", .taker = TAKER_OPEN,
     .help = "reject larger messages and revisions"},
    {FLAG_WRITE_OUT, "write-out", .letter = 'w', CHOICE("FORM", "simple|json"),
     .help = "the same output as etcdctl: simple or json"},
    {FLAG_OUTPUT, "output", CHOICE("FORM", "json|table"),
     .help = "json: one line per event, keys as text; table: for people"},
    {FLAG_HEX, "hex", BOOL, .help = "write keys and values as \\xNN (simple and table)"},
    {FLAG_DEBUG, "debug", BOOL, .help = "log the session's steps on standard error"},
    {FLAG_HELP, "help", .letter = 'h', .line_only = true, BOOL, .help = "this text"},

    {FLAG_PREFIX, "prefix", BOOL, .on = RANGES, .help = "every key that begins with KEY ('' is all keys)"},
    {FLAG_FROM_KEY, "from-key", BOOL, .on = RANGES, .help = "KEY and every key after it"},
    {FLAG_RANGE, "range", BOOL, .on = ON(CMD_DEL), .help = "no effect: RANGE_END is enough (etcdctl 3.6 requires it)"},

    {FLAG_REV, "rev", COUNT, .on = ON(CMD_GET), .taker = TAKER_CALL, .help = "read the state at this revision"},
    {FLAG_LIMIT, "limit", COUNT, .on = ON(CMD_GET), .taker = TAKER_CALL, .help = "maximum number of keys"},
    {FLAG_CONSISTENCY, "consistency", CHOICE("l|s", "l|s"), .fallback = "l", .on = ON(CMD_GET), .taker = TAKER_CALL,
     .help = "linearizable, or serializable: faster, may be behind"},
    {FLAG_ORDER, "order", CHOICE("ORDER", "ascend|descend"), .on = ON(CMD_GET), .taker = TAKER_CALL,
     .help = "ASCEND or DESCEND"},
    {FLAG_SORT_BY, "sort-by", CHOICE("WHAT", "create|key|modify|value|version"), .on = ON(CMD_GET),
     .taker = TAKER_CALL,
     .help = "CREATE, KEY, MODIFY, VALUE or VERSION"},
    {FLAG_KEYS_ONLY, "keys-only", BOOL, .on = ON(CMD_GET), .taker = TAKER_CALL, .help = "no values"},
    {FLAG_COUNT_ONLY, "count-only", BOOL, .on = ON(CMD_GET), .taker = TAKER_CALL, .help = "only the number of keys"},
    {FLAG_PRINT_VALUE_ONLY, "print-value-only", BOOL, .on = ON(CMD_GET), .help = "only values, no keys (simple)"},
    {FLAG_MIN_MOD_REV, "min-mod-rev", COUNT, .on = ON(CMD_GET), .taker = TAKER_CALL,
     .help = "only keys last changed at this revision or later"},
    {FLAG_MAX_MOD_REV, "max-mod-rev", COUNT, .on = ON(CMD_GET), .taker = TAKER_CALL,
     .help = "only keys last changed at this revision or earlier"},
    {FLAG_MIN_CREATE_REV, "min-create-rev", COUNT, .on = ON(CMD_GET), .taker = TAKER_CALL,
     .help = "only keys created at this revision or later"},
    {FLAG_MAX_CREATE_REV, "max-create-rev", COUNT, .on = ON(CMD_GET), .taker = TAKER_CALL,
     .help = "only keys created at this revision or earlier"},

    {FLAG_LEASE, "lease", .kind = BELFRY_KIND_HEX, .value_name = "HEX", .on = ON(CMD_PUT), .taker = TAKER_CALL,
     .help = "attach the key to this lease"},
    {FLAG_KEYS, "keys", BOOL, .on = ON(CMD_LEASE), .taker = TAKER_CALL, .help = "timetolive: also list its keys"},
    {FLAG_ONCE, "once", BOOL, .on = ON(CMD_LEASE), .help = "keep-alive: renew once"},
    {FLAG_IGNORE_VALUE, "ignore-value", BOOL, .on = ON(CMD_PUT), .taker = TAKER_CALL,
     .help = "keep the current value"},
    {FLAG_IGNORE_LEASE, "ignore-lease", BOOL, .on = ON(CMD_PUT), .taker = TAKER_CALL,
     .help = "keep the current lease"},
    {FLAG_PREV_KV, "prev-kv", BOOL, .on = ON(CMD_PUT) | ON(CMD_DEL), .taker = TAKER_CALL,
     .help = "also print the previous value"},

    {FLAG_REV, "rev", COUNT, .on = ON(CMD_WATCH), .taker = TAKER_CALL,
     .help = "start with the changes of this revision"},
    {FLAG_PREV_KV, "prev-kv", BOOL, .on = LIVE, .taker = TAKER_CALL,
     .help = "also print the previous value of each change"},
    {FLAG_PROGRESS_NOTIFY, "progress-notify", BOOL, .on = ON(CMD_WATCH), .taker = TAKER_CALL,
     .help = "print the revision now and then while nothing changes"},
    {FLAG_NO_PUT, "no-put", BOOL, .on = ON(CMD_WATCH), .taker = TAKER_CALL, .help = "leave out puts"},
    {FLAG_NO_DELETE, "no-delete", BOOL, .on = ON(CMD_WATCH), .taker = TAKER_CALL, .help = "leave out deletes"},
    {FLAG_FRAGMENT, "fragment", BOOL, .fallback = "true", .on = ON(CMD_WATCH), .taker = TAKER_CALL,
     .help = "let the server split responses over 32 MiB"},
    {FLAG_INTERACTIVE, "interactive", .letter = 'i', .kind = BELFRY_KIND_REFUSED, .on = ON(CMD_WATCH),
     .help = "not supported: run one belfryctl watch per key"},
    {FLAG_INTERACTIVE, "interactive", .letter = 'i', BOOL, .on = ON(CMD_TXN), .help = "print which list is being read"},
    {FLAG_ONCE, "once", BOOL, .on = ON(CMD_FOLLOW), .taker = TAKER_CALL, .help = "exit when the state is complete"},
    {FLAG_PAGE_BYTES, "page-bytes", SIZE, .fallback = "1MiB", .on = ON(CMD_FOLLOW), .taker = TAKER_CALL,
     .help = "read the state in pages of about this size"},

    {FLAG_ADMIN, "admin", TEXT("URL"), .fallback = "http://127.0.0.1:23791", .on = ASKS_ADMIN,
     .help = "admin address: http://host:port or unix:///path"},
    {FLAG_READY, "ready", BOOL, .on = ON(CMD_HEALTH), .help = "is it ready for clients? Without: is it alive?"},
    {FLAG_WAIT, "wait", TIME, .fallback = "0s", .on = ON(CMD_HEALTH), .help = "retry for up to this long"},
    {FLAG_UPSTREAM, "upstream", TEXT("URL,..."), .on = ON(CMD_DOCTOR),
     .help = "members of etcd, or a tier above; default: as the tier reports"},
    {FLAG_WRITE_KEY, "write-key", TEXT("KEY"), .on = ON(CMD_DOCTOR),
     .help = "write this new key, follow it down all tiers, and delete it"},
    {FLAG_ONCE, "once", BOOL, .on = ON(CMD_TOP), .help = "print once and exit"},
    {FLAG_INTERVAL, "interval", TIME, .fallback = "2s", .on = ON(CMD_TOP),
     .help = "redraw this often; at least 200ms"},
    {FLAG_CLIENTS, "clients", BOOL, .on = ON(CMD_TOP), .help = "show the cost of each client instead of watchers"},
    {FLAG_HOUR, "hour", BOOL, .on = ON(CMD_TOP), .help = "show the last hour instead of watchers"},
    {FLAG_SORT, "sort", CHOICE("WHAT", "lag|sent|age|cpu|memory|calls|connections"), .on = ON(CMD_TOP),
     .help = "sort by lag, sent or age; --clients: cpu, memory, calls, connections"},
    {FLAG_LIMIT, "limit", COUNT, .fallback = "50", .on = ON(CMD_TOP),
     .help = "number of watchers or groups, up to 10000; of clients, up to 1000"},
    {FLAG_GROUP, "group", CHOICE("WHAT", "range|peer|state"), .on = ON(CMD_TOP),
     .help = "count watchers by range, peer or state"},
    {FLAG_FILTER, "filter", TEXT("TEXT"), .on = ON(CMD_TOP),
     .help = "only rows with this text in peer, identity, client, key, state or dialect"},

    {FLAG_SERVER, "server", TEXT("URL"), .fallback = "http://127.0.0.1:23790", .on = ON(CMD_KUBE),
     .help = "http://host:port or https://host:port of the belfryd"},
    {FLAG_NAME, "name", TEXT("NAME"), .fallback = "belfry", .on = ON(CMD_KUBE),
     .help = "name of cluster, user and context"},
    {FLAG_NAMESPACE, "namespace", TEXT("NAME"), .on = ON(CMD_KUBE),
     .help = "kubectl's default namespace"},
    {FLAG_TOKEN, "token", TEXT("TOKEN"), .on = ON(CMD_KUBE) | ON(CMD_VERIFY),
     .help = "log in with it; other users can see it: prefer --token-file"},
    {FLAG_TOKEN_FILE, "token-file", TEXT("FILE"), .on = ON(CMD_KUBE) | ON(CMD_VERIFY),
     .help = "file whose first line is the token"},
    {FLAG_CERTIFICATE_AUTHORITY, "certificate-authority", TEXT("FILE"), .on = ON(CMD_KUBE),
     .help = "trust a belfryd signed by these authorities (PEM)"},
    {FLAG_CLIENT_CERTIFICATE, "client-certificate", TEXT("FILE"), .on = ON(CMD_KUBE),
     .help = "present this certificate to the belfryd (PEM)"},
    {FLAG_CLIENT_KEY, "client-key", TEXT("FILE"), .on = ON(CMD_KUBE),
     .help = "the private key of --client-certificate (PEM)"},

    {FLAG_REFERENCE, "reference", TEXT("URL,..."), .on = ON(CMD_VERIFY),
     .help = "endpoints of the etcd to compare with; --kube: URL of the API server"},
    {FLAG_REFERENCE_USER, "reference-user", TEXT("NAME[:PASSWORD]"), .on = ON(CMD_VERIFY),
     .help = "log in at the reference as this user instead of --user"},
    {FLAG_REFERENCE_PASSWORD_FILE, "reference-password-file", TEXT("FILE"), .on = ON(CMD_VERIFY),
     .help = "file whose first line is the password of --reference-user"},
    {FLAG_REFERENCE_CACERT, "reference-cacert", TEXT("FILE"), .on = ON(CMD_VERIFY),
     .help = "trust a reference signed by these authorities, instead of --cacert (PEM)"},
    {FLAG_REFERENCE_CERT, "reference-cert", TEXT("FILE"), .on = ON(CMD_VERIFY),
     .help = "present this certificate to the reference instead of --cert (PEM)"},
    {FLAG_REFERENCE_KEY, "reference-key", TEXT("FILE"), .on = ON(CMD_VERIFY),
     .help = "the private key of --reference-cert (PEM)"},
    {FLAG_REFERENCE_SERVER_NAME, "reference-server-name", TEXT("NAME"), .on = ON(CMD_VERIFY),
     .help = "the name in the reference's certificate, instead of --server-name"},
    {FLAG_KUBE, "kube", TEXT("RESOURCE"), .on = ON(CMD_VERIFY),
     .help = "compare a resource with an API server: v1/pods, apps/v1/deployments"},
    {FLAG_PREFIX, "prefix", BOOL, .on = ON(CMD_VERIFY),
     .help = "every key that begins with KEY; --prefix=KEY is the same"},
    {FLAG_FROM_KEY, "from-key", BOOL, .on = ON(CMD_VERIFY), .help = "KEY and every key after it"},
    {FLAG_FOR, "for", TIME, .fallback = "10m", .on = ON(CMD_VERIFY), .help = "run this long; 0s: until Ctrl-C"},
    {FLAG_WATCHERS, "watchers", COUNT, .fallback = "8", .on = ON(CMD_VERIFY),
     .help = "number of watchers on the tier, up to 64"},
    {FLAG_HISTORY, "history", COUNT, .fallback = "10000", .on = ON(CMD_VERIFY),
     .help = "watchers start up to this many revisions back; 0: only from now on"},
    {FLAG_MAX_LAG, "max-lag", TIME, .fallback = "30s", .on = ON(CMD_VERIFY),
     .help = "a later event is a violation"},
    {FLAG_WRITE, "write", COUNT, .on = ON(CMD_VERIFY), .help = "writes per second to the reference"},
    {FLAG_WRITE_PREFIX, "write-prefix", TEXT("KEY"), .on = ON(CMD_VERIFY),
     .help = "prefix of the keys of --write"},
};
/* clang-format on */

const struct belfry_opt_table flag_table = {
    .program = "belfryctl",
    .ask = "belfryctl help",
    .env = {"BELFRYCTL_", "ETCDCTL_"},
    .rows = flag_rows,
    .n_rows = sizeof(flag_rows) / sizeof(flag_rows[0]),
    .commands = command_rows,
    .n_commands = N_COMMANDS,
    .about = "belfryctl: read, write, watch and follow keys in etcd, or in a belfryd.\n"
             "Arguments, flags and variables are those of etcdctl where it has them.\n"
             "\nUsage: belfryctl [flags] COMMAND [arguments]\n",
    .end = "Environment: BELFRYCTL_ENDPOINTS, else ETCDCTL_ENDPOINTS, stands for --endpoints, and so\n"
           "on for every flag (upper case, - as _). A flag on the command line overrides both.\n"
           "\nExit code: 0 done (also if a key is missing), 1 failed, 2 wrong usage, 3 no endpoint\n"
           "answered in time, 4 refused (credentials or rights), 5 compacted, 130 Ctrl-C.\n",
};
