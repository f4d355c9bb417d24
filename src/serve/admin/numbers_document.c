/* src/serve/admin/numbers_document.c */
#include "serve/admin/numbers_document.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "serve/admin/pools.h"
#include "serve/admin/summary.h"
#include "json/json.h"

static_assert(KFRONT_WRITE == 0 && KFRONT_CONSISTENT == 1 && KFRONT_FORM == 2 && KFRONT_DOCUMENT == 3 &&
                  KFRONT_OTHER == 4 && KFRONT_WATCH == 5 && KFRONT_KINDS == 6,
              "numbers_table.h names each of kfront.relay.passed");

/* The members of a part; `base` is the tier_numbers or worker_numbers that it is in. */
static void write_members(struct belfry_json *json, const char *part, const void *base)
{
    const struct number *n;
    size_t n_rows = numbers_table(&n);
    const struct number *end = n + n_rows;
    while (n->over != NUMBER_PART || strcmp(n->name, part) != 0)
        n++;
    for (n++; n < end && n->over != NUMBER_PART; n++) {
        uint64_t value = numbers_bits(base, n);
        if (n->name == NULL || (n->over == NUMBER_KNOWN && value == BELFRY_NEVER))
            continue;
        if (n->type == NUMBER_BOOL)
            belfry_json_bool(json, n->name, value);
        else if (n->type == NUMBER_INT)
            belfry_json_int(json, n->name, (int64_t)value);
        else
            belfry_json_uint(json, n->name, value);
    }
}

static void write_part(struct belfry_json *json, const char *name, const char *part, const void *base)
{
    belfry_json_open(json, name, '{');
    write_members(json, part, base);
    belfry_json_close(json, '}');
}

/* All that were configured. One is barred if it leads back to this tier, or through too many tiers. */
static void write_endpoints(struct belfry_json *json, const struct tier_numbers *numbers)
{
    belfry_json_open(json, "endpoints", '[');
    for (size_t i = 0; i < numbers->n_endpoints; i++) {
        belfry_json_open(json, NULL, '{');
        belfry_json_str(json, "url", numbers->endpoints[i].url);
        belfry_json_bool(json, "barred", i < 64 && (numbers->upstream.barred >> i & 1) != 0);
        belfry_json_close(json, '}');
    }
    belfry_json_close(json, ']');
}

static void write_scope(struct belfry_json *json, const struct tier_numbers *numbers)
{
    belfry_json_open(json, "scope", '[');
    for (size_t i = 0; i < numbers->n_scope; i++)
        belfry_json_str(json, NULL, numbers->scope[i]);
    belfry_json_close(json, ']');
}

static void write_upstream(struct belfry_json *json, const char *name, const struct tier_numbers *numbers)
{
    const struct driver_status *s = &numbers->upstream;
    belfry_json_open(json, name, '{');
    belfry_json_bool(json, "answered", numbers->upstream_answered);
    if (numbers->upstream_answered) {
        belfry_json_str(json, "standing", numbers_standing_name(s->standing));
        belfry_json_str(json, "trouble", numbers_trouble_name(s->trouble));
        belfry_json_str(json, "reason", s->reason);
        belfry_json_str(json, "state", numbers_state_name(s->state));
        belfry_json_str(json, "endpoint", s->endpoint);
        belfry_json_str(json, "version", s->version);
        belfry_json_str(json, "disk_why", s->disk_why);
        write_endpoints(json, numbers);
        write_members(json, "UPSTREAM", numbers);
        write_part(json, "follower", "FOLLOWER", numbers);
    }
    belfry_json_close(json, '}');
}

static void write_watch(struct belfry_json *json, const struct worker_numbers *w)
{
    belfry_json_open(json, "watch", '{');
    write_members(json, "WATCH", w);
    belfry_json_open(json, "closed", '{');
    for (int why = 0; why < WATCH_CLOSES; why++)
        belfry_json_uint(json, watch_close_name((enum watch_close)why), w->watch.closed[why]);
    belfry_json_close(json, '}');
    belfry_json_close(json, '}');
}

static void write_kube(struct belfry_json *json, const struct worker_numbers *w)
{
    belfry_json_open(json, "kube", '{');
    write_members(json, "KUBE", w);
    write_part(json, "lists", "LISTS", w);
    write_part(json, "fence", "FENCE", w);
    belfry_json_close(json, '}');
}

static void write_latency(struct belfry_json *json, const struct latency *latency)
{
    belfry_json_open(json, "latency", '{');
    belfry_json_open(json, "buckets", '[');
    for (size_t i = 0; i <= LATENCY_BUCKETS; i++)
        belfry_json_uint(json, NULL, latency->buckets[i]);
    belfry_json_close(json, ']');
    belfry_json_uint(json, "count", latency->count);
    belfry_json_real(json, "sum_s", latency->sum_s);
    belfry_json_close(json, '}');
}

static void write_worker(struct belfry_json *json, const struct worker_numbers *w)
{
    belfry_json_open(json, NULL, '{');
    belfry_json_bool(json, "answered", w->answered);
    if (w->answered) {
        write_members(json, "WORKER", w);
        write_part(json, "core", "CORE", w);
        write_watch(json, w);
        write_part(json, "inbound", "INBOUND", w);
        pools_write_worker(json, w->pools);
        write_part(json, "relay", "RELAY", w);
        write_part(json, "reads", "READS", w);
        write_part(json, "permit", "PERMIT", w);
        write_part(json, "uplink", "UPLINK", w);
        write_kube(json, w);
        write_part(json, "sse", "SSE", w);
        write_part(json, "front", "KFRONT", w);
        write_part(json, "reviews", "REVIEWS", w);
        write_latency(json, &w->latency);
    }
    belfry_json_close(json, '}');
}

static void write_workers(struct belfry_json *json, const struct tier_numbers *numbers)
{
    belfry_json_open(json, "workers", '[');
    for (size_t i = 0; i < numbers->n_workers; i++)
        write_worker(json, &numbers->workers[i]);
    belfry_json_close(json, ']');
}

enum belfry_err numbers_write(const struct tier_numbers *numbers, enum numbers_extent extent, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    belfry_json_open(&json, NULL, '{');
    belfry_json_str(&json, "name", numbers->name);
    belfry_json_str(&json, "version", numbers->version);
    belfry_json_uint(&json, "up_ms", numbers->now_ms - numbers->started_ms);
    belfry_json_bool(&json, "draining", numbers->draining);
    belfry_json_str(&json, "advertise", numbers->advertise != NULL ? numbers->advertise : "");
    write_scope(&json, numbers);
    write_upstream(&json, "upstream", numbers);
    write_part(&json, "replica", "REPLICA", numbers);
    write_part(&json, "log", "LOG", numbers);
    write_part(&json, "listeners", "LISTENERS", numbers);
    write_members(&json, "TIER", numbers);
    resources_write(&json, numbers->resources, numbers->n_resources);
    pools_write(&json, numbers);
    summary_write(&json, numbers);
    if (extent == NUMBERS_WHOLE)
        write_workers(&json, numbers);
    belfry_json_close(&json, '}');
    enum belfry_err err = belfry_json_finish(&json);
    return err == BELFRY_OK ? belfry_buf_append(out, "\n", 1) : err;
}

enum belfry_err numbers_write_upstream(const struct tier_numbers *numbers, struct belfry_buf *out)
{
    struct belfry_json json = belfry_json_begin(out);
    write_upstream(&json, NULL, numbers);
    enum belfry_err err = belfry_json_finish(&json);
    return err == BELFRY_OK ? belfry_buf_append(out, "\n", 1) : err;
}
