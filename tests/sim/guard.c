/* tests/sim/guard.c */
#include "sim/guard.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sim/asking.h"
#include "sim/cover.h"
#include "sim/trace.h"
#include "sim/verdict.h"

#define ASK_AGAIN_MS 1000

/* Its right. */
enum claim_state {
    CLAIM_NONE,     /* auth was off */
    CLAIM_ASKED,    /* the watch is not made yet, or ran before auth was turned on */
    CLAIM_HELD,     /* granted */
    CLAIM_ANSWERED, /* `verdict` is to be looked at */
};

struct guard_watch {
    struct belfry_list node;
    struct guard *guard;
    int64_t id;
    enum claim_state state;
    struct permit_question *question; /* NULL: none */
    enum permit_verdict verdict;      /* ANSWERED */
    const char *reason;               /* ANSWERED; static */
    struct rights_range range;        /* owned */
    uint64_t since_ms;                /* of the request */
};

static const char *const reasons[] = {PERMIT_NO_USER, PERMIT_OLD_REVISION, PERMIT_BAD_TOKEN, PERMIT_DENIED};

static struct guard_watch *watch_of(struct belfry_list *node)
{
    return belfry_container(node, struct guard_watch, node);
}

static uint64_t now_of(const struct guard *guard)
{
    return auth_now(guard->auth);
}

/* ---- watches ---- */

static struct belfry_bytes copy(struct belfry_bytes bytes)
{
    char *to = malloc(bytes.len + 1);
    if (to == NULL)
        abort();
    if (bytes.len > 0)
        memcpy(to, bytes.data, bytes.len);
    return belfry_bytes_of(to, bytes.len);
}

static struct guard_watch *watch_create(struct guard *guard, struct belfry_bytes key, struct belfry_bytes range_end)
{
    struct guard_watch *watch = calloc(1, sizeof(*watch));
    if (watch == NULL)
        abort();
    struct rights_range range = rights_range_of(key, range_end);
    watch->guard = guard;
    watch->range = (struct rights_range){copy(range.key), copy(range.end)};
    watch->since_ms = now_of(guard);
    belfry_list_init(&watch->node);
    return watch;
}

static void watch_drop_claim(struct guard_watch *watch)
{
    if (watch->question != NULL)
        permit_cancel(watch->question);
    watch->question = NULL;
    watch->state = CLAIM_NONE;
}

static void watch_free(struct guard_watch *watch)
{
    watch_drop_claim(watch);
    belfry_list_remove(&watch->node);
    free((void *)(uintptr_t)watch->range.key.data);
    free((void *)(uintptr_t)watch->range.end.data);
    free(watch);
}

static void on_guard_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct guard_watch *watch = user;
    watch->guard->changed = true;
    if (verdict == PERMIT_HELD) {
        watch->state = CLAIM_HELD;
        COVER(rights_granted);
        return;
    }
    watch->question = NULL;
    watch->state = CLAIM_ANSWERED;
    watch->verdict = verdict;
    watch->reason = "";
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (strcmp(reason, reasons[i]) == 0)
            watch->reason = reasons[i];
    }
}

/* False: too many questions wait. */
static bool watch_claim(struct guard_watch *watch, uint64_t now)
{
    struct guard *guard = watch->guard;
    watch->state = CLAIM_ASKED;
    enum belfry_err err = permit_hold(guard->permit, &guard->party, watch->range.key, watch->range.end, now,
                                      on_guard_verdict, watch, &watch->question);
    if (err != BELFRY_OK)
        watch->state = CLAIM_NONE;
    return err == BELFRY_OK;
}

/* ---- judging ---- */

/* For a client without a token, "on" is believed for a while after auth was turned off. Others may have waited for a
 * question that was under way already. A question without an answer, while others are answered, counts against its
 * token, though it may have met one member after the other when that was cut off; and a member that does not answer may
 * be the one that knows the token. */
static void judge_refusal(const struct guard *guard, const struct guard_watch *watch, const char *reason)
{
    uint64_t now = now_of(guard), from = watch->since_ms;
    uint64_t before = guard->who.kind == AUTH_NOBODY ? REGIME_ON_MS : PERMIT_TIMEOUT_MS;
    from = from > before ? from - before : 0;
    bool excused = permit_is_about_token(reason) ? auth_lacked_token(guard->auth, &guard->who, from, now) ||
                                                       asking_lacked_answer(guard->uplink, &guard->who, from)
                                                 : auth_lacked_right(guard->auth, &guard->who, watch->range, from, now);
    if (!excused)
        verdict_fail("%s: a watch of %s was refused (%s), which was allowed to it all the time", guard->name,
                     guard->who.secret, reason);
}

static void judge_end(const struct guard *guard)
{
    if (!auth_lacked_token(guard->auth, &guard->who, guard->opened_ms, now_of(guard)))
        verdict_fail("%s: a stream of %s was ended, whose token was good all the time", guard->name, guard->who.secret);
}

