/* src/follow/backfill.c: requests wait in one list; a job is one watch upstream, and serves every request that falls
 * into the stretch it is building.
 *
 *     IDLE -> WANTED -> OPEN -> DONE (it has all it is to have) -> IDLE
 *
 *     ready              building            to come
 *     | finished segment | next ..... last   | ........ end |
 */
#include "follow/backfill.h"

#include <assert.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/sim.h"
#include "follow/probe.h"
#include "follow/upstream.h"

#define JOBS             (BACKFILLS - 1)
#define PROBE_SLOT       (BACKFILL_SLOT + JOBS)
#define REQUESTS_MAX     1024
#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS   5000
#define RESUME_MS        10 /* after a revision was refused for want of memory */

struct request {
    struct belfry_list node; /* in waiting, unproven or answers */
    uint64_t stamp;          /* unproven: probes that had been opened when its segment was there */
    uint64_t past;
    int64_t from, oldest;
    struct backfill_answer answer;
};

enum job_state { JOB_IDLE, JOB_WANTED, JOB_OPEN, JOB_DONE };

struct job {
    enum job_state state;
    uint64_t past;
    int64_t next;                   /* where the segment that is being built begins */
    int64_t last;                   /* everything up to here has come */
    int64_t end;                    /* nothing above is wanted */
    struct segment_builder builder; /* batches in [next, last] */
    struct segment *ready;          /* the one before; one reference; NULL: none */
    bool taken;                     /* ready was given to somebody */
    uint64_t stamp;                 /* probes that had been opened when it was finished: only a later one proves it */
    bool created;
    bool close_owed;      /* the owner still has a watch in this slot that is over */
    bool paused, told;    /* wanted, and what the owner was told */
    bool refused;         /* the owner keeps a revision that was not taken */
    uint64_t asked_at;    /* when somebody last wanted something of it */
    uint64_t progress_at; /* when its silence is broken */
};

struct backfill {
    size_t segment_bytes;
    uint64_t past;               /* of the last cut; older ones are over */
    const struct ingest *ingest; /* lent; NULL: nothing is proven */
    struct belfry_list waiting, unproven, answers;
    size_t n_requests; /* of all three */
    struct job jobs[JOBS];
    struct probe probe;
    uint64_t opened, proven; /* probes so far; the number of the last that found our past */
    struct belfry_backoff backoff;
    struct belfry_rng rng;
    uint64_t open_at;   /* no watch is opened before: the last one failed */
    uint64_t resume_at; /* likewise for a refused revision */
};

enum belfry_err backfill_create(size_t segment_bytes, struct backfill **out)
{
    struct backfill *backfill = calloc(1, sizeof(*backfill));
    if (backfill == NULL)
        return BELFRY_ERR_NOMEM;
    backfill->segment_bytes = segment_bytes;
    belfry_list_init(&backfill->waiting);
    belfry_list_init(&backfill->unproven);
    belfry_list_init(&backfill->answers);
    belfry_backoff_init(&backfill->backoff, BACKOFF_FIRST_MS, BACKOFF_MAX_MS);
    *out = backfill;
    return BELFRY_OK;
}

static void close_job(struct job *job)
{
    segment_abort(&job->builder);
    segment_unref(job->ready);
    bool owed = job->close_owed || job->state == JOB_OPEN;
    *job = (struct job){.close_owed = owed};
}

static void free_requests(struct belfry_list *list)
{
    for (struct belfry_list *node; (node = belfry_list_pop(list)) != NULL;) {
        struct request *request = belfry_container(node, struct request, node);
        segment_unref(request->answer.segment);
        free(request);
    }
}

void backfill_destroy(struct backfill *backfill)
{
    if (backfill == NULL)
        return;
    for (unsigned i = 0; i < JOBS; i++)
        close_job(&backfill->jobs[i]);
    free_requests(&backfill->waiting);
    free_requests(&backfill->unproven);
    free_requests(&backfill->answers);
    free(backfill);
}

/* ---- answering ---- */

static void answer(struct backfill *backfill, struct request *request, enum belfry_err err, int64_t compact_rev)
{
    belfry_list_remove(&request->node);
    segment_unref(request->answer.segment);
    request->answer = (struct backfill_answer){.token = request->answer.token, .err = err, .compact_rev = compact_rev};
    belfry_list_append(&backfill->answers, &request->node);
}

static bool is_proven(const struct backfill *backfill, uint64_t stamp)
{
    bool provable = backfill->ingest != NULL && ingest_overlap(backfill->ingest) != 0;
    return !provable || stamp < backfill->proven;
}

