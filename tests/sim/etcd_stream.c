/* tests/sim/etcd_stream.c: one Watch stream of the model of etcd. */
#include <assert.h>
#include <stdlib.h>

#include "sim/etcd_private.h"
#include "wire/rpc.pb-c.h"
#include "wire/write.h"

#define ALL_WATCHES  (-1)
#define ADVANCE_ODDS 8 /* a create in so many is overtaken by a revision before its header is read */
#define SKIP_ODDS    3 /* a replay pass leaves out a watcher in so many */

static struct watch *watch_of(struct belfry_list *node)
{
    return belfry_container(node, struct watch, node);
}

static struct reply *reply_of(struct belfry_list *node)
{
    return belfry_container(node, struct reply, node);
}

static const struct history *history_of(const struct etcd_stream *stream)
{
    return stream->etcd->history;
}

static struct etcd_counts *counts(struct etcd_stream *stream)
{
    return &stream->etcd->counts;
}

/* ---- replies ---- */

static struct reply *new_reply(const struct etcd_stream *stream, int64_t id, int64_t revision)
{
    struct reply *reply = etcd_alloc(sizeof(*reply));
    reply->head.watch_id = id;
    reply->head.header = etcd_header(stream->member, revision);
    return reply;
}

static void free_reply(struct reply *reply)
{
    if (reply == NULL)
        return;
    free(reply->events);
    free(reply);
}

static void free_replies(struct belfry_list *list)
{
    struct belfry_list *node;
    while ((node = belfry_list_pop(list)) != NULL)
        free_reply(reply_of(node));
}

static void add_event(struct reply *reply, const struct history_event *event)
{
    if (reply->n == reply->cap) {
        reply->cap = reply->cap == 0 ? 8 : reply->cap * 2;
        reply->events = realloc(reply->events, reply->cap * sizeof(reply->events[0]));
        if (reply->events == NULL)
            abort();
    }
    reply->events[reply->n++] = event;
}

/* All of a revision that the watch wants. */
static void add_matching(struct reply *reply, const struct watch *watch, const struct history_revision *revision)
{
    for (size_t i = 0; i < revision->n; i++) {
        const struct history_event *event = &revision->events[i];
        if ((event->is_delete ? watch->deletes : watch->puts) >> event->key & 1)
            add_event(reply, event);
    }
}

static struct reply *event_reply(const struct etcd_stream *stream, const struct watch *watch)
{
    struct reply *reply = new_reply(stream, watch->id, stream->member->visible);
    reply->prev_kv = watch->prev_kv;
    reply->fragment = watch->fragment;
    return reply;
}

static bool queue_is_full(const struct etcd_stream *stream)
{
    return stream->n_queued >= stream->etcd->opts.queue_max;
}

static void enqueue(struct etcd_stream *stream, struct reply *reply)
{
    stream->n_queued++;
    belfry_list_append(&stream->queue, &reply->node);
}

/* ---- open, close ---- */

struct etcd_stream *etcd_stream_open(struct etcd *etcd, unsigned member)
{
    assert(member < etcd->opts.members);
    if (!etcd->members[member].up)
        return NULL;
    struct etcd_stream *stream = etcd_alloc(sizeof(*stream));
    stream->etcd = etcd;
    stream->member = &etcd->members[member];
    belfry_list_init(&stream->watches);
    belfry_list_init(&stream->control);
    belfry_list_init(&stream->queue);
    belfry_list_init(&stream->wire);
    belfry_list_append(&etcd->streams, &stream->node);
    return stream;
}

static void free_watch(struct watch *watch)
{
    belfry_list_remove(&watch->node);
    free_replies(&watch->parked);
    free_reply(watch->victim);
    free(watch);
}

void etcd_stream_break(struct etcd_stream *stream)
{
    struct belfry_list *node;
    stream->broken = true;
    while (!belfry_list_empty(&stream->watches))
        free_watch(watch_of(stream->watches.next));
    free_replies(&stream->control);
    free_replies(&stream->queue);
    while ((node = belfry_list_pop(&stream->wire)) != NULL) {
        belfry_blob_unref(belfry_container(node, struct flight, node)->message);
        free(belfry_container(node, struct flight, node));
    }
    stream->n_queued = stream->n_wire = 0;
}

