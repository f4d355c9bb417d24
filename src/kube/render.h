/* src/kube/render.h
 *
 * render: writes objects in the view that a client requested: whole, as PartialObjectMetadata, or as rows of a Table
 * (docs/spec/kubernetes-watch.md 1.5, 2.3, 3.4), in a list or in the events of a watch.
 *
 * The first column of a table is the name. Then come the version's columns or, if it has none, the age
 * (metadata.creationTimestamp). A cell is null, which kubectl shows as empty, if the path leads nowhere or to another
 * type; a missing date is "<unknown>". A column of type string shows any value: objects and arrays as JSON. Of several
 * values it shows the first. A table parses the object's JSON again; the other two views copy it.
 *
 * Thread: any. Pure but for yyjson and, if now_s is 0, the clock.
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
    const struct kube_resource *resource; /* all pointers are lent */
    const struct kube_version *version;
    enum kube_view view;
    enum kube_include include; /* the object in a table's rows */
    int64_t now_s;             /* seconds since 1970, for ages in tables; 0: use the wall clock */
};

/* All functions append compact JSON to `out`. Errors of all: BELFRY_ERR_NOMEM; the buffer's content is unchanged. */

/* One object at revision `rev` (a table has one row and the column definitions). */
BELFRY_NODISCARD enum belfry_err kube_render_object(const struct kube_render *render, const struct kube_object *object,
                                                    int64_t rev, struct belfry_buf *out);

/* A list is its beginning, its items, which the caller separates by commas, and its end. Some metadata is known only at
 * the end (continue, remainingItemCount), so all metadata comes last: clients accept any order. It omits an empty
 * continue_with and a negative remaining. Lists of an API server's custom resources have the order of its own, and
 * never omit continue. An item omits what items of the resource's lists omit (resource.h). An API server's lists end
 * with a newline. */
BELFRY_NODISCARD enum belfry_err kube_render_list_begin(const struct kube_render *render, struct belfry_buf *out);
BELFRY_NODISCARD enum belfry_err kube_render_item(const struct kube_render *render, const struct kube_object *object,
                                                  int64_t rev, struct belfry_buf *out);
BELFRY_NODISCARD enum belfry_err kube_render_list_end(const struct kube_render *render, int64_t rev,
                                                      struct belfry_bytes continue_with, int64_t remaining,
                                                      struct belfry_buf *out);

/* A list of a built-in type of an API server, or of metadata alone, whose metadata is only its version: the metadata
 * comes first, as API servers write it. The version is known after the first items, so there is a gap for it: *gap is
 * its place in `out`. Its end is kube_render_led_end()'s. */
bool kube_render_may_lead(const struct kube_render *render);
BELFRY_NODISCARD enum belfry_err kube_render_led_begin(const struct kube_render *render, struct belfry_buf *out,
                                                       size_t *gap);
/* Fills the gap. The text before it moves up, so that none is left. */
void kube_render_led_version(struct belfry_buf *out, size_t gap, int64_t rev);
BELFRY_NODISCARD enum belfry_err kube_render_led_end(struct belfry_buf *out);

/* One line of a watch, with its newline. first: a table line that defines the columns. */
enum kube_event { KUBE_ADDED, KUBE_MODIFIED, KUBE_DELETED };
BELFRY_NODISCARD enum belfry_err kube_render_event(const struct kube_render *render, enum kube_event event,
                                                   const struct kube_object *object, int64_t rev, bool first,
                                                   struct belfry_buf *out);
/* initial_end: adds the annotation k8s.io/initial-events-end. As a table, a bookmark is one row without a name. It does
 * not define the columns, so the next event is still `first`. */
BELFRY_NODISCARD enum belfry_err kube_render_bookmark(const struct kube_render *render, int64_t rev, bool initial_end,
                                                      struct belfry_buf *out);
BELFRY_NODISCARD enum belfry_err kube_render_error(const struct kube_status *status, struct belfry_buf *out);

#endif
