/* bench/belfry-bench/plan.c */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "object.h"
#include "stopwatch.h"

#define MAX_WORDS 16 /* of a mode's defaults */

enum name {
    TARGET,
    WRITE_TARGET,
    PID,
    WRITE_PID,
    UPSTREAM_PID,
    CONNECTIONS,
    STREAMS,
    WATCHES,
    PUTS,
    VALUE_BYTES,
    IN_FLIGHT,
    PACED,
    BURST,
    RATE,
    ELSEWHERE,
    PREFIX,
    DISTINCT,
    SHARED,
    KUBE,
    SELECTOR_FIELD,
    WARM,
    REVISIONS,
    PAIRS,
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

static const struct option_row {
    const char *name;
    const char *value; /* for --help; NULL: a switch */
    const char *help;
    uint64_t least, most; /* of a number */
} rows[N_NAMES] = {
    [TARGET] = {"target", "ADDR:PORT", "the server that is measured", 0, 0},
    [WRITE_TARGET] = {"write-target", "ADDR:PORT", "the etcd that puts go to (default: --target)", 0, 0},
    [PID] = {"pid", "PID", "the process of --target, for CPU and memory", 1, INT32_MAX},
    [WRITE_PID] = {"write-pid", "PID", "the process of --write-target, for CPU", 1, INT32_MAX},
    [UPSTREAM_PID] = {"upstream-pid", "PID", "storm: the process above --target, for CPU", 1, INT32_MAX},
    [CONNECTIONS] = {"connections", "N", "connections", 1, 1000000},
    [STREAMS] = {"streams", "N", "streams of a connection", 1, 100000},
    [WATCHES] = {"watches", "N", "watches of a stream", 1, 10000000},
    [PUTS] = {"puts", "N", "puts", 0, 10000000},
    [VALUE_BYTES] = {"value-size", "SIZE", "bytes of a value, or of an object's spec (256)", LOAD_TIME_BYTES, 1 << 20},
    [IN_FLIGHT] = {"in-flight", "N", "puts under way at a time (16)", 1, PUTTER_CALLS / 2},
    [PACED] = {"paced", NULL, "the next put only when everybody has the last", 0, 0},
    [BURST] = {"burst", NULL, "puts as fast as it goes", 0, 0},
    [RATE] = {"rate", "N", "so many puts a second", 1, 1000000},
    [ELSEWHERE] = {"elsewhere", "N", "storm: besides, so many puts a second to keys that nobody watches (0)", 0,
                   1000000},
    [PREFIX] = {"prefix", "KEY", "where all keys lie (/bench/; of objects " OBJECT_PREFIX ")", 0, 0},
    [DISTINCT] = {"distinct", NULL, "each watcher watches a key of its own", 0, 0},
    [SHARED] = {"shared", NULL, "everybody watches the prefix", 0, 0},
    [KUBE] = {"kube", NULL, "values are Kubernetes objects, watched over HTTP/1.1", 0, 0},
    [SELECTOR_FIELD] = {"selector-field", "FIELD",
                        "of objects: each watcher has a selector of its own on spec.nodeName or metadata.name", 0, 0},
    [WARM] = {"warm", "SIZE", "idle: measure again when each connection has received so much", 0, 1 << 30},
    [REVISIONS] = {"revisions", "N", "replay: how far behind the watcher starts", 1, 10000000},
    [PAIRS] = {"pairs", "N", "stall, write-cost: rounds without and with (5)", 1, 1000},
    [MEMORY_FLOOR] = {"memory-floor", "SIZE", "million: no more connections when the machine has only so much left", 0,
                      (uint64_t)1 << 40},
    [FILL] = {"fill", "TIME", "million: no more connections after so long", 0, 3600000},
    [CLOSING] = {"closing", "TIME", "million: how long to wait, when all is closed, for memory to be given back (0s)",
                 0, 600000},
    [STALL] = {"stall", "TIME", "stall: how long one reader does not read (3s)", 1, 600000},
    [NORMAL] = {"normal", "TIME", "storm: how long the upstream is measured before (5s)", 1, 600000},
    [SETTLE] = {"settle", "TIME", "pause before memory is read (1s)", 0, 600000},
    [TIMEOUT] = {"timeout", "TIME", "the whole run (120s)", 1, 3600000},
    [BEFORE] = {"before", "COMMAND", "for the shell, just before what is measured; storm: it breaks the connections", 0,
                0},
    [AFTER] = {"after", "COMMAND", "for the shell, when they have all come", 0, 0},
    [OUTPUT] = {"output", "FORM", "table or json", 0, 0},
    [REMOTE] = {"remote", NULL, "a target that is not loopback is meant", 0, 0},
    [HELP] = {"help", NULL, "this", 0, 0},
};

/* ---- values ---- */

static bool parse_number(const char *text, uint64_t *out, const char **rest)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long long number = strtoull(text, &end, 10);
    if (number > INT64_MAX)
        return false;
    *out = number;
    *rest = end;
    return true;
}

