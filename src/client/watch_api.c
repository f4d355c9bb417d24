/* src/client/watch_api.c: the public watch and follow, on the mux and the follow machine. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "client/callback_batch.h"
#include "client/etcd_request.h"
#include "client/follow.h"
#include "client/opts.h"
#include "client/range_bytes.h"
#include "client/session.h"

#define PAGE_RETRY_MS 200 /* before a page that failed temporarily is requested again */

struct belfry_watch {
    struct belfry_list node; /* in belfry.watches */
    struct belfry_list busy; /* in belfry.follows: a follow that is not live */
    struct belfry *b;
    belfry_batch_fn fn;
    void *user;
    struct belfry_wire_range *range; /* owned */
    struct belfry_mux_watch *mux;    /* NULL: a follow before its first page, or ended */
    bool paused, closed;
    unsigned calling; /* callbacks on the stack; freed when the last has returned */
    /* a follow */
    struct belfry_follow *follow; /* owned; NULL: a watch */
    struct belfry_call *page;     /* in progress */
    uint64_t page_ms;             /* when to request the next one */
    bool page_late;               /* the delay was reported to the caller */
    bool once, prev_kv;
    size_t pause_bytes;
};

static struct belfry_watch *of_busy(struct belfry_list *node)
{
    return belfry_container(node, struct belfry_watch, busy);
}

/* ---- ending ---- */

/* Removes everything that could still call back. */
static void unhook(struct belfry_watch *w)
{
    if (w->mux != NULL)
        belfry_mux_remove(belfry_stream_mux(w->b->stream), w->mux);
    if (w->page != NULL)
        belfry_calls_cancel(w->page);
    w->mux = NULL;
    w->page = NULL;
    w->closed = true;
    belfry_list_remove(&w->node);
    belfry_list_remove(&w->busy);
}

static void free_watch(struct belfry_watch *w)
{
    belfry_follow_destroy(w->follow);
    free(w->range);
    free(w);
}

/* Frees a closed watch when no callback of it is on the stack. */
static void settle(struct belfry_watch *w)
{
    if (w->closed && w->calling == 0)
        free_watch(w);
}

/* Calls back. The watch may be closed afterwards: check w->closed, and settle() when done with it. */
static enum belfry_next call_back(struct belfry_watch *w, struct belfry_batch_view *view)
{
    w->b->stats.events += view->batch.n_events;
    w->calling++;
    enum belfry_next next = w->fn(w, &view->batch, w->user);
    w->calling--;
    if (w->closed)
        return BELFRY_STOP;
    if (next == BELFRY_PAUSE)
        w->paused = true;
    else if (next == BELFRY_STOP)
        unhook(w);
    return next;
}

/* Reports END; the watch is closed after it. */
static void end_with(struct belfry_watch *w, const struct belfry_mux_action *action)
{
    struct belfry_batch_view view = {.batch = {.kind = BELFRY_END, .err = action->err, .why = action->why, .last = 1}};
    view.batch.compact_rev = action->err == BELFRY_ERR_COMPACTED ? action->rev : 0;
    belfry_batch_header(&action->header, &view.batch.header);
    if (w->follow != NULL && belfry_follow_live(w->follow))
        view.batch.rev = belfry_follow_rev(w->follow);
    else if (w->mux != NULL && belfry_mux_next_rev(w->mux) > 0)
        view.batch.rev = belfry_mux_next_rev(w->mux) - 1;
    w->calling++;
    w->fn(w, &view.batch, w->user);
    w->calling--;
    if (!w->closed)
        unhook(w);
}

static void end(struct belfry_watch *w, enum belfry_err err, const char *why)
{
    struct belfry_mux_action action = {.act = BELFRY_MUX_END, .err = err, .why = why};
    end_with(w, &action);
}

/* ---- a watch ---- */

static void fill(struct belfry_batch_view *view, const struct belfry_mux_action *action)
{
    *view = (struct belfry_batch_view){.batch = {.rev = action->rev, .last = 1}};
    belfry_batch_header(&action->header, &view->batch.header);
    if (action->act != BELFRY_MUX_EVENTS) {
        view->batch.kind = action->act == BELFRY_MUX_CREATED ? BELFRY_CREATED : BELFRY_PROGRESS;
        return;
    }
    view->batch.kind = BELFRY_CHANGES;
    view->batch.n_events = action->group.n_events;
    view->batch.part = action->group.part;
    view->batch.last = action->group.last;
    view->source = BELFRY_FROM_GROUP;
    view->group = action->group;
}