/* It has its segment, and waits for the proof that this is of our past, if it is not there already. */
static void answer_when_proven(struct backfill *backfill, struct request *request, const struct job *job)
{
    belfry_list_remove(&request->node);
    request->answer.err = BELFRY_OK;
    request->answer.segment = segment_ref(job->ready);
    request->stamp = job->stamp;
    belfry_list_append(is_proven(backfill, job->stamp) ? &backfill->answers : &backfill->unproven, &request->node);
}

static bool is_ready(const struct job *job, const struct request *request)
{
    return job->ready != NULL && job->past == request->past && request->from >= job->ready->from &&
           request->from <= job->ready->upto;
}

/* Is it waiting for what the job is building? */
static bool is_served(const struct job *job, const struct request *request)
{
    return job->state != JOB_IDLE && job->past == request->past && request->from >= job->next &&
           request->from <= job->last + 1 && request->from <= job->end;
}

/* The same for everybody who waits for this job. */
static void answer_all(struct backfill *backfill, const struct job *job, enum belfry_err err, int64_t compact_rev)
{
    belfry_list_each_safe (node, &backfill->waiting) {
        struct request *request = belfry_container(node, struct request, node);
        if (is_served(job, request))
            answer(backfill, request, err, compact_rev);
    }
}

static bool has_waiter(const struct backfill *backfill, const struct job *job)
{
    belfry_list_each (node, &backfill->waiting) {
        if (is_served(job, belfry_container(node, struct request, node)))
            return true;
    }
    return false;
}

/* ---- building ---- */

static bool is_full(const struct backfill *backfill, const struct job *job)
{
    return job->builder.bytes >= backfill->segment_bytes;
}

/* May a new finished segment take the place of the one that is there? */
static bool may_finish(const struct job *job)
{
    return job->ready == NULL || job->taken;
}

/* Nobody is helped by a part that cannot be told from a whole: who waits asks again. */
static void give_up(struct backfill *backfill, struct job *job, uint64_t now_ms)
{
    answer_all(backfill, job, BELFRY_ERR_CANCELED, 0);
    close_job(job);
    backfill->open_at = now_ms + belfry_backoff_next(&backfill->backoff, &backfill->rng);
}

static void give_ready(struct backfill *backfill, struct job *job, uint64_t now_ms)
{
    belfry_list_each_safe (node, &backfill->waiting) {
        struct request *request = belfry_container(node, struct request, node);
        if (!is_ready(job, request))
            continue;
        answer_when_proven(backfill, request, job);
        job->taken = true;
        job->asked_at = now_ms;
    }
}

/* Finishes the segment that is being built once it is full or the last, and there is a place for it or somebody who
 * waits for it. Ends a job that has given everything. */
static void settle(struct backfill *backfill, struct job *job, uint64_t now_ms)
{
    while (job->state == JOB_OPEN || job->state == JOB_DONE) {
        bool due = job->state == JOB_DONE ? job->next <= job->end : is_full(backfill, job);
        if (!due || !(may_finish(job) || has_waiter(backfill, job)))
            break;
        struct segment *segment;
        int64_t upto = job->state == JOB_DONE ? job->end : job->last;
        if (segment_finish(&job->builder, job->past, job->next, upto, &segment) != BELFRY_OK) {
            give_up(backfill, job, now_ms);
            return;
        }
        segment_unref(job->ready);
        job->ready = segment;
        job->taken = false;
        job->stamp = backfill->opened;
        if (!is_proven(backfill, job->stamp))
            probe_want(&backfill->probe, now_ms); /* before anybody asks: then it need not be waited for */
        job->next = upto + 1;
        job->last = upto;
        give_ready(backfill, job, now_ms);
    }
    if (job->state == JOB_DONE && job->next > job->end && may_finish(job))
        close_job(job);
}

/* Everything up to its end has come. */
static void reached(struct backfill *backfill, struct job *job, uint64_t now_ms)
{
    job->last = job->end;
    job->state = JOB_DONE;
    job->close_owed = true;
    settle(backfill, job, now_ms);
}

/* ---- who serves whom ---- */

static struct job *free_job(struct backfill *backfill)
{
    for (unsigned i = 0; i < JOBS; i++)
        if (backfill->jobs[i].state == JOB_IDLE)
            return &backfill->jobs[i];
    return NULL;
}

static void open_job(struct job *job, const struct request *request, uint64_t now_ms)
{
    job->state = JOB_WANTED;
    job->past = request->past;
    job->next = request->from;
    job->last = request->from - 1;
    job->end = request->oldest - 1;
    job->asked_at = now_ms;
    segment_begin(&job->builder);
}

