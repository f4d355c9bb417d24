/* bench/belfry-bench/plan.c */
#include "plan.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "object.h"
#include "opt/command_line.h"
#include "put_time.h"
#include "stopwatch.h"

#define MAX_WORDS 16 /* of a mode's defaults */

enum name {
    TARGET,
    WRITE_TARGET,
    KUBE_TARGET,
    PID,
    WRITE_PID,
    UPSTREAM_PID,
    CACERT,
    CERT,
    KEY,
    RESUME,
    CONNECTIONS,
    STREAMS,
    WATCHES,
    CREATING,
    TOKENS,
    LOGINS,
    WRITE_TOKEN,
    PUTS,
    VALUE_BYTES,
    IN_FLIGHT,
    READS,
    KEYS,
    LIMIT,
    PAGES,
    SERIALIZABLE,
    PACED,
    BURST,
    ANSWERED,
    RATE,
    ELSEWHERE,
    PREFIX,
    DISTINCT,
    SHARED,
    FLEET,
    KUBE,
    SELECTOR_FIELD,
    WARM,
    REVISIONS,
    PAIRS,
    SOURCES,
    MEMORY_FLOOR,
    FILL,
    CLOSING,
    STALL,
    NORMAL,
    SETTLE,
    TIMEOUT,
    BEFORE,
    AFTER,
    OUTPUT,
    REMOTE,
    HELP,
    N_NAMES
};

#define AT(field)       .offset = offsetof(struct plan, field), .width = sizeof(((struct plan *)0)->field)
#define SWITCH          .kind = BELFRY_KIND_BARE
#define TEXT(value)     .kind = BELFRY_KIND_TEXT, .value_name = value
#define PROCESS(field)  .kind = BELFRY_KIND_COUNT, .value_name = "PID", AT(field), .least = 1, .most = INT32_MAX
#define COUNT(field)    .kind = BELFRY_KIND_COUNT, .value_name = "N", AT(field)
#define SIZE(field)     .kind = BELFRY_KIND_SIZE, .value_name = "SIZE", AT(field)
#define TIME(field)     .kind = BELFRY_KIND_MS, .value_name = "TIME", AT(field)
#define RANGE(from, to) .least = (from), .most = (to)

