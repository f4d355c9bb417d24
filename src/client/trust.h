/* src/client/trust.h
 *
 * trust: whether the server of a Watch stream can be believed when it answers a progress request.
 *
 * Before 3.4.25, and from 3.5.0 to 3.5.7, etcd's answer may overtake older events that are still queued (etcd#15220); a
 * client that believes it loses them. So the version is requested first (Maintenance/Status), on the connection that
 * carries the stream. docs/decisions/0007 has the reasons.
 *
 *     UNKNOWN --asked--> ASKING --a good version, or for other users only: those are new--> GOOD
 *        ^                 | |                                                               ^
 *        |                 | `-- otherwise: ABOUT --a belfryd, whose own watch it is ---------'
 *        |                 |       | `-- not, and an affected version, none, or no Status at all --> BAD
 *        `- passing, or another member's, and no belfryd
 *
 * A belfryd relays Status to a member of its upstream, which is not the source of its watch. So if Status does not
 * decide, belfry.Tier/About is requested, which only a belfryd knows.
 *
 *     any --the stream is over--> UNKNOWN
 *
 * Thread: owner (the loop's).
 */
#ifndef BELFRY_CLIENT_TRUST_H
#define BELFRY_CLIENT_TRUST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"
#include "net/carrier.h"
#include "net/grpc.h"

#define BELFRY_TRUST_VERSION 32 /* bytes kept of a version, with the NUL */

enum belfry_trust_state {
    BELFRY_TRUST_UNKNOWN,
    BELFRY_TRUST_ASKING,
    BELFRY_TRUST_ABOUT,
    BELFRY_TRUST_GOOD,
    BELFRY_TRUST_BAD
};

struct belfry_trust {
    /* fixed */
    void (*changed)(void *user); /* the request has ended; called from the connection */
    void *user;
    struct belfry_rng *rng;
    /* owner */
    enum belfry_trust_state state;
    struct belfry_grpc_call *call; /* ASKING, ABOUT */
    struct belfry_carrier *conn;   /* ASKING, ABOUT: the stream's */
    bool hopeless;                 /* ABOUT: Status failed permanently */
    uint64_t member_id;            /* of the stream's server; 0: unknown */
    bool answered, other_member;   /* ASKING: received so far */
    uint64_t retry_ms;             /* UNKNOWN: ask not before */
    struct belfry_backoff backoff;
    char version[BELFRY_TRUST_VERSION]; /* for people; "" while unknown */
};

void belfry_trust_init(struct belfry_trust *trust, void (*changed)(void *user), void *user, struct belfry_rng *rng);

/* The stream ended: forget its server and cancel a request in progress. */
void belfry_trust_reset(struct belfry_trust *trust);

/* When to ask; BELFRY_NEVER unless UNKNOWN. */
uint64_t belfry_trust_due(const struct belfry_trust *trust);

/* Asks on the stream's connection (flush it afterwards). `member_id` comes from the stream's headers, so that an answer
 * of another member behind a balancer is recognised. Only in UNKNOWN. */
void belfry_trust_ask(struct belfry_trust *trust, struct belfry_carrier *conn, uint64_t member_id, uint64_t now_ms);

/* Whether this version of etcd keeps progress behind events. False for a version that cannot be read. Pure. */
bool belfry_trust_is_good(struct belfry_bytes version);

#endif
