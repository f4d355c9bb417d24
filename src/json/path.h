/* src/json/path.h
 *
 * path: the JSON paths of CustomResourceDefinitions: ".spec.nodeName", ".metadata.labels['a.b/c']", ".a[0].b", "['x']",
 * "." (all of it) and, for columns, "[*]", "[-1]", slices "[1:3]" and filters "[?(@.type=="Ready")]" with one equality,
 * one inequality ("!="), or a bare path, which tests existence. A backslash makes the next byte literal.
 *
 * Not supported, and rejected: "..", unions, steps of slices, "<" and ">", "&&" and "||".
 *
 * Thread: any; immutable. Pure but for yyjson.
 * Memory: one allocation; a path has at most KUBE_PATH_MAX bytes and KUBE_STEPS_MAX steps.
 */
#ifndef BELFRY_JSON_PATH_H
#define BELFRY_JSON_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include <yyjson.h>

#include "base/bytes.h"
#include "base/err.h"

#define KUBE_PATH_MAX  1024
#define KUBE_STEPS_MAX 32

struct belfry_kube_path;

/* Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_kube_path_read(struct belfry_bytes text, struct belfry_kube_path **out);
void belfry_kube_path_free(struct belfry_kube_path *path); /* NULL is fine */
bool belfry_kube_path_is_simple(
    const struct belfry_kube_path *path); /* only fields, at least one: valid for selectableFields */

/* The value at the path from `root`; if there are several, the one with number `index`; NULL after the last. */
yyjson_val *belfry_kube_path_get(const struct belfry_kube_path *path, yyjson_val *root, size_t index);

/* Calls `fn` for each value, in one walk. */
void belfry_kube_path_each(const struct belfry_kube_path *path, yyjson_val *root,
                           void (*fn)(yyjson_val *value, void *user), void *user);

#endif
