/* src/serve/admin/resources.h
 *
 * resources: what a tier in front of Kubernetes' API counts of each resource that it follows: in JSON a row, in metrics
 * the label resource. In front of etcd there are none.
 *
 * Thread: any. Plain data; ingest fills it in.
 */
#ifndef BELFRY_SERVE_ADMIN_RESOURCES_H
#define BELFRY_SERVE_ADMIN_RESOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "follow/driver.h"
#include "json/json.h"

struct resource_numbers {
    char name[320];              /* PLURAL or PLURAL.GROUP */
    char version[64];            /* of the API, "v1"; "": it is not found yet */
    char state[16];              /* "looking", "absent", or the follower's: "listing", "joining", "auditing", "live" */
    char server[320];            /* the URL of the API server that is asked; "": none yet */
    char reason[256];            /* why it is not ready; "": it is */
    enum driver_trouble trouble; /* the same as a word */
    char relisted[64];           /* why it listed anew the last time; "": it never did */
    uint64_t ready, stale;       /* 0 or 1 */
    uint64_t resource_version;
    uint64_t objects, replica_bytes, log_bytes;
    uint64_t events, bookmarks, listings, expired, rewritten, watches, probes, moves;
    uint64_t proofs, unproven;
};

/* One number, by its place in the struct. */
struct resource_number {
    const char *name, *metric;
    bool is_counter;
    const char *help;
    size_t offset; /* of a uint64_t */
};
size_t resources_table(const struct resource_number **out);
uint64_t resources_value(const struct resource_numbers *resource, const struct resource_number *number);

/* As a member "resources": [{"name":"pods","version":"v1","state":"live",...},...]; nothing when n is 0. */
void resources_write(struct belfry_json *json, const struct resource_numbers *resources, size_t n);

#endif
