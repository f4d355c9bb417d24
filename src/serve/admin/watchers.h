/* src/serve/admin/watchers.h
 *
 * watchers: which clients watch which ranges, and how far behind: the source of /debug/watchers. Each worker walks its
 * own watchers in short steps and keeps the first `limit` rows, or up to WATCHERS_GROUPS groups and a sum of the
 * "other" ones; the front merges them. Memory is bounded, whatever the number of watchers.
 *
 * Thread: a scan belongs to its worker until it is done, then to the front. Pure but for the walk.
 */
#ifndef BELFRY_SERVE_ADMIN_WATCHERS_H
#define BELFRY_SERVE_ADMIN_WATCHERS_H

#include "base/buf.h"
#include "core/worker.h"
#include "serve/etcd/watch.h"
#include "serve/kube/kube.h"
#include "serve/sse/sse_stream.h"

#define WATCHERS_LIMIT     100
#define WATCHERS_LIMIT_MAX 10000
#define WATCHERS_GROUPS    1000
/* A row keeps so much of a key, a range_end and a selector; longer ones are cut, and the row says so. */
#define WATCHERS_KEY_BYTES 256

enum watchers_sort { WATCHERS_BY_LAG, WATCHERS_BY_SENT, WATCHERS_BY_AGE };
enum watchers_group { WATCHERS_UNGROUPED, WATCHERS_GROUP_RANGE, WATCHERS_GROUP_PEER, WATCHERS_GROUP_STATE };

struct watchers_query {
    enum watchers_sort sort;
    enum watchers_group group;
    size_t limit;
    char filter[256]; /* a part of peer, client, user, identity, key, range_end, selector, state or dialect; "": all */
};

/* From the query part of a URL (without its question mark): sort=lag|sent|age, limit=N, group=range|peer|state,
 * filter=TEXT, percent-encoded. On failure a sentence naming the parameter is in why. Errors: BELFRY_ERR_INVALID. */
BELFRY_NODISCARD enum belfry_err watchers_parse(struct belfry_bytes query, struct watchers_query *out, char *why,
                                                size_t why_len);

struct watchers_scan;

/* `head`: the newest revision, to measure lag against. `service` and `worker` NULL: there are none, but those of
 * watchers_scan_cores(). Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err watchers_scan_create(const struct watchers_query *query, struct watch_service *service,
                                                      struct worker *worker, int64_t head, uint64_t now_ms,
                                                      struct watchers_scan **out);
void watchers_scan_destroy(struct watchers_scan *scan); /* NULL is fine */

/* Includes the watches of Kubernetes' dialect, and streams of Server-Sent Events. Before the first step. */
void watchers_scan_kube(struct watchers_scan *scan, struct kube_service *kube);
void watchers_scan_sse(struct watchers_scan *scan, struct sse_streams *sse);

/* In front of Kubernetes' API each resource has a service and a worker of its own, which are walked one after another.
 * Before the first step. Errors: BELFRY_ERR_NOMEM. */
struct watchers_core {
    struct kube_service *kube;
    struct worker *worker;
    int64_t head; /* as in watchers_scan_create() */
};
BELFRY_NODISCARD enum belfry_err watchers_scan_cores(struct watchers_scan *scan, const struct watchers_core *cores,
                                                     size_t n);

/* Visits up to max_visits watchers and streams, about 100 to 200 ns each; not from inside a turn of the worker. True:
 * done, and the scan no longer needs its worker. Watchers that open, close or move between two steps may be missed;
 * none is seen twice. Without memory a row or a group is left out, and watchers_write() returns BELFRY_ERR_NOMEM. */
bool watchers_scan_step(struct watchers_scan *scan, size_t max_visits);

/* Writes the merged rows of n finished scans (of equal queries) as JSON, and a newline:
 * {"revision":N,"watchers":N,"matched":N,"rows":[{"lag":..,"state":"synced","dialect":"grpc","peer":"..","user":"..",
 *  "identity":"cert:..","client":"..","key":"..","prefix":true,"watch_id":..,"sent_bytes":..,"age_ms":..},...]}
 * user: the name in the client's certificate; identity: as identity_show() writes it.
 * Rows of dialect "kube" also have "range":"widgets -n prod" or "widgets -A", which is the name of their group, too,
 * and, with selectors, "selector":"labelSelector=app=web&fieldSelector=spec.nodeName=n1".
 * Grouped, the largest first: "groups":[{"group":"..","watchers":N,"parked":N,"max_lag":N},...]; the groups beyond the
 * limit are summed up in "other", of the same form without a name. A range that is neither a key nor a prefix has
 * range_end, which is "\u0000" for an open one. Bytes that are not UTF-8 come as key_b64, range_end_b64, selector_b64;
 * "cut":true: one of them was too long. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err watchers_write(struct watchers_scan *const *scans, size_t n, struct belfry_buf *out);

#endif
