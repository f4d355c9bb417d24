/* src/serve/kube/kube_watch.c */
#include "serve/kube/kube_watch.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/owner.h"
#include "base/pack.h"
#include "base/rng.h"
#include "core/watcher.h"
#include "serve/kube/kube_answer.h"
#include "serve/kube/kube_forms.h"
#include "server/roster.h"

#define FAREWELL_MS       2000  /* before the deadline: the last bookmark */
#define GRACE_MS          5000  /* for a revision that was begun when the time to end comes */
#define ENDING_LOOK_MS    100   /* between two looks whether it is out: its last event may not concern this watch */
#define ROUND_STEP        512   /* watches that a round visits per turn */
#define TURN_DUE          256   /* watches whose time has come, per turn */
#define CATALOG_MS        10000 /* in which watches end whose resource is not served any more */
#define TELL_MS           60000 /* between two lines about objects that cannot be decoded */
#define LOOK_MS           1000  /* between two visits of watches inside a line */
#define LOOK_MAX          1024  /* of them per visit */
#define ASK_AGAIN_MS      1000  /* after upstream could not be asked about rights; up to as much is added */
#define H2_INTERNAL_ERROR 2

struct kube_watches {
    struct kube_watches_opts opts;
    struct worker *worker;
    const struct kube_catalog *catalog; /* lent; NULL: none */
    struct kube_forms *forms;
    struct belfry_rng rng;

    struct roster roster;      /* every watch */
    struct belfry_list inside; /* watches that were sent a part of a line */
    uint64_t look_ms;          /* when `inside` is visited next */

    bool draining;                         /* watches of connections that were told to leave end */
    uint64_t drain_end_ms, catalog_end_ms; /* by then those that must end have ended */

    uint64_t undecodable_told, undecodable_told_ms; /* as logged, and when */
    struct kube_watches_stats stats;
    BELFRY_OWNER;
};

/* Drawn in kube_watch.h. FENCING and STATE: where it begins is being found; the head of the response was sent. */
enum kube_watch_state { KUBE_WATCH_NEW, KUBE_WATCH_FENCING, KUBE_WATCH_STATE, KUBE_WATCH_LIVE };

struct kube_watch {
    struct kube_watches *watches;
    struct exchange *x;
    struct shares_conn *share;   /* its connection's */
    enum kube_watch_state state; /* moved by kube_watch_move_to() alone */
    struct fence_wait *wait;     /* FENCING */
    struct kube_list *list;      /* STATE */
    struct stream *stream;       /* LIVE: the core's */
    const struct kube_lens *lens;
    struct kube_selector *selector; /* a reference; NULL: everything */
    enum kube_view view;
    enum kube_include include;
    bool bookmarks, mark_end;
    bool headed;         /* the head of the response was sent */
    bool pinned;         /* the core finds it by an attribute of its selector */
    bool filter;         /* the range has objects of other namespaces */
    bool resumed;        /* the client named `from`, and may have seen a part of it (core/lines.h) */
    bool ending;         /* its time has come; it ends after the revision that it is inside of */
    int64_t from;        /* changes above this revision: as asked for, or the state's */
    int64_t told_rev;    /* of the last line that was made for the core; 0: none */
    int64_t columns_rev; /* of a table: the event that defines its columns; 0: none has yet */
    uint64_t columns_sub;
    uint64_t cuts; /* STATE: as the core had counted when it began */

    struct permit_party party;
    struct permit_question *claim; /* auth is on: asked, or held; NULL: none */
    bool held;

    struct roster_entry roster; /* due: the smallest of the times below */
    struct belfry_list inside;
    uint64_t deadline_ms, farewell_ms, end_ms; /* end_ms: drain, another catalog */
    uint64_t ask_ms;                           /* when to ask about rights again */
    uint64_t opened_ms, sent_bytes;
    size_t told;                 /* bytes that the core may still write */
    size_t bytes;                /* its own, with its selector */
    size_t counted, watch_bytes; /* as counted in the stats, and with the core's as SHARES_WATCH_BYTES */

    struct belfry_bytes key, end, namespace;  /* this and the rest: in text */
    struct belfry_bytes right_key, right_end; /* what permit is asked about */
    struct identity who;
    const char *client;
    char text[];
};

static struct kube_watch *watch_of(struct roster_entry *entry)
{
    return entry == NULL ? NULL : belfry_container(entry, struct kube_watch, roster);
}

static void kube_watches_ask_for_turn(const struct kube_watches *watches)
{
    watches->opts.work(watches->opts.user);
}

static void kube_watch_move_to(struct kube_watch *watch, enum kube_watch_state to)
{
    assert(to > watch->state);
    watch->state = to;
}

static void kube_watch_set_due(struct kube_watch *watch)
{
    uint64_t due_ms = belfry_min_time(belfry_min_time(watch->deadline_ms, watch->end_ms), watch->farewell_ms);
    roster_set_due(&watch->watches->roster, &watch->roster, belfry_min_time(due_ms, watch->ask_ms));
}

/* After it has come, has received its stream of the core, or goes. */
static void kube_watch_count_bytes(struct kube_watch *watch, size_t own)
{
    struct kube_watches *watches = watch->watches;
    size_t all = own + (watch->stream == NULL ? 0 : stream_bytes(watch->stream));
    watches->stats.bytes = watches->stats.bytes - watch->counted + own;
    watches->opts.room->watch_bytes = watches->opts.room->watch_bytes - watch->counted + own;
    shares_count(watch->share, SHARES_WATCH_BYTES, watch->watch_bytes, all);
    watch->counted = own;
    watch->watch_bytes = all;
}

