/* belfry/object.h: an etcd key with its value, or a Kubernetes object, as stores, lists and watches deliver them.
 *
 * Objects never change: a new state is a new object. A callback's objects are lent until it returns; hold an object to
 * keep it longer. The strings that the functions below return live as long as the object.
 *
 * Thread: the thread of the session that the object came from.
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

/* etcd: the key. Kubernetes: "namespace/name", or "name" for kinds without namespaces. */
BELFRY_API struct belfry_bytes belfry_object_key(const struct belfry_object *object);

/* etcd: the value. Kubernetes: the object as JSON, byte for byte as the server sent it; an item of a list also gets the
 * kind and apiVersion that lists omit. */
BELFRY_API struct belfry_bytes belfry_object_value(const struct belfry_object *object);

/* etcd: the revision of its last change. Kubernetes: metadata.resourceVersion if that is a number, else 0. */
BELFRY_API int64_t belfry_object_rev(const struct belfry_object *object);

/* Kubernetes only, "" for an etcd key: metadata.namespace, .name, .uid and .resourceVersion. */
BELFRY_API struct belfry_bytes belfry_object_ns(const struct belfry_object *object);
BELFRY_API struct belfry_bytes belfry_object_name(const struct belfry_object *object);
BELFRY_API struct belfry_bytes belfry_object_uid(const struct belfry_object *object);
BELFRY_API struct belfry_bytes belfry_object_version(const struct belfry_object *object);

/* etcd only, 0 for a Kubernetes object: the revision that created the key, the number of writes since, its lease. */
BELFRY_API int64_t belfry_object_create_rev(const struct belfry_object *object);
BELFRY_API int64_t belfry_object_writes(const struct belfry_object *object);
BELFRY_API int64_t belfry_object_lease(const struct belfry_object *object);

/* belfry_object_hold() keeps the object until belfry_object_release() was called once per hold, and returns it. A held
 * object outlives its store, but must not be used on another thread than its session's. Release accepts NULL. */
BELFRY_API const struct belfry_object *belfry_object_hold(const struct belfry_object *object);
BELFRY_API void belfry_object_release(const struct belfry_object *object);

/* Reads one value from JSON: copies the value at `path` (".spec.nodeName", ".metadata.labels['app']",
 * ".spec.ports[0].port", ".status.conditions[?(@.type==\"Ready\")].status") to out[0, cap) with a zero byte at its end:
 * a string without quotes and escapes, any other value as JSON. *out_len, if not NULL, receives the length, also when
 * the value does not fit.
 * Errors: BELFRY_ERR_NOT_FOUND (no value at the path, or null), BELFRY_ERR_INVALID (not a path, or not JSON),
 *         BELFRY_ERR_TOO_LARGE (it needs *out_len + 1 bytes), BELFRY_ERR_NOMEM. */
BELFRY_API int belfry_json_at(struct belfry_bytes json, const char *path, char *out, size_t cap, size_t *out_len);

#ifdef __cplusplus
}
#endif
#endif
