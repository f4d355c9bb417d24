/* tests/sim/mails.h
 *
 * mails: mail between the threads of a tier, in the place of thread/thread.h and daemon/ingest_thread.h: what
 * daemon/read_points.c needs to ask ingest for a worker. A mail arrives a little after it was posted.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_MAILS_H
#define BELFRY_SIM_MAILS_H

#include "daemon/ingest_thread.h"
#include "sim/sched.h"

/* A thread's box. */
struct thread {
    struct sched *sched;
    uint64_t delay_ms;   /* the longest that a mail takes */
    struct actor *actor; /* woken by mail */
    void *owner;         /* of the mail; NULL: the thread has ended, and mail is opened at once */
    struct belfry_list mails;
};

/* Ingest's. */
struct ingest_thread {
    struct thread thread;
    struct readpoint *point;
};

void mails_begin(struct thread *thread, struct sched *sched, uint64_t delay_ms, struct actor *actor, void *owner);
void mails_end(struct thread *thread); /* what has not been opened is opened, with owner NULL */

void mails_open(struct thread *thread); /* those that have arrived */
uint64_t mails_due(const struct thread *thread);

#endif