/* clang-format off */
static const struct belfry_opt_row rows[N_NAMES] = {
    [TARGET] = {TARGET, "target", TEXT("ADDR:PORT"), .help = "the server that is measured"},
    [WRITE_TARGET] = {WRITE_TARGET, "write-target", TEXT("ADDR:PORT"), .described = "--target",
        .help = "the etcd that puts go to"},
    [KUBE_TARGET] = {KUBE_TARGET, "kube-target", TEXT("ADDR:PORT"), .described = "--target",
        .help = "healthy: where clients of Kubernetes' API go; without TLS"},
    [PID] = {PID, "pid", PROCESS(pid), .help = "the process of --target, for CPU and memory"},
    [WRITE_PID] = {WRITE_PID, "write-pid", PROCESS(write_pid), .help = "the process of --write-target, for CPU"},
    [UPSTREAM_PID] = {UPSTREAM_PID, "upstream-pid", PROCESS(upstream_pid),
        .help = "storm, read: the process above --target, for CPU"},
    [CACERT] = {CACERT, "cacert", TEXT("FILE"), .help = "who signed the certificates of https targets (PEM)"},
    [CERT] = {CERT, "cert", TEXT("FILE"), .help = "show https targets this certificate (PEM)"},
    [KEY] = {KEY, "key", TEXT("FILE"), .help = "the private key of --cert (PEM)"},
    [RESUME] = {RESUME, "resume", SWITCH, .help = "handshake: each connection goes on with the session of the last"},
    [CONNECTIONS] = {CONNECTIONS, "connections", COUNT(conns), RANGE(1, 1000000), .fallback = "100",
        .help = "connections"},
    [STREAMS] = {STREAMS, "streams", COUNT(streams), RANGE(1, 100000), .fallback = "1",
        .help = "streams of a connection; read: Ranges under way on it; listwatch: clients on it"},
    [WATCHES] = {WATCHES, "watches", COUNT(watches), RANGE(1, 10000000), .fallback = "1",
        .help = "watches of a stream"},
    [CREATING] = {CREATING, "creating", COUNT(creating), RANGE(1, 10000), .fallback = "256",
        .help = "creates of a stream under way at a time: 1 as of Go's client, many as of libbelfry"},
    [TOKENS] = {TOKENS, "tokens", TEXT("FILE"),
        .help = "a token per line: connections have them in turn; with --kube all have the first"},
    [LOGINS] = {LOGINS, "logins", TEXT("FILE"),
        .help = "NAME:PASSWORD per line: each connection logs in, every time; with --tokens: when it comes back"},
    [WRITE_TOKEN] = {WRITE_TOKEN, "write-token", TEXT("TOKEN"), .help = "of whoever makes the puts"},
    [PUTS] = {PUTS, "puts", COUNT(puts), RANGE(0, 10000000), .fallback = "200", .help = "puts"},
    [VALUE_BYTES] = {VALUE_BYTES, "value-size", SIZE(value_bytes), RANGE(PUT_TIME_BYTES, 1 << 20), .fallback = "256",
        .help = "bytes of a value, or of an object's spec"},
    [IN_FLIGHT] = {IN_FLIGHT, "in-flight", COUNT(in_flight), RANGE(1, PUTTER_CALLS / 2), .fallback = "16",
        .help = "puts under way at a time; listwatch: lists as well"},
    [READS] = {READS, "reads", COUNT(n_reads), RANGE(1, 100000000), .fallback = "100000",
        .help = "read: Ranges in all"},
    [KEYS] = {KEYS, "keys", COUNT(n_keys), RANGE(1, 10000000), .fallback = "10000",
        .help = "read, listwatch: keys that there are: as many as 'belfry-bench put --puts N' has written"},
    [LIMIT] = {LIMIT, "limit", COUNT(limit), RANGE(1, 10000000), .fallback = "1",
        .help = "read: keys of a Range; 1: any one key, more: the first ones of the prefix"},
    [PAGES] = {PAGES, "pages", SWITCH,
        .help = "read: the whole prefix in pages of --limit keys, at the revision of the first"},
    [SERIALIZABLE] = {SERIALIZABLE, "serializable", SWITCH, .help = "read: serializable Ranges"},
    [PACED] = {PACED, "paced", SWITCH, .help = "the next put only when every watcher has the last"},
    [BURST] = {BURST, "burst", SWITCH, .help = "puts as fast as possible"},
    [ANSWERED] = {ANSWERED, "answered", SWITCH,
        .help = "bare: each delivery is answered with a PING, and that one too, as by clients of gRPC"},
    [RATE] = {RATE, "rate", COUNT(rate), RANGE(1, 1000000), .help = "so many puts per second"},
    [ELSEWHERE] = {ELSEWHERE, "elsewhere", COUNT(elsewhere_rate), RANGE(0, 1000000), .fallback = "0",
        .help = "storm: besides, so many puts per second to keys without watchers"},
    [PREFIX] = {PREFIX, "prefix", TEXT("KEY"), .described = "/bench/; of objects " OBJECT_PREFIX,
        .help = "where all keys lie"},
    [DISTINCT] = {DISTINCT, "distinct", SWITCH, .help = "each watcher watches a key of its own"},
    [SHARED] = {SHARED, "shared", SWITCH, .help = "every watcher watches the prefix"},
    [FLEET] = {FLEET, "fleet", SWITCH,
        .help = "of a connection's watches a half watch keys of its own, a tenth its prefixes, the others shared ones"},
    [KUBE] = {KUBE, "kube", SWITCH, .help = "values are Kubernetes objects, watched over HTTP/1.1"},
    [SELECTOR_FIELD] = {SELECTOR_FIELD, "selector-field", .kind = BELFRY_KIND_CHOICE, .value_name = "FIELD",
        .choices = "spec.nodeName|metadata.name", .help = "of objects: each watcher has a selector of its own on this"},
    [WARM] = {WARM, "warm", SIZE(warm_bytes), RANGE(0, 1 << 30), .fallback = "0",
        .help = "idle: measure again when each connection has received so much"},
    [REVISIONS] = {REVISIONS, "revisions", COUNT(revisions), RANGE(1, 10000000), .fallback = "100000",
        .help = "replay: how far behind the watcher starts"},
    [PAIRS] = {PAIRS, "pairs", COUNT(pairs), RANGE(1, 1000), .fallback = "5",
        .help = "stall, write-cost: rounds without and with"},
    [SOURCES] = {SOURCES, "sources", COUNT(sources), RANGE(1, 200), .fallback = "1",
        .help = "healthy, listwatch: connections take so many addresses in turn; 1: healthy has one for each kind"},
    [MEMORY_FLOOR] = {MEMORY_FLOOR, "memory-floor", SIZE(memory_floor), RANGE(0, (uint64_t)1 << 40), .fallback = "0",
        .help = "million: no more connections when the machine has only so much left"},
    [FILL] = {FILL, "fill", TIME(fill_ms), RANGE(0, 3600000), .fallback = "0s",
        .help = "million: no more connections after so long"},
    [CLOSING] = {CLOSING, "closing", TIME(closing_ms), RANGE(0, 600000), .fallback = "0s",
        .help = "million: how long to wait, when all is closed, for memory to be given back"},
    [STALL] = {STALL, "stall", TIME(stall_ms), RANGE(1, 600000), .fallback = "3s",
        .help = "stall: how long one reader does not read"},
    [NORMAL] = {NORMAL, "normal", TIME(normal_ms), RANGE(1, 600000), .fallback = "5s",
        .help = "storm: how long the upstream is measured before"},
    [SETTLE] = {SETTLE, "settle", TIME(settle_ms), RANGE(0, 600000), .fallback = "1s",
        .help = "pause before memory is read; read, listwatch: CPU without load is measured in it"},
    [TIMEOUT] = {TIMEOUT, "timeout", TIME(timeout_ms), RANGE(1, 3600000), .fallback = "120s", .help = "the whole run"},
    [BEFORE] = {BEFORE, "before", TEXT("COMMAND"),
        .help = "for the shell, just before what is measured; storm: it breaks the connections"},
    [AFTER] = {AFTER, "after", TEXT("COMMAND"), .help = "for the shell, when they have all come"},
    [OUTPUT] = {OUTPUT, "output", .kind = BELFRY_KIND_CHOICE, .value_name = "FORM", .choices = "table|json", AT(form),
        .fallback = "table", .help = "table or json"},
    [REMOTE] = {REMOTE, "remote", SWITCH, .help = "a target that is not loopback is meant"},
    [HELP] = {HELP, "help", .letter = 'h', SWITCH, .help = "this text"},
};
/* clang-format on */