/* ---- ending ---- */

/* The exchange has ended already. */
static void kube_watch_free(struct kube_watch *watch)
{
    struct kube_watches *watches = watch->watches;
    struct kube_pin pin;
    if (watch->claim != NULL)
        permit_cancel(watch->claim);
    permit_leave(watches->opts.permit, &watch->party);
    if (watch->wait != NULL)
        fence_cancel(watch->wait);
    if (watch->list != NULL)
        kube_list_cancel(watch->list);
    if (watch->stream != NULL)
        stream_close(watches->worker, watch->stream);
    watch->stream = NULL;
    roster_leave(&watches->roster, &watch->roster);
    belfry_list_remove(&watch->inside);
    if (watch->pinned && kube_selector_pin(watch->selector, &pin))
        kube_lens_unpin(watches->forms, watch->lens, &pin);
    kube_lens_close(watches->forms, watch->lens);
    kube_selector_unref(watch->selector);
    watches->stats.watches--;
    shares_count(watch->share, SHARES_WATCHERS, 1, 0);
    kube_watch_count_bytes(watch, 0);
    kube_watches_ask_for_turn(watches); /* the core has to remove its watcher */
    free(watch);
}

static uint64_t kube_watch_inside_since(const struct kube_watch *watch)
{
    size_t bytes;
    return watch->stream == NULL ? 0 : stream_inside_since(watch->stream, &bytes);
}

/* May the revision of the last line have more for this watch? */
static bool is_inside_revision(const struct kube_watch *watch)
{
    struct watcher_view view;
    return watch->stream != NULL && stream_watcher(watch->watches->worker, watch->stream, INT64_MIN, &view) &&
           !view.ended && view.next <= watch->told_rev;
}

static bool is_inside(const struct kube_watch *watch)
{
    return kube_watch_inside_since(watch) != 0 || is_inside_revision(watch);
}

/* A client that has seen the head expects every change from then on. */
static void kube_watch_say_head(struct kube_watch *watch)
{
    if (watch->headed)
        return;
    kube_answer_begin(watch->x);
    exchange_lasts(watch->x);
    watch->headed = true;
}

static void kube_watch_write_line(struct kube_watch *watch, const struct belfry_buf *line)
{
    struct belfry_bytes bytes = belfry_buf_bytes(line);
    exchange_write(watch->x, bytes.data, bytes.len);
}

/* Written directly: the core has begun nothing. */
static void kube_watch_write_error(struct kube_watch *watch, const struct kube_status *status)
{
    struct belfry_buf line;
    belfry_buf_init(&line);
    kube_watch_say_head(watch);
    if (status->reason == KUBE_EXPIRED)
        watch->watches->stats.expired++;
    if (kube_render_error(status, &line) == BELFRY_OK)
        kube_watch_write_line(watch, &line);
    belfry_buf_fini(&line);
}

/* Ends the line that was begun, if there is one. False: it cannot be ended. */
static bool end_line(struct kube_watch *watch)
{
    return watch->list != NULL ? kube_list_end_line(watch->list) : kube_watch_inside_since(watch) == 0;
}

static void kube_watch_say_last(struct kube_watch *watch)
{
    struct kube_status status;
    if (!end_line(watch)) {
        exchange_reset(watch->x, H2_INTERNAL_ERROR);
        return;
    }
    if (is_inside_revision(watch)) {
        kube_status_set(&status, KUBE_EXPIRED, "the watch ends inside of revision %lld: list anew",
                        (long long)watch->told_rev);
        kube_watch_write_error(watch, &status);
    }
    kube_watch_say_head(watch);
    exchange_end(watch->x, NULL, 0);
}

static void kube_watch_end(struct kube_watch *watch)
{
    char identity[IDENTITY_SHOWN];
    identity_show(&watch->who, identity);
    belfry_logf(watch->watches->opts.log, BELFRY_LOG_DEBUG, "kube_watch_end", "peer=%s identity=%s sent=%llu",
                exchange_conn(watch->x)->peer, identity, (unsigned long long)watch->sent_bytes);
    kube_watch_say_last(watch);
    kube_watch_free(watch);
}

/* Only while the core sends nothing yet. */
static void kube_watch_end_with_error(struct kube_watch *watch, const struct kube_status *status)
{
    if (end_line(watch))
        kube_watch_write_error(watch, status);
    kube_watch_end(watch);
}

/* Finishes the revision that was begun first, if that is soon. From now on the core receives no other line. */
static void kube_watch_end_soon(struct kube_watch *watch, uint64_t now_ms)
{
    if (!is_inside(watch) || (watch->ending && watch->deadline_ms <= now_ms)) {
        kube_watch_end(watch);
        return;
    }
    if (!watch->ending)
        watch->deadline_ms = now_ms + GRACE_MS;
    watch->ending = true;
    watch->end_ms = BELFRY_NEVER;
    watch->farewell_ms = now_ms + ENDING_LOOK_MS;
    kube_watch_set_due(watch);
}

static void kube_watch_apply_regime(struct kube_watch *watch);