void guard_wrote(const struct guard *guard, int64_t id, uint64_t now_ms)
{
    uint64_t period = auth_period(guard->auth), from = now_ms > period ? now_ms - period : 0;
    belfry_list_each (node, &guard->watches) {
        const struct guard_watch *watch = watch_of(node);
        if (watch->id != id || auth_had_right(guard->auth, &guard->who, watch->range, from + 1, now_ms))
            continue;
        verdict_fail("%s: watch %lld of %s received events, and had no right to them for a period (%llu ms)",
                     guard->name, (long long)id, guard->who.kind == AUTH_NOBODY ? "nobody" : guard->who.secret,
                     (unsigned long long)period);
    }
}

/* ---- requests ---- */

bool guard_is_asking(const struct guard *guard)
{
    return belfry_buf_len(&guard->request) > 0;
}

enum guard_answer guard_create(struct guard *guard, struct belfry_bytes request, struct belfry_bytes key,
                               struct belfry_bytes range_end, uint64_t now_ms)
{
    if (permit_is_open_to(guard->permit, &guard->identity, now_ms)) {
        guard->has_free = true;
        return GUARD_FREE;
    }
    if (belfry_buf_append(&guard->request, request.data, request.len) != BELFRY_OK)
        abort();
    guard->asking = watch_create(guard, key, range_end);
    if (!watch_claim(guard->asking, now_ms))
        abort();
    return GUARD_WAIT;
}

void guard_created(struct guard *guard, int64_t id, struct belfry_bytes key, struct belfry_bytes range_end)
{
    struct guard_watch *watch = guard->asking;
    guard->asking = NULL;
    belfry_buf_clear(&guard->request);
    if (id < 0) {
        if (watch != NULL)
            watch_free(watch);
        return;
    }
    if (watch == NULL)
        watch = watch_create(guard, key, range_end);
    watch->id = id;
    belfry_list_append(&guard->watches, &watch->node);
    if (watch->state == CLAIM_NONE)
        guard_apply_regime(guard);
}

void guard_canceled(struct guard *guard, int64_t id)
{
    belfry_list_each_safe (node, &guard->watches) {
        if (watch_of(node)->id == id)
            watch_free(watch_of(node));
    }
    guard->changed = true;
}

/* ---- what is to be done ---- */

static void ask_later(struct guard *guard, uint64_t now)
{
    guard->ask_ms = now + ASK_AGAIN_MS;
}

/* The verdict on the watch that is asked for. */
static struct guard_order take_asked(struct guard *guard, uint64_t now)
{
    struct guard_watch *watch = guard->asking;
    struct guard_order order = {.act = GUARD_CREATE, .request = belfry_buf_bytes(&guard->request)};
    if (watch->state == CLAIM_HELD)
        return order;
    switch (watch->verdict) {
    case PERMIT_HELD:
    case PERMIT_GRANTED:
        guard->has_free = true;
        watch->state = CLAIM_NONE;
        return order;
    case PERMIT_REFUSED:
        COVER(rights_refused);
        COVER_BY(rights_silent, auth_hangs(&guard->who));
        judge_refusal(guard, watch, watch->reason);
        order = (struct guard_order){.act = GUARD_REFUSE, .reason = watch->reason};
        guard_created(guard, -1, (struct belfry_bytes){0}, (struct belfry_bytes){0});
        return order;
    case PERMIT_UNAVAILABLE:
        break;
    }
    COVER(rights_unknown);
    watch_free(watch);
    guard->asking = NULL;
    if (belfry_list_empty(&guard->watches))
        return (struct guard_order){.act = GUARD_END};
    ask_later(guard, now);
    return (struct guard_order){.act = GUARD_NOTHING};
}

/* The verdict on a watch that runs. */
static struct guard_order take_verdict(struct guard *guard, struct guard_watch *watch, uint64_t now)
{
    watch->state = CLAIM_NONE;
    if (watch->verdict != PERMIT_REFUSED) { /* auth is off again, or upstream cannot be asked */
        guard->has_free = true;
        ask_later(guard, now);
        return (struct guard_order){.act = GUARD_NOTHING};
    }
    judge_refusal(guard, watch, watch->reason);
    if (permit_is_about_token(watch->reason))
        return (struct guard_order){.act = GUARD_END};
    return (struct guard_order){.act = GUARD_EXPEL, .id = watch->id, .reason = watch->reason};
}

static void ask_again(struct guard *guard, uint64_t now)
{
    guard->ask_ms = BELFRY_NEVER;
    guard_apply_regime(guard);
    if (guard->asking != NULL || !guard_is_asking(guard))
        return;
    struct belfry_wire_watch_request request;
    if (belfry_scan_watch_request(belfry_buf_bytes(&guard->request), &request) != BELFRY_OK)
        abort();
    guard->asking = watch_create(guard, request.key, request.range_end);
    if (!watch_claim(guard->asking, now))
        abort();
}