const struct belfry_opt_table plan_table = {
    .program = "belfry-bench",
    .ask = "belfry-bench --help",
    .rows = rows,
    .n_rows = N_NAMES,
};

struct reading {
    struct plan *plan;
    FILE *err;
    bool has_target, has_write_target, has_kube_target, remote, help;
};

__attribute__((format(printf, 2, 3))) static bool refuse(const struct reading *reading, const char *format, ...)
{
    va_list args;
    fputs("belfry-bench: ", reading->err);
    va_start(args, format);
    vfprintf(reading->err, format, args);
    va_end(args);
    fputc('\n', reading->err);
    return false;
}

static bool set_target(const struct reading *reading, const char *name, const char *text, struct target *out)
{
    return target_parse(text, out) == BELFRY_OK ||
           refuse(reading, "--%s: an address and a port are needed, such as 127.0.0.1:2379", name);
}

/* What a flag means besides the number in its row. */
static bool set_other(struct reading *reading, enum name name, const char *text)
{
    struct plan *plan = reading->plan;
    size_t len;
    switch ((int)name) {
    case TARGET:
        reading->has_target = true;
        return set_target(reading, "target", text, &plan->target);
    case WRITE_TARGET:
        reading->has_write_target = true;
        return set_target(reading, "write-target", text, &plan->write_target);
    case KUBE_TARGET:
        reading->has_kube_target = true;
        return set_target(reading, "kube-target", text, &plan->kube_target);
    case CACERT:
        plan->cacert = text;
        break;
    case CERT:
        plan->cert = text;
        break;
    case KEY:
        plan->key = text;
        break;
    case RESUME:
        plan->resume = true;
        break;
    case PAGES:
        plan->pages = true;
        break;
    case SERIALIZABLE:
        plan->serializable = true;
        break;
    case PACED:
        plan->pace = PACE_PACED;
        break;
    case BURST:
        plan->pace = PACE_BURST;
        break;
    case ANSWERED:
        plan->answered = true;
        break;
    case RATE:
        plan->pace = PACE_RATE;
        break;
    case PREFIX:
        len = strlen(text);
        plan->prefix = text;
        return (len > 0 && len < LOAD_PREFIX_MAX && (unsigned char)text[len - 1] < 0x7f) ||
               refuse(reading, "--prefix: 1 to 63 bytes of ASCII are needed");
    case DISTINCT:
        plan->keys = LOAD_DISTINCT;
        break;
    case SHARED:
        plan->keys = LOAD_SHARED;
        break;
    case FLEET:
        plan->keys = LOAD_FLEET;
        break;
    case TOKENS:
        credentials_read(&plan->tokens, text);
        break;
    case LOGINS:
        credentials_read(&plan->logins, text);
        break;
    case WRITE_TOKEN:
        plan->write_token = text;
        break;
    case KUBE:
        plan->values = LOAD_OBJECTS;
        break;
    case SELECTOR_FIELD:
        plan->selector_field = text;
        plan->keys = LOAD_DISTINCT;
        break;
    case BEFORE:
        plan->before = text;
        break;
    case AFTER:
        plan->after = text;
        break;
    case REMOTE:
        reading->remote = true;
        break;
    case HELP:
        reading->help = true;
        break;
    default: /* the number is all */
        break;
    }
    return true;
}