static enum belfry_mux_verdict verdict_of(const struct belfry_watch *w)
{
    return w->paused && !w->closed ? BELFRY_MUX_PAUSE : BELFRY_MUX_MORE;
}

static enum belfry_mux_verdict deliver_watch(struct belfry_watch *w, const struct belfry_mux_action *action)
{
    if (action->act == BELFRY_MUX_END) {
        end_with(w, action);
        return BELFRY_MUX_MORE;
    }
    struct belfry_batch_view view;
    fill(&view, action);
    call_back(w, &view);
    return verdict_of(w);
}

/* ---- follow ---- */

/* Reports vanished keys, then that the state is complete. */
static void sweep(struct belfry_watch *w)
{
    while (!w->closed && !w->paused && belfry_follow_sweeping(w->follow)) {
        struct belfry_batch_view view = {.batch = {.last = 1}, .source = BELFRY_FROM_KEYS};
        if (belfry_follow_sweep(w->follow, &view.keys, &view.n_keys) != BELFRY_OK)
            return; /* no memory: the next pump continues */
        view.batch.rev = view.batch.header.revision = belfry_follow_rev(w->follow);
        view.batch.header.cluster_id = w->b->identity.cluster_id;
        view.batch.n_events = view.n_keys;
        view.batch.kind = view.n_keys > 0 ? BELFRY_STATE : BELFRY_SYNCED;
        call_back(w, &view);
        if (!w->closed && belfry_follow_live(w->follow)) {
            belfry_list_remove(&w->busy);
            if (w->once)
                end(w, BELFRY_OK, belfry_strerror(BELFRY_OK));
        }
    }
}

/* The listing starts again; the machine remembers what was reported. */
static void relist(struct belfry_watch *w)
{
    if (w->page != NULL)
        belfry_calls_cancel(w->page); /* a page of the old listing must not be taken for the first of the new one */
    w->page = NULL;
    belfry_follow_restart(w->follow);
    w->b->stats.lists++;
    w->page_ms = 0;
    if (belfry_list_empty(&w->busy))
        belfry_list_append(&w->b->follows, &w->busy);
    belfry_session_poke(w->b);
}

static void deliver_changes(struct belfry_watch *w, const struct belfry_mux_action *action)
{
    struct belfry_batch_view view;
    fill(&view, action);
    enum belfry_err err = belfry_follow_on_changes(w->follow, &action->group, &view.mask, &view.batch.n_events);
    if (err != BELFRY_OK)
        end(w, err, belfry_strerror(err));
    else if (view.batch.n_events > 0)
        call_back(w, &view);
}

static enum belfry_mux_verdict deliver_follow(struct belfry_watch *w, const struct belfry_mux_action *action)
{
    sweep(w); /* vanished keys must be reported before anything else */
    if (w->closed)
        return BELFRY_MUX_MORE;
    if (w->paused)
        return BELFRY_MUX_KEEP;
    if (action->act == BELFRY_MUX_END) {
        if (action->err == BELFRY_ERR_COMPACTED || action->err == BELFRY_ERR_REWOUND) {
            w->mux = NULL; /* the mux frees it after this */
            relist(w);
        } else {
            end_with(w, action);
        }
        return BELFRY_MUX_MORE;
    }
    if (action->act == BELFRY_MUX_EVENTS) {
        deliver_changes(w, action);
    } else {
        belfry_follow_on_progress(w->follow, action->rev);
        if (belfry_follow_live(w->follow)) {
            struct belfry_batch_view view;
            fill(&view, action);
            call_back(w, &view);
        }
    }
    sweep(w);
    return verdict_of(w);
}

enum belfry_mux_verdict belfry_watch_deliver(const struct belfry_mux_action *action, void *user)
{
    struct belfry_watch *w = belfry_mux_user(action->watch);
    (void)user;
    w->calling++; /* keep it until the end of this function */
    enum belfry_mux_verdict verdict = w->follow != NULL ? deliver_follow(w, action) : deliver_watch(w, action);
    w->calling--;
    settle(w);
    return verdict;
}