static void kube_watch_time_has_come(struct kube_watch *watch, uint64_t now_ms)
{
    if (watch->ask_ms <= now_ms) {
        watch->ask_ms = BELFRY_NEVER;
        kube_watch_set_due(watch);
        kube_watch_apply_regime(watch);
        return;
    }
    if (watch->ending || watch->deadline_ms <= now_ms || watch->end_ms <= now_ms) {
        kube_watch_end_soon(watch, now_ms);
        return;
    }
    watch->farewell_ms = BELFRY_NEVER;
    kube_watch_set_due(watch);
    if (watch->state != KUBE_WATCH_LIVE)
        return;
    stream_progress(watch->watches->worker, watch->stream);
    kube_watches_ask_for_turn(watch->watches);
}

static void kube_watch_end_within(struct kube_watch *watch, uint64_t now_ms, uint64_t end_ms)
{
    if (watch->end_ms <= end_ms || watch->ending)
        return;
    uint64_t left = end_ms > now_ms ? end_ms - now_ms : 0;
    watch->end_ms = now_ms + belfry_rng_below(&watch->watches->rng, left + 1);
    kube_watch_set_due(watch);
}

static bool kube_watch_is_current(const struct kube_watch *watch)
{
    const struct kube_resource *resource = watch->lens->resource, *served;
    const struct kube_version *version;
    const struct kube_catalog *catalog = watch->watches->catalog;
    return catalog != NULL &&
           kube_catalog_find(catalog, belfry_bytes_str(resource->group), belfry_bytes_str(watch->lens->version->name),
                             belfry_bytes_str(resource->plural), &served, &version) &&
           served == resource;
}

/* ---- writing ---- */

static void on_core_write(void *stream_user, const uint8_t *data, size_t len)
{
    struct kube_watch *watch = stream_user;
    assert(len <= watch->told);
    watch->told -= len;
    watch->sent_bytes += len;
    exchange_write(watch->x, data, len);
    roster_note_write(&watch->watches->roster, &watch->roster);
}

static bool kube_watch_may_deliver(const struct kube_watch *watch)
{
    const struct kube_watches_opts *opts = &watch->watches->opts;
    return (watch->held || permit_regime(opts->permit, &watch->party) == PERMIT_OPEN) &&
           permit_may_deliver(opts->permit, &watch->party, opts->now(opts->user));
}

/* LIVE only. */
static void kube_watch_tell_room(struct kube_watch *watch)
{
    size_t room = kube_watch_may_deliver(watch) ? exchange_room(watch->x) : 0;
    if (room == watch->told)
        return;
    watch->told = room;
    stream_writable(watch->watches->worker, watch->stream, room);
    kube_watches_ask_for_turn(watch->watches);
}

/* Watches inside a line are visited (look_inside). */
static void note_inside(struct kube_watch *watch)
{
    bool inside = kube_watch_inside_since(watch) != 0;
    if (!inside)
        belfry_list_remove(&watch->inside);
    else if (belfry_list_empty(&watch->inside))
        belfry_list_append(&watch->watches->inside, &watch->inside);
}

static void kube_watch_written(struct kube_watch *watch)
{
    note_inside(watch);
    bool is_out = stream_ended(watch->stream) && !stream_pending(watch->stream);
    if (is_out)
        watch->watches->stats.expired++;
    if (is_out || (watch->ending && !is_inside(watch)))
        kube_watch_end(watch);
    else if (watch->told < EXCHANGE_ROOM_LOW)
        kube_watch_tell_room(watch);
}

/* ---- rights ---- */

/* The core has begun no line, or the watch is cut off. */
static void kube_watch_expel(struct kube_watch *watch, const char *reason)
{
    const char *sentence = permit_sentence(reason);
    struct kube_status status;
    if (permit_is_about_token(reason))
        kube_status_set(&status, KUBE_UNAUTHORIZED, "%s", permit_unauthorized(reason));
    else if (sentence != NULL)
        kube_status_set(&status, KUBE_FORBIDDEN, "%s", sentence);
    else
        kube_status_set(&status, KUBE_FORBIDDEN, "upstream does not allow these keys to this user any more");
    watch->watches->stats.expelled++;
    belfry_logf(watch->watches->opts.log, BELFRY_LOG_DEBUG, "kube_watch_expel", "peer=%s sent=%llu",
                exchange_conn(watch->x)->peer, (unsigned long long)watch->sent_bytes);
    if (end_line(watch)) {
        kube_watch_write_error(watch, &status);
        exchange_end(watch->x, NULL, 0);
    } else {
        exchange_reset(watch->x, H2_INTERNAL_ERROR);
    }
    kube_watch_free(watch);
}

static void kube_watch_ask_later(struct kube_watch *watch)
{
    struct kube_watches *watches = watch->watches;
    watch->ask_ms =
        watches->opts.now(watches->opts.user) + ASK_AGAIN_MS + belfry_rng_below(&watches->rng, ASK_AGAIN_MS);
    kube_watch_set_due(watch);
}

static void on_kube_watch_verdict(enum permit_verdict verdict, const char *reason, void *user)
{
    struct kube_watch *watch = user;
    watch->held = verdict == PERMIT_HELD;
    watch->who.accepted = watch->who.accepted || verdict == PERMIT_HELD;
    if (verdict != PERMIT_HELD)
        watch->claim = NULL;
    switch (verdict) {
    case PERMIT_GRANTED: /* auth is off again */
    case PERMIT_HELD:
        if (watch->state == KUBE_WATCH_LIVE)
            kube_watch_tell_room(watch);
        break;
    case PERMIT_REFUSED:
        kube_watch_expel(watch, reason);
        break;
    case PERMIT_UNAVAILABLE:
        kube_watch_ask_later(watch);
        break;
    }
}

