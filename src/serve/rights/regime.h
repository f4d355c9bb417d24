/* src/serve/rights/regime.h
 *
 * regime: is auth on upstream, how long may that be believed, and when is it to be asked about again? permit.h says how
 * it is asked; here is what follows from the answers.
 *
 * For a new question "off" is valid for REGIME_OFF_MS from the time at which auth was asked about, but not beyond a
 * doubt: an answer that was asked for before the doubt is discarded. For watches that run, every answer counts, and the
 * regime says what holds:
 *
 *     UNSURE --auth is off--> OPEN --it is on--> ASKS        OPEN: nothing is kept per watch
 *       ^  ^---- 80 % of a period after the last "off"       ASKS: each watch needs a granted claim
 *       `--- nothing is known yet                            UNSURE: nothing is delivered
 *
 * While upstream is cut off, nobody can be asked. What the replica has was there for everybody to read when auth was
 * last found off. So for reads that may be old, "off" stays valid until upstream can be asked again, if it was asked
 * for at most a period before upstream was last heard (decision 0090).
 *
 * ASKS becomes OPEN when a question of a client without a token finds auth off; clients with a token are not affected.
 *
 * Thread: owner. Pure: plain data in the caller's storage; answers and the time are put in.
 */
#ifndef BELFRY_SERVE_RIGHTS_REGIME_H
#define BELFRY_SERVE_RIGHTS_REGIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/owner.h"
#include "base/rng.h"

#define REGIME_OFF_MS     1000
#define REGIME_ON_MS      10000
#define REGIME_TIMEOUT_MS 5000 /* of one question */

/* Named after permit, whose callers read them. */
enum permit_auth { PERMIT_AUTH_UNKNOWN, PERMIT_AUTH_OFF, PERMIT_AUTH_ON };
enum permit_regime { PERMIT_UNSURE, PERMIT_OPEN, PERMIT_ASKS };

struct regime {
    uint64_t period_ms;
    struct belfry_rng rng;
    bool is_fixed;            /* auth is on for ever: nothing is asked about it */
    enum permit_auth auth;    /* for new questions */
    uint64_t auth_ms;         /* when the question was sent whose answer said so */
    enum permit_regime state; /* moved by regime_move_to() alone */
    uint64_t answered_ms;     /* when the newest question was sent that was answered */
    uint64_t off_ms;          /* the same, of those that were answered with "off" */
    uint64_t look_ms;         /* OPEN: when to ask again, if streams run */
    uint64_t doubts;          /* calls of regime_doubt() */
    uint64_t off_doubts;      /* the same, when the question of off_ms was sent */
    bool is_cut_off;          /* upstream is silent */
    bool is_off_kept;         /* it was off before, and nothing has said otherwise; only while it is cut off */
    /* the question under way */
    bool asking;
    uint64_t asked_ms, asked_doubts;
    uint64_t retry_ms; /* the next one is not sent before */
    BELFRY_OWNER;
};

void regime_init(struct regime *regime, uint64_t period_ms, uint64_t seed);

/* Upstream has no auth that could be off. */
void regime_fix(struct regime *regime);

/* ---- what is known ---- */

/* May a new question use `auth`? */
bool regime_is_fresh(const struct regime *regime, uint64_t now_ms);

/* May a question that waits since `since_ms` use it? "Off" is valid for questions that came before it was asked about,
 * and for others while it is fresh. */
bool regime_settles(const struct regime *regime, uint64_t since_ms, uint64_t now_ms);

/* May watches that run without a claim be sent anything? Compares times: true is valid at now_ms. */
bool regime_is_open(const struct regime *regime, uint64_t now_ms);

/* May a read that asks for no more than the tier has be answered without upstream? For a caller that has got no answer
 * from it. */
bool regime_was_off(const struct regime *regime, uint64_t now_ms);

/* Upstream has been silent since heard_ms; or it is back. */
void regime_cut_off(struct regime *regime, uint64_t heard_ms);
void regime_reach(struct regime *regime);

/* ---- asking ---- */

/* Whether anything depends on the answer: it decides when the next question is due. */
struct regime_needs {
    bool waiting; /* questions of clients */
    bool running; /* streams */
};

/* When to ask; BELFRY_NEVER: not now. */
uint64_t regime_ask_due(const struct regime *regime, struct regime_needs needs);
bool regime_may_ask(const struct regime *regime, uint64_t now_ms); /* no question is under way, and none just failed */
void regime_asked(struct regime *regime, uint64_t now_ms);
void regime_ask_failed(struct regime *regime, uint64_t now_ms); /* it could not be sent */

/* What an answer is worth. */
enum regime_worth {
    REGIME_NOTHING,  /* upstream did not say */
    REGIME_IN_DOUBT, /* it was asked for before a doubt: for new questions it is good only if another was discarded */
    REGIME_KNOWN     /* regime.auth has it */
};

/* UNKNOWN: no answer came. The caller compares `state` to see whether the regime has changed. */
enum regime_worth regime_answer(struct regime *regime, enum permit_auth auth, struct regime_needs needs,
                                uint64_t now_ms);

/* ---- time ---- */

/* Lets time pass: OPEN may become UNSURE. True: the question under way is late; cancel it. */
bool regime_turn(struct regime *regime, uint64_t now_ms);
uint64_t regime_due(const struct regime *regime, struct regime_needs needs); /* of both, and of regime_ask_due() */

/* Auth may have changed. */
void regime_doubt(struct regime *regime);

#endif
