/* src/client/watches.c */
#include "client/watches.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/owner.h"
#include "client/callback_batch.h"
#include "client/etcd_request.h"
#include "client/follow.h"
#include "client/range_bytes.h"

#define PAGE_RETRY_MS 200 /* before a page that failed temporarily is requested again */

struct belfry_watches {
    struct belfry_watches_opts opts;
    struct belfry_mux *mux;     /* the stream's */
    struct belfry_list all;     /* by belfry_watch.node */
    struct belfry_list syncing; /* follows that are not live, by belfry_watch.syncing */
    struct belfry_watches_stats stats;
    BELFRY_OWNER;
};

struct belfry_watch {
    struct belfry_list node;    /* in belfry_watches.all */
    struct belfry_list syncing; /* in belfry_watches.syncing */
    struct belfry_watches *watches;
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

static void watches_poke(struct belfry_watches *watches)
{
    watches->opts.poke(watches->opts.session);
}

static struct belfry_watch *watch_of_syncing(struct belfry_list *node)
{
    return belfry_container(node, struct belfry_watch, syncing);
}

/* ---- ending ---- */

/* Removes everything that could still call back. */
static void watch_unhook(struct belfry_watch *w)
{
    if (w->mux != NULL)
        belfry_mux_remove(w->watches->mux, w->mux);
    if (w->page != NULL)
        belfry_calls_cancel(w->page);
    w->mux = NULL;
    w->page = NULL;
    w->closed = true;
    belfry_list_remove(&w->node);
    belfry_list_remove(&w->syncing);
}

static void watch_free(struct belfry_watch *w)
{
    belfry_follow_destroy(w->follow);
    free(w->range);
    free(w);
}

/* Frees a closed watch when no callback of it is on the stack. */
static void watch_free_if_closed(struct belfry_watch *w)
{
    if (w->closed && w->calling == 0)
        watch_free(w);
}

/* Calls back. The watch may be closed afterwards: check w->closed, and watch_free_if_closed() when done with it. */
static enum belfry_next watch_call_back(struct belfry_watch *w, struct belfry_batch_view *view)
{
    w->watches->stats.events += view->batch.n_events;
    w->calling++;
    enum belfry_next next = w->fn(w, &view->batch, w->user);
    w->calling--;
    if (w->closed)
        return BELFRY_STOP;
    if (next == BELFRY_PAUSE)
        w->paused = true;
    else if (next == BELFRY_STOP)
        watch_unhook(w);
    return next;
}

/* Reports END; the watch is closed after it. */
static void watch_end_with(struct belfry_watch *w, const struct belfry_mux_action *action)
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
        watch_unhook(w);
}

static void watch_end(struct belfry_watch *w, enum belfry_err err, const char *why)
{
    struct belfry_mux_action action = {.act = BELFRY_MUX_END, .err = err, .why = why};
    watch_end_with(w, &action);
}

/* ---- a watch ---- */

static void batch_fill(struct belfry_batch_view *view, const struct belfry_mux_action *action)
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

static enum belfry_mux_verdict watch_verdict(const struct belfry_watch *w)
{
    return w->paused && !w->closed ? BELFRY_MUX_PAUSE : BELFRY_MUX_MORE;
}

static enum belfry_mux_verdict watch_deliver(struct belfry_watch *w, const struct belfry_mux_action *action)
{
    if (action->act == BELFRY_MUX_END) {
        watch_end_with(w, action);
        return BELFRY_MUX_MORE;
    }
    struct belfry_batch_view view;
    batch_fill(&view, action);
    watch_call_back(w, &view);
    return watch_verdict(w);
}

/* ---- follow ---- */