struct unit {
    const char *name;
    uint64_t factor;
};

static enum belfry_err parse_with_unit(const char *text, const struct unit *units, size_t n_units, uint64_t *out)
{
    uint64_t number;
    const char *rest;
    if (!parse_number(text, &number, &rest))
        return BELFRY_ERR_INVALID;
    for (size_t i = 0; i < n_units; i++) {
        if (strcmp(rest, units[i].name) != 0)
            continue;
        if (number > INT64_MAX / units[i].factor)
            return BELFRY_ERR_INVALID;
        *out = number * units[i].factor;
        return BELFRY_OK;
    }
    return BELFRY_ERR_INVALID;
}

enum belfry_err plan_parse_size(const char *text, uint64_t *out)
{
    static const struct unit units[] = {{"", 1},        {"B", 1},         {"K", 1 << 10}, {"KiB", 1 << 10},
                                        {"M", 1 << 20}, {"MiB", 1 << 20}, {"G", 1 << 30}, {"GiB", 1 << 30}};
    return parse_with_unit(text, units, sizeof(units) / sizeof(units[0]), out);
}

enum belfry_err plan_parse_ms(const char *text, uint64_t *out)
{
    static const struct unit units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}};
    return parse_with_unit(text, units, sizeof(units) / sizeof(units[0]), out);
}

/* ---- options ---- */

struct reading {
    struct plan *plan;
    FILE *err;
    bool has_target, has_write_target, remote, help;
};

static bool refuse(struct reading *reading, const char *name, const char *remedy)
{
    fprintf(reading->err, "belfry-bench: --%s: %s\n", name, remedy);
    return false;
}

static bool read_target(struct reading *reading, const char *name, const char *value, struct target *out)
{
    return target_parse(value, out) == BELFRY_OK ||
           refuse(reading, name, "an address and a port are needed, such as 127.0.0.1:2379");
}

static bool read_number(struct reading *reading, const struct option_row *row, const char *value, uint64_t *out)
{
    enum belfry_err err;
    const char *rest = NULL;
    if (strcmp(row->value, "SIZE") == 0)
        err = plan_parse_size(value, out);
    else if (strcmp(row->value, "TIME") == 0)
        err = plan_parse_ms(value, out);
    else
        err = parse_number(value, out, &rest) && *rest == '\0' ? BELFRY_OK : BELFRY_ERR_INVALID;
    if (err == BELFRY_OK && *out >= row->least && *out <= row->most)
        return true;
    char remedy[128];
    snprintf(remedy, sizeof(remedy), "%s from %llu to %llu is needed",
             strcmp(row->value, "SIZE") == 0   ? "a size such as 256 or 1MiB,"
             : strcmp(row->value, "TIME") == 0 ? "a time such as 500ms or 3s,"
                                               : "a number",
             (unsigned long long)row->least, (unsigned long long)row->most);
    return refuse(reading, row->name, remedy);
}

static bool set_number(struct reading *reading, enum name name, const char *value)
{
    struct plan *plan = reading->plan;
    uint64_t number;
    if (!read_number(reading, &rows[name], value, &number))
        return false;
    switch ((int)name) { /* those of the table that are numbers */
    case PID:
        plan->pid = (pid_t)number;
        break;
    case WRITE_PID:
        plan->write_pid = (pid_t)number;
        break;
    case UPSTREAM_PID:
        plan->upstream_pid = (pid_t)number;
        break;
    case CONNECTIONS:
        plan->conns = number;
        break;
    case STREAMS:
        plan->streams = number;
        break;
    case WATCHES:
        plan->watches = number;
        break;
    case PUTS:
        plan->puts = number;
        break;
    case VALUE_BYTES:
        plan->value_bytes = number;
        break;
    case IN_FLIGHT:
        plan->in_flight = number;
        break;
    case RATE:
        plan->rate = (double)number;
        plan->pace = PACE_RATE;
        break;
    case ELSEWHERE:
        plan->elsewhere_rate = (double)number;
        break;
    case WARM:
        plan->warm_bytes = number;
        break;
    case REVISIONS:
        plan->revisions = number;
        break;
    case PAIRS:
        plan->pairs = number;
        break;
    case MEMORY_FLOOR:
        plan->memory_floor = number;
        break;
    case FILL:
        plan->fill_ms = number;
        break;
    case CLOSING:
        plan->closing_ms = number;
        break;
    case STALL:
        plan->stall_ms = number;
        break;
    case NORMAL:
        plan->normal_ms = number;
        break;
    case SETTLE:
        plan->settle_ms = number;
        break;
    case TIMEOUT:
        plan->timeout_ms = number;
        break;
    default:
        return refuse(reading, rows[name].name, "is not a number");
    }
    return true;
}

