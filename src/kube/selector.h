/* src/kube/selector.h
 *
 * selector: label and field selectors, as Kubernetes reads them (docs/spec/kubernetes-watch.md section 8).
 *
 * Thread: any; immutable once made, counted. Pure.
 * Memory: one allocation beside the text. A selector text over KUBE_SELECTOR_MAX bytes or with more than KUBE_TERMS_MAX
 * terms is rejected.
 */
#ifndef BELFRY_KUBE_SELECTOR_H
#define BELFRY_KUBE_SELECTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/err.h"
#include "kube/resource.h"
#include "kube/status.h"

#define KUBE_SELECTOR_MAX (64 * 1024)
#define KUBE_TERMS_MAX    256
#define KUBE_VALUES_MAX   4096 /* in all sets together */

/* An object's attributes for a selector. A value whose data is NULL is absent; an unset field is "", not absent. */
struct kube_label {
    struct belfry_bytes key, value;
};
struct kube_attributes {
    struct belfry_bytes namespace, name;
    const struct kube_label *labels; /* sorted by key, byte order */
    size_t n_labels;
    struct belfry_bytes fields[KUBE_FIELDS_MAX]; /* in the order of its version's fields */
};

struct kube_selector;

/* Reads both texts (each may be empty). Valid fields are those of `version`, metadata.name and metadata.namespace.
 * Errors: BELFRY_ERR_INVALID with *status filled (400, with Kubernetes' text if it has one), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_selector_read(struct belfry_bytes labels, struct belfry_bytes fields,
                                                    const struct kube_resource *resource,
                                                    const struct kube_version *version, struct kube_selector **out,
                                                    struct kube_status *status);
/* The first field of a field selector that `version` does not have, in the text; data NULL: it has all of them, or the
 * text is no field selector up to there. */
struct belfry_bytes kube_selector_unknown_field(struct belfry_bytes fields, const struct kube_version *version);

struct kube_selector *kube_selector_ref(const struct kube_selector *selector);
void kube_selector_unref(const struct kube_selector *selector); /* NULL is fine */

bool kube_selector_is_everything(const struct kube_selector *selector);
bool kube_selector_matches(const struct kube_selector *selector, const struct kube_attributes *attributes);

/* metadata.name=X and metadata.namespace=Y restrict a selector to one object or namespace: the value, lent; data NULL:
 * not restricted. Contradicting terms make a selector that matches nothing: *nothing. So does a value that no object
 * has: an empty name, an empty namespace for namespaced objects, a namespace for cluster-scoped ones. */
struct belfry_bytes kube_selector_name(const struct kube_selector *selector, bool *nothing);
struct belfry_bytes kube_selector_namespace(const struct kube_selector *selector, bool *nothing);

/* An equality that every match satisfies; watchers are indexed by it. It is of a field other than the two above, or
 * else of a label (k=v, k==v, k in (v)). False: there is none. is_field: `field` is the index in the version's fields;
 * otherwise `label` is the key. Lent. */
struct kube_pin {
    bool is_field;
    size_t field;
    struct belfry_bytes label, value;
};
bool kube_selector_pin(const struct kube_selector *selector, struct kube_pin *out);

size_t kube_selector_bytes(const struct kube_selector *selector); /* memory used, for limits */

/* The canonical text, for people: "labelSelector=a=b,c in (d,e)&fieldSelector=f=g"; "" matches everything. The text
 * after each '=' reads as a selector that matches the same objects ('&' occurs in no label selector). Lent. */
struct belfry_bytes kube_selector_text(const struct kube_selector *selector);

#endif