/* Reports vanished keys, then that the state is complete. */
static void follow_sweep(struct belfry_watch *w)
{
    while (!w->closed && !w->paused && belfry_follow_sweeping(w->follow)) {
        struct belfry_batch_view view = {.batch = {.last = 1}, .source = BELFRY_FROM_KEYS};
        if (belfry_follow_sweep(w->follow, &view.keys, &view.n_keys) != BELFRY_OK)
            return; /* no memory: the next pump continues */
        view.batch.rev = view.batch.header.revision = belfry_follow_rev(w->follow);
        view.batch.header.cluster_id = w->watches->opts.identity->cluster_id;
        view.batch.n_events = view.n_keys;
        view.batch.kind = view.n_keys > 0 ? BELFRY_STATE : BELFRY_SYNCED;
        watch_call_back(w, &view);
        if (!w->closed && belfry_follow_live(w->follow)) {
            belfry_list_remove(&w->syncing);
            if (w->once)
                watch_end(w, BELFRY_OK, belfry_strerror(BELFRY_OK));
        }
    }
}

/* The listing starts again; the machine remembers what was reported. */
static void follow_relist(struct belfry_watch *w)
{
    if (w->page != NULL)
        belfry_calls_cancel(w->page); /* a page of the old listing must not be taken for the first of the new one */
    w->page = NULL;
    belfry_follow_restart(w->follow);
    w->watches->stats.lists++;
    w->page_ms = 0;
    if (belfry_list_empty(&w->syncing))
        belfry_list_append(&w->watches->syncing, &w->syncing);
    watches_poke(w->watches);
}

static void follow_deliver_changes(struct belfry_watch *w, const struct belfry_mux_action *action)
{
    struct belfry_batch_view view;
    batch_fill(&view, action);
    enum belfry_err err = belfry_follow_on_changes(w->follow, &action->group, &view.mask, &view.batch.n_events);
    if (err != BELFRY_OK)
        watch_end(w, err, belfry_strerror(err));
    else if (view.batch.n_events > 0)
        watch_call_back(w, &view);
}

static enum belfry_mux_verdict follow_deliver(struct belfry_watch *w, const struct belfry_mux_action *action)
{
    follow_sweep(w); /* vanished keys must be reported before anything else */
    if (w->closed)
        return BELFRY_MUX_MORE;
    if (w->paused)
        return BELFRY_MUX_KEEP;
    if (action->act == BELFRY_MUX_END) {
        if (action->err == BELFRY_ERR_COMPACTED || action->err == BELFRY_ERR_REWOUND) {
            w->mux = NULL; /* the mux frees it after this */
            follow_relist(w);
        } else {
            watch_end_with(w, action);
        }
        return BELFRY_MUX_MORE;
    }
    if (action->act == BELFRY_MUX_EVENTS) {
        follow_deliver_changes(w, action);
    } else {
        belfry_follow_on_progress(w->follow, action->rev);
        if (belfry_follow_live(w->follow)) {
            struct belfry_batch_view view;
            batch_fill(&view, action);
            watch_call_back(w, &view);
        }
    }
    follow_sweep(w);
    return watch_verdict(w);
}

enum belfry_mux_verdict belfry_watches_deliver(const struct belfry_mux_action *action, void *user)
{
    struct belfry_watch *w = belfry_mux_user(action->watch);
    (void)user;
    w->calling++; /* keep it until the end of this function */
    enum belfry_mux_verdict verdict = w->follow != NULL ? follow_deliver(w, action) : watch_deliver(w, action);
    w->calling--;
    watch_free_if_closed(w);
    return verdict;
}

