/* src/serve/relay/relay_members.h
 *
 * relay_members: the answer to Cluster/MemberList with the tier's own address in it, so that a client that asks for the
 * members and then uses them (clientv3's Sync) stays with the tier.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_RELAY_RELAY_MEMBERS_H
#define BELFRY_SERVE_RELAY_RELAY_MEMBERS_H

#include "base/buf.h"

#define RELAY_MEMBERS_PATH  "/etcdserverpb.Cluster/MemberList"
#define RELAY_MEMBERS_BYTES (128 * 1024) /* a longer answer is not rewritten: some hundred members */

/* Appends to `out` the response's `body` (one gRPC frame, gzipped or not) with `advertise` in place of the client URLs
 * of every member that has any. The result is not gzipped. Errors: BELFRY_ERR_PROTOCOL (it is not one whole
 * MemberListResponse: pass it on as it is), BELFRY_ERR_TOO_LARGE, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err relay_members_rewrite(struct belfry_bytes body, const char *advertise,
                                                       struct belfry_buf *out);

#endif
