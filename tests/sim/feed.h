/* tests/sim/feed.h
 *
 * feed: the ingest thread of a tier: its machines, and what the daemon's wiring does with upstream's streams, reads and
 * timers.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_FEED_H
#define BELFRY_SIM_FEED_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "client/watch/mux.h"
#include "follow/backfill.h"
#include "follow/ingest.h"
#include "follow/readpoint.h"
#include "follow/upstream.h"
#include "sim/jobs.h"
#include "sim/mails.h"
#include "sim/question.h"
#include "sim/serve.h"
#include "sim/tier.h"

#define FEED_SLOTS (BACKFILL_SLOT + BACKFILLS)

/* One mux and the stream it is on. */
struct feed_mux {
    struct belfry_mux *mux;
    struct link *link; /* NULL: none */
    struct belfry_buf in;
    uint64_t retry_ms; /* no dialling before */
};

struct feed {
    /* fixed while it runs; opts and servers are lent */
    const struct tier_opts *opts;
    struct server *servers;
    struct ingest *ingest;
    struct upstream *upstream;
    struct backfill *backfill;
    struct store *store;
    struct term *term;

    struct jobs jobs; /* from the reader; its actor is the thread */
    struct feed_mux live, back;
    /* how far upstream is, for the reads of the workers; zeroes in a run without reads */
    struct belfry_stream stream; /* the live link, as `point` sees it */
    struct readpoint point;
    struct ingest_thread thread; /* by which workers ask */
    struct belfry_mux_watch *slots[FEED_SLOTS];
    struct belfry_list reads;
    struct belfry_list backfilling; /* jobs that the backfill has */
    int64_t capped;                 /* see tier_capped() */
    uint64_t tokens;
    uint64_t past;                    /* seen last */
    int64_t told;                     /* head the workers were woken for */
    enum reads_standing standing;     /* as the workers know it */
    bool been_ready;                  /* since the start */
    struct belfry_wire_event *events; /* of one revision, while it is handed in */
    size_t events_cap;
    uint64_t last_ms;   /* end of the last step */
    uint64_t ticked_ms; /* the last tick of its upstream */
    uint64_t restores;  /* of the cluster, when the connection that reads go by was made */
    uint64_t rewrites;  /* upstream_stats.rewrites that the term knows of */
};

/* What a tier lends to its feed. */
struct feed_parts {
    struct server *servers;
    struct store *store;
    struct evlog *log;
    struct term *term;
};

/* Opens the store's content; *warm: it had some. */
void feed_start(struct feed *feed, const struct tier_opts *opts, const struct feed_parts *parts, bool *warm);
void feed_run(struct feed *feed); /* its thread may run from now on */
void feed_stop(struct feed *feed);

/* Reads that are under way continue, for the actor that plays upstream. Returns when to look again. */
uint64_t feed_run_reads(struct feed *feed);

#endif
