/* src/cli/top/top_data.h
 *
 * top_data: what /debug/numbers and /debug/watchers of a belfryd say, read from their JSON. What is missing is 0 or "".
 *
 * Thread: owner.
 * Memory: texts and rows are lent from the documents, until top_data_fini().
 */
#ifndef BELFRY_CLI_TOP_TOP_DATA_H
#define BELFRY_CLI_TOP_TOP_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <belfry/err.h>

#define TOP_BUCKETS 17 /* of the latency: the last one is unbounded */

struct top_numbers {
    const char *name, *version, *endpoint, *upstream_version, *standing, *reason;
    uint64_t up_ms, silent_ms;
    bool draining, upstream_answered, silent_known;
    int64_t revision, upstream_revision, log_oldest, history_oldest;
    uint64_t log_bytes, history_bytes;
    uint64_t events_in, connects, losses, listings, backfills, backfills_done;
    /* added up over workers */
    uint64_t workers, workers_answering, connections;
    uint64_t streams, parked_streams, synced, catching_up, parked;
    uint64_t deliveries, sent_bytes, relayed, compacted;
    uint64_t latency[TOP_BUCKETS];
};

struct top_row {
    int64_t lag;
    const char *state, *dialect, *peer, *user, *client, *key, *range_end;
    const char *resource, *selector; /* of dialect kube: "widgets -n prod", "labelSelector=..."; else "" */
    bool prefix, is_span, encoded;   /* encoded: the key is base64 */
    uint64_t sent_bytes, age_ms;
};

struct top_group {
    const char *label; /* NULL: all others */
    uint64_t watchers, parked;
    int64_t max_lag;
};

struct top_data {
    struct top_numbers numbers;
    uint64_t watchers, matched;
    struct top_row *rows; /* owned */
    size_t n_rows;
    struct top_group *groups; /* owned */
    size_t n_groups;
    bool grouped;
    void *documents[2];
};

/* Reads both documents. The caller ends *out with top_data_fini(), on failure too.
 * Errors: BELFRY_ERR_PROTOCOL (not such JSON), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err top_data_read(const char *numbers, size_t numbers_len, const char *watchers,
                                               size_t watchers_len, struct top_data *out);
void top_data_fini(struct top_data *data); /* a zeroed one is fine */

#endif
