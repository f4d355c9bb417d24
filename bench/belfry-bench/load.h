/* bench/belfry-bench/load.h
 *
 * load: keys and values of a run, which the watchers and the putter must agree on.
 *
 * A shared load is one prefix that every watcher watches; puts go to 1,000 keys under it in turn. A distinct load has a
 * key for every watcher. The load of a fleet has ranges of which some are shared (fleet.h). A value starts with the
 * time of its put (put_time.h); the rest is filling. A load of objects (object.h) is watched over Kubernetes' API.
 * Every watcher watches all objects (shared), or the one object that its selector names (distinct). The time of the put
 * is in the object.
 *
 * Thread: any.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "fleet.h"

#define LOAD_KEY_MAX    96
#define LOAD_PREFIX_MAX 64
#define LOAD_KEYS       1000 /* of a shared load */

enum load_keys { LOAD_SHARED, LOAD_DISTINCT, LOAD_FLEET };
enum load_form { LOAD_VALUES, LOAD_OBJECTS };

struct load {
    enum load_keys keys;
    enum load_form form;
    const char *prefix; /* shorter than LOAD_PREFIX_MAX; its last byte is not 0xff */
    struct fleet fleet; /* LOAD_FLEET */
};

/* The range of watcher `index`: key into key[LOAD_KEY_MAX], end into end[LOAD_KEY_MAX], empty for a single key. */
void load_range(const struct load *load, size_t index, char *key, char *end);

/* Whether watcher `index` of a load of values watches this key. */
bool load_covers(const struct load *load, size_t index, struct belfry_bytes key);

/* The key of put number `put` (shared), for watcher `put` (distinct), or in range `put` (fleet). */
void load_put_key(const struct load *load, size_t put, char *key);

/* The most bytes that load_write_value() writes. `value_bytes`: of a value, or of an object's spec. */
size_t load_value_max(const struct load *load, size_t value_bytes);

/* The value of that put; returns its length. */
size_t load_write_value(const struct load *load, size_t put, size_t value_bytes, uint64_t now_ns, char *to);

#endif