static bool set_output(struct reading *reading, const char *value)
{
    bool json = strcmp(value, "json") == 0;
    reading->plan->form = json ? REPORT_JSON : REPORT_TABLE;
    return json || strcmp(value, "table") == 0 || refuse(reading, "output", "table or json is needed");
}

static bool set_prefix(struct reading *reading, const char *value)
{
    size_t len = strlen(value);
    reading->plan->prefix = value;
    return (len > 0 && len < LOAD_PREFIX_MAX && (unsigned char)value[len - 1] < 0x7f) ||
           refuse(reading, "prefix", "1 to 63 bytes of ASCII are needed");
}

static bool set_selector(struct reading *reading, const char *value)
{
    reading->plan->selector_field = value;
    reading->plan->keys = LOAD_DISTINCT;
    return strcmp(value, "spec.nodeName") == 0 || strcmp(value, "metadata.name") == 0 ||
           refuse(reading, "selector-field", "spec.nodeName or metadata.name is needed");
}

static bool set(struct reading *reading, enum name name, const char *value)
{
    struct plan *plan = reading->plan;
    switch (name) {
    case TARGET:
        reading->has_target = true;
        return read_target(reading, "target", value, &plan->target);
    case WRITE_TARGET:
        reading->has_write_target = true;
        return read_target(reading, "write-target", value, &plan->write_target);
    case PACED:
        plan->pace = PACE_PACED;
        return true;
    case BURST:
        plan->pace = PACE_BURST;
        return true;
    case PREFIX:
        return set_prefix(reading, value);
    case DISTINCT:
        plan->keys = LOAD_DISTINCT;
        return true;
    case SHARED:
        plan->keys = LOAD_SHARED;
        return true;
    case KUBE:
        plan->values = LOAD_OBJECTS;
        return true;
    case SELECTOR_FIELD:
        return set_selector(reading, value);
    case BEFORE:
        plan->before = value;
        return true;
    case AFTER:
        plan->after = value;
        return true;
    case OUTPUT:
        return set_output(reading, value);
    case REMOTE:
        reading->remote = true;
        return true;
    case HELP:
        reading->help = true;
        return true;
    case PID:
    case WRITE_PID:
    case UPSTREAM_PID:
    case CONNECTIONS:
    case STREAMS:
    case WATCHES:
    case PUTS:
    case VALUE_BYTES:
    case IN_FLIGHT:
    case RATE:
    case ELSEWHERE:
    case WARM:
    case REVISIONS:
    case PAIRS:
    case MEMORY_FLOOR:
    case FILL:
    case CLOSING:
    case STALL:
    case NORMAL:
    case SETTLE:
    case TIMEOUT:
    case N_NAMES:
        break;
    }
    return set_number(reading, name, value);
}

static enum name find(const char *word, size_t len)
{
    for (int i = 0; i < N_NAMES; i++)
        if (strlen(rows[i].name) == len && memcmp(rows[i].name, word, len) == 0)
            return (enum name)i;
    return N_NAMES;
}

/* --name value and --name=value. */
static bool read_words(struct reading *reading, size_t n_words, char *words[])
{
    for (size_t i = 0; i < n_words; i++) {
        const char *word = words[i];
        size_t len = strcspn(word, "=");
        enum name name = strncmp(word, "--", 2) == 0 ? find(word + 2, len - 2) : N_NAMES;
        if (name == N_NAMES) {
            fprintf(reading->err, "belfry-bench: %s is not known; --help lists the options\n", word);
            return false;
        }
        const char *value = word[len] == '=' ? word + len + 1 : NULL;
        if (rows[name].value == NULL && value != NULL)
            return refuse(reading, rows[name].name, "takes no value");
        if (rows[name].value != NULL && value == NULL)
            value = i + 1 < n_words ? words[++i] : NULL;
        if (rows[name].value != NULL && value == NULL)
            return refuse(reading, rows[name].name, "a value is needed behind it");
        if (!set(reading, name, value))
            return false;
    }
    return true;
}

