/* src/daemon/etcd_tier.h
 *
 * etcd_tier: a tier in front of etcd, or of a tier in front of etcd: one replica, one log, one standing.
 *
 *     ingest --log, standing--> workers --fetch--> reader --lost--> ingest
 *                                  ^------------------'------segment-'
 *
 * Each worker serves the watches of all dialects over one core, reads from the replica, and relays. Wiring only.
 *
 * Thread: owner (the front's).
 */
#ifndef BELFRY_DAEMON_ETCD_TIER_H
#define BELFRY_DAEMON_ETCD_TIER_H

#include "daemon/tier_parts.h"

/* Reads credentials and opens the replica; starts nothing. On failure a sentence is stored in why.
 * Errors: BELFRY_ERR_IO, BELFRY_ERR_TLS, BELFRY_ERR_LIMIT, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err etcd_tier_open(const struct tier_parts_opts *opts, struct tier_parts **out, char *why,
                                                size_t why_len);

#endif
