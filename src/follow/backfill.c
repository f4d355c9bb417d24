/* src/follow/backfill.c
 *
 * Requests wait in one list, in the order in which they get a job: when a job begins for one, the others of its client
 * go to the end. A job is one watch upstream, and serves every request that falls into the stretch that it builds.
 *
 *     IDLE -> WANTED -> OPEN -> DONE (it has everything up to its end, and that is proven) -> IDLE
 *               ^         |
 *               `---------'  lost, created again, or called compacted, before what it gave was proven
 *
 *     ready                             building            to come
 *     | finished segment | another one | next ..... last   | ........ end |
 */
#include "follow/backfill.h"

#include <assert.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"
#include "base/sim.h"
#include "follow/probe.h"
#include "follow/upstream.h"

#define JOBS             (BACKFILLS - 1)
#define PROBE_SLOT       (BACKFILL_SLOT + JOBS)
#define REQUESTS_MAX     1024
#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS   5000
#define RESUME_MS        10   /* after a revision was refused for want of memory */
#define NOTHING_MS       1000 /* no revision to compare with: look again after this time */
#define READY_MAX        2
#define FIRST_REV        1 /* the revision of an empty store: no event is at it or below */

struct request {
    struct belfry_list node; /* in waiting or answers */
    uint64_t client;
    uint64_t past;
    int64_t from, oldest;
    struct backfill_answer answer;
};

enum job_state { JOB_IDLE, JOB_WANTED, JOB_OPEN, JOB_DONE };

/* A finished segment. */
struct ready {
    struct segment *segment; /* one reference */
    bool taken;              /* a request received it or a later segment: its place can be reused */
    bool proven;
};

struct job {
    enum job_state state;
    uint64_t client; /* of the request that it began with */
    uint64_t opened_at;
    bool given; /* a request has received a segment of it */
    uint64_t past;
    int64_t next;                   /* first revision of the segment that is being built */
    int64_t last;                   /* everything up to here has come */
    int64_t end;                    /* nothing above is wanted; last == end: it is complete */
    struct segment_builder builder; /* batches in [next, last] */
    struct ready ready[READY_MAX];  /* those before, in order */
    unsigned n_ready;
    bool created;
    bool proven;  /* holds for the segment being built, and for events up to `end` until the watch is created again */
    bool probing; /* the probe was opened after this job's watch was created */
    bool lost;    /* upstream no longer has its watch: a probe that is created from now on proves nothing for it */
    /* Its watch was lost, or ended as compacted, before it was proven. It is opened again while a probe is held, and is
     * proven if the probe is still held when the watch is created. */
    bool doubted;
    bool close_owed;      /* the owner must still close the old watch in this slot */
    bool paused, told;    /* paused: wanted; told: what the owner was told last */
    bool refused;         /* the owner holds a revision that was refused */
    uint64_t asked_at;    /* the last request that it served */
    uint64_t progress_at; /* when progress is asked for */
};

struct backfill {
    size_t segment_bytes;
    uint64_t past;         /* of the last cut; older pasts have ended */
    struct ingest *ingest; /* lent; NULL: everything is believed */
    struct belfry_list waiting, answers;
    size_t n_requests; /* of both */
    struct job jobs[JOBS];
    struct probe probe;
    struct belfry_backoff backoff;
    struct belfry_rng rng;
    uint64_t open_at;   /* no watch is opened before: the last one failed */
    uint64_t resume_at; /* likewise for a refused revision */
    BELFRY_OWNER;
};

enum belfry_err backfill_create(size_t segment_bytes, uint64_t seed, struct backfill **out)
{
    struct backfill *backfill = calloc(1, sizeof(*backfill));
    if (backfill == NULL)
        return BELFRY_ERR_NOMEM;
    backfill->segment_bytes = segment_bytes;
    belfry_list_init(&backfill->waiting);
    belfry_list_init(&backfill->answers);
    belfry_backoff_init(&backfill->backoff, BACKOFF_FIRST_MS, BACKOFF_MAX_MS);
    backfill->rng.state = seed;
    BELFRY_OWNER_INIT(backfill);
    *out = backfill;
    return BELFRY_OK;
}

static void drop_ready(struct job *job, unsigned from, unsigned n)
{
    for (unsigned i = from; i < from + n; i++)
        segment_unref(job->ready[i].segment);
    for (unsigned i = from; i + n < job->n_ready; i++)
        job->ready[i] = job->ready[i + n];
    job->n_ready -= n;
}

