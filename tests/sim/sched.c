/* tests/sim/sched.c */
#include "sim/sched.h"

#include <assert.h>
#include <stdlib.h>

#include "base/sim.h"
#include "sim/cover.h"
#include "sim/fiber.h"

#define ACTORS_MAX 256

struct actor {
    actor_fn step;
    void *arg;
    struct fiber *fiber; /* NULL: a plain one */
    bool inside;         /* preempted inside a step */
    uint64_t due, woken; /* the step is due by itself, or because somebody woke the actor */
    uint64_t frozen;
    uint64_t weight;
};

struct sched {
    struct belfry_rng rng;
    uint64_t now_ms;
    uint64_t steps;
    uint64_t drift; /* the clock moves by 1 ms once in so many steps */
    uint64_t tempo;
    struct actor *actors[ACTORS_MAX];
    size_t n;
};

static struct {
    struct belfry_rng *rng;
    const uint64_t *now_ms;
    uint64_t measured_ns; /* by belfry_clock_ns() so far */
    uint64_t grain;       /* a point gives way once in so many; 0: never */
    unsigned held;
    bool inside; /* a thread is running */
    void (*observe)(void *arg);
    void *observer;
} points;

static void observe(void)
{
    if (points.observe == NULL)
        return;
    sched_hold();
    points.observe(points.observer);
    sched_release();
}

void belfry_sim_point(const char *name)
{
    (void)name;
    if (!points.inside || points.held > 0 || points.grain == 0 || belfry_rng_below(points.rng, points.grain) != 0)
        return;
    COVER(preempted);
    observe();
    fiber_pause();
}

uint64_t belfry_clock_ms(void)
{
    return *points.now_ms;
}

/* What is measured takes some time, or none. */
uint64_t belfry_clock_ns(void)
{
    points.measured_ns += belfry_rng_below(points.rng, 8) == 0 ? 700000 : 1000;
    return *points.now_ms * 1000000 + points.measured_ns;
}

void sched_hold(void)
{
    points.held++;
}

void sched_release(void)
{
    points.held--;
}

struct sched *sched_create(uint64_t seed)
{
    static const uint64_t grains[] = {2, 4, 16, 64, 400}, tempos[] = {1, 1, 6, 30};
    struct sched *sched = calloc(1, sizeof(*sched));
    if (sched == NULL)
        abort();
    sched_turn(sched, seed);
    sched->now_ms = 1000 + belfry_rng_below(&sched->rng, 1000);
    sched->drift = 1 + belfry_rng_below(&sched->rng, 8);
    sched->tempo = tempos[belfry_rng_below(&sched->rng, sizeof(tempos) / sizeof(tempos[0]))];
    points.rng = &sched->rng;
    points.now_ms = &sched->now_ms;
    points.held = 0;
    points.inside = false;
    points.observe = NULL;
    points.grain = grains[belfry_rng_below(&sched->rng, sizeof(grains) / sizeof(grains[0]))];
    return sched;
}

void sched_turn(struct sched *sched, uint64_t seed)
{
    sched->rng.state = seed * 0x2545f4914f6cdd1du + 1;
}

void sched_destroy(struct sched *sched)
{
    if (sched == NULL)
        return;
    assert(sched->n == 0);
    points.rng = NULL;
    points.now_ms = NULL;
    points.grain = 0;
    free(sched);
}

static uint64_t new_weight(struct sched *sched)
{
    return (uint64_t)1 << belfry_rng_below(&sched->rng, 5);
}

static void step_on_fiber(void *arg)
{
    struct actor *actor = arg;
    actor->due = actor->step(actor->arg);
}

struct actor *sched_add(struct sched *sched, enum actor_kind kind, actor_fn step, void *arg)
{
    assert(sched->n < ACTORS_MAX);
    struct actor *actor = calloc(1, sizeof(*actor));
    if (actor == NULL)
        abort();
    *actor = (struct actor){.step = step, .arg = arg, .woken = BELFRY_NEVER, .weight = new_weight(sched)};
    actor->due = sched->now_ms;
    if (kind == ACTOR_THREAD)
        actor->fiber = fiber_create(step_on_fiber, actor);
    sched->actors[sched->n++] = actor;
    return actor;
}