static void on_kube_watch_party(struct permit_party *party, enum permit_event event, const char *reason)
{
    struct kube_watch *watch = belfry_container(party, struct kube_watch, party);
    if (event == PERMIT_ENDED)
        kube_watch_expel(watch, reason);
    else if (watch->state == KUBE_WATCH_LIVE)
        kube_watch_tell_room(watch);
}

/* Claims its range, if auth is on. */
static void kube_watch_apply_regime(struct kube_watch *watch)
{
    const struct kube_watches_opts *opts = &watch->watches->opts;
    if (watch->claim == NULL && permit_regime(opts->permit, &watch->party) == PERMIT_ASKS) {
        enum belfry_err err = permit_hold(opts->permit, &watch->party, watch->right_key, watch->right_end,
                                          opts->now(opts->user), on_kube_watch_verdict, watch, &watch->claim);
        if (err != BELFRY_OK)
            kube_watch_ask_later(
                watch); /* too many questions wait, or its client may hold no more: it receives nothing */
    }
    if (watch->state == KUBE_WATCH_LIVE)
        kube_watch_tell_room(watch);
}

/* ---- lines, for the core ---- */

/* The prefix of a range may cover other namespaces. */
static bool is_elsewhere(const struct kube_watch *watch, struct belfry_bytes key)
{
    struct belfry_bytes namespace, name;
    return watch->filter && (!kube_resource_parts(watch->lens->resource, key, &namespace, &name) ||
                             !belfry_bytes_equal(namespace, watch->namespace));
}

/* True for the first event that is sent; the core asks for it again when there was no room. */
static bool defines_columns(const struct kube_watch *watch, const struct batch *batch, uint32_t event)
{
    return watch->columns_rev == 0 ||
           (watch->columns_rev == batch->rev && watch->columns_sub == (uint64_t)batch->first_sub + event);
}

static void note_told(struct kube_watch *watch, const struct batch *batch, uint32_t event)
{
    watch->told_rev = batch->rev;
    if (watch->columns_rev == 0) {
        watch->columns_rev = batch->rev;
        watch->columns_sub = (uint64_t)batch->first_sub + event;
    }
}

static enum belfry_err on_core_event(void *stream_user, const struct batch *batch, uint32_t event,
                                     struct belfry_blob **out)
{
    struct kube_watch *watch = stream_user;
    struct kube_watches *watches = watch->watches;
    const struct kube_change *change;
    bool told = false;
    *out = NULL;
    if (watch->ending && batch->rev > watch->told_rev) /* the client receives it when it resumes */
        return BELFRY_OK;
    if (is_elsewhere(watch, batch_key(batch, &batch->events[event])))
        return BELFRY_OK;
    struct kube_line line = {
        .view = watch->view, .include = watch->include, .first = defines_columns(watch, batch, event)};
    bool selects = watch->selector != NULL && !kube_selector_is_everything(watch->selector);
    enum belfry_err err = kube_forms_change(watches->forms, watch->lens, batch, event,
                                            selects ? KUBE_NEED_ATTRIBUTES : KUBE_NEED_TEXT, &change);
    if (err == BELFRY_OK)
        err =
            kube_change_told(change, watch->selector, watch->resumed && batch->rev == watch->from, &told, &line.event);
    if (err != BELFRY_OK || !told)
        return err;
    err = kube_forms_line(watches->forms, watch->lens, change, &line, out);
    if (err != BELFRY_OK)
        return err;
    note_told(watch, batch, event);
    watches->stats.lines++;
    return BELFRY_OK;
}

/* Hands over the text of `line` as a blob, and frees the buffer. */
static enum belfry_err hand_over(struct belfry_buf *line, enum belfry_err err, struct belfry_blob **out)
{
    if (err == BELFRY_OK)
        err = belfry_blob_copy(belfry_buf_bytes(line), out);
    belfry_buf_fini(line);
    return err;
}

static enum belfry_err write_bookmark(const struct kube_watch *watch, int64_t rev, bool initial_end,
                                      struct belfry_buf *line)
{
    struct kube_render render = {.resource = watch->lens->resource,
                                 .version = watch->lens->version,
                                 .view = watch->view,
                                 .include = watch->include};
    return kube_render_bookmark(&render, rev, initial_end, line);
}

static enum belfry_err on_core_progress(void *stream_user, int64_t rev, struct belfry_blob **out)
{
    struct kube_watch *watch = stream_user;
    struct belfry_buf line;
    *out = NULL;
    if (!watch->bookmarks || watch->ending)
        return BELFRY_OK;
    belfry_buf_init(&line);
    enum belfry_err err = hand_over(&line, write_bookmark(watch, rev, false, &line), out);
    if (err == BELFRY_OK)
        watch->watches->stats.bookmarks++;
    return err;
}

static enum belfry_err on_core_lost(void *stream_user, int64_t compact_rev, struct belfry_blob **out)
{
    struct kube_watch *watch = stream_user;
    struct kube_status status;
    struct belfry_buf line;
    kube_status_expired(&status, watch->from, compact_rev); /* a watch from there receives that revision first */
    belfry_buf_init(&line);
    return hand_over(&line, kube_render_error(&status, &line), out);
}

