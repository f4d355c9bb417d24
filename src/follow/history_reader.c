/* src/follow/history_reader.c */
#include "follow/history_reader.h"

#include <pthread.h>
#include <stdlib.h>

#include "follow/shelf.h"
#include "thread/thread.h"

struct history_reader {
    /* fixed at creation */
    struct history_reader_opts opts;
    pthread_t reader;
    struct shelf *shelf;
    /* under mu */
    pthread_mutex_t mu;
    pthread_cond_t more; /* jobs or tasks is not empty, or stopping */
    struct belfry_list jobs, tasks;
    size_t n_jobs;
    bool task_next; /* whose turn it is, when there is both */
    bool stopping;
    struct history_reader_stats stats;
};

static struct history_reader_job *job_of(struct belfry_list *node)
{
    return belfry_container(node, struct history_reader_job, node);
}

void history_reader_job_free(struct history_reader_job *job)
{
    segment_unref(job->segment);
    free(job);
}

static bool job_equal(const struct history_reader_job *job, const struct history_reader_job *other)
{
    const struct worker_fetch *a = &job->fetch, *b = &other->fetch;
    return job->store == other->store && a->past == b->past && a->from == b->from && a->slice == b->slice &&
           a->sub == b->sub;
}

static struct history_reader_task *task_of(struct belfry_list *node)
{
    return belfry_container(node, struct history_reader_task, node);
}

/* What the reader does next: a read, for all jobs that are equal, or a task. */
struct turn {
    struct belfry_list jobs;
    struct history_reader_task *task; /* NULL: jobs */
};

/* The client had its turn: the jobs of others are before its own. Under mu. */
static void reader_end_turn(struct history_reader *history, uint64_t client)
{
    struct belfry_list own;
    belfry_list_init(&own);
    belfry_list_each_safe (node, &history->jobs) {
        if (job_of(node)->fetch.client != client)
            continue;
        belfry_list_remove(node);
        belfry_list_append(&own, node);
    }
    belfry_list_move_all(&history->jobs, &own);
}

/* Under mu. */
static void reader_take_jobs(struct history_reader *history, struct belfry_list *out)
{
    struct history_reader_job *first = job_of(belfry_list_pop(&history->jobs));
    belfry_list_append(out, &first->node);
    history->n_jobs--;
    history->stats.reads++;
    belfry_list_each_safe (node, &history->jobs) {
        if (!job_equal(job_of(node), first))
            continue;
        belfry_list_remove(node);
        belfry_list_append(out, node);
        history->n_jobs--;
        history->stats.shared++;
    }
    reader_end_turn(history, first->fetch.client);
}

/* Under mu; there is something. */
static void reader_choose(struct history_reader *history, struct turn *out)
{
    bool is_task = belfry_list_empty(&history->jobs) || (history->task_next && !belfry_list_empty(&history->tasks));
    history->task_next = !is_task;
    if (!is_task) {
        reader_take_jobs(history, &out->jobs);
        return;
    }
    out->task = task_of(belfry_list_pop(&history->tasks));
    history->stats.tasks++;
}

/* Waits for something to do. False: it is time to stop. */
static bool reader_take(struct history_reader *history, struct turn *out)
{
    out->task = NULL;
    belfry_list_init(&out->jobs);
    pthread_mutex_lock(&history->mu);
    while (belfry_list_empty(&history->jobs) && belfry_list_empty(&history->tasks) && !history->stopping)
        pthread_cond_wait(&history->more, &history->mu);
    bool going = !history->stopping;
    if (going)
        reader_choose(history, out);
    pthread_mutex_unlock(&history->mu);
    return going;
}

static void reader_count(struct history_reader *history, uint64_t *counter)
{
    pthread_mutex_lock(&history->mu);
    ++*counter;
    pthread_mutex_unlock(&history->mu);
}

