/* src/serve/relay/relay_rights.h
 *
 * relay_rights: what is known of etcd's methods without reading requests.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_RELAY_RELAY_RIGHTS_H
#define BELFRY_SERVE_RELAY_RELAY_RIGHTS_H

#include <stdbool.h>

#include "base/bytes.h"

/* True for methods that only read, whatever is in the request. Not among them, although they may read: Txn and Alarm
 * (their requests decide), Snapshot (it holds the hashes of all passwords), and what this tier does not know. */
bool relay_rights_reads(struct belfry_bytes path);

/* True for Auth/Authenticate: whoever calls it says who he is in the request. */
bool relay_rights_authenticates(struct belfry_bytes path);

/* True for methods that with auth on every etcd refuses to a caller without a user, in the same words. Of the others some
 * are refused in other words, and some are answered; that differs between versions (decision 0035). */
bool relay_rights_needs_user(struct belfry_bytes path);

/* True for methods that may still read or write for their caller long after their request is complete: Lock, Campaign,
 * Observe, and what this tier does not know. */
bool relay_rights_acts_later(struct belfry_bytes path);

/* True for Lease/LeaseKeepAlive, whose request lasts as long as its client, and to which etcd asks for no right. */
bool relay_rights_keeps_alive(struct belfry_bytes path);

/* True for methods after which auth may be on where it was off, or off where it was on. */
bool relay_rights_changes_auth(struct belfry_bytes path);

/* How a method's request is made, as far as etcd's services are known. */
enum relay_request {
    RELAY_ONE_MESSAGE, /* one message, and the request ends */
    RELAY_MESSAGES,    /* any number, as the client likes */
    RELAY_UNKNOWN      /* not a method of etcd's */
};
enum relay_request relay_rights_request(struct belfry_bytes path);

#endif
