/* src/client/trust.h
 *
 * trust: can the server of a Watch stream be believed when it answers a progress request?
 *
 * Before 3.4.25, and from 3.5.0 to 3.5.7, etcd's answer may overtake older events that are still queued (etcd#15220):
 * to believe it is to lose them. So the server's version is asked for (Maintenance/Status), on the connection that
 * carries the stream, before progress is. docs/decisions/0007 has the reasons.
 *
 *     UNKNOWN --asked--> ASKING --a good version, or for other users only: those are new--> GOOD
 *        ^                 | |                                                               ^
 *        |                 | `-- otherwise: ABOUT --a belfryd, whose own watch it is ---------'
 *        |                 |       | `-- not, and an affected version, none, or no Status at all --> BAD
 *        `- passing, or another member's, and no belfryd
 *
 * A belfryd relays Status to a member of its upstream, which is not where its watch comes from. So what Status does not
 * settle is asked as belfry.Tier/About, which only a belfryd knows.
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
#include "client/conn.h"

#define BELFRY_TRUST_VERSION 32 /* bytes of a version that are kept, with the NUL */

enum belfry_trust_state {
    BELFRY_TRUST_UNKNOWN,
    BELFRY_TRUST_ASKING,
    BELFRY_TRUST_ABOUT,
    BELFRY_TRUST_GOOD,
    BELFRY_TRUST_BAD
};

struct belfry_trust {
    /* fixed */
    void (*changed)(void *user); /* an answer came, or will not come; from the connection */
    void *user;
    struct belfry_rng *rng;
    /* owner */
    enum belfry_trust_state state;
    struct belfry_grpc_call *call; /* ASKING, ABOUT */
    struct belfry_conn *conn;      /* likewise: the stream's */
    bool hopeless;                 /* ABOUT: Status said no for good */
    uint64_t member_id;            /* of the server of the stream; 0: it does not say */
    bool answered, other_member;   /* what came so far in ASKING */
    uint64_t retry_ms;             /* UNKNOWN: not before */
    struct belfry_backoff backoff;
    char version[BELFRY_TRUST_VERSION]; /* for people; "" while it is not known */
};

void belfry_trust_init(struct belfry_trust *trust, void (*changed)(void *user), void *user, struct belfry_rng *rng);

/* The stream is over: what was known of its server is forgotten, and what is under way is cancelled. */
void belfry_trust_reset(struct belfry_trust *trust);

/* When to ask; BELFRY_NEVER unless UNKNOWN. */
uint64_t belfry_trust_due(const struct belfry_trust *trust);

/* Asks, on the connection of the stream (flush it afterwards). `member_id` is what the stream's headers say, so that an
 * answer of somebody else behind a balancer is told apart. In UNKNOWN only. */
void belfry_trust_ask(struct belfry_trust *trust, struct belfry_conn *conn, uint64_t member_id, uint64_t now_ms);

/* Is this the version of an etcd whose progress stays behind the events? What cannot be read is not. Pure. */
bool belfry_trust_is_good(struct belfry_bytes version);

#endif
