/* src/kube/columns.h
 *
 * columns: the table columns of a resource and an object's cells in them, as kubectl prints them
 * (docs/spec/kubernetes-watch.md 1.5). The first column is the name. Then come the version's columns or, if it has
 * none, the age.
 *
 * A cell is null, which kubectl shows as empty, if the path leads nowhere or to another type; a missing date is
 * "<unknown>". A column of type string shows any value: objects and arrays as JSON. Of several values it shows the
 * first.
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

/* Each function appends a JSON array to `out`. Errors: BELFRY_ERR_NOMEM; a part may have been appended. */

BELFRY_NODISCARD enum belfry_err kube_table_columns(const struct kube_version *version, struct belfry_buf *out);

/* now_s: seconds since 1970, for ages. */
BELFRY_NODISCARD enum belfry_err kube_table_cells(const struct kube_version *version, const struct kube_object *object,
                                                  int64_t rev, int64_t now_s, struct belfry_buf *out);

/* The cells of a row without an object: a bookmark's. */
BELFRY_NODISCARD enum belfry_err kube_table_no_cells(const struct kube_version *version, struct belfry_buf *out);

#endif
