/* tests/sim/etcd.c: Watch streams, then reads, then the members and what etcd_step() may choose from. */
#include "sim/etcd.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/list.h"
#include "wire/rpc.pb-c.h"
#include "wire/write.h"

#define SNAPSHOT_LAG   16 /* a member that was cut off and missed more may be sent a snapshot */
#define TICK_ODDS      64
#define FIRST_TERM     2 /* of a new cluster, and of a restored one */
#define ACTIONS_MAX    1024
#define NO_LEADER_ODDS 48 /* a linearizable read in so many fails although there is a quorum */
#define ALL_WATCHES    (-1)
#define ADVANCE_ODDS   8 /* a create in so many is overtaken by a revision before its header is read */
#define SKIP_ODDS      3 /* a replay pass leaves out a watcher in so many */

struct member {
    uint64_t id;
    int64_t visible;      /* the last revision applied */
    int64_t compacted;    /* 0: never */
    size_t n_compactions; /* of the history, applied */
    uint64_t term;        /* as it knows it */
    bool up, cut_off;
    bool was_cut_off; /* since it last had everything: the leader may send it a snapshot */
};

struct etcd {
    struct history *history;
    struct belfry_rng *rng;
    struct etcd_opts opts;
    struct member members[ETCD_MEMBERS_MAX];
    uint64_t term; /* of the leader */
    struct belfry_list streams, reads;
    struct etcd_counts counts;
};

/* A response before it is encoded: prev_kv is looked up when it is sent. */
struct reply {
    struct belfry_list node;
    struct belfry_wire_watch head;
    bool prev_kv, fragment;
    const struct history_event **events; /* owned; the history's */
    size_t n, cap;
};

/*   create, at the head --> SYNCED <----replayed to the head---- UNSYNCED <-- create, behind
 *                            |  ^  ----leader's snapshot------>   |  ^  `--below a compaction--> COMPACTED
 *                 queue full |  | sent, and at the head           |  | sent, and behind
 *                            v  |                      queue full v  |
 *                           VICTIM                               VICTIM             any --cancel--> CLOSING */
enum watch_state { SYNCED, UNSYNCED, VICTIM, COMPACTED, CLOSING };

struct watch {
    struct belfry_list node;
    int64_t id, start; /* start: as asked; 0: from now on */
    int64_t next;      /* the first revision not looked at */
    enum watch_state state;
    bool announced; /* its created has been sent */
    bool prev_kv, fragment, progress_notify;
    bool quiet;             /* no events since the last tick of periodic progress */
    uint64_t puts, deletes; /* keys whose events it wants */
    struct reply *victim;   /* owned; of VICTIM only */
    struct belfry_list parked;
};

struct flight {
    struct belfry_list node;
    struct belfry_blob *message;
};

struct etcd_stream {
    struct belfry_list node; /* of the cluster */
    struct etcd *etcd;
    struct member *member;
    bool broken;
    int64_t next_id;
    struct belfry_list watches, control, queue, wire;
    size_t n_queued, n_wire;
};

struct etcd_read {
    struct belfry_list node;
    struct etcd *etcd;
    struct member *member;
    struct belfry_bytes key, range_end; /* owned */
    struct etcd_range range;            /* without the two */
    int64_t index;                      /* linearizable: the member must have applied this first */
    enum belfry_err err;                /* AGAIN until it is answered */
    struct belfry_wire_header header;
    struct belfry_blob *message;
};

static bool member_apply(struct etcd *etcd, struct member *member); /* a create may be overtaken by a revision */

static void *etcd_alloc(size_t size)
{
    void *p = calloc(1, size);
    if (p == NULL)
        abort();
    return p;
}

static struct belfry_wire_header member_header(const struct member *member, int64_t revision)
{
    return (struct belfry_wire_header){
        .cluster_id = HISTORY_CLUSTER_ID, .member_id = member->id, .revision = revision, .raft_term = member->term};
}

/* ==== a Watch stream ==== */

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