static bool read_defaults(struct reading *reading, const char *defaults)
{
    char *words[MAX_WORDS];
    size_t n = 0;
    char *text = strdup(defaults), *rest = NULL;
    if (text == NULL)
        return false;
    for (char *word = strtok_r(text, " ", &rest); word != NULL && n < MAX_WORDS; word = strtok_r(NULL, " ", &rest))
        words[n++] = word;
    bool ok = read_words(reading, n, words);
    free(text); /* numbers and switches alone: none is kept as a text */
    return ok;
}

static bool check(struct reading *reading, const struct mode *mode)
{
    struct plan *plan = reading->plan;
    if (!reading->has_target && !mode->local)
        return refuse(reading, "target", "is needed: which server is to be measured?");
    if (plan->prefix == NULL)
        plan->prefix = plan->values == LOAD_OBJECTS ? OBJECT_PREFIX : "/bench/";
    if (plan->values == LOAD_OBJECTS && plan->streams * plan->watches != 1)
        return refuse(reading, "watches", "a connection with HTTP/1.1 has one watch");
    if ((plan->selector_field != NULL) != (plan->values == LOAD_OBJECTS && plan->keys == LOAD_DISTINCT))
        return refuse(reading, "selector-field", "goes with --kube, and --distinct with it");
    if (!reading->has_write_target)
        plan->write_target = plan->target;
    if (!mode->local && !reading->remote && !(plan->target.loopback && plan->write_target.loopback))
        return refuse(reading, "target", "this is another machine; add --remote if a load on it is meant");
    if (plan->conns * plan->streams > 10000000 || plan->conns * plan->streams * plan->watches > 50000000)
        return refuse(reading, "watches", "that is more than 50 million watchers");
    return true;
}

void plan_print_options(FILE *out)
{
    for (int i = 0; i < N_NAMES; i++)
        fprintf(out, "  --%s%s%-*s %s\n", rows[i].name, rows[i].value == NULL ? "" : " ",
                (int)(24 - strlen(rows[i].name) - (rows[i].value == NULL ? 0 : 1)),
                rows[i].value == NULL ? "" : rows[i].value, rows[i].help);
}

enum belfry_err plan_read(const struct mode *mode, int argc, char *argv[], FILE *out, FILE *err, struct plan *plan,
                          enum plan_do *what)
{
    *plan = (struct plan){.mode = mode->name,
                          .conns = 100,
                          .streams = 1,
                          .watches = 1,
                          .puts = 200,
                          .value_bytes = 256,
                          .in_flight = 16,
                          .pace = PACE_BURST,
                          .revisions = 100000,
                          .pairs = 5,
                          .stall_ms = 3000,
                          .normal_ms = 5000,
                          .settle_ms = 1000,
                          .timeout_ms = 120000};
    struct reading reading = {.plan = plan, .err = err};
    if (!read_defaults(&reading, mode->defaults) || !read_words(&reading, (size_t)argc - 2, argv + 2))
        return BELFRY_ERR_INVALID;
    *what = reading.help ? PLAN_EXIT : PLAN_RUN;
    if (reading.help) {
        fprintf(out, "belfry-bench %s: %s\nUnless said otherwise: %s\n\n", mode->name, mode->summary, mode->defaults);
        plan_print_options(out);
        return BELFRY_OK;
    }
    plan->deadline_ns = stopwatch_ns() + plan->timeout_ms * NS_PER_MS;
    return check(&reading, mode) ? BELFRY_OK : BELFRY_ERR_INVALID;
}

/* ---- parts ---- */

struct load plan_load(const struct plan *plan)
{
    return (struct load){plan->keys, plan->values, plan->prefix};
}

struct swarm_opts plan_swarm(const struct plan *plan)
{
    return (struct swarm_opts){.target = plan->target,
                               .load = plan_load(plan),
                               .n_conns = plan->conns,
                               .n_streams = plan->streams,
                               .n_watches = plan->watches,
                               .selector_field = plan->selector_field};
}

struct putter_opts plan_putter(const struct plan *plan)
{
    return (struct putter_opts){.target = plan->write_target,
                                .load = plan_load(plan),
                                .value_bytes = plan->value_bytes,
                                .max_puts = plan->puts,
                                .in_flight = plan->in_flight,
                                .n_watchers = plan->conns * plan->streams * plan->watches};
}

struct round_opts plan_round(const struct plan *plan)
{
    return (struct round_opts){.pace = plan->pace,
                               .rate = plan->rate,
                               .n_puts = plan->puts,
                               .pid = plan->pid,
                               .write_pid = plan->write_pid,
                               .deadline_ns = plan->deadline_ns,
                               .before = plan->before,
                               .after = plan->after,
                               .stalled = SWARM_NONE};
}
