/* src/core/worker.c: a worker's turn. */
#include "core/worker.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/sim.h"
#include "core/worker_private.h"

enum belfry_err worker_create(const struct worker_opts *opts, struct worker **out)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL)
        return BELFRY_ERR_NOMEM;
    worker->opts = *opts;
    worker->rng.state = opts->seed;
    if (worker->opts.progress_ms == 0)
        worker->opts.progress_ms = WORKER_PROGRESS_MS;
    worker->retry_at = BELFRY_NEVER;
    worker->open_at = SIZE_MAX;
    worker->generation = 1;
    belfry_list_init(&worker->streams);
    belfry_list_init(&worker->ready);
    belfry_list_init(&worker->awaiting);
    belfry_list_init(&worker->fresh);
    belfry_list_init(&worker->held);
    belfry_list_init(&worker->closing);
    belfry_list_init(&worker->cutting);
    worker->bytes = sizeof(*worker) + WORKER_OUT_BYTES;
    worker->out = malloc(WORKER_OUT_BYTES);
    if (worker->out == NULL || interest_create(opts->seed, &worker->interest) != BELFRY_OK) {
        worker_destroy(worker);
        return BELFRY_ERR_NOMEM;
    }
    *out = worker;
    return BELFRY_OK;
}

static void close_all(struct worker *worker, struct belfry_list *streams)
{
    while (!belfry_list_empty(streams))
        stream_close(worker, belfry_container(streams->next, struct stream, link));
}

void worker_destroy(struct worker *worker)
{
    if (worker == NULL)
        return;
    close_all(worker, &worker->streams);
    close_all(worker, &worker->cutting);
    worker->work = SIZE_MAX;
    stream_take_down(worker);
    source_forget(worker);
    gather_fini(&worker->gather);
    interest_destroy(worker->interest);
    free(worker->heads);
    free(worker->out);
    free(worker);
}

/* Streams that have something to do, each for a quantum, round and round. */
static void serve(struct worker *worker)
{
    while (worker->work > 0 && !belfry_list_empty(&worker->ready)) {
        BELFRY_POINT("worker.stream");
        fanout_stream(worker, belfry_container(worker->ready.next, struct stream, ready));
    }
}

/* Live first, then those who are behind, with half as much again: neither may starve the other. */
static bool turn(struct worker *worker, size_t max_work)
{
    if (worker->view.cut.past != worker->past)
        cut_begin(worker);
    if (!cut_judge(worker))
        return true;
    bool more = fanout_absorb(worker);
    serve(worker);
    worker->work += max_work / 2 + 1;
    more = sweep_drive(worker) || more;
    return more;
}

bool worker_turn(struct worker *worker, uint64_t now_ms, size_t max_work)
{
    assert(!worker->in_turn);
    worker->in_turn = true;
    worker->now = now_ms;
    worker->turn++;
    worker->work = max_work;
    evlog_enter(worker->opts.log, worker->opts.number, &worker->view);
    bool more = false;
    if (worker->view.cut.past != 0) {
        source_retry(worker);
        ticks_run(worker);
        more = turn(worker, max_work);
    }
    if (belfry_list_empty(&worker->cutting)) { /* positions of an older past lead nowhere */
        serve(worker);
        more = sweep_start(worker) || more; /* somebody may have begun to wait since the buses drove */
    }
    output_flush(worker);
    evlog_leave(worker->opts.log, worker->opts.number);
    stream_take_down(worker);
    worker->in_turn = false;
    return more || !belfry_list_empty(&worker->ready) || !belfry_list_empty(&worker->closing);
}

uint64_t worker_due(const struct worker *worker)
{
    struct belfry_treap_node *first = belfry_treap_first(worker->ticks);
    uint64_t tick = first == NULL ? BELFRY_NEVER : belfry_container(first, struct stream, tick)->tick_ms;
    return belfry_min_time(belfry_min_time(tick, worker->retry_at), sweep_due(worker));
}

int64_t worker_position(const struct worker *worker)
{
    return worker->at;
}

uint64_t worker_past(const struct worker *worker)
{
    return worker->past;
}

void worker_set_stale(struct worker *worker, bool stale)
{
    assert(!worker->in_turn);
    worker->stale = stale;
    if (stale)
        return;
    belfry_list_each (node, &worker->streams) {
        struct stream *stream = belfry_container(node, struct stream, link);
        if (stream_has_more(worker, stream))
            stream_ready(worker, stream);
    }
}

void worker_set_identity(struct worker *worker, const struct response_identity *identity)
{
    worker->opts.identity = *identity;
    worker->header_rev = 0;
}

static struct worker_standings standings_of(const size_t *n_state, size_t riding_parked)
{
    return (struct worker_standings){.synced = n_state[WATCHER_RIDING] - riding_parked,
                                     .catching_up =
                                         n_state[WATCHER_WAITING] + n_state[WATCHER_BOARDED] + n_state[WATCHER_SOLO],
                                     .parked = n_state[WATCHER_STALLED] + riding_parked};
}

void worker_stats(const struct worker *worker, struct worker_stats *out)
{
    *out = worker->stats;
    out->streams = worker->n_streams;
    out->nodes = interest_n_nodes(worker->interest);
    out->riding = worker->n_state[WATCHER_RIDING];
    out->waiting = worker->n_state[WATCHER_WAITING];
    out->boarded = worker->n_state[WATCHER_BOARDED];
    out->stalled = worker->n_state[WATCHER_STALLED];
    out->solo = worker->n_state[WATCHER_SOLO];
    out->watchers = out->riding + out->waiting + out->boarded + out->stalled + out->solo +
                    worker->n_state[WATCHER_LOST] + worker->n_state[WATCHER_ENDED];
    out->parked = worker->n_parked;
    out->riding_parked = worker->n_riding_parked;
    out->lines = standings_of(worker->n_lines[0], worker->n_lines_parked[0]);
    out->inward = standings_of(worker->n_lines[1], worker->n_lines_parked[1]);
    out->bytes = worker->bytes + interest_bytes(worker->interest);
    out->rest_bytes = worker->rest_bytes;
}
