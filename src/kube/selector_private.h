/* src/kube/selector_private.h: a selector from within: what selector_labels.c and selector_fields.c read into it. */
#ifndef BELFRY_KUBE_SELECTOR_PRIVATE_H
#define BELFRY_KUBE_SELECTOR_PRIVATE_H

#include <stdatomic.h>
#include <stdint.h>

#include "kube/selector.h"

/* k=v and k==v are sets of one value, k!=v is its contrary: one way to match, one way to write. */
enum selector_op { SELECTOR_IN, SELECTOR_NOT_IN, SELECTOR_EXISTS, SELECTOR_ABSENT, SELECTOR_GREATER, SELECTOR_LESS };

/* Places of fields that every version has. */
#define SELECTOR_NAME      KUBE_FIELDS_MAX
#define SELECTOR_NAMESPACE (KUBE_FIELDS_MAX + 1)

struct selector_term {
    enum selector_op op;
    unsigned place;              /* of a field; 0 for a label */
    struct belfry_bytes key;     /* in the selector's copy of what was asked */
    struct belfry_bytes *values; /* in the selector; sorted and distinct once read */
    size_t n_values;
    int64_t bound; /* GREATER, LESS: the one value as a number */
};

/*     selector | terms, those of labels first | values of all terms | the two texts as they were asked
 */
struct kube_selector {
    atomic_size_t refs; /* release on unref, acquire before free */
    bool namespaced;    /* its resource is */
    char *text;         /* owned, canonical, text_len bytes */
    size_t text_len;
    size_t bytes;                /* of the allocation, without text */
    struct belfry_bytes *values; /* n_values of them */
    size_t n_values;
    size_t n_labels, n_terms; /* label terms are [0, n_labels), field terms [n_labels, n_terms); each sorted by key */
    struct selector_term terms[];
};

struct selector_draft {
    struct kube_selector
        *selector; /* has room for a term and a value for each comma in what is read, up to the bounds */
    struct kube_status *status;
};

/* One more term without values, or one more value of the newest term. Errors: BELFRY_ERR_INVALID: one too many. */
BELFRY_NODISCARD enum belfry_err kube_selector_add_term(struct selector_draft *draft, struct belfry_bytes key,
                                                        struct selector_term **out);
BELFRY_NODISCARD enum belfry_err kube_selector_add_value(struct selector_draft *draft, struct selector_term *term,
                                                         struct belfry_bytes value);

/* `text` stays; terms point into it. Errors: BELFRY_ERR_INVALID with the draft's status. */
BELFRY_NODISCARD enum belfry_err kube_selector_read_labels(struct selector_draft *draft, struct belfry_bytes text);
/* The same; escapes are removed in place. */
BELFRY_NODISCARD enum belfry_err kube_selector_read_fields(struct selector_draft *draft, char *text, size_t len,
                                                           const struct kube_version *version);

/* A decimal int64 as Go's ParseInt reads it: a sign, digits, nothing else. False: it is none. */
bool kube_selector_number(struct belfry_bytes text, int64_t *out);

#endif
