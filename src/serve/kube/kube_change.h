/* src/serve/kube/kube_change.h
 *
 * kube_change: one change of one object, and what a watcher is told of it (docs/spec/kubernetes-watch.md 3.4):
 *
 *     passes the selector   after   before    told
 *                             1       0       ADDED, the object after
 *                             1       1       MODIFIED, the object after
 *                             0       1       DELETED, the object before, at the revision of the change
 *                             0       0       nothing
 *
 * An object that cannot be decoded is absent, on both sides. What was there before may be unknown (`blind`): the store
 * and upstream have forgotten it. Then a watcher of everything can still be told MODIFIED; whoever selects, or would be
 * told DELETED, cannot be told the truth and is lost: its client lists, at a later revision.
 *
 * A client that resumes from this very revision (core/lines.h) would list at it and come back, again and again, until
 * something is written. It is told MODIFIED of what passes, and of all else DELETED, with an object that has a name and
 * nothing else: whoever does not have it loses nothing.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_KUBE_KUBE_CHANGE_H
#define BELFRY_SERVE_KUBE_KUBE_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "kube/object.h"
#include "kube/render.h"
#include "kube/selector.h"

struct kube_change {
    const struct kube_object *before, *after; /* NULL: there is none, or it cannot be decoded */
    int64_t rev; /* of the change: the resourceVersion that every line of it carries, and that lists show */
    bool blind;  /* there was something before, and nobody knows what; before is NULL */
    const struct kube_object *named; /* blind: an object that has its name alone; NULL: there is none */
};

/* What a watcher with this selector (NULL: everything) is told, if it `resumes` from the revision of the change or not.
 * *told false: nothing.
 * Errors: BELFRY_ERR_COMPACTED: it cannot be said without what was there before. */
BELFRY_NODISCARD enum belfry_err kube_change_told(const struct kube_change *change,
                                                  const struct kube_selector *selector, bool resumes, bool *told,
                                                  enum kube_event *event);

/* The object that such an event shows. */
const struct kube_object *kube_change_shown(const struct kube_change *change, enum kube_event event);

#endif
