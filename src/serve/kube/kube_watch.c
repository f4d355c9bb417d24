/* src/serve/kube/kube_watch.c: a watch, from the head of its response to the clean end of its body.
 *
 *     NEW --state first--> STATE --all written--.
 *      |  `--from where upstream is--> FENCING --+--> LIVE --lost, deadline, drain, another catalog--> ended
 *      `---------- from a revision -------------´
 *
 * The head is sent before anything is waited for: clients give up on one that does not come. So whatever fails behind
 * it is told as an ERROR line. A body ends cleanly, because informers take a connection that breaks for an error; and
 * behind the last line of a revision, because a client that goes on from inside of one is given all of it again. Only
 * half a line that nobody takes is cut off.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "core/watcher.h"
#include "serve/kube/kube_answer.h"
#include "serve/kube/kube_private.h"

#define FAREWELL_MS       2000 /* before the deadline: the last bookmark */
#define GRACE_MS          5000 /* for what has been begun when the time to end has come */
#define ENDING_LOOK_MS    100  /* between two looks whether it is out: its last event may be nothing for this watch */
#define H2_INTERNAL_ERROR 2

static void move(struct kube_watch *watch, enum kube_watch_state to)
{
    assert(to > watch->state);
    watch->state = to;
}

/* ---- orders, and times ---- */

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

int kube_order_number(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    return compare(belfry_container_const(a, struct kube_watch, by_number)->number,
                   belfry_container_const(b, struct kube_watch, by_number)->number);
}

int kube_order_due(const struct belfry_treap_node *a, const struct belfry_treap_node *b)
{
    const struct kube_watch *x = belfry_container_const(a, struct kube_watch, by_due);
    const struct kube_watch *y = belfry_container_const(b, struct kube_watch, by_due);
    int order = compare(x->due_ms, y->due_ms);
    return order != 0 ? order : compare(x->number, y->number);
}

static void leave_due(struct kube_watch *watch)
{
    if (watch->due_ms != BELFRY_NEVER)
        belfry_treap_remove(&watch->service->by_due, &watch->by_due, kube_order_due);
    watch->due_ms = BELFRY_NEVER;
}

static void set_due(struct kube_watch *watch)
{
    leave_due(watch);
    watch->due_ms = belfry_min_time(belfry_min_time(watch->deadline_ms, watch->end_ms), watch->farewell_ms);
    belfry_treap_insert(&watch->service->by_due, &watch->by_due, kube_order_due);
}

/* ---- ending ---- */

static void unpin(struct kube_watch *watch)
{
    struct kube_pin pin;
    if (watch->pinned && kube_selector_pin(watch->selector, &pin))
        kube_lens_unpin(watch->service->forms, watch->lens, &pin);
    watch->pinned = false;
}

/* Everything but the exchange, which has had its last word, or its loss. */
static void let_go(struct kube_watch *watch)
{
    struct kube_service *service = watch->service;
    if (watch->wait != NULL)
        fence_cancel(watch->wait);
    if (watch->list != NULL)
        kube_list_cancel(watch->list);
    if (watch->stream != NULL)
        stream_close(service->worker, watch->stream);
    leave_due(watch);
    belfry_treap_remove(&service->by_number, &watch->by_number, kube_order_number);
    belfry_list_remove(&watch->wrote);
    belfry_list_remove(&watch->inside);
    unpin(watch);
    kube_lens_close(service->forms, watch->lens);
    kube_selector_unref(watch->selector);
    service->stats.watches--;
    service->stats.bytes -= watch->bytes;
    kube_work(service); /* the core has its watcher to take down */
    free(watch);
}

uint64_t kube_watch_inside_since(const struct kube_watch *watch)
{
    size_t bytes;
    return watch->stream == NULL ? 0 : stream_inside_since(watch->stream, &bytes);
}

/* Has the revision that was told last more for this watch, or may it have? */
static bool is_inside_revision(const struct kube_watch *watch)
{
    struct watcher_view view;
    return watch->stream != NULL && stream_watcher(watch->service->worker, watch->stream, INT64_MIN, &view) &&
           !view.ended && view.next <= watch->told_rev;
}

static bool is_inside(const struct kube_watch *watch)
{
    return kube_watch_inside_since(watch) != 0 || is_inside_revision(watch);
}

/* A client that has seen the head expects every change from then on. */
static void say_head(struct kube_watch *watch)
{
    if (!watch->headed)
        kube_answer_begin(watch->x);
    watch->headed = true;
}

static void write_line(struct kube_watch *watch, const struct belfry_buf *line)
{
    struct belfry_bytes bytes = belfry_buf_bytes(line);
    exchange_write(watch->x, bytes.data, bytes.len);
}