/* After the first page: starts the watch after its revision, before anything else can happen. */
static enum belfry_err start_watch(struct belfry_watch *w)
{
    int64_t rev = belfry_follow_wants_watch(w->follow);
    if (rev == 0)
        return BELFRY_OK;
    struct belfry_mux *mux = belfry_stream_mux(w->b->stream);
    struct belfry_mux_spec spec = {.key = w->range->key,
                                   .range_end = w->range->end,
                                   .rev = rev,
                                   .prev_kv = w->prev_kv,
                                   .progress_notify = true,
                                   .fragment = true,
                                   .pause_bytes = w->pause_bytes};
    enum belfry_err err = belfry_mux_add(mux, &spec, w, &w->mux);
    if (err != BELFRY_OK)
        return err;
    if (w->paused)
        belfry_mux_pause(mux, w->mux);
    belfry_follow_watching(w->follow);
    return BELFRY_OK;
}

static void call_back_link(struct belfry_watch *w, enum belfry_err err, const char *why)
{
    struct belfry_batch_view view = {.batch = {.kind = BELFRY_LINK, .err = err, .why = why, .last = 1}};
    if (call_back(w, &view) == BELFRY_PAUSE && w->mux != NULL)
        belfry_mux_pause(belfry_stream_mux(w->b->stream), w->mux);
}

/* Reports that the state cannot be read now. The stream reports its own problems, but may not exist yet, or be fine. */
static void tell_page_late(struct belfry_watch *w, const char *why)
{
    if (w->page_late || w->paused)
        return;
    w->page_late = true;
    call_back_link(w, BELFRY_ERR_UNAVAILABLE, why);
}

static void tell_page_came(struct belfry_watch *w)
{
    char text[BELFRY_ENDPOINT_TEXT + 16];
    const char *endpoint = belfry_stream_endpoint(w->b->stream);
    bool late = w->page_late;
    w->page_late = false;
    if (!late || endpoint == NULL) /* a stream that is still connecting reports itself */
        return;
    snprintf(text, sizeof(text), "connected to %s", endpoint);
    call_back_link(w, BELFRY_OK, text);
}

static void take_page(struct belfry_watch *w, struct belfry_bytes response)
{
    struct belfry_batch_view view = {
        .batch = {.kind = BELFRY_STATE, .last = 1}, .source = BELFRY_FROM_PAGE, .page = response};
    struct belfry_wire_header header;
    struct belfry_follow_page asked = {.rev = 0};
    belfry_follow_wants_page(w->follow, &asked);
    enum belfry_err err = belfry_follow_on_page(w->follow, response, &view.mask, &view.batch.n_events);
    if (err == BELFRY_OK)
        err = start_watch(w);
    if (err == BELFRY_OK)
        err = belfry_scan_response_header(response, &header);
    if (err != BELFRY_OK) {
        end(w, err, belfry_strerror(err));
        return;
    }
    belfry_batch_header(&header, &view.batch.header);
    view.batch.rev = asked.rev > 0 ? asked.rev : header.revision; /* a page at an older revision than its header */
    if (view.batch.n_events > 0)
        call_back(w, &view);
    if (!w->closed && w->paused && w->mux != NULL)
        belfry_mux_pause(belfry_stream_mux(w->b->stream), w->mux);
    sweep(w);
}

static bool is_passing(enum belfry_err err)
{
    return err == BELFRY_ERR_UNAVAILABLE || err == BELFRY_ERR_TIMEOUT || err == BELFRY_ERR_FUTURE ||
           err == BELFRY_ERR_PROTOCOL;
}

static void on_page(const struct belfry_answer *answer, void *user)
{
    struct belfry_watch *w = user;
    w->page = NULL;
    if (w->closed || w->b->closing)
        return;
    if (w->paused)
        return; /* nothing was recorded: it is requested again on resume */
    w->calling++;
    if (answer->err == BELFRY_OK) {
        tell_page_came(w);
        if (!w->closed && !w->paused)
            take_page(w, answer->message);
    } else if (answer->err == BELFRY_ERR_COMPACTED) {
        belfry_follow_on_page_compacted(w->follow);
    } else if (is_passing(answer->err)) {
        w->page_ms = belfry_clock_ms() + PAGE_RETRY_MS;
        tell_page_late(w, answer->why);
    } else {
        end(w, answer->err, answer->why);
    }
    if (!w->closed)
        belfry_session_poke(w->b);
    w->calling--;
    settle(w);
}

