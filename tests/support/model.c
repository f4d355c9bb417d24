/* tests/support/model.c */
#include "support/model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "wire/rpc.pb-c.h"
#include "wire/write.h"

#define REPLY_EVENTS_MAX 256
#define UNKNOWN_ID       100000

enum watcher_state { SYNCED, UNSYNCED, COMPACTED, CLOSING };

struct watcher {
    struct belfry_list node;
    int64_t id, start, next; /* next: the first revision not looked at */
    enum watcher_state state;
    bool announced, prev_kv, fragment, progress_notify;
    struct model_range range;
    struct belfry_list parked; /* replies, until announced */
};

/* A response before it is encoded. */
struct reply {
    struct belfry_list node;
    struct belfry_wire_watch head;
    bool prev_kv, fragment;
    size_t n;
    const struct model_event *events[REPLY_EVENTS_MAX];
};

struct flight {
    struct belfry_list node;
    struct belfry_blob *message;
};

struct model {
    struct belfry_rng *rng;
    struct model_event events[MODEL_EVENTS_MAX];
    size_t n_events;
    size_t first[MODEL_REVS_MAX + 2]; /* index of a revision's first event; first[head + 1] is n_events */
    size_t now[MODEL_KEYS];           /* index + 1 of the put that holds; 0: not there */
    int64_t head, compacted;
    /* the stream */
    bool open;
    struct model_stream_opts opts;
    int64_t visible, next_id;
    size_t n_queued;
    struct belfry_list watchers, control, queue, wire;
    enum model_plant plant;
    struct model_counts counts;
};

static const char *const keys[MODEL_KEYS] = {"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"};

static void *get(size_t size)
{
    void *p = calloc(1, size);
    if (p == NULL)
        abort();
    return p;
}

static struct watcher *watcher_of(struct belfry_list *node)
{
    return belfry_container(node, struct watcher, node);
}

static struct reply *reply_of(struct belfry_list *node)
{
    return belfry_container(node, struct reply, node);
}

/* ---- the history ---- */

struct model *model_create(struct belfry_rng *rng)
{
    struct model *model = get(sizeof(*model));
    model->rng = rng;
    model->head = MODEL_FIRST_REV - 1;
    belfry_list_init(&model->watchers);
    belfry_list_init(&model->control);
    belfry_list_init(&model->queue);
    belfry_list_init(&model->wire);
    return model;
}

void model_destroy(struct model *model)
{
    model_close(model);
    free(model);
}

int64_t model_head(const struct model *model)
{
    return model->head;
}

int64_t model_compacted(const struct model *model)
{
    return model->compacted;
}

static void begin_revision(struct model *model)
{
    assert(model->head < MODEL_REVS_MAX);
    model->head++;
    model->first[model->head] = model->n_events;
}

static void write_key(struct model *model, int key, bool is_delete)
{
    struct model_event *event = &model->events[model->n_events++];
    size_t prev = model->now[key];
    *event = (struct model_event){.rev = model->head, .key = key, .is_delete = is_delete, .prev = prev};
    if (!is_delete) {
        event->create_rev = prev == 0 ? model->head : model->events[prev - 1].create_rev;
        event->version = prev == 0 ? 1 : model->events[prev - 1].version + 1;
    }
    model->now[key] = is_delete ? 0 : model->n_events;
    model->first[model->head + 1] = model->n_events;
}

void model_write(struct model *model)
{
    size_t n = belfry_rng_below(model->rng, 5) < 3 ? 1 : 1 + belfry_rng_below(model->rng, MODEL_KEYS);
    unsigned done = 0;
    begin_revision(model);
    while (n > 0) {
        int key = (int)belfry_rng_below(model->rng, MODEL_KEYS);
        if (done & 1u << key)
            continue;
        write_key(model, key, model->now[key] != 0 && belfry_rng_below(model->rng, 3) == 0);
        done |= 1u << key;
        n--;
    }
}

void model_write_all(struct model *model)
{
    begin_revision(model);
    for (int key = 0; key < MODEL_KEYS; key++)
        write_key(model, key, false);
}

void model_compact(struct model *model, int64_t rev)
{
    assert(rev <= model->head);
    if (rev <= model->compacted)
        return;
    while (model->open && model->visible < rev)
        model_advance(model); /* a member applies what was written before the compaction first */
    model->compacted = rev;
}