static const struct lines watch_lines = {
    .event = on_core_event, .progress = on_core_progress, .lost = on_core_lost, .write = on_core_write};

/* ---- going live ---- */

static void on_kube_watch_writable(struct exchange *x, void *user)
{
    struct kube_watch *watch = user;
    (void)x;
    if (watch->state == KUBE_WATCH_LIVE)
        kube_watch_tell_room(watch);
}

static void on_kube_watch_gone(struct exchange *x, void *user)
{
    (void)x;
    kube_watch_free(user);
}

static const struct exchange_events watch_events = {.body = exchange_drop_body,
                                                    .body_end = exchange_ignore,
                                                    .writable = on_kube_watch_writable,
                                                    .gone = on_kube_watch_gone};

static enum belfry_err kube_watch_create_watcher(struct kube_watch *watch, const struct kube_pin *pin)
{
    struct kube_watches *watches = watch->watches;
    int64_t next = watch->from < INT64_MAX ? watch->from + 1 : INT64_MAX;
    struct stream_create create = {.key = watch->key,
                                   .range_end = watch->end,
                                   .start_rev = watch->resumed ? watch->from : next,
                                   .resumed = watch->resumed,
                                   .flags = watch->bookmarks ? WATCHER_PROGRESS : 0};
    struct belfry_buf name;
    enum belfry_err err = BELFRY_OK;
    belfry_buf_init(&name);
    if (pin != NULL) {
        err = kube_lens_pin_name(watch->lens, pin, &name);
        create.pin_name = belfry_buf_bytes(&name);
        create.pin_value = pin->value;
    }
    if (err == BELFRY_OK)
        err = stream_create(watches->worker, watch->stream, &create);
    belfry_buf_fini(&name);
    return err;
}

/* Opens the core's stream: the watch receives every change after `from`. */
static enum belfry_err kube_watch_open_stream(struct kube_watch *watch, uint64_t now_ms)
{
    struct kube_watches *watches = watch->watches;
    struct kube_pin pin;
    watch->pinned = watch->selector != NULL && kube_selector_pin(watch->selector, &pin) &&
                    kube_lens_pin(watches->forms, watch->lens, &pin);
    enum belfry_err err = stream_open_lines(watches->worker, watch, &watch_lines, now_ms, &watch->stream);
    if (err != BELFRY_OK)
        return err;
    stream_set_client(watch->stream, shares_source(watch->share));
    stream_set_progress(watches->worker, watch->stream, KUBE_BOOKMARK_MS);
    err = kube_watch_create_watcher(watch, watch->pinned ? &pin : NULL);
    kube_watch_count_bytes(watch, watch->bytes);
    return err;
}

static void kube_watch_go_live(struct kube_watch *watch, int64_t from)
{
    watch->from = from;
    kube_watch_say_head(watch);
    if (kube_watch_open_stream(watch, watch->watches->opts.now(watch->watches->opts.user)) != BELFRY_OK) {
        struct kube_status status;
        watch->watches->stats.too_many++;
        shares_note_refused(watch->share, SHARES_WATCH_BYTES);
        kube_status_busy(&status, "belfry: memory limit reached");
        kube_watch_end_with_error(watch, &status);
        return;
    }
    kube_watch_move_to(watch, KUBE_WATCH_LIVE);
    kube_watch_tell_room(watch);
}

/* ---- where it begins ---- */

static void on_watch_fence(enum belfry_err err, int64_t rev, void *user)
{
    struct kube_watch *watch = user;
    struct kube_status status;
    watch->wait = NULL;
    if (err == BELFRY_OK) {
        kube_watch_go_live(watch, rev);
        return;
    }
    if (err == BELFRY_ERR_AUTH || err == BELFRY_ERR_DENIED)
        kube_status_no_fence(&status, err, &watch->who);
    else
        kube_status_set(&status, KUBE_TIMEOUT, "upstream did not say where it is: %s", belfry_strerror(err));
    if (err != BELFRY_ERR_AUTH && err != BELFRY_ERR_DENIED)
        status.retry_after_s = 1;
    kube_watch_end_with_error(watch, &status);
}

static uint64_t count_cuts(const struct kube_watch *watch)
{
    struct worker_stats core;
    worker_stats(watch->watches->worker, &core);
    return core.cuts;
}

/* A state that was read in a past that has ended does not fit the core's new past: revisions of the new one may be
 * lower, and would be waited for in silence. */
static bool is_of_another_past(const struct kube_watch *watch)
{
    return watch->cuts != count_cuts(watch);
}

/* The whole state was written: sends the bookmark that says so, and goes live from there. */
static void on_state_written(void *user, enum belfry_err err, const struct kube_status *status, int64_t rev)
{
    struct kube_watch *watch = user;
    struct belfry_buf line;
    struct kube_status expired;
    bool whole = err == BELFRY_ERR_CANCELED || kube_list_end_line(watch->list);
    watch->list = NULL;
    if (err == BELFRY_ERR_CANCELED) {
        kube_watch_free(watch);
        return;
    }
    if (!whole) {
        exchange_reset(watch->x, H2_INTERNAL_ERROR);
        kube_watch_free(watch);
        return;
    }
    exchange_handle(watch->x, &watch_events, watch);
    if (err == BELFRY_OK && is_of_another_past(watch)) {
        kube_status_expired(&expired, rev, worker_position(watch->watches->worker));
        err = BELFRY_ERR_COMPACTED;
        status = &expired;
    }
    if (err != BELFRY_OK) {
        kube_watch_end_with_error(watch, status);
        return;
    }
    belfry_buf_init(&line);
    if (watch->mark_end && watch->bookmarks && write_bookmark(watch, rev, true, &line) != BELFRY_OK) {
        belfry_buf_fini(&line);
        kube_watch_end(watch); /* no memory: a client would wait for the bookmark forever */
        return;
    }
    kube_watch_write_line(watch, &line);
    belfry_buf_fini(&line);
    kube_watch_go_live(watch, rev);
}

