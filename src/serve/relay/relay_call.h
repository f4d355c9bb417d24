/* src/serve/relay/relay_call.h
 *
 * relay_call: one call on its way to upstream, and its response on the way back. relay.h says what is passed on, and
 * when a call ends otherwise. A call ends its exchange and frees itself.
 *
 * Thread: owner (the loop's).
 * Memory: relay.h. What calls hold counts in relay_room.h.
 */
#ifndef BELFRY_SERVE_RELAY_RELAY_CALL_H
#define BELFRY_SERVE_RELAY_RELAY_CALL_H

#include "serve/relay/relay.h"
#include "serve/relay/relay_alarm.h"
#include "serve/relay/relay_check.h"
#include "serve/relay/relay_room.h"
#include "serve/relay/relay_turns.h"
#include "serve/rights/inquiry.h"

#define RELAY_CALL_READ_ONLY "belfry: this listener is read-only"

/* What the calls of one relay share. */
struct relay_calls {
    /* fixed at creation */
    const struct relay_opts *opts; /* with the defaults in it; pace_ms may change */
    struct relay_checks checks;
    /* owner */
    struct belfry_list all;
    struct belfry_list anonymous; /* of them: calls without a token, unless they need no right */
    struct inquiries inquiries;
    struct relay_room room;
    struct relay_turns turns;    /* of calls that upstream answers soon */
    struct relay_turns openings; /* of calls that last, while they are new to upstream */
    struct belfry_list opening;  /* calls that last and have a turn, the first that is due first */
    uv_timer_t turns_timer;      /* somebody may be next, or the time of the first in `opening` is up */
    struct relay_alarm alarm;    /* of their deadlines */
    struct relay_stats stats;    /* without those of `room` */
};

/* Without calls. `opts` is lent for its life. The owner closes the two timers. */
void relay_calls_init(struct relay_calls *calls, const struct relay_opts *opts,
                      void (*on_alarm)(struct relay_alarm *alarm, uint64_t now_ms));

struct relay_call;

/* Takes over an exchange whose head was checked. `may_pass`: its listener passes its method on. BELFRY_NEVER: the call
 * has no deadline. The call may have ended when this returns. */
void relay_call_begin(struct relay_calls *calls, struct exchange *x, const struct exchange_head *head, bool may_pass,
                      uint64_t timeout_ms);

struct relay_call *relay_call_of(struct belfry_list *node);           /* in relay_calls.all */
struct relay_call *relay_call_of_anonymous(struct belfry_list *node); /* in relay_calls.anonymous */

/* Ends the call if its time is up. Returns when to look again; BELFRY_NEVER: no deadline is left. */
uint64_t relay_call_look(struct relay_call *call, uint64_t now_ms);

/* True when etcd may still carry it out with the rights of the tier, if auth is turned on now: it is upstream, and its
 * request is not complete, or its method acts later. */
bool relay_call_is_exposed(const struct relay_call *call);

/* The end, whatever was passed on so far: with a status, as etcd refuses a call without a user, or with a reset. */
void relay_call_fail(struct relay_call *call, int code, const char *why);
void relay_call_refuse_user(struct relay_call *call);
void relay_call_reset(struct relay_call *call);

#endif
