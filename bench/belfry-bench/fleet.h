/* bench/belfry-bench/fleet.h
 *
 * fleet: the ranges that the clients of a fleet watch.
 *
 * Of a client's watches one half are keys of its own, one tenth prefixes of its own, and the others prefixes that
 * clients share, FLEET_SHARED of them; a quarter of those are watched twice. So of 100 watches 90 have a range of their
 * own in the client, and a shared prefix is watched by a fifth of all clients.
 *
 *     range  0 ... FLEET_SHARED - 1       PREFIXshared/007/
 *            and then, client by client,  PREFIXown/00042/key-000 ..., PREFIXown/00042/dir-050/ ...
 *
 * Thread: any.
 */
#ifndef BENCH_FLEET_H
#define BENCH_FLEET_H

#include <stddef.h>

#define FLEET_SHARED    200
#define FLEET_KEY_MAX   96
#define FLEET_RANGE_MIN 10 /* watches of a client */

struct fleet {
    size_t n_clients, n_watches; /* n_watches: of each client, FLEET_RANGE_MIN or more */
};

/* Distinct ranges, of all clients. */
size_t fleet_ranges(const struct fleet *fleet);

/* The range of watcher `watcher`, counted client by client. */
size_t fleet_range_of(const struct fleet *fleet, size_t watcher);

/* Writes range number `range` into key[FLEET_KEY_MAX] and end[FLEET_KEY_MAX], which is empty for a single key. */
void fleet_range(const struct fleet *fleet, const char *prefix, size_t range, char *key, char *end);

/* A key that only this range has. */
void fleet_key(const struct fleet *fleet, const char *prefix, size_t range, char *key);

#endif
