/* src/kube/render.h
 *
 * render: objects as clients asked to see them: whole, as PartialObjectMetadata, or as rows of a Table
 * (docs/spec/kubernetes-watch.md 1.5, 2.3, 3.4), in a list or in the events of a watch.
 *
 * A table's cells are made from the object's JSON by the version's columns; without columns: Name and Age
 * (metadata.creationTimestamp). A table parses the text again: it is for people. The two others are copied from it.
 *
 * Thread: any. Pure but for yyjson and, if it is to say, the clock.
 */
#ifndef BELFRY_KUBE_RENDER_H
#define BELFRY_KUBE_RENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "kube/object.h"
#include "kube/request.h"
#include "kube/resource.h"
#include "kube/status.h"

enum kube_view { KUBE_VIEW_OBJECT, KUBE_VIEW_METADATA, KUBE_VIEW_TABLE };

struct kube_render {
    const struct kube_resource *resource; /* lent, all of them */
    const struct kube_version *version;
    enum kube_view view;
    enum kube_include include; /* of a table's rows */
    int64_t now_s;             /* seconds since 1970, from which a table counts ages; 0: the wall clock says */
};

/* All append to `out`, compact. Errors everywhere: BELFRY_ERR_NOMEM, the buffer's content as it was. */

/* One object at revision `rev` (a table: with one row, and the definitions of its columns). */
BELFRY_NODISCARD enum belfry_err kube_render_object(const struct kube_render *render, const struct kube_object *object,
                                                    int64_t rev, struct belfry_buf *out);

/* A list is its beginning, items with a comma between (the caller's), and its end. Some of its metadata is known only
 * at the end (continue, remainingItemCount), so all of it comes last: clients do not mind the order. continue_with
 * empty, remaining < 0: not said. */
BELFRY_NODISCARD enum belfry_err kube_render_list_begin(const struct kube_render *render, struct belfry_buf *out);
BELFRY_NODISCARD enum belfry_err kube_render_item(const struct kube_render *render, const struct kube_object *object,
                                                  int64_t rev, struct belfry_buf *out);
BELFRY_NODISCARD enum belfry_err kube_render_list_end(const struct kube_render *render, int64_t rev,
                                                      struct belfry_bytes continue_with, int64_t remaining,
                                                      struct belfry_buf *out);

/* A line of a watch, newline included. first: a table's columns are defined in it. */
enum kube_event { KUBE_ADDED, KUBE_MODIFIED, KUBE_DELETED };
BELFRY_NODISCARD enum belfry_err kube_render_event(const struct kube_render *render, enum kube_event event,
                                                   const struct kube_object *object, int64_t rev, bool first,
                                                   struct belfry_buf *out);
/* initial_end: with the annotation k8s.io/initial-events-end. As a table, a bookmark is one row without a name, and
 * does not define the columns: it is not `first`. */
BELFRY_NODISCARD enum belfry_err kube_render_bookmark(const struct kube_render *render, int64_t rev, bool initial_end,
                                                      struct belfry_buf *out);
BELFRY_NODISCARD enum belfry_err kube_render_error(const struct kube_status *status, struct belfry_buf *out);

#endif
