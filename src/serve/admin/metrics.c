/* src/serve/admin/metrics.c: the series of numbers_table.h, and those that are computed from several numbers. */
#include "serve/admin/metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/admin/pools.h"
#include "serve/admin/readiness.h"
#include "serve/admin/summary.h"
#include "serve/admin/text.h"
#include "serve/admin/tree.h"

static const char *const kind_names[] = {
    [COUNTER] = "counter", [GAUGE] = "gauge", [GAUGE_US] = "gauge", [HISTOGRAM] = "histogram"};

static void sample_u64(struct text *text, const char *name, const char *labels, uint64_t value)
{
    text_say(text, labels != NULL ? "%s{%s} %" PRIu64 "\n" : "%s%s %" PRIu64 "\n", name, labels != NULL ? labels : "",
             value);
}

static void sample_real(struct text *text, const char *name, double value)
{
    text_say(text, "%s %.9g\n", name, value);
}

/* A label's value: backslash, quote and line feed are escaped; what is too long is cut. */
static const char *escape(const char *value, char *room, size_t len)
{
    size_t n = 0;
    for (; *value != '\0' && n + 2 < len; value++) {
        if (*value == '\\' || *value == '"' || *value == '\n')
            room[n++] = '\\';
        room[n++] = *value == '\n' ? 'n' : *value;
    }
    room[n] = '\0';
    return room;
}

/* ---- series that are computed ---- */

static void own_build_info(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    char version[128];
    text_say(text, "%s{version=\"%s\"} 1\n", name, escape(numbers->version, version, sizeof(version)));
}

static void own_ready(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    struct readiness readiness;
    readiness_judge(numbers, &readiness);
    for (enum readiness_check check = 0; check < READINESS_N; check++) {
        char labels[64];
        snprintf(labels, sizeof(labels), "check=\"%s\"", readiness_name(check));
        sample_u64(text, name, labels, readiness.checks[check].holds);
    }
}

static void own_upstream_up(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    sample_u64(text, name, NULL, numbers->upstream_answered && numbers->upstream.standing == DRIVER_READY);
}

static void own_upstream_state(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    for (int state = UPSTREAM_START; state <= UPSTREAM_LIVE; state++) {
        char labels[64];
        snprintf(labels, sizeof(labels), "state=\"%s\"", numbers_state_name((enum upstream_state)state));
        sample_u64(text, name, labels, numbers->upstream_answered && (int)numbers->upstream.state == state);
    }
}

static void own_lag_revisions(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    int64_t lag = numbers->upstream.upstream_revision - numbers->upstream.revision;
    sample_u64(text, name, NULL, lag > 0 ? (uint64_t)lag : 0);
}

static void own_lag_seconds(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    if (!numbers->upstream_answered || numbers->upstream.silent_ms == BELFRY_NEVER)
        text_say(text, "%s +Inf\n", name);
    else
        sample_real(text, name, (double)numbers->upstream.silent_ms / 1000);
}

static void own_tiers_above(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    uint64_t n = 0;
    for (size_t i = 0; i < numbers->about.n_above; i++)
        n += about_is_tier(&numbers->about.above[i]);
    sample_u64(text, name, NULL, n);
}

static void own_tiers_below(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    struct tree_below *below = tree_gather(numbers);
    if (below == NULL)
        text->err = BELFRY_ERR_NOMEM;
    else
        sample_u64(text, name, NULL, below->n);
    free(below);
}

/* Without a measurement there is no sample. */
static void own_hop(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    if (numbers->upstream_answered && numbers->about.self.hop == ABOUT_HOP_MEASURED)
        sample_real(text, name, (double)numbers->about.self.hop_us / 1e6);
}

static void own_hop_error(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    if (numbers->upstream_answered && numbers->about.self.hop == ABOUT_HOP_MEASURED)
        sample_real(text, name, (double)numbers->about.self.hop_error_us / 1e6);
}

