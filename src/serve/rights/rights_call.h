/* src/serve/rights/rights_call.h
 *
 * rights_call: one question of rights.h on its way: a Range at a revision that never comes, or a Txn of several
 * (permit.h says why), and what upstream's answer means.
 *
 *     11 future revision                     allowed; from a tier above with the age of the answer (rights_request.h)
 *     7                                      forbidden
 *     16 "invalid auth token"                the next member is asked; from all that answer: no such token
 *     3 "revision of auth store is old"      the token is old
 *     3 "too many operations"                fewer ranges are to be asked for; the same if a tier above has a read-only
 *                                            listener, which passes no Txn on
 *     4, 8, 14, 1, nothing                   upstream could not be asked
 *     any other                              as if forbidden, if somebody waits for it; otherwise as if it did not come
 *
 * The user of a client certificate has no token of its own: vouch.h says which field speaks for it. While there is none
 * the call waits, and when upstream says that a token which this tier has made is old, it waits for a newer one and is
 * sent again. Any 16 means that upstream does not take the tier's word for the user.
 *
 * Thread: owner (the loop's). The answer comes from the loop, never from inside the call that asks (asker.h).
 */
#ifndef BELFRY_SERVE_RIGHTS_RIGHTS_CALL_H
#define BELFRY_SERVE_RIGHTS_RIGHTS_CALL_H

#include "serve/rights/asker.h"
#include "serve/rights/vouch.h"
#include "serve/uplink/uplink.h"

#define RIGHTS_CALL_NO_USER "etcdserver: user name is empty"

/* An asker of etcd. */
struct rights_calls {
    struct asker asker;
    struct uplink *uplink;
    size_t n_members;
    struct vouch *vouch; /* for users of certificates */
};

void rights_calls_init(struct rights_calls *calls, struct uplink *uplink, size_t n_members, struct vouch *vouch);

#endif
