/* src/kube/object.h
 *
 * object: a value from etcd as one version of its resource shows it: compact JSON with a gap for the digits of
 * metadata.resourceVersion, and the attributes that selectors need. It is made once for all its receivers.
 *
 *     {"apiVersion":"G/V","kind":"K","metadata":{"resourceVersion":"  |  ","name":...},"spec":...}
 *     `------------------------- head -----------------------------´    `---------- tail --------´
 *
 * apiVersion, kind, metadata.name, metadata.namespace, metadata.resourceVersion and metadata.selfLink come from the key
 * and the resource, never from the value: if the value has another name than its key, the key's name is shown.
 * Everything else stays, in its order, numbers byte for byte. Strings lose unnecessary escapes. The text contains no
 * newline. If metadata or a label appears twice, the last one counts, as usual for JSON.
 *
 * An object of a verbatim resource (resource.h) is the value itself, with the gap where its resourceVersion is:
 *
 *     {"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"  |  ","labels":...},"spec":...}
 *
 * If it is shown at its own version, its bytes are the API server's.
 *
 * With a wrap, the object is made around the value: metadata.uid comes from key and create revision, so it never
 * changes; there is no creationTimestamp; generation is the key's version. Only JSON values are served; any other value
 * is undecodable.
 *
 * Thread: any; immutable, counted.
 * Memory: one allocation for text and attributes: the value, its labels and fields once more, 32 bytes per label.
 */
#ifndef BELFRY_KUBE_OBJECT_H
#define BELFRY_KUBE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "kube/resource.h"
#include "kube/selector.h"

#define KUBE_OBJECT_DEPTH_MAX 512 /* nested objects and arrays, including the object itself */

struct kube_object {
    struct belfry_bytes head, tail; /* of the text; tail.data NULL: head is all of it, with its version */
    size_t metadata_at;             /* where the metadata begins in head; with a tail only */
    size_t metadata_bytes;          /* length of the metadata in tail, with its closing brace */
    bool is_selectable;             /* it has attributes */
    struct kube_attributes attributes;
};

/* A KeyValue as stored. */
struct kube_stored {
    struct belfry_bytes key, value;
    int64_t create_rev, mod_rev, version;
};

/* Errors: BELFRY_ERR_NOT_FOUND: the key is not one of this resource's objects. BELFRY_ERR_INVALID: the value is not
 * JSON (protobuf, encrypted), not an object, nested deeper than KUBE_OBJECT_DEPTH_MAX, or (without wrap) its metadata
 * is not an object; verbatim: or has no resourceVersion. It counts as absent. BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_object_make(const struct kube_resource *resource,
                                                  const struct kube_version *version, const struct kube_stored *stored,
                                                  struct kube_object **out);
/* The same without attributes, of a verbatim resource: the value is not parsed. */
BELFRY_NODISCARD enum belfry_err kube_object_make_text(const struct kube_resource *resource,
                                                       const struct kube_stored *stored, struct kube_object **out);

/* An object that has only a name. Errors: BELFRY_ERR_NOT_FOUND, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_object_make_named(const struct kube_resource *resource,
                                                        const struct kube_version *version,
                                                        const struct kube_stored *stored, struct kube_object **out);

/* A verbatim value as an object without attributes that points into it: not counted, not owned. False: it has no
 * metadata.resourceVersion. */
bool kube_object_lend(struct belfry_bytes value, struct kube_object *out);

struct kube_object *kube_object_ref(const struct kube_object *object);
void kube_object_unref(const struct kube_object *object);   /* NULL is fine */
size_t kube_object_bytes(const struct kube_object *object); /* memory used, for limits */

#endif
