/* tests/sim/sched.h
 *
 * sched: who runs next, and what time it is. Both follow from the seed alone.
 *
 * An actor is a simulated thread (on a fiber: it may be preempted at any BELFRY_POINT) or a part of the world around
 * (a plain function). It runs a step when it is due or was woken; of those who could run, the seed picks one, by
 * weights that change, so that some threads are slow in some runs. The clock moves a little while there is work and
 * jumps when there is none.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_SCHED_H
#define BELFRY_SIM_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/rng.h"

struct sched;
struct actor;

/* One step; returns when the next is due even if nobody wakes the actor (BELFRY_NEVER). */
typedef uint64_t (*actor_fn)(void *arg);

enum actor_kind { ACTOR_PLAIN, ACTOR_THREAD };

struct sched *sched_create(uint64_t seed);
void sched_destroy(struct sched *sched); /* every actor has been removed */

/* From now on the choices are those of another seed. */
void sched_turn(struct sched *sched, uint64_t seed);

struct actor *sched_add(struct sched *sched, enum actor_kind kind, actor_fn step, void *arg);

/* A step that was preempted is run to its end, without giving way. Not from inside a step of a thread. */
void sched_finish(struct actor *actor);

/* Finished first; NULL is fine. Nobody wakes it any more. */
void sched_remove(struct sched *sched, struct actor *actor);

void sched_wake(struct sched *sched, struct actor *actor, uint64_t at_ms); /* NULL actor is fine */

/* It does not run before `until_ms`, whatever happens: SIGSTOP, or a machine under load. */
void sched_freeze(struct sched *sched, struct actor *actor, uint64_t until_ms);
void sched_thaw_all(struct sched *sched);

/* Runs one actor. False: nobody will ever have anything to do. */
bool sched_step(struct sched *sched);

uint64_t sched_now(const struct sched *sched);
const uint64_t *sched_clock(const struct sched *sched);
struct belfry_rng *sched_rng(struct sched *sched);
uint64_t sched_steps(const struct sched *sched); /* steps begun */

/* How many times slower than usual the world is in this run: a slow one lets every timer come into play. */
uint64_t sched_tempo(const struct sched *sched);

/* Called whenever one actor gives way to another, so that nothing that happened is missed. */
void sched_observe(struct sched *sched, void (*observe)(void *arg), void *arg);

/* While held, nobody is preempted: the simulator itself looks at something. */
void sched_hold(void);
void sched_release(void);

/* True once in n. */
bool sched_one_in(struct sched *sched, uint64_t n);
uint64_t sched_below(struct sched *sched, uint64_t n);

#endif
