/* src/client/identity.h
 *
 * identity: which cluster the session talks to. The first response decides; an endpoint that answers for another
 * cluster is left, and when every endpoint in turn does, the cluster was replaced.
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_CLIENT_IDENTITY_H
#define BELFRY_CLIENT_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/scan.h"

struct belfry_identity {
    uint64_t cluster_id; /* 0: not known yet */
    size_t n_endpoints;
    size_t strangers; /* answers in a row for another cluster */
};

/* False when the response is from another cluster. Headers without an id (some proxies) say nothing. */
static inline bool belfry_identity_check(struct belfry_identity *identity, const struct belfry_wire_header *header)
{
    if (header->cluster_id == 0)
        return true;
    if (identity->cluster_id == 0)
        identity->cluster_id = header->cluster_id;
    if (identity->cluster_id != header->cluster_id) {
        identity->strangers++;
        return false;
    }
    identity->strangers = 0;
    return true;
}

/* Every endpoint answers for another cluster. */
static inline bool belfry_identity_lost(const struct belfry_identity *identity)
{
    return identity->strangers >= identity->n_endpoints && identity->strangers > 0;
}

#endif
