/* src/serve/relay/relay.c */
#include "serve/relay/relay.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "net/grpc_reply.h"
#include "serve/relay/relay_call.h"
#include "serve/relay/relay_rights.h"
#include "server/grpc_answer.h"
#include "server/pace.h"

#define NOT_PLAIN  "belfry: unknown method: a path of gRPC has no query, and nothing is escaped in it"
#define OVER_SHARE "belfry: this client has as many calls under way as it may; see --client-share"

struct relay {
    /* fixed at creation */
    struct relay_opts opts;
    /* owner */
    struct relay_calls calls;
    struct permit_question *recheck; /* is auth still off, for the anonymous of them? */
    uint64_t recheck_ms;             /* when that is asked next; BELFRY_NEVER: not planned */
    BELFRY_OWNER;
};

/* ---- calls that etcd may still carry out when auth is turned on ---- */

static void relay_recheck_later(struct relay *relay, uint64_t now)
{
    if (relay->recheck != NULL || relay->recheck_ms != BELFRY_NEVER || belfry_list_empty(&relay->calls.anonymous))
        return;
    relay->recheck_ms = now + RELAY_RECHECK_MS;
    relay_alarm_set(&relay->calls.alarm, relay->recheck_ms, now);
}

static void on_recheck(enum permit_verdict verdict, const char *reason, void *user)
{
    struct relay *relay = user;
    (void)reason;
    relay->recheck = NULL;
    belfry_list_each_safe (node, &relay->calls.anonymous) {
        struct relay_call *call = relay_call_of_anonymous(node);
        if (verdict == PERMIT_REFUSED && relay_call_is_exposed(call))
            relay_call_refuse_user(call);
    }
    relay_recheck_later(relay, belfry_clock_ms());
}

/* Auth may have been turned on since these calls went upstream: then they would run as the tier's user. */
static void relay_recheck(struct relay *relay, uint64_t now)
{
    bool exposed = false;
    belfry_list_each (node, &relay->calls.anonymous)
        exposed = exposed || relay_call_is_exposed(relay_call_of_anonymous(node));
    relay->recheck_ms = BELFRY_NEVER;
    if (exposed && relay_check_auth(&relay->calls.checks, now, on_recheck, relay, &relay->recheck) != BELFRY_OK)
        relay->recheck = NULL; /* too many questions: it is asked again in a second */
    relay_recheck_later(relay, now);
}

/* ---- beginning ---- */

static bool may_be_inquiry(const struct exchange *x, const struct exchange_head *head)
{
    struct identity who = identity_read(x, head, IDENTITY_OF_GRPC);
    uint64_t within_ms;
    return inquiry_is(head, &who, &within_ms);
}

static void relay_refuse(struct relay *relay, struct exchange *x, int code, const char *why)
{
    relay->calls.stats.refused++;
    grpc_fail(x, GRPC_HEADERS_NOT_SENT, code, why);
}

/* A path of gRPC is its bytes. A server behind Go's net/http, as etcd's on a TLS port, would drop a query and decode
 * what is escaped, and so carry out what this path was not judged as (relay_guard.h, relay_rights.h). */
static bool is_plain(struct belfry_bytes path)
{
    return memchr(path.data, '?', path.len) == NULL && memchr(path.data, '%', path.len) == NULL;
}

void relay_begin(struct relay *relay, struct exchange *x, const struct exchange_head *head, enum relay_rights rights)
{
    BELFRY_OWNER_CHECK(relay);
    uint64_t timeout_ms;
    if (grpc_refuse_head(x, head, &timeout_ms))
        return;
    if (!is_plain(head->path)) {
        relay_refuse(relay, x, BELFRY_GRPC_UNIMPLEMENTED, NOT_PLAIN);
        return;
    }
    bool may_pass = rights == RELAY_ALL || relay_rights_reads(head->path);
    if (!may_pass && !may_be_inquiry(x, head)) {
        relay_refuse(relay, x, BELFRY_GRPC_PERMISSION_DENIED, RELAY_CALL_READ_ONLY);
        return;
    }
    if (!shares_make_room(exchange_share(x), SHARES_CALLS, 1)) {
        relay_refuse(relay, x, BELFRY_GRPC_RESOURCE_EXHAUSTED, OVER_SHARE);
        return;
    }
    relay_call_begin(&relay->calls, x, head, may_pass, timeout_ms);
    relay_recheck_later(relay, belfry_clock_ms());
}

/* ---- the whole ---- */

/* Visits every call, but only when the earliest deadline has come: about once per timeout when most calls end in time,
 * and once per RELAY_ALARM_MS when all end late, each at another time. */
static void on_relay_alarm(struct relay_alarm *alarm, uint64_t now)
{
    struct relay *relay = belfry_container(alarm, struct relay, calls.alarm);
    uint64_t next = BELFRY_NEVER;
    belfry_list_each_safe (node, &relay->calls.all)
        next = belfry_min_time(next, relay_call_look(relay_call_of(node), now));
    relay_alarm_set(alarm, next, now);
    if (relay->recheck_ms <= now)
        relay_recheck(relay, now);
    else
        relay_alarm_set(alarm, relay->recheck_ms, now);
}

void relay_set_pace(struct relay *relay, uint64_t pace_ms)
{
    relay->opts.pace_ms = pace_ms != 0 ? pace_ms : PACE_MS;
}

static void relay_set_opts(struct relay *relay, const struct relay_opts *opts)
{
    relay->opts = *opts;
    relay_set_pace(relay, opts->pace_ms);
    relay->opts.turn_ms = opts->turn_ms != 0 ? opts->turn_ms : RELAY_TURN_MS;
    relay->opts.period_ms = opts->period_ms != 0 ? opts->period_ms : PERMIT_PERIOD_MS;
}

enum belfry_err relay_create(const struct relay_opts *opts, struct relay **out)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    if (relay == NULL)
        return BELFRY_ERR_NOMEM;
    relay_set_opts(relay, opts);
    relay->recheck_ms = BELFRY_NEVER;
    relay_calls_init(&relay->calls, &relay->opts, on_relay_alarm);
    BELFRY_OWNER_INIT(relay);
    *out = relay;
    return BELFRY_OK;
}

static void on_alarm_closed(uv_handle_t *timer)
{
    free(belfry_container((uv_timer_t *)timer, struct relay, calls.alarm.timer));
}

static void on_turns_closed(uv_handle_t *timer)
{
    struct relay *relay = belfry_container((uv_timer_t *)timer, struct relay, calls.turns_timer);
    uv_close((uv_handle_t *)&relay->calls.alarm.timer, on_alarm_closed);
}

void relay_destroy(struct relay *relay)
{
    if (relay == NULL)
        return;
    BELFRY_OWNER_CHECK(relay);
    if (relay->recheck != NULL)
        permit_cancel(relay->recheck);
    belfry_list_each_safe (node, &relay->calls.all)
        relay_call_reset(relay_call_of(node));
    uv_close((uv_handle_t *)&relay->calls.turns_timer, on_turns_closed);
}

void relay_end_all(struct relay *relay, const char *why)
{
    BELFRY_OWNER_CHECK(relay);
    belfry_list_each_safe (node, &relay->calls.all)
        relay_call_fail(relay_call_of(node), BELFRY_GRPC_UNAVAILABLE, why);
}

void relay_stats(const struct relay *relay, struct relay_stats *out)
{
    *out = relay->calls.stats;
    out->held_bytes = relay->calls.room.held;
    out->held_peak = relay->calls.room.held_peak;
}
