/* src/client/etcd_request.h
 *
 * request: encodes the requests of etcd's services, and their paths. Each function appends one message to a buffer.
 *
 * Thread: any. Pure. Errors of all: BELFRY_ERR_NOMEM, the buffer unchanged.
 */
#ifndef BELFRY_CLIENT_ETCD_REQUEST_H
#define BELFRY_CLIENT_ETCD_REQUEST_H

#include <belfry/belfry.h>

#include "base/buf.h"
#include "client/range_bytes.h"

#define BELFRY_PATH_RANGE           "/etcdserverpb.KV/Range"
#define BELFRY_PATH_PUT             "/etcdserverpb.KV/Put"
#define BELFRY_PATH_DELETE_RANGE    "/etcdserverpb.KV/DeleteRange"
#define BELFRY_PATH_TXN             "/etcdserverpb.KV/Txn"
#define BELFRY_PATH_COMPACT         "/etcdserverpb.KV/Compact"
#define BELFRY_PATH_LEASE_GRANT     "/etcdserverpb.Lease/LeaseGrant"
#define BELFRY_PATH_LEASE_REVOKE    "/etcdserverpb.Lease/LeaseRevoke"
#define BELFRY_PATH_LEASE_KEEPALIVE "/etcdserverpb.Lease/LeaseKeepAlive"
#define BELFRY_PATH_LEASE_TTL       "/etcdserverpb.Lease/LeaseTimeToLive"
#define BELFRY_PATH_LEASES          "/etcdserverpb.Lease/LeaseLeases"
#define BELFRY_PATH_STATUS          "/etcdserverpb.Maintenance/Status"
#define BELFRY_PATH_MEMBER_LIST     "/etcdserverpb.Cluster/MemberList"
#define BELFRY_PATH_ABOUT           "/belfry.Tier/About" /* a belfryd's own: name=1, version=2 */

/* A linearizable count of one key: only the header of the answer is of interest. */
BELFRY_NODISCARD enum belfry_err belfry_request_count(struct belfry_buf *out, struct belfry_bytes key);

/* A page of a listing: from `key` on, at `rev` (0: current), at most `limit` keys. */
BELFRY_NODISCARD enum belfry_err belfry_request_page(struct belfry_buf *out, struct belfry_bytes key,
                                                     struct belfry_bytes end, int64_t rev, int64_t limit);

/* The same at a revision that this server is known to have, serializable: the server asks no other. */
BELFRY_NODISCARD enum belfry_err belfry_request_pinned_page(struct belfry_buf *out, struct belfry_bytes key,
                                                            struct belfry_bytes end, int64_t rev, int64_t limit);

BELFRY_NODISCARD enum belfry_err belfry_request_range(struct belfry_buf *out, const struct belfry_wire_range *range,
                                                      const struct belfry_opts *opts);
BELFRY_NODISCARD enum belfry_err belfry_request_put(struct belfry_buf *out, struct belfry_bytes key,
                                                    struct belfry_bytes value, const struct belfry_opts *opts);
BELFRY_NODISCARD enum belfry_err belfry_request_put_leased(struct belfry_buf *out, struct belfry_bytes key,
                                                           struct belfry_bytes value, int64_t lease);
BELFRY_NODISCARD enum belfry_err belfry_request_delete(struct belfry_buf *out, const struct belfry_wire_range *range,
                                                       const struct belfry_opts *opts);
BELFRY_NODISCARD enum belfry_err belfry_request_compact(struct belfry_buf *out, int64_t rev, bool physical);
BELFRY_NODISCARD enum belfry_err belfry_request_lease_grant(struct belfry_buf *out, int64_t ttl_s, int64_t id);
BELFRY_NODISCARD enum belfry_err belfry_request_lease_id(struct belfry_buf *out, int64_t id); /* revoke, keepalive */
BELFRY_NODISCARD enum belfry_err belfry_request_lease_ttl(struct belfry_buf *out, int64_t id, bool keys);
BELFRY_NODISCARD enum belfry_err belfry_request_member_list(struct belfry_buf *out);
BELFRY_NODISCARD enum belfry_err belfry_request_authenticate(struct belfry_buf *out, char *user, char *password);

#endif