static struct etcd_counts *stream_counts(struct etcd_stream *stream)
{
    return &stream->etcd->counts;
}

/* ---- replies ---- */

static struct reply *new_reply(const struct etcd_stream *stream, int64_t id, int64_t revision)
{
    struct reply *reply = etcd_alloc(sizeof(*reply));
    reply->head.watch_id = id;
    reply->head.header = member_header(stream->member, revision);
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
static void reply_emit(struct etcd_stream *stream, const struct reply *reply, size_t from, size_t to, bool fragment)
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
        stream_counts(stream)->prev_missing +=
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
static void reply_emit_cut(struct etcd_stream *stream, const struct reply *reply)
{
    struct belfry_wire_watch head = reply->head;
    head.fragment = true;
    size_t from = 0, empty = belfry_write_watch_head_size(&head), size = empty;
    for (size_t i = 0; i < reply->n; i++) {
        size_t len = encoded_size(stream, reply, i);
        if (i > from && size + len >= stream->etcd->opts.fragment_bytes) {
            reply_emit(stream, reply, from, i, true);
            from = i;
            size = empty;
        }
        size += len;
    }
    reply_emit(stream, reply, from, reply->n, false);
    stream_counts(stream)->fragmented += from > 0;
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
        reply_emit(stream, reply_of(node), 0, reply_of(node)->n, false);
        watch->quiet = watch->quiet && reply_of(node)->n == 0;
        stream_counts(stream)->parked_flushes++;
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
        stream_counts(stream)->dropped_by_cancel++;
    }
}

static void send_control(struct etcd_stream *stream)
{
    struct reply *reply = reply_of(belfry_list_pop(&stream->control));
    reply_emit(stream, reply, 0, 0, false);
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
    stream_counts(stream)->progress_before_created += id == ALL_WATCHES && any_unannounced(stream);
    if (must_cut(stream, reply))
        reply_emit_cut(stream, reply);
    else
        reply_emit(stream, reply, 0, reply->n, false);
    if (watch != NULL)
        watch->quiet = watch->quiet && reply->n == 0;
    free_reply(reply);
}

static bool stream_send(struct etcd_stream *stream)
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
    stream_counts(stream)->future_creates += watch->start > visible + 1;
    return watch;
}

static void on_create(struct etcd_stream *stream, const Etcdserverpb__WatchCreateRequest *request)
{
    const char *refused = why_refused(stream, request);
    int64_t id = refused != NULL ? -1 : register_watch(stream, request)->id;
    if (refused == NULL && belfry_rng_below(stream->etcd->rng, ADVANCE_ODDS) == 0)
        member_apply(stream->etcd, stream->member); /* its event may come at or below created's revision */
    struct reply *reply = new_reply(stream, id, stream->member->visible);
    reply->head.created = true;
    if (refused != NULL) {
        reply->head.canceled = true;
        reply->head.cancel_reason = belfry_bytes_str(refused);
        stream_counts(stream)->refused_creates++;
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
        stream_counts(stream)->progress_refused++;
        return;
    }
    enqueue(stream, new_reply(stream, ALL_WATCHES, stream->member->visible));
    stream_counts(stream)->progress_all++;
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
static void watch_deliver(struct etcd_stream *stream, struct watch *watch, struct reply *reply)
{
    if (reply->n == 0) {
        free_reply(reply);
    } else if (queue_is_full(stream)) {
        watch->victim = reply;
        watch->state = VICTIM;
        stream_counts(stream)->victims++;
    } else {
        enqueue(stream, reply);
    }
}

static void stream_notify(struct etcd_stream *stream)
{
    int64_t rev = stream->member->visible;
    const struct history_revision *revision = history_at(history_of(stream), history_now(history_of(stream)), rev);
    belfry_list_each (node, &stream->watches) {
        struct watch *watch = watch_of(node);
        if (watch->state != SYNCED || watch->next > rev)
            continue;
        struct reply *reply = event_reply(stream, watch);
        add_matching(reply, watch, revision);
        stream_counts(stream)->live += reply->n > 0;
        watch->next = rev + 1;
        watch_deliver(stream, watch, reply);
    }
}

static void stream_unsync(struct etcd_stream *stream)
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
    stream_counts(stream)->compact_cancels++;
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
    stream_counts(stream)->replays += reply->n > 0;
    stream_counts(stream)->replay_headers_ahead += reply->n > 0 && reply->events[reply->n - 1]->rev < visible;
    watch_deliver(stream, watch, reply);
    return true;
}

