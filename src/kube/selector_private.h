/* src/kube/selector_private.h: the fields of a selector, which selector_labels.c and selector_fields.c fill. */
#ifndef BELFRY_KUBE_SELECTOR_PRIVATE_H
#define BELFRY_KUBE_SELECTOR_PRIVATE_H

#include <stdatomic.h>
#include <stdint.h>

#include "kube/selector.h"

/* k=v and k==v become sets of one value, and k!=v a negated set, so there is one way to match and to write them. */
enum selector_op { SELECTOR_IN, SELECTOR_NOT_IN, SELECTOR_EXISTS, SELECTOR_ABSENT, SELECTOR_GREATER, SELECTOR_LESS };

/* Indexes of the fields that every version has. */
#define SELECTOR_NAME      KUBE_FIELDS_MAX
#define SELECTOR_NAMESPACE (KUBE_FIELDS_MAX + 1)

struct selector_term {
    enum selector_op op;
    unsigned place;              /* index of a field; 0 for a label */
    struct belfry_bytes key;     /* points into the selector's copy of the texts */
    struct belfry_bytes *values; /* part of the selector; sorted and distinct after reading */
    size_t n_values;
    int64_t bound; /* GREATER, LESS: the one value as a number */
};

/*     selector | terms, labels first | values of all terms | copies of the two texts
 */
struct kube_selector {
    atomic_size_t refs; /* release on unref, acquire before free */
    bool namespaced;    /* whether its resource is */
    char *text;         /* owned, canonical, text_len bytes */
    size_t text_len;
    size_t bytes;                /* of the allocation, without text */
    struct belfry_bytes *values; /* n_values of them */
    size_t n_values;
    size_t n_labels, n_terms; /* label terms are [0, n_labels), field terms [n_labels, n_terms); each sorted by key */
    struct selector_term terms[];
};

struct selector_draft {
    struct kube_selector *selector; /* has room for one term and one value per comma in the texts, up to the bounds */
    struct kube_status *status;
};

/* Adds a term without values, or a value to the newest term. Errors: BELFRY_ERR_INVALID (too many). */
BELFRY_NODISCARD enum belfry_err kube_selector_add_term(struct selector_draft *draft, struct belfry_bytes key,
                                                        struct selector_term **out);
BELFRY_NODISCARD enum belfry_err kube_selector_add_value(struct selector_draft *draft, struct selector_term *term,
                                                         struct belfry_bytes value);

/* Terms point into `text`, which must stay valid. Errors: BELFRY_ERR_INVALID with the draft's status. */
BELFRY_NODISCARD enum belfry_err kube_selector_read_labels(struct selector_draft *draft, struct belfry_bytes text);
/* The same; escapes are removed in place. */
BELFRY_NODISCARD enum belfry_err kube_selector_read_fields(struct selector_draft *draft, char *text, size_t len,
                                                           const struct kube_version *version);

/* Reads a decimal int64 like Go's ParseInt: a sign, digits, nothing else. False: not a number. */
bool kube_selector_number(struct belfry_bytes text, int64_t *out);

#endif