/* It goes straight out: nothing of the core's is begun. */
static void write_error(struct kube_watch *watch, const struct kube_status *status)
{
    struct belfry_buf line;
    belfry_buf_init(&line);
    say_head(watch);
    if (status->reason == KUBE_EXPIRED)
        watch->service->stats.expired++;
    if (kube_render_error(status, &line) == BELFRY_OK)
        write_line(watch, &line);
    belfry_buf_fini(&line);
}

/* Does the body end in a whole line, or can it be made to? */
static bool end_line(struct kube_watch *watch)
{
    return watch->list != NULL ? kube_list_end_line(watch->list) : kube_watch_inside_since(watch) == 0;
}

static void say_last(struct kube_watch *watch)
{
    struct kube_status status;
    if (!end_line(watch)) {
        exchange_reset(watch->x, H2_INTERNAL_ERROR);
        return;
    }
    if (is_inside_revision(watch)) {
        kube_status_set(&status, KUBE_EXPIRED, "the watch ends inside of revision %lld: list anew",
                        (long long)watch->told_rev);
        write_error(watch, &status);
    }
    say_head(watch);
    exchange_end(watch->x, NULL, 0);
}

void kube_watch_end(struct kube_watch *watch)
{
    belfry_logf(watch->service->opts.log, BELFRY_LOG_DEBUG, "kube_watch_end", "peer=%s sent=%llu",
                exchange_conn(watch->x)->peer, (unsigned long long)watch->sent_bytes);
    say_last(watch);
    let_go(watch);
}

/* Where nothing comes from the core yet. */
static void end_with_error(struct kube_watch *watch, const struct kube_status *status)
{
    if (end_line(watch))
        write_error(watch, status);
    kube_watch_end(watch);
}

/* What has been begun is finished first, if it can be soon. From now on the core is given nothing else. */
static void end_soon(struct kube_watch *watch, uint64_t now_ms)
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
    set_due(watch);
}

void kube_watch_due(struct kube_watch *watch, uint64_t now_ms)
{
    if (watch->ending || watch->deadline_ms <= now_ms || watch->end_ms <= now_ms) {
        end_soon(watch, now_ms);
        return;
    }
    watch->farewell_ms = BELFRY_NEVER;
    set_due(watch);
    if (watch->state != KUBE_WATCH_LIVE)
        return;
    stream_progress(watch->service->worker, watch->stream);
    kube_work(watch->service);
}

void kube_watch_end_within(struct kube_watch *watch, uint64_t now_ms, uint64_t end_ms)
{
    if (watch->end_ms <= end_ms || watch->ending)
        return;
    uint64_t left = end_ms > now_ms ? end_ms - now_ms : 0;
    watch->end_ms = now_ms + belfry_rng_below(&watch->service->rng, left + 1);
    set_due(watch);
}

bool kube_watch_is_current(const struct kube_watch *watch)
{
    const struct kube_resource *resource = watch->lens->resource, *served;
    const struct kube_version *version;
    const struct kube_catalog *catalog = watch->service->catalog;
    return catalog != NULL &&
           kube_catalog_find(catalog, belfry_bytes_str(resource->group), belfry_bytes_str(watch->lens->version->name),
                             belfry_bytes_str(resource->plural), &served, &version) &&
           served == resource;
}

/* ---- writing ---- */

static void on_write(void *stream_user, const uint8_t *data, size_t len)
{
    struct kube_watch *watch = stream_user;
    assert(len <= watch->told);
    watch->told -= len;
    watch->sent_bytes += len;
    exchange_write(watch->x, data, len);
    if (belfry_list_empty(&watch->wrote))
        belfry_list_append(&watch->service->wrote, &watch->wrote);
}

static void tell_room(struct kube_watch *watch)
{
    size_t room = exchange_room(watch->x);
    if (room == watch->told)
        return;
    watch->told = room;
    stream_writable(watch->service->worker, watch->stream, room);
    kube_work(watch->service);
}

/* Who is inside a line is looked after. */
static void note_inside(struct kube_watch *watch)
{
    bool inside = kube_watch_inside_since(watch) != 0;
    if (!inside)
        belfry_list_remove(&watch->inside);
    else if (belfry_list_empty(&watch->inside))
        belfry_list_append(&watch->service->inside, &watch->inside);
}

void kube_watch_wrote(struct kube_watch *watch)
{
    note_inside(watch);
    bool is_out = stream_ended(watch->stream) && !stream_pending(watch->stream);
    if (is_out)
        watch->service->stats.expired++;
    if (is_out || (watch->ending && !is_inside(watch)))
        kube_watch_end(watch);
    else if (watch->told < EXCHANGE_ROOM_LOW)
        tell_room(watch);
}

