/* src/serve/admin/numbers.h
 *
 * numbers: everything that a tier counts, gathered at one moment: the source of /metrics, /readyz, /debug and belfryctl
 * top.
 *
 * Thread: plain data. Each thread fills in its own part; see admin.h.
 */
#ifndef BELFRY_SERVE_ADMIN_NUMBERS_H
#define BELFRY_SERVE_ADMIN_NUMBERS_H

#include "base/buf.h"
#include "core/worker.h"
#include "follow/driver.h"
#include "replica/replica.h"
#include "serve/admin/pools.h"
#include "serve/admin/resources.h"
#include "serve/etcd/tiers_below.h"
#include "serve/etcd/watch.h"
#include "serve/kfront/kfront.h"
#include "serve/kube/kube.h"
#include "serve/reads/reads.h"
#include "serve/relay/relay.h"
#include "serve/rights/reviews.h"
#include "serve/route.h"
#include "server/inbound.h"
#include "server/listener.h"

/* Seconds from publishing a revision until it was written to the sockets of all synced watchers. The bounds of the
 * buckets are 0.0001 * 2^i for i = 0..15; the last bucket has none. */
#define LATENCY_BUCKETS 16
struct latency {
    uint64_t buckets[LATENCY_BUCKETS + 1]; /* not cumulative */
    uint64_t count;
    double sum_s;
};
void latency_note(struct latency *latency, uint64_t published_ns, uint64_t now_ns);

struct worker_numbers { /* of one worker thread */
    struct worker_stats core;
    struct watch_stats watch;
    struct inbound_stats inbound;
    struct pool_numbers pools[SHARES_N];
    struct relay_stats relay;
    struct reads_stats reads;
    struct route_stats route;
    struct gateway_stats gateway;
    struct sse_stats sse;
    struct permit_stats permit;
    struct vouch_stats vouch; /* zeroes where users of certificates are not vouched for */
    enum permit_auth auth;    /* of upstream, as last found; only where a listener needs it */
    struct uplink_stats uplink;
    struct kube_stats kube; /* this and the next: zeroes where no resource is served */
    struct kube_lists_stats kube_lists;
    struct fence_stats fence;
    struct kfront_stats kfront; /* this and the next: zeroes in front of etcd */
    struct reviews_stats reviews;
    struct latency latency;
    int64_t position;
    uint64_t turns, longest_turn_us; /* longest of the last minute (daemon/peak.h) */
    struct tree_below *below;        /* tiers that watch here; NULL: none, or no memory. Owned by the tier */
    bool answered;                   /* false: the thread did not answer in time, and nothing here counts */
};

struct admin_numbers { /* of the admin address */
    struct pool_numbers pools[SHARES_N];
    uint64_t connections;
    uint64_t refused;       /* connections and streams, and connections that made way for new ones */
    uint64_t refused_pages; /* requests of web pages of other sites */
};

struct tier_numbers {
    uint64_t now_ms, started_ms;
    double process_start_s; /* metrics_process_start() */
    const char *name, *version;
    bool draining;
    uint64_t ready_lag_ms;         /* further behind is not ready */
    const char *guarded;           /* the address of a listener with rights=upstream; NULL: there is none */
    struct driver_status upstream; /* valid when upstream_answered */
    struct about about;            /* likewise */
    bool upstream_answered;
    struct replica_stats replica;
    int64_t history_oldest, history_newest; /* revisions; 0: none */
    int64_t log_oldest, log_newest;
    size_t log_bytes;
    uint64_t reads, reads_shared; /* of history, by the reader thread; shared: answered by a read for another watcher */
    uint64_t reads_shelved;       /* answered from an earlier backfill */
    size_t shelf_bytes;           /* of backfilled history that is kept */
    struct listener_stats listeners;
    struct admin_numbers admin;
    uint64_t listeners_left_s, upstream_left_s; /* until a certificate expires; BELFRY_NEVER: there is none */
    uint64_t clock_ms;                          /* Unix time, by the clock of this machine */
    uint64_t descriptors;                       /* that the process may have open */
    uint64_t disk_free_bytes;                   /* where the replica is; BELFRY_NEVER: not known */
    const char *advertise;                      /* the tier's own address in MemberList; NULL: it has none */
    const struct belfry_endpoint *endpoints;    /* upstream, as configured */
    size_t n_endpoints;
    char *const *scope; /* prefixes of keys that are followed; n_scope 0: everything */
    size_t n_scope;
    size_t memory_max;
    const struct resource_numbers *resources; /* in front of Kubernetes' API: what is followed */
    size_t n_resources;
    const struct kfront_field *fields; /* likewise: by which clients select, and which are not known here */
    size_t n_fields;
    size_t n_workers;
    const struct worker_numbers *workers;
};

/* ---- one number (numbers_table.h) ---- */

enum number_over { NUMBER_TIER, NUMBER_KNOWN, NUMBER_SUM, NUMBER_MAX, NUMBER_MIN, NUMBER_PART };
enum number_type { NUMBER_BOOL, NUMBER_INT, NUMBER_UINT };
enum number_kind { COUNTER, GAUGE, GAUGE_US, HISTOGRAM };

struct number {
    const char *name; /* in JSON; NULL: not there. NUMBER_PART: the name of the part that begins here */
    enum number_over over;
    enum number_type type;
    size_t offset, size; /* in tier_numbers or worker_numbers */
    const char *metric;  /* NULL: none */
    enum number_kind kind;
    const char *help;   /* NULL: a further series of a metric that has its help in an earlier row */
    const char *labels; /* as written between the braces; NULL: none */
};

/* All rows. Returns how many. */
size_t numbers_table(const struct number **out);
/* The tier's value, or the combined value of the workers that answered; a negative one counts as 0. */
uint64_t numbers_value(const struct tier_numbers *numbers, const struct number *number);
/* The bits of a number in a tier_numbers or a worker_numbers. */
uint64_t numbers_bits(const void *base, const struct number *number);

const char *numbers_standing_name(enum driver_standing standing); /* "ready", "not ready", "stale" */
const char *numbers_trouble_name(enum driver_trouble trouble);    /* "", "unreachable", "refused", ... */
const char *numbers_state_name(enum upstream_state state);        /* "start", "joining", ...: metric labels */

#endif