static void close_job(struct job *job)
{
    segment_abort(&job->builder);
    drop_ready(job, 0, job->n_ready);
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
    BELFRY_OWNER_CHECK(backfill);
    for (unsigned i = 0; i < JOBS; i++)
        close_job(&backfill->jobs[i]);
    free_requests(&backfill->waiting);
    free_requests(&backfill->answers);
    free(backfill);
}

/* ---- answering ---- */

static void backfill_give_answer(struct backfill *backfill, struct request *request, enum belfry_err err,
                                 int64_t compact_rev)
{
    belfry_list_remove(&request->node);
    segment_unref(request->answer.segment);
    request->answer = (struct backfill_answer){.token = request->answer.token, .err = err, .compact_rev = compact_rev};
    belfry_list_append(&backfill->answers, &request->node);
}

static bool is_trusted(const struct backfill *backfill, bool proven)
{
    return backfill->ingest == NULL || proven;
}

static void answer_with(struct backfill *backfill, struct request *request, struct segment *segment)
{
    belfry_list_remove(&request->node);
    request->answer.err = BELFRY_OK;
    request->answer.segment = segment_ref(segment);
    belfry_list_append(&backfill->answers, &request->node);
}

/* Index of the finished segment that has the first revision requested; READY_MAX: none. */
static unsigned find_ready(const struct job *job, const struct request *request)
{
    for (unsigned i = 0; i < job->n_ready && job->past == request->past; i++) {
        const struct segment *segment = job->ready[i].segment;
        if (request->from >= segment->from && request->from <= segment->upto)
            return i;
    }
    return READY_MAX;
}

static bool is_building(const struct job *job, const struct request *request)
{
    return job->state != JOB_IDLE && job->past == request->past && request->from >= job->next &&
           request->from <= job->last + 1 && request->from <= job->end;
}

/* Will the request receive what the job has or is building? */
static bool is_served(const struct job *job, const struct request *request)
{
    return is_building(job, request) || find_ready(job, request) != READY_MAX;
}