void model_rewind(struct model *model, int64_t rev)
{
    assert(rev <= model->head && rev >= model->compacted && rev >= MODEL_FIRST_REV);
    model_close(model);
    model->head = rev;
    model->n_events = model->first[rev + 1];
    memset(model->now, 0, sizeof(model->now));
    for (size_t i = 0; i < model->n_events; i++)
        model->now[model->events[i].key] = model->events[i].is_delete ? 0 : i + 1;
}

static bool in_range(const struct model_range *range, struct belfry_bytes key)
{
    struct belfry_bytes from = belfry_bytes_of(range->key, range->key_len);
    struct belfry_bytes end = belfry_bytes_of(range->end, range->end_len);
    if (end.len == 0)
        return belfry_bytes_equal(from, key);
    bool open_ended = end.len == 1 && end.data[0] == '\0';
    return belfry_bytes_cmp(key, from) >= 0 && (open_ended || belfry_bytes_cmp(key, end) < 0);
}

size_t model_matching(const struct model *model, const struct model_range *range, int64_t rev,
                      const struct model_event **out)
{
    size_t n = 0;
    if (rev < MODEL_FIRST_REV || rev > model->head)
        return 0;
    for (size_t i = model->first[rev]; i < model->first[rev + 1]; i++) {
        const struct model_event *event = &model->events[i];
        if (!(event->is_delete ? range->no_delete : range->no_put) &&
            in_range(range, belfry_bytes_str(keys[event->key])))
            out[n++] = event;
    }
    return n;
}

bool model_any(const struct model *model, const struct model_range *range, int64_t from, int64_t to)
{
    const struct model_event *found[MODEL_KEYS];
    for (int64_t rev = from; rev <= to; rev++) {
        if (model_matching(model, range, rev, found) > 0)
            return true;
    }
    return false;
}

struct belfry_wire_kv model_kv(const struct model_event *event, char value[MODEL_VALUE_MAX])
{
    struct belfry_wire_kv kv = {.key = belfry_bytes_str(keys[event->key]), .mod_rev = event->rev};
    if (event->is_delete)
        return kv;
    int pad = (int)((event->rev * 31 + event->key * 17) % 40);
    int len = snprintf(value, MODEL_VALUE_MAX, "v%lld.%d.%*s", (long long)event->rev, event->key, pad, "");
    kv.value = belfry_bytes_of(value, (size_t)len);
    kv.create_rev = event->create_rev;
    kv.version = event->version;
    return kv;
}

const struct model_event *model_prev(const struct model *model, const struct model_event *event)
{
    return event->prev == 0 ? NULL : &model->events[event->prev - 1];
}

/* ---- the stream: queues ---- */

static void free_replies(struct belfry_list *list)
{
    struct belfry_list *node;
    while ((node = belfry_list_pop(list)) != NULL)
        free(reply_of(node));
}

static void free_watcher(struct watcher *watcher)
{
    belfry_list_remove(&watcher->node);
    free_replies(&watcher->parked);
    free(watcher);
}

void model_open(struct model *model, const struct model_stream_opts *opts)
{
    assert(!model->open);
    model->open = true;
    model->opts = *opts;
    model->visible = model->head - opts->lag;
    if (model->visible < model->compacted)
        model->visible = model->compacted;
    if (model->visible < MODEL_FIRST_REV - 1)
        model->visible = MODEL_FIRST_REV - 1;
    model->next_id = 0;
}

void model_close(struct model *model)
{
    struct belfry_list *node;
    while (!belfry_list_empty(&model->watchers))
        free_watcher(watcher_of(model->watchers.next));
    free_replies(&model->control);
    free_replies(&model->queue);
    while ((node = belfry_list_pop(&model->wire)) != NULL) {
        struct flight *flight = belfry_container(node, struct flight, node);
        belfry_blob_unref(flight->message);
        free(flight);
    }
    model->n_queued = 0;
    model->open = false;
}

bool model_is_open(const struct model *model)
{
    return model->open;
}

static struct watcher *find_watcher(const struct model *model, int64_t id)
{
    belfry_list_each (node, &model->watchers) {
        if (watcher_of(node)->id == id)
            return watcher_of(node);
    }
    return NULL;
}

static struct reply *new_reply(int64_t id, int64_t revision)
{
    struct reply *reply = get(sizeof(*reply));
    reply->head.watch_id = id;
    reply->head.header = (struct belfry_wire_header){.cluster_id = 7, .member_id = 9, .revision = revision};
    return reply;
}

static struct reply *event_reply(const struct watcher *watcher, int64_t revision)
{
    struct reply *reply = new_reply(watcher->id, revision);
    reply->prev_kv = watcher->prev_kv;
    reply->fragment = watcher->fragment;
    return reply;
}

