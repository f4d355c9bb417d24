/* src/daemon/kube_tier.h
 *
 * kube_tier: a tier in front of Kubernetes API servers: for each resource that it follows a replica, a log and a
 * standing of its own.
 *
 *     ingest --a resource was found--> workers
 *     ingest --log, standing of each--> workers --fetch--> reader --too old: answered as such--> workers
 *
 * There are no backfills: what the window of a resource has lost, its watchers list again. Each worker serves lists and
 * watches of every resource, each over a core of its own, and relays the rest. Wiring only.
 *
 * Thread: owner (the front's).
 */
#ifndef BELFRY_DAEMON_KUBE_TIER_H
#define BELFRY_DAEMON_KUBE_TIER_H

#include "daemon/tier_parts.h"

/* Reads credentials; starts nothing. On failure a sentence is stored in why.
 * Errors: BELFRY_ERR_INVALID, BELFRY_ERR_IO, BELFRY_ERR_TLS, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_tier_open(const struct tier_parts_opts *opts, struct tier_parts **out, char *why,
                                                size_t why_len);

#endif
