/* src/serve/admin/tree.h
 *
 * tree: the tiers above and below, as one of them sees it: the source of /debug/tree and of `belfryctl tree`.
 *
 * Above is what About told (follow/about.h): every level up to etcd. Below are the tiers that have a Watch stream here now
 * and say their names (via.h); streams of one name from one host are one tier.
 *
 * Thread: plain data. A worker lists its streams, in a time that grows with them alone; the front puts them together.
 * Memory: at most TREE_BELOW tiers in what is written; the others are only counted.
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

/* The tiers below, of all workers, by name, for the caller to free(); NULL: no memory. */
struct tree_below *tree_gather(const struct tier_numbers *numbers);

/* As one JSON object and a newline:
 * {"above":[{"level":2,"name":..,"version":..,"endpoint":..,"standing":..,"revision":..,"lag":..,"silent_ms":..,"hop_us":..,
 *   "hop_error_us":..,"hop":"measured"|"half_trip","age_ms":..},...],            etcd, or whoever is the highest known, first
 *  "self":{"level":0,...},"below":[{"name":..,"peer":..,"since_ms":..,"streams":..,"position":..,"lag":..},...],"more":N}
 * What is not known is left out. age_ms is how old all of this is; a standing that is too old to be true of now, or that a
 * tier did not tell, is "?". Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err tree_write_json(const struct tier_numbers *numbers, struct belfry_buf *out);

/* For people: a line a level. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err tree_write_text(const struct tier_numbers *numbers, struct belfry_buf *out);

#endif
