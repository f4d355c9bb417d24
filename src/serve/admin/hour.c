/* src/serve/admin/hour.c */
#include "serve/admin/hour.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/owner.h"
#include "serve/admin/summary.h"
#include "json/json.h"

#define GAP_MS (3 * HOUR_EVERY_MS) /* after a longer pause a rate would be a mean of something else */

/* Columns that are sums of series of a metric. */
static const struct {
    const char *name;
    const char *metric; /* NULL: computed */
    const char *labels; /* which series: those whose labels begin so */
    bool is_rate;
} columns[HOUR_N] = {
    [HOUR_EVENTS] = {"events", "belfry_upstream_events_total", "", true},
    [HOUR_DELIVERIES] = {"deliveries", "belfry_deliveries_total", "", true},
    [HOUR_SENT_BYTES] = {"sent_bytes", "belfry_sent_bytes_total", "", true},
    [HOUR_READS_REPLICA] = {"reads_replica", "belfry_reads_total", "source=\"replica\"", true},
    [HOUR_READS_UPSTREAM] = {"reads_upstream", "belfry_reads_total", "source=\"upstream\"", true},
    [HOUR_RELAYED] = {"relayed", "belfry_upstream_fallbacks_total", "reason=\"relay\"", true},
    [HOUR_REJECTED] = {"rejected", "belfry_rejected_total", "", true},
    [HOUR_P50_MS] = {"p50_ms", NULL, NULL, false},
    [HOUR_P99_MS] = {"p99_ms", NULL, NULL, false},
    [HOUR_WATCHERS] = {"watchers", NULL, NULL, false},
    [HOUR_CONNECTIONS] = {"connections", "belfry_connections", "", false},
    [HOUR_LAG_MS] = {"lag_ms", NULL, NULL, false},
    [HOUR_MEMORY_BYTES] = {"memory_bytes", "belfry_memory_bytes", "", false},
};

struct hour {
    uint64_t next; /* number of the next sample; the newest HOUR_SAMPLES below it are there */
    uint64_t due_ms;
    /* what the next rates are measured from */
    uint64_t at_ms;
    bool whole; /* all workers and the follower answered then */
    uint64_t totals[HOUR_N];
    struct latency latency;
    struct hour_sample samples[HOUR_SAMPLES];
    BELFRY_OWNER;
};

enum belfry_err hour_create(struct hour **out)
{
    struct hour *hour = calloc(1, sizeof(*hour));
    if (hour == NULL)
        return BELFRY_ERR_NOMEM;
    BELFRY_OWNER_INIT(hour);
    *out = hour;
    return BELFRY_OK;
}

void hour_destroy(struct hour *hour)
{
    free(hour);
}

bool hour_is_due(const struct hour *hour, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(hour);
    return now_ms >= hour->due_ms;
}

uint64_t hour_next(const struct hour *hour)
{
    return hour->next;
}

/* ---- a sample ---- */

/* The upper bound, in ms, of the bucket in which `part` of what was added since `before` lies. */
static float quantile(const struct latency *now, const struct latency *before, double part)
{
    uint64_t all = 0, below = 0;
    for (size_t i = 0; i <= LATENCY_BUCKETS; i++)
        all += now->buckets[i] - before->buckets[i];
    double bound = 0.1;
    for (size_t i = 0; i < LATENCY_BUCKETS && all > 0; i++, bound *= 2) {
        below += now->buckets[i] - before->buckets[i];
        if ((double)below >= part * (double)all)
            return (float)bound;
    }
    return all == 0 ? NAN : (float)bound;
}

static float watchers_of(const struct tier_numbers *numbers)
{
    struct summary_watchers watchers;
    summary_watchers(numbers, &watchers);
    size_t sum = 0;
    for (enum summary_dialect dialect = 0; dialect < SUMMARY_DIALECTS; dialect++) {
        const struct worker_standings *of = &watchers.of[dialect];
        sum += of->synced + of->catching_up + of->parked;
    }
    return (float)sum;
}

