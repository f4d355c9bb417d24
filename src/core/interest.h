/* src/core/interest.h
 *
 * interest: which watchers want a key. Watchers of an equal range share a node; a lookup gives the nodes whose range has
 * the key, in O(key length + log spans + nodes found), however many are registered.
 *
 * Keys and prefixes are in one hash table under a hash that grows byte by byte, so one pass over a key yields the hash
 * of each of its prefixes; only the lengths that some prefix has are probed. Spans that are no prefix (rare) are in an
 * interval tree.
 *
 * A node knows its watchers by population: those who ride live, and those who ride a bus of the sweep (sweep.h). A
 * watcher is in at most one; one who waits is in none, and only counts. A population is ordered by (stream, id), so that
 * a stream's watchers lie together and in the order in which they are given a revision.
 *
 * A watcher may have pinned an attribute to a value (lines.h): its node is that of (range, attribute, value), and is found
 * only for events that have the value, before or after. A look-up then costs a question for each attribute that is
 * pinned below a range found, however many values there are.
 *
 * Thread: owner.
 * Memory: one allocation a node (its bytes inside), and one more for each bus that has riders there.
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

/* The node of `range` and `pin` (NULL: none), made if it is new, with one more watcher counted. Errors:
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err interest_add(struct interest *interest, const struct range *range,
                                              const struct interest_pin *pin, struct interest_node **out);

/* One watcher less; it is in no population. The node of the last one goes. */
void interest_drop(struct interest *interest, struct interest_node *node);

/* Joins or leaves a population of its node. Joining live never fails; a bus: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err interest_join(struct interest *interest, struct watcher *watcher, unsigned population);
void interest_leave(struct interest *interest, struct watcher *watcher, unsigned population);

/* Whom to ask for the attributes of an event, and which event it is. */
struct interest_asker {
    lines_attribute_fn attribute;
    void *user;
    const struct batch *batch;
    uint32_t event;
};

/* Collects the nodes that have `key`, and the pinned value if they have one, and somebody in `population`; without an
 * asker (NULL): none that is pinned. The array is the interest's own, good until the next call.
 * Errors: BELFRY_ERR_NOMEM (more nodes than the array has room for, and it cannot grow; or the attribute's). */
BELFRY_NODISCARD enum belfry_err interest_find(struct interest *interest, struct belfry_bytes key, unsigned population,
                                               const struct interest_asker *asker, struct interest_node ***nodes,
                                               size_t *n);

/* A node that has somebody in this bus's population; NULL: none. The order is that in which nodes got their first
 * rider. Not for live. */
struct interest_node *interest_any(const struct interest *interest, unsigned population);

/* The root of a population, in (stream, id) order; NULL: nobody. */
struct belfry_treap_node *interest_population(const struct interest_node *node, unsigned population);
void interest_range(const struct interest_node *node, struct range *out); /* lent for the life of the node */

/* Numbers for accounts and tests. A range below which something is pinned has a node, too. */
size_t interest_n_nodes(const struct interest *interest);
size_t interest_bytes(const struct interest *interest); /* nodes and tables, without watchers */

#endif