/* After the watch's own deadline, if that comes first: then the watch ends cleanly, not with its state's error. */
static uint64_t state_deadline(const struct kube_watch *watch)
{
    uint64_t own_ms = watch->opened_ms + KUBE_LIST_MS;
    return watch->deadline_ms <= own_ms ? watch->deadline_ms + GRACE_MS : own_ms;
}

/* The state is a list of this range, as ADDED events. */
static enum belfry_err kube_watch_begin_state(struct kube_watch *watch, const struct kube_ask *ask,
                                              struct kube_status *status)
{
    struct kube_list_ask state_ask = {.x = watch->x,
                                      .resource = ask->resource,
                                      .version = ask->version,
                                      .selector = ask->selector,
                                      .namespace = ask->namespace,
                                      .name = ask->name,
                                      .view = ask->view,
                                      .include = ask->options.include,
                                      .as = KUBE_PAGE_EVENTS,
                                      .plan = {.read = ask->watch.read, .rev = ask->watch.rev},
                                      .who = ask->who,
                                      .deadline_ms = state_deadline(watch),
                                      .done = on_state_written,
                                      .user = watch};
    watch->cuts = count_cuts(watch);
    kube_watch_move_to(watch, KUBE_WATCH_STATE);
    return kube_list_begin(watch->watches->opts.lists, &state_ask, &watch->list, status);
}

/* Finds the revision at which the watch begins. Errors: too many watches begin now; the answer is in *status. */
static enum belfry_err kube_watch_find_start(struct kube_watch *watch, const struct kube_ask *ask,
                                             struct kube_status *status)
{
    struct kube_watches *watches = watch->watches;
    enum belfry_err err = BELFRY_OK;
    kube_status_busy(status, "belfry: too many watches begin at once");
    if (ask->watch.state_first) {
        err = kube_watch_begin_state(watch, ask, status);
    } else if (ask->watch.read == KUBE_READ_LATEST) {
        kube_watch_move_to(watch, KUBE_WATCH_FENCING);
        err = fence_ask(watches->opts.fence, &ask->who, watch->key, on_watch_fence, watch, &watch->wait);
    } else if (ask->watch.read == KUBE_READ_ANY) {
        kube_watch_go_live(watch, worker_position(watches->worker));
    } else { /* the version of a list or an event: the client may have seen a part of that revision. Of an API server's
                changes only deletions share a version, and ours may come yet; history may begin behind a list's. */
        watch->resumed = !ask->resource->is_verbatim || ask->watch.rev > worker_position(watches->worker) ||
                         worker_has_parts(watches->worker, ask->watch.rev);
        kube_watch_go_live(watch, ask->watch.rev);
    }
    return err;
}

/* ---- opening ---- */

/* With the watcher of the core and the right to it, as far as is known before they are there. */
static size_t kube_watch_needs(const struct kube_ask *ask, size_t own)
{
    struct stream_create create = {.key = belfry_buf_bytes(&ask->key), .range_end = belfry_buf_bytes(&ask->end)};
    return own + STREAM_BYTES + stream_create_bytes(&create) + PERMIT_HOLD_BYTES;
}

static struct kube_watch *kube_watch_make(struct kube_watches *watches, struct exchange *x, const struct kube_ask *ask)
{
    struct belfry_bytes key = belfry_buf_bytes(&ask->key), end = belfry_buf_bytes(&ask->end);
    struct belfry_bytes client = belfry_bytes_str(ask->client);
    struct belfry_bytes subject = belfry_buf_bytes(&ask->subject);
    size_t bytes = sizeof(struct kube_watch) + key.len + end.len + subject.len + ask->namespace.len +
                   ask->who.text.len + client.len + 1;
    size_t own = bytes + (ask->selector == NULL ? 0 : kube_selector_bytes(ask->selector));
    bool has_room = shares_make_room(exchange_share(x), SHARES_WATCHERS, 1) &&
                    shares_make_room(exchange_share(x), SHARES_WATCH_BYTES, kube_watch_needs(ask, own));
    struct kube_watch *watch = has_room ? calloc(1, bytes) : NULL;
    if (watch == NULL)
        return NULL;
    if (kube_lens_open(watches->forms, ask->resource, ask->version, &watch->lens) != BELFRY_OK) {
        free(watch);
        return NULL;
    }
    char *to = watch->text;
    watch->key = belfry_pack(&to, key);
    watch->end = belfry_pack(&to, end);
    watch->right_key = subject.len > 0 ? belfry_pack(&to, subject) : watch->key;
    watch->right_end = subject.len > 0 ? (struct belfry_bytes){0} : watch->end;
    watch->namespace = belfry_pack(&to, ask->namespace);
    watch->who = identity_pack(&to, &ask->who);
    watch->client = belfry_pack(&to, client).data;
    watch->watches = watches;
    watch->x = x;
    watch->share = exchange_share(x);
    watch->selector = ask->selector == NULL ? NULL : kube_selector_ref(ask->selector);
    watch->view = ask->view;
    watch->include = ask->options.include;
    watch->filter = ask->filter;
    watch->bookmarks = ask->watch.bookmarks;
    watch->mark_end = ask->watch.mark_end;
    watch->bytes = own;
    belfry_list_init(&watch->inside);
    return watch;
}