static void ask_page(struct belfry_watch *w, const struct belfry_follow_page *page, uint64_t now_ms)
{
    struct belfry_buf request;
    belfry_buf_init(&request);
    enum belfry_err err = belfry_request_page(&request, page->key, w->range->end, page->rev, page->limit);
    if (err == BELFRY_OK)
        err = belfry_calls_start(w->b->calls, BELFRY_CALL_READ, BELFRY_PATH_RANGE, belfry_buf_bytes(&request),
                                 now_ms + w->b->command_timeout_ms, on_page, w, &w->page);
    belfry_buf_fini(&request);
    if (err != BELFRY_OK)
        w->page_ms = now_ms + PAGE_RETRY_MS;
}

void belfry_watch_pump_follows(struct belfry *b, uint64_t now_ms)
{
    struct belfry_list todo;
    belfry_list_init(&todo);
    belfry_list_move_all(&todo, &b->follows);
    struct belfry_list *node;
    while ((node = belfry_list_pop(&todo)) != NULL) {
        struct belfry_watch *w = of_busy(node);
        struct belfry_follow_page page;
        belfry_list_append(&b->follows, node);
        if (w->paused)
            continue;
        w->calling++;
        if (w->page == NULL && now_ms >= w->page_ms && belfry_follow_wants_page(w->follow, &page))
            ask_page(w, &page, now_ms);
        if (belfry_follow_wants_progress(w->follow))
            belfry_mux_request_progress(belfry_stream_mux(b->stream), now_ms);
        sweep(w);
        w->calling--;
        settle(w);
    }
}

uint64_t belfry_watch_due(const struct belfry *b)
{
    uint64_t due = BELFRY_NEVER;
    struct belfry_follow_page page;
    belfry_list_each (node, &b->follows) {
        struct belfry_watch *w = of_busy(node);
        if (!w->paused && w->page == NULL && belfry_follow_wants_page(w->follow, &page))
            due = belfry_min_time(due, w->page_ms);
    }
    return due;
}

/* ---- all watches ---- */

/* Visits every watch that exists now, whatever the visits open and close. */
static void each(struct belfry *b, void (*visit)(struct belfry_watch *w, const void *with), const void *with)
{
    struct belfry_list todo;
    belfry_list_init(&todo);
    belfry_list_move_all(&todo, &b->watches);
    struct belfry_list *node;
    while ((node = belfry_list_pop(&todo)) != NULL) {
        struct belfry_watch *w = belfry_container(node, struct belfry_watch, node);
        belfry_list_append(&b->watches, node);
        w->calling++;
        visit(w, with);
        w->calling--;
        settle(w);
    }
}

static void tell_link(struct belfry_watch *w, const void *text)
{
    if (w->paused)
        return;
    bool serves = belfry_stream_endpoint(w->b->stream) != NULL;
    call_back_link(w, serves ? BELFRY_OK : BELFRY_ERR_UNAVAILABLE, text);
}

void belfry_watch_tell_link(struct belfry *b, const char *text)
{
    each(b, tell_link, text);
}

static void tell_listing(struct belfry_watch *w, const void *why)
{
    if (w->page != NULL)
        tell_page_late(w, why);
}

void belfry_watch_tell_listing(struct belfry *b, const char *why)
{
    each(b, tell_listing, why);
}

struct ending {
    enum belfry_err err;
    const char *why;
};

static void end_one(struct belfry_watch *w, const void *with)
{
    const struct ending *ending = with;
    end(w, ending->err, ending->why);
}

void belfry_watch_end_all(struct belfry *b, enum belfry_err err, const char *why)
{
    struct ending ending = {err, why};
    each(b, end_one, &ending);
}

/* ---- public functions ---- */

static enum belfry_err create(struct belfry *b, struct belfry_range range, belfry_batch_fn fn, void *user,
                              struct belfry_watch **out)
{
    struct belfry_watch *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return belfry_why_note(b, BELFRY_ERR_NOMEM, NULL);
    w->b = b;
    w->fn = fn;
    w->user = user;
    belfry_list_init(&w->node);
    belfry_list_init(&w->busy);
    enum belfry_err err = belfry_range_wire(range, &w->range);
    if (err != BELFRY_OK) {
        free(w);
        return belfry_why_note(b, err, belfry_range_why(err));
    }
    *out = w;
    return BELFRY_OK;
}

static int opened(struct belfry_watch *w, struct belfry_watch **out)
{
    belfry_list_append(&w->b->watches, &w->node);
    belfry_session_poke(w->b);
    if (out != NULL)
        *out = w;
    return BELFRY_OK;
}