static void standings_sample(struct text *text, const char *name, const char *dialect,
                             const struct worker_standings *standings)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "dialect=\"%s\",state=\"synced\"", dialect);
    sample_u64(text, name, labels, standings->synced);
    snprintf(labels, sizeof(labels), "dialect=\"%s\",state=\"catching up\"", dialect);
    sample_u64(text, name, labels, standings->catching_up);
    snprintf(labels, sizeof(labels), "dialect=\"%s\",state=\"parked\"", dialect);
    sample_u64(text, name, labels, standings->parked);
}

static void own_watchers(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    struct summary_watchers watchers;
    summary_watchers(numbers, &watchers);
    for (enum summary_dialect dialect = 0; dialect < SUMMARY_DIALECTS; dialect++)
        standings_sample(text, name, summary_dialect_name(dialect), &watchers.of[dialect]);
}

static void own_closed(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    for (int why = 0; why < WATCH_CLOSES; why++) {
        char labels[96];
        uint64_t sum = 0;
        for (size_t i = 0; i < numbers->n_workers; i++)
            sum += numbers->workers[i].answered ? numbers->workers[i].watch.closed[why] : 0;
        snprintf(labels, sizeof(labels), "dialect=\"grpc\",reason=\"%s\"", watch_close_name((enum watch_close)why));
        sample_u64(text, name, labels, sum);
    }
}

static void own_workers_answering(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    uint64_t n = 0;
    for (size_t i = 0; i < numbers->n_workers; i++)
        n += numbers->workers[i].answered;
    sample_u64(text, name, NULL, n);
}

/* Names have no bytes that need escapes. */
static void own_fields(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    for (size_t i = 0; i < numbers->n_fields; i++) {
        const struct kfront_field *field = &numbers->fields[i];
        char labels[sizeof(field->resource) + sizeof(field->name) + 32];
        snprintf(labels, sizeof(labels), "resource=\"%s\",field=\"%s\"", field->resource, field->name);
        sample_u64(text, name, labels, field->requests);
    }
}

static void own_latency(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    struct latency sum;
    summary_latency(numbers, &sum);
    double bound = 0.0001;
    uint64_t below = 0;
    for (size_t b = 0; b < LATENCY_BUCKETS; b++, bound *= 2) {
        below += sum.buckets[b];
        text_say(text, "%s_bucket{le=\"%.9g\"} %" PRIu64 "\n", name, bound, below);
    }
    below += sum.buckets[LATENCY_BUCKETS];
    text_say(text, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, below);
    text_say(text, "%s_sum %.9g\n%s_count %" PRIu64 "\n", name, sum.sum_s, name, below);
}

/* ---- the process ---- */

#define PROC_TEXT 2048

/* Reads a file of /proc/self into text, zero-ended; false: it cannot be read. */
static bool proc_read(const char *path, char text[PROC_TEXT])
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t n = fread(text, 1, PROC_TEXT - 1, file);
    text[n] = '\0';
    fclose(file);
    return n > 0;
}

/* Field `number` of /proc/self/stat, counted as in proc(5); 0 when there is none. The name of the process, field 2, is
 * in brackets and may hold blanks. */
static uint64_t proc_stat(int number)
{
    char text[PROC_TEXT];
    const char *at = proc_read("/proc/self/stat", text) ? strrchr(text, ')') : NULL;
    for (int i = 2; at != NULL && i < number; i++) {
        at = strchr(at, ' ');
        at = at == NULL ? NULL : at + 1;
    }
    return at == NULL ? 0 : strtoull(at, NULL, 10);
}

static double ticks(uint64_t n)
{
    long each = sysconf(_SC_CLK_TCK);
    return each > 0 ? (double)n / (double)each : 0;
}

static void own_cpu(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    (void)numbers;
    sample_real(text, name, ticks(proc_stat(14) + proc_stat(15)));
}

double metrics_process_start(void)
{
    struct timespec boot, now;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    clock_gettime(CLOCK_REALTIME, &now);
    double booted = (double)(now.tv_sec - boot.tv_sec) + (double)(now.tv_nsec - boot.tv_nsec) / 1e9;
    return booted + ticks(proc_stat(22));
}

static void own_start_time(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    text_say(text, "%s %.2f\n", name, numbers->process_start_s);
}

