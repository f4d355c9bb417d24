/* tests/sim/asking.h
 *
 * asking: the questions of a worker's permit on their way to the model of the auth store (auth.h), and back. permit.c
 * is the real one; in the place of its calls upstream (rights_call.h, unary.h) are those of here.
 *
 * An answer may come late, from a member that was restarted, from a tier above that knew it before (then it has an
 * age), or not at all. A member that does not know a token is followed by the next one, as rights_call.c does.
 *
 * It also counts: a bearer is asked about once per round of 40 to 70 percent of a period, and once more for each watch
 * that is claimed (its answer may be there, and so old that it is renewed immediately and alone), each first question,
 * and each that was not answered, was answered with too old an answer, or was forbidden and is halved.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_ASKING_H
#define BELFRY_SIM_ASKING_H

#include <stdbool.h>
#include <stdint.h>

#include "serve/rights/permit.h"
#include "sim/auth.h"
#include "sim/tier.h"

/* Of one worker; `opts` is lent. */
struct uplink *asking_create(const struct tier_opts *opts);
void asking_destroy(struct uplink *uplink); /* after its permit; NULL is fine */

/* A watch of that bearer was claimed. */
void asking_claimed(struct uplink *uplink, const struct auth_who *who, uint64_t now_ms);

/* Has a question about that bearer ended since then without an answer, or passed over a member that gave none? */
bool asking_lacked_answer(struct uplink *uplink, const struct auth_who *who, uint64_t from_ms);

/* Tells answers that have come. */
void asking_run(struct uplink *uplink, uint64_t now_ms);
uint64_t asking_due(const struct uplink *uplink);

#endif
