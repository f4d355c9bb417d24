/* src/cli/verify/verify_kube_state.h
 *
 * verify_kube_state: the objects of a resource as a list shows them, and whether two lists agree. The lists need not be
 * of one version: an object that is newer than the other list is no difference.
 *
 * Thread: owner. Pure.
 * Memory: the key, the version and a hash of each object.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_KUBE_STATE_H
#define BELFRY_CLI_VERIFY_VERIFY_KUBE_STATE_H

#include <stddef.h>
#include <stdint.h>

#include <belfry/belfry.h>

#include "base/hash.h"

struct verify_kube_item;

/* Zeroed to begin with, but for the hash key, which both lists have in common. */
struct verify_kube_list {
    struct belfry_hash_key hash_key;
    struct verify_kube_item *items; /* owned, with their keys */
    size_t n, room;
    int64_t version; /* of the list; 0: it is not complete */
};

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err verify_kube_list_add(struct verify_kube_list *list, struct belfry_bytes key,
                                                      int64_t version, struct belfry_bytes json);
void verify_kube_list_clear(struct verify_kube_list *list); /* its items and its version */

enum verify_kube_difference {
    VERIFY_KUBE_MISSING, /* the reference has it, and the tier does not */
    VERIFY_KUBE_EXTRA,   /* the reverse */
    VERIFY_KUBE_VERSION, /* two versions of an object, both old enough for both lists */
    VERIFY_KUBE_BYTES    /* the same version with other bytes */
};

/* `version` is the object's at the reference, or that of the tier if it is EXTRA. */
typedef void (*verify_kube_difference_fn)(enum verify_kube_difference difference, const char *key, int64_t version,
                                          void *user);

/* Tells every difference; both lists are complete, and are sorted here. Returns how many objects agree. */
size_t verify_kube_compare(struct verify_kube_list *reference, struct verify_kube_list *tier,
                           verify_kube_difference_fn fn, void *user);

#endif
