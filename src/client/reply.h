/* src/client/reply.h
 *
 * reply: turns the bytes of an answer into the public struct belfry_reply, and walks its parts.
 *
 * Key-values are read in place. Members, status, leases and the answers inside a transaction are decoded once, into
 * memory that the reply owns until belfry_reply_fini().
 *
 * Thread: owner.
 */
#ifndef BELFRY_CLIENT_REPLY_H
#define BELFRY_CLIENT_REPLY_H

#include <belfry/belfry.h>

#include "base/bytes.h"
#include "client/calls.h"

enum belfry_reply_kind {
    BELFRY_REPLY_RANGE,
    BELFRY_REPLY_PUT,
    BELFRY_REPLY_DELETE,
    BELFRY_REPLY_TXN,
    BELFRY_REPLY_HEADER, /* only a header: compact, revoke */
    BELFRY_REPLY_GRANT,
    BELFRY_REPLY_KEEPALIVE,
    BELFRY_REPLY_TTL,
    BELFRY_REPLY_LEASES,
    BELFRY_REPLY_STATUS,
    BELFRY_REPLY_MEMBERS
};

struct belfry_reply_view {
    struct belfry_reply reply; /* first: the public pointer is a pointer to this */
    enum belfry_reply_kind kind;
    struct belfry_bytes message;
    uint32_t kv_field; /* the field of the key-values; 0: none */
    size_t at;         /* position of the walk over them */
    struct belfry_event event;
    /* decoded; owned */
    struct belfry_status status;
    struct belfry_member *members;
    size_t n_members;
    int64_t *leases;
    size_t n_leases;
    struct belfry_bytes *keys;
    size_t n_keys;
    struct belfry_reply_view *ops;
    size_t n_ops;
    const char **texts; /* pointers into `unpacked`, in lists that end with NULL */
    void *unpacked;     /* a protobuf-c message that texts point into */
};

/* Reads `message`. On success call belfry_reply_fini() at the end. Errors: BELFRY_ERR_PROTOCOL, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_reply_init(struct belfry_reply_view *view, enum belfry_reply_kind kind,
                                                   struct belfry_bytes message);
void belfry_reply_fini(struct belfry_reply_view *view);

#endif