void hour_add(struct hour *hour, const struct tier_numbers *numbers)
{
    BELFRY_OWNER_CHECK(hour);
    struct hour_sample *sample = &hour->samples[hour->next % HOUR_SAMPLES];
    uint64_t now_ms = numbers->now_ms, elapsed_ms = now_ms - hour->at_ms;
    bool whole = numbers->upstream_answered;
    for (size_t i = 0; i < numbers->n_workers; i++)
        whole = whole && numbers->workers[i].answered;
    bool has_rates = whole && hour->whole && elapsed_ms > 0 && elapsed_ms <= GAP_MS;

    /* sums of metrics, and their rates */
    for (size_t i = 0; i < HOUR_N; i++) {
        if (columns[i].metric == NULL)
            continue;
        uint64_t total = summary_metric(numbers, columns[i].metric, columns[i].labels);
        if (!columns[i].is_rate)
            sample->values[i] = (float)total;
        else
            sample->values[i] = has_rates && total >= hour->totals[i]
                                    ? (float)((double)(total - hour->totals[i]) * 1000 / (double)elapsed_ms)
                                    : NAN;
        hour->totals[i] = total;
    }

    /* what is computed otherwise */
    struct latency latency;
    summary_latency(numbers, &latency);
    bool has_lag = numbers->upstream_answered && numbers->upstream.silent_ms != BELFRY_NEVER;
    sample->values[HOUR_P50_MS] = has_rates ? quantile(&latency, &hour->latency, 0.5) : NAN;
    sample->values[HOUR_P99_MS] = has_rates ? quantile(&latency, &hour->latency, 0.99) : NAN;
    sample->values[HOUR_WATCHERS] = watchers_of(numbers);
    sample->values[HOUR_LAG_MS] = has_lag ? (float)numbers->upstream.silent_ms : NAN;
    sample->time_s = (uint32_t)(numbers->clock_ms / 1000);

    /* the next one: in step with the first, unless that is long ago */
    bool in_step = hour->due_ms > 0 && now_ms < hour->due_ms + HOUR_EVERY_MS;
    hour->due_ms = (in_step ? hour->due_ms : now_ms) + HOUR_EVERY_MS;
    hour->latency = latency;
    hour->at_ms = now_ms;
    hour->whole = whole;
    hour->next++;
}

/* ---- JSON ---- */

static void write_row(struct belfry_json *json, const char *name, const struct hour_sample *sample)
{
    belfry_json_open(json, name, '[');
    belfry_json_uint(json, NULL, sample->time_s);
    for (size_t i = 0; i < HOUR_N; i++) {
        double value = (double)sample->values[i];
        if (isnan(value))
            belfry_json_null(json, NULL);
        else if (value >= 100 || value == floor(value))
            belfry_json_uint(json, NULL, (uint64_t)(value + 0.5));
        else
            belfry_json_real(json, NULL, floor(value * 100 + 0.5) / 100);
    }
    belfry_json_close(json, ']');
}

enum belfry_err hour_write(const struct hour *hour, struct belfry_buf *out)
{
    BELFRY_OWNER_CHECK(hour);
    struct belfry_json json = belfry_json_begin(out);
    uint64_t first = hour->next > HOUR_SAMPLES ? hour->next - HOUR_SAMPLES : 0;
    belfry_json_open(&json, NULL, '{');
    belfry_json_uint(&json, "every_s", HOUR_EVERY_MS / 1000);
    belfry_json_uint(&json, "samples", HOUR_SAMPLES);
    belfry_json_uint(&json, "bytes", HOUR_BYTES);
    belfry_json_open(&json, "columns", '[');
    belfry_json_str(&json, NULL, "time_s");
    for (size_t i = 0; i < HOUR_N; i++)
        belfry_json_str(&json, NULL, columns[i].name);
    belfry_json_close(&json, ']');
    belfry_json_uint(&json, "first", first);
    belfry_json_open(&json, "rows", '[');
    for (uint64_t i = first; i < hour->next; i++)
        write_row(&json, NULL, &hour->samples[i % HOUR_SAMPLES]);
    belfry_json_close(&json, ']');
    belfry_json_close(&json, '}');
    enum belfry_err err = belfry_json_finish(&json);
    return err == BELFRY_OK ? belfry_buf_append(out, "\n", 1) : err;
}

enum belfry_err hour_write_newest(const struct hour *hour, struct belfry_buf *out)
{
    BELFRY_OWNER_CHECK(hour);
    assert(hour->next > 0);
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_uint(&json, "number", hour->next - 1);
    write_row(&json, "row", &hour->samples[(hour->next - 1) % HOUR_SAMPLES]);
    belfry_json_close(&json, '}');
    return belfry_json_finish(&json);
}
