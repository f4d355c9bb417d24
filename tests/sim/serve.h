/* tests/sim/serve.h
 *
 * serve: a worker thread of a tier, and the streams on it.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_SERVE_H
#define BELFRY_SIM_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "core/evlog.h"
#include "core/store.h"
#include "core/worker.h"
#include "serve/reads/reads.h"
#include "serve/rights/permit.h"
#include "sim/jobs.h"
#include "sim/mails.h"
#include "sim/tier.h"
#include "sim/timers.h"

struct reading;

struct server {
    /* fixed while it runs; lent */
    const struct tier_opts *opts;
    unsigned number;
    struct evlog *log;
    struct store *store;
    struct jobs *reader;          /* fetches go there */
    struct answers *answers;      /* about rights, of all workers; NULL without auth */
    struct ingest_thread *ingest; /* NULL without reads */
    struct term *term;
    uint64_t boot; /* the number of this start of the tier */

    struct worker *worker;
    struct jobs jobs;             /* answers; its actor is the worker's */
    struct belfry_list streams;   /* struct served */
    struct belfry_list dialled;   /* served without a stream yet */
    bool stale, told_stale;       /* as ingest says; as the worker knows */
    enum reads_standing standing; /* as ingest says */
    uint64_t past;                /* of the identity it was given */
    struct response_identity identity;
    struct belfry_buf request;
    uint64_t turn_ms;      /* when the last turn began */
    struct timers timers;  /* of its loop */
    struct uplink *uplink; /* this and the next: NULL without auth */
    struct permit *permit;
    bool regime_changed;     /* the streams have not been told yet */
    struct thread mails;     /* this and the next: of a run with reads */
    struct reading *reading; /* NULL without */
};

/* The lent fields are set. */
void serve_start(struct server *server);
void serve_stop(struct server *server);
bool serve_is_waiting(const struct server *server); /* for history */
bool serve_is_calm(const struct server *server);    /* tier_is_calm() */

/* A new stream, number `serial` for the trace. */
struct link *serve_dial(struct server *server, struct actor *client, size_t window, enum tier_stream kind,
                        const struct auth_who *who, unsigned serial);

/* A fetch is answered: the segment is consumed. */
void serve_answer(struct server *server, struct job *job, enum belfry_err err, struct segment *segment,
                  int64_t compact_rev);

/* The log as it is, looked at by the simulator itself under a worker's number of its own. */
void serve_look(const struct server *server, struct evlog_view *view);

#endif
