/* src/kfollow/resource_kv.h
 *
 * resource_kv: an object of a Kubernetes API server as the KeyValue that the store and the log hold, and a change of it
 * as an Event.
 *
 *     key         NAMESPACE/NAME, or NAME of an object without a namespace: the order of keys is the order of lists
 *     value       the object's JSON
 *     mod_rev     its resourceVersion; of a deletion, that of the deletion
 *     create_rev  the resourceVersion at which we first saw it
 *     version     1, and 1 more with each change that we saw
 *     lease       a mark of its uid: another uid is another object, though the name is the same
 *
 * The Event of a deletion has a mark too, so that a deletion can be recognised after a restart.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KFOLLOW_RESOURCE_KV_H
#define BELFRY_KFOLLOW_RESOURCE_KV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "follow/ingest.h"
#include "wire/scan.h"

struct resource_object {
    struct belfry_bytes key, uid, json;
    int64_t rv;
};

/* Reads a resourceVersion: 1 to 2^63 - 1 in decimal, without a sign or leading zeroes. False: it is none, and the
 * resource cannot be followed. */
bool resource_rv_read(struct belfry_bytes text, int64_t *out);

int64_t resource_uid_mark(struct belfry_bytes uid);

/* The KeyValue of an object; `before` is what it replaces, or NULL. The result points into the object. */
struct belfry_wire_kv resource_kv_of(const struct resource_object *object, const struct ingest_found *before);

/* Both replace what is in `room`; the result points into it. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err resource_kv_write(const struct belfry_wire_kv *kv, struct belfry_buf *room,
                                                   struct belfry_wire_kv *out);
/* The Event of a change; of a deletion, `kv` has the version of the deletion. */
BELFRY_NODISCARD enum belfry_err resource_event_write(const struct belfry_wire_kv *kv, bool is_delete,
                                                      struct belfry_buf *room, struct belfry_wire_event *out);

#endif