/* ---- lines, for the core ---- */

/* The prefix of a range may cover other namespaces. */
static bool is_elsewhere(const struct kube_watch *watch, struct belfry_bytes key)
{
    struct belfry_bytes namespace, name;
    return watch->filter && (!kube_resource_parts(watch->lens->resource, key, &namespace, &name) ||
                             !belfry_bytes_equal(namespace, watch->namespace));
}

/* The first event that is told; it may be asked for again, when there was no room. */
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

static enum belfry_err on_event(void *stream_user, const struct batch *batch, uint32_t event, struct belfry_blob **out)
{
    struct kube_watch *watch = stream_user;
    struct kube_service *service = watch->service;
    const struct kube_change *change;
    bool told = false;
    *out = NULL;
    if (watch->ending && batch->rev > watch->told_rev) /* it is for who comes back */
        return BELFRY_OK;
    if (is_elsewhere(watch, batch_key(batch, &batch->events[event])))
        return BELFRY_OK;
    struct kube_line line = {
        .view = watch->view, .include = watch->include, .first = defines_columns(watch, batch, event)};
    enum belfry_err err = kube_forms_change(service->forms, watch->lens, batch, event, &change);
    if (err == BELFRY_OK)
        err =
            kube_change_told(change, watch->selector, watch->resumed && batch->rev == watch->from, &told, &line.event);
    if (err != BELFRY_OK || !told)
        return err;
    err = kube_forms_line(service->forms, watch->lens, change, &line, out);
    if (err != BELFRY_OK)
        return err;
    note_told(watch, batch, event);
    service->stats.lines++;
    return BELFRY_OK;
}

/* What was written to `line` becomes what is handed over. */
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

static enum belfry_err on_progress(void *stream_user, int64_t rev, struct belfry_blob **out)
{
    struct kube_watch *watch = stream_user;
    struct belfry_buf line;
    *out = NULL;
    if (!watch->bookmarks || watch->ending)
        return BELFRY_OK;
    belfry_buf_init(&line);
    enum belfry_err err = hand_over(&line, write_bookmark(watch, rev, false, &line), out);
    if (err == BELFRY_OK)
        watch->service->stats.bookmarks++;
    return err;
}

static enum belfry_err on_lost(void *stream_user, int64_t compact_rev, struct belfry_blob **out)
{
    struct kube_watch *watch = stream_user;
    struct kube_status status;
    struct belfry_buf line;
    kube_status_expired(&status, watch->from, compact_rev); /* a watch from there receives that revision first */
    belfry_buf_init(&line);
    return hand_over(&line, kube_render_error(&status, &line), out);
}

static const struct lines watch_lines = {
    .event = on_event, .progress = on_progress, .lost = on_lost, .write = on_write};

/* ---- going live ---- */

static void on_writable(struct exchange *x, void *user)
{
    struct kube_watch *watch = user;
    (void)x;
    if (watch->state == KUBE_WATCH_LIVE)
        tell_room(watch);
}

static void on_gone(struct exchange *x, void *user)
{
    (void)x;
    let_go(user);
}

static const struct exchange_events watch_events = {
    .body = exchange_drop_body, .body_end = exchange_ignore, .writable = on_writable, .gone = on_gone};

static enum belfry_err create(struct kube_watch *watch, const struct kube_pin *pin)
{
    struct kube_service *service = watch->service;
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
        err = stream_create(service->worker, watch->stream, &create);
    belfry_buf_fini(&name);
    return err;
}

/* Into the core: from `from` on it is given everything. */
static enum belfry_err open_stream(struct kube_watch *watch, uint64_t now_ms)
{
    struct kube_service *service = watch->service;
    struct kube_pin pin;
    watch->pinned = watch->selector != NULL && kube_selector_pin(watch->selector, &pin) &&
                    kube_lens_pin(service->forms, watch->lens, &pin);
    enum belfry_err err = stream_open_lines(service->worker, watch, &watch_lines, now_ms, &watch->stream);
    if (err != BELFRY_OK)
        return err;
    stream_set_progress(service->worker, watch->stream, KUBE_BOOKMARK_MS);
    return create(watch, watch->pinned ? &pin : NULL);
}

