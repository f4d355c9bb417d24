/* src/client/watch/mux_sim_test.c: a mux against the model of etcd's watch server, thousands of runs, one seed each.
 *
 * A run mixes writes, compactions, breaks, lagging members, restores from a backup and a user who adds, removes, pauses
 * and resumes; every action is compared with the history. Then the faults stop, and every watch must reach the end.
 * BELFRY_SIM_SEED=n runs one seed; BELFRY_SIM_RUNS=n that many from the first.
 */
#include "client/watch/mux.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/model.h"
#include "wire/write.h"

#define FIRST_SEED   20250117u
#define RUNS         2400
#define PLANTED_RUNS 120
#define WATCHES_MAX  10
#define REQUESTS_MAX 4096
#define REQUEST_MAX  64
#define HEAD_MAX     800
#define WHY_MAX      300

/* What the suite insists on having met. */
struct met {
    uint64_t events, progress, parts, parts_after_break, joined, cut_in_fragment, breaks, breaks_in_action, lag;
    uint64_t compacted, rewound, removed, removed_before_created, removed_in_action, unknown, stops, pauses;
    uint64_t server_cancels, timeouts, from_now, resumes, parked, stale, overtaken;
};

/* What the user knows of a watch, and where the history says it is. */
struct follower {
    struct belfry_mux_watch *watch; /* NULL: free slot */
    struct belfry_mux_spec spec;
    struct model_range range;
    int64_t pos;        /* the first revision not given; 0: not known yet */
    size_t part;        /* events of pos that were given already */
    bool broken;        /* a break came while part > 0 */
    bool begun;         /* something was given */
    bool created;       /* it was told that it has begun */
    int64_t added_head; /* when it was added */
    uint64_t added_at;  /* step */
};

struct request {
    size_t len;
    uint8_t bytes[REQUEST_MAX];
};

struct sim {
    struct belfry_rng rng;
    struct model *model;
    struct belfry_mux *mux;
    uint64_t now, step;
    struct follower followers[WATCHES_MAX];
    struct request requests[REQUESTS_MAX]; /* on their way to the server */
    size_t n_requests, first_request;
    bool quiet;         /* no more faults, and the user only listens */
    bool old_servers;   /* some are, and let progress overtake events */
    bool untrusted;     /* the server of this stream may be one */
    bool last_fragment; /* the last message was a piece with more to follow */
    int n_server_cancels;
    size_t max_message;
    struct {
        bool busy;
        uint64_t generation, begun_at;
        int64_t rev;
    } read; /* of the store's revision */
    struct {
        bool busy;
        int64_t seen;
    } judge;
    struct met *met;
    char why[WHY_MAX]; /* the first thing found wrong */
};

