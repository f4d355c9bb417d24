/* src/serve/kube/kube_forms.h
 *
 * kube_forms: the events of batches as a resource version shows them: the object before and after, and the lines that
 * watchers are given, each made when it is first asked for and shared by all who follow.
 *
 * An event is known by its revision, its number in it and the lens it is seen through; so the same change is found
 * again whether it comes from the log, from history or from upstream. A past that was rewritten gives the same numbers
 * to other events: what is found is compared with the event's bytes once in a turn, by their hash.
 *
 * Thread: owner (the worker's).
 * Memory: max_bytes; what was used last stays, and the newest whatever its size. A line that somebody holds lives on.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_FORMS_H
#define BELFRY_SERVE_KUBE_KUBE_FORMS_H

#include "base/blob.h"
#include "base/buf.h"
#include "core/batch.h"
#include "serve/kube/kube_change.h"

#define KUBE_FORMS_BYTES (8 * 1024 * 1024)

struct kube_forms;

BELFRY_NODISCARD enum belfry_err kube_forms_create(size_t max_bytes, uint64_t seed, struct kube_forms **out);
void kube_forms_destroy(struct kube_forms *forms); /* every lens has been closed; NULL is fine */

/* Batches that were seen may be gone, and others be where they were. */
void kube_forms_next_turn(struct kube_forms *forms);

/* ---- lenses ---- */

/* A resource version through which somebody looks at events; one for all who do. */
struct kube_lens {
    const struct kube_resource *resource; /* a reference is held */
    const struct kube_version *version;   /* of it */
};

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_lens_open(struct kube_forms *forms, const struct kube_resource *resource,
                                                const struct kube_version *version, const struct kube_lens **out);
void kube_lens_close(struct kube_forms *forms, const struct kube_lens *lens); /* NULL is fine */

/* Each label that somebody is found by costs every event a question: only so many are used at once. */
#define KUBE_LENS_LABELS 16

/* One more who is found by this pin; fields are few, so that theirs always can be. False: he is to be without one: there
 * are KUBE_LENS_LABELS others already, or no memory. */
BELFRY_NODISCARD bool kube_lens_pin(struct kube_forms *forms, const struct kube_lens *lens, const struct kube_pin *pin);
void kube_lens_unpin(struct kube_forms *forms, const struct kube_lens *lens, const struct kube_pin *pin); /* one less */

/* The name of a pin for the core: of this lens, and of no other that ever was. Appended. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_lens_pin_name(const struct kube_lens *lens, const struct kube_pin *pin,
                                                    struct belfry_buf *out);

/* ---- what is seen ---- */

/* The change that event number `event` of the batch is, lent until the next call. A key that is no object's has neither
 * before nor after. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_forms_change(struct kube_forms *forms, const struct kube_lens *lens,
                                                   const struct batch *batch, uint32_t event,
                                                   const struct kube_change **out);

/* How a line is to be: in which view (of a table: with what in its rows, and with its columns), about what. */
struct kube_line {
    enum kube_view view;
    enum kube_include include;
    enum kube_event event;
    bool first;
};

/* The line that tells of the change that was found last, through this lens; one reference is handed over.
 * Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_forms_line(struct kube_forms *forms, const struct kube_lens *lens,
                                                 const struct kube_change *change, const struct kube_line *line,
                                                 struct belfry_blob **out);

/* lines_attribute_fn: `name` is kube_lens_pin_name()'s; of a lens that was closed there are no values. */
bool kube_forms_attribute(struct kube_forms *forms, const struct batch *batch, uint32_t event, struct belfry_bytes name,
                          struct belfry_bytes *before, struct belfry_bytes *after);

struct kube_forms_stats {
    uint64_t made, shared;    /* changes: decoded, and found */
    uint64_t lines;           /* written */
    uint64_t undecodable;     /* values; each side of a change counts */
    uint64_t skipped;         /* events of keys that are no objects */
    size_t bytes, changes;    /* held */
    char undecodable_key[64]; /* the last one, printable, cut; "": none */
};
void kube_forms_stats(const struct kube_forms *forms, struct kube_forms_stats *out);

#endif
