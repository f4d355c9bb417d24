/* src/serve/rights/regime.c */
#include "serve/rights/regime.h"

#include "base/clock.h"
#include "base/sim.h"

#define RETRY_MS     100  /* between questions, while there is no answer */
#define RETRY_MAX_MS 1000 /* the same, when no question of a client waits for it */

void regime_init(struct regime *regime, uint64_t period_ms, uint64_t seed)
{
    *regime = (struct regime){.period_ms = period_ms, .rng = {.state = seed}};
    BELFRY_OWNER_INIT(regime);
}

static void regime_move_to(struct regime *regime, enum permit_regime to)
{
    regime->state = to;
}

void regime_fix(struct regime *regime)
{
    BELFRY_OWNER_CHECK(regime);
    regime->is_fixed = true;
    regime->auth = PERMIT_AUTH_ON;
    regime_move_to(regime, PERMIT_ASKS);
}

/* ---- what is known ---- */

bool regime_is_fresh(const struct regime *regime, uint64_t now_ms)
{
    uint64_t age = now_ms - regime->auth_ms;
    if (regime->is_fixed)
        return true;
    return regime->auth == PERMIT_AUTH_OFF ? age < REGIME_OFF_MS : regime->auth == PERMIT_AUTH_ON && age < REGIME_ON_MS;
}

bool regime_settles(const struct regime *regime, uint64_t since_ms, uint64_t now_ms)
{
    return regime->auth == PERMIT_AUTH_ON || regime_is_fresh(regime, now_ms) || since_ms <= regime->auth_ms;
}

bool regime_is_open(const struct regime *regime, uint64_t now_ms)
{
    bool is_valid = now_ms < regime->off_ms + regime->period_ms || BELFRY_MUTANT(auth_off_for_ever);
    return regime->state == PERMIT_OPEN && is_valid;
}

bool regime_was_off(const struct regime *regime, uint64_t now_ms)
{
    return regime_is_open(regime, now_ms) || regime->is_off_kept;
}

/* A doubt that came before means that a client may have turned auth on. One that comes now cannot: nothing of what this
 * tier relays arrives. */
void regime_cut_off(struct regime *regime, uint64_t heard_ms)
{
    BELFRY_OWNER_CHECK(regime);
    if (regime->is_cut_off)
        return;
    bool is_last = regime->off_ms > 0 && regime->answered_ms == regime->off_ms && regime->doubts == regime->off_doubts;
    regime->is_cut_off = true;
    regime->is_off_kept = is_last && heard_ms < regime->off_ms + regime->period_ms;
}

void regime_reach(struct regime *regime)
{
    BELFRY_OWNER_CHECK(regime);
    regime->is_cut_off = regime->is_off_kept = false;
}

/* ---- asking ---- */

uint64_t regime_ask_due(const struct regime *regime, struct regime_needs needs)
{
    if (regime->asking || regime->is_fixed)
        return BELFRY_NEVER;
    if (needs.waiting)
        return regime->retry_ms;
    if (!needs.running || regime->state == PERMIT_ASKS)
        return BELFRY_NEVER;
    uint64_t due = regime->state == PERMIT_OPEN ? regime->look_ms : 0;
    return due > regime->retry_ms ? due : regime->retry_ms;
}

bool regime_may_ask(const struct regime *regime, uint64_t now_ms)
{
    return !regime->asking && !regime->is_fixed && now_ms >= regime->retry_ms;
}

void regime_asked(struct regime *regime, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(regime);
    regime->asking = true;
    regime->asked_ms = now_ms;
    regime->asked_doubts = regime->doubts;
}

void regime_ask_failed(struct regime *regime, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(regime);
    regime->retry_ms = now_ms + RETRY_MS;
}

/* For watches that run. "Off" was true when it was asked for, doubt or not, so it is valid for a period from then. "On"
 * must be heeded even in doubt: clients can cause doubts without end. */
static void regime_learn(struct regime *regime, enum permit_auth auth)
{
    uint64_t period = regime->period_ms;
    regime->answered_ms = regime->asked_ms;
    regime->look_ms = regime->asked_ms + period * 4 / 10 + belfry_rng_below(&regime->rng, period * 3 / 10 + 1);
    bool is_off = auth == PERMIT_AUTH_OFF || (BELFRY_MUTANT(auth_on_for_new_alone) && regime->state == PERMIT_OPEN);
    if (is_off) {
        regime->off_ms = regime->asked_ms;
        regime->off_doubts = regime->asked_doubts;
    }
    regime->is_off_kept = regime->is_cut_off && is_off;
    regime_move_to(regime, is_off ? PERMIT_OPEN : PERMIT_ASKS);
}

enum regime_worth regime_answer(struct regime *regime, enum permit_auth auth, struct regime_needs needs,
                                uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(regime);
    bool in_doubt = regime->asked_doubts != regime->doubts;
    regime->asking = false;
    regime->auth = in_doubt ? PERMIT_AUTH_UNKNOWN : auth;
    regime->auth_ms = regime->asked_ms;
    regime->retry_ms = 0;
    if (auth != PERMIT_AUTH_UNKNOWN)
        regime_learn(regime, auth);
    if (in_doubt) {
        regime->look_ms = 0;
        return REGIME_IN_DOUBT;
    }
    if (auth != PERMIT_AUTH_UNKNOWN)
        return REGIME_KNOWN;
    regime->retry_ms = now_ms + (needs.waiting ? RETRY_MS : RETRY_MAX_MS);
    return REGIME_NOTHING;
}

/* ---- time ---- */

/* Until when "off" is valid for watches that run. */
static uint64_t regime_open_until(const struct regime *regime)
{
    if (regime->state != PERMIT_OPEN || BELFRY_MUTANT(auth_off_for_ever))
        return BELFRY_NEVER;
    return regime->off_ms + regime->period_ms * 8 / 10;
}

bool regime_turn(struct regime *regime, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(regime);
    bool is_late = regime->asking && now_ms >= regime->asked_ms + REGIME_TIMEOUT_MS;
    if (is_late)
        regime->asking = false;
    if (regime_open_until(regime) <= now_ms)
        regime_move_to(regime, PERMIT_UNSURE);
    return is_late;
}

uint64_t regime_due(const struct regime *regime, struct regime_needs needs)
{
    uint64_t due = regime_ask_due(regime, needs);
    if (needs.running)
        due = belfry_min_time(due, regime_open_until(regime));
    return regime->asking ? belfry_min_time(due, regime->asked_ms + REGIME_TIMEOUT_MS) : due;
}

void regime_doubt(struct regime *regime)
{
    BELFRY_OWNER_CHECK(regime);
    if (regime->is_fixed)
        return;
    regime->doubts++;
    regime->auth = PERMIT_AUTH_UNKNOWN;
    regime->look_ms = 0;
}