/* Without timeoutSeconds each watch lasts for a random time, so that clients do not reconnect all at once. */
static void kube_watch_set_times(struct kube_watch *watch, uint64_t timeout_ms, uint64_t now_ms)
{
    if (timeout_ms == 0)
        timeout_ms = KUBE_WATCH_MS + belfry_rng_below(&watch->watches->rng, KUBE_WATCH_MS);
    watch->opened_ms = now_ms;
    watch->end_ms = watch->ask_ms = BELFRY_NEVER;
    watch->deadline_ms = timeout_ms < BELFRY_NEVER - now_ms ? now_ms + timeout_ms : BELFRY_NEVER - 1;
    watch->farewell_ms = watch->bookmarks && timeout_ms > FAREWELL_MS ? watch->deadline_ms - FAREWELL_MS : BELFRY_NEVER;
    kube_watch_set_due(watch);
}

static void kube_watch_join(struct kube_watch *watch, uint64_t timeout_ms, uint64_t now_ms)
{
    struct kube_watches *watches = watch->watches;
    roster_join(&watches->roster, &watch->roster);
    permit_join(watches->opts.permit, &watch->party, &watch->who, on_kube_watch_party);
    watches->stats.watches++;
    shares_count(watch->share, SHARES_WATCHERS, 0, 1);
    kube_watch_count_bytes(watch, watch->bytes);
    watches->stats.opened++;
    kube_watch_set_times(watch, timeout_ms, now_ms);
    if (!kube_watch_is_current(watch)) /* it was held while the catalog changed */
        kube_watch_end_within(watch, now_ms, now_ms);
}

void kube_watch_open(struct kube_watches *watches, struct exchange *x, const struct kube_ask *ask, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(watches);
    struct kube_status status;
    if (ask->head_only) {
        kube_answer_json(x, belfry_bytes_str("application/json"), (struct belfry_bytes){0}, (struct belfry_bytes){0});
        return;
    }
    struct kube_watch *watch = kube_watch_make(watches, x, ask);
    if (watch == NULL) {
        kube_status_busy(&status, "belfry: memory limit reached");
        watches->stats.too_many++;
        kube_answer_status(x, &status);
        return;
    }
    kube_watch_join(watch, ask->watch.timeout_ms, now_ms);
    exchange_handle(x, &watch_events, watch);
    kube_watch_apply_regime(watch);
    if (ask->watch.state_first || ask->watch.read != KUBE_READ_LATEST)
        kube_watch_say_head(watch); /* otherwise when it is known where it begins */
    if (kube_watch_find_start(watch, ask, &status) == BELFRY_OK)
        return;
    watches->stats.too_many++;
    kube_watch_end_with_error(watch, &status);
}

/* ---- turns ---- */

/* A watch that stays inside a line holds memory that no other can use. Visits a few, the longest unseen first. */
static void look_inside(struct kube_watches *watches, uint64_t now_ms)
{
    if (belfry_list_empty(&watches->inside) || now_ms < watches->look_ms)
        return;
    watches->look_ms = now_ms + LOOK_MS;
    for (size_t n = 0; n < LOOK_MAX && !belfry_list_empty(&watches->inside) && kube_room_is_full(watches->opts.room);
         n++) {
        struct belfry_list *node = belfry_list_pop(&watches->inside);
        struct kube_watch *watch = belfry_container(node, struct kube_watch, inside);
        belfry_list_append(&watches->inside, node);
        if (now_ms < kube_watch_inside_since(watch) + watches->opts.unread_ms)
            continue;
        watches->stats.slow++;
        kube_watch_end(watch);
    }
}

static void log_undecodable(struct kube_watches *watches, uint64_t now_ms)
{
    struct kube_forms_stats forms;
    kube_forms_stats(watches->forms, &forms);
    bool told_lately = watches->undecodable_told > 0 && now_ms < watches->undecodable_told_ms + TELL_MS;
    if (forms.undecodable == watches->undecodable_told || told_lately)
        return;
    belfry_logf(watches->opts.log, BELFRY_LOG_WARN, "kube_undecodable", "n=%llu key=\"%s\"",
                (unsigned long long)(forms.undecodable - watches->undecodable_told), forms.undecodable_key);
    watches->undecodable_told = forms.undecodable;
    watches->undecodable_told_ms = now_ms;
}