static bool queue_is_full(const struct model *model)
{
    return model->n_queued >= model->opts.queue_max;
}

static void enqueue(struct model *model, struct reply *reply)
{
    model->n_queued++;
    belfry_list_append(&model->queue, &reply->node);
}

/* ---- the stream: encoding ---- */

static struct belfry_wire_event wire_event(const struct model *model, const struct model_event *event, bool prev_kv,
                                           char value[MODEL_VALUE_MAX], char prev_value[MODEL_VALUE_MAX])
{
    const struct model_event *prev = model_prev(model, event);
    struct belfry_wire_event out = {.is_delete = event->is_delete, .kv = model_kv(event, value)};
    if (prev_kv && prev != NULL && event->rev - 1 >= model->compacted) {
        out.has_prev = true;
        out.prev = model_kv(prev, prev_value);
    }
    return out;
}

static size_t event_bytes(const struct model *model, const struct reply *reply, size_t i)
{
    char value[MODEL_VALUE_MAX], prev_value[MODEL_VALUE_MAX];
    struct belfry_wire_event event = wire_event(model, reply->events[i], reply->prev_kv, value, prev_value);
    size_t len = belfry_write_event_size(&event);
    return belfry_write_event_field_size(len) + len;
}

/* Events [from, to) of a reply as one message on the wire. */
static void emit(struct model *model, const struct reply *reply, size_t from, size_t to, bool fragment)
{
    struct belfry_wire_watch head = reply->head;
    head.fragment = fragment;
    size_t size = belfry_write_watch_head_size(&head);
    for (size_t i = from; i < to; i++)
        size += event_bytes(model, reply, i);
    struct flight *flight = get(sizeof(*flight));
    if (belfry_blob_alloc(size, &flight->message) != BELFRY_OK)
        abort();
    uint8_t *at = belfry_write_watch_head(&head, belfry_blob_edit(flight->message));
    for (size_t i = from; i < to; i++) {
        char value[MODEL_VALUE_MAX], prev_value[MODEL_VALUE_MAX];
        struct belfry_wire_event event = wire_event(model, reply->events[i], reply->prev_kv, value, prev_value);
        at = belfry_write_event_field(belfry_write_event_size(&event), at);
        at = belfry_write_event(&event, at);
    }
    belfry_list_append(&model->wire, &flight->node);
}

static void plant_error(struct model *model, struct reply *reply)
{
    bool is_progress = reply->n == 0 && !reply->head.canceled && !reply->head.created;
    if (model->plant == MODEL_PLANT_PROGRESS ? !is_progress : reply->n == 0)
        return;
    size_t at = reply->n == 0 ? 0 : belfry_rng_below(model->rng, reply->n);
    if (model->plant == MODEL_PLANT_PROGRESS) {
        reply->head.header.revision += 5;
    } else if (model->plant == MODEL_PLANT_DROP) {
        memmove(&reply->events[at], &reply->events[at + 1], (--reply->n - at) * sizeof(reply->events[0]));
    } else if (reply->n < REPLY_EVENTS_MAX) {
        memmove(&reply->events[at + 1], &reply->events[at], (reply->n++ - at) * sizeof(reply->events[0]));
    }
    model->counts.planted++;
    model->plant = MODEL_PLANT_NONE;
}

/* Cuts as etcd does: pieces of less than the limit, of at least one event each. */
static void emit_cut(struct model *model, struct reply *reply, bool may_cut)
{
    size_t had = reply->n;
    if (model->plant != MODEL_PLANT_NONE)
        plant_error(model, reply);
    if (had > 0 && reply->n == 0)
        return; /* its only event was dropped */
    size_t from = 0, size = 0;
    for (size_t i = 0; may_cut && reply->fragment && i < reply->n; i++) {
        size_t len = event_bytes(model, reply, i);
        if (i > from && size + len >= model->opts.fragment_bytes) {
            emit(model, reply, from, i, true);
            model->counts.fragmented++;
            from = i;
            size = 0;
        }
        size += len;
    }
    emit(model, reply, from, reply->n, false);
}

/* ---- the stream: sending ---- */

static void flush_parked(struct model *model, struct watcher *watcher)
{
    struct belfry_list *node;
    while ((node = belfry_list_pop(&watcher->parked)) != NULL) {
        emit_cut(model, reply_of(node), false);
        model->counts.parked_flushes++;
        free(reply_of(node));
    }
}

