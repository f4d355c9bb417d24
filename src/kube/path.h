/* src/kube/path.h
 *
 * path: the simple JSON paths of CustomResourceDefinitions: ".spec.nodeName", ".metadata.labels['a.b/c']", ".a[0].b",
 * "['x']", and, for columns, "[*]" and filters "[?(@.type=="Ready")]" with one equality.
 *
 * Thread: any; immutable. Pure but for yyjson.
 */
#ifndef BELFRY_KUBE_PATH_H
#define BELFRY_KUBE_PATH_H

#include <yyjson.h>

#include "base/bytes.h"
#include "base/err.h"

struct kube_path;

/* Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_path_read(struct belfry_bytes text, struct kube_path **out);
void kube_path_free(struct kube_path *path);            /* NULL is fine */
bool kube_path_is_simple(const struct kube_path *path); /* fields alone: what selectableFields may be */

/* The next value that it leads to from `root`: index 0, 1, ... ; NULL: no more. */
yyjson_val *kube_path_get(const struct kube_path *path, yyjson_val *root, size_t index);

#endif
