/* src/serve/relay/relay_rights.h
 *
 * relay_rights: what a tier knows about etcd's methods by their names.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_RELAY_RELAY_RIGHTS_H
#define BELFRY_SERVE_RELAY_RELAY_RIGHTS_H

#include <stdbool.h>

#include "base/bytes.h"

/* True for methods that only read, whatever the request. False for Txn and Alarm (their requests decide), Snapshot (it
 * holds the hashes of all passwords), and unknown methods. */
bool relay_rights_reads(struct belfry_bytes path);

/* True for Auth/Authenticate, whose request names the user. */
bool relay_rights_authenticates(struct belfry_bytes path);

/* True for methods that with auth on every etcd refuses to a caller without a user, with the same status. Others are
 * refused with another status or answered, depending on etcd's version (decision 0035). */
bool relay_rights_needs_user(struct belfry_bytes path);

/* True for methods that may still read or write long after their request is complete: Lock, Campaign, Observe, and
 * unknown methods. */
bool relay_rights_acts_later(struct belfry_bytes path);

/* True for methods whose response may tell of changes as long as the client stays: Observe, and unknown methods. */
bool relay_rights_observes(struct belfry_bytes path);

/* True for Lease/LeaseKeepAlive, whose request lasts as long as its client, and for which etcd requires no right. */
bool relay_rights_keeps_alive(struct belfry_bytes path);

/* True for methods that may turn auth on or off. */
bool relay_rights_changes_auth(struct belfry_bytes path);

/* The shape of a method's request. */
enum relay_request {
    RELAY_ONE_MESSAGE, /* one message, and the request ends */
    RELAY_MESSAGES,    /* any number, at any time */
    RELAY_UNKNOWN      /* not a method of etcd's */
};
enum relay_request relay_rights_request(struct belfry_bytes path);

#endif