/* True: a job has it, or will. */
static bool find_job(struct backfill *backfill, const struct request *request, uint64_t now_ms)
{
    for (unsigned i = 0; i < JOBS; i++) {
        struct job *job = &backfill->jobs[i];
        bool follows = job->state == JOB_WANTED || job->state == JOB_OPEN;
        if (!is_served(job, request))
            continue;
        job->asked_at = now_ms;
        if (follows && request->oldest - 1 > job->end)
            job->end = request->oldest - 1;
        return true;
    }
    return false;
}

/* Gives every request that waits what is there, or a job. */
static void dispatch(struct backfill *backfill, uint64_t now_ms)
{
    for (unsigned i = 0; i < JOBS; i++) {
        give_ready(backfill, &backfill->jobs[i], now_ms);
        settle(backfill, &backfill->jobs[i], now_ms);
    }
    belfry_list_each (node, &backfill->waiting) {
        const struct request *request = belfry_container(node, struct request, node);
        struct job *job = find_job(backfill, request, now_ms) ? NULL : free_job(backfill);
        if (job != NULL)
            open_job(job, request, now_ms);
    }
    for (unsigned i = 0; i < JOBS; i++)
        settle(backfill, &backfill->jobs[i], now_ms);
}

enum belfry_err backfill_request(struct backfill *backfill, uint64_t past, int64_t from, int64_t oldest, uint64_t token,
                                 uint64_t now_ms)
{
    assert(from < oldest);
    bool over = backfill->n_requests >= REQUESTS_MAX;
    if (over && !BELFRY_MUTANT(compacted_guessed))
        return BELFRY_ERR_LIMIT;
    struct request *request = calloc(1, sizeof(*request));
    if (request == NULL)
        return BELFRY_ERR_NOMEM;
    request->past = past;
    request->from = from;
    request->oldest = oldest;
    request->answer.token = token;
    belfry_list_append(&backfill->waiting, &request->node);
    backfill->n_requests++;
    if (over)
        answer(backfill, request, BELFRY_ERR_COMPACTED, oldest);
    else if (past < backfill->past)
        answer(backfill, request, BELFRY_ERR_CANCELED, 0);
    else
        dispatch(backfill, now_ms);
    return BELFRY_OK;
}

bool backfill_answer(struct backfill *backfill, struct backfill_answer *out)
{
    struct belfry_list *node = belfry_list_pop(&backfill->answers);
    if (node == NULL)
        return false;
    struct request *request = belfry_container(node, struct request, node);
    *out = request->answer;
    free(request);
    backfill->n_requests--;
    return true;
}

static void cancel_other_pasts(struct backfill *backfill, struct belfry_list *list, uint64_t past)
{
    belfry_list_each_safe (node, list) {
        struct request *request = belfry_container(node, struct request, node);
        if (request->past != past)
            answer(backfill, request, BELFRY_ERR_CANCELED, 0);
    }
}

/* Everything that is not of `past` ends. */
static void cut(struct backfill *backfill, uint64_t past)
{
    for (unsigned i = 0; i < JOBS; i++)
        if (backfill->jobs[i].past != past)
            close_job(&backfill->jobs[i]);
    probe_close(&backfill->probe);
    cancel_other_pasts(backfill, &backfill->waiting, past);
    cancel_other_pasts(backfill, &backfill->unproven, past);
}

void backfill_cut(struct backfill *backfill, uint64_t past)
{
    backfill->past = past;
    cut(backfill, past);
}

/* ---- the proof ---- */

void backfill_prove_by(struct backfill *backfill, const struct ingest *ingest)
{
    backfill->ingest = ingest;
}

static bool needs_proof(const struct backfill *backfill)
{
    for (unsigned i = 0; i < JOBS; i++)
        if (backfill->jobs[i].ready != NULL && !is_proven(backfill, backfill->jobs[i].stamp))
            return true;
    return !belfry_list_empty(&backfill->unproven);
}

static void release_proven(struct backfill *backfill)
{
    belfry_list_each_safe (node, &backfill->unproven) {
        if (!is_proven(backfill, belfry_container(node, struct request, node)->stamp))
            continue;
        belfry_list_remove(node);
        belfry_list_append(&backfill->answers, node);
    }
}

/* The watch of the probe gave a revision, or a progress when that is NULL. */
static void prove(struct backfill *backfill, int64_t rev, const struct ingest_revision *revision, uint64_t now_ms)
{
    switch (probe_judge(&backfill->probe, rev, revision)) {
    case PROBE_NOTHING:
        return;
    case PROBE_REWRITTEN:
        cut(backfill, 0); /* no past has this number: everybody asks again, when it has been found out elsewhere too */
        backfill->open_at = now_ms + BACKOFF_FIRST_MS;
        return;
    case PROBE_OURS:
        break;
    }
    backfill->proven = backfill->opened;
    release_proven(backfill);
    if (needs_proof(backfill))
        probe_want(&backfill->probe, now_ms);
}