static void reader_serve(struct history_reader *history, struct belfry_list *jobs)
{
    struct segment *segment = NULL;
    int64_t oldest = 0;
    const struct worker_fetch *fetch = &job_of(jobs->next)->fetch;
    struct store *store = job_of(jobs->next)->store;
    size_t bytes = history->opts.segment_bytes;
    enum belfry_err err = fetch->slice
                              ? store->api->slice(store, fetch->past, fetch->from, fetch->sub, bytes, &segment, &oldest)
                              : store->api->history(store, fetch->past, fetch->from, bytes, &segment, &oldest);
    if (err == BELFRY_ERR_NOT_FOUND && (segment = shelf_find(history->shelf, fetch->past, fetch->from)) != NULL) {
        err = BELFRY_OK;
        reader_count(history, &history->stats.shelved);
    }
    for (struct belfry_list *node; (node = belfry_list_pop(jobs)) != NULL;) {
        struct history_reader_job *job = job_of(node);
        job->oldest = oldest;
        if (err == BELFRY_ERR_NOT_FOUND) {
            reader_count(history, &history->stats.lost);
            job->lost = true;
            history->opts.lost(job, history->opts.user);
        } else {
            history_reader_answer(job, err, segment == NULL ? NULL : segment_ref(segment), 0);
        }
    }
    segment_unref(segment);
}

static void *reader_main(void *arg)
{
    struct history_reader *history = arg;
    struct turn turn;
    pthread_setname_np(pthread_self(), "belfry-reader");
    while (reader_take(history, &turn)) {
        if (turn.task != NULL)
            turn.task->run(turn.task, turn.task->store != NULL ? turn.task->store : history->opts.store);
        else
            reader_serve(history, &turn.jobs);
    }
    return NULL;
}

enum belfry_err history_reader_start(const struct history_reader_opts *opts, struct history_reader **out)
{
    struct history_reader *history = calloc(1, sizeof(*history));
    if (history == NULL)
        return BELFRY_ERR_NOMEM;
    history->opts = *opts;
    belfry_list_init(&history->jobs);
    belfry_list_init(&history->tasks);
    pthread_mutex_init(&history->mu, NULL);
    pthread_cond_init(&history->more, NULL);
    enum belfry_err err = shelf_create(opts->shelf_bytes, &history->shelf);
    if (err == BELFRY_OK && thread_spawn(&history->reader, reader_main, history) != 0)
        err = BELFRY_ERR_LIMIT;
    if (err != BELFRY_OK) {
        history_reader_destroy(history);
        return err;
    }
    *out = history;
    return BELFRY_OK;
}

void history_reader_stop(struct history_reader *history)
{
    if (history == NULL)
        return;
    pthread_mutex_lock(&history->mu);
    history->stopping = true;
    pthread_cond_signal(&history->more);
    pthread_mutex_unlock(&history->mu);
    pthread_join(history->reader, NULL);
    for (struct belfry_list *node; (node = belfry_list_pop(&history->jobs)) != NULL;)
        history_reader_job_free(job_of(node));
    for (struct belfry_list *node; (node = belfry_list_pop(&history->tasks)) != NULL;)
        task_of(node)->run(task_of(node), NULL);
}

void history_reader_destroy(struct history_reader *history)
{
    if (history == NULL)
        return;
    shelf_destroy(history->shelf);
    pthread_cond_destroy(&history->more);
    pthread_mutex_destroy(&history->mu);
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
    pthread_mutex_lock(&history->mu);
    bool has_room = history->n_jobs < HISTORY_READER_JOBS;
    if (has_room) {
        belfry_list_append(&history->jobs, &job->node);
        history->n_jobs++;
        pthread_cond_signal(&history->more);
    }
    pthread_mutex_unlock(&history->mu);
    if (has_room)
        return BELFRY_OK;
    free(job);
    return BELFRY_ERR_LIMIT;
}

void history_reader_run(struct history_reader *history, struct history_reader_task *task)
{
    pthread_mutex_lock(&history->mu);
    bool going = !history->stopping;
    if (going) {
        belfry_list_append(&history->tasks, &task->node);
        pthread_cond_signal(&history->more);
    }
    pthread_mutex_unlock(&history->mu);
    if (!going)
        task->run(task, NULL);
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
    pthread_mutex_lock(&history->mu);
    *out = history->stats;
    pthread_mutex_unlock(&history->mu);
    out->shelf_bytes = shelf_bytes(history->shelf);
}
