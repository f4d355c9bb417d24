/* src/serve/admin/summary.h
 *
 * summary: the numbers of a tier, added up over its workers: what its page shows, a member of /debug/numbers, and the
 * source of sums in /metrics.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_ADMIN_SUMMARY_H
#define BELFRY_SERVE_ADMIN_SUMMARY_H

#include "serve/admin/numbers.h"
#include "json/json.h"

enum summary_dialect { SUMMARY_GRPC, SUMMARY_KUBE, SUMMARY_SSE, SUMMARY_DIALECTS };

struct summary_watchers {
    struct worker_standings of[SUMMARY_DIALECTS]; /* by the dialect of their stream */
};

const char *summary_dialect_name(enum summary_dialect dialect); /* "grpc", "kube", "sse" */

/* A watcher of dialect grpc is one that is not of lines. A synced watcher on a parked stream counts as parked: it has
 * missed an event, or will. */
void summary_watchers(const struct tier_numbers *numbers, struct summary_watchers *out);

/* Of the workers that answered. */
void summary_latency(const struct tier_numbers *numbers, struct latency *out);

/* The sum of the series of a metric whose labels begin with `labels`; "": all of them. The metric is in the table. */
uint64_t summary_metric(const struct tier_numbers *numbers, const char *metric, const char *labels);

/* As a member "summary":
 * {"ready":true,"verdict":"ready","why":"","checks":[..], as readiness_write() says;
 *  "workers":N,"workers_answering":N,"watchers":{"grpc":{"synced":N,"catching_up":N,"parked":N},"kube":{..},..},
 *  "rejected":{"descriptors":N,...},"memory":{"log":N,...},"latency":{"buckets":[..],"count":N,"sum_s":..},
 *  "worker":{..},"core":{..},...}
 * The last are the parts of numbers_table.h that workers have, combined as /metrics combines them. */
void summary_write(struct belfry_json *json, const struct tier_numbers *numbers);

#endif