void etcd_stream_close(struct etcd_stream *stream)
{
    if (stream == NULL)
        return;
    etcd_stream_break(stream);
    belfry_list_remove(&stream->node);
    free(stream);
}

bool etcd_stream_is_broken(const struct etcd_stream *stream)
{
    return stream->broken;
}

unsigned etcd_stream_member(const struct etcd_stream *stream)
{
    return (unsigned)(stream->member - stream->etcd->members);
}

/* ---- encoding ---- */

/* As it is encoded when it is sent: the previous value may be gone by then. */
static struct belfry_bytes encoded(const struct etcd_stream *stream, const struct reply *reply, size_t i)
{
    const struct history_event *event = reply->events[i];
    bool prev = reply->prev_kv && event->rev - 1 >= stream->member->compacted;
    return prev ? event->raw_prev : event->raw;
}

static size_t encoded_size(const struct etcd_stream *stream, const struct reply *reply, size_t i)
{
    size_t len = encoded(stream, reply, i).len;
    return belfry_write_event_field_size(len) + len;
}

/* Events [from, to) of a reply as one message on the wire. */
static void emit(struct etcd_stream *stream, const struct reply *reply, size_t from, size_t to, bool fragment)
{
    struct belfry_wire_watch head = reply->head;
    head.fragment = fragment;
    size_t size = belfry_write_watch_head_size(&head);
    for (size_t i = from; i < to; i++)
        size += encoded_size(stream, reply, i);
    struct flight *flight = etcd_alloc(sizeof(*flight));
    if (belfry_blob_alloc(size, &flight->message) != BELFRY_OK)
        abort();
    uint8_t *at = belfry_write_watch_head(&head, belfry_blob_edit(flight->message));
    for (size_t i = from; i < to; i++) {
        struct belfry_bytes raw = encoded(stream, reply, i);
        at = belfry_write_event_field(raw.len, at);
        memcpy(at, raw.data, raw.len);
        at += raw.len;
        counts(stream)->prev_missing +=
            reply->prev_kv && reply->events[i]->prev != NULL && raw.len == reply->events[i]->raw.len;
    }
    belfry_list_append(&stream->wire, &flight->node);
    stream->n_wire++;
}

static bool must_cut(const struct etcd_stream *stream, const struct reply *reply)
{
    size_t size = belfry_write_watch_head_size(&reply->head);
    for (size_t i = 0; i < reply->n; i++)
        size += encoded_size(stream, reply, i);
    return reply->fragment && reply->n >= 2 && size >= stream->etcd->opts.fragment_bytes;
}

/* Cuts as etcd does: pieces below the limit, of at least one event each, wherever that falls. */
static void emit_cut(struct etcd_stream *stream, const struct reply *reply)
{
    struct belfry_wire_watch head = reply->head;
    head.fragment = true;
    size_t from = 0, empty = belfry_write_watch_head_size(&head), size = empty;
    for (size_t i = 0; i < reply->n; i++) {
        size_t len = encoded_size(stream, reply, i);
        if (i > from && size + len >= stream->etcd->opts.fragment_bytes) {
            emit(stream, reply, from, i, true);
            from = i;
            size = empty;
        }
        size += len;
    }
    emit(stream, reply, from, reply->n, false);
    counts(stream)->fragmented += from > 0;
}

/* ---- sending ---- */

static struct watch *find_watch(const struct etcd_stream *stream, int64_t id)
{
    belfry_list_each (node, &stream->watches) {
        if (watch_of(node)->id == id)
            return watch_of(node);
    }
    return NULL;
}

static void flush_parked(struct etcd_stream *stream, struct watch *watch)
{
    struct belfry_list *node;
    while ((node = belfry_list_pop(&watch->parked)) != NULL) {
        emit(stream, reply_of(node), 0, reply_of(node)->n, false);
        watch->quiet = watch->quiet && reply_of(node)->n == 0;
        counts(stream)->parked_flushes++;
        free_reply(reply_of(node));
    }
}

