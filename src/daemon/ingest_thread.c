/* src/daemon/ingest_thread.c */
#include "daemon/ingest_thread.h"

#include <stdlib.h>

#include "base/clock.h"

struct ingest_thread {
    /* fixed at creation */
    struct ingest_thread_opts opts;
    struct thread *thread;
    /* the thread's */
    struct driver *driver;
    struct belfry_list backfilling; /* of history_reader_job.node */
    uint64_t tokens;
};

static void on_changed(void *user)
{
    struct ingest_thread *ingest = user;
    struct driver_status status;
    driver_status(ingest->driver, &status);
    standing_publish(ingest->opts.standing, status.revision, belfry_clock_ns());
    standing_set(ingest->opts.standing, &status);
    ingest->opts.wake(ingest->opts.user);
}

static void ingest_thread_on_about(void *user)
{
    struct ingest_thread *ingest = user;
    struct about about;
    driver_about(ingest->driver, &about);
    standing_set_about(ingest->opts.standing, &about);
}

static struct history_reader_job *job_with(struct ingest_thread *ingest, uint64_t token)
{
    belfry_list_each (node, &ingest->backfilling) {
        struct history_reader_job *job = belfry_container(node, struct history_reader_job, node);
        if (job->token == token)
            return job;
    }
    return NULL;
}

static void on_backfilled(uint64_t token, enum belfry_err err, struct segment *segment, int64_t compact_rev, void *user)
{
    struct history_reader_job *job = job_with(user, token);
    if (job == NULL) { /* answered when the thread ended */
        segment_unref(segment);
        return;
    }
    belfry_list_remove(&job->node);
    history_reader_answer(job, err, segment, compact_rev);
}

static enum belfry_err ingest_thread_begin(struct thread *thread, void *user)
{
    static const struct driver_events events = {on_changed, on_backfilled, ingest_thread_on_about};
    struct ingest_thread *ingest = user;
    struct driver_opts opts = ingest->opts.driver;
    opts.loop = thread_loop(thread);
    return driver_create(&opts, &events, ingest, &ingest->driver);
}

static void ingest_thread_end(struct thread *thread, void *user)
{
    (void)thread;
    struct ingest_thread *ingest = user;
    driver_destroy(ingest->driver);
    ingest->driver = NULL;
    for (struct belfry_list *node; (node = belfry_list_pop(&ingest->backfilling)) != NULL;)
        history_reader_answer(belfry_container(node, struct history_reader_job, node), BELFRY_ERR_CANCELED, NULL, 0);
}

enum belfry_err ingest_thread_start(const struct ingest_thread_opts *opts, struct ingest_thread **out)
{
    static const struct thread_part part = {"belfry-ingest", ingest_thread_begin, ingest_thread_end};
    struct ingest_thread *ingest = calloc(1, sizeof(*ingest));
    if (ingest == NULL)
        return BELFRY_ERR_NOMEM;
    ingest->opts = *opts;
    belfry_list_init(&ingest->backfilling);
    enum belfry_err err = thread_start(&part, ingest, &ingest->thread);
    if (err != BELFRY_OK) {
        free(ingest);
        return err;
    }
    *out = ingest;
    return BELFRY_OK;
}

void ingest_thread_stop(struct ingest_thread *ingest)
{
    if (ingest != NULL)
        thread_stop(ingest->thread);
}

void ingest_thread_destroy(struct ingest_thread *ingest)
{
    if (ingest == NULL)
        return;
    thread_destroy(ingest->thread);
    free(ingest);
}

static void open_backfill(struct mail *mail, void *owner)
{
    struct history_reader_job *job = belfry_container(mail, struct history_reader_job, mail);
    struct ingest_thread *ingest = owner;
    if (ingest == NULL) {
        history_reader_answer(job, BELFRY_ERR_CANCELED, NULL, 0);
        return;
    }
    job->token = ++ingest->tokens;
    belfry_list_append(&ingest->backfilling, &job->node);
    struct backfill_ask ask = {.client = job->fetch.client,
                               .past = job->fetch.past,
                               .from = job->fetch.from,
                               .oldest = job->oldest,
                               .token = job->token};
    driver_backfill(ingest->driver, &ask);
}

void ingest_thread_backfill(struct ingest_thread *ingest, struct history_reader_job *job)
{
    job->mail.open = open_backfill;
    thread_post(ingest->thread, &job->mail);
}

void ingest_thread_post(struct ingest_thread *ingest, struct mail *mail)
{
    thread_post(ingest->thread, mail);
}

void ingest_thread_read_point(struct ingest_thread *ingest, struct readpoint_ask *ask)
{
    driver_read_point(ingest->driver, ask);
}

void ingest_thread_numbers(struct ingest_thread *ingest, struct ingest_thread_numbers *out)
{
    const struct evlog *log = ingest->opts.driver.evlog;
    driver_status(ingest->driver, &out->status);
    driver_about(ingest->driver, &out->about);
    out->log_oldest = evlog_oldest(log);
    out->log_bytes = evlog_bytes(log);
}