static bool probe_wants(struct backfill *backfill, uint64_t now_ms, struct upstream_action *out)
{
    struct probe *probe = &backfill->probe;
    *out = (struct upstream_action){.want = UPSTREAM_WANT_CLOSE, .slot = PROBE_SLOT};
    if (probe->close_owed) {
        probe->close_owed = false;
        return true;
    }
    if (probe->state != PROBE_WANTED || now_ms < probe->at)
        return false;
    release_proven(backfill); /* an adopted listing leaves nothing to prove by */
    if (!needs_proof(backfill)) {
        probe->state = PROBE_IDLE;
        return false;
    }
    backfill->opened++;
    out->want = UPSTREAM_WANT_WATCH;
    out->rev = probe_open(probe, backfill->ingest);
    return true;
}

/* ---- what comes ---- */

static struct job *open_job_of(struct backfill *backfill, unsigned slot)
{
    if (slot < BACKFILL_SLOT || slot >= PROBE_SLOT)
        return NULL;
    struct job *job = &backfill->jobs[slot - BACKFILL_SLOT];
    return job->state == JOB_OPEN ? job : NULL;
}

static struct belfry_bytes prev_of(const struct belfry_wire_event *event)
{
    return event->has_prev ? event->prev.raw : (struct belfry_bytes){0};
}

static enum belfry_err add(struct job *job, const struct ingest_revision *revision)
{
    size_t bytes = 0;
    for (size_t i = 0; i < revision->n; i++)
        bytes += batch_event_bytes(&revision->events[i], prev_of(&revision->events[i]));
    struct batch *batch;
    enum belfry_err err = batch_create(revision->rev, BATCH_EVENTS, (uint32_t)revision->n, bytes, &batch);
    if (err != BELFRY_OK)
        return err;
    for (size_t i = 0; i < revision->n; i++)
        batch_add(batch, &revision->events[i], prev_of(&revision->events[i]));
    err = segment_add(&job->builder, batch);
    if (err == BELFRY_OK)
        job->last = revision->rev;
    return err;
}

static bool refuse(struct job *job)
{
    job->paused = job->refused = true;
    return false;
}

bool backfill_on_revision(struct backfill *backfill, unsigned slot, const struct ingest_revision *revision,
                          uint64_t now_ms)
{
    struct job *job = open_job_of(backfill, slot);
    if (slot == PROBE_SLOT)
        prove(backfill, revision->rev, revision, now_ms);
    if (job == NULL || revision->rev <= job->last)
        return true;
    job->progress_at = now_ms + UPSTREAM_PROGRESS_MS;
    belfry_backoff_reset(&backfill->backoff);
    if (revision->rev > job->end) {
        reached(backfill, job, now_ms);
        dispatch(backfill, now_ms);
        return true;
    }
    if (is_full(backfill, job))
        return refuse(job); /* the one before was not asked for yet */
    if (add(job, revision) != BELFRY_OK) {
        backfill->resume_at = now_ms + RESUME_MS;
        return refuse(job);
    }
    bool all =
        revision->rev == job->end || (BELFRY_MUTANT(backfill_by_header) && revision->header.revision >= job->end);
    if (all)
        reached(backfill, job, now_ms);
    if (all || is_full(backfill, job))
        dispatch(backfill, now_ms);
    return true;
}

void backfill_on_progress(struct backfill *backfill, unsigned slot, const struct belfry_wire_header *header,
                          uint64_t now_ms)
{
    struct job *job = open_job_of(backfill, slot);
    if (slot == PROBE_SLOT)
        prove(backfill, header->revision, NULL, now_ms);
    if (job == NULL || !job->created || header->revision <= job->last)
        return;
    job->progress_at = now_ms + UPSTREAM_PROGRESS_MS;
    if (header->revision >= job->end)
        reached(backfill, job, now_ms);
    else
        job->last = header->revision;
    dispatch(backfill, now_ms);
}

void backfill_on_created(struct backfill *backfill, unsigned slot, const struct belfry_wire_header *header,
                         uint64_t now_ms)
{
    struct job *job = open_job_of(backfill, slot);
    if (job == NULL)
        return;
    job->created = true;
    job->progress_at = now_ms + UPSTREAM_PROGRESS_MS;
    if (BELFRY_MUTANT(backfill_by_created) && header->revision >= job->end)
        reached(backfill, job, now_ms);
}