int belfry_watch_open(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts, belfry_batch_fn fn,
                      void *user, struct belfry_watch **out)
{
    BELFRY_OWNER_ENTER(b);
    struct belfry_watch *w;
    enum belfry_err err = belfry_session_refuses(b, fn != NULL, opts, BELFRY_FOR_WATCH);
    if (err == BELFRY_OK)
        err = create(b, range, fn, user, &w);
    if (err != BELFRY_OK)
        return err;
    struct belfry_mux_spec spec = {.key = w->range->key,
                                   .range_end = w->range->end,
                                   .rev = belfry_opts_number(opts, BELFRY_OPT_REV),
                                   .prev_kv = belfry_opts_number(opts, BELFRY_OPT_PREV_KV) != 0,
                                   .progress_notify = belfry_opts_number(opts, BELFRY_OPT_PROGRESS_NOTIFY) != 0,
                                   .created_notify = belfry_opts_number(opts, BELFRY_OPT_CREATED_NOTIFY) != 0,
                                   .no_put = belfry_opts_number(opts, BELFRY_OPT_NO_PUT) != 0,
                                   .no_delete = belfry_opts_number(opts, BELFRY_OPT_NO_DELETE) != 0,
                                   .fragment = belfry_opts_number(opts, BELFRY_OPT_FRAGMENT) != 0,
                                   .unmerged = belfry_opts_number(opts, BELFRY_OPT_UNMERGED) != 0,
                                   .pause_bytes = (size_t)belfry_opts_number(opts, BELFRY_OPT_PAUSE_BYTES)};
    err = belfry_mux_add(belfry_stream_mux(b->stream), &spec, w, &w->mux);
    if (err != BELFRY_OK) {
        free_watch(w);
        return belfry_why_note(b, err, NULL);
    }
    return opened(w, out);
}

int belfry_follow_open(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts, belfry_batch_fn fn,
                       void *user, struct belfry_watch **out)
{
    BELFRY_OWNER_ENTER(b);
    struct belfry_watch *w;
    enum belfry_err err = belfry_session_refuses(b, fn != NULL, opts, BELFRY_FOR_FOLLOW);
    if (err == BELFRY_OK)
        err = create(b, range, fn, user, &w);
    if (err != BELFRY_OK)
        return err;
    w->once = belfry_opts_number(opts, BELFRY_OPT_ONCE) != 0;
    w->prev_kv = belfry_opts_number(opts, BELFRY_OPT_PREV_KV) != 0;
    w->pause_bytes = (size_t)belfry_opts_number(opts, BELFRY_OPT_PAUSE_BYTES);
    struct belfry_follow_opts follow = {.key = w->range->key,
                                        .range_end = w->range->end,
                                        .page_bytes = (size_t)belfry_opts_number(opts, BELFRY_OPT_PAGE_BYTES),
                                        .seed = belfry_rng_next(&b->rng)};
    err = belfry_follow_create(&follow, &w->follow);
    if (err != BELFRY_OK) {
        free_watch(w);
        return belfry_why_note(b, err, NULL);
    }
    b->stats.lists++;
    belfry_list_append(&b->follows, &w->busy);
    return opened(w, out);
}

void belfry_watch_pause(struct belfry_watch *w)
{
    if (w->paused || w->closed)
        return;
    w->paused = true;
    if (w->mux != NULL)
        belfry_mux_pause(belfry_stream_mux(w->b->stream), w->mux);
}

void belfry_watch_resume(struct belfry_watch *w)
{
    if (!w->paused)
        return;
    BELFRY_OWNER_ENTER(w->b);
    w->paused = false;
    if (w->mux != NULL)
        belfry_mux_resume(belfry_stream_mux(w->b->stream), w->mux);
    belfry_session_poke(w->b);
}

void belfry_watch_close(struct belfry_watch *w)
{
    if (w == NULL || w->closed)
        return;
    struct belfry *b = w->b;
    BELFRY_OWNER_ENTER(b);
    unhook(w);
    settle(w);
    belfry_session_poke(b);
}

int belfry_request_progress(struct belfry *b)
{
    BELFRY_OWNER_ENTER(b);
    if (!belfry_session_has_etcd(b))
        return belfry_why_note(b, BELFRY_ERR_INVALID, "the session has no etcd: it was opened without endpoints");
    belfry_mux_request_progress(belfry_stream_mux(b->stream), belfry_clock_ms());
    belfry_session_poke(b);
    return BELFRY_OK;
}
