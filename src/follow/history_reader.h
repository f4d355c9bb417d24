/* src/follow/history_reader.h
 *
 * history_reader: the thread that reads history for workers. It reads the replica, where a page may be cold; what the
 * window has lost goes on to ingest, which backfills it from upstream.
 *
 *     worker --_ask--> queue --reader--+--found, failed--> done() --> its worker
 *                                      +--on the shelf---> done()
 *                                      `--too old--------> lost() --> ingest --_answer--> done()
 *
 * Clients take turns (worker_fetch.client). Equal requests that wait at the same time share one read. What was
 * backfilled stays on a shelf (shelf.h) for requests of the same stretch a little later.
 *
 * The reader does other work, too (lists: kube_reader.h), in turn with the requests: a flood of either delays the
 * other by at most one piece of work.
 *
 * One reader reads any number of stores: each request and each piece of work names its own.
 *
 * Thread: history_reader_ask() and _run() any. done() and lost() are called on the reader thread, done() also on the
 * thread
 *         that answers; they post.
 */
#ifndef BELFRY_FOLLOW_HISTORY_READER_H
#define BELFRY_FOLLOW_HISTORY_READER_H

#include "core/store.h"
#include "core/worker.h"
#include "thread/mail.h"

#define HISTORY_READER_JOBS 1024

struct history_reader;

/* A request. It travels from thread to thread; the thread that has it owns it. */
struct history_reader_job {
    struct mail mail;        /* for the posts */
    struct belfry_list node; /* in a list of its owner */
    struct history_reader *history;
    struct store *store; /* that is read */
    unsigned worker;
    struct worker_fetch fetch;
    bool lost;      /* the window no longer has it */
    uint64_t token; /* ingest's */
    /* the answer */
    enum belfry_err err;
    struct segment *segment; /* owned */
    int64_t compact_rev, oldest;
};

struct history_reader_opts {
    struct store *store; /* for requests and tasks that name none; may be NULL if each names its own */
    size_t segment_bytes;
    size_t shelf_bytes;
    void (*done)(struct history_reader_job *job, void *user);
    void (*lost)(struct history_reader_job *job, void *user); /* job->oldest says where the window begins */
    void *user;
};

BELFRY_NODISCARD enum belfry_err history_reader_start(const struct history_reader_opts *opts,
                                                      struct history_reader **out);

/* Waits for the read under way; drops jobs that wait, and hands tasks that wait back. After it there are no requests,
 * but jobs that ingest has are still answered until history_reader_destroy(). NULL is fine for both. */
void history_reader_stop(struct history_reader *history);
void history_reader_destroy(struct history_reader *history);

/* A worker asks for few at a time (core/source.h), but asks for others while a disk answers nothing. Errors:
 * BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT (HISTORY_READER_JOBS wait): tell the worker, which retries in a later turn. */
BELFRY_NODISCARD enum belfry_err history_reader_ask(struct history_reader *history, unsigned worker,
                                                    const struct worker_fetch *fetch);
/* The same, of this store, which outlives the answer. */
BELFRY_NODISCARD enum belfry_err history_reader_ask_of(struct history_reader *history, struct store *store,
                                                       unsigned worker, const struct worker_fetch *fetch);

/* Work for the reader, embedded in what it carries, and owned by run() from history_reader_run() on. A piece of work
 * is short: tens of milliseconds. `store` NULL: the reader has stopped and nothing can be read; run() is still called,
 * by the thread that stops or that came too late, to hand the work back. */
struct history_reader_task {
    struct belfry_list node;
    struct store *store; /* NULL: that of history_reader_opts */
    void (*run)(struct history_reader_task *task, struct store *store);
};
void history_reader_run(struct history_reader *history, struct history_reader_task *task);

/* Answers a lost job, consuming the segment's reference. */
void history_reader_answer(struct history_reader_job *job, enum belfry_err err, struct segment *segment,
                           int64_t compact_rev);
void history_reader_job_free(struct history_reader_job *job); /* with its segment */

struct history_reader_stats {
    uint64_t reads, shared, shelved, lost; /* shelved: found on the shelf; lost: handed to lost() */
    uint64_t tasks;
    size_t shelf_bytes;
};
void history_reader_stats(struct history_reader *history, struct history_reader_stats *out); /* any thread */

#endif
