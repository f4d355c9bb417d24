/* tests/sim/reading.h
 *
 * reading: the calls of a worker's clients, answered by the real serve/reads with the read points of the tier's ingest
 * (daemon/read_points.c), or relayed upstream by a connection of their own, as serve/relay does. Everybody may read
 * everything: a run has auth or reads.
 *
 * Thread: the one thread of the simulator, as the worker's.
 */
#ifndef BELFRY_SIM_READING_H
#define BELFRY_SIM_READING_H

#include "core/store.h"
#include "serve/reads/reads.h"
#include "sim/link.h"
#include "sim/mails.h"
#include "sim/tier.h"
#include "sim/timers.h"

struct reading;

struct reading_opts {
    const struct tier_opts *tier; /* this and all below are lent */
    struct store *store;
    struct timers *timers;
    struct thread *thread; /* the worker's mail: it stays until ingest has ended, too */
    struct ingest_thread *ingest;
    struct term *term;   /* hears of what is relayed */
    struct actor *actor; /* the worker's */
    uint64_t boot;       /* a number of this start of the tier */
};
struct reading *reading_create(const struct reading_opts *opts);
void reading_destroy(struct reading *reading); /* NULL is fine */

void reading_stand(struct reading *reading, enum reads_standing standing, const struct response_identity *identity);

void reading_see_past(struct reading *reading, uint64_t past, uint64_t rewritten); /* as reads_see_past() */

/* Takes the calls that have arrived on a link of client number `client`, whose watch by it began in that past. */
void reading_take(struct reading *reading, struct link *link, uint64_t client, uint64_t watched);
void reading_drop(struct reading *reading, const struct link *link); /* the link is about to go */

void reading_run(struct reading *reading);  /* mail, and answers to what was relayed */
bool reading_turn(struct reading *reading); /* as reads_turn(); true: one waits for the next */
uint64_t reading_due(const struct reading *reading);

/* Adds what has been counted since the start; counts[COVER_...]. */
void reading_cover(const struct reading *reading, uint64_t *counts);

#endif
