/* src/client/cluster_identity.h
 *
 * cluster_identity: which cluster the session talks to. The first response decides. The session leaves an endpoint that
 * answers for another cluster; if every endpoint does, the cluster was replaced.
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_CLIENT_CLUSTER_IDENTITY_H
#define BELFRY_CLIENT_CLUSTER_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/scan.h"

struct belfry_cluster_identity {
    uint64_t cluster_id; /* 0: not known yet */
    size_t n_endpoints;
    uint64_t strangers; /* one bit per endpoint that answered for another cluster since one did for ours */
    uint64_t barred;    /* one bit per endpoint that is no longer used, so will never answer */
};

/* Endpoints beyond the 64th share the last bit. */
static inline uint64_t belfry_cluster_identity_bit(size_t endpoint)
{
    return (uint64_t)1 << (endpoint < 63 ? endpoint : 63);
}

/* False if the response of this endpoint is from another cluster. Headers without an id (some proxies) are ignored. */
static inline bool belfry_cluster_identity_check(struct belfry_cluster_identity *identity, size_t endpoint,
                                                 const struct belfry_wire_header *header)
{
    if (header->cluster_id == 0)
        return true;
    if (identity->cluster_id == 0)
        identity->cluster_id = header->cluster_id;
    if (identity->cluster_id != header->cluster_id) {
        identity->strangers |= belfry_cluster_identity_bit(endpoint);
        return false;
    }
    identity->strangers = 0;
    return true;
}

/* Every endpoint in use answers for another cluster. */
static inline bool belfry_cluster_identity_lost(const struct belfry_cluster_identity *identity)
{
    for (size_t i = 0; i < identity->n_endpoints; i++) {
        if (((identity->strangers | identity->barred) & belfry_cluster_identity_bit(i)) == 0)
            return false;
    }
    return identity->strangers != 0;
}

#endif