struct guard_order guard_next(struct guard *guard, uint64_t now_ms)
{
    struct guard_order order = {.act = GUARD_NOTHING};
    if (guard->ended) {
        judge_end(guard);
        return (struct guard_order){.act = GUARD_END};
    }
    if (guard->ask_ms <= now_ms)
        ask_again(guard, now_ms);
    belfry_list_each (node, &guard->watches) {
        if (watch_of(node)->state == CLAIM_ANSWERED)
            order = take_verdict(guard, watch_of(node), now_ms);
        if (order.act != GUARD_NOTHING)
            return order;
    }
    if (guard->asking != NULL && guard->asking->state != CLAIM_ASKED)
        return take_asked(guard, now_ms);
    return order;
}

uint64_t guard_due(const struct guard *guard)
{
    return guard->ask_ms;
}

/* ---- delivery ---- */

static bool is_proven(const struct guard *guard)
{
    belfry_list_each (node, &guard->watches) {
        if (watch_of(node)->state == CLAIM_ASKED)
            return false;
    }
    return !guard->has_free;
}

bool guard_may_deliver(const struct guard *guard, uint64_t now_ms)
{
    return (is_proven(guard) || permit_regime(guard->permit, &guard->party) == PERMIT_OPEN) &&
           permit_may_deliver(guard->permit, &guard->party, now_ms);
}

void guard_apply_regime(struct guard *guard)
{
    guard->changed = true;
    if (permit_regime(guard->permit, &guard->party) == PERMIT_ASKS && guard->has_free)
        guard->unclaimed = true;
}

void guard_claim_free(struct guard *guard, uint64_t now_ms)
{
    if (!guard->unclaimed)
        return;
    belfry_list_each (node, &guard->watches) {
        if (watch_of(node)->state != CLAIM_NONE)
            continue;
        watch_of(node)->since_ms = guard->opened_ms;
        if (!watch_claim(watch_of(node), now_ms))
            return;
        COVER(rights_claimed);
    }
    guard->unclaimed = false;
    guard->has_free = false;
    guard->changed = true;
}

bool guard_is_calm(const struct guard *guard, uint64_t now_ms)
{
    return !guard_is_asking(guard) && guard->ask_ms == BELFRY_NEVER && !guard->unclaimed &&
           guard_may_deliver(guard, now_ms);
}

/* ---- */

static void on_guard_party(struct permit_party *party, enum permit_event event, const char *reason)
{
    static const char *const names[] = {
        [PERMIT_PAUSED] = "paused", [PERMIT_RESUMED] = "resumed", [PERMIT_ENDED] = "ended"};
    struct guard *guard = belfry_container(party, struct guard, party);
    TRACE(guard->name, "a stream of %s is %s", guard->who.secret, names[event]);
    guard->changed = true;
    switch (event) {
    case PERMIT_PAUSED:
        COVER(rights_paused);
        break;
    case PERMIT_RESUMED:
        COVER(rights_resumed);
        break;
    case PERMIT_ENDED:
        COVER_BY(rights_old, strcmp(reason, PERMIT_OLD_REVISION) == 0);
        COVER_BY(rights_forgotten, strcmp(reason, PERMIT_OLD_REVISION) != 0);
        guard->ended = true;
        break;
    }
}

void guard_init(struct guard *guard, struct permit *permit, const struct auth *auth, struct uplink *uplink,
                const struct auth_who *who, const char *name)
{
    *guard = (struct guard){.permit = permit,
                            .auth = auth,
                            .uplink = uplink,
                            .name = name,
                            .who = *who,
                            .opened_ms = auth_now(auth),
                            .ask_ms = BELFRY_NEVER,
                            .changed = true};
    guard->identity = (struct identity){
        .kind = who->kind == AUTH_NOBODY ? IDENTITY_NONE : IDENTITY_TOKEN,
        .field = who->kind == AUTH_NAME ? IDENTITY_FIELD_AUTHORIZATION : IDENTITY_FIELD_TOKEN,
        .rights = LISTEN_RIGHTS_ASKED,
        .text = belfry_bytes_str(guard->who.secret),
    };
    belfry_list_init(&guard->watches);
    belfry_buf_init(&guard->request);
    permit_join(permit, &guard->party, &guard->identity, on_guard_party);
}

void guard_fini(struct guard *guard)
{
    if (guard->permit == NULL)
        return;
    if (guard->asking != NULL)
        watch_free(guard->asking);
    while (!belfry_list_empty(&guard->watches))
        watch_free(watch_of(guard->watches.next));
    permit_leave(guard->permit, &guard->party);
    belfry_buf_fini(&guard->request);
    guard->permit = NULL;
}
