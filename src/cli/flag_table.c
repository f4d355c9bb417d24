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
                     "not exist prints nothing and is no failure.",
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
                     "end. A value that begins with a dash goes behind --, and there - is a plain\n"
                     "value. A write is never sent twice: when the connection breaks under it,\n"
                     "belfryctl says that it may or may not have happened.",
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
            .summary = "do several things at once, if conditions hold",
            .notes = "Reads three lists from standard input, each ended by a blank line: conditions,\n"
                     "requests if all of them hold, requests if not. Conditions compare ver (version),\n"
                     "create and mod (revisions), val (value) or lease of a key by = != < and >; both\n"
                     "sides are in quotes. Requests are get, put and del with their flags. Words with\n"
                     "blanks are in quotes. Prints SUCCESS or FAILURE, which says what held, not that\n"
                     "something failed, and what each request of the list that ran has to say.",
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
            .notes = "Every change once, in order, each revision whole, through any fault: when an\n"
                     "endpoint goes away the watch goes on at another where it was, and says so on\n"
                     "standard error. On a terminal it prints a table, elsewhere what etcdctl prints;\n"
                     "-w and --output choose. It ends by Ctrl-C, or when nobody reads it any more.",
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
            .notes = "First every key there is, then a line that says that this is all of it, then\n"
                     "changes for ever. Unlike a watch it needs no revision and is never told\n"
                     "\"compacted\": when history was lost, what changed meanwhile is given as state\n"
                     "and deletes.",
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
            .summary = "grant, revoke, timetolive, list and keep-alive",
            .notes = "lease grant TTL        a new one, of so many seconds\n"
                     "lease revoke ID        ends it, and deletes the keys on it\n"
                     "lease timetolive ID    how long it lives; --keys: and what is on it\n"
                     "lease list             all of them\n"
                     "lease keep-alive ID    renews it until it is gone, or Ctrl-C; --once: once\n"
                     "An ID is in hexadecimal digits, as it is printed.",
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
            .notes = "One line a member: ID, status, name, peer addresses, client addresses, whether it\n"
                     "is a learner. With --output table the table of etcdctl -w table.",
            .example = "belfryctl member list\n"
                       "belfryctl member list --output table",
        },
    [CMD_STATUS] =
        {
            .name = "status",
            .arguments = "",
            .max_args = 0,
            .summary = "ask every endpoint how it is",
            .notes = "One row for each of --endpoints: who it is, how large, how far, and who leads.\n"
                     "An endpoint that does not answer has a row that says why. Exit code 1 when\n"
                     "some did not answer, 3 when none did.",
            .example = "belfryctl --endpoints http://10.0.0.1:2379,http://10.0.0.2:2379 status",
        },
    [CMD_TOP] =
        {
            .name = "top",
            .arguments = "",
            .max_args = 0,
            .summary = "show a belfryd: how it stands, and who watches what and how far behind",
            .notes = "Asks the admin address of a belfryd, and draws anew every --interval. Keys: ?\n"
                     "help, arrows and PgUp, PgDn scroll, s another order, g another grouping, / a\n"
                     "filter, c clients or watchers, q the end. It fits 80 columns; from 100, 120 and\n"
                     "140 on there are more. Elsewhere than on a terminal it prints once, as with --once.\n"
                     "A pool that is full has a line in the head, with the client that holds most. CPU of\n"
                     "clients is an estimate from what each did in about the last 10 seconds, as a share\n"
                     "of all of them. Without --sort the largest lag or CPU is first. Exit code 3 when\n"
                     "nobody answers there.",
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
            .summary = "tell in one line and by the exit code whether a belfryd is alive, or ready",
            .notes = "For probes, where there is no shell and no curl. Asks the admin address of a\n"
                     "belfryd: is the process alive? With --ready: should it receive clients now? It\n"
                     "prints \"alive\", or \"ready\", or \"not ready\" with the reasons. With --wait it\n"
                     "asks again until the answer is yes or the time is over, and prints the last\n"
                     "answer. Exit code 0 for yes, 1 for no and for no answer within\n"
                     "--command-timeout.",
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
            .summary = "find what is wrong between here, a belfryd and etcd, and say what helps",
            .notes = "One line per step: ok, warn or fail, what was found, and what to do. Steps that\n"
                     "cannot run because one before them failed are named after \"skip\". --endpoints\n"
                     "is 127.0.0.1:23790 unless it is given. With KEY: may it be read and watched by\n"
                     "these credentials? The members of etcd are asked from this machine, by the\n"
                     "addresses that the tier has, with the same credentials. Nothing is written\n"
                     "unless --write-key is given. Exit code 1 if a step failed, 0 otherwise.",
            .more =
                "The steps: name, connect, tls and certificate of each endpoint. tier: does the admin address\n"
                "answer? disk, upstream, replica, lag (of each level of the tree), clock, descriptors, pools, auth\n"
                "and ready: what the tier says of itself. scope, identity and rights: what a client with these\n"
                "credentials is answered. advertise: do clients that sync their endpoints stay with the tier?\n"
                "members and versions: does each member of upstream answer, how soon, and what is known against its\n"
                "version? write: a new key on its way through the tier to etcd, and as an event back down all\n"
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
            .summary = "prove that a tier gives what etcd gives",
            .notes = "Watches --reference, which is believed, and --endpoints, which is not\n"
                     "(127.0.0.1:23790 unless it is given), and compares every event: kind, key,\n"
                     "value, revisions, version and lease always, prev_kv when both have it. Without\n"
                     "KEY: all keys. Watchers come and go on the tier as clients do: from now on, from\n"
                     "old revisions, of the range and of parts of it. Violations are printed as they\n"
                     "are found, the first 20 in full; then how many events were checked, and how much\n"
                     "later they came. Ctrl-C ends it early. Exit code 1 on any violation, 0 when\n"
                     "there is none, 3 when a side cannot be reached. User, password and certificates\n"
                     "are for both sides; those of --reference-user, --reference-cert and so on are for\n"
                     "the reference. Nothing is written unless --write is given; what it writes is\n"
                     "deleted at the end.",
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
                "resumable, is_create, reliable and prev_kv are what etcd promises of a watch. progress: it runs\n"
                "ahead of nothing. content: values and numbers are the same. header: headers are of the same\n"
                "cluster, and not older than what they bring. end: no watcher hears of a compaction that the\n"
                "reference does not know of. alive: every event comes within --max-lag; a watcher that replays\n"
                "history, or resumes after its connection was lost, receives something new within that time.\n"
                "\n"
                "The time does not count while the reference does not answer, while belfryctl itself is stopped or\n"
                "starved, and as long as something waits in its own sockets. While the tier cannot be reached at\n"
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
            .summary = "print a kubeconfig by which kubectl and the like find a belfryd",
            .notes = "Connects to nothing. Files are embedded, so that what is printed can be moved;\n"
                     "a key or a token in it is a secret. kubectl sends credentials over https://\n"
                     "only, and there it asks for a name and a password when it has none: then a\n"
                     "placeholder token is written, and a line on standard error says so. On the\n"
                     "command line --endpoints, --cacert, --cert and --key are other words for --server,\n"
                     "--certificate-authority, --client-certificate and --client-key. --server-name and\n"
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
            .summary = "print what bash, zsh or fish needs to complete belfryctl",
            .notes = "The packages install it already. Without them, load it in the shell's own\n"
                     "start file, or write it where the shell looks for it.",
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
            .summary = "this text, or that of a command",
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
     .help = "log in; asks for the password when none is given"},
    {FLAG_PASSWORD, "password", TEXT("PASSWORD"), .taker = TAKER_OPEN,
     .help = "the password; visible to other users: prefer --password-file"},
    {FLAG_PASSWORD_FILE, "password-file", TEXT("FILE"), .taker = TAKER_OPEN,
     .help = "the file whose first line is the password"},
    {FLAG_CACERT, "cacert", TEXT("FILE"), .taker = TAKER_OPEN,
     .help = "trust servers signed by these authorities (PEM)"},
    {FLAG_CERT, "cert", TEXT("FILE"), .taker = TAKER_OPEN, .help = "show this certificate to the server (PEM)"},
    {FLAG_KEY, "key", TEXT("FILE"), .taker = TAKER_OPEN, .help = "the private key of --cert (PEM)"},
    {FLAG_SERVER_NAME, "server-name", TEXT("NAME"), .taker = TAKER_OPEN,
     .help = "the name the server's certificate must carry, if not the host"},
    {FLAG_INSECURE_SKIP_TLS_VERIFY, "insecure-skip-tls-verify", BOOL, .taker = TAKER_OPEN,
     .help = "take any certificate; for tests only"},
    {FLAG_INSECURE_TRANSPORT, "insecure-transport", BOOL, .fallback = "true",
     .help = "=false: TLS also for endpoints without a scheme"},
    {FLAG_DIAL_TIMEOUT, "dial-timeout", TIME, .fallback = "2s", .taker = TAKER_OPEN,
     .help = "for connecting to one endpoint"},
    {FLAG_COMMAND_TIMEOUT, "command-timeout", TIME, .fallback = "5s", .taker = TAKER_OPEN,
     .help = "for one answer, all tries together"},
    {FLAG_KEEPALIVE_TIME, "keepalive-time", TIME, .fallback = "10s", .taker = TAKER_OPEN,
     .help = "ping an idle connection this often; less than 10s is taken as 10s"},
    {FLAG_KEEPALIVE_TIMEOUT, "keepalive-timeout", TIME, .fallback = "5s", .taker = TAKER_OPEN,
     .help = "leave an endpoint that does not answer a ping in this time"},
    {FLAG_HASLEADER, "hasleader", BOOL, .fallback = "true", .taker = TAKER_OPEN,
     .help = "leave a member that has no leader"},
    {FLAG_MAX_MESSAGE, "max-message", SIZE, .fallback = "512MiB", .taker = TAKER_OPEN,
     .help = "refuse a larger message, or a larger revision"},
    {FLAG_WRITE_OUT, "write-out", .letter = 'w', CHOICE("FORM", "simple|json"),
     .help = "the bytes that etcdctl writes: simple or json"},
    {FLAG_OUTPUT, "output", CHOICE("FORM", "json|table"),
     .help = "json: one line per event, keys as text; table: for people"},
    {FLAG_HEX, "hex", BOOL, .help = "write keys and values as \\xNN (simple and table)"},
    {FLAG_DEBUG, "debug", BOOL, .help = "say on standard error what the session is doing"},
    {FLAG_HELP, "help", .letter = 'h', .line_only = true, BOOL, .help = "this text"},

    {FLAG_PREFIX, "prefix", BOOL, .on = RANGES, .help = "every key that begins with KEY ('' is all keys)"},
    {FLAG_FROM_KEY, "from-key", BOOL, .on = RANGES, .help = "KEY and every key after it"},
    {FLAG_RANGE, "range", BOOL, .on = ON(CMD_DEL), .help = "nothing: RANGE_END is enough (etcdctl 3.6 asks for it)"},

    {FLAG_REV, "rev", COUNT, .on = ON(CMD_GET), .taker = TAKER_CALL, .help = "read what was there at this revision"},
    {FLAG_LIMIT, "limit", COUNT, .on = ON(CMD_GET), .taker = TAKER_CALL, .help = "at most so many keys"},
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
     .help = "the key goes when this lease does"},
    {FLAG_KEYS, "keys", BOOL, .on = ON(CMD_LEASE), .taker = TAKER_CALL, .help = "timetolive: also the keys on it"},
    {FLAG_ONCE, "once", BOOL, .on = ON(CMD_LEASE), .help = "keep-alive: renew once"},
    {FLAG_IGNORE_VALUE, "ignore-value", BOOL, .on = ON(CMD_PUT), .taker = TAKER_CALL,
     .help = "keep the value it has"},
    {FLAG_IGNORE_LEASE, "ignore-lease", BOOL, .on = ON(CMD_PUT), .taker = TAKER_CALL,
     .help = "keep the lease it has"},
    {FLAG_PREV_KV, "prev-kv", BOOL, .on = ON(CMD_PUT) | ON(CMD_DEL), .taker = TAKER_CALL,
     .help = "print what was there before, too"},

    {FLAG_REV, "rev", COUNT, .on = ON(CMD_WATCH), .taker = TAKER_CALL,
     .help = "begin with the changes of this revision"},
    {FLAG_PREV_KV, "prev-kv", BOOL, .on = LIVE, .taker = TAKER_CALL,
     .help = "with each change what was there before"},
    {FLAG_PROGRESS_NOTIFY, "progress-notify", BOOL, .on = ON(CMD_WATCH), .taker = TAKER_CALL,
     .help = "say now and then how far it is, when nothing changes"},
    {FLAG_NO_PUT, "no-put", BOOL, .on = ON(CMD_WATCH), .taker = TAKER_CALL, .help = "leave out puts"},
    {FLAG_NO_DELETE, "no-delete", BOOL, .on = ON(CMD_WATCH), .taker = TAKER_CALL, .help = "leave out deletes"},
    {FLAG_FRAGMENT, "fragment", BOOL, .fallback = "true", .on = ON(CMD_WATCH), .taker = TAKER_CALL,
     .help = "let the server send what is over 32 MiB in pieces"},
    {FLAG_INTERACTIVE, "interactive", .letter = 'i', .kind = BELFRY_KIND_REFUSED, .on = ON(CMD_WATCH),
     .help = "not here: run one belfryctl watch for each key"},
    {FLAG_INTERACTIVE, "interactive", .letter = 'i', BOOL, .on = ON(CMD_TXN), .help = "say which list is being read"},
    {FLAG_ONCE, "once", BOOL, .on = ON(CMD_FOLLOW), .taker = TAKER_CALL, .help = "end when the state is complete"},
    {FLAG_PAGE_BYTES, "page-bytes", SIZE, .fallback = "1MiB", .on = ON(CMD_FOLLOW), .taker = TAKER_CALL,
     .help = "read the state in pages of about this size"},

    {FLAG_ADMIN, "admin", TEXT("URL"), .fallback = "http://127.0.0.1:23791", .on = ASKS_ADMIN,
     .help = "http://host:port or unix:///path of the belfryd"},
    {FLAG_READY, "ready", BOOL, .on = ON(CMD_HEALTH), .help = "should it receive clients? else: is it alive?"},
    {FLAG_WAIT, "wait", TIME, .fallback = "0s", .on = ON(CMD_HEALTH), .help = "keep asking for up to this long"},
    {FLAG_UPSTREAM, "upstream", TEXT("URL,..."), .on = ON(CMD_DOCTOR),
     .help = "members of etcd, or a tier above; default: what the tier says it has"},
    {FLAG_WRITE_KEY, "write-key", TEXT("KEY"), .on = ON(CMD_DOCTOR),
     .help = "write this key, which must not exist, follow it down all tiers, and delete it"},
    {FLAG_ONCE, "once", BOOL, .on = ON(CMD_TOP), .help = "print once and end"},
    {FLAG_INTERVAL, "interval", TIME, .fallback = "2s", .on = ON(CMD_TOP),
     .help = "redraw this often; at least 200ms"},
    {FLAG_CLIENTS, "clients", BOOL, .on = ON(CMD_TOP), .help = "show what each client costs instead of watchers"},
    {FLAG_HOUR, "hour", BOOL, .on = ON(CMD_TOP), .help = "show the last hour instead of watchers"},
    {FLAG_SORT, "sort", CHOICE("WHAT", "lag|sent|age|cpu|memory|calls|connections"), .on = ON(CMD_TOP),
     .help = "the largest lag, sent or age first; --clients: cpu, memory, calls, connections"},
    {FLAG_LIMIT, "limit", COUNT, .fallback = "50", .on = ON(CMD_TOP),
     .help = "at most so many watchers or groups, up to 10000; of clients up to 1000"},
    {FLAG_GROUP, "group", CHOICE("WHAT", "range|peer|state"), .on = ON(CMD_TOP),
     .help = "count watchers by range, peer or state"},
    {FLAG_FILTER, "filter", TEXT("TEXT"), .on = ON(CMD_TOP),
     .help = "only those with this in their peer, identity, client, key, state or dialect"},

    {FLAG_SERVER, "server", TEXT("URL"), .fallback = "http://127.0.0.1:23790", .on = ON(CMD_KUBE),
     .help = "http://host:port or https://host:port of the belfryd"},
    {FLAG_NAME, "name", TEXT("NAME"), .fallback = "belfry", .on = ON(CMD_KUBE),
     .help = "what cluster, user and context are called"},
    {FLAG_NAMESPACE, "namespace", TEXT("NAME"), .on = ON(CMD_KUBE),
     .help = "the namespace that kubectl looks at when it is not told"},
    {FLAG_TOKEN, "token", TEXT("TOKEN"), .on = ON(CMD_KUBE) | ON(CMD_VERIFY),
     .help = "log in with it; visible to other users: prefer --token-file"},
    {FLAG_TOKEN_FILE, "token-file", TEXT("FILE"), .on = ON(CMD_KUBE) | ON(CMD_VERIFY),
     .help = "the file whose first line is the token"},
    {FLAG_CERTIFICATE_AUTHORITY, "certificate-authority", TEXT("FILE"), .on = ON(CMD_KUBE),
     .help = "trust a belfryd signed by these authorities (PEM)"},
    {FLAG_CLIENT_CERTIFICATE, "client-certificate", TEXT("FILE"), .on = ON(CMD_KUBE),
     .help = "show this certificate to the belfryd (PEM)"},
    {FLAG_CLIENT_KEY, "client-key", TEXT("FILE"), .on = ON(CMD_KUBE),
     .help = "the private key of --client-certificate (PEM)"},

    {FLAG_REFERENCE, "reference", TEXT("URL,..."), .on = ON(CMD_VERIFY),
     .help = "endpoints of the etcd that is believed; --kube: URL of the API server"},
    {FLAG_REFERENCE_USER, "reference-user", TEXT("NAME[:PASSWORD]"), .on = ON(CMD_VERIFY),
     .help = "log in at the reference as this user instead of --user"},
    {FLAG_REFERENCE_PASSWORD_FILE, "reference-password-file", TEXT("FILE"), .on = ON(CMD_VERIFY),
     .help = "the file whose first line is the password of --reference-user"},
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
    {FLAG_FOR, "for", TIME, .fallback = "10m", .on = ON(CMD_VERIFY), .help = "so long; 0s: until Ctrl-C"},
    {FLAG_WATCHERS, "watchers", COUNT, .fallback = "8", .on = ON(CMD_VERIFY),
     .help = "so many watchers on the tier, up to 64"},
    {FLAG_HISTORY, "history", COUNT, .fallback = "10000", .on = ON(CMD_VERIFY),
     .help = "watchers start up to so many revisions back; 0: only from now on"},
    {FLAG_MAX_LAG, "max-lag", TIME, .fallback = "30s", .on = ON(CMD_VERIFY),
     .help = "an event that is later than that is a violation"},
    {FLAG_WRITE, "write", COUNT, .on = ON(CMD_VERIFY), .help = "write so many times a second to the reference"},
    {FLAG_WRITE_PREFIX, "write-prefix", TEXT("KEY"), .on = ON(CMD_VERIFY),
     .help = "the keys of --write begin with this"},
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
    .end = "Environment: BELFRYCTL_ENDPOINTS stands for --endpoints, and so on for every flag\n"
           "(upper case, - as _); where it is not set, ETCDCTL_ENDPOINTS does. A flag wins.\n"
           "\nExit code: 0 done (a missing key too), 1 failed, 2 wrong usage, 3 no endpoint\n"
           "answered in time, 4 refused (credentials or rights), 5 compacted, 130 Ctrl-C.\n",
};
