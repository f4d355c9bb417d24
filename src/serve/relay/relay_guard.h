/* src/serve/relay/relay_guard.h
 *
 * relay_guard: finds requests that would end the etcd to which they go, as their bytes come in and before they are
 * passed on.
 *
 * An etcd before 3.6 dies when it sorts by a target that does not exist (etcd-io/etcd#13554). Such a Range may be a
 * request itself, or lie in a Txn, behind any number of puts, in a Txn in a Txn. So the whole message is walked,
 * however large it is and however it is cut:
 *
 *     TxnRequest --2, 3--> RequestOp --1--> RangeRequest: sort_target is 6
 *         ^                    |
 *         `---------4----------'          everything else is passed over
 *
 * All members of a cluster die, at every start anew, of a Txn that deletes all keys from one on (range_end is a zero
 * byte) and afterwards puts one of them with ignore_value or ignore_lease: etcd looks whether the key is there before
 * it begins, and whether a Txn puts what it deletes, but not for deletes without an end. DeleteRangeRequest is 3 in
 * RequestOp, PutRequest 2.
 *
 * A Txn has two branches, one of which is carried out, and Txns in them have branches again. Each Txn that is open has
 * a level, the outermost 0. What the other branch of an open Txn deletes does not count. When a Txn is complete, it is
 * not known which of its branches etcd will carry out. So the keys that either of them deletes count as deleted, in the
 * branch of the outer Txn that it is in.
 *
 *     level 0   success   delete from "m" on          lowest[0][0] is "m"
 *     level 1      success   delete from "c" on       lowest[1][0] is "c"
 *                  failure   put "d"                  lowest[1][1] is none: only what is from "m" on is deleted
 *     level 0   success   put "d"                     lowest[0][0] is "c": it is deleted
 *
 * Of keys, RELAY_GUARD_KEY_BYTES are kept. Longer keys that begin alike count as the same one.
 *
 * A member dies as well of an alarm with an action that does not exist, and all of them, at every start anew, of one
 * that is activated and does not exist: AlarmRequest has its action in 1, its alarm in 3. The same is true of the name
 * of a new user or role that is longer than a key of bbolt may be: it is 1 in AuthUserAddRequest and
 * AuthRoleAddRequest.
 *
 * etcd looks at a message when it has all of it, and the end of a Range is seen here first. Messages are read as etcd
 * reads them (gogo/protobuf), which takes some that scan.h does not: groups, and numbers with more bits than they have
 * room for, whose upper bits are dropped. What etcd cannot read does no harm.
 *
 * A compressed message is unpacked piece by piece, and walked in the same way. One that cannot be read is refused: what
 * another library makes of it is not known.
 *
 * Thread: owner. Pure; unchecked: a part of its call.
 * Memory: none besides its own, while a compressed message comes in that of a gunzip, and between the first delete of
 *         a Txn and its end at most about 55 KB: a key for each branch of each level.
 */
#ifndef BELFRY_SERVE_RELAY_RELAY_GUARD_H
#define BELFRY_SERVE_RELAY_RELAY_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "net/grpc_frame.h"
#include "net/gunzip.h"

#define RELAY_GUARD_DEPTH     100 /* messages in messages: protobuf's own limit, in most languages */
#define RELAY_GUARD_LEVELS    (RELAY_GUARD_DEPTH / 2) /* of Txns: a Txn and an operation for each */
#define RELAY_GUARD_KEY_BYTES 512

enum relay_guard_kind { RELAY_GUARD_RANGE, RELAY_GUARD_TXN, RELAY_GUARD_ALARM, RELAY_GUARD_NAME };

/* What the innermost message is. */
enum relay_guard_message {
    RELAY_GUARD_OUTER, /* a TxnRequest or a RequestOp; all others have no messages in them: */
    RELAY_GUARD_OF_RANGE,
    RELAY_GUARD_OF_ALARM,
    RELAY_GUARD_OF_NAME, /* an AuthUserAddRequest, or an AuthRoleAddRequest */
    RELAY_GUARD_OF_PUT,
    RELAY_GUARD_OF_DELETE
};