/* After the first page: starts the watch after its revision, before anything else can happen. */
static enum belfry_err follow_start_watch(struct belfry_watch *w)
{
    int64_t rev = belfry_follow_wants_watch(w->follow);
    if (rev == 0)
        return BELFRY_OK;
    struct belfry_mux *mux = w->watches->mux;
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

static void watch_call_back_link(struct belfry_watch *w, enum belfry_err err, const char *why)
{
    struct belfry_batch_view view = {.batch = {.kind = BELFRY_LINK, .err = err, .why = why, .last = 1}};
    if (watch_call_back(w, &view) == BELFRY_PAUSE && w->mux != NULL)
        belfry_mux_pause(w->watches->mux, w->mux);
}

/* Reports that the state cannot be read now. The stream reports its own problems, but may not exist yet, or be fine. */
static void follow_tell_page_late(struct belfry_watch *w, const char *why)
{
    if (w->page_late || w->paused)
        return;
    w->page_late = true;
    watch_call_back_link(w, BELFRY_ERR_UNAVAILABLE, why);
}

static void follow_tell_page_came(struct belfry_watch *w)
{
    char text[BELFRY_ENDPOINT_TEXT + 16];
    const char *endpoint = belfry_stream_endpoint(w->watches->opts.stream);
    bool late = w->page_late;
    w->page_late = false;
    if (!late || endpoint == NULL) /* a stream that is still connecting reports itself */
        return;
    snprintf(text, sizeof(text), "connected to %s", endpoint);
    watch_call_back_link(w, BELFRY_OK, text);
}

static void follow_take_page(struct belfry_watch *w, struct belfry_bytes response)
{
    struct belfry_batch_view view = {
        .batch = {.kind = BELFRY_STATE, .last = 1}, .source = BELFRY_FROM_PAGE, .page = response};
    struct belfry_wire_header header;
    struct belfry_follow_page asked = {.rev = 0};
    belfry_follow_wants_page(w->follow, &asked);
    enum belfry_err err = belfry_follow_on_page(w->follow, response, &view.mask, &view.batch.n_events);
    if (err == BELFRY_OK)
        err = follow_start_watch(w);
    if (err == BELFRY_OK)
        err = belfry_scan_response_header(response, &header);
    if (err != BELFRY_OK) {
        watch_end(w, err, belfry_strerror(err));
        return;
    }
    belfry_batch_header(&header, &view.batch.header);
    view.batch.rev = asked.rev > 0 ? asked.rev : header.revision; /* a page at an older revision than its header */
    if (view.batch.n_events > 0)
        watch_call_back(w, &view);
    if (!w->closed && w->paused && w->mux != NULL)
        belfry_mux_pause(w->watches->mux, w->mux);
    follow_sweep(w);
}

static bool page_error_is_passing(enum belfry_err err)
{
    return err == BELFRY_ERR_UNAVAILABLE || err == BELFRY_ERR_TIMEOUT || err == BELFRY_ERR_FUTURE ||
           err == BELFRY_ERR_PROTOCOL;
}

static void follow_on_page(const struct belfry_answer *answer, void *user)
{
    struct belfry_watch *w = user;
    w->page = NULL;
    if (w->closed || w->paused)
        return; /* paused: nothing was recorded, so it is requested again on resume */
    w->calling++;
    if (answer->err == BELFRY_OK) {
        follow_tell_page_came(w);
        if (!w->closed && !w->paused)
            follow_take_page(w, answer->message);
    } else if (answer->err == BELFRY_ERR_COMPACTED) {
        belfry_follow_on_page_compacted(w->follow);
    } else if (page_error_is_passing(answer->err)) {
        w->page_ms = belfry_clock_ms() + PAGE_RETRY_MS;
        follow_tell_page_late(w, answer->why);
    } else {
        watch_end(w, answer->err, answer->why);
    }
    if (!w->closed)
        watches_poke(w->watches);
    w->calling--;
    watch_free_if_closed(w);
}

static void follow_ask_page(struct belfry_watch *w, const struct belfry_follow_page *page, uint64_t now_ms)
{
    struct belfry_buf request;
    belfry_buf_init(&request);
    enum belfry_err err = belfry_request_page(&request, page->key, w->range->end, page->rev, page->limit);
    if (err == BELFRY_OK)
        err =
            belfry_calls_start(w->watches->opts.calls, BELFRY_CALL_READ, BELFRY_PATH_RANGE, belfry_buf_bytes(&request),
                               now_ms + w->watches->opts.page_timeout_ms, follow_on_page, w, &w->page);
    belfry_buf_fini(&request);
    if (err != BELFRY_OK)
        w->page_ms = now_ms + PAGE_RETRY_MS;
}

void belfry_watches_pump(struct belfry_watches *watches, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(watches);
    struct belfry_list todo;
    belfry_list_init(&todo);
    belfry_list_move_all(&todo, &watches->syncing);
    struct belfry_list *node;
    while ((node = belfry_list_pop(&todo)) != NULL) {
        struct belfry_watch *w = watch_of_syncing(node);
        struct belfry_follow_page page;
        belfry_list_append(&watches->syncing, node);
        if (w->paused)
            continue;
        w->calling++;
        if (w->page == NULL && now_ms >= w->page_ms && belfry_follow_wants_page(w->follow, &page))
            follow_ask_page(w, &page, now_ms);
        if (belfry_follow_wants_progress(w->follow))
            belfry_mux_request_progress(watches->mux, now_ms);
        follow_sweep(w);
        w->calling--;
        watch_free_if_closed(w);
    }
}

uint64_t belfry_watches_due(const struct belfry_watches *watches)
{
    uint64_t due = BELFRY_NEVER;
    struct belfry_follow_page page;
    belfry_list_each (node, &watches->syncing) {
        struct belfry_watch *w = watch_of_syncing(node);
        if (!w->paused && w->page == NULL && belfry_follow_wants_page(w->follow, &page))
            due = belfry_min_time(due, w->page_ms);
    }
    return due;
}

/* ---- all watches ---- */

/* Visits every watch that exists now, whatever the visits open and close. */
static void watches_each(struct belfry_watches *watches, void (*visit)(struct belfry_watch *w, const void *with),
                         const void *with)
{
    struct belfry_list todo;
    belfry_list_init(&todo);
    belfry_list_move_all(&todo, &watches->all);
    struct belfry_list *node;
    while ((node = belfry_list_pop(&todo)) != NULL) {
        struct belfry_watch *w = belfry_container(node, struct belfry_watch, node);
        belfry_list_append(&watches->all, node);
        w->calling++;
        visit(w, with);
        w->calling--;
        watch_free_if_closed(w);
    }
}

static void watch_tell_link(struct belfry_watch *w, const void *text)
{
    if (w->paused)
        return;
    bool serves = belfry_stream_endpoint(w->watches->opts.stream) != NULL;
    watch_call_back_link(w, serves ? BELFRY_OK : BELFRY_ERR_UNAVAILABLE, text);
}

void belfry_watches_tell_link(struct belfry_watches *watches, const char *text)
{
    watches_each(watches, watch_tell_link, text);
}

static void follow_tell_listing(struct belfry_watch *w, const void *why)
{
    if (w->page != NULL)
        follow_tell_page_late(w, why);
}

void belfry_watches_tell_listing(struct belfry_watches *watches, const char *why)
{
    watches_each(watches, follow_tell_listing, why);
}

struct ending {
    enum belfry_err err;
    const char *why;
};

static void watch_end_by(struct belfry_watch *w, const void *with)
{
    const struct ending *ending = with;
    watch_end(w, ending->err, ending->why);
}

void belfry_watches_end_all(struct belfry_watches *watches, enum belfry_err err, const char *why)
{
    struct ending ending = {err, why};
    if (watches != NULL)
        watches_each(watches, watch_end_by, &ending);
}

bool belfry_watches_empty(const struct belfry_watches *watches)
{
    return belfry_list_empty(&watches->all);
}

struct belfry_watches_stats belfry_watches_stats(const struct belfry_watches *watches)
{
    return watches->stats;
}

/* ---- opening and closing ---- */

static enum belfry_err watch_create(struct belfry_watches *watches, const struct belfry_watch_caller *caller,
                                    struct belfry_watch **out)
{
    BELFRY_OWNER_CHECK(watches);
    struct belfry_watch *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return BELFRY_ERR_NOMEM;
    w->watches = watches;
    w->fn = caller->fn;
    w->user = caller->user;
    belfry_list_init(&w->node);
    belfry_list_init(&w->syncing);
    enum belfry_err err = belfry_range_wire(caller->range, &w->range);
    if (err != BELFRY_OK) {
        free(w);
        return err;
    }
    *out = w;
    return BELFRY_OK;
}

enum belfry_err belfry_watches_open(struct belfry_watches *watches, const struct belfry_watch_caller *caller,
                                    struct belfry_mux_spec spec, struct belfry_watch **out)
{
    struct belfry_watch *w;
    enum belfry_err err = watch_create(watches, caller, &w);
    if (err != BELFRY_OK)
        return err;
    spec.key = w->range->key;
    spec.range_end = w->range->end;
    err = belfry_mux_add(watches->mux, &spec, w, &w->mux);
    if (err != BELFRY_OK) {
        watch_free(w);
        return err;
    }
    belfry_list_append(&watches->all, &w->node);
    watches_poke(watches);
    *out = w;
    return BELFRY_OK;
}

enum belfry_err belfry_watches_follow(struct belfry_watches *watches, const struct belfry_watch_caller *caller,
                                      const struct belfry_watch_follow *follow, struct belfry_watch **out)
{
    struct belfry_watch *w;
    enum belfry_err err = watch_create(watches, caller, &w);
    if (err != BELFRY_OK)
        return err;
    w->once = follow->once;
    w->prev_kv = follow->prev_kv;
    w->pause_bytes = follow->pause_bytes;
    struct belfry_follow_opts opts = {
        .key = w->range->key, .range_end = w->range->end, .page_bytes = follow->page_bytes, .seed = follow->seed};
    err = belfry_follow_create(&opts, &w->follow);
    if (err != BELFRY_OK) {
        watch_free(w);
        return err;
    }
    watches->stats.lists++;
    belfry_list_append(&watches->syncing, &w->syncing);
    belfry_list_append(&watches->all, &w->node);
    watches_poke(watches);
    *out = w;
    return BELFRY_OK;
}

void belfry_watches_pause(struct belfry_watch *w)
{
    BELFRY_OWNER_CHECK(w->watches);
    if (w->paused || w->closed)
        return;
    w->paused = true;
    if (w->mux != NULL)
        belfry_mux_pause(w->watches->mux, w->mux);
}

void belfry_watches_resume(struct belfry_watch *w)
{
    BELFRY_OWNER_CHECK(w->watches);
    if (!w->paused)
        return;
    w->paused = false;
    if (w->mux != NULL)
        belfry_mux_resume(w->watches->mux, w->mux);
    watches_poke(w->watches);
}

void belfry_watches_close(struct belfry_watch *w)
{
    struct belfry_watches *watches = w->watches;
    BELFRY_OWNER_CHECK(watches);
    if (w->closed)
        return;
    watch_unhook(w);
    watch_free_if_closed(w);
    watches_poke(watches);
}

struct belfry *belfry_watches_session(const struct belfry_watch *w)
{
    return w->watches->opts.session;
}

enum belfry_err belfry_watches_create(const struct belfry_watches_opts *opts, struct belfry_watches **out)
{
    struct belfry_watches *watches = calloc(1, sizeof(*watches));
    if (watches == NULL)
        return BELFRY_ERR_NOMEM;
    BELFRY_OWNER_INIT(watches);
    watches->opts = *opts;
    watches->mux = belfry_stream_mux(opts->stream);
    belfry_list_init(&watches->all);
    belfry_list_init(&watches->syncing);
    *out = watches;
    return BELFRY_OK;
}

void belfry_watches_destroy(struct belfry_watches *watches)
{
    if (watches == NULL)
        return;
    assert(belfry_list_empty(&watches->all));
    free(watches);
}