static void own_resident(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    (void)numbers;
    sample_u64(text, name, NULL, proc_stat(24) * (uint64_t)sysconf(_SC_PAGESIZE));
}

static void own_virtual(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    (void)numbers;
    sample_u64(text, name, NULL, proc_stat(23));
}

static void own_threads(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    (void)numbers;
    sample_u64(text, name, NULL, proc_stat(20));
}

/* The size of the table: counting a hundred thousand descriptors one by one would delay the answers to /livez. The
 * table doubles as it grows, and does not shrink. */
static void own_fd_table(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    (void)numbers;
    char status[PROC_TEXT];
    const char *at = proc_read("/proc/self/status", status) ? strstr(status, "FDSize:") : NULL;
    sample_u64(text, name, NULL, at == NULL ? 0 : strtoull(at + strlen("FDSize:"), NULL, 10));
}

static void own_max_fds(struct text *text, const char *name, const struct tier_numbers *numbers)
{
    (void)numbers;
    long most = sysconf(_SC_OPEN_MAX);
    sample_u64(text, name, NULL, most > 0 ? (uint64_t)most : 0);
}

/* ---- all of them ---- */

struct computed {
    const char *name;
    enum number_kind kind;
    const char *help, *labels; /* labels: what docs/metrics.md says of them; "": none */
    void (*write)(struct text *text, const char *name, const struct tier_numbers *numbers);
};

/* clang-format off */
static const struct computed computed[] = {
    {"belfry_build_info", GAUGE, "Always 1; the version is its label.", "version", own_build_info},
    {"belfry_ready", GAUGE, "1 while this check of /readyz holds. The tier is ready while all of them do.",
     "check: ", own_ready},
    {"belfry_upstream_up", GAUGE, "1 while the tier follows upstream and is not stale.", "", own_upstream_up},
    {"belfry_upstream_state", GAUGE, "1 for the follower's current state.",
     "state: start, joining, replaying, listing, live", own_upstream_state},
    {"belfry_upstream_lag_revisions", GAUGE, "How many revisions the tier is behind upstream.", "", own_lag_revisions},
    {"belfry_upstream_lag_seconds", GAUGE,
     "Time since upstream last confirmed that the tier is up to date; the tier is behind by no more than this. "
     "+Inf: upstream has not confirmed it yet.", "", own_lag_seconds},
    {"belfry_tiers_above", GAUGE, "Tiers between this one and etcd.", "", own_tiers_above},
    {"belfry_tiers_below", GAUGE, "Tiers that watch here now.", "", own_tiers_below},
    {"belfry_hop_latency_seconds", GAUGE,
     "Time from publishing a revision in the tier above to publishing it here: the median of the newest measurements. "
     "Absent until there is one, and directly below etcd, which cannot be measured.", "", own_hop},
    {"belfry_hop_error_seconds", GAUGE,
     "The most that belfry_hop_latency_seconds can be wrong by.", "", own_hop_error},
    {"belfry_watchers", GAUGE, "Watchers, by the dialect of their stream and their state.",
     "dialect: grpc, kube; state: synced, catching up, parked", own_watchers},
    {"belfry_streams_closed_total", COUNTER, "Streams closed, by reason.",
     "dialect: grpc; reason: ", own_closed},
    {"belfry_kube_relayed_fields_total", COUNTER,
     "Lists and watches of followed resources that were passed on because they select by a field that the tier does "
     "not know: each such watch is one at the API server. Of more than 64 fields the rest is counted as other.",
     "resource: those of `--follow`; field: as clients write it", own_fields},
    {"belfry_delivery_latency_seconds", HISTOGRAM,
     "Time from publishing a revision until it was written to the sockets of all synced watchers.", "le", own_latency},
    {"belfry_workers_answering", GAUGE,
     "Worker threads that answered in time; the sums leave out the others.", "", own_workers_answering},
    {"process_cpu_seconds_total", COUNTER, "CPU time, user and system.", "", own_cpu},
    {"process_resident_memory_bytes", GAUGE, "Resident memory, the replica's pages included.", "", own_resident},
    {"process_virtual_memory_bytes", GAUGE, "Virtual memory.", "", own_virtual},
    {"process_start_time_seconds", GAUGE, "When the process started, since the epoch.", "", own_start_time},
    {"process_threads", GAUGE, "Threads.", "", own_threads},
    {"process_fd_table_size", GAUGE,
     "Size of the table of descriptors: at most twice the most that were ever open.", "", own_fd_table},
    {"process_max_fds", GAUGE, "The most descriptors that may be open.", "", own_max_fds},
};

