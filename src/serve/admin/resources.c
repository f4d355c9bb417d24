/* src/serve/admin/resources.c */
#include "serve/admin/resources.h"

#include <string.h>

#include "serve/admin/readiness.h"

#define AT(field) offsetof(struct resource_numbers, field)

/* clang-format off */
static const struct resource_number table[] = {
    {"ready", "belfry_resource_ready", false, "1 while the resource is answered from here.", AT(ready)},
    {"stale", "belfry_resource_stale", false, "1 while the API server has been silent for too long.", AT(stale)},
    {"resource_version", "belfry_resource_version", false, "The newest resourceVersion that was published.",
     AT(resource_version)},
    {"objects", "belfry_resource_objects", false, "Objects in the replica of the resource.", AT(objects)},
    {"replica_bytes", "belfry_resource_replica_bytes", false, "Bytes of the replica that are in use.",
     AT(replica_bytes)},
    {"log_bytes", "belfry_resource_log_bytes", false, "Bytes of the newest changes in memory.", AT(log_bytes)},
    {"events", "belfry_resource_events_total", true, "Changes that the API server sent.", AT(events)},
    {"bookmarks", "belfry_resource_bookmarks_total", true, "Bookmarks that the API server sent.", AT(bookmarks)},
    {"listings", "belfry_resource_lists_total", true, "Lists of the whole resource that were taken over.",
     AT(listings)},
    {"expired", "belfry_resource_lists_expired_total", true,
     "Of these: because no API server had the history any more.", AT(expired)},
    {"rewritten", "belfry_resource_lists_rewritten_total", true, "Of these: because upstream's past is another one.",
     AT(rewritten)},
    {"watches", "belfry_resource_watches_total", true, "Watches that were opened at API servers.", AT(watches)},
    {"probes", "belfry_resource_probes_total", true, "Questions how far etcd is.", AT(probes)},
    {"moves", "belfry_resource_moves_total", true, "Moves to another API server.", AT(moves)},
    {"proofs", "belfry_resource_proofs_total", true,
     "Proofs for clients that the tier has everything that etcd has.", AT(proofs)},
    {"unproven", "belfry_resource_unproven_total", true, "Proofs that failed.", AT(unproven)},
};
/* clang-format on */

size_t resources_table(const struct resource_number **out)
{
    *out = table;
    return sizeof(table) / sizeof(table[0]);
}

uint64_t resources_value(const struct resource_numbers *resource, const struct resource_number *number)
{
    uint64_t value;
    memcpy(&value, (const char *)resource + number->offset, sizeof(value));
    return value;
}

static void write_resource(struct belfry_json *json, const struct resource_numbers *resource)
{
    belfry_json_open(json, NULL, '{');
    belfry_json_str(json, "name", resource->name);
    belfry_json_str(json, "version", resource->version);
    belfry_json_str(json, "state", resource->state);
    belfry_json_str(json, "server", resource->server);
    belfry_json_str(json, "reason", resource->reason);
    belfry_json_str(json, "hint", readiness_upstream_hint(resource->trouble));
    belfry_json_str(json, "relisted", resource->relisted);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        belfry_json_uint(json, table[i].name, resources_value(resource, &table[i]));
    belfry_json_close(json, '}');
}

void resources_write(struct belfry_json *json, const struct resource_numbers *resources, size_t n)
{
    if (n == 0)
        return;
    belfry_json_open(json, "resources", '[');
    for (size_t i = 0; i < n; i++)
        write_resource(json, &resources[i]);
    belfry_json_close(json, ']');
}