static bool set(struct reading *reading, const struct belfry_opt_row *row, const char *text)
{
    uint64_t number;
    char why[BELFRY_OPT_WHY];
    if (text != NULL && belfry_opt_read(row, text, &number, why) != BELFRY_OK)
        return refuse(reading, "--%s: %s", row->name, why);
    if (row->width > 0)
        belfry_opt_store(row, reading->plan, number);
    return set_other(reading, (enum name)row->id, text);
}

static bool read_words(struct reading *reading, int n_words, char *words[])
{
    struct belfry_opt_words line = {.table = &plan_table, .argc = n_words, .argv = words};
    struct belfry_opt_word word;
    char why[BELFRY_OPT_WHY];
    for (;;)
        switch (belfry_opt_words_next(&line, &word, why)) {
        case BELFRY_FOUND_FLAG:
            if (!set(reading, word.row, word.text))
                return false;
            break;
        case BELFRY_FOUND_ARGUMENT:
            return refuse(reading, "unexpected '%.64s': '%s' lists the flags", word.text, plan_table.ask);
        case BELFRY_FOUND_WRONG:
            return refuse(reading, "%s", why);
        case BELFRY_FOUND_END:
            return true;
        }
}

/* Those of every mode, then those of this one. */
static bool read_defaults(struct reading *reading, const char *defaults)
{
    char *words[MAX_WORDS];
    int n = 0;
    char *text = strdup(defaults), *rest = NULL;
    if (text == NULL)
        return false;
    for (int i = 0; i < N_NAMES; i++)
        if (rows[i].fallback != NULL && !set(reading, &rows[i], rows[i].fallback))
            abort(); /* the table is wrong */
    for (char *word = strtok_r(text, " ", &rest); word != NULL && n < MAX_WORDS; word = strtok_r(NULL, " ", &rest))
        words[n++] = word;
    bool ok = read_words(reading, n, words);
    free(text); /* numbers and switches alone: none is kept as a text */
    return ok;
}

static bool check_tls(const struct reading *reading, const struct mode *mode)
{
    struct plan *plan = reading->plan;
    struct belfry_tls_opts opts = {.cacert = plan->cacert, .cert = plan->cert, .key = plan->key};
    char why[256];
    bool has_files = plan->cacert != NULL || plan->cert != NULL || plan->key != NULL;
    if (!plan->target.is_tls && !plan->write_target.is_tls)
        return !has_files || refuse(reading, "--cacert, --cert and --key: no target is https");
    if (plan->cacert == NULL)
        return refuse(reading, "--cacert: is needed for an https target");
    if (plan->values == LOAD_OBJECTS || (strcmp(mode->name, "healthy") == 0 && plan->kube_target.is_tls))
        return refuse(reading, "--target: HTTP/1.1 is spoken without TLS only: give an http target");
    if (belfry_tls_create(&opts, &plan->tls, why, sizeof(why)) != BELFRY_OK)
        return refuse(reading, "%s", why);
    plan->target.tls = plan->target.is_tls ? plan->tls : NULL;
    plan->write_target.tls = plan->write_target.is_tls ? plan->tls : NULL;
    return true;
}

