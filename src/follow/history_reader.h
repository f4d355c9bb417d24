/* src/follow/history_reader.h
 *
 * history: from a worker's wish for history to a segment. The reader thread reads the replica, where a page may be
 * cold; what the window has lost goes on to ingest, which has it backfilled from upstream.
 *
 *     worker --history_ask--> queue --reader--+--found, failed--> done() --> its worker
 *                                             +--on the shelf---> done()
 *                                             `--too old--------> lost() --> ingest --history_answer--> done()
 *
 * Equal wishes that wait at the same time share one read, and what was backfilled stays on a shelf (shelf.h) for those
 * who want the same stretch a little later.
 *
 * The reader takes other work, too (lists: kube_reader.h), in turn with the wishes: a flood of the one never holds up
 * the other for longer than one piece of work.
 *
 * Thread: history_ask and history_run any; done() and lost() are called on the reader thread (and done() also on who
 * answers) and post.
 */
#ifndef BELFRY_FOLLOW_HISTORY_READER_H
#define BELFRY_FOLLOW_HISTORY_READER_H

#include "core/store.h"
#include "core/worker.h"
#include "thread/mail.h"

struct history;

/* Travels from thread to thread; owned by whoever has it. */
struct history_job {
    struct mail mail;        /* for the posts */
    struct belfry_list node; /* in a list of who has it */
    struct history *history;
    unsigned worker;
    struct worker_fetch fetch;
    bool lost;      /* the window has it no more */
    uint64_t token; /* ingest's */
    /* the answer */
    enum belfry_err err;
    struct segment *segment; /* owned */
    int64_t compact_rev, oldest;
};

struct history_opts {
    struct store *store;
    size_t segment_bytes;
    size_t shelf_bytes;
    void (*done)(struct history_job *job, void *user);
    void (*lost)(struct history_job *job, void *user); /* job->oldest says where the window begins */
    void *user;
};

BELFRY_NODISCARD enum belfry_err history_start(const struct history_opts *opts, struct history **out);

/* Waits for the read under way; jobs that wait are dropped, tasks that wait are handed back. Nobody asks any more;
 * jobs that ingest has are still answered until history_destroy(). NULL is fine to both. */
void history_stop(struct history *history);
void history_destroy(struct history *history);

/* Errors: BELFRY_ERR_NOMEM: the worker asks again at a later turn if it is told so. */
BELFRY_NODISCARD enum belfry_err history_ask(struct history *history, unsigned worker,
                                             const struct worker_fetch *fetch);

/* Work for the reader, embedded in whatever it carries and owned by who runs it from history_run() on. A piece of it
 * is short: tens of milliseconds. `store` NULL: there is no reader any more, so nothing can be read; it is run all
 * the same, by who stops or who came too late, to be handed back. */
struct history_task {
    struct belfry_list node;
    void (*run)(struct history_task *task, struct store *store);
};
void history_run(struct history *history, struct history_task *task);

/* A lost job was answered; the segment's reference is consumed. */
void history_answer(struct history_job *job, enum belfry_err err, struct segment *segment, int64_t compact_rev);
void history_job_free(struct history_job *job); /* with its segment */

struct history_stats {
    uint64_t reads, shared, shelved, lost; /* shelved: found on the shelf; lost: handed to lost() */
    uint64_t tasks;
    size_t shelf_bytes;
};
void history_stats(struct history *history, struct history_stats *out); /* any thread */

#endif
