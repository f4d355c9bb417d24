/* src/serve/kfront/kfront_fields.h
 *
 * kfront_fields: the fields by which clients select a followed resource, and which the tier does not know: such lists
 * and watches are the API server's. They are counted by resource and field, and the first of each is logged, because a
 * watch that every node has costs the API server what it would cost without a tier.
 *
 * A request counts when the API server has answered it with 200. So a client that may not read the resource, or names
 * a field that does not exist, takes no row. A name that is long is cut, and bytes that cannot be printed are '?'.
 *
 * Thread: any. One mutex, held for the search of a row: shared by the workers of a tier.
 * Memory: KFRONT_FIELDS_MAX rows; what comes later is counted in one more, "other".
 */
#ifndef BELFRY_SERVE_KFRONT_KFRONT_FIELDS_H
#define BELFRY_SERVE_KFRONT_KFRONT_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "kube/resource.h"

#define KFRONT_FIELDS_MAX     64
#define KFRONT_FIELD_BYTES    96  /* of a field's name, with a zero */
#define KFRONT_RESOURCE_BYTES 320 /* PLURAL or PLURAL.GROUP */

struct kfront_fields;

struct kfront_field {
    char resource[KFRONT_RESOURCE_BYTES], name[KFRONT_FIELD_BYTES];
    uint64_t requests;
};

/* `log` is lent, and may be NULL. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kfront_fields_create(const struct belfry_log *log, struct kfront_fields **out);
void kfront_fields_destroy(struct kfront_fields *fields); /* NULL is fine */

/* A list or watch of this resource was passed on for this field, and is answered. */
void kfront_fields_note(struct kfront_fields *fields, const struct kube_resource *resource, const char *name);

/* Copies the rows, in the order in which they came. Returns how many. */
size_t kfront_fields_look(struct kfront_fields *fields, struct kfront_field out[KFRONT_FIELDS_MAX + 1]);

#endif
