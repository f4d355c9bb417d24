/* src/serve/admin/summary.c */
#include "serve/admin/summary.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "serve/admin/readiness.h"

#define NAME 64 /* of a part or a label's value, with NUL */

const char *summary_dialect_name(enum summary_dialect dialect)
{
    static const char *const names[] = {[SUMMARY_GRPC] = "grpc", [SUMMARY_KUBE] = "kube", [SUMMARY_SSE] = "sse"};
    return names[dialect];
}

static void standings_add(struct worker_standings *to, const struct worker_standings *more)
{
    to->synced += more->synced;
    to->catching_up += more->catching_up;
    to->parked += more->parked;
}

void summary_watchers(const struct tier_numbers *numbers, struct summary_watchers *out)
{
    struct worker_standings all = {0}, lines[LINES_FAMILIES] = {{0}};
    for (size_t i = 0; i < numbers->n_workers; i++) {
        const struct worker_stats *core = &numbers->workers[i].core;
        if (!numbers->workers[i].answered)
            continue;
        all.synced += core->riding - core->riding_parked;
        all.catching_up += core->waiting + core->boarded + core->solo;
        all.parked += core->stalled + core->riding_parked;
        for (size_t family = 0; family < LINES_FAMILIES; family++)
            standings_add(&lines[family], &core->lines[family]);
    }
    for (size_t family = 0; family < LINES_FAMILIES; family++) {
        all.synced -= lines[family].synced;
        all.catching_up -= lines[family].catching_up;
        all.parked -= lines[family].parked;
    }
    out->of[SUMMARY_GRPC] = all;
    out->of[SUMMARY_KUBE] = lines[LINES_BY_EVENT];
    out->of[SUMMARY_SSE] = lines[LINES_BY_REVISION];
}

void summary_latency(const struct tier_numbers *numbers, struct latency *out)
{
    struct latency sum = {0};
    for (size_t i = 0; i < numbers->n_workers; i++) {
        const struct latency *one = &numbers->workers[i].latency;
        if (!numbers->workers[i].answered)
            continue;
        for (size_t b = 0; b <= LATENCY_BUCKETS; b++) {
            sum.buckets[b] += one->buckets[b];
            sum.count += one->buckets[b]; /* counted from the buckets: readers compare the two */
        }
        sum.sum_s += one->sum_s;
    }
    *out = sum;
}

static bool is_series_of(const struct number *number, const char *metric)
{
    return number->over != NUMBER_PART && number->metric != NULL && strcmp(number->metric, metric) == 0;
}

uint64_t summary_metric(const struct tier_numbers *numbers, const char *metric, const char *labels)
{
    const struct number *table;
    size_t n = numbers_table(&table);
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        const char *own = table[i].labels != NULL ? table[i].labels : "";
        if (is_series_of(&table[i], metric) && strncmp(own, labels, strlen(labels)) == 0)
            sum += numbers_value(numbers, &table[i]);
    }
    return sum;
}

/* ---- JSON ---- */

static void write_workers(struct belfry_json *json, const struct tier_numbers *numbers)
{
    uint64_t answering = 0;
    for (size_t i = 0; i < numbers->n_workers; i++)
        answering += numbers->workers[i].answered;
    belfry_json_uint(json, "workers", numbers->n_workers);
    belfry_json_uint(json, "workers_answering", answering);
}

static void write_standings(struct belfry_json *json, const char *dialect, const struct worker_standings *standings)
{
    belfry_json_open(json, dialect, '{');
    belfry_json_uint(json, "synced", standings->synced);
    belfry_json_uint(json, "catching_up", standings->catching_up);
    belfry_json_uint(json, "parked", standings->parked);
    belfry_json_close(json, '}');
}

static void write_watchers(struct belfry_json *json, const struct tier_numbers *numbers)
{
    struct summary_watchers watchers;
    summary_watchers(numbers, &watchers);
    belfry_json_open(json, "watchers", '{');
    for (enum summary_dialect dialect = 0; dialect < SUMMARY_DIALECTS; dialect++)
        write_standings(json, summary_dialect_name(dialect), &watchers.of[dialect]);
    belfry_json_close(json, '}');
}

/* The series of a metric by the value of their only label: "flood" of reason="flood". */
static void write_by_label(struct belfry_json *json, const char *name, const char *metric,
                           const struct tier_numbers *numbers)
{
    const struct number *table;
    size_t n = numbers_table(&table);
    belfry_json_open(json, name, '{');
    for (size_t i = 0; i < n; i++) {
        char value[NAME] = "";
        if (!is_series_of(&table[i], metric) || sscanf(table[i].labels, "%*[^\"]\"%63[^\"]", value) != 1)
            continue;
        belfry_json_uint(json, value, numbers_value(numbers, &table[i]));
    }
    belfry_json_close(json, '}');
}

static void write_latency(struct belfry_json *json, const struct tier_numbers *numbers)
{
    struct latency sum;
    summary_latency(numbers, &sum);
    belfry_json_open(json, "latency", '{');
    belfry_json_open(json, "buckets", '[');
    for (size_t i = 0; i <= LATENCY_BUCKETS; i++)
        belfry_json_uint(json, NULL, sum.buckets[i]);
    belfry_json_close(json, ']');
    belfry_json_uint(json, "count", sum.count);
    belfry_json_real(json, "sum_s", sum.sum_s);
    belfry_json_close(json, '}');
}

static bool is_of_workers(const struct number *number)
{
    return number->over == NUMBER_SUM || number->over == NUMBER_MAX || number->over == NUMBER_MIN;
}

/* The part that begins at table[at]; one without a number of workers is left out. Returns where the next begins. */
static size_t write_part(struct belfry_json *json, const struct tier_numbers *numbers, const struct number *table,
                         size_t n, size_t at)
{
    char name[NAME];
    size_t i = at + 1;
    snprintf(name, sizeof(name), "%s", table[at].name);
    for (char *c = name; *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    bool is_open = false;
    for (; i < n && table[i].over != NUMBER_PART; i++) {
        if (!is_of_workers(&table[i]) || table[i].name == NULL)
            continue;
        if (!is_open)
            belfry_json_open(json, name, '{');
        is_open = true;
        belfry_json_uint(json, table[i].name, numbers_value(numbers, &table[i]));
    }
    if (is_open)
        belfry_json_close(json, '}');
    return i;
}

void summary_write(struct belfry_json *json, const struct tier_numbers *numbers)
{
    const struct number *table;
    size_t n = numbers_table(&table);
    belfry_json_open(json, "summary", '{');
    readiness_write(json, numbers);
    write_workers(json, numbers);
    write_watchers(json, numbers);
    write_by_label(json, "rejected", "belfry_rejected_total", numbers);
    write_by_label(json, "memory", "belfry_memory_bytes", numbers);
    write_latency(json, numbers);
    for (size_t at = 0; at < n;)
        at = write_part(json, numbers, table, n, at);
    belfry_json_close(json, '}');
}
