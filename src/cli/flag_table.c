/* src/cli/flag_table.c: the tables of commands and options. Everything that names a flag is made from them. */
#include "cli/flags.h"

const struct command_row command_rows[N_COMMANDS] = {
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
            .notes = "Asks the admin address of a belfryd, and draws anew every --interval. Keys: s\n"
                     "another order, g another grouping, / a filter, q the end. Elsewhere than on a\n"
                     "terminal it prints once, as with --once. Exit code 3 when nobody answers there.",
            .example = "belfryctl top\n"
                       "belfryctl top --admin http://10.0.0.7:23791 --filter /services/\n"
                       "belfryctl top --once --group range\n"
                       "belfryctl top --once --output json",
        },
    [CMD_TREE] =
        {
            .name = "tree",
            .arguments = "",
            .max_args = 0,
            .summary = "show the tiers above and below a belfryd, and how far each is behind",
            .notes = "Asks the admin address of a belfryd. A row a level, etcd first: name, version,\n"
                     "standing, age of this knowledge, revision, lag in revisions, and hop: the time a\n"
                     "revision takes from the level above to that one, measured, with the most it can be\n"
                     "wrong by. A standing that is too old to be true of now is shown as ?. etcd does not\n"
                     "tell when it published: there half a round trip (rtt/2) is shown instead. Below\n"
                     "are the tiers that watch there now. Exit code 3 when nobody answers there.",
            .example = "belfryctl tree\n"
                       "belfryctl tree --admin http://10.0.0.7:23791 --output json",
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
                     "are the same for both sides. Nothing is written unless --write is given; what it\n"
                     "writes is deleted at the end.",
            .example = "belfryctl verify --reference http://10.0.0.1:2379 --endpoints http://10.0.0.7:23790\n"
                       "belfryctl verify --reference etcd:2379 --endpoints belfry:23790 --prefix /registry/ --for 1h\n"
                       "belfryctl verify --reference etcd:2379 --endpoints belfry:23790 \\\n"
                       "    --write 100 --write-prefix /tmp/verify/ --for 1m --output json",
        },
    [CMD_KUBE] =
        {
            .name = "kube",
            .arguments = "config",
            .min_args = 1,
            .max_args = 1,
            .summary = "print a kubeconfig by which kubectl and the like find a belfryd",
            .notes = "Connects to nothing. Files are embedded, so that what is printed can be moved;\n"
                     "a key or a token in it is a secret. kubectl sends credentials over https://\n"
                     "only, and there it asks for a name and a password when it has none: then a\n"
                     "token that means nothing is written, and a line on standard error says so.\n"
                     "--server-name and --insecure-skip-tls-verify go into it as well.",
            .example = "belfryctl kube config > belfry.kubeconfig\n"
                       "kubectl --kubeconfig belfry.kubeconfig get widgets --watch\n"
                       "belfryctl kube config --server https://belfry.example.com:23790 \\\n"
                       "    --certificate-authority ca.pem --token-file token > belfry.kubeconfig",
        },
    [CMD_HELP] =
        {
            .name = "help",
            .arguments = "[COMMAND]",
            .max_args = 1,
            .summary = "this text, or that of a command",
        },
    [CMD_VERSION] = {.name = "version", .arguments = "", .max_args = 0, .summary = "print the version"},
};

#define RANGES (ON(CMD_GET) | ON(CMD_DEL) | ON(CMD_WATCH) | ON(CMD_FOLLOW))
#define LIVE   (ON(CMD_WATCH) | ON(CMD_FOLLOW))