static bool stream_replay(struct etcd_stream *stream)
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

static void stream_tick(struct etcd_stream *stream)
{
    belfry_list_each (node, &stream->watches) {
        struct watch *watch = watch_of(node);
        if (!watch->progress_notify)
            continue;
        bool quiet = watch->quiet;
        watch->quiet = true;
        if (!quiet || !may_progress(stream, watch) || queue_is_full(stream)) {
            stream_counts(stream)->progress_skipped++;
            continue;
        }
        enqueue(stream, new_reply(stream, watch->id, stream->member->visible));
        stream_counts(stream)->progress_one++;
    }
}

/* ==== a read ==== */

static struct belfry_bytes bytes_copy(struct belfry_bytes bytes)
{
    char *to = etcd_alloc(bytes.len + 1);
    if (bytes.len > 0)
        memcpy(to, bytes.data, bytes.len);
    return belfry_bytes_of(to, bytes.len);
}

struct etcd_read *etcd_read_begin(struct etcd *etcd, unsigned member, const struct etcd_range *range)
{
    assert(member < etcd->opts.members);
    struct etcd_read *read = etcd_alloc(sizeof(*read));
    read->etcd = etcd;
    read->member = &etcd->members[member];
    read->key = bytes_copy(range->key);
    read->range_end = bytes_copy(range->range_end);
    read->range = *range;
    read->index = range->serializable ? 0 : history_head(etcd->history, history_now(etcd->history));
    read->err = read->member->up ? BELFRY_ERR_AGAIN : BELFRY_ERR_UNAVAILABLE;
    belfry_list_append(&etcd->reads, &read->node);
    etcd->counts.reads++;
    return read;
}

void etcd_read_end(struct etcd_read *read)
{
    if (read == NULL)
        return;
    belfry_list_remove(&read->node);
    belfry_blob_unref(read->message);
    free((void *)(uintptr_t)read->key.data);
    free((void *)(uintptr_t)read->range_end.data);
    free(read);
}

static void read_fail(struct etcd_read *read, enum belfry_err err)
{
    read->err = err;
    read->etcd->counts.reads_failed += err == BELFRY_ERR_UNAVAILABLE;
    read->etcd->counts.reads_compacted += err == BELFRY_ERR_COMPACTED;
}

enum belfry_err etcd_read_poll(const struct etcd_read *read, struct belfry_bytes *message,
                               struct belfry_wire_header *header)
{
    if (read->err == BELFRY_OK) {
        *message = belfry_blob_bytes(read->message);
        *header = read->header;
    }
    return read->err;
}

/* ---- RangeResponse ---- */

static void append(struct belfry_buf *buf, const void *data, size_t len)
{
    if (belfry_buf_append(buf, data, len) != BELFRY_OK)
        abort();
}