static bool check(const struct reading *reading, const struct mode *mode)
{
    struct plan *plan = reading->plan;
    if (!reading->has_target && !mode->local)
        return refuse(reading, "--target: is needed: which server is to be measured?");
    if (plan->prefix == NULL)
        plan->prefix = plan->values == LOAD_OBJECTS ? OBJECT_PREFIX : "/bench/";
    if (plan->values == LOAD_OBJECTS && plan->streams * plan->watches != 1)
        return refuse(reading, "--watches: a connection with HTTP/1.1 has one watch");
    if ((plan->selector_field != NULL) != (plan->values == LOAD_OBJECTS && plan->keys == LOAD_DISTINCT))
        return refuse(reading, "--selector-field: goes with --kube, and --distinct with it");
    if (plan->keys == LOAD_FLEET && strcmp(mode->name, "resume") != 0 && strcmp(mode->name, "idle") != 0)
        return refuse(reading, "--fleet: goes with the modes resume and idle");
    if (plan->keys == LOAD_FLEET && plan->streams * plan->watches < FLEET_RANGE_MIN)
        return refuse(reading, "--fleet: a connection needs at least %d watches", FLEET_RANGE_MIN);
    if (!reading->has_write_target)
        plan->write_target = plan->target;
    if (plan->values == LOAD_OBJECTS && plan->tokens.n > 0)
        plan->target.bearer = credentials_of(&plan->tokens, 0);
    if (!reading->has_kube_target)
        plan->kube_target = plan->target;
    bool loopback = plan->target.loopback && plan->write_target.loopback && plan->kube_target.loopback;
    if (!mode->local && !reading->remote && !loopback)
        return refuse(reading, "--target: this is another machine; add --remote if a load on it is meant");
    if (plan->conns * plan->streams > 10000000 || plan->conns * plan->streams * plan->watches > 50000000)
        return refuse(reading, "--watches: that is more than 50 million watchers");
    return check_tls(reading, mode);
}

enum belfry_err plan_read(const struct mode *mode, int argc, char *argv[], FILE *err, struct plan *plan,
                          enum plan_do *what)
{
    *plan = (struct plan){.mode = mode->name, .pace = PACE_BURST};
    struct reading reading = {.plan = plan, .err = err};
    if (!read_defaults(&reading, mode->defaults) || !read_words(&reading, argc - 2, argv + 2))
        return BELFRY_ERR_INVALID;
    *what = reading.help ? PLAN_HELP : PLAN_RUN;
    plan->deadline_ns = stopwatch_ns() + plan->timeout_ms * NS_PER_MS;
    return reading.help || check(&reading, mode) ? BELFRY_OK : BELFRY_ERR_INVALID;
}

/* ---- parts ---- */

struct load plan_load(const struct plan *plan)
{
    return (struct load){.keys = plan->keys,
                         .form = plan->values,
                         .prefix = plan->prefix,
                         .fleet = {.n_clients = plan->conns, .n_watches = plan->streams * plan->watches}};
}

struct swarm_opts plan_swarm(const struct plan *plan)
{
    return (struct swarm_opts){.target = plan->target,
                               .load = plan_load(plan),
                               .n_conns = plan->conns,
                               .n_streams = plan->streams,
                               .n_watches = plan->watches,
                               .n_creating = plan->creating,
                               .selector_field = plan->selector_field,
                               .tokens = plan->tokens.n > 0 ? &plan->tokens : NULL,
                               .logins = plan->logins.n > 0 ? &plan->logins : NULL};
}

struct putter_opts plan_putter(const struct plan *plan)
{
    return (struct putter_opts){.target = plan->write_target,
                                .load = plan_load(plan),
                                .value_bytes = plan->value_bytes,
                                .max_puts = plan->puts,
                                .in_flight = plan->in_flight,
                                .n_watchers = plan->conns * plan->streams * plan->watches,
                                .token = belfry_bytes_str(plan->write_token != NULL ? plan->write_token : "")};
}

struct round_opts plan_round(const struct plan *plan)
{
    return (struct round_opts){.pace = plan->pace,
                               .rate = (double)plan->rate,
                               .n_puts = plan->puts,
                               .pid = plan->pid,
                               .write_pid = plan->write_pid,
                               .deadline_ns = plan->deadline_ns,
                               .before = plan->before,
                               .after = plan->after,
                               .stalled = SWARM_NONE};
}