static void send_control(struct model *model)
{
    struct reply *reply = reply_of(belfry_list_pop(&model->control));
    struct watcher *watcher = find_watcher(model, reply->head.watch_id);
    emit(model, reply, 0, 0, false);
    if (reply->head.created) {
        watcher->announced = true;
        flush_parked(model, watcher);
    } else {
        free_watcher(watcher); /* what is still queued of it finds nobody */
    }
    free(reply);
}

static bool any_unannounced(const struct model *model)
{
    belfry_list_each (node, &model->watchers) {
        if (!watcher_of(node)->announced)
            return true;
    }
    return false;
}

static void send_queued(struct model *model)
{
    struct reply *reply = reply_of(belfry_list_pop(&model->queue));
    int64_t id = reply->head.watch_id;
    model->n_queued--;
    struct watcher *watcher = find_watcher(model, id);
    if (watcher != NULL && !watcher->announced) {
        belfry_list_append(&watcher->parked, &reply->node);
        return;
    }
    if (watcher == NULL && id >= 0 && id < UNKNOWN_ID) {
        model->counts.dropped_by_cancel++;
    } else {
        model->counts.progress_before_created += id == -1 && any_unannounced(model);
        emit_cut(model, reply, true);
        if (watcher != NULL && reply->head.canceled && reply->head.compact_revision == 0)
            free_watcher(watcher);
    }
    free(reply);
}

bool model_send(struct model *model)
{
    bool control = !belfry_list_empty(&model->control), queued = !belfry_list_empty(&model->queue);
    if (!control && !queued)
        return false;
    if (control && (!queued || belfry_rng_below(model->rng, 2) == 0))
        send_control(model);
    else
        send_queued(model);
    return true;
}

struct belfry_blob *model_receive(struct model *model)
{
    struct belfry_list *node = belfry_list_pop(&model->wire);
    if (node == NULL)
        return NULL;
    struct flight *flight = belfry_container(node, struct flight, node);
    struct belfry_blob *message = flight->message;
    free(flight);
    return message;
}

/* ---- the stream: requests ---- */

static void copy_bytes(char *to, size_t *to_len, const ProtobufCBinaryData *from)
{
    assert(from->len <= 4);
    if (from->len > 0)
        memcpy(to, from->data, from->len);
    *to_len = from->len;
}

static void on_create(struct model *model, const Etcdserverpb__WatchCreateRequest *request)
{
    struct watcher *watcher = get(sizeof(*watcher));
    belfry_list_init(&watcher->parked);
    copy_bytes(watcher->range.key, &watcher->range.key_len, &request->key);
    copy_bytes(watcher->range.end, &watcher->range.end_len, &request->range_end);
    for (size_t i = 0; i < request->n_filters; i++) {
        if (request->filters[i] == ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT)
            watcher->range.no_put = true;
        else
            watcher->range.no_delete = true;
    }
    watcher->id = model->next_id++;
    watcher->start = request->start_revision == 0 ? model->visible + 1 : request->start_revision;
    watcher->next = watcher->start;
    watcher->state = watcher->start > model->visible ? SYNCED : UNSYNCED;
    if (watcher->state == UNSYNCED && watcher->start - model->opts.repeats >= model->compacted)
        watcher->next = watcher->start - model->opts.repeats;
    watcher->prev_kv = request->prev_kv;
    watcher->fragment = request->fragment;
    watcher->progress_notify = request->progress_notify;
    belfry_list_append(&model->watchers, &watcher->node);
    struct reply *reply = new_reply(watcher->id, model->visible);
    reply->head.created = true;
    belfry_list_append(&model->control, &reply->node);
}

static struct reply *close_watcher(struct model *model, struct watcher *watcher)
{
    watcher->state = CLOSING;
    struct reply *reply = new_reply(watcher->id, model->visible);
    reply->head.canceled = true;
    return reply;
}

static void on_progress_request(struct model *model)
{
    size_t n = 0;
    bool all = !queue_is_full(model);
    belfry_list_each (node, &model->watchers) {
        const struct watcher *watcher = watcher_of(node);
        if (watcher->state == CLOSING)
            continue;
        n++;
        all = all && watcher->state == SYNCED && watcher->start <= model->visible;
    }
    if (!all || n == 0) {
        model->counts.progress_refused++;
        return;
    }
    enqueue(model, new_reply(-1, model->visible));
    model->counts.progress_all++;
}