static void append_varint(struct belfry_buf *buf, uint8_t tag, uint64_t value)
{
    append(buf, &tag, 1);
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        append(buf, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

/* The header of a RangeResponse is its field 1, as in a WatchResponse that has nothing else. */
static void append_header(struct belfry_buf *buf, const struct belfry_wire_header *header)
{
    struct belfry_wire_watch only = {.header = *header};
    uint8_t *to;
    size_t size = belfry_write_watch_head_size(&only);
    if (belfry_buf_reserve(buf, size, &to) != BELFRY_OK)
        abort();
    belfry_write_watch_head(&only, to);
    belfry_buf_grown(buf, size);
}

static void append_kvs(struct belfry_buf *buf, const struct etcd_read *read, int64_t rev)
{
    const struct history *history = read->etcd->history;
    uint64_t keys = history_range_keys(history, read->key, read->range_end);
    int64_t count = 0, given = 0;
    for (unsigned key = 0; key < history_keys(history); key++) {
        const struct history_event *event = NULL;
        if (keys >> key & 1)
            event = history_state(history, history_now(history), rev, key);
        if (event == NULL)
            continue;
        count++;
        if (read->range.count_only || (read->range.limit > 0 && given == read->range.limit))
            continue;
        append_varint(buf, 0x12, event->kv.len);
        append(buf, event->kv.data, event->kv.len);
        given++;
    }
    if (!read->range.count_only && count > given)
        append_varint(buf, 0x18, 1);
    if (count > 0)
        append_varint(buf, 0x20, (uint64_t)count);
}

static void read_respond(struct etcd_read *read, int64_t rev)
{
    struct belfry_buf buf;
    belfry_buf_init(&buf);
    read->header = member_header(read->member, read->member->visible);
    append_header(&buf, &read->header);
    append_kvs(&buf, read, rev);
    if (belfry_blob_copy(belfry_buf_bytes(&buf), &read->message) != BELFRY_OK)
        abort();
    belfry_buf_fini(&buf);
    read->err = BELFRY_OK;
}

static void read_respond_at(struct etcd_read *read)
{
    const struct member *member = read->member;
    int64_t rev = read->range.revision;
    if (rev > member->visible)
        read_fail(read, BELFRY_ERR_FUTURE);
    else if (rev > 0 && rev < member->compacted)
        read_fail(read, BELFRY_ERR_COMPACTED);
    else
        read_respond(read, rev > 0 ? rev : member->visible);
}

static bool read_answer(struct etcd_read *read)
{
    struct etcd *etcd = read->etcd;
    if (read->range.serializable) {
        etcd->counts.lagging_headers += read->member->visible < history_head(etcd->history, history_now(etcd->history));
        read_respond_at(read);
        return true;
    }
    if (!etcd_has_quorum(etcd) || read->member->cut_off || belfry_rng_below(etcd->rng, NO_LEADER_ODDS) == 0)
        read_fail(read, BELFRY_ERR_UNAVAILABLE);
    else if (read->member->visible >= read->index)
        read_respond_at(read);
    else
        return false;
    return true;
}

/* ==== the cluster ==== */

static struct etcd_stream *stream_of(struct belfry_list *node)
{
    return belfry_container(node, struct etcd_stream, node);
}

static struct etcd_read *read_of(struct belfry_list *node)
{
    return belfry_container(node, struct etcd_read, node);
}

struct etcd *etcd_create(struct history *history, struct belfry_rng *rng, const struct etcd_opts *opts)
{
    assert(opts->members >= 1 && opts->members <= ETCD_MEMBERS_MAX);
    struct etcd *etcd = etcd_alloc(sizeof(*etcd));
    etcd->history = history;
    etcd->rng = rng;
    etcd->opts = *opts;
    belfry_list_init(&etcd->streams);
    belfry_list_init(&etcd->reads);
    for (unsigned i = 0; i < opts->members; i++)
        etcd->members[i] =
            (struct member){.id = 0xe7cd00 + i, .visible = HISTORY_EMPTY_REV, .term = FIRST_TERM, .up = true};
    etcd->term = FIRST_TERM;
    return etcd;
}

void etcd_destroy(struct etcd *etcd)
{
    if (etcd == NULL)
        return;
    while (!belfry_list_empty(&etcd->streams))
        etcd_stream_close(stream_of(etcd->streams.next));
    while (!belfry_list_empty(&etcd->reads))
        etcd_read_end(read_of(etcd->reads.next));
    free(etcd);
}

/* What etcd_step() may choose from. */
enum action_kind { ACTION_APPLY, ACTION_REPLAY, ACTION_SEND, ACTION_READ };

struct action {
    enum action_kind kind;
    void *of;
};

/* ---- the log of the cluster ---- */

static unsigned past_now(const struct etcd *etcd)
{
    return history_now(etcd->history);
}

static bool apply_compaction(struct etcd *etcd, struct member *member)
{
    const struct history_compaction *compactions;
    size_t n = history_compactions(etcd->history, past_now(etcd), &compactions);
    if (member->n_compactions >= n || compactions[member->n_compactions].after > member->visible)
        return false;
    member->compacted = compactions[member->n_compactions++].rev;
    return true;
}

static void install_snapshot(struct etcd *etcd, struct member *member)
{
    const struct history_compaction *compactions;
    member->visible = history_head(etcd->history, past_now(etcd));
    member->n_compactions = history_compactions(etcd->history, past_now(etcd), &compactions);
    member->compacted = history_compacted(etcd->history, past_now(etcd));
    member->was_cut_off = false;
    etcd->counts.snapshots++;
    belfry_list_each (node, &etcd->streams) {
        if (stream_of(node)->member == member)
            stream_unsync(stream_of(node));
    }
}

static bool member_apply(struct etcd *etcd, struct member *member)
{
    int64_t head = history_head(etcd->history, past_now(etcd));
    if (!member->up || member->cut_off)
        return false;
    if (apply_compaction(etcd, member))
        return true;
    if (member->visible >= head) {
        member->was_cut_off = false;
        return false;
    }
    if (member->was_cut_off && head - member->visible > SNAPSHOT_LAG && belfry_rng_below(etcd->rng, 4) == 0) {
        install_snapshot(etcd, member);
        return true;
    }
    member->visible++;
    belfry_list_each (node, &etcd->streams) {
        if (stream_of(node)->member == member)
            stream_notify(stream_of(node));
    }
    return true;
}

/* ---- steps ---- */

static bool action_run(struct etcd *etcd, const struct action *action)
{
    switch (action->kind) {
    case ACTION_APPLY:
        return member_apply(etcd, action->of);
    case ACTION_REPLAY:
        return stream_replay(action->of);
    case ACTION_SEND:
        return stream_send(action->of);
    case ACTION_READ:
        return read_answer(action->of);
    }
    return false;
}

static size_t actions_gather(struct etcd *etcd, struct action *actions)
{
    size_t n = 0;
    for (unsigned i = 0; i < etcd->opts.members; i++)
        actions[n++] = (struct action){ACTION_APPLY, &etcd->members[i]};
    belfry_list_each (node, &etcd->streams) {
        if (stream_of(node)->broken || n + 2 > ACTIONS_MAX)
            continue;
        actions[n++] = (struct action){ACTION_REPLAY, stream_of(node)};
        actions[n++] = (struct action){ACTION_SEND, stream_of(node)};
    }
    belfry_list_each (node, &etcd->reads) {
        if (read_of(node)->err == BELFRY_ERR_AGAIN && n < ACTIONS_MAX)
            actions[n++] = (struct action){ACTION_READ, read_of(node)};
    }
    return n;
}

bool etcd_step(struct etcd *etcd)
{
    struct action actions[ACTIONS_MAX];
    if (belfry_rng_below(etcd->rng, TICK_ODDS) == 0)
        etcd_tick(etcd);
    for (size_t n = actions_gather(etcd, actions); n > 0; n--) { /* an action that can do nothing is struck out */
        size_t i = belfry_rng_below(etcd->rng, n);
        if (action_run(etcd, &actions[i]))
            return true;
        actions[i] = actions[n - 1];
    }
    return false;
}

void etcd_tick(struct etcd *etcd)
{
    belfry_list_each (node, &etcd->streams) {
        if (!stream_of(node)->broken)
            stream_tick(stream_of(node));
    }
}

/* ---- the cluster ---- */

unsigned etcd_members(const struct etcd *etcd)
{
    return etcd->opts.members;
}

struct history *etcd_history(const struct etcd *etcd)
{
    return etcd->history;
}

bool etcd_has_quorum(const struct etcd *etcd)
{
    unsigned n = 0;
    for (unsigned i = 0; i < etcd->opts.members; i++)
        n += etcd->members[i].up && !etcd->members[i].cut_off;
    return n * 2 > etcd->opts.members;
}

bool etcd_write(struct etcd *etcd)
{
    return etcd_has_quorum(etcd) && history_write(etcd->history, etcd->rng) != NULL;
}

bool etcd_write_huge(struct etcd *etcd)
{
    return etcd_has_quorum(etcd) && history_write_huge(etcd->history, etcd->rng) != NULL;
}

bool etcd_compact(struct etcd *etcd, int64_t rev)
{
    return etcd_has_quorum(etcd) && history_compact(etcd->history, rev);
}

/* Members that the leader reaches learn its term. */
static void spread_term(struct etcd *etcd)
{
    for (unsigned i = 0; i < etcd->opts.members; i++)
        if (etcd->members[i].up && !etcd->members[i].cut_off)
            etcd->members[i].term = etcd->term;
}

/* A member that goes may have been the leader: another one is elected. */
static void elect(struct etcd *etcd)
{
    etcd->term++;
    spread_term(etcd);
}

void etcd_member_stop(struct etcd *etcd, unsigned member)
{
    assert(member < etcd->opts.members);
    struct member *which = &etcd->members[member];
    which->up = false;
    which->was_cut_off = true;
    etcd->counts.stops++;
    belfry_list_each (node, &etcd->streams) {
        if (stream_of(node)->member == which)
            etcd_stream_break(stream_of(node));
    }
    belfry_list_each (node, &etcd->reads) {
        if (read_of(node)->member == which && read_of(node)->err == BELFRY_ERR_AGAIN)
            read_fail(read_of(node), BELFRY_ERR_UNAVAILABLE);
    }
    elect(etcd);
}

void etcd_member_start(struct etcd *etcd, unsigned member)
{
    assert(member < etcd->opts.members);
    etcd->members[member].up = true;
    spread_term(etcd);
}

bool etcd_member_is_up(const struct etcd *etcd, unsigned member)
{
    assert(member < etcd->opts.members);
    return etcd->members[member].up;
}

void etcd_member_cut_off(struct etcd *etcd, unsigned member, bool cut_off)
{
    assert(member < etcd->opts.members);
    etcd->members[member].cut_off = cut_off;
    etcd->members[member].was_cut_off |= cut_off;
    if (cut_off)
        elect(etcd);
    else
        spread_term(etcd);
}

bool etcd_member_is_cut_off(const struct etcd *etcd, unsigned member)
{
    assert(member < etcd->opts.members);
    return etcd->members[member].cut_off;
}

int64_t etcd_member_revision(const struct etcd *etcd, unsigned member)
{
    assert(member < etcd->opts.members);
    return etcd->members[member].visible;
}

int64_t etcd_member_compacted(const struct etcd *etcd, unsigned member)
{
    assert(member < etcd->opts.members);
    return etcd->members[member].compacted;
}

struct belfry_wire_header etcd_member_header(const struct etcd *etcd, unsigned member)
{
    assert(member < etcd->opts.members);
    return member_header(&etcd->members[member], etcd->members[member].visible);
}

void etcd_restore(struct etcd *etcd, int64_t rev)
{
    for (unsigned i = 0; i < etcd->opts.members; i++)
        etcd_member_stop(etcd, i);
    history_fork(etcd->history, rev);
    const struct history_compaction *compactions;
    for (unsigned i = 0; i < etcd->opts.members; i++) {
        struct member *member = &etcd->members[i];
        member->visible = rev;
        member->n_compactions = history_compactions(etcd->history, past_now(etcd), &compactions);
        member->compacted = history_compacted(etcd->history, past_now(etcd));
        member->cut_off = member->was_cut_off = false;
        member->up = true;
    }
    etcd->term = FIRST_TERM;
    spread_term(etcd);
    etcd->counts.restores++;
}

const struct etcd_counts *etcd_counts(const struct etcd *etcd)
{
    return &etcd->counts;
}
