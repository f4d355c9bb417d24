/* src/client/stored_object.h
 *
 * object: the inside of struct belfry_object: one allocation, reference counted, with the links of the one store that
 * may hold it.
 *
 *     [ header | key | value ]      ns and name are parts of the key, uid and version of the value
 *
 * Thread: owner (the session's).
 * Memory: the header's 96 bytes, key and value.
 */
#ifndef BELFRY_CLIENT_STORED_OBJECT_H
#define BELFRY_CLIENT_STORED_OBJECT_H

#include <belfry/object.h>

#include "base/treap.h"

struct belfry_index_entry;

struct belfry_object {
    /* the store's */
    struct belfry_treap_node node;      /* in the store, by key */
    struct belfry_index_entry *entries; /* its entries in indexes */
    uint32_t epoch;                     /* of the last listing that contained it */
    /* fixed at creation */
    uint32_t key_len, ns_len, value_len; /* ns_len 0: no namespace; otherwise the key is ns, '/', name */
    uint32_t uid_at, version_at;         /* offsets in the value */
    uint16_t uid_len, version_len;
    uint8_t of_kube;
    int64_t rev;
    int64_t create_rev, writes, lease; /* etcd */
    /* owner */
    uint32_t refs;
    char bytes[]; /* key, value */
};

#define BELFRY_OBJECT_MAX ((size_t)1 << 31) /* bytes of key and value together */

struct belfry_object_key_value {
    struct belfry_bytes key, value;
    int64_t rev, create_rev, writes, lease;
};

/* Copies. On BELFRY_OK the caller owns one reference. Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_TOO_LARGE. */
BELFRY_NODISCARD enum belfry_err belfry_object_of_key(const struct belfry_object_key_value *kv,
                                                      struct belfry_object **out);

/* A Kubernetes object whose JSON is `head` (usually empty) and `tail` joined; uid and version are in tail.
 * Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_TOO_LARGE (also: a uid or version over 64 KiB). */
struct belfry_object_parts {
    struct belfry_bytes ns, name, head, tail;
    struct belfry_bytes uid, version; /* parts of tail, or empty */
};
BELFRY_NODISCARD enum belfry_err belfry_object_of_kube(const struct belfry_object_parts *parts,
                                                       struct belfry_object **out);

/* The same state of the same object: uid and version (Kubernetes) or create_rev and rev (etcd) are equal, and the
 * values are equal byte for byte. A version alone is not enough: a server that shows one version for two states must
 * not hide the second. */
bool belfry_object_same(const struct belfry_object *a, const struct belfry_object *b);

size_t belfry_object_bytes(const struct belfry_object *object); /* memory used */

struct belfry_object *belfry_object_ref(struct belfry_object *object);
void belfry_object_unref(struct belfry_object *object); /* NULL is fine */

#endif
