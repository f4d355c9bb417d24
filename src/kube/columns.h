/* src/kube/columns.h
 *
 * table: the columns of a resource and an object's cells in them, as kubectl prints them (docs/spec/kubernetes-watch.md
 * 1.5). The first column is the name; then come the version's, or, when it has none, the age.
 *
 * What a column's path does not lead to, or leads to with another type, is null, which kubectl shows as nothing; a date
 * that is missing is "<unknown>". A column of type string shows anything: objects and arrays as JSON. Of several values
 * the first is shown.
 *
 * Thread: any. Pure but for yyjson.
 */
#ifndef BELFRY_KUBE_COLUMNS_H
#define BELFRY_KUBE_COLUMNS_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "kube/object.h"
#include "kube/resource.h"

/* All append to `out` a JSON array. Errors: BELFRY_ERR_NOMEM; something may have been appended. */

BELFRY_NODISCARD enum belfry_err kube_table_columns(const struct kube_version *version, struct belfry_buf *out);

/* now_s: seconds since 1970, for ages. */
BELFRY_NODISCARD enum belfry_err kube_table_cells(const struct kube_version *version, const struct kube_object *object,
                                                  int64_t rev, int64_t now_s, struct belfry_buf *out);

/* Of no object: a bookmark has a row, too. */
BELFRY_NODISCARD enum belfry_err kube_table_no_cells(const struct kube_version *version, struct belfry_buf *out);

#endif