/* etcd keeps what is queued, and would give it to a new watch of the same id, which its clients take care not to make.
 * Simulated clients may use an id again: for them it is dropped, as it is in effect for all others. */
static void drop_queued(struct etcd_stream *stream, int64_t id)
{
    belfry_list_each_safe (node, &stream->queue) {
        if (reply_of(node)->head.watch_id != id)
            continue;
        belfry_list_remove(node);
        free_reply(reply_of(node));
        stream->n_queued--;
        counts(stream)->dropped_by_cancel++;
    }
}

static void send_control(struct etcd_stream *stream)
{
    struct reply *reply = reply_of(belfry_list_pop(&stream->control));
    emit(stream, reply, 0, 0, false);
    struct watch *watch = find_watch(stream, reply->head.watch_id);
    if (reply->head.created && !reply->head.canceled) {
        watch->announced = true;
        flush_parked(stream, watch);
    } else if (reply->head.canceled && !reply->head.created) {
        drop_queued(stream, watch->id);
        free_watch(watch);
    }
    free_reply(reply);
}

static bool any_unannounced(const struct etcd_stream *stream)
{
    belfry_list_each (node, &stream->watches) {
        if (!watch_of(node)->announced)
            return true;
    }
    return false;
}

static void send_queued(struct etcd_stream *stream)
{
    struct reply *reply = reply_of(belfry_list_pop(&stream->queue));
    int64_t id = reply->head.watch_id;
    stream->n_queued--;
    struct watch *watch = id == ALL_WATCHES ? NULL : find_watch(stream, id);
    if (watch != NULL && !watch->announced) {
        belfry_list_append(&watch->parked, &reply->node);
        return;
    }
    assert(watch != NULL || id == ALL_WATCHES); /* drop_queued() */
    counts(stream)->progress_before_created += id == ALL_WATCHES && any_unannounced(stream);
    if (must_cut(stream, reply))
        emit_cut(stream, reply);
    else
        emit(stream, reply, 0, reply->n, false);
    if (watch != NULL)
        watch->quiet = watch->quiet && reply->n == 0;
    free_reply(reply);
}

bool etcd_stream_send(struct etcd_stream *stream)
{
    bool control = !belfry_list_empty(&stream->control), queued = !belfry_list_empty(&stream->queue);
    if ((!control && !queued) || stream->n_wire >= stream->etcd->opts.wire_max)
        return false;
    if (control && (!queued || belfry_rng_below(stream->etcd->rng, 2) == 0))
        send_control(stream);
    else
        send_queued(stream);
    return true;
}

bool etcd_stream_readable(const struct etcd_stream *stream)
{
    return stream->n_wire > 0;
}

struct belfry_blob *etcd_stream_receive(struct etcd_stream *stream)
{
    struct belfry_list *node = belfry_list_pop(&stream->wire);
    if (node == NULL)
        return NULL;
    struct flight *flight = belfry_container(node, struct flight, node);
    struct belfry_blob *message = flight->message;
    free(flight);
    stream->n_wire--;
    return message;
}

/* ---- requests ---- */

static struct belfry_bytes bytes_of(ProtobufCBinaryData data)
{
    return belfry_bytes_of(data.data, data.len);
}

/* NULL: nothing is wrong with it. */
static const char *why_refused(const struct etcd_stream *stream, const Etcdserverpb__WatchCreateRequest *request)
{
    if (request->start_revision < 0)
        return "etcdserver: mvcc: required revision has been compacted";
    if (history_range_is_empty(bytes_of(request->key), bytes_of(request->range_end)))
        return "mvcc: watcher range is empty";
    if (request->watch_id != 0 && find_watch(stream, request->watch_id) != NULL)
        return "mvcc: duplicate watch ID provided on the WatchStream";
    return NULL;
}

static int64_t choose_id(struct etcd_stream *stream)
{
    while (find_watch(stream, stream->next_id) != NULL)
        stream->next_id++;
    return stream->next_id++;
}

