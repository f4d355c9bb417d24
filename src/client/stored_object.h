/* src/client/stored_object.h
 *
 * object: struct belfry_object from inside: one allocation, counted, with room for the links of the one store it may be
 * in.
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
    struct belfry_index_entry *entries; /* where indexes have it */
    uint32_t epoch;                     /* the listing it was last seen in */
    /* fixed at creation */
    uint32_t key_len, ns_len, value_len; /* ns_len 0: no namespace; otherwise the key is ns, '/', name */
    uint32_t uid_at, version_at;         /* in the value */
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

/* An object of Kubernetes whose JSON is `head` (usually empty) and `tail` joined; uid and version lie in tail.
 * Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_TOO_LARGE (also: a uid or version over 64 KiB). */
struct belfry_object_parts {
    struct belfry_bytes ns, name, head, tail;
    struct belfry_bytes uid, version; /* runs of tail, or empty */
};
BELFRY_NODISCARD enum belfry_err belfry_object_of_kube(const struct belfry_object_parts *parts,
                                                       struct belfry_object **out);

/* The same state of the same object: Kubernetes: uid and version; etcd: create_rev and rev; and in any case the value, byte
 * for byte. A version alone is a server's word: one that is shown for two states must not hide the second. */
bool belfry_object_same(const struct belfry_object *a, const struct belfry_object *b);

size_t belfry_object_bytes(const struct belfry_object *object); /* memory it takes */

struct belfry_object *belfry_object_ref(struct belfry_object *object);
void belfry_object_unref(struct belfry_object *object); /* NULL is fine */

#endif