/* clang-format off */
const struct flag_row flag_rows[] = {
    {FLAG_ENDPOINTS, "endpoints", 0, "URL,...", KIND_LIST, "127.0.0.1:2379", ON_ALL, TAKER_HERE, NULL, NULL,
     "host:port, http://, https:// or unix:///path; may repeat"},
    {FLAG_USER, "user", 0, "NAME[:PASSWORD]", KIND_TEXT, NULL, ON_ALL, TAKER_OPEN, "user", NULL,
     "log in; asks for the password when none is given"},
    {FLAG_PASSWORD, "password", 0, "PASSWORD", KIND_TEXT, NULL, ON_ALL, TAKER_OPEN, "password", NULL,
     "the password; other users see a command line, so rather the next one"},
    {FLAG_PASSWORD_FILE, "password-file", 0, "FILE", KIND_TEXT, NULL, ON_ALL, TAKER_OPEN, "password-file", NULL,
     "the file whose first line is the password"},
    {FLAG_CACERT, "cacert", 0, "FILE", KIND_TEXT, NULL, ON_ALL, TAKER_OPEN, "cacert", NULL,
     "trust servers signed by these authorities (PEM)"},
    {FLAG_CERT, "cert", 0, "FILE", KIND_TEXT, NULL, ON_ALL, TAKER_OPEN, "cert", NULL,
     "show this certificate to the server (PEM)"},
    {FLAG_KEY, "key", 0, "FILE", KIND_TEXT, NULL, ON_ALL, TAKER_OPEN, "key", NULL,
     "the private key of --cert (PEM)"},
    {FLAG_SERVER_NAME, "server-name", 0, "NAME", KIND_TEXT, NULL, ON_ALL, TAKER_OPEN, "server-name", NULL,
     "the name the server's certificate must carry, if not the host"},
    {FLAG_INSECURE_SKIP_TLS_VERIFY, "insecure-skip-tls-verify", 0, NULL, KIND_BOOL, NULL, ON_ALL, TAKER_OPEN,
     "insecure-skip-tls-verify", NULL, "take any certificate; for tests only"},
    {FLAG_INSECURE_TRANSPORT, "insecure-transport", 0, NULL, KIND_BOOL, "true", ON_ALL, TAKER_HERE, NULL, NULL,
     "=false: TLS also for endpoints without a scheme"},
    {FLAG_DIAL_TIMEOUT, "dial-timeout", 0, "TIME", KIND_DURATION, "2s", ON_ALL, TAKER_OPEN, "dial-timeout", NULL,
     "for connecting to one endpoint"},
    {FLAG_COMMAND_TIMEOUT, "command-timeout", 0, "TIME", KIND_DURATION, "5s", ON_ALL, TAKER_OPEN, "command-timeout",
     NULL, "for one answer, all tries together"},
    {FLAG_KEEPALIVE_TIME, "keepalive-time", 0, "TIME", KIND_DURATION, "10s", ON_ALL, TAKER_OPEN, "keepalive-time",
     NULL, "ping an idle connection this often; less than 10s is taken as 10s"},
    {FLAG_KEEPALIVE_TIMEOUT, "keepalive-timeout", 0, "TIME", KIND_DURATION, "5s", ON_ALL, TAKER_OPEN,
     "keepalive-timeout", NULL, "leave an endpoint that does not answer a ping in this time"},
    {FLAG_HASLEADER, "hasleader", 0, NULL, KIND_BOOL, "true", ON_ALL, TAKER_OPEN, "hasleader", NULL,
     "leave a member that has no leader"},
    {FLAG_MAX_MESSAGE, "max-message", 0, "SIZE", KIND_SIZE, "512MiB", ON_ALL, TAKER_OPEN, "max-message", NULL,
     "refuse a larger message, or a larger revision"},
    {FLAG_WRITE_OUT, "write-out", 'w', "FORM", KIND_CHOICE, NULL, ON_ALL, TAKER_HERE, NULL, "simple|json",
     "the bytes that etcdctl writes: simple or json"},
    {FLAG_OUTPUT, "output", 0, "FORM", KIND_CHOICE, NULL, ON_ALL, TAKER_HERE, NULL, "json|table",
     "json: one line an event, keys as text; table: for people"},
    {FLAG_HEX, "hex", 0, NULL, KIND_BOOL, NULL, ON_ALL, TAKER_HERE, NULL, NULL,
     "write keys and values as \\xNN (simple and table)"},
    {FLAG_DEBUG, "debug", 0, NULL, KIND_BOOL, NULL, ON_ALL, TAKER_HERE, NULL, NULL,
     "say on standard error what the session is doing"},
    {FLAG_HELP, "help", 'h', NULL, KIND_BOOL, NULL, ON_ALL, TAKER_HERE, NULL, NULL, "this text"},

    {FLAG_PREFIX, "prefix", 0, NULL, KIND_BOOL, NULL, RANGES, TAKER_HERE, NULL, NULL,
     "every key that begins with KEY ('' is all keys)"},
    {FLAG_FROM_KEY, "from-key", 0, NULL, KIND_BOOL, NULL, RANGES, TAKER_HERE, NULL, NULL,
     "KEY and every key after it"},
    {FLAG_RANGE, "range", 0, NULL, KIND_BOOL, NULL, ON(CMD_DEL), TAKER_HERE, NULL, NULL,
     "nothing: RANGE_END is enough (etcdctl 3.6 asks for it)"},

    {FLAG_REV, "rev", 0, "N", KIND_NUMBER, NULL, ON(CMD_GET), TAKER_CALL, "rev", NULL,
     "read what was there at this revision"},
    {FLAG_LIMIT, "limit", 0, "N", KIND_NUMBER, NULL, ON(CMD_GET), TAKER_CALL, "limit", NULL, "at most so many keys"},
    {FLAG_CONSISTENCY, "consistency", 0, "l|s", KIND_CHOICE, "l", ON(CMD_GET), TAKER_CALL, NULL, "l|s",
     "linearizable, or serializable: faster, may be behind"},
    {FLAG_ORDER, "order", 0, "ORDER", KIND_CHOICE, NULL, ON(CMD_GET), TAKER_CALL, "order", "ascend|descend",
     "ASCEND or DESCEND"},
    {FLAG_SORT_BY, "sort-by", 0, "WHAT", KIND_CHOICE, NULL, ON(CMD_GET), TAKER_CALL, "sort-by",
     "create|key|modify|value|version", "CREATE, KEY, MODIFY, VALUE or VERSION"},
    {FLAG_KEYS_ONLY, "keys-only", 0, NULL, KIND_BOOL, NULL, ON(CMD_GET), TAKER_CALL, "keys-only", NULL, "no values"},
    {FLAG_COUNT_ONLY, "count-only", 0, NULL, KIND_BOOL, NULL, ON(CMD_GET), TAKER_CALL, "count-only", NULL,
     "only the number of keys"},
    {FLAG_PRINT_VALUE_ONLY, "print-value-only", 0, NULL, KIND_BOOL, NULL, ON(CMD_GET), TAKER_HERE, NULL, NULL,
     "only values, no keys (simple)"},
    {FLAG_MIN_MOD_REV, "min-mod-rev", 0, "N", KIND_NUMBER, NULL, ON(CMD_GET), TAKER_CALL, "min-mod-rev", NULL,
     "only keys last changed at this revision or later"},
    {FLAG_MAX_MOD_REV, "max-mod-rev", 0, "N", KIND_NUMBER, NULL, ON(CMD_GET), TAKER_CALL, "max-mod-rev", NULL,
     "only keys last changed at this revision or earlier"},
    {FLAG_MIN_CREATE_REV, "min-create-rev", 0, "N", KIND_NUMBER, NULL, ON(CMD_GET), TAKER_CALL, "min-create-rev", NULL,
     "only keys created at this revision or later"},
    {FLAG_MAX_CREATE_REV, "max-create-rev", 0, "N", KIND_NUMBER, NULL, ON(CMD_GET), TAKER_CALL, "max-create-rev", NULL,
     "only keys created at this revision or earlier"},

    {FLAG_LEASE, "lease", 0, "HEX", KIND_HEX, NULL, ON(CMD_PUT), TAKER_CALL, "lease", NULL,
     "the key goes when this lease does"},
    {FLAG_KEYS, "keys", 0, NULL, KIND_BOOL, NULL, ON(CMD_LEASE), TAKER_CALL, "keys", NULL,
     "timetolive: also the keys on it"},
    {FLAG_ONCE, "once", 0, NULL, KIND_BOOL, NULL, ON(CMD_LEASE), TAKER_HERE, NULL, NULL, "keep-alive: renew once"},
    {FLAG_IGNORE_VALUE, "ignore-value", 0, NULL, KIND_BOOL, NULL, ON(CMD_PUT), TAKER_CALL, "ignore-value", NULL,
     "keep the value it has"},
    {FLAG_IGNORE_LEASE, "ignore-lease", 0, NULL, KIND_BOOL, NULL, ON(CMD_PUT), TAKER_CALL, "ignore-lease", NULL,
     "keep the lease it has"},
    {FLAG_PREV_KV, "prev-kv", 0, NULL, KIND_BOOL, NULL, ON(CMD_PUT) | ON(CMD_DEL), TAKER_CALL, "prev-kv", NULL,
     "print what was there before, too"},

    {FLAG_REV, "rev", 0, "N", KIND_NUMBER, NULL, ON(CMD_WATCH), TAKER_CALL, "rev", NULL,
     "begin with the changes of this revision"},
    {FLAG_PREV_KV, "prev-kv", 0, NULL, KIND_BOOL, NULL, LIVE, TAKER_CALL, "prev-kv", NULL,
     "with each change what was there before"},
    {FLAG_PROGRESS_NOTIFY, "progress-notify", 0, NULL, KIND_BOOL, NULL, ON(CMD_WATCH), TAKER_CALL, "progress-notify",
     NULL, "say now and then how far it is, when nothing changes"},
    {FLAG_NO_PUT, "no-put", 0, NULL, KIND_BOOL, NULL, ON(CMD_WATCH), TAKER_CALL, "no-put", NULL, "leave out puts"},
    {FLAG_NO_DELETE, "no-delete", 0, NULL, KIND_BOOL, NULL, ON(CMD_WATCH), TAKER_CALL, "no-delete", NULL,
     "leave out deletes"},
    {FLAG_FRAGMENT, "fragment", 0, NULL, KIND_BOOL, "true", ON(CMD_WATCH), TAKER_CALL, "fragment", NULL,
     "let the server send what is over 32 MiB in pieces"},
    {FLAG_INTERACTIVE, "interactive", 'i', NULL, KIND_REFUSED, NULL, ON(CMD_WATCH), TAKER_HERE, NULL, NULL,
     "not here: run one belfryctl watch for each key"},
    {FLAG_INTERACTIVE, "interactive", 'i', NULL, KIND_BOOL, NULL, ON(CMD_TXN), TAKER_HERE, NULL, NULL,
     "say which list is being read"},
    {FLAG_ONCE, "once", 0, NULL, KIND_BOOL, NULL, ON(CMD_FOLLOW), TAKER_CALL, "once", NULL,
     "end when the state is complete"},
    {FLAG_PAGE_BYTES, "page-bytes", 0, "SIZE", KIND_SIZE, "1MiB", ON(CMD_FOLLOW), TAKER_CALL, "page-bytes", NULL,
     "read the state in pages of about this size"},

    {FLAG_ADMIN, "admin", 0, "URL", KIND_TEXT, "http://127.0.0.1:23791", ON(CMD_TOP) | ON(CMD_TREE), TAKER_HERE, NULL, NULL,
     "http://host:port or unix:///path of the belfryd"},
    {FLAG_ONCE, "once", 0, NULL, KIND_BOOL, NULL, ON(CMD_TOP), TAKER_HERE, NULL, NULL, "print once and end"},
    {FLAG_INTERVAL, "interval", 0, "TIME", KIND_DURATION, "2s", ON(CMD_TOP), TAKER_HERE, NULL, NULL,
     "draw anew this often; at least 200ms"},
    {FLAG_SORT, "sort", 0, "WHAT", KIND_CHOICE, "lag", ON(CMD_TOP), TAKER_HERE, NULL, "lag|sent|age",
     "the largest first: lag, sent or age"},
    {FLAG_LIMIT, "limit", 0, "N", KIND_NUMBER, "50", ON(CMD_TOP), TAKER_HERE, NULL, NULL,
     "at most so many watchers or groups, up to 10000"},
    {FLAG_GROUP, "group", 0, "WHAT", KIND_CHOICE, NULL, ON(CMD_TOP), TAKER_HERE, NULL, "range|peer|state",
     "count watchers by range, peer or state"},
    {FLAG_FILTER, "filter", 0, "TEXT", KIND_TEXT, NULL, ON(CMD_TOP), TAKER_HERE, NULL, NULL,
     "only those with this in their peer, user, client, key, state or dialect"},

    {FLAG_SERVER, "server", 0, "URL", KIND_TEXT, "http://127.0.0.1:23790", ON(CMD_KUBE), TAKER_HERE, NULL, NULL,
     "http://host:port or https://host:port of the belfryd"},
    {FLAG_NAME, "name", 0, "NAME", KIND_TEXT, "belfry", ON(CMD_KUBE), TAKER_HERE, NULL, NULL,
     "what cluster, user and context are called"},
    {FLAG_NAMESPACE, "namespace", 0, "NAME", KIND_TEXT, NULL, ON(CMD_KUBE), TAKER_HERE, NULL, NULL,
     "the namespace that kubectl looks at when it is not told"},
    {FLAG_TOKEN, "token", 0, "TOKEN", KIND_TEXT, NULL, ON(CMD_KUBE), TAKER_HERE, NULL, NULL,
     "log in with it; other users see a command line, so rather the next one"},
    {FLAG_TOKEN_FILE, "token-file", 0, "FILE", KIND_TEXT, NULL, ON(CMD_KUBE), TAKER_HERE, NULL, NULL,
     "the file whose first line is the token"},
    {FLAG_CERTIFICATE_AUTHORITY, "certificate-authority", 0, "FILE", KIND_TEXT, NULL, ON(CMD_KUBE), TAKER_HERE, NULL,
     NULL, "trust a belfryd signed by these authorities (PEM)"},
    {FLAG_CLIENT_CERTIFICATE, "client-certificate", 0, "FILE", KIND_TEXT, NULL, ON(CMD_KUBE), TAKER_HERE, NULL, NULL,
     "show this certificate to the belfryd (PEM)"},
    {FLAG_CLIENT_KEY, "client-key", 0, "FILE", KIND_TEXT, NULL, ON(CMD_KUBE), TAKER_HERE, NULL, NULL,
     "the private key of --client-certificate (PEM)"},

    {FLAG_REFERENCE, "reference", 0, "URL,...", KIND_TEXT, NULL, ON(CMD_VERIFY), TAKER_HERE, NULL, NULL,
     "endpoints of the etcd that is believed"},
    {FLAG_PREFIX, "prefix", 0, NULL, KIND_BOOL, NULL, ON(CMD_VERIFY), TAKER_HERE, NULL, NULL,
     "every key that begins with KEY; --prefix=KEY is the same"},
    {FLAG_FROM_KEY, "from-key", 0, NULL, KIND_BOOL, NULL, ON(CMD_VERIFY), TAKER_HERE, NULL, NULL,
     "KEY and every key after it"},
    {FLAG_FOR, "for", 0, "TIME", KIND_DURATION, "10m", ON(CMD_VERIFY), TAKER_HERE, NULL, NULL,
     "so long; 0s: until Ctrl-C"},
    {FLAG_WATCHERS, "watchers", 0, "N", KIND_NUMBER, "8", ON(CMD_VERIFY), TAKER_HERE, NULL, NULL,
     "so many watchers on the tier, up to 64"},
    {FLAG_HISTORY, "history", 0, "N", KIND_NUMBER, "10000", ON(CMD_VERIFY), TAKER_HERE, NULL, NULL,
     "watchers start up to so many revisions back; 0: only from now on"},
    {FLAG_MAX_LAG, "max-lag", 0, "TIME", KIND_DURATION, "30s", ON(CMD_VERIFY), TAKER_HERE, NULL, NULL,
     "an event that is later than that is a violation"},
    {FLAG_WRITE, "write", 0, "N", KIND_NUMBER, NULL, ON(CMD_VERIFY), TAKER_HERE, NULL, NULL,
     "write so many times a second to the reference"},
    {FLAG_WRITE_PREFIX, "write-prefix", 0, "KEY", KIND_TEXT, NULL, ON(CMD_VERIFY), TAKER_HERE, NULL, NULL,
     "the keys of --write begin with this"},
};
/* clang-format on */
const size_t n_flag_rows = sizeof(flag_rows) / sizeof(flag_rows[0]);
