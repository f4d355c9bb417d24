/* src/serve/kube/kube_change.h
 *
 * kube_change: one change of one object, and the event that a watcher receives (docs/spec/kubernetes-watch.md 3.4):
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
    bool blind;  /* there was an object before, and it is unknown: before is NULL, or may be another */
    const struct kube_object *named; /* blind: an object that has its name alone; NULL: there is none */
};

/* The event for a watcher with this selector (NULL: everything); `resumes`: from the revision of the change. *told
 * false: it receives none. Errors: BELFRY_ERR_COMPACTED: that depends on the object before, which is unknown. */
BELFRY_NODISCARD enum belfry_err kube_change_told(const struct kube_change *change,
                                                  const struct kube_selector *selector, bool resumes, bool *told,
                                                  enum kube_event *event);

/* The object that such an event shows. */
const struct kube_object *kube_change_shown(const struct kube_change *change, enum kube_event event);

#endif
