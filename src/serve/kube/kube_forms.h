/* src/serve/kube/kube_forms.h
 *
 * kube_forms: the events of batches as a resource version shows them: the object before and after, what a watcher
 * receives of that, and its line. Each is made on first use and shared by all watchers.
 *
 * An event is identified by its revision, its number in it and its lens, so the same change is found again whether it
 * comes from the log, from history or from upstream. A rewritten past uses the same numbers for other events: a form
 * that is found is compared with the event's bytes once per turn, by their hash.
 *
 * Thread: owner (the worker's).
 * Memory: max_bytes; the forms used last stay, and the newest whatever its size. A line lives until its last reference.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_FORMS_H
#define BELFRY_SERVE_KUBE_KUBE_FORMS_H

#include "base/blob.h"
#include "base/buf.h"
#include "core/batch.h"
#include "kube/object.h"
#include "kube/render.h"
#include "kube/selector.h"

#define KUBE_FORMS_BYTES (8 * 1024 * 1024)

struct kube_forms;

BELFRY_NODISCARD enum belfry_err kube_forms_create(size_t max_bytes, uint64_t seed, struct kube_forms **out);
void kube_forms_destroy(struct kube_forms *forms); /* every lens has been closed; NULL is fine */

/* Batches may have been freed, and others be at their addresses. */
void kube_forms_next_turn(struct kube_forms *forms);

/* ---- lenses ---- */

/* A resource version by which events are shown; shared by all its watchers. */
struct kube_lens {
    const struct kube_resource *resource; /* a reference is held */
    const struct kube_version *version;   /* of it */
};

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_lens_open(struct kube_forms *forms, const struct kube_resource *resource,
                                                const struct kube_version *version, const struct kube_lens **out);
void kube_lens_close(struct kube_forms *forms, const struct kube_lens *lens); /* NULL is fine */

/* Every event is compared with each pinned label, so only this many are used at once. */
#define KUBE_LENS_LABELS 16

/* One more watcher is found by this pin. Fields can always be pinned, because they are few. False: there are
 * KUBE_LENS_LABELS other labels already, or no memory; the watcher goes without a pin. */
BELFRY_NODISCARD bool kube_lens_pin(struct kube_forms *forms, const struct kube_lens *lens, const struct kube_pin *pin);
void kube_lens_unpin(struct kube_forms *forms, const struct kube_lens *lens, const struct kube_pin *pin); /* one less */

/* Appends the name of a pin for the core, which no other lens ever has. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_lens_pin_name(const struct kube_lens *lens, const struct kube_pin *pin,
                                                    struct belfry_buf *out);

/* ---- changes ---- */

/* One change of one object. */
struct kube_change {
    const struct kube_object *before, *after; /* NULL: there is none, or it cannot be decoded */
    int64_t rev; /* of the change: the resourceVersion that every line of it carries, and that lists show */
    bool blind;  /* there was an object before, and it is unknown: before is NULL, or may be another */
    const struct kube_object *named; /* blind: an object that has its name alone; NULL: there is none */
};

/* What a watcher needs of a change. Objects of a verbatim resource (kube/resource.h) are parsed only for attributes. */
enum kube_forms_need { KUBE_NEED_TEXT, KUBE_NEED_ATTRIBUTES };

/* Event number `event` of the batch as a change, lent until the next call. A key that is no object's has neither before
 * nor after. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_forms_change(struct kube_forms *forms, const struct kube_lens *lens,
                                                   const struct batch *batch, uint32_t event, enum kube_forms_need need,
                                                   const struct kube_change **out);

/* The event for a watcher with this selector (NULL: everything), by docs/spec/kubernetes-watch.md 3.4:
 *
 *     passes the selector   after   before    event
 *                             1       0       ADDED, the object after
 *                             1       1       MODIFIED, the object after
 *                             0       1       DELETED, the object before, at the revision of the change
 *                             0       0       nothing
 *
 * An object that cannot be decoded is absent, on both sides. The object before may be unknown (`blind`): the store and
 * upstream have forgotten it. Then a watcher of everything can still receive MODIFIED. A watcher with a selector, or
 * one that would receive DELETED, is lost: its client lists again, at a later revision. An object that a later slice of
 * a revision deletes may have been changed by an earlier slice: `before` is then what was there before the revision. A
 * watcher that it passes receives DELETED, one that it does not is lost.
 *
 * A revision may change an object and delete it (decision 0070): the object before the delete is the one that the
 * revision has put, not etcd's prev_kv.
 *
 * A client that resumes from this very revision (core/lines.h) would list at it and come back, again and again, until
 * something is written. It receives MODIFIED for an object that passes, and otherwise DELETED, with an object that has
 * only a name: a client without that object loses nothing.
 *
 * `resumes`: the watcher does, from the revision of the change. *told false: it receives nothing. Any thread. Errors:
 * BELFRY_ERR_COMPACTED: that depends on the object before, which is unknown. */
BELFRY_NODISCARD enum belfry_err kube_change_told(const struct kube_change *change,
                                                  const struct kube_selector *selector, bool resumes, bool *told,
                                                  enum kube_event *event);

/* ---- lines ---- */

/* The form of a line. A table's rows have `include`, and its first line the columns. */
struct kube_line {
    enum kube_view view;
    enum kube_include include;
    enum kube_event event;
    bool first;
};

/* The line for the change that kube_forms_change() returned last; one reference is handed over. Errors:
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_forms_line(struct kube_forms *forms, const struct kube_lens *lens,
                                                 const struct kube_change *change, const struct kube_line *line,
                                                 struct belfry_blob **out);

/* lines_attribute_fn: `name` is kube_lens_pin_name()'s. A lens that was closed has no values. */
bool kube_forms_attribute(struct kube_forms *forms, const struct batch *batch, uint32_t event, struct belfry_bytes name,
                          struct belfry_bytes *before, struct belfry_bytes *after);

struct kube_forms_stats {
    uint64_t made, shared;    /* changes: decoded, and found */
    uint64_t parsed;          /* of verbatim resources: decoded for their attributes */
    uint64_t lines;           /* written */
    uint64_t undecodable;     /* values; each side of a change counts */
    uint64_t skipped;         /* events of keys that are no objects */
    size_t bytes, changes;    /* held */
    char undecodable_key[64]; /* the last one, printable, cut; "": none */
};
void kube_forms_stats(const struct kube_forms *forms, struct kube_forms_stats *out);

#endif
