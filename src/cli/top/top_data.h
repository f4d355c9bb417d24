/* src/cli/top/top_data.h
 *
 * top_data: /debug/numbers and /debug/watchers or /debug/clients of a belfryd, read from their JSON. A missing number
 * is 0, a missing text "".
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

#include "serve/admin/numbers_table.h"

#define TOP_BUCKETS  17 /* of the latency: the last one is unbounded */
#define TOP_POOLS    16 /* of which troubles are read */
#define TOP_DIALECTS 8  /* of watchers */

/* The rows of a part that top reads, one member each. */
#define TOP_MEMBER(over, member, name, show, ...) TOP_MEMBER_##show(name)
#define TOP_MEMBER_TOP(name)                      uint64_t name;
#define TOP_MEMBER_JSON(name)
#define TOP_MEMBER_HIDDEN(name)

struct top_numbers {
    const char *name, *version, *endpoint, *standing, *reason;
    const char *verdict, *why; /* of /readyz: "ready", "not ready", "draining"; "": an older tier does not say */
    uint64_t up_ms;
    bool draining, upstream_answered, silent_known;
    struct {
        NUMBERS_UPSTREAM(TOP_MEMBER)
    } upstream;
    struct {
        NUMBERS_FOLLOWER(TOP_MEMBER)
    } follower;
    struct {
        NUMBERS_REPLICA(TOP_MEMBER)
    } replica;
    struct {
        NUMBERS_LOG(TOP_MEMBER)
    } log;
    /* sums over the workers */
    struct {
        NUMBERS_CORE(TOP_MEMBER)
    } core;
    struct {
        NUMBERS_INBOUND(TOP_MEMBER)
    } inbound;
    struct {
        NUMBERS_RELAY(TOP_MEMBER)
    } relay;
    struct {
        NUMBERS_READS(TOP_MEMBER)
    } reads;
    uint64_t rejected;               /* for all reasons */
    const char *troubles[TOP_POOLS]; /* of pools, a sentence each */
    size_t n_troubles;
    uint64_t latency[TOP_BUCKETS];
    uint64_t workers, workers_answering;
    uint64_t synced, catching_up, parked; /* watchers */
    struct {
        const char *name;
        uint64_t watchers;
    } dialects[TOP_DIALECTS];
    size_t n_dialects;
    struct { /* in front of Kubernetes' API; n 0: it is not */
        uint64_t n, ready, absent, objects, proofs;
        const char *waiting, *state; /* the first that is neither ready nor absent; "": none */
    } resources;
};

struct top_row {
    int64_t lag;
    const char *state, *dialect, *peer, *identity, *client, *key, *range_end;
    const char *resource, *selector; /* of dialect kube: "widgets -n prod", "labelSelector=..."; else "" */
    bool prefix, is_span, encoded;   /* encoded: the key is base64 */
    uint64_t sent_bytes, age_ms;
};

struct top_group {
    const char *label; /* NULL: all others */
    uint64_t watchers, parked;
    int64_t max_lag;
};

struct top_client {
    const char *name, *class;
    uint64_t memory_bytes, connections, watchers, calls;
    double cpu_percent, calls_per_s, requests_per_s, bytes_in_per_s, bytes_out_per_s;
};

enum top_table { TOP_ROWS, TOP_GROUPS, TOP_CLIENTS };

struct top_data {
    struct top_numbers numbers;
    uint64_t watchers, matched;
    struct top_row *rows; /* owned */
    size_t n_rows;
    struct top_group *groups; /* owned */
    size_t n_groups;
    struct top_client *clients; /* owned */
    size_t n_clients;
    enum top_table table; /* which of the three there are */
    void *documents[2];
};

/* Reads both documents; `table` is of watchers or of clients. The caller ends *out with top_data_fini(), on failure
 * too. Errors: BELFRY_ERR_PROTOCOL (not such JSON), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err top_data_read(const char *numbers, size_t numbers_len, const char *table,
                                               size_t table_len, struct top_data *out);
void top_data_fini(struct top_data *data); /* a zeroed one is fine */

#endif