/* Upstream has nothing below compact_rev any more. What had come before is still good. */
static void compacted(struct backfill *backfill, struct job *job, int64_t compact_rev, uint64_t now_ms)
{
    belfry_list_each_safe (node, &backfill->waiting) {
        struct request *request = belfry_container(node, struct request, node);
        if (request->past == job->past && request->from > job->last && request->from < compact_rev)
            answer(backfill, request, BELFRY_ERR_COMPACTED, compact_rev);
    }
    job->end = job->last;
    settle(backfill, job, now_ms);
}

void backfill_on_end(struct backfill *backfill, unsigned slot, enum belfry_err err, int64_t compact_rev,
                     uint64_t now_ms)
{
    struct job *job = open_job_of(backfill, slot);
    if (slot == PROBE_SLOT && backfill->probe.state == PROBE_OPEN) {
        backfill->probe.state = PROBE_IDLE;
        probe_want(&backfill->probe, now_ms + BACKOFF_FIRST_MS);
    }
    if (job == NULL)
        return;
    job->state = JOB_DONE; /* the owner's watch is gone: there is nothing to close */
    if (BELFRY_MUTANT(compacted_guessed)) {
        answer_all(backfill, job, BELFRY_ERR_COMPACTED, job->end + 1);
        close_job(job);
    } else if (err == BELFRY_ERR_COMPACTED) {
        compacted(backfill, job, compact_rev, now_ms);
    } else {
        give_up(backfill, job, now_ms);
    }
    dispatch(backfill, now_ms);
}

/* ---- what is wanted ---- */

static bool wants(const struct backfill *backfill, struct job *job, uint64_t now_ms, struct upstream_action *out)
{
    if (job->close_owed) {
        job->close_owed = false;
        out->want = UPSTREAM_WANT_CLOSE;
        return true;
    }
    if (job->state == JOB_WANTED && now_ms >= backfill->open_at) {
        job->state = JOB_OPEN;
        out->want = UPSTREAM_WANT_WATCH;
        out->rev = job->next;
        return true;
    }
    if (job->state != JOB_OPEN)
        return false;
    if (!is_full(backfill, job) && now_ms >= backfill->resume_at)
        job->paused = false;
    if (job->paused && !job->told) {
        job->told = true;
        out->want = UPSTREAM_WANT_PAUSE;
        return true;
    }
    if (!job->paused && (job->told || job->refused)) {
        job->told = job->refused = false;
        out->want = UPSTREAM_WANT_RESUME;
        return true;
    }
    if (job->paused || !job->created || now_ms < job->progress_at)
        return false;
    job->progress_at = now_ms + UPSTREAM_PROGRESS_MS;
    out->want = UPSTREAM_WANT_PROGRESS;
    return true;
}

bool backfill_next(struct backfill *backfill, uint64_t now_ms, struct upstream_action *out)
{
    for (unsigned i = 0; i < JOBS; i++) {
        *out = (struct upstream_action){.slot = BACKFILL_SLOT + i};
        if (wants(backfill, &backfill->jobs[i], now_ms, out))
            return true;
    }
    return probe_wants(backfill, now_ms, out);
}

/* ---- time ---- */

void backfill_tick(struct backfill *backfill, uint64_t now_ms)
{
    for (unsigned i = 0; i < JOBS; i++) {
        struct job *job = &backfill->jobs[i];
        if (job->state != JOB_IDLE && now_ms >= job->asked_at + BACKFILL_IDLE_MS && !has_waiter(backfill, job))
            close_job(job);
    }
    dispatch(backfill, now_ms);
}

static uint64_t job_due(const struct backfill *backfill, const struct job *job)
{
    uint64_t due = job->asked_at + BACKFILL_IDLE_MS;
    if (has_waiter(backfill, job))
        due = BELFRY_NEVER;
    if (job->state == JOB_WANTED)
        due = belfry_min_time(due, backfill->open_at);
    if (job->state == JOB_OPEN && job->created && !job->paused)
        due = belfry_min_time(due, job->progress_at);
    if (job->state == JOB_OPEN && job->refused && !is_full(backfill, job))
        due = belfry_min_time(due, backfill->resume_at);
    return due;
}

uint64_t backfill_due(const struct backfill *backfill)
{
    uint64_t due = backfill->probe.state == PROBE_WANTED ? backfill->probe.at : BELFRY_NEVER;
    for (unsigned i = 0; i < JOBS; i++)
        if (backfill->jobs[i].state != JOB_IDLE)
            due = belfry_min_time(due, job_due(backfill, &backfill->jobs[i]));
    return due;
}
