/* tests/sim/auth.h
 *
 * auth: the auth store of the simulated cluster: users, what each of them may read, and their tokens. It remembers
 * every state that it was in, so that an answer can be of an earlier time, and what was delivered can be judged.
 *
 * User 0 is the tiers' own: it may read everything, always. The others are granted ranges and lose them; they are
 * deleted and come back; auth is turned on and off. All of this happens by itself, until auth_settle().
 *
 * A simple token is known to every member from its log-in on, until a member forgets it: it restarts, or the token was
 * not used for long. A JWT is old after every change of the store. A bearer of the other kind is a user's name, which
 * every member knows (the field `authorization` has it here). A made-up token is unknown to all members, or is never
 * answered.
 *
 * At times upstream cannot be asked, or answers late.
 *
 * Thread: the one thread of the simulator.
 * Memory: everything is kept until destroy; no memory: abort.
 */
#ifndef BELFRY_SIM_AUTH_H
#define BELFRY_SIM_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/rights/rights.h"
#include "sim/etcd.h"
#include "sim/sched.h"

#define AUTH_USERS      5
#define AUTH_TIERS_USER 0

struct auth;

enum auth_kind { AUTH_NOBODY, AUTH_TOKEN, AUTH_NAME }; /* rights_who.kind of permit's */

/* Whom a stream is of, as its tier sees it. */
struct auth_who {
    enum auth_kind kind;
    char secret[16]; /* a token, or a name */
};

struct auth_opts {
    struct sched *sched;
    struct etcd *etcd;
    uint64_t period_ms; /* of the tiers */
};

struct auth *auth_create(const struct auth_opts *opts);
void auth_destroy(struct auth *auth); /* NULL is fine */

/* Nothing changes any more, and upstream can be asked, now or two periods later: what pauses until then goes on. */
void auth_settle(struct auth *auth);

uint64_t auth_period(const struct auth *auth);
uint64_t auth_now(const struct auth *auth);

/* ---- clients ---- */

/* Logs in: a new token. With auth off there is none. */
struct auth_who auth_log_in(struct auth *auth, unsigned user);
struct auth_who auth_by_name(unsigned user);
struct auth_who auth_made_up(struct auth *auth); /* a token: unknown, without an answer, or like a user's name */

/* ---- upstream ---- */

bool auth_was_away(const struct auth *auth, uint64_t at_ms); /* upstream could not be asked */
uint64_t auth_delay(const struct auth *auth);                /* of a question; more than the network's */
bool auth_hangs(const struct auth_who *who);                 /* it is never answered */
bool auth_was_on(const struct auth *auth, uint64_t at_ms);

/* The same of the answer to a question that reaches the member then. A right may be lost behind it. */
uint64_t auth_delay_answer(struct auth *auth, const struct rights_question *question, unsigned member,
                           uint64_t reach_ms);

/* What a member answered at `at_ms`, now or earlier. */
enum rights_answer auth_judge(const struct auth *auth, const struct rights_question *question, unsigned member,
                              uint64_t at_ms);

/* The last time in [from_ms, to_ms] at which it was allowed; 0: none. */
uint64_t auth_last_allowed(const struct auth *auth, const struct rights_question *question, unsigned member,
                           uint64_t from_ms, uint64_t to_ms);

/* ---- the truth, in [from_ms, to_ms] ---- */

/* Had it, at any time, the right to read the range? */
bool auth_had_right(const struct auth *auth, const struct auth_who *who, struct rights_range range, uint64_t from_ms,
                    uint64_t to_ms);
/* Had it the right not, at any time? */
bool auth_lacked_right(const struct auth *auth, const struct auth_who *who, struct rights_range range, uint64_t from_ms,
                       uint64_t to_ms);
/* Was auth on, and it was no one, or its token unknown to all members, old or without an answer? */
bool auth_lacked_token(const struct auth *auth, const struct auth_who *who, uint64_t from_ms, uint64_t to_ms);

#endif