/* Each has one series for each pool. */
static const struct pool_metric {
    const char *name;
    enum number_kind kind;
    const char *help;
    size_t offset; /* of a uint64_t in pool_numbers */
} pool_metrics[] = {
    {"belfry_pool_used", GAUGE,
     "What clients hold of each pool: bytes of memory, requests and those named so; else a number.",
     offsetof(struct pool_numbers, used)},
    {"belfry_pool_limit", GAUGE, "The most that clients may hold of each pool; 0: no limit.",
     offsetof(struct pool_numbers, limit)},
    {"belfry_pool_largest", GAUGE, "What the client holds that holds most of each pool; /debug/numbers has its name.",
     offsetof(struct pool_numbers, largest)},
    {"belfry_pool_refused_total", COUNTER,
     "Times that a client was refused because a pool was full, or its share of it.",
     offsetof(struct pool_numbers, refused)},
    {"belfry_pool_yielded_total", COUNTER, "Connections ended because their client held most of a pool that was full.",
     offsetof(struct pool_numbers, yielded)},
    {"belfry_pool_in_trouble", GAUGE,
     "Workers that use more than 90 percent of a pool, or refused or ended a client for it in the last minute.",
     offsetof(struct pool_numbers, in_trouble)},
};
/* clang-format on */
#define N_POOL_METRICS (sizeof(pool_metrics) / sizeof(pool_metrics[0]))
#define N_COMPUTED     (sizeof(computed) / sizeof(computed[0]))

static void write_head(struct text *text, const char *name, const char *help, enum number_kind kind)
{
    text_say(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind_names[kind]);
}

/* The next row of the same metric, which need not be a neighbour; NULL: none. */
static const struct number *next_series(const struct number *after, const struct number *end)
{
    for (const struct number *n = after + 1; n < end; n++) {
        if (n->metric != NULL && n->help == NULL && strcmp(n->metric, after->metric) == 0)
            return n;
    }
    return NULL;
}

static void write_series(struct text *text, const struct number *number, const struct tier_numbers *numbers)
{
    uint64_t value = numbers_value(numbers, number);
    if (number->over == NUMBER_KNOWN && value == BELFRY_NEVER)
        return;
    if (number->kind == GAUGE_US)
        sample_real(text, number->metric, (double)value / 1e6);
    else
        sample_u64(text, number->metric, number->labels, value);
}

static void write_pools(struct text *text, const struct pool_metric *metric, const struct tier_numbers *numbers)
{
    for (enum shares_pool pool = 0; pool < SHARES_N; pool++) {
        struct pool_numbers sum;
        uint64_t value;
        char labels[64];
        pools_gather(numbers, pool, &sum);
        memcpy(&value, (const char *)&sum + metric->offset, sizeof(value));
        snprintf(labels, sizeof(labels), "pool=\"%s\"", shares_pool_name(pool));
        sample_u64(text, metric->name, labels, value);
    }
}

static void write_resources(struct text *text, const struct resource_number *number, const struct tier_numbers *numbers)
{
    write_head(text, number->metric, number->help, number->is_counter ? COUNTER : GAUGE);
    for (size_t i = 0; i < numbers->n_resources; i++) {
        const struct resource_numbers *resource = &numbers->resources[i];
        char labels[sizeof(resource->name) + 16];
        snprintf(labels, sizeof(labels), "resource=\"%s\"", resource->name); /* its name needs no escapes */
        sample_u64(text, number->metric, labels, resources_value(resource, number));
    }
}

