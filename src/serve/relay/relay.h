/* src/serve/relay/relay.h
 *
 * relay: passes a request to upstream unread, and its response back: fields, bytes and trailers as they came, with
 * deadline and cancellation, in both directions at the pace of the slower side. Any method, unary or streaming. Of
 * responses only the header at the front of each message is looked at (relay_peek.h).
 *
 * Pseudo-headers, connection-specific fields and host are not passed on, in either direction. A call is never repeated
 * once a byte of it was sent. When upstream cannot be reached the call ends with 14 and the reason.
 *
 * The head of a call goes upstream (and is checked) with the first bytes of its body; that of a request of one message
 * when the message is whole, or 32 KiB of it were received. So a call that is not sent costs upstream nothing. Methods
 * that are not etcd's go immediately. A request of one message must be whole PACE_MS after its head; in other requests
 * each message must be whole PACE_MS after its first byte. Large messages have more time (pace.h). A late call ends
 * with 14 "belfry: the request was not complete in time".
 *
 * Calls take turns when very many are with upstream (relay_turns.h). One that upstream answers soon has its turn until
 * it ends; if it has waited for RELAY_TURN_MS it ends with 14. One that lasts has its turn, among such, until upstream
 * says something, or for RELAY_OPENING_MS, and waits for it as long as it takes: thousands that begin at once would
 * hold up what everybody asks upstream.
 *
 * Exceptions, all of them:
 * - When the tier's certificate has a common name (uplink_may_have_name()), a call without a token waits until permit
 *   knows whether auth is on. If it is, a method that needs a user is refused here, as etcd refuses it (3 "etcdserver:
 *   user name is empty"). Any other goes upstream without a user (uplink.h), for etcd to answer. Auth/Authenticate is
 *   not checked.
 * - A call of the user of a client certificate (identity.h) without a token waits in the same way. If auth is on, it
 *   goes upstream with the field that speaks for that user (vouch.h). If the user cannot be vouched for, a method that
 *   needs a user ends with 16 and the reason, and any other goes upstream without a user. If the tier cannot log in to
 *   make a token, the call ends with 14. With rights=open, and for Auth/Authenticate, the certificate does not count.
 * - The field belfry-user of a request is not passed on.
 * - A call without a token that went upstream while auth was off, and that etcd may still carry out later (its request
 *   is not complete, or it is a Lock or an Election), ends with 3 soon after auth is turned on (RELAY_RECHECK_MS and
 *   PERMIT_OFF_MS). A LeaseKeepAlive goes on: etcd requires no right for it.
 * - Election/Observe, and methods that are not etcd's, end with 14 after a period of rights, unless auth is off: etcd
 *   judges the right to them only when they begin.
 * - On a listener with rights=upstream a call waits until permit knows that auth is on. While it is off the call ends
 *   with 14 PERMIT_AUTH_IS_OFF.
 * - On a read-only listener only methods known to read are relayed; others: 7 "belfry: this listener is read-only".
 * - The question of a tier below what a client of its own may read is answered here (inquiry.h), also on a read-only
 *   listener. Its request is held until it is whole. If it turns out to ask for anything else, or too many such
 *   questions wait, it is relayed like any other.
 * - KV/Range: answered from the tier's own copy of the store where that is possible (reads.h), and not before the
 *   client has a window for some of the answer.
 * - Cluster/MemberList: when an address is advertised, it replaces every member's client URLs.
 * - Auth/AuthEnable and similar methods make the tier doubt what it knows of auth (permit_doubt()), before and after.
 * - "revision of auth store is old" in answer to a token that this tier has made is passed on, and the tier makes
 *   newer tokens (vouch_outdate()).
 * - A response of 14 drops the pin of its connection: the next call goes to another endpoint, if there is one.
 *
 * Thread: owner. Destroyed before permit and uplink.
 * Memory: a call holds its head until it is sent, at most EXCHANGE_WINDOW of request and one stream window
 *         (UPLINK_WINDOW) of response. Calls count as SHARES_CALLS and SHARES_CALL_BYTES (shares.h). A call for which
 *         there is no room is refused with 8. When there is no room for more bytes, or more than half are responses,
 *         the call of the same client that has read nothing for longest is ended with 14; if none is slow, the call
 *         that grows.
 */
#ifndef BELFRY_SERVE_RELAY_RELAY_H
#define BELFRY_SERVE_RELAY_RELAY_H

#include "serve/reads/reads.h"
#include "serve/rights/permit.h"
#include "serve/uplink/uplink.h"

#define RELAY_RECHECK_MS 1000
#define RELAY_TURN_MS    4000 /* as UPLINK_WAIT_MS */
#define RELAY_TURNS      128  /* of one worker: at 10 ms for an answer, 12,800 calls per second */
#define RELAY_OPENINGS   16   /* of calls that last: few, so that nobody's question is behind many of them */
#define RELAY_OPENING_MS 10

struct relay;

struct relay_opts {
    struct uplink *uplink;
    struct permit *permit;
    struct vouch *vouch;   /* NULL: users of client certificates are refused */
    struct reads *reads;   /* answers what it can of the reads; NULL: all are relayed */
    struct term *term;     /* learns from the responses of etcd's methods; NULL: they are not looked at */
    const char *advertise; /* NULL: none. Lent */
    uint64_t pace_ms;      /* 0: PACE_MS */
    uint64_t turn_ms;      /* 0: RELAY_TURN_MS */
    uint64_t period_ms;    /* of rights; 0: PERMIT_PERIOD_MS */
    const struct belfry_log *log;
};

BELFRY_NODISCARD enum belfry_err relay_create(const struct relay_opts *opts, struct relay **out);
void relay_destroy(struct relay *relay); /* calls under way are reset; NULL is fine */

enum relay_rights { RELAY_ALL, RELAY_READS };

/* Takes over an exchange: sets a handler, or answers it. */
void relay_begin(struct relay *relay, struct exchange *x, const struct exchange_head *head, enum relay_rights rights);

/* As pace_ms in the options. A message that is being received has the time that it began with. */
void relay_set_pace(struct relay *relay, uint64_t pace_ms);

/* Ends running calls with 14, at the end of a drain. */
void relay_end_all(struct relay *relay, const char *why);

struct relay_stats {
    size_t running, held_bytes;
    size_t held_peak;                  /* the most bytes held since creation */
    uint64_t relayed, refused, failed; /* failed: upstream lost or not reached */
    uint64_t over_memory;              /* ended because there was no room for their bytes */
    uint64_t late;                     /* ended because the request was not complete in time */
    uint64_t bytes_up, bytes_down;
    uint64_t inquiries, inquiries_relayed; /* questions of tiers below that were answered here, and others */
};
void relay_stats(const struct relay *relay, struct relay_stats *out);

#endif