void kube_watches_after_turn(struct kube_watches *watches, uint64_t now_ms)
{
    BELFRY_OWNER_CHECK(watches);
    struct kube_watch *watch;
    kube_forms_next_turn(watches->forms);
    while ((watch = watch_of(roster_pop_written(&watches->roster))) != NULL)
        kube_watch_written(watch);
    for (size_t n = 0; n < ROUND_STEP && (watch = watch_of(roster_next_in_round(&watches->roster))) != NULL; n++) {
        if (watches->draining && exchange_conn(watch->x)->leaving)
            kube_watch_end_within(watch, now_ms, watches->drain_end_ms);
        else if (!kube_watch_is_current(watch))
            kube_watch_end_within(watch, now_ms, watches->catalog_end_ms);
        kube_watch_apply_regime(watch);
    }
    for (size_t n = 0; n < TURN_DUE && (watch = watch_of(roster_first_due(&watches->roster))) != NULL; n++) {
        if (watch->roster.due_ms > now_ms)
            break;
        kube_watch_time_has_come(watch, now_ms);
    }
    look_inside(watches, now_ms);
    log_undecodable(watches, now_ms);
}

uint64_t kube_watches_due(const struct kube_watches *watches)
{
    uint64_t due_ms = roster_due(&watches->roster);
    return belfry_list_empty(&watches->inside) ? due_ms : belfry_min_time(due_ms, watches->look_ms);
}

bool kube_watches_are_going_round(const struct kube_watches *watches)
{
    return watches->roster.rounding;
}

static void begin_round(struct kube_watches *watches)
{
    if (watches->stats.watches == 0)
        return;
    roster_begin_round(&watches->roster);
    kube_watches_ask_for_turn(watches);
}

static void on_kube_regime(void *user)
{
    begin_round(user);
}

void kube_watches_set_catalog(struct kube_watches *watches, const struct kube_catalog *catalog)
{
    BELFRY_OWNER_CHECK(watches);
    watches->catalog = catalog;
    watches->catalog_end_ms = watches->opts.now(watches->opts.user) + CATALOG_MS;
    begin_round(watches);
}

void kube_watches_drain(struct kube_watches *watches, uint64_t now_ms, uint64_t drain_ms)
{
    BELFRY_OWNER_CHECK(watches);
    watches->draining = true;
    watches->drain_end_ms = now_ms + drain_ms;
    begin_round(watches);
}

/* ---- create and destroy ---- */

void kube_watches_set_unread_time(struct kube_watches *watches, uint64_t unread_ms)
{
    watches->opts.unread_ms = unread_ms != 0 ? unread_ms : KUBE_INSIDE_MS;
}

enum belfry_err kube_watches_create(const struct kube_watches_opts *opts, struct kube_watches **out)
{
    struct kube_watches *watches = calloc(1, sizeof(*watches));
    if (watches == NULL)
        return BELFRY_ERR_NOMEM;
    watches->opts = *opts;
    kube_watches_set_unread_time(watches, opts->unread_ms);
    watches->rng.state = opts->seed;
    roster_init(&watches->roster);
    belfry_list_init(&watches->inside);
    size_t forms_bytes = opts->forms_bytes != 0 ? opts->forms_bytes : KUBE_FORMS_BYTES;
    enum belfry_err err = kube_forms_create(forms_bytes, opts->seed, &watches->forms);
    if (err != BELFRY_OK) {
        free(watches);
        return err;
    }
    if (opts->rights == KUBE_RIGHTS_RANGE)
        permit_listen(opts->permit, on_kube_regime, watches);
    BELFRY_OWNER_INIT(watches);
    *out = watches;
    return BELFRY_OK;
}

void kube_watches_destroy(struct kube_watches *watches)
{
    if (watches == NULL)
        return;
    BELFRY_OWNER_CHECK(watches);
    for (struct kube_watch *watch; (watch = watch_of(roster_after(&watches->roster, 0))) != NULL;)
        kube_watch_end(watch);
    if (watches->opts.rights == KUBE_RIGHTS_RANGE)
        permit_unlisten(watches->opts.permit, watches);
    kube_forms_destroy(watches->forms);
    free(watches);
}

void kube_watches_set_worker(struct kube_watches *watches, struct worker *worker)
{
    BELFRY_OWNER_CHECK(watches);
    assert(watches->worker == NULL);
    watches->worker = worker;
}

bool kube_watches_attribute(struct kube_watches *watches, const struct batch *batch, uint32_t event,
                            struct belfry_bytes name, struct belfry_bytes *before, struct belfry_bytes *after)
{
    BELFRY_OWNER_CHECK(watches);
    return kube_forms_attribute(watches->forms, batch, event, name, before, after);
}

/* ---- numbers ---- */

void kube_watches_stats(const struct kube_watches *watches, struct kube_watches_stats *out)
{
    struct kube_forms_stats forms;
    kube_forms_stats(watches->forms, &forms);
    *out = watches->stats;
    out->undecodable = forms.undecodable;
    out->skipped = forms.skipped;
    out->forms_made = forms.made;
    out->forms_shared = forms.shared;
    out->forms_bytes = forms.bytes;
}

bool kube_watches_next(const struct kube_watches *watches, uint64_t after, uint64_t *number,
                       struct kube_watch_view *out)
{
    const struct kube_watch *watch = watch_of(roster_after(&watches->roster, after));
    if (watch == NULL)
        return false;
    *number = watch->roster.number;
    *out = (struct kube_watch_view){.stream = watch->stream,
                                    .conn = exchange_conn(watch->x),
                                    .who = &watch->who,
                                    .client = watch->client,
                                    .resource = watch->lens->resource->plural,
                                    .namespace = watch->namespace,
                                    .selector = watch->selector != NULL ? kube_selector_text(watch->selector)
                                                                        : (struct belfry_bytes){0},
                                    .opened_ms = watch->opened_ms,
                                    .sent_bytes = watch->sent_bytes};
    return true;
}
