/* tests/storm/reader.c */
#include "storm/reader.h"

#include <stdlib.h>

#include "follow/history_reader.h"
#include "follow/shelf.h"

struct history_reader {
    struct history_reader_opts opts;
    struct shelf *shelf;
    struct belfry_list jobs, tasks;
    bool task_next; /* whose turn it is, when there is both */
    bool stopping;
    struct history_reader_stats stats;
};

static struct history_reader *reader; /* of the run; NULL: none */

static struct history_reader_job *job_of(struct belfry_list *node)
{
    return belfry_container(node, struct history_reader_job, node);
}

static struct history_reader_task *task_of(struct belfry_list *node)
{
    return belfry_container(node, struct history_reader_task, node);
}

void history_reader_job_free(struct history_reader_job *job)
{
    segment_unref(job->segment);
    free(job);
}

enum belfry_err history_reader_start(const struct history_reader_opts *opts, struct history_reader **out)
{
    struct history_reader *history = calloc(1, sizeof(*history));
    if (history == NULL)
        return BELFRY_ERR_NOMEM;
    history->opts = *opts;
    belfry_list_init(&history->jobs);
    belfry_list_init(&history->tasks);
    enum belfry_err err = shelf_create(opts->shelf_bytes, &history->shelf);
    if (err != BELFRY_OK) {
        free(history);
        return err;
    }
    *out = reader = history;
    return BELFRY_OK;
}

static void reader_serve(struct history_reader *history, struct history_reader_job *job)
{
    const struct worker_fetch *fetch = &job->fetch;
    struct store *store = job->store;
    struct segment *segment = NULL;
    size_t bytes = history->opts.segment_bytes;
    enum belfry_err err =
        fetch->slice ? store->api->slice(store, fetch->past, fetch->from, fetch->sub, bytes, &segment, &job->oldest)
                     : store->api->history(store, fetch->past, fetch->from, bytes, &segment, &job->oldest);
    history->stats.reads++;
    if (err == BELFRY_ERR_NOT_FOUND && (segment = shelf_find(history->shelf, fetch->past, fetch->from)) != NULL)
        err = BELFRY_OK;
    if (err != BELFRY_ERR_NOT_FOUND) {
        history_reader_answer(job, err, segment, 0);
        return;
    }
    history->stats.lost++;
    job->lost = true;
    history->opts.lost(job, history->opts.user);
}

bool reader_is_busy(void)
{
    return reader != NULL && !(belfry_list_empty(&reader->jobs) && belfry_list_empty(&reader->tasks));
}

bool reader_turn(void)
{
    if (!reader_is_busy())
        return false;
    bool is_task = belfry_list_empty(&reader->jobs) || (reader->task_next && !belfry_list_empty(&reader->tasks));
    reader->task_next = !is_task;
    if (is_task) {
        struct history_reader_task *task = task_of(belfry_list_pop(&reader->tasks));
        reader->stats.tasks++;
        task->run(task, task->store != NULL ? task->store : reader->opts.store);
    } else {
        reader_serve(reader, job_of(belfry_list_pop(&reader->jobs)));
    }
    return true;
}

void history_reader_stop(struct history_reader *history)
{
    if (history == NULL)
        return;
    history->stopping = true;
    for (struct belfry_list *node; (node = belfry_list_pop(&history->jobs)) != NULL;)
        history_reader_job_free(job_of(node));
    for (struct belfry_list *node; (node = belfry_list_pop(&history->tasks)) != NULL;)
        task_of(node)->run(task_of(node), NULL);
}

void history_reader_destroy(struct history_reader *history)
{
    if (history == NULL)
        return;
    reader = NULL;
    shelf_destroy(history->shelf);
    free(history);
}

enum belfry_err history_reader_ask(struct history_reader *history, unsigned worker, const struct worker_fetch *fetch)
{
    return history_reader_ask_of(history, history->opts.store, worker, fetch);
}

enum belfry_err history_reader_ask_of(struct history_reader *history, struct store *store, unsigned worker,
                                      const struct worker_fetch *fetch)
{
    struct history_reader_job *job = calloc(1, sizeof(*job));
    if (job == NULL)
        return BELFRY_ERR_NOMEM;
    job->history = history;
    job->store = store;
    job->worker = worker;
    job->fetch = *fetch;
    belfry_list_append(&history->jobs, &job->node);
    return BELFRY_OK;
}

void history_reader_run(struct history_reader *history, struct history_reader_task *task)
{
    if (history->stopping)
        task->run(task, NULL);
    else
        belfry_list_append(&history->tasks, &task->node);
}

void history_reader_answer(struct history_reader_job *job, enum belfry_err err, struct segment *segment,
                           int64_t compact_rev)
{
    job->err = err;
    job->segment = segment;
    job->compact_rev = compact_rev;
    if (job->lost && segment != NULL)
        shelf_put(job->history->shelf, segment);
    job->history->opts.done(job, job->history->opts.user);
}

void history_reader_stats(struct history_reader *history, struct history_reader_stats *out)
{
    *out = history->stats;
    out->shelf_bytes = shelf_bytes(history->shelf);
}