static void set_filters(struct watch *watch, const Etcdserverpb__WatchCreateRequest *request)
{
    for (size_t i = 0; i < request->n_filters; i++) {
        if (request->filters[i] == ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT)
            watch->puts = 0;
        else if (request->filters[i] == ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NODELETE)
            watch->deletes = 0;
    }
}

static struct watch *register_watch(struct etcd_stream *stream, const Etcdserverpb__WatchCreateRequest *request)
{
    int64_t visible = stream->member->visible;
    struct watch *watch = etcd_alloc(sizeof(*watch));
    belfry_list_init(&watch->parked);
    watch->id = request->watch_id != 0 ? request->watch_id : choose_id(stream);
    watch->start = request->start_revision;
    watch->next = watch->start == 0 ? visible + 1 : watch->start;
    watch->state = watch->next > visible ? SYNCED : UNSYNCED;
    watch->prev_kv = request->prev_kv;
    watch->fragment = request->fragment;
    watch->progress_notify = request->progress_notify;
    watch->quiet = true;
    watch->puts = watch->deletes =
        history_range_keys(history_of(stream), bytes_of(request->key), bytes_of(request->range_end));
    set_filters(watch, request);
    belfry_list_append(&stream->watches, &watch->node);
    counts(stream)->future_creates += watch->start > visible + 1;
    return watch;
}

static void on_create(struct etcd_stream *stream, const Etcdserverpb__WatchCreateRequest *request)
{
    const char *refused = why_refused(stream, request);
    int64_t id = refused != NULL ? -1 : register_watch(stream, request)->id;
    if (refused == NULL && belfry_rng_below(stream->etcd->rng, ADVANCE_ODDS) == 0)
        etcd_member_apply(stream->etcd, stream->member); /* its event may come at or below created's revision */
    struct reply *reply = new_reply(stream, id, stream->member->visible);
    reply->head.created = true;
    if (refused != NULL) {
        reply->head.canceled = true;
        reply->head.cancel_reason = belfry_bytes_str(refused);
        counts(stream)->refused_creates++;
    }
    belfry_list_append(&stream->control, &reply->node);
}

static void on_cancel(struct etcd_stream *stream, int64_t id)
{
    struct watch *watch = find_watch(stream, id);
    if (watch == NULL || watch->state == CLOSING)
        return;
    watch->state = CLOSING;
    free_reply(watch->victim);
    watch->victim = NULL;
    struct reply *reply = new_reply(stream, id, stream->member->visible);
    reply->head.canceled = true;
    belfry_list_append(&stream->control, &reply->node);
}

/* Has the watch everything, and has the store reached its start? */
static bool may_progress(const struct etcd_stream *stream, const struct watch *watch)
{
    return watch->state == SYNCED && watch->start <= stream->member->visible;
}

static void on_progress(struct etcd_stream *stream)
{
    size_t n = 0;
    bool all = !queue_is_full(stream);
    belfry_list_each (node, &stream->watches) {
        if (watch_of(node)->state == CLOSING)
            continue;
        n++;
        all = all && may_progress(stream, watch_of(node));
    }
    if (!all || n == 0) {
        counts(stream)->progress_refused++;
        return;
    }
    enqueue(stream, new_reply(stream, ALL_WATCHES, stream->member->visible));
    counts(stream)->progress_all++;
}

void etcd_stream_request(struct etcd_stream *stream, struct belfry_bytes request)
{
    if (stream->broken)
        return;
    Etcdserverpb__WatchRequest *message =
        etcdserverpb__watch_request__unpack(NULL, request.len, (const uint8_t *)request.data);
    if (message == NULL)
        abort();
    if (message->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST)
        on_create(stream, message->create_request);
    else if (message->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST)
        on_cancel(stream, message->cancel_request->watch_id);
    else if (message->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST)
        on_progress(stream);
    etcdserverpb__watch_request__free_unpacked(message, NULL);
}

/* ---- events ---- */

