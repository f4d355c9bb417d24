/* src/core/interest.h
 *
 * interest: which watchers want a key. Watchers of equal ranges share a node; a lookup gives the nodes whose range has
 * the key, in O(key length + log spans + nodes found), however many are registered.
 *
 * Keys and prefixes are in one hash table under a hash that grows byte by byte, so one pass over a key yields the hash
 * of each of its prefixes; only the lengths that some prefix has are probed. Spans that are no prefix (rare) are in an
 * interval tree.
 *
 * A node has its watchers by population: watchers that ride live, and watchers that ride a bus of the sweep (sweep.h).
 * A watcher is in at most one population; a waiting one is in none and is only counted. A population is ordered by
 * (stream, id): a stream's watchers lie together, in the order in which they receive a revision.
 *
 * A watcher may pin an attribute to a value (lines.h). Its node is then that of (range, attribute, value), and is found
 * only for events that have the value, before or after. A lookup asks one question for each attribute that is pinned
 * below a range it found, however many values there are.
 *
 * A watcher may want the keys of several ranges. Its node then is that of the list of ranges, and is found once for a
 * key that any of them has, at the cost of one range.
 *
 * Thread: owner.
 * Memory: one allocation per node (its bytes inside), and one more for each bus that has riders there.
 */
#ifndef BELFRY_CORE_INTEREST_H
#define BELFRY_CORE_INTEREST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/treap.h"
#include "core/key_range.h"
#include "core/lines.h"

#define POPULATION_LIVE 0
#define POPULATIONS     8 /* live, and seven buses */

struct interest;
struct interest_node;
struct watcher;
struct stream;

BELFRY_NODISCARD enum belfry_err interest_create(uint64_t seed, struct interest **out);
void interest_destroy(struct interest *interest); /* no node is left; NULL is fine */

struct interest_pin {
    struct belfry_bytes name, value; /* the name is not empty */
};

/* The node of `range` and `pin` (NULL: none), created if it is new, with one more watcher counted. Errors:
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err interest_add(struct interest *interest, const struct range *range,
                                              const struct interest_pin *pin, struct interest_node **out);

/* The node of several ranges, likewise. `hull` has all their keys: it is what interest_range() says. */
struct interest_several {
    struct range hull;
    const struct range *list;
    size_t n; /* at least 1 */
};
BELFRY_NODISCARD enum belfry_err interest_add_several(struct interest *interest, const struct interest_several *ranges,
                                                      struct interest_node **out);

/* One watcher less; it is in no population. The last one frees the node. */
void interest_drop(struct interest *interest, struct interest_node *node);

/* Joins or leaves a population of its node. Joining live never fails; a bus: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err interest_join(struct interest *interest, struct watcher *watcher, unsigned population);
void interest_leave(struct interest *interest, struct watcher *watcher, unsigned population);

/* The function that knows the attributes of events, and the event that is looked up. */
struct interest_asker {
    lines_attribute_fn attribute;
    void *user;
    const struct batch *batch;
    uint32_t event;
};

/* Collects the nodes that have `key`, the pinned value if they pin one, and a watcher in `population`. Without an asker
 * (NULL) no pinned node is found. The array is the interest's own, good until the next call.
 * Errors: BELFRY_ERR_NOMEM (more nodes than the array has room for, and it cannot grow; or the attribute's). */
BELFRY_NODISCARD enum belfry_err interest_find(struct interest *interest, struct belfry_bytes key, unsigned population,
                                               const struct interest_asker *asker, struct interest_node ***nodes,
                                               size_t *n);

/* The node whose first rider of this bus came first; NULL: the bus has no riders. Not for live. */
struct interest_node *interest_any(const struct interest *interest, unsigned population);

/* The root of a population, in (stream, id) order; NULL: it is empty. */
struct belfry_treap_node *interest_population(const struct interest_node *node, unsigned population);

/* A walk over the population from `from` on: its nodes are watchers' `place` (watcher_at_place()). A watcher that
 * leaves or joins ends the walk. */
struct interest_place {
    uint64_t serial; /* the stream's */
    int64_t id;
};
void interest_walk(const struct interest_node *node, unsigned population, const struct interest_place *from,
                   struct belfry_treap_walk *walk);

void interest_range(const struct interest_node *node, struct range *out); /* lent for the life of the node */

/* Moves whenever a node or a population changes: what was found before is then out of date. Never 0. */
uint64_t interest_generation(const struct interest *interest);

/* What a watcher of the range, of the range and the pin, or of several ranges costs here if no other shares the node:
 * an account of one client must not depend on what others watch. */
size_t interest_cost(const struct range *range, const struct interest_pin *pin);
size_t interest_cost_several(const struct interest_several *ranges);
size_t interest_node_cost(const struct interest_node *node); /* the same number, of a node that is there */

/* Numbers for accounts and tests. A range with pinned nodes below it, and one of several, has a node, too. */
size_t interest_n_nodes(const struct interest *interest);
size_t interest_bytes(const struct interest *interest); /* nodes and tables, without watchers */

#endif