enum belfry_err metrics_write(const struct tier_numbers *numbers, struct belfry_buf *out)
{
    struct text text = {.buf = out};
    const struct number *table;
    size_t n_numbers = numbers_table(&table);
    const struct number *end = table + n_numbers;
    for (const struct number *n = table; n < end; n++) {
        if (n->help == NULL)
            continue;
        write_head(&text, n->metric, n->help, n->kind);
        for (const struct number *series = n; series != NULL; series = next_series(series, end))
            write_series(&text, series, numbers);
    }
    for (const struct computed *c = computed; c < computed + N_COMPUTED; c++) {
        write_head(&text, c->name, c->help, c->kind);
        c->write(&text, c->name, numbers);
    }
    for (const struct pool_metric *m = pool_metrics; m < pool_metrics + N_POOL_METRICS; m++) {
        write_head(&text, m->name, m->help, m->kind);
        write_pools(&text, m, numbers);
    }
    const struct resource_number *resource;
    for (size_t i = 0, n = resources_table(&resource); i < n && numbers->n_resources > 0; i++)
        write_resources(&text, &resource[i], numbers);
    return text.err;
}

/* ---- for docs/metrics.md ---- */

enum belfry_err metrics_describe(struct belfry_buf *out)
{
    struct text text = {.buf = out};
    const struct number *table;
    text_say(
        &text,
        "# Metrics\n\n"
        "What `/metrics` on the admin address says (default `http://127.0.0.1:23791`), in Prometheus' text form.\n"
        "Made from `src/serve/admin/numbers_table.h` and `metrics.c` by `tools/metrics-doc`: change those, not "
        "this.\n\n"
        "There are no labels for keys, ranges or clients: `belfryctl top`, `/debug/watchers` and `/debug/clients` are "
        "for\n"
        "those. A worker that does not answer within two seconds is left out of the sums, and "
        "`belfry_workers_answering` is\n"
        "then below `belfry_workers`. There is no cache of encoded events to count hits of: the bytes that came from\n"
        "upstream are the bytes that go out.\n\n"
        "| name | type | labels | meaning |\n|---|---|---|---|\n");
    size_t n_numbers = numbers_table(&table);
    const struct number *end = table + n_numbers;
    for (const struct number *n = table; n < end; n++) {
        if (n->help == NULL)
            continue;
        text_say(&text, "| `%s` | %s | ", n->metric, kind_names[n->kind]);
        for (const struct number *series = n; series != NULL; series = next_series(series, end)) {
            if (series->labels != NULL)
                text_say(&text, "%s`%s`", series != n ? ", " : "", series->labels);
        }
        text_say(&text, " | %s |\n", n->help);
    }
    for (const struct computed *c = computed; c < computed + N_COMPUTED; c++) {
        text_say(&text, "| `%s` | %s | %s", c->name, kind_names[c->kind], c->labels);
        for (int why = 0; c->write == own_closed && why < WATCH_CLOSES; why++)
            text_say(&text, "%s%s", why > 0 ? ", " : "", watch_close_name((enum watch_close)why));
        for (enum readiness_check check = 0; c->write == own_ready && check < READINESS_N; check++)
            text_say(&text, "%s%s", check > 0 ? ", " : "", readiness_name(check));
        text_say(&text, " | %s |\n", c->help);
    }
    for (const struct pool_metric *m = pool_metrics; m < pool_metrics + N_POOL_METRICS; m++) {
        text_say(&text, "| `%s` | %s | pool: ", m->name, kind_names[m->kind]);
        for (enum shares_pool pool = 0; pool < SHARES_N; pool++)
            text_say(&text, "%s%s", pool > 0 ? ", " : "", shares_pool_name(pool));
        text_say(&text, " | %s |\n", m->help);
    }
    const struct resource_number *resource;
    for (size_t i = 0, n = resources_table(&resource); i < n; i++)
        text_say(&text, "| `%s` | %s | resource: those of `--follow` | %s |\n", resource[i].metric,
                 kind_names[resource[i].is_counter ? COUNTER : GAUGE], resource[i].help);
    return text.err;
}