/* Answers every request that waits for this job. */
static void answer_all(struct backfill *backfill, const struct job *job, enum belfry_err err, int64_t compact_rev)
{
    belfry_list_each_safe (node, &backfill->waiting) {
        struct request *request = belfry_container(node, struct request, node);
        if (is_served(job, request))
            backfill_give_answer(backfill, request, err, compact_rev);
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

static bool is_complete(const struct job *job)
{
    return job->last == job->end;
}

/* Is there a place for one more finished segment? The oldest is dropped if a request has received it, or if no request
 * wants it and a request waits for the next one. */
static bool has_place(const struct backfill *backfill, const struct job *job)
{
    if (job->n_ready < READY_MAX || job->ready[0].taken)
        return true;
    bool next_is_wanted = false;
    belfry_list_each (node, &backfill->waiting) {
        const struct request *request = belfry_container(node, struct request, node);
        if (find_ready(job, request) == 0)
            return false;
        next_is_wanted = next_is_wanted || is_building(job, request);
    }
    return next_is_wanted;
}

/* A partial segment looks complete, so discard it; waiters retry. */
static void give_up(struct backfill *backfill, struct job *job, uint64_t now_ms)
{
    answer_all(backfill, job, BELFRY_ERR_CANCELED, 0);
    close_job(job);
    backfill->open_at = now_ms + belfry_backoff_next(&backfill->backoff, &backfill->rng);
}

/* A proof is valid up to the head that we had when the probe was opened. If upstream was restored, what we received
 * since may belong to another past. So a job that is proven, or is being proven, keeps the end that it had then. */
static void job_extend(struct job *job, const struct request *request, uint64_t now_ms)
{
    bool settled = job->proven || job->probing;
    bool follows = (job->state == JOB_WANTED || job->state == JOB_OPEN) && !is_complete(job) && !settled;
    job->asked_at = now_ms;
    if (follows && request->oldest - 1 > job->end)
        job->end = request->oldest - 1;
}

static void give_ready(struct backfill *backfill, struct job *job, uint64_t now_ms)
{
    belfry_list_each_safe (node, &backfill->waiting) {
        struct request *request = belfry_container(node, struct request, node);
        unsigned at = find_ready(job, request);
        if (at == READY_MAX || !is_trusted(backfill, job->ready[at].proven))
            continue;
        answer_with(backfill, request, job->ready[at].segment);
        job->given = true;
        for (unsigned i = 0; i <= at; i++)
            job->ready[i].taken = true;
        job_extend(job, request, now_ms);
    }
}

/* Finishes the segment that is being built. */
static enum belfry_err job_finish(struct job *job)
{
    struct segment *segment;
    enum belfry_err err = segment_finish(&job->builder, job->past, job->next, job->last, &segment);
    if (err != BELFRY_OK)
        return err;
    if (job->n_ready == READY_MAX)
        drop_ready(job, 0, 1);
    job->ready[job->n_ready++] = (struct ready){.segment = segment, .proven = job->proven};
    job->next = job->last + 1;
    return BELFRY_OK;
}

static bool is_all_taken(const struct job *job)
{
    for (unsigned i = 0; i < job->n_ready; i++)
        if (!job->ready[i].taken)
            return false;
    return true;
}

/* Finishes segments that are full, and the last one, while there is a place for them. Ends a job that has delivered
 * everything. */
static void job_settle(struct backfill *backfill, struct job *job, uint64_t now_ms)
{
    while (job->state == JOB_OPEN || job->state == JOB_DONE) {
        bool due = is_complete(job) ? job->next <= job->end : is_full(backfill, job);
        if (!due || !has_place(backfill, job))
            break;
        if (job_finish(job) != BELFRY_OK) {
            give_up(backfill, job, now_ms);
            return;
        }
        give_ready(backfill, job, now_ms);
    }
    if (job->state == JOB_OPEN && is_complete(job) && is_trusted(backfill, job->proven)) {
        job->state = JOB_DONE;
        job->close_owed = true;
    }
    if (job->state == JOB_DONE && job->next > job->end && is_all_taken(job))
        close_job(job);
}

/* Everything up to its end has come. */
static void job_reached(struct backfill *backfill, struct job *job, uint64_t now_ms)
{
    job->last = job->end;
    job_settle(backfill, job, now_ms);
}

/* ---- jobs for requests ---- */

static void open_job(struct job *job, const struct request *request, uint64_t now_ms)
{
    job->state = JOB_WANTED;
    job->client = request->client;
    job->opened_at = now_ms;
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
        if (!is_served(&backfill->jobs[i], request))
            continue;
        job_extend(&backfill->jobs[i], request, now_ms);
        return true;
    }
    return false;
}

static unsigned count_jobs(const struct backfill *backfill, uint64_t client)
{
    unsigned n = 0;
    for (unsigned i = 0; i < JOBS; i++)
        n += backfill->jobs[i].state != JOB_IDLE && backfill->jobs[i].client == client;
    return n;
}

/* A job that is idle, unless the client must leave it to others; NULL: none. */
static struct job *idle_job(struct backfill *backfill, uint64_t client)
{
    struct job *idle = NULL;
    unsigned n_idle = 0;
    for (unsigned i = 0; i < JOBS; i++) {
        if (backfill->jobs[i].state != JOB_IDLE)
            continue;
        idle = idle == NULL ? &backfill->jobs[i] : idle;
        n_idle++;
    }
    return client == 0 || count_jobs(backfill, client) < n_idle ? idle : NULL;
}

/* When a request of this client that no job serves may have the place of the job; BELFRY_NEVER: not while things are as
 * they are. `wanted`: requests wait for the job. */
static uint64_t job_yields_at(const struct backfill *backfill, const struct job *job, bool wanted, uint64_t client)
{
    unsigned n_own = count_jobs(backfill, client), n_its = count_jobs(backfill, job->client);
    if (job->state == JOB_IDLE)
        return BELFRY_NEVER;
    if (!wanted)
        return client == 0 || job->client == client || n_own < n_its ? job->asked_at + BACKFILL_YIELD_MS : BELFRY_NEVER;
    if (n_own > 0 || !job->given)
        return BELFRY_NEVER;
    return n_its > 1 ? job->opened_at : job->opened_at + BACKFILL_TURN_MS;
}

/* The job that yields to a request of this client, those first that no request waits for; NULL: none does now. */
static struct job *yielding_job(struct backfill *backfill, uint64_t client, uint64_t now_ms)
{
    struct job *found = NULL;
    bool found_wanted = true;
    uint64_t found_at = BELFRY_NEVER;
    for (unsigned i = 0; i < JOBS; i++) {
        struct job *job = &backfill->jobs[i];
        bool wanted = has_waiter(backfill, job);
        uint64_t at = job_yields_at(backfill, job, wanted, client);
        if (at > now_ms || (found != NULL && (wanted > found_wanted || (wanted == found_wanted && at >= found_at))))
            continue;
        found = job;
        found_wanted = wanted;
        found_at = at;
    }
    return found;
}

/* A job for a request that none serves; NULL: not now. */
static struct job *make_room(struct backfill *backfill, uint64_t client, uint64_t now_ms)
{
    struct job *job = idle_job(backfill, client);
    if (job != NULL)
        return job;
    job = yielding_job(backfill, client, now_ms);
    if (job != NULL)
        close_job(job);
    return job;
}

/* The client had its turn: the requests of others are before its own. */
static void end_turn(struct backfill *backfill, uint64_t client)
{
    struct belfry_list own;
    belfry_list_init(&own);
    belfry_list_each_safe (node, &backfill->waiting) {
        if (belfry_container(node, struct request, node)->client != client)
            continue;
        belfry_list_remove(node);
        belfry_list_append(&own, node);
    }
    belfry_list_move_all(&backfill->waiting, &own);
}

/* Begins a job for the first request that none serves and that may have one. False: there is no such request. */
static bool begin_job(struct backfill *backfill, uint64_t now_ms)
{
    belfry_list_each (node, &backfill->waiting) {
        const struct request *request = belfry_container(node, struct request, node);
        struct job *job = find_job(backfill, request, now_ms) ? NULL : make_room(backfill, request->client, now_ms);
        if (job == NULL)
            continue;
        open_job(job, request, now_ms);
        end_turn(backfill, request->client);
        return true;
    }
    return false;
}

/* Answers every waiting request from finished segments, or assigns a job to it. */
static void backfill_dispatch(struct backfill *backfill, uint64_t now_ms)
{
    for (unsigned i = 0; i < JOBS; i++) {
        give_ready(backfill, &backfill->jobs[i], now_ms);
        job_settle(backfill, &backfill->jobs[i], now_ms);
    }
    while (begin_job(backfill, now_ms))
        ;
    for (unsigned i = 0; i < JOBS; i++)
        job_settle(backfill, &backfill->jobs[i], now_ms);
}

/* How far into the window a backfill reads. */
static int64_t backfill_beyond(const struct backfill *backfill, int64_t oldest)
{
    if (backfill->ingest == NULL)
        return 0;
    int64_t half = (ingest_head(backfill->ingest) - oldest) / 2;
    return half <= 0 ? 0 : half < BACKFILL_BEYOND ? half : BACKFILL_BEYOND;
}

/* Answers a request for history before the first write: it is empty in any past, and there may be nothing yet to prove
 * a past by. False: the request is for more, or memory is short; then a watch finds that it is empty. */
static bool answer_empty(struct backfill *backfill, struct request *request, int64_t oldest)
{
    struct segment_builder nothing;
    struct segment *segment;
    if (oldest > FIRST_REV + 1)
        return false;
    segment_begin(&nothing);
    if (segment_finish(&nothing, request->past, request->from, oldest - 1, &segment) != BELFRY_OK)
        return false;
    answer_with(backfill, request, segment);
    request->answer.local = true;
    segment_unref(segment);
    return true;
}

static size_t count_requests(const struct belfry_list *list, uint64_t client)
{
    size_t n = 0;
    belfry_list_each (node, list)
        n += belfry_container(node, struct request, node)->client == client;
    return n;
}

/* May the client have one more request? */
static bool has_room(const struct backfill *backfill, uint64_t client)
{
    size_t n_free = REQUESTS_MAX - backfill->n_requests;
    if (client == 0)
        return n_free > 0;
    return count_requests(&backfill->waiting, client) + count_requests(&backfill->answers, client) < n_free;
}

enum belfry_err backfill_request(struct backfill *backfill, const struct backfill_ask *ask, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(backfill);
    assert(ask->from < ask->oldest);
    bool over = !has_room(backfill, ask->client);
    if (over && !BELFRY_MUTANT(compacted_guessed))
        return BELFRY_ERR_LIMIT;
    struct request *request = calloc(1, sizeof(*request));
    if (request == NULL)
        return BELFRY_ERR_NOMEM;
    request->client = ask->client;
    request->past = ask->past;
    request->from = ask->from;
    request->oldest = ask->oldest + backfill_beyond(backfill, ask->oldest);
    request->answer.token = ask->token;
    belfry_list_append(&backfill->waiting, &request->node);
    backfill->n_requests++;
    if (over)
        backfill_give_answer(backfill, request, BELFRY_ERR_COMPACTED, ask->oldest);
    else if (ask->past < backfill->past)
        backfill_give_answer(backfill, request, BELFRY_ERR_CANCELED, 0);
    else if (!answer_empty(backfill, request, ask->oldest))
        backfill_dispatch(backfill, now_ms);
    return BELFRY_OK;
}

bool backfill_answer(struct backfill *backfill, struct backfill_answer *out)
{
    BELFRY_OWNER_CHECK(backfill);
    struct belfry_list *node = belfry_list_pop(&backfill->answers);
    if (node == NULL)
        return false;
    struct request *request = belfry_container(node, struct request, node);
    *out = request->answer;
    free(request);
    backfill->n_requests--;
    return true;
}

/* ---- the proof ---- */

void backfill_prove_by(struct backfill *backfill, struct ingest *ingest)
{
    BELFRY_OWNER_CHECK(backfill);
    backfill->ingest = ingest;
}

static bool is_provable(const struct job *job)
{
    return job->state == JOB_OPEN && job->created && !job->lost && !job->proven;
}

static bool is_any_doubted(const struct backfill *backfill)
{
    for (unsigned i = 0; i < JOBS; i++)
        if (backfill->jobs[i].doubted)
            return true;
    return false;
}

/* Does the held proof cover what the job reads next? */
static bool is_vouched_for(const struct backfill *backfill, const struct job *job)
{
    return backfill->probe.state == PROBE_HELD && job->next <= backfill->probe.head;
}

/* May its watch be opened? A doubted job waits for a proof that covers what it reads. */
static bool may_open(const struct backfill *backfill, const struct job *job)
{
    return !job->doubted || is_vouched_for(backfill, job);
}

/* Keeps a proof open while it covers a doubted job. Other doubted jobs need a newer proof. */
static bool is_hold_useful(const struct backfill *backfill)
{
    for (unsigned i = 0; i < JOBS; i++)
        if (backfill->jobs[i].doubted && is_vouched_for(backfill, &backfill->jobs[i]))
            return true;
    return false;
}

/* The watch of a doubted job was created while the proof was held, so it reads our past, up to the head that we had
 * when the proof was opened. The job ends there, even if more was requested. */
static void job_vouch(const struct backfill *backfill, struct job *job)
{
    job->doubted = false;
    job->proven = is_vouched_for(backfill, job);
    if (job->proven && job->end > backfill->probe.head)
        job->end = backfill->probe.head;
}

/* Requests the probe if it can prove something. */
static void want_proof(struct backfill *backfill, uint64_t at_ms)
{
    for (unsigned i = 0; i < JOBS && backfill->ingest != NULL; i++)
        if (is_provable(&backfill->jobs[i]) || backfill->jobs[i].doubted)
            probe_want(&backfill->probe, at_ms);
}

/* Drops everything that is not proven. */
static void drop_unproven(struct backfill *backfill, struct job *job)
{
    unsigned n = 0;
    while (n < job->n_ready && is_trusted(backfill, job->ready[n].proven))
        n++;
    if (is_trusted(backfill, job->proven))
        return;
    if (n < job->n_ready) {
        job->next = job->ready[n].segment->from;
        drop_ready(job, n, job->n_ready - n);
    }
    segment_abort(&job->builder);
    segment_begin(&job->builder);
    job->last = job->next - 1;
}

/* Drops what is not proven and reads it again. */
static void job_reopen(struct backfill *backfill, struct job *job)
{
    drop_unproven(backfill, job);
    job->close_owed = job->close_owed || job->state == JOB_OPEN;
    job->state = JOB_WANTED;
    job->created = job->lost = job->paused = job->told = job->refused = false;
}

/* Drops what is not proven; reads it again after a proof. */
static void job_doubt(struct backfill *backfill, struct job *job)
{
    job_reopen(backfill, job);
    job->probing = false;
    job->doubted = true;
}

/* Marks jobs that can no longer be proven as doubted. */
static void doubt_lost(struct backfill *backfill)
{
    for (unsigned i = 0; i < JOBS; i++) {
        struct job *job = &backfill->jobs[i];
        if (job->state == JOB_OPEN && job->lost && !job->probing && !is_trusted(backfill, job->proven))
            job_doubt(backfill, job);
    }
}

/* The probe proves nothing any more. */
static void end_probe(struct backfill *backfill, uint64_t again_ms)
{
    for (unsigned i = 0; i < JOBS; i++)
        backfill->jobs[i].probing = false;
    doubt_lost(backfill);
    probe_close(&backfill->probe);
    want_proof(backfill, again_ms);
}

void backfill_cut(struct backfill *backfill, uint64_t past, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(backfill);
    backfill->past = past;
    for (unsigned i = 0; i < JOBS; i++)
        if (backfill->jobs[i].past != past)
            close_job(&backfill->jobs[i]);
    belfry_list_each_safe (node, &backfill->waiting) {
        struct request *request = belfry_container(node, struct request, node);
        if (request->past != past)
            backfill_give_answer(backfill, request, BELFRY_ERR_CANCELED, 0);
    }
    end_probe(backfill, 0); /* what it compares with belongs to the previous past */
    backfill_dispatch(backfill, now_ms);
}

/* Upstream has our past, and had it when the watches of these jobs were created. */
static void prove_jobs(struct backfill *backfill)
{
    for (unsigned i = 0; i < JOBS; i++) {
        struct job *job = &backfill->jobs[i];
        if (!job->probing)
            continue;
        job->proven = true;
        for (unsigned k = 0; k < job->n_ready; k++)
            job->ready[k].proven = true;
    }
}

/* Upstream has another past, and what it gave may belong to that one. Requests keep waiting: a cut follows when the
 * live watch notices it, too. */
static void backfill_distrust(struct backfill *backfill, uint64_t now_ms)
{
    for (unsigned i = 0; i < JOBS; i++)
        close_job(&backfill->jobs[i]);
    backfill->open_at = now_ms + belfry_backoff_next(&backfill->backoff, &backfill->rng);
}

/* The watch of the probe gave a revision, or a progress when that is NULL. */
static void backfill_prove(struct backfill *backfill, int64_t rev, const struct ingest_revision *revision,
                           uint64_t now_ms)
{
    switch (probe_judge(&backfill->probe, backfill->ingest, rev, revision, now_ms)) {
    case PROBE_NOTHING:
        return;
    case PROBE_AGAIN:
        end_probe(backfill, now_ms + BACKOFF_FIRST_MS);
        return;
    case PROBE_REWRITTEN:
        backfill_distrust(backfill, now_ms);
        break;
    case PROBE_OURS:
        belfry_backoff_reset(&backfill->backoff);
        prove_jobs(backfill);
        if (is_any_doubted(backfill))
            backfill->probe.state = PROBE_HELD;
        break;
    }
    if (backfill->probe.state != PROBE_HELD)
        end_probe(backfill, now_ms);
    backfill_dispatch(backfill, now_ms);
}

static bool probe_wants(struct backfill *backfill, uint64_t now_ms, struct upstream_action *out)
{
    struct probe *probe = &backfill->probe;
    if (probe->state == PROBE_HELD && !is_hold_useful(backfill))
        end_probe(backfill, now_ms);
    *out = (struct upstream_action){.want = UPSTREAM_WANT_CLOSE, .slot = PROBE_SLOT};
    if (probe->close_owed) {
        probe->close_owed = false;
        return true;
    }
    if (probe->state != PROBE_WANTED || now_ms < probe->at)
        return false;
    if (ingest_overlap(backfill->ingest) == 0) {
        probe->at = now_ms + NOTHING_MS;
        return false;
    }
    bool useful = is_any_doubted(backfill);
    for (unsigned i = 0; i < JOBS; i++) {
        backfill->jobs[i].probing =
            is_provable(&backfill->jobs[i]) && backfill->jobs[i].end <= ingest_head(backfill->ingest);
        useful = useful || backfill->jobs[i].probing;
    }
    out->want = UPSTREAM_WANT_WATCH;
    if (useful)
        out->rev = probe_open(probe, backfill->ingest);
    else
        probe->state = PROBE_IDLE; /* the jobs that it was wanted for have ended */
    return useful;
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

static enum belfry_err job_add_revision(struct job *job, const struct ingest_revision *revision)
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

static bool job_refuse(struct job *job)
{
    job->paused = job->refused = true;
    return false;
}

bool backfill_on_revision(struct backfill *backfill, unsigned slot, const struct ingest_revision *revision,
                          uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(backfill);
    struct job *job = open_job_of(backfill, slot);
    if (slot == PROBE_SLOT)
        backfill_prove(backfill, revision->rev, revision, now_ms);
    if (job == NULL || revision->rev <= job->last)
        return true;
    job->progress_at = now_ms + UPSTREAM_PROGRESS_MS;
    if (is_complete(job))
        return true; /* it only waits for its proof */
    if (backfill->ingest == NULL)
        belfry_backoff_reset(&backfill->backoff);
    if (revision->rev > job->end) {
        job_reached(backfill, job, now_ms);
        backfill_dispatch(backfill, now_ms);
        return true;
    }
    if (is_full(backfill, job))
        return job_refuse(job); /* no request has taken the one before */
    if (job_add_revision(job, revision) != BELFRY_OK) {
        backfill->resume_at = now_ms + RESUME_MS;
        return job_refuse(job);
    }
    bool all =
        revision->rev == job->end || (BELFRY_MUTANT(backfill_by_header) && revision->header.revision >= job->end);
    if (all)
        job_reached(backfill, job, now_ms);
    if (all || is_full(backfill, job))
        backfill_dispatch(backfill, now_ms);
    return true;
}

void backfill_on_progress(struct backfill *backfill, unsigned slot, const struct belfry_wire_header *header,
                          uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(backfill);
    struct job *job = open_job_of(backfill, slot);
    if (slot == PROBE_SLOT)
        backfill_prove(backfill, header->revision, NULL, now_ms);
    if (job == NULL || !job->created || header->revision <= job->last)
        return;
    job->progress_at = now_ms + UPSTREAM_PROGRESS_MS;
    if (header->revision >= job->end)
        job_reached(backfill, job, now_ms);
    else
        job->last = header->revision;
    backfill_dispatch(backfill, now_ms);
}

/* A tier whose past was rewritten ends every watch of a stream like this. A paused watch has not received its end yet,
 * and a proof that is made now would be of the new past. */
static void reopen_unproven(struct backfill *backfill)
{
    for (unsigned i = 0; i < JOBS; i++)
        if (is_provable(&backfill->jobs[i]))
            job_reopen(backfill, &backfill->jobs[i]);
}

/* The watch was created again: what it gave before can no longer be proven, and what it gives from now on needs a new
 * proof. */
static void job_created_again(struct backfill *backfill, struct job *job)
{
    bool kept = is_trusted(backfill, job->proven);
    job->proven = job->probing = job->lost = false;
    if (!kept)
        job_reopen(backfill, job);
}

void backfill_on_created(struct backfill *backfill, unsigned slot, const struct belfry_wire_header *header,
                         uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(backfill);
    struct job *job = open_job_of(backfill, slot);
    if (slot == PROBE_SLOT && probe_watches(&backfill->probe)) {
        if (backfill->probe.created)
            end_probe(backfill, now_ms); /* it is on another stream than the watches that it was to prove */
        backfill->probe.created = true;
    }
    if (job == NULL)
        return;
    if (job->created)
        job_created_again(backfill, job);
    else
        job->created = true;
    if (job->doubted)
        job_vouch(backfill, job);
    want_proof(backfill, now_ms);
    job->progress_at = now_ms + UPSTREAM_PROGRESS_MS;
    if (BELFRY_MUTANT(backfill_by_created) && job->state == JOB_OPEN && header->revision >= job->end)
        job_reached(backfill, job, now_ms);
}

/* What the watch gave can still be proven by a probe that upstream had when it lost the watch, if it still has it. */
void backfill_on_lost(struct backfill *backfill, unsigned slot, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(backfill);
    struct job *job = open_job_of(backfill, slot);
    if (slot == PROBE_SLOT && probe_watches(&backfill->probe))
        end_probe(backfill, now_ms + BACKOFF_FIRST_MS);
    if (job == NULL)
        return;
    job->lost = true;
    job->probing = job->probing && backfill->probe.created;
    doubt_lost(backfill);
    want_proof(backfill, now_ms);
}

/* The compact revision that our watchers receive, at most our head + 1. Upstream may have compacted beyond our head,
 * but a restore can take back what is above our head without being another past for us. */
static int64_t compaction_told(const struct backfill *backfill, int64_t compact_rev)
{
    int64_t next = backfill->ingest == NULL ? INT64_MAX : ingest_head(backfill->ingest) + 1;
    return compact_rev < next ? compact_rev : next;
}

/* Upstream no longer has anything below compact_rev, if the job is proven. What came before is still good. */
static void job_compacted(struct backfill *backfill, struct job *job, int64_t compact_rev, uint64_t now_ms)
{
    if (!is_trusted(backfill, job->proven)) {
        job_doubt(backfill, job);
        want_proof(backfill, now_ms);
        return;
    }
    belfry_list_each_safe (node, &backfill->waiting) {
        struct request *request = belfry_container(node, struct request, node);
        if (request->past == job->past && request->from > job->last && request->from < compact_rev)
            backfill_give_answer(backfill, request, BELFRY_ERR_COMPACTED, compaction_told(backfill, compact_rev));
    }
    job->end = job->last;
    job_settle(backfill, job, now_ms);
}

void backfill_on_end(struct backfill *backfill, unsigned slot, enum belfry_err err, int64_t compact_rev,
                     uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(backfill);
    struct job *job = open_job_of(backfill, slot);
    uint64_t probe_at = now_ms + BACKOFF_FIRST_MS;
    if (slot == PROBE_SLOT && err == BELFRY_ERR_COMPACTED) {
        reopen_unproven(backfill);
        /* In a quiet scope the revision that proves may be compacted for hours. */
        probe_at = backfill->open_at = now_ms + belfry_backoff_next(&backfill->backoff, &backfill->rng);
    }
    if (slot == PROBE_SLOT && probe_watches(&backfill->probe)) {
        backfill->probe.state = PROBE_IDLE; /* the owner's watch is gone */
        end_probe(backfill, probe_at);
    }
    if (job == NULL)
        return;
    job->state = JOB_DONE; /* the owner's watch is gone: there is nothing to close */
    if (BELFRY_MUTANT(compacted_guessed)) {
        answer_all(backfill, job, BELFRY_ERR_COMPACTED, job->end + 1);
        close_job(job);
    } else if (err == BELFRY_ERR_COMPACTED) {
        job_compacted(backfill, job, compact_rev, now_ms);
    } else {
        give_up(backfill, job, now_ms);
    }
    backfill_dispatch(backfill, now_ms);
}

/* ---- what is wanted ---- */

static bool job_wants(const struct backfill *backfill, struct job *job, uint64_t now_ms, struct upstream_action *out)
{
    if (job->close_owed) {
        job->close_owed = false;
        out->want = UPSTREAM_WANT_CLOSE;
        return true;
    }
    if (job->state == JOB_WANTED && now_ms >= backfill->open_at && may_open(backfill, job)) {
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
    if (job->paused || !job->created || is_complete(job) || now_ms < job->progress_at)
        return false;
    job->progress_at = now_ms + UPSTREAM_PROGRESS_MS;
    out->want = UPSTREAM_WANT_PROGRESS;
    return true;
}

bool backfill_next(struct backfill *backfill, uint64_t now_ms, struct upstream_action *out)
{
    BELFRY_OWNER_CHECK(backfill);
    for (unsigned i = 0; i < JOBS; i++) {
        *out = (struct upstream_action){.slot = BACKFILL_SLOT + i};
        if (job_wants(backfill, &backfill->jobs[i], now_ms, out))
            return true;
    }
    return probe_wants(backfill, now_ms, out);
}

/* ---- time ---- */

void backfill_tick(struct backfill *backfill, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(backfill);
    for (unsigned i = 0; i < JOBS; i++) {
        struct job *job = &backfill->jobs[i];
        if (job->state != JOB_IDLE && now_ms >= job->asked_at + BACKFILL_IDLE_MS && !has_waiter(backfill, job))
            close_job(job);
    }
    backfill_dispatch(backfill, now_ms);
}

static uint64_t job_due(const struct backfill *backfill, const struct job *job, bool wanted)
{
    uint64_t due = wanted ? BELFRY_NEVER : job->asked_at + BACKFILL_IDLE_MS;
    if (job->state == JOB_WANTED && may_open(backfill, job))
        due = belfry_min_time(due, backfill->open_at);
    if (job->state == JOB_OPEN && job->created && !job->paused && !is_complete(job))
        due = belfry_min_time(due, job->progress_at);
    if (job->state == JOB_OPEN && job->refused && !is_full(backfill, job))
        due = belfry_min_time(due, backfill->resume_at);
    return due;
}

static bool is_unserved(const struct backfill *backfill, const struct request *request)
{
    for (unsigned i = 0; i < JOBS; i++)
        if (is_served(&backfill->jobs[i], request))
            return false;
    return true;
}

/* When a job yields to a request that none serves. */
static uint64_t next_yield(const struct backfill *backfill, const bool wanted[JOBS])
{
    uint64_t due = BELFRY_NEVER;
    belfry_list_each (node, &backfill->waiting) {
        const struct request *request = belfry_container(node, struct request, node);
        if (!is_unserved(backfill, request))
            continue;
        for (unsigned i = 0; i < JOBS; i++)
            due = belfry_min_time(due, job_yields_at(backfill, &backfill->jobs[i], wanted[i], request->client));
    }
    return due;
}

uint64_t backfill_due(const struct backfill *backfill)
{
    bool wanted[JOBS];
    uint64_t due = backfill->probe.state == PROBE_WANTED ? backfill->probe.at : BELFRY_NEVER;
    for (unsigned i = 0; i < JOBS; i++) {
        wanted[i] = has_waiter(backfill, &backfill->jobs[i]);
        if (backfill->jobs[i].state != JOB_IDLE)
            due = belfry_min_time(due, job_due(backfill, &backfill->jobs[i], wanted[i]));
    }
    return belfry_min_time(due, next_yield(backfill, wanted));
}