/* To the queue, or kept as a victim's; nothing in it: to nobody. */
static void deliver(struct etcd_stream *stream, struct watch *watch, struct reply *reply)
{
    if (reply->n == 0) {
        free_reply(reply);
    } else if (queue_is_full(stream)) {
        watch->victim = reply;
        watch->state = VICTIM;
        counts(stream)->victims++;
    } else {
        enqueue(stream, reply);
    }
}

void etcd_stream_notify(struct etcd_stream *stream)
{
    int64_t rev = stream->member->visible;
    const struct history_revision *revision = history_at(history_of(stream), history_now(history_of(stream)), rev);
    belfry_list_each (node, &stream->watches) {
        struct watch *watch = watch_of(node);
        if (watch->state != SYNCED || watch->next > rev)
            continue;
        struct reply *reply = event_reply(stream, watch);
        add_matching(reply, watch, revision);
        counts(stream)->live += reply->n > 0;
        watch->next = rev + 1;
        deliver(stream, watch, reply);
    }
}

void etcd_stream_unsync(struct etcd_stream *stream)
{
    belfry_list_each (node, &stream->watches) {
        if (watch_of(node)->state == SYNCED)
            watch_of(node)->state = UNSYNCED;
    }
}

static bool retry_victim(struct etcd_stream *stream, struct watch *watch)
{
    if (queue_is_full(stream))
        return false;
    enqueue(stream, watch->victim);
    watch->victim = NULL;
    watch->state = watch->next > stream->member->visible ? SYNCED : UNSYNCED;
    return true;
}

static bool cancel_compacted(struct etcd_stream *stream, struct watch *watch)
{
    if (queue_is_full(stream))
        return false;
    struct reply *reply = new_reply(stream, watch->id, 0);
    reply->head.canceled = true;
    reply->head.compact_revision = stream->member->compacted;
    watch->state = COMPACTED;
    enqueue(stream, reply);
    counts(stream)->compact_cancels++;
    return true;
}

static bool replay_watch(struct etcd_stream *stream, struct watch *watch)
{
    const struct history *history = history_of(stream);
    int64_t visible = stream->member->visible;
    if (watch->next < stream->member->compacted)
        return cancel_compacted(stream, watch);
    struct reply *reply = event_reply(stream, watch);
    for (unsigned n = 0; n < stream->etcd->opts.replay_revs && watch->next <= visible; n++) {
        const struct history_revision *revision =
            history_next(history, history_now(history), watch->next, visible, watch->puts, watch->deletes);
        if (revision != NULL)
            add_matching(reply, watch, revision);
        watch->next = revision == NULL ? visible + 1 : revision->rev + 1;
    }
    if (watch->next > visible)
        watch->state = SYNCED;
    counts(stream)->replays += reply->n > 0;
    counts(stream)->replay_headers_ahead += reply->n > 0 && reply->events[reply->n - 1]->rev < visible;
    deliver(stream, watch, reply);
    return true;
}

bool etcd_stream_replay(struct etcd_stream *stream)
{
    bool any = false;
    belfry_list_each (node, &stream->watches) {
        struct watch *watch = watch_of(node);
        if (watch->state != UNSYNCED && watch->state != VICTIM)
            continue;
        if (belfry_rng_below(stream->etcd->rng, SKIP_ODDS) == 0)
            any = any || !queue_is_full(stream); /* left for a later pass: there is something to do */
        else if (watch->state == VICTIM)
            any = retry_victim(stream, watch) || any;
        else
            any = replay_watch(stream, watch) || any;
    }
    return any;
}

void etcd_stream_tick(struct etcd_stream *stream)
{
    belfry_list_each (node, &stream->watches) {
        struct watch *watch = watch_of(node);
        if (!watch->progress_notify)
            continue;
        bool quiet = watch->quiet;
        watch->quiet = true;
        if (!quiet || !may_progress(stream, watch) || queue_is_full(stream)) {
            counts(stream)->progress_skipped++;
            continue;
        }
        enqueue(stream, new_reply(stream, watch->id, stream->member->visible));
        counts(stream)->progress_one++;
    }
}