static void go_live(struct kube_watch *watch, int64_t from)
{
    watch->from = from;
    say_head(watch);
    if (open_stream(watch, kube_now(watch->service)) != BELFRY_OK) {
        struct kube_status status;
        watch->service->stats.too_many++;
        kube_status_busy(&status, "belfry: memory limit reached");
        end_with_error(watch, &status);
        return;
    }
    move(watch, KUBE_WATCH_LIVE);
    tell_room(watch);
}

/* ---- where it begins ---- */

static void on_fence(enum belfry_err err, int64_t rev, void *user)
{
    struct kube_watch *watch = user;
    struct kube_status status;
    watch->wait = NULL;
    if (err == BELFRY_OK) {
        go_live(watch, rev);
        return;
    }
    if (err == BELFRY_ERR_AUTH)
        kube_status_set(&status, KUBE_UNAUTHORIZED, "Unauthorized");
    else if (err == BELFRY_ERR_DENIED)
        kube_status_set(&status, KUBE_FORBIDDEN, "upstream does not allow these keys to this user");
    else
        kube_status_set(&status, KUBE_TIMEOUT, "upstream did not say where it is: %s", belfry_strerror(err));
    if (err != BELFRY_ERR_AUTH && err != BELFRY_ERR_DENIED)
        status.retry_after_s = 1;
    end_with_error(watch, &status);
}

static uint64_t count_cuts(const struct kube_watch *watch)
{
    struct worker_stats core;
    worker_stats(watch->service->worker, &core);
    return core.cuts;
}

/* The core knows nothing of a state that was read in a past that has ended meanwhile: revisions of the new one may be
 * lower, and would be waited for in silence. */
static bool is_of_another_past(const struct kube_watch *watch)
{
    return watch->cuts != count_cuts(watch);
}

/* Everything of the state is out: the bookmark that says so, and on from there. */
static void on_state(void *user, enum belfry_err err, const struct kube_status *status, int64_t rev)
{
    struct kube_watch *watch = user;
    struct belfry_buf line;
    struct kube_status expired;
    bool whole = err == BELFRY_ERR_CANCELED || kube_list_end_line(watch->list);
    watch->list = NULL;
    if (err == BELFRY_ERR_CANCELED) {
        let_go(watch);
        return;
    }
    if (!whole) {
        exchange_reset(watch->x, H2_INTERNAL_ERROR);
        let_go(watch);
        return;
    }
    exchange_handle(watch->x, &watch_events, watch);
    if (err == BELFRY_OK && is_of_another_past(watch)) {
        kube_status_expired(&expired, rev, worker_position(watch->service->worker));
        err = BELFRY_ERR_COMPACTED;
        status = &expired;
    }
    if (err != BELFRY_OK) {
        end_with_error(watch, status);
        return;
    }
    belfry_buf_init(&line);
    if (watch->mark_end && watch->bookmarks && write_bookmark(watch, rev, true, &line) != BELFRY_OK) {
        belfry_buf_fini(&line);
        kube_watch_end(watch); /* no memory: without the mark the client would wait for it */
        return;
    }
    write_line(watch, &line);
    belfry_buf_fini(&line);
    go_live(watch, rev);
}

/* The end of the watch is no fault of its state's, and is not told as one: it comes first. */
static uint64_t state_deadline(const struct kube_watch *watch)
{
    uint64_t own_ms = watch->opened_ms + KUBE_LIST_MS;
    return watch->deadline_ms <= own_ms ? watch->deadline_ms + GRACE_MS : own_ms;
}

/* The state is rows of this range, in events. */
static enum belfry_err begin_state(struct kube_watch *watch, const struct kube_call *call, struct kube_status *status)
{
    struct kube_list_ask ask = {.x = watch->x,
                                .resource = call->resource,
                                .version = call->version,
                                .selector = call->selector,
                                .namespace = call->namespace,
                                .name = call->name,
                                .view = call->view,
                                .include = call->options.include,
                                .as = KUBE_PAGE_EVENTS,
                                .plan = {.read = call->watch.read, .rev = call->watch.rev},
                                .who = call->who,
                                .deadline_ms = state_deadline(watch),
                                .done = on_state,
                                .user = watch};
    watch->cuts = count_cuts(watch);
    move(watch, KUBE_WATCH_STATE);
    return kube_list_begin(watch->service->opts.lists, &ask, &watch->list, status);
}

