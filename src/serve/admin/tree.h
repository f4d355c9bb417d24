/* src/serve/admin/tree.h
 *
 * tree: the tiers above and below this one: the source of /debug/tree and of `belfryctl tree`.
 *
 * Above is every level up to etcd, as About reports it (follow/about.h). Below are the tiers that have a Watch stream
 * here now and send their names (via.h); streams of one name from one host are one tier.
 *
 * Thread: plain data. A worker lists its streams, in time that depends on their number alone; the front merges the
 * lists.
 * Memory: at most TREE_BELOW tiers are written; the others are only counted.
 */
#ifndef BELFRY_SERVE_ADMIN_TREE_H
#define BELFRY_SERVE_ADMIN_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "serve/etcd/tiers_below.h"

#define TREE_BELOW 1000

struct tier_numbers;

/* The tiers below, of all workers, by name; the caller frees them with free(). NULL: no memory. */
struct tree_below *tree_gather(const struct tier_numbers *numbers);

/* As one JSON object and a newline:
 * {"above":[{"level":2,"name":..,"version":..,"endpoint":..,"standing":..,"revision":..,"lag":..,"silent_ms":..,
 *   "hop_us":..,"hop_error_us":..,"hop":"measured"|"half_trip","age_ms":..,"last_standing":..,"trouble":..},...],
 *  "self":{"level":0,...},
 *  "broken":{"level":1,"name":..,"above":..,"for_ms":..,"what":..,"why":..},
 *  "below":[{"name":..,"peer":..,"since_ms":..,"streams":..,"position":..,"lag":..},...],"more":N}
 * "above" begins with the highest known level, normally etcd. Unknown members are left out. age_ms is the age of the
 * level's report; a standing that is too old, or that a tier did not report, is "?", and "last_standing" is what it
 * was. "broken" is the highest level that reports now and is in trouble; without it no level is. At most `most` tiers
 * below are written; "more" counts the streams of the others. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err tree_write_json(const struct tier_numbers *numbers, size_t most,
                                                 struct belfry_buf *out);

/* For people: one line per level. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err tree_write_text(const struct tier_numbers *numbers, struct belfry_buf *out);

#endif