/* A key whose bytes come in pieces. */
struct relay_guard_key {
    size_t len;
    uint8_t bytes[RELAY_GUARD_KEY_BYTES];
};

/* What a Txn has deleted, and the operation that is being read. */
struct relay_guard_writes {
    struct relay_guard_key *lowest[RELAY_GUARD_LEVELS][2]; /* owned; NULL: nothing is deleted from a key on */
    size_t n_keys;                                         /* that are not NULL */
    struct relay_guard_key key;
    bool is_from_key;                  /* of a delete: it has no end */
    bool ignores_value, ignores_lease; /* of a put */
};

/* What the next byte is. */
enum relay_guard_step {
    RELAY_GUARD_PREFIX, /* gRPC's */
    RELAY_GUARD_TAG,
    RELAY_GUARD_NUMBER,
    RELAY_GUARD_LENGTH,
    RELAY_GUARD_SKIP, /* in a field that is passed over */
    RELAY_GUARD_DONE  /* no byte is looked at any more */
};

struct relay_guard {
    enum relay_guard_kind kind; /* fixed, as: */
    bool is_gzip;
    enum relay_guard_step step;        /* of a compressed message: of what is unpacked */
    bool is_packed;                    /* the message is compressed: */
    uint32_t packed;                   /* bytes of it that have not come */
    struct belfry_gunzip *gunzip;      /* owned; NULL: it is not, or all of it has come */
    uint32_t at;                       /* bytes of the message, or of its prefix, that have come */
    uint64_t varint;                   /* as far as it has come: */
    unsigned shift;                    /* its bits so far */
    uint32_t field;                    /* number of the field */
    uint32_t skip;                     /* SKIP: bytes left */
    uint32_t groups;                   /* that are open */
    enum relay_guard_message message;  /* the innermost: */
    int32_t sort_target;               /* of a Range */
    int32_t action, alarm;             /* of an alarm */
    struct relay_guard_writes *writes; /* owned; NULL: a Txn has had no delete */
    uint64_t branches;                 /* of Txns that are open: a bit for each level, set in the failure */
    unsigned depth;                    /* messages that are open, as: */
    uint32_t ends[RELAY_GUARD_DEPTH];  /* where they end, outermost first */
};

/* Are requests of this path to be looked at? */
bool relay_guard_is(struct belfry_bytes path, enum relay_guard_kind *out);

/* is_gzip: what is compressed is so by gzip. etcd reads nothing else. */
static inline void relay_guard_init(struct relay_guard *guard, enum relay_guard_kind kind, bool is_gzip)
{
    *guard = (struct relay_guard){.kind = kind, .is_gzip = is_gzip};
}

void relay_guard_fini(struct relay_guard *guard);

/* Bytes that it holds besides its own. */
static inline size_t relay_guard_bytes(const struct relay_guard *guard)
{
    size_t bytes = guard->gunzip != NULL ? BELFRY_GUNZIP_BYTES : 0;
    if (guard->writes != NULL)
        bytes += sizeof(*guard->writes) + guard->writes->n_keys * sizeof(struct relay_guard_key);
    return bytes;
}

enum relay_guard_verdict {
    RELAY_GUARD_HARMLESS,   /* these bytes may be passed on */
    RELAY_GUARD_KILLS,      /* they must not, and none after them: of a Range, alone or in a Txn */
    RELAY_GUARD_DELETED,    /* the same: of a Txn that needs a key which it deletes */
    RELAY_GUARD_ALARMS,     /* the same: of an alarm */
    RELAY_GUARD_LONG_NAME,  /* the same: of a user or a role */
    RELAY_GUARD_TOO_DEEP,   /* the same: there are too many messages in messages */
    RELAY_GUARD_UNREADABLE, /* the same: it is compressed, and no gzip */
    RELAY_GUARD_TOO_LARGE,  /* the same: it unpacks to more than belfry_gzip_allowance() */
    RELAY_GUARD_NO_MEMORY   /* the same: to unpack it, or to look at it */
};

/* The next bytes of the request's body. */
enum relay_guard_verdict relay_guard_pass(struct relay_guard *guard, struct belfry_bytes bytes);

#endif