void model_request(struct model *model, struct belfry_bytes request)
{
    Etcdserverpb__WatchRequest *message =
        etcdserverpb__watch_request__unpack(NULL, request.len, (const uint8_t *)request.data);
    if (message == NULL)
        abort();
    if (message->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST) {
        on_create(model, message->create_request);
    } else if (message->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST) {
        struct watcher *watcher = find_watcher(model, message->cancel_request->watch_id);
        if (watcher != NULL && watcher->state != CLOSING)
            belfry_list_append(&model->control, &close_watcher(model, watcher)->node);
    } else {
        on_progress_request(model);
    }
    etcdserverpb__watch_request__free_unpacked(message, NULL);
}

/* ---- the stream: events ---- */

static void notify(struct model *model, struct watcher *watcher)
{
    const struct model_event *found[MODEL_KEYS];
    size_t n = model_matching(model, &watcher->range, model->visible, found);
    if (n > 0 && queue_is_full(model)) {
        watcher->state = UNSYNCED;
        watcher->next = model->visible;
        model->counts.victims++;
        return;
    }
    watcher->next = model->visible + 1;
    if (n == 0)
        return;
    struct reply *reply = event_reply(watcher, model->visible);
    memcpy(reply->events, found, n * sizeof(found[0]));
    reply->n = n;
    enqueue(model, reply);
    model->counts.live++;
}

void model_advance(struct model *model)
{
    if (model->visible >= model->head)
        return;
    model->visible++;
    belfry_list_each (node, &model->watchers) {
        struct watcher *watcher = watcher_of(node);
        if (watcher->state == SYNCED && watcher->next <= model->visible)
            notify(model, watcher);
    }
}

static void cancel_compacted(struct model *model, struct watcher *watcher)
{
    struct reply *reply = new_reply(watcher->id, 0);
    reply->head.header = (struct belfry_wire_header){0};
    reply->head.canceled = true;
    reply->head.compact_revision = model->compacted;
    watcher->state = COMPACTED;
    enqueue(model, reply);
    model->counts.compact_cancels++;
}

static void replay_one(struct model *model, struct watcher *watcher)
{
    struct reply *reply = event_reply(watcher, model->visible);
    int revs = 0;
    while (watcher->next <= model->visible && revs < model->opts.replay_revs) {
        size_t n = model_matching(model, &watcher->range, watcher->next++, reply->events + reply->n);
        reply->n += n;
        revs += n > 0;
    }
    assert(reply->n <= REPLY_EVENTS_MAX);
    if (watcher->next > model->visible)
        watcher->state = SYNCED;
    if (reply->n == 0) {
        free(reply);
        return;
    }
    enqueue(model, reply);
    model->counts.replays++;
}

void model_replay(struct model *model)
{
    belfry_list_each (node, &model->watchers) {
        struct watcher *watcher = watcher_of(node);
        if (watcher->state != UNSYNCED || queue_is_full(model) || belfry_rng_below(model->rng, 3) == 0)
            continue;
        if (watcher->next < watcher->start && watcher->next < model->compacted)
            watcher->next = watcher->start; /* nothing to repeat any more */
        if (watcher->next < model->compacted)
            cancel_compacted(model, watcher);
        else
            replay_one(model, watcher);
    }
}

void model_tick(struct model *model)
{
    belfry_list_each (node, &model->watchers) {
        const struct watcher *watcher = watcher_of(node);
        if (!watcher->progress_notify || watcher->state != SYNCED || watcher->start > model->visible ||
            queue_is_full(model))
            continue;
        enqueue(model, new_reply(watcher->id, model->visible));
        model->counts.progress_one++;
    }
}

/* ---- bad manners ---- */

void model_inject_unknown(struct model *model)
{
    if (model->visible < MODEL_FIRST_REV)
        return;
    struct reply *reply = new_reply(UNKNOWN_ID + (int64_t)belfry_rng_below(model->rng, 3), model->visible);
    reply->n = 1;
    reply->events[0] = &model->events[model->first[model->visible]];
    enqueue(model, reply);
}

bool model_inject_cancel(struct model *model)
{
    belfry_list_each (node, &model->watchers) {
        struct watcher *watcher = watcher_of(node);
        if (!watcher->announced || watcher->state == CLOSING || watcher->state == COMPACTED ||
            belfry_rng_below(model->rng, 2) == 0)
            continue;
        enqueue(model, close_watcher(model, watcher)); /* behind its events, before later progress of all */
        return true;
    }
    return false;
}

void model_plant(struct model *model, enum model_plant plant)
{
    model->plant = plant;
}

const struct model_counts *model_counts(const struct model *model)
{
    return &model->counts;
}