/* Finds out where it begins. Errors: there is no room for one more; *status says so. */
static enum belfry_err begin(struct kube_watch *watch, const struct kube_call *call, struct kube_status *status)
{
    struct kube_service *service = watch->service;
    enum belfry_err err = BELFRY_OK;
    kube_status_busy(status, "belfry: too many watches begin at once");
    if (call->watch.state_first) {
        err = begin_state(watch, call, status);
    } else if (call->watch.read == KUBE_READ_LATEST) {
        move(watch, KUBE_WATCH_FENCING);
        err = fence_ask(service->opts.fence, &call->who, watch->key, on_fence, watch, &watch->wait);
    } else if (call->watch.read == KUBE_READ_ANY) {
        go_live(watch, worker_position(service->worker));
    } else { /* a list had this version, or an event: of a revision that the client may have a part of */
        watch->resumed = true;
        go_live(watch, call->watch.rev);
    }
    return err;
}

/* ---- opening ---- */

static struct belfry_bytes keep(char **to, struct belfry_bytes bytes)
{
    struct belfry_bytes kept = {*to, bytes.len};
    if (bytes.len > 0)
        memcpy(*to, bytes.data, bytes.len);
    *to += bytes.len + 1;
    return kept;
}

static struct kube_watch *make(const struct kube_call *call)
{
    struct belfry_bytes key = belfry_buf_bytes(&call->key), end = belfry_buf_bytes(&call->end);
    struct belfry_bytes client = belfry_bytes_str(call->client);
    size_t bytes = sizeof(struct kube_watch) + key.len + end.len + call->namespace.len + client.len + 4;
    struct kube_watch *watch = kube_is_over_memory(call->service) ? NULL : calloc(1, bytes);
    if (watch == NULL)
        return NULL;
    watch->bytes = bytes + (call->selector == NULL ? 0 : kube_selector_bytes(call->selector));
    if (kube_lens_open(call->service->forms, call->resource, call->version, &watch->lens) != BELFRY_OK) {
        free(watch);
        return NULL;
    }
    char *to = watch->text;
    watch->key = keep(&to, key);
    watch->end = keep(&to, end);
    watch->namespace = keep(&to, call->namespace);
    watch->client = keep(&to, client).data;
    watch->service = call->service;
    watch->x = call->x;
    watch->selector = call->selector == NULL ? NULL : kube_selector_ref(call->selector);
    watch->view = call->view;
    watch->include = call->options.include;
    watch->filter = call->filter;
    watch->bookmarks = call->watch.bookmarks;
    watch->mark_end = call->watch.mark_end;
    belfry_list_init(&watch->wrote);
    belfry_list_init(&watch->inside);
    return watch;
}

/* A client without a wish of its own gets a time that others do not get, so that they do not all come back at once. */
static void set_times(struct kube_watch *watch, const struct kube_watch_plan *plan, uint64_t now_ms)
{
    struct kube_service *service = watch->service;
    uint64_t lasts = plan->timeout_ms;
    if (lasts == 0)
        lasts = KUBE_WATCH_MS + belfry_rng_below(&service->rng, KUBE_WATCH_MS);
    watch->opened_ms = now_ms;
    watch->end_ms = watch->due_ms = BELFRY_NEVER;
    watch->deadline_ms = lasts < BELFRY_NEVER - now_ms ? now_ms + lasts : BELFRY_NEVER - 1;
    watch->farewell_ms = watch->bookmarks && lasts > FAREWELL_MS ? watch->deadline_ms - FAREWELL_MS : BELFRY_NEVER;
    set_due(watch);
}

static void enter(struct kube_watch *watch, const struct kube_watch_plan *plan, uint64_t now_ms)
{
    struct kube_service *service = watch->service;
    watch->number = ++service->numbers;
    belfry_treap_insert(&service->by_number, &watch->by_number, kube_order_number);
    service->stats.watches++;
    service->stats.bytes += watch->bytes;
    service->stats.opened++;
    set_times(watch, plan, now_ms);
    if (!kube_watch_is_current(watch)) /* it was held while the catalog changed */
        kube_watch_end_within(watch, now_ms, now_ms);
}

void kube_watch_open(struct kube_call *call, uint64_t now_ms)
{
    struct kube_status status;
    if (call->head_only) {
        kube_answer_json(call->x, belfry_bytes_str("application/json"), (struct belfry_bytes){0},
                         (struct belfry_bytes){0});
        return;
    }
    struct kube_watch *watch = make(call);
    if (watch == NULL) {
        kube_status_busy(&status, "belfry: memory limit reached");
        call->service->stats.too_many++;
        kube_answer_status(call->x, &status);
        return;
    }
    enter(watch, &call->watch, now_ms);
    exchange_handle(watch->x, &watch_events, watch);
    if (call->watch.state_first || call->watch.read != KUBE_READ_LATEST)
        say_head(watch); /* else when it is known where it begins */
    if (begin(watch, call, &status) == BELFRY_OK)
        return;
    call->service->stats.too_many++;
    end_with_error(watch, &status);
}
