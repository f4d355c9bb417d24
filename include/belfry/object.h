/* belfry/object.h: what a store, a list or a watch holds: a key of etcd with its value, or an object of Kubernetes.
 *
 * Objects never change: a new state is a new object. What a callback is given is lent until it returns; hold an object
 * to keep it longer. The texts that the functions below give live as long as the object does.
 *
 * Thread: that of the session it came from.
 */
#ifndef BELFRY_OBJECT_H
#define BELFRY_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#include <belfry/bytes.h>
#include <belfry/err.h>

#ifdef __cplusplus
extern "C" {
#endif

struct belfry_object;

/* etcd: the key. Kubernetes: "namespace/name", or "name" where there are no namespaces. */
BELFRY_API struct belfry_bytes belfry_object_key(const struct belfry_object *object);

/* etcd: the value. Kubernetes: the object as JSON, byte for byte as the server sent it (an item of a list gets the kind
 * and apiVersion that the list leaves out). */
BELFRY_API struct belfry_bytes belfry_object_value(const struct belfry_object *object);

/* etcd: the revision of its last change. Kubernetes: metadata.resourceVersion where that is a number, else 0. */
BELFRY_API int64_t belfry_object_rev(const struct belfry_object *object);

/* Kubernetes only, "" for a key of etcd: metadata.namespace, .name, .uid and .resourceVersion. */
BELFRY_API struct belfry_bytes belfry_object_ns(const struct belfry_object *object);
BELFRY_API struct belfry_bytes belfry_object_name(const struct belfry_object *object);
BELFRY_API struct belfry_bytes belfry_object_uid(const struct belfry_object *object);
BELFRY_API struct belfry_bytes belfry_object_version(const struct belfry_object *object);

/* etcd only, 0 for an object of Kubernetes: the revision that created it, how often it was written since, its lease. */
BELFRY_API int64_t belfry_object_create_rev(const struct belfry_object *object);
BELFRY_API int64_t belfry_object_writes(const struct belfry_object *object);
BELFRY_API int64_t belfry_object_lease(const struct belfry_object *object);

/* Keeps the object until it is released as often as it was held; it outlives its store, not its session's thread.
 * Returns it. Release takes NULL. */
BELFRY_API const struct belfry_object *belfry_object_hold(const struct belfry_object *object);
BELFRY_API void belfry_object_release(const struct belfry_object *object);

/* Looks into JSON: stores what is at `path` (".spec.nodeName", ".metadata.labels['app']", ".spec.ports[0].port",
 * ".status.conditions[?(@.type==\"Ready\")].status") in out[0, cap), ended by a zero byte: a string without its quotes
 * and escapes, anything else as JSON. *out_len, if not NULL, gets its length, also when it does not fit.
 * Errors: BELFRY_ERR_NOT_FOUND (nothing is there, or null), BELFRY_ERR_INVALID (not a path, or not JSON),
 *         BELFRY_ERR_TOO_LARGE (it needs *out_len + 1 bytes), BELFRY_ERR_NOMEM. */
BELFRY_API int belfry_json_at(struct belfry_bytes json, const char *path, char *out, size_t cap, size_t *out_len);

#ifdef __cplusplus
}
#endif
#endif