static void run(struct actor *actor)
{
    if (!actor->inside)
        actor->woken = BELFRY_NEVER;
    if (actor->fiber == NULL) {
        actor->due = actor->step(actor->arg);
        return;
    }
    points.inside = true;
    actor->inside = !fiber_run(actor->fiber);
    points.inside = false;
}

void sched_finish(struct actor *actor)
{
    sched_hold();
    while (actor->inside)
        run(actor);
    sched_release();
}

void sched_remove(struct sched *sched, struct actor *actor)
{
    if (actor == NULL)
        return;
    sched_finish(actor);
    size_t at = 0;
    while (sched->actors[at] != actor)
        at++;
    sched->actors[at] = sched->actors[--sched->n];
    fiber_destroy(actor->fiber);
    free(actor);
}

void sched_wake(struct sched *sched, struct actor *actor, uint64_t at_ms)
{
    (void)sched;
    if (actor != NULL)
        actor->woken = belfry_min_time(actor->woken, at_ms);
}

void sched_freeze(struct sched *sched, struct actor *actor, uint64_t until_ms)
{
    (void)sched;
    if (actor != NULL)
        actor->frozen = until_ms;
}

void sched_thaw_all(struct sched *sched)
{
    for (size_t i = 0; i < sched->n; i++)
        sched->actors[i]->frozen = 0;
}

static uint64_t when(const struct sched *sched, const struct actor *actor)
{
    uint64_t at = actor->inside ? sched->now_ms : belfry_min_time(actor->due, actor->woken);
    return at < actor->frozen ? actor->frozen : at;
}

/* One of those who can run now; NULL: none. *next is when the first of all could. */
static struct actor *pick(struct sched *sched, uint64_t *next)
{
    uint64_t total = 0;
    *next = BELFRY_NEVER;
    for (size_t i = 0; i < sched->n; i++) {
        uint64_t at = when(sched, sched->actors[i]);
        *next = belfry_min_time(*next, at);
        if (at <= sched->now_ms)
            total += sched->actors[i]->weight;
    }
    if (total == 0)
        return NULL;
    uint64_t at = belfry_rng_below(&sched->rng, total);
    for (size_t i = 0;; i++) {
        struct actor *actor = sched->actors[i];
        if (when(sched, actor) > sched->now_ms)
            continue;
        if (at < actor->weight)
            return actor;
        at -= actor->weight;
    }
}

bool sched_step(struct sched *sched)
{
    uint64_t next;
    struct actor *actor = pick(sched, &next);
    if (actor == NULL) {
        if (next == BELFRY_NEVER)
            return false;
        sched->now_ms = next;
        actor = pick(sched, &next);
    }
    sched->steps += !actor->inside;
    if (sched_one_in(sched, sched->drift))
        sched->now_ms++;
    if (sched_one_in(sched, 256))
        actor->weight = new_weight(sched);
    run(actor);
    observe();
    return true;
}

void sched_observe(struct sched *sched, void (*fn)(void *arg), void *arg)
{
    (void)sched;
    points.observe = fn;
    points.observer = arg;
}

uint64_t sched_now(const struct sched *sched)
{
    return sched->now_ms;
}

const uint64_t *sched_clock(const struct sched *sched)
{
    return &sched->now_ms;
}

struct belfry_rng *sched_rng(struct sched *sched)
{
    return &sched->rng;
}

uint64_t sched_tempo(const struct sched *sched)
{
    return sched->tempo;
}

uint64_t sched_steps(const struct sched *sched)
{
    return sched->steps;
}

uint64_t sched_below(struct sched *sched, uint64_t n)
{
    return belfry_rng_below(&sched->rng, n);
}

bool sched_one_in(struct sched *sched, uint64_t n)
{
    return belfry_rng_below(&sched->rng, n) == 0;
}