__attribute__((format(printf, 2, 3))) static void wrong(struct sim *sim, const char *format, ...)
{
    if (sim->why[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(sim->why, sizeof(sim->why), format, args);
    va_end(args);
}

static bool chance(struct sim *sim, unsigned of)
{
    return belfry_rng_below(&sim->rng, of) == 0;
}

static int64_t between(struct sim *sim, int64_t low, int64_t high)
{
    return low + (int64_t)belfry_rng_below(&sim->rng, (uint64_t)(high - low + 1));
}

static struct follower *any_follower(struct sim *sim)
{
    size_t at = belfry_rng_below(&sim->rng, WATCHES_MAX);
    for (size_t i = 0; i < WATCHES_MAX; i++) {
        struct follower *f = &sim->followers[(at + i) % WATCHES_MAX];
        if (f->watch != NULL)
            return f;
    }
    return NULL;
}

/* ---- the checker ---- */

static bool same_kv(const struct belfry_wire_kv *a, const struct belfry_wire_kv *b)
{
    return belfry_bytes_equal(a->key, b->key) && belfry_bytes_equal(a->value, b->value) &&
           a->create_rev == b->create_rev && a->mod_rev == b->mod_rev && a->version == b->version &&
           a->lease == b->lease;
}

static void check_event(struct sim *sim, const struct follower *f, const struct belfry_wire_event *got,
                        const struct model_event *want)
{
    char value[MODEL_VALUE_MAX];
    struct belfry_wire_kv kv = model_kv(want, value);
    const struct model_event *prev = model_prev(sim->model, want);
    if (got->is_delete != want->is_delete || !same_kv(&got->kv, &kv))
        wrong(sim, "event of revision %lld is not the one written", (long long)want->rev);
    if (got->has_prev) {
        struct belfry_wire_kv prev_kv = {0};
        if (prev != NULL)
            prev_kv = model_kv(prev, value);
        if (!f->spec.prev_kv || prev == NULL || !same_kv(&got->prev, &prev_kv))
            wrong(sim, "prev_kv of revision %lld is wrong", (long long)want->rev);
    } else if (f->spec.prev_kv && prev != NULL && want->rev > model_compacted(sim->model)) {
        wrong(sim, "prev_kv of revision %lld is missing", (long long)want->rev);
    }
}

/* Filter, Ordered, Unique, Atomic, Resumable, Reliable, IsCreate and PrevKV in one: what comes is what was written. */
static void check_events(struct sim *sim, struct follower *f, const struct belfry_inbox_group *group)
{
    const struct model_event *want[MODEL_KEYS];
    size_t n_want = model_matching(sim->model, &f->range, group->rev, want), at = f->part;
    if (f->pos == 0 || group->rev < f->pos || (f->part > 0 && group->rev != f->pos))
        wrong(sim, "revision %lld given, %lld wanted", (long long)group->rev, (long long)f->pos);
    else if (model_any(sim->model, &f->range, f->pos, group->rev - 1))
        wrong(sim, "events lost between %lld and %lld", (long long)f->pos, (long long)group->rev);
    struct belfry_inbox_walk walk;
    struct belfry_wire_event event;
    enum belfry_err err;
    belfry_inbox_walk(group, &walk);
    for (; (err = belfry_inbox_walk_next(&walk, &event)) == BELFRY_OK; at++) {
        if (at < n_want)
            check_event(sim, f, &event, want[at]);
    }
    if (err != BELFRY_ERR_AGAIN || at - f->part != group->n_events || group->n_events == 0)
        wrong(sim, "a group of %zu events holds %zu", group->n_events, at - f->part);
    if (group->part ? at >= n_want || !f->spec.unmerged : at != n_want)
        wrong(sim, "%zu of %zu events of revision %lld given%s", at, n_want, (long long)group->rev,
              group->part ? " as a part" : "");
    sim->met->events++;
    sim->met->joined += group->first != group->end && group->to > 0;
    sim->met->parts += group->part;
    sim->met->parts_after_break += f->broken && f->part > 0;
    f->pos = group->part ? group->rev : group->rev + 1;
    f->part = group->part ? at : 0;
    f->broken = f->broken && group->part;
}

/* Bookmarkable. */
static void check_progress(struct sim *sim, struct follower *f, int64_t rev)
{
    if (f->pos == 0 || rev < f->pos - 1 || f->part > 0 || rev > model_head(sim->model))
        wrong(sim, "progress %lld given at %lld", (long long)rev, (long long)f->pos);
    else if (model_any(sim->model, &f->range, f->pos, rev))
        wrong(sim, "progress %lld passes over events after %lld", (long long)rev, (long long)f->pos);
    sim->met->progress++;
    f->pos = rev + 1;
}

static void check_end(struct sim *sim, const struct follower *f, const struct belfry_mux_action *action)
{
    int64_t seen;
    belfry_mux_suspects(sim->mux, &seen);
    if (action->err == BELFRY_ERR_COMPACTED) {
        if (action->rev > model_compacted(sim->model) || action->rev <= f->pos)
            wrong(sim, "compacted at %lld, watch at %lld", (long long)action->rev, (long long)f->pos);
        sim->met->compacted++;
    } else if (action->err == BELFRY_ERR_REWOUND && !sim->judge.busy && sim->judge.seen > model_head(sim->model)) {
        sim->met->rewound++;
    } else {
        wrong(sim, "a watch ended: %s", belfry_errname(action->err));
    }
}

/* ---- the user ---- */

static void choose_range(struct sim *sim, struct model_range *range)
{
    int from = (int)belfry_rng_below(&sim->rng, MODEL_KEYS), to = from + 1 + (int)belfry_rng_below(&sim->rng, 4);
    *range = (struct model_range){.key = {'k', (char)('0' + from)}, .key_len = 2};
    switch (belfry_rng_below(&sim->rng, 5)) {
    case 0: /* one key */
        break;
    case 1: /* from a key on */
        range->end_len = 1;
        break;
    case 2: /* everything */
        range->key[0] = '\0';
        range->key_len = range->end_len = 1;
        break;
    default:
        memcpy(range->end, (char[]){'k', (char)('0' + to)}, 2);
        range->end_len = 2;
    }
    range->no_put = chance(sim, 12);
    range->no_delete = !range->no_put && chance(sim, 8);
}

static void add_follower(struct sim *sim)
{
    struct follower *f = sim->followers;
    while (f < sim->followers + WATCHES_MAX && f->watch != NULL)
        f++;
    if (f == sim->followers + WATCHES_MAX)
        return;
    *f = (struct follower){.added_head = model_head(sim->model), .added_at = sim->step};
    choose_range(sim, &f->range);
    int64_t head = model_head(sim->model), low = head > 40 ? head - 40 : 1;
    f->spec = (struct belfry_mux_spec){
        .key = belfry_bytes_of(f->range.key, f->range.key_len),
        .range_end = belfry_bytes_of(f->range.end, f->range.end_len),
        .rev = chance(sim, 4)   ? 0
               : chance(sim, 6) ? head + 1 + between(sim, 0, 4)
                                : between(sim, low, head),
        .prev_kv = chance(sim, 3),
        .progress_notify = chance(sim, 2),
        .created_notify = chance(sim, 2),
        .lost_notify = true,
        .no_put = f->range.no_put,
        .no_delete = f->range.no_delete,
        .fragment = !chance(sim, 4),
        .unmerged = chance(sim, 4),
        .pause_bytes = (size_t)between(sim, 0, 600),
    };
    f->pos = f->spec.rev;
    assert_int_equal(belfry_mux_add(sim->mux, &f->spec, f, &f->watch), BELFRY_OK);
}

static void break_stream(struct sim *sim)
{
    if (!model_is_open(sim->model))
        return;
    model_close(sim->model);
    belfry_mux_stream_down(sim->mux);
    sim->n_requests = sim->first_request = 0;
    sim->met->breaks++;
    sim->met->cut_in_fragment += sim->last_fragment;
    sim->last_fragment = false;
    for (size_t i = 0; i < WATCHES_MAX; i++)
        sim->followers[i].broken = sim->followers[i].part > 0;
}

static void remove_follower(struct sim *sim, struct follower *f)
{
    if (f == NULL || f->watch == NULL)
        return;
    sim->met->removed++;
    sim->met->removed_before_created += !f->begun && model_is_open(sim->model) && sim->n_requests > 0;
    belfry_mux_remove(sim->mux, f->watch);
    f->watch = NULL;
}

static void toggle_pause(struct sim *sim, struct follower *f)
{
    if (f == NULL)
        return;
    if (belfry_mux_paused(f->watch)) {
        belfry_mux_resume(sim->mux, f->watch);
    } else {
        belfry_mux_pause(sim->mux, f->watch);
        sim->met->pauses++;
    }
}

/* Things a callback may do. */
static enum belfry_mux_verdict meddle(struct sim *sim, struct follower *f)
{
    switch (belfry_rng_below(&sim->rng, 60)) {
    case 0:
        remove_follower(sim, f);
        sim->met->removed_in_action++;
        break;
    case 1: {
        struct follower *other = any_follower(sim);
        if (other != f)
            remove_follower(sim, other);
        break;
    }
    case 2:
        add_follower(sim);
        break;
    case 3:
        if (chance(sim, 4)) {
            break_stream(sim);
            sim->met->breaks_in_action++;
        }
        break;
    case 4:
        toggle_pause(sim, any_follower(sim));
        break;
    case 5:
        belfry_mux_request_progress(sim->mux, sim->now);
        break;
    case 6:
        sim->met->stops++;
        f->watch = NULL;
        return BELFRY_MUX_STOP;
    case 7:
    case 8:
    case 9:
        sim->met->pauses++;
        return BELFRY_MUX_PAUSE;
    }
    return BELFRY_MUX_MORE;
}

static void take_actions(struct sim *sim)
{
    struct belfry_mux_action action;
    enum belfry_err err;
    while ((err = belfry_mux_next(sim->mux, &action)) == BELFRY_OK) {
        struct follower *f = belfry_mux_user(action.watch);
        enum belfry_mux_verdict verdict = BELFRY_MUX_MORE;
        if (f->watch != action.watch)
            wrong(sim, "an action of a watch that is gone");
        f->begun = true;
        if (f->spec.created_notify && !f->created && action.act != BELFRY_MUX_CREATED &&
            action.act != BELFRY_MUX_LOST && action.act != BELFRY_MUX_END)
            wrong(sim, "something came before created");
        switch (action.act) {
        case BELFRY_MUX_EVENTS:
            check_events(sim, f, &action.group);
            break;
        case BELFRY_MUX_PROGRESS:
            check_progress(sim, f, action.rev);
            break;
        case BELFRY_MUX_CREATED: /* before anything else, with its place */
            if (!f->spec.created_notify || f->created || action.rev != belfry_mux_next_rev(f->watch) - 1)
                wrong(sim, "created at %lld", (long long)action.rev);
            f->created = true;
            break;
        case BELFRY_MUX_LOST: /* changes nothing of what comes */
            break;
        case BELFRY_MUX_END:
            check_end(sim, f, &action);
            f->watch = NULL;
            break;
        }
        if (f->watch != NULL && !sim->quiet && action.act != BELFRY_MUX_LOST)
            verdict = meddle(sim, f);
        belfry_mux_taken(sim->mux, verdict);
        if (f->watch != NULL && belfry_mux_next_rev(f->watch) != f->pos)
            wrong(sim, "next_rev is %lld, should be %lld", (long long)belfry_mux_next_rev(f->watch), (long long)f->pos);
    }
    if (err != BELFRY_ERR_AGAIN)
        wrong(sim, "next: %s", belfry_errname(err));
}

/* ---- the way between ---- */

/* Paused watches hold their bound and one response; others the pieces of one revision, each a message at most. */
static void check_memory(struct sim *sim)
{
    size_t bound = 0;
    for (size_t i = 0; i < WATCHES_MAX; i++) {
        const struct follower *f = &sim->followers[i];
        if (f->watch != NULL)
            bound += f->spec.pause_bytes + (MODEL_KEYS + 1) * sim->max_message;
    }
    if (belfry_mux_held_bytes(sim->mux) > bound)
        wrong(sim, "%zu bytes held", belfry_mux_held_bytes(sim->mux));
}

static bool deliver(struct sim *sim)
{
    struct belfry_blob *message = model_receive(sim->model);
    if (message == NULL)
        return false;
    struct belfry_wire_watch head;
    assert_int_equal(belfry_scan_watch(belfry_blob_bytes(message), &head), BELFRY_OK);
    sim->last_fragment = head.fragment;
    if (belfry_blob_len(message) > sim->max_message)
        sim->max_message = belfry_blob_len(message);
    enum belfry_err err = belfry_mux_message(sim->mux, message, sim->now);
    belfry_blob_unref(message);
    if (err != BELFRY_OK)
        wrong(sim, "message: %s", belfry_errname(err));
    take_actions(sim);
    check_memory(sim);
    return true;
}

static bool pull(struct sim *sim)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    enum belfry_err err = belfry_mux_pull(sim->mux, sim->now, &buf);
    if (err == BELFRY_OK) {
        size_t at = (sim->first_request + sim->n_requests++) % REQUESTS_MAX;
        struct belfry_bytes bytes = belfry_buf_bytes(&buf);
        assert_true(bytes.len <= REQUEST_MAX && sim->n_requests <= REQUESTS_MAX);
        memcpy(sim->requests[at].bytes, bytes.data, bytes.len);
        sim->requests[at].len = bytes.len;
    }
    belfry_buf_fini(&buf);
    return err == BELFRY_OK;
}

static bool serve(struct sim *sim)
{
    if (sim->n_requests == 0)
        return false;
    struct request *request = &sim->requests[sim->first_request];
    sim->first_request = (sim->first_request + 1) % REQUESTS_MAX;
    sim->n_requests--;
    model_request(sim->model, belfry_bytes_of(request->bytes, request->len));
    return true;
}

/* As etcd before 3.4.25: the newest revision as progress, whatever is still on its way. Or the server is found out to
 * be a good one, and from now on it is. */
static void overtake(struct sim *sim)
{
    struct belfry_wire_watch head = {.header = {.cluster_id = 1, .revision = model_head(sim->model)}, .watch_id = -1};
    uint8_t bytes[REQUEST_MAX];
    if (chance(sim, 8)) {
        belfry_mux_trust_progress(sim->mux, true);
        sim->untrusted = false;
        return;
    }
    assert_true(belfry_write_watch_head_size(&head) <= sizeof(bytes));
    size_t len = (size_t)(belfry_write_watch_head(&head, bytes) - bytes);
    struct belfry_blob *message;
    assert_int_equal(belfry_blob_copy(belfry_bytes_of(bytes, len), &message), BELFRY_OK);
    assert_int_equal(belfry_mux_message(sim->mux, message, sim->now), BELFRY_OK);
    belfry_blob_unref(message);
    sim->met->overtaken++;
    take_actions(sim);
}

static void connect_stream(struct sim *sim)
{
    if (model_is_open(sim->model) || !belfry_mux_wants_stream(sim->mux))
        return;
    struct model_stream_opts opts = {
        .lag = sim->quiet || chance(sim, 2) ? 0 : between(sim, 0, 12),
        .fragment_bytes = (size_t)between(sim, 40, 400),
        .replay_revs = (int)between(sim, 1, 20),
        .queue_max = (size_t)between(sim, 2, 16),
        .repeats = chance(sim, 10) ? between(sim, 1, 3) : 0,
    };
    model_open(sim->model, &opts);
    sim->untrusted = sim->old_servers && !sim->quiet && chance(sim, 4);
    belfry_mux_trust_progress(sim->mux, !sim->untrusted);
    belfry_mux_stream_up(sim->mux, sim->now);
}

/* ---- reads of the store's revision ---- */

static void begin_read(struct sim *sim)
{
    struct belfry_mux_read read;
    if (sim->read.busy || !belfry_mux_wants_revision(sim->mux, &read))
        return;
    sim->read.generation = read.generation;
    sim->read.busy = true;
    sim->read.begun_at = sim->step;
    sim->read.rev = model_head(sim->model);
}

static void finish_read(struct sim *sim)
{
    if (!sim->read.busy)
        return;
    sim->read.busy = false;
    belfry_mux_revision(sim->mux, sim->read.generation, between(sim, sim->read.rev, model_head(sim->model)));
    for (size_t i = 0; i < WATCHES_MAX; i++) {
        struct follower *f = &sim->followers[i];
        if (f->watch == NULL || f->pos != 0 || belfry_mux_next_rev(f->watch) == 0)
            continue;
        f->pos = belfry_mux_next_rev(f->watch);
        sim->met->from_now++;
        if (f->pos <= f->added_head || f->added_at > sim->read.begun_at)
            wrong(sim, "a watch from now on, added at %lld, starts at %lld", (long long)f->added_head,
                  (long long)f->pos);
    }
}

static void do_judge(struct sim *sim)
{
    if (sim->judge.busy) {
        sim->judge.busy = false;
        belfry_mux_judge(sim->mux, sim->judge.seen, model_head(sim->model));
        take_actions(sim);
    } else if (belfry_mux_suspects(sim->mux, &sim->judge.seen)) {
        sim->judge.busy = true;
        sim->met->lag++;
    }
}

/* ---- the run ---- */

/* Everything that is under way arrives. */
static void settle(struct sim *sim)
{
    /* a replay pass passes over a watcher now and then, so one idle round says little */
    for (int idle = 0; idle < 25 && sim->why[0] == '\0'; idle++) {
        connect_stream(sim);
        begin_read(sim);
        finish_read(sim);
        do_judge(sim);
        bool busy = pull(sim) || serve(sim);
        model_advance(sim->model);
        model_replay(sim->model);
        busy = model_send(sim->model) || busy;
        busy = deliver(sim) || busy;
        if (busy)
            idle = 0;
    }
}

static void resume_all(struct sim *sim)
{
    for (size_t i = 0; i < WATCHES_MAX; i++) {
        if (sim->followers[i].watch != NULL)
            belfry_mux_resume(sim->mux, sim->followers[i].watch);
    }
    take_actions(sim);
}

/* The cluster comes back from a backup: whoever was given something must hear of it. */
static void rewind_cluster(struct sim *sim)
{
    int64_t seen, low = model_compacted(sim->model) < MODEL_FIRST_REV ? MODEL_FIRST_REV : model_compacted(sim->model);
    sim->quiet = true;
    resume_all(sim);
    belfry_mux_suspects(sim->mux, &seen);
    if (seen - 1 <= low || sim->why[0] != '\0')
        return;
    break_stream(sim);
    take_actions(sim);
    model_rewind(sim->model, between(sim, low, seen - 1));
    sim->read.busy = sim->judge.busy = false;
    for (size_t i = 0; i < WATCHES_MAX; i++)
        sim->followers[i].added_head = 0;
    add_follower(sim); /* so that somebody meets the new revision */
    settle(sim);
    for (size_t i = 0; i < WATCHES_MAX; i++) {
        struct follower *f = &sim->followers[i];
        if (f->watch != NULL && f->begun && sim->judge.seen > model_head(sim->model))
            wrong(sim, "a watch at %lld did not notice the restore", (long long)f->pos);
    }
    sim->quiet = false;
}

static void tick(struct sim *sim)
{
    sim->now += chance(sim, 20) ? BELFRY_MUX_CREATE_TIMEOUT_MS : belfry_rng_below(&sim->rng, 4000);
    if (belfry_mux_tick(sim->mux, sim->now) != BELFRY_OK) {
        sim->met->timeouts++;
        break_stream(sim);
    }
}

static void deliver_some(struct sim *sim)
{
    for (int64_t n = between(sim, 1, 6); n > 0 && deliver(sim); n--) {
        if (sim->last_fragment && chance(sim, 12)) { /* rare by itself, and worth more */
            break_stream(sim);
            take_actions(sim);
        }
    }
}

static void one_step(struct sim *sim)
{
    bool open = model_is_open(sim->model);
    uint64_t dice = belfry_rng_below(&sim->rng, 100);
    if (dice < 14) {
        if (model_head(sim->model) < HEAD_MAX)
            model_write(sim->model);
    } else if (dice < 15) {
        if (chance(sim, 5))
            model_compact(sim->model, between(sim, 1, model_head(sim->model)));
    } else if (dice < 16) {
        break_stream(sim);
        take_actions(sim);
    } else if (dice < 20) {
        connect_stream(sim);
    } else if (dice < 24) {
        add_follower(sim);
    } else if (dice < 25) {
        remove_follower(sim, any_follower(sim));
    } else if (dice < 30) {
        toggle_pause(sim, any_follower(sim));
        take_actions(sim);
    } else if (dice < 32) {
        belfry_mux_request_progress(sim->mux, sim->now);
    } else if (dice < 34) {
        tick(sim);
    } else if (dice < 36) {
        begin_read(sim);
    } else if (dice < 38) {
        finish_read(sim);
    } else if (dice < 40) {
        do_judge(sim);
    } else if (!open) {
        connect_stream(sim);
    } else if (dice < 41 && sim->untrusted) {
        overtake(sim);
    } else if (dice < 50) {
        pull(sim);
    } else if (dice < 60) {
        serve(sim);
    } else if (dice < 68) {
        model_advance(sim->model);
    } else if (dice < 74) {
        model_replay(sim->model);
    } else if (dice < 75) {
        model_tick(sim->model);
    } else if (dice < 76) {
        if (chance(sim, 6)) {
            model_inject_unknown(sim->model);
            sim->met->unknown++;
        } else if (sim->n_server_cancels < BELFRY_MUX_RECREATES && model_inject_cancel(sim->model)) {
            sim->n_server_cancels++;
            sim->met->server_cancels++;
        }
    } else if (dice < 90) {
        model_send(sim->model);
    } else {
        deliver_some(sim);
    }
    sim->step++;
}

static bool all_at_the_end(const struct sim *sim)
{
    for (size_t i = 0; i < WATCHES_MAX; i++) {
        const struct follower *f = &sim->followers[i];
        if (f->watch != NULL && f->pos != model_head(sim->model) + 1)
            return false;
    }
    return true;
}

/* Liveness: without faults everybody arrives, the quiet watches by progress. */
static void finish(struct sim *sim)
{
    sim->quiet = true;
    sim->untrusted = false;
    belfry_mux_trust_progress(sim->mux, true);
    bool arrived = false;
    for (size_t i = 0; i < WATCHES_MAX; i++) { /* a watch that starts in the future has to be met */
        while (sim->followers[i].watch != NULL && model_head(sim->model) < sim->followers[i].spec.rev)
            model_write_all(sim->model);
    }
    for (int round = 0; round < 12 && !arrived && sim->why[0] == '\0'; round++) {
        model_write_all(sim->model);
        resume_all(sim);
        settle(sim);
        sim->now += BELFRY_MUX_PROGRESS_MS;
        if (belfry_mux_tick(sim->mux, sim->now) != BELFRY_OK)
            wrong(sim, "a create was not answered");
        belfry_mux_request_progress(sim->mux, sim->now);
        settle(sim);
        arrived = all_at_the_end(sim);
    }
    if (!arrived)
        wrong(sim, "a watch did not reach revision %lld", (long long)model_head(sim->model));
    for (size_t i = 0; i < WATCHES_MAX; i++)
        remove_follower(sim, &sim->followers[i]);
    if (belfry_mux_held_bytes(sim->mux) != 0 || belfry_mux_count(sim->mux) != 0)
        wrong(sim, "something is left");
}

static void add_counts(struct model_counts *to, const struct model_counts *from)
{
    for (size_t i = 0; i < sizeof(*to) / sizeof(uint64_t); i++)
        ((uint64_t *)to)[i] += ((const uint64_t *)from)[i];
}

/* One run; false, with the reason in `why`, if something was found wrong. */
static bool run(uint64_t seed, enum model_plant plant, struct met *met, struct model_counts *counts, char *why)
{
    struct sim *sim = calloc(1, sizeof(*sim));
    assert_non_null(sim);
    sim->rng.state = seed;
    sim->old_servers = plant == MODEL_PLANT_NONE; /* without progress the checker finds less of what is planted */
    sim->met = met;
    sim->now = 1;
    sim->model = model_create(&sim->rng);
    struct belfry_mux_opts opts = {.max_revision_bytes = 1u << 20};
    assert_int_equal(belfry_mux_create(&opts, &sim->mux), BELFRY_OK);
    model_write(sim->model);

    int64_t steps = between(sim, 100, 500), rewind_at = chance(sim, 8) ? between(sim, 50, steps) : -1;
    int64_t plant_at = plant == MODEL_PLANT_NONE ? -1 : steps / 3;
    for (int64_t i = 0; i < steps && sim->why[0] == '\0'; i++) {
        if (i == rewind_at)
            rewind_cluster(sim);
        if (i == plant_at)
            model_plant(sim->model, plant);
        one_step(sim);
    }
    if (sim->why[0] == '\0')
        finish(sim);
    struct belfry_mux_stats stats = belfry_mux_stats(sim->mux);
    met->resumes += stats.resumes;
    met->parked += stats.parked;
    met->stale += stats.stale_events;
    add_counts(counts, model_counts(sim->model));
    belfry_mux_destroy(sim->mux);
    model_destroy(sim->model);
    memcpy(why, sim->why, WHY_MAX);
    free(sim);
    return why[0] == '\0';
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void print_met(const struct met *met, const struct model_counts *c)
{
    const uint64_t *n = (const uint64_t *)met;
    print_message("met:");
    for (size_t i = 0; i < sizeof(*met) / sizeof(uint64_t); i++)
        print_message(" %llu", (unsigned long long)n[i]);
    n = (const uint64_t *)c;
    print_message("\nmodel:");
    for (size_t i = 0; i < sizeof(*c) / sizeof(uint64_t); i++)
        print_message(" %llu", (unsigned long long)n[i]);
    print_message("\n");
}

static void every_watch_gets_what_was_written(void **state)
{
    (void)state;
    struct met met = {0};
    struct model_counts counts = {0};
    char why[WHY_MAX];
    uint64_t first = number_from("BELFRY_SIM_SEED", FIRST_SEED);
    uint64_t runs = number_from("BELFRY_SIM_RUNS", getenv("BELFRY_SIM_SEED") != NULL ? 1 : RUNS);
    for (uint64_t seed = first; seed < first + runs; seed++) {
        if (!run(seed, MODEL_PLANT_NONE, &met, &counts, why))
            fail_msg("BELFRY_SIM_SEED=%llu: %s", (unsigned long long)seed, why);
    }
    print_met(&met, &counts);
    if (runs < RUNS)
        return;
    /* What never happened was not tested. */
    const uint64_t *n = (const uint64_t *)&met;
    for (size_t i = 0; i < sizeof(met) / sizeof(uint64_t); i++) {
        if (n[i] == 0)
            fail_msg("number %zu of struct met stayed 0", i);
    }
    n = (const uint64_t *)&counts;
    for (size_t i = 0; i < offsetof(struct model_counts, planted) / sizeof(uint64_t); i++) {
        if (n[i] == 0)
            fail_msg("number %zu of struct model_counts stayed 0", i);
    }
}

/* A checker that finds nothing proves nothing: with one event dropped or doubled, or one progress too high, on the way,
 * most runs must be found wrong (not all: the message may be lost, or its watch be gone). */
static void assert_planted_errors_are_found(enum model_plant plant, double share)
{
    struct met met = {0};
    char why[WHY_MAX];
    unsigned planted = 0, found = 0;
    for (uint64_t seed = 0; seed < PLANTED_RUNS; seed++) {
        struct model_counts counts = {0};
        bool right = run(seed, plant, &met, &counts, why);
        planted += counts.planted > 0;
        found += counts.planted > 0 && !right;
        assert_true(right || counts.planted > 0);
    }
    print_message("planted in %u runs, found in %u\n", planted, found);
    assert_true(planted > PLANTED_RUNS / 2);
    assert_true(found > planted * share);
}

static void event_dropped_on_the_way_is_found(void **state)
{
    (void)state;
    assert_planted_errors_are_found(MODEL_PLANT_DROP, 0.5);
}

static void event_doubled_on_the_way_is_found(void **state)
{
    (void)state;
    assert_planted_errors_are_found(MODEL_PLANT_DOUBLE, 0.5);
}

static void progress_above_the_truth_is_found(void **state)
{
    (void)state;
    assert_planted_errors_are_found(MODEL_PLANT_PROGRESS, 0.3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_watch_gets_what_was_written),
        cmocka_unit_test(event_dropped_on_the_way_is_found),
        cmocka_unit_test(event_doubled_on_the_way_is_found),
        cmocka_unit_test(progress_above_the_truth_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
