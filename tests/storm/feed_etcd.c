/* tests/storm/feed_etcd.c: the feed (feed.h) in the place of daemon/ingest_thread.c. The linker takes these functions
 * instead of the real ones. History that the replica has lost is answered as compacted. Thread: owner. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "daemon/ingest_thread.h"
#include "storm/feed.h"
#include "storm/verdict.h"

struct ingest_thread {
    struct ingest_thread_opts opts;
    struct ingest *ingest;     /* NULL: it has stopped */
    struct belfry_list lost;   /* of history_reader_job.node */
    struct belfry_list points; /* of readpoint_ask.node */
};

static void fill_status(struct ingest_thread *thread, struct driver_status *out)
{
    *out = (struct driver_status){.standing = feed_is_stale() ? DRIVER_STALE : DRIVER_READY,
                                  .state = UPSTREAM_LIVE,
                                  .revision = feed_head(),
                                  .committed = ingest_committed(thread->ingest),
                                  .upstream_revision = feed_head(),
                                  .past = ingest_past(thread->ingest),
                                  .identity = feed_header(feed_head())};
    snprintf(out->version, sizeof(out->version), "3.5.99");
    snprintf(out->reason, sizeof(out->reason), "%s", feed_is_stale() ? "upstream is silent" : "");
}

static void on_tell(void *user)
{
    struct ingest_thread *thread = user;
    struct driver_status status;
    fill_status(thread, &status);
    standing_publish(thread->opts.standing, feed_head(), belfry_clock_ns());
    standing_set(thread->opts.standing, &status);
    thread->opts.wake(thread->opts.user);
}

static void answer_lost(struct ingest_thread *thread, enum belfry_err err)
{
    for (struct belfry_list *node; (node = belfry_list_pop(&thread->lost)) != NULL;) {
        struct history_reader_job *job = belfry_container(node, struct history_reader_job, node);
        history_reader_answer(job, err, NULL, err == BELFRY_ERR_COMPACTED ? job->oldest : 0);
    }
}

static void answer_points(struct ingest_thread *thread, enum belfry_err err)
{
    for (struct belfry_list *node; (node = belfry_list_pop(&thread->points)) != NULL;) {
        struct readpoint_ask *ask = belfry_container(node, struct readpoint_ask, node);
        atomic_store(&ask->sent, true);
        ask->err = err;
        ask->rev = ingest_committed(thread->ingest);
        ask->past = ingest_past(thread->ingest);
        ask->told(ask);
    }
}

static void on_answer(void *user)
{
    struct ingest_thread *thread = user;
    answer_lost(thread, BELFRY_ERR_COMPACTED);
    if (!feed_is_stale())
        answer_points(thread, BELFRY_OK);
}

static bool on_is_asked(void *user)
{
    struct ingest_thread *thread = user;
    return !belfry_list_empty(&thread->lost);
}

enum belfry_err ingest_thread_start(const struct ingest_thread_opts *opts, struct ingest_thread **out)
{
    struct ingest_thread *thread = calloc(1, sizeof(*thread));
    verdict_must(thread != NULL, "the feed");
    struct feed_opts feed = {.store = opts->driver.store,
                             .evlog = opts->driver.evlog,
                             .tell = on_tell,
                             .answer = on_answer,
                             .is_asked = on_is_asked,
                             .user = thread};
    thread->opts = *opts;
    belfry_list_init(&thread->lost);
    belfry_list_init(&thread->points);
    thread->ingest = feed_begin(&feed);
    feed_cut(EVLOG_CUT_START);
    *out = thread;
    return BELFRY_OK;
}

void ingest_thread_stop(struct ingest_thread *thread)
{
    if (thread == NULL)
        return;
    answer_lost(thread, BELFRY_ERR_CANCELED);
    answer_points(thread, BELFRY_ERR_CANCELED);
    feed_end();
    thread->ingest = NULL;
}

void ingest_thread_destroy(struct ingest_thread *thread)
{
    free(thread);
}

void ingest_thread_backfill(struct ingest_thread *thread, struct history_reader_job *job)
{
    if (thread->ingest == NULL)
        history_reader_answer(job, BELFRY_ERR_CANCELED, NULL, 0);
    else
        belfry_list_append(&thread->lost, &job->node);
}

void ingest_thread_post(struct ingest_thread *thread, struct mail *mail)
{
    mail->open(mail, thread->ingest == NULL ? NULL : thread);
}

void ingest_thread_read_point(struct ingest_thread *thread, struct readpoint_ask *ask)
{
    belfry_list_append(&thread->points, &ask->node);
}

void ingest_thread_numbers(struct ingest_thread *thread, struct ingest_thread_numbers *out)
{
    *out = (struct ingest_thread_numbers){.log_oldest = evlog_oldest(thread->opts.driver.evlog),
                                          .log_bytes = evlog_bytes(thread->opts.driver.evlog)};
    fill_status(thread, &out->status);
}
