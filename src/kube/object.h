/* src/kube/object.h
 *
 * object: a value from etcd as one version of its resource shows it: compact JSON with a hole for the digits of
 * metadata.resourceVersion, and what selectors look at. Made once for all who are given it.
 *
 *     {"apiVersion":"G/V","kind":"K","metadata":{"resourceVersion":"  |  ","name":...},"spec":...}
 *     `------------------------- head -----------------------------´    `---------- tail --------´
 *
 * Whatever the value has of apiVersion, kind, metadata.name, metadata.namespace, metadata.resourceVersion and
 * metadata.selfLink is replaced by what its key and resource say (an object that calls itself otherwise than its key is
 * shown under the key's name); everything else stays as it is, in its order, numbers byte for byte. Strings lose the
 * escapes that they do not need. There is no newline in it. Where metadata or a label is given twice the last counts,
 * as for every reader of JSON.
 *
 * With a wrap the object is made around the value: metadata.uid from key and create revision (the same for ever), no
 * creationTimestamp, generation = version of the key. Only JSON is served: anything else is undecodable.
 *
 * Thread: any; immutable, counted.
 * Memory: one allocation, text and attributes with it: the value, its labels and fields once more, 32 bytes a label.
 */
#ifndef BELFRY_KUBE_OBJECT_H
#define BELFRY_KUBE_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "kube/resource.h"
#include "kube/selector.h"

#define KUBE_OBJECT_DEPTH_MAX 512 /* objects and arrays in each other, the object itself counted */

struct kube_object {
    struct belfry_bytes head, tail; /* of its own text */
    size_t metadata_bytes;          /* so much of tail is still metadata, its closing brace included */
    struct kube_attributes attributes;
};

/* A KeyValue as stored. */
struct kube_stored {
    struct belfry_bytes key, value;
    int64_t create_rev, mod_rev, version;
};

/* Errors: BELFRY_ERR_NOT_FOUND: the key is no object's of this resource. BELFRY_ERR_INVALID: the value is not JSON
 * (protobuf, encrypted), not an object, nested deeper than KUBE_OBJECT_DEPTH_MAX, or (no wrap) its metadata is not an
 * object: it counts as absent. BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_object_make(const struct kube_resource *resource,
                                                  const struct kube_version *version, const struct kube_stored *stored,
                                                  struct kube_object **out);
struct kube_object *kube_object_ref(const struct kube_object *object);
void kube_object_unref(const struct kube_object *object);   /* NULL is fine */
size_t kube_object_bytes(const struct kube_object *object); /* memory, for accounts */

#endif
