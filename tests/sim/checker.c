/* tests/sim/checker.c: which watch a message belongs to, and whether it may come now. */
#include "sim/checker.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/checker_private.h"
#include "wire/rpc.pb-c.h"

#define ALL_WATCHES (-1)

__attribute__((format(printf, 2, 3))) static bool stream_wrong(struct checker_stream *stream, const char *format, ...)
{
    char text[VIOLATIONS_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    stream->wronged = true;
    violations_add(&stream->checker->violations, "%s: %s", stream->name, text);
    return false;
}

__attribute__((format(printf, 2, 3))) static void stream_trace(const struct checker_stream *stream, const char *format,
                                                               ...)
{
    char text[VIOLATIONS_TEXT_MAX];
    va_list args;
    if (stream->checker->opts.trace == NULL)
        return;
    int n = snprintf(text, sizeof(text), "%s ", stream->name);
    va_start(args, format);
    vsnprintf(text + n, sizeof(text) - (size_t)n, format, args);
    va_end(args);
    stream->checker->opts.trace(stream->checker->opts.user, text);
}

/* ---- what is asked ---- */

static struct belfry_bytes bytes_copy(ProtobufCBinaryData data)
{
    char *to = checker_alloc(data.len + 1);
    if (data.len > 0)
        memcpy(to, data.data, data.len);
    return belfry_bytes_of(to, data.len);
}

static void read_create(struct watch *watch, const Etcdserverpb__WatchCreateRequest *request)
{
    struct checker_watch *asked = &watch->asked;
    *asked = (struct checker_watch){.id = -1,
                                    .key = bytes_copy(request->key),
                                    .range_end = bytes_copy(request->range_end),
                                    .start = request->start_revision,
                                    .prev_kv = request->prev_kv,
                                    .progress_notify = request->progress_notify,
                                    .fragment = request->fragment};
    for (size_t i = 0; i < request->n_filters; i++) {
        asked->no_put |= request->filters[i] == ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT;
        asked->no_delete |= request->filters[i] == ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NODELETE;
    }
    watch->explicit_id = request->watch_id;
}

static struct belfry_range range_of(struct belfry_bytes key, struct belfry_bytes range_end)
{
    bool from = range_end.len == 1 && range_end.data[0] == '\0';
    return (struct belfry_range){key, range_end,
                                 range_end.len == 0 ? BELFRY_KEY
                                 : from             ? BELFRY_FROM
                                                    : BELFRY_INTERVAL};
}

/* There is no created: the watch exists immediately. */
static void begin_lines(struct watch *watch)
{
    watch->asked.pin = watch->facts.pin = (unsigned)watch->explicit_id;
    watch->facts.picks = watch->asked.pin != 0 ? checker_watch_picks : NULL;
    watch->facts.piecewise = true;
    watch->asked.resumed = watch->resumed = watch->asked.fragment;
    watch->asked.has_all = watch->stream->has_all;
    watch->asked.fragment = false;
    watch->explicit_id = 0;
    watch->state = CREATED;
    watch->asked.created = true;
    watch->asked.id = 0;
}

/* The same for pages, which are whole revisions. */
static void begin_pages(struct watch *watch)
{
    begin_lines(watch);
    watch->facts.picks = watch->asked.pin != 0 ? checker_watch_picks_key : NULL;
    watch->facts.piecewise = false;
    watch->asked.resumed = watch->resumed = false;
    watch->asked.fragment = true;
}

static void on_create_sent(struct checker_stream *stream, const Etcdserverpb__WatchCreateRequest *request)
{
    const struct history *history = stream->checker->history;
    struct watch *watch = checker_alloc(sizeof(*watch));
    watch->stream = stream;
    read_create(watch, request);
    uint64_t keys = history_range_keys(history, watch->asked.key, watch->asked.range_end);
    watch->puts = watch->asked.no_put ? 0 : keys;
    watch->deletes = watch->asked.no_delete ? 0 : keys;
    watch->facts = (struct judge_watch){.range = range_of(watch->asked.key, watch->asked.range_end),
                                        .no_put = watch->asked.no_put,
                                        .no_delete = watch->asked.no_delete,
                                        .prev_kv = watch->asked.prev_kv,
                                        .start = watch->asked.start,
                                        .next = watch->asked.start};
    watch->born = watch->seen = history_pasts(history);
    watch->progress_before = stream->progress_sent;
    watch->pasts = (uint32_t)(((uint64_t)1 << watch->seen) - 1); /* a tier may not have noticed the last fork */
    if (stream->kind == CHECKER_DIRECT)
        watch->pasts = (uint32_t)1 << (watch->seen - 1);
    belfry_list_append(&stream->watches, &watch->node);
    if (stream->kind == CHECKER_LINES)
        begin_lines(watch);
    else if (stream->kind == CHECKER_PAGES)
        begin_pages(watch);
    else if (stream->first_asked == NULL)
        stream->first_asked = watch;
    stream->any_explicit |= watch->explicit_id != 0;
    stream->checker->counts.watches++;
    stream->checker->counts.from_zero += watch->asked.start == 0;
}

void checker_stream_is_guarded(struct checker_stream *stream)
{
    stream->guarded = true;
}

void checker_stream_is_translated(struct checker_stream *stream)
{
    stream->translated = true;
}

void checker_stream_resumes(struct checker_stream *stream, bool has_all)
{
    stream->has_all = has_all;
}

static struct watch *find_in(const struct belfry_list *list, int64_t id)
{
    belfry_list_each (node, list) {
        if (checker_watch_of(node)->state != ASKED && checker_watch_of(node)->asked.id == id)
            return checker_watch_of(node);
    }
    return NULL;
}

static void on_cancel_sent(struct checker_stream *stream, int64_t id)
{
    belfry_list_each (node, &stream->watches) {
        struct watch *watch = checker_watch_of(node);
        if (watch->state == ASKED ? watch->explicit_id == id && id != 0 : watch->asked.id == id)
            watch->cancels_sent++;
    }
}

static void on_progress_sent(struct checker_stream *stream)
{
    stream->progress_sent++;
    belfry_list_each (node, &stream->watches)
        checker_watch_of(node)->progress_owed |=
            checker_watch_of(node)->state == CREATED && checker_watch_of(node)->cancels_sent == 0;
}

void checker_stream_sent(struct checker_stream *stream, struct belfry_bytes request)
{
    Etcdserverpb__WatchRequest *message =
        etcdserverpb__watch_request__unpack(NULL, request.len, (const uint8_t *)request.data);
    if (message == NULL) {
        stream_wrong(stream, "a request of %zu bytes is not a WatchRequest", request.len);
    } else if (message->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST) {
        on_create_sent(stream, message->create_request);
        char who[160];
        stream_trace(stream, "-> create %s",
                     checker_watch_text(checker_watch_of(stream->watches.prev), who, sizeof(who)));
    } else if (message->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST) {
        stream_trace(stream, "-> cancel %lld", (long long)message->cancel_request->watch_id);
        on_cancel_sent(stream, message->cancel_request->watch_id);
    } else if (message->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST) {
        stream_trace(stream, "-> progress");
        on_progress_sent(stream);
    }
    etcdserverpb__watch_request__free_unpacked(message, NULL);
}

/* ---- created ---- */

static void end_watch(struct watch *watch)
{
    watch->state = GONE;
    belfry_list_remove(&watch->node);
    belfry_list_append(&watch->stream->gone, &watch->node);
}

/* The text with which etcd refuses it; NULL: it does not, except perhaps for its id. */
static const char *why_refused(const struct watch *watch)
{
    if (watch->asked.start < 0)
        return "etcdserver: mvcc: required revision has been compacted";
    if (history_range_is_empty(watch->asked.key, watch->asked.range_end))
        return "mvcc: watcher range is empty";
    return NULL;
}

/* As permit.h has them. */
static bool is_about_rights(const struct checker_stream *stream, struct belfry_bytes reason, bool token_counts)
{
    static const char *const reasons[] = {
        "rpc error: code = PermissionDenied desc = etcdserver: permission denied",
        "rpc error: code = InvalidArgument desc = etcdserver: user name is empty",
        "rpc error: code = InvalidArgument desc = etcdserver: revision of auth store is old",
        "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token",
    };
    size_t n = token_counts ? sizeof(reasons) / sizeof(reasons[0]) : 1;
    for (size_t i = 0; stream->guarded && i < n; i++) {
        if (belfry_bytes_equal(reason, belfry_bytes_str(reasons[i])))
            return true;
    }
    return false;
}

static bool on_refused(struct watch *watch, const struct belfry_wire_watch *head)
{
    struct checker_stream *stream = watch->stream;
    const char *why = why_refused(watch);
    bool id_was_taken = watch->explicit_id != 0 && (find_in(&stream->watches, watch->explicit_id) != NULL ||
                                                    find_in(&stream->gone, watch->explicit_id) != NULL);
    if (why == NULL && id_was_taken)
        why = "mvcc: duplicate watch ID provided on the WatchStream";
    bool ok = why != NULL && head->watch_id == -1 && belfry_bytes_equal(head->cancel_reason, belfry_bytes_str(why));
    ok = ok || (head->watch_id == -1 && is_about_rights(stream, head->cancel_reason, true));
    stream->checker->counts.refused++;
    if (!ok)
        checker_watch_wrong(watch, "was refused as id %lld with \"%.*s\"; expected: %s", (long long)head->watch_id,
                            (int)head->cancel_reason.len, head->cancel_reason.data, why == NULL ? "created" : why);
    end_watch(watch);
    return ok;
}

static bool id_is_right(const struct watch *watch, int64_t id)
{
    const struct checker_stream *stream = watch->stream;
    const struct watch *other = find_in(&stream->watches, id);
    if (other != NULL && other->state == CREATED && other->cancels_sent == 0)
        return false;
    if (watch->explicit_id != 0)
        return id == watch->explicit_id;
    return stream->any_explicit ? id > stream->last_auto : id == stream->last_auto + 1;
}

/* Its id may be that of a watch that was told compacted: a tier forgets those. */
static void ids_retire(struct checker_stream *stream, int64_t id)
{
    struct watch *other = find_in(&stream->watches, id);
    if (other != NULL && other->state == COMPACTED)
        end_watch(other);
}

static bool on_created(struct checker_stream *stream, const struct belfry_wire_watch *head)
{
    struct watch *watch = stream->first_asked;
    if (watch == NULL)
        return stream_wrong(stream, "created of watch %lld, which was not asked for", (long long)head->watch_id);
    stream->first_asked = watch->node.next == &stream->watches ? NULL : checker_watch_of(watch->node.next);
    if (head->canceled)
        return on_refused(watch, head);
    stream->checker->counts.created++;
    ids_retire(stream, head->watch_id);
    bool id_ok = id_is_right(watch, head->watch_id);
    watch->state = CREATED;
    watch->asked.created = true;
    watch->asked.id = head->watch_id;
    if (watch->explicit_id == 0)
        stream->last_auto = head->watch_id;
    if (why_refused(watch) != NULL)
        return checker_watch_wrong(watch, "was created; expected: \"%s\"", why_refused(watch));
    if (!id_ok)
        return checker_watch_wrong(watch, "id %lld is not the one asked for or the next free one",
                                   (long long)head->watch_id);
    if (head->n_events > 0 || head->compact_revision != 0)
        return checker_watch_wrong(watch, "created has events or a compact_revision");
    return checker_watch_created(watch, head->header.revision);
}

/* ---- progress ---- */

/* A watch with a cancel on its way may be gone already. etcd's answer may also overtake the created of a watch that was
 * asked for after the progress; the k-th answer is of the k-th request or a later one. */
static bool progress_speaks_of(const struct checker_stream *stream, const struct watch *watch)
{
    if (watch->state != CREATED || watch->wronged || watch->cancels_sent > 0)
        return false;
    return stream->kind == CHECKER_TIER || stream->progress_answered > watch->progress_before;
}

static bool on_progress_all(struct checker_stream *stream, const struct belfry_wire_watch *head)
{
    bool ok = true;
    if (head->n_events > 0)
        return stream_wrong(stream, "events of watch -1");
    if (++stream->progress_answered > stream->progress_sent)
        return stream_wrong(stream, "progress for all was answered %zu times and asked for %zu times",
                            stream->progress_answered, stream->progress_sent);
    stream->checker->counts.progress_all++;
    belfry_list_each (node, &stream->watches) {
        struct watch *watch = checker_watch_of(node);
        watch->progress_owed = false;
        if (progress_speaks_of(stream, watch))
            ok = checker_watch_progress(watch, head->header.revision) && ok;
    }
    return ok;
}

static bool on_progress_one(struct watch *watch, const struct belfry_wire_watch *head)
{
    bool of_lines = checker_is_of_lines(watch->stream->kind);
    bool asked = of_lines && watch->stream->progress_sent > 0;
    watch->stream->checker->counts.progress_one++;
    if (of_lines)
        watch->progress_owed = false;
    if (!watch->asked.progress_notify && !asked)
        return checker_watch_wrong(watch, "progress at %lld was not asked for", (long long)head->header.revision);
    return checker_watch_progress(watch, head->header.revision);
}

/* ---- canceled ---- */

static bool on_canceled(struct watch *watch, const struct belfry_wire_watch *head)
{
    struct checker *checker = watch->stream->checker;
    if (head->n_events > 0)
        return checker_watch_wrong(watch, "canceled has events");
    if (head->compact_revision != 0)
        return watch->state == CREATED ? checker_watch_compacted(watch, head->compact_revision)
                                       : checker_watch_wrong(watch, "was told compacted twice");
    bool asked = watch->cancels_sent > 0 || is_about_rights(watch->stream, head->cancel_reason, false);
    checker->counts.canceled++;
    end_watch(watch);
    return asked || checker_watch_wrong(watch, "was canceled (\"%.*s\") by nobody", (int)head->cancel_reason.len,
                                        head->cancel_reason.data);
}

/* ---- responses ---- */

static bool same_header(const struct belfry_wire_header *a, const struct belfry_wire_header *b)
{
    return a->cluster_id == b->cluster_id && a->member_id == b->member_id && a->revision == b->revision &&
           a->raft_term == b->raft_term;
}

/* A response to a watch whose id is known. */
static bool on_watch(struct watch *watch, const struct belfry_wire_watch *head, struct belfry_bytes message)
{
    if (watch->wronged)
        return true;
    if (head->canceled)
        return on_canceled(watch, head);
    if (watch->state != CREATED)
        return checker_watch_wrong(watch, "%zu events or progress at %lld came after canceled", head->n_events,
                                   (long long)head->header.revision);
    watch->asked.shown = head->header.revision;
    return head->n_events > 0 ? checker_watch_events(watch, head, message) : on_progress_one(watch, head);
}

static bool on_unknown(struct checker_stream *stream, const struct belfry_wire_watch *head)
{
    struct watch *gone = find_in(&stream->gone, head->watch_id);
    if (gone != NULL && gone->wronged)
        return true;
    if (gone != NULL)
        return checker_watch_wrong(gone, "%zu events, or progress, at %lld came after canceled", head->n_events,
                                   (long long)head->header.revision);
    return stream_wrong(stream, "%zu events, or progress, at %lld of watch %lld, which has not been created",
                        head->n_events, (long long)head->header.revision, (long long)head->watch_id);
}

/* A whole response. */
static bool on_response(struct checker_stream *stream, const struct belfry_wire_watch *head,
                        struct belfry_bytes message)
{
    if (head->created)
        return on_created(stream, head);
    if (head->watch_id == ALL_WATCHES && !head->canceled)
        return on_progress_all(stream, head);
    struct watch *watch = find_in(&stream->watches, head->watch_id);
    return watch != NULL ? on_watch(watch, head, message) : on_unknown(stream, head);
}

static void add_piece(struct checker_stream *stream, const struct belfry_wire_watch *head, struct belfry_bytes message)
{
    if (belfry_buf_append(&stream->pieces, message.data, message.len) != BELFRY_OK)
        abort();
    stream->piece = *head;
    stream->checker->counts.fragments++;
}

/* The last page of a revision may have no event. */
static bool piece_belongs(const struct checker_stream *stream, const struct belfry_wire_watch *head)
{
    return head->watch_id == stream->piece.watch_id && same_header(&head->header, &stream->piece.header) &&
           !head->created && !head->canceled &&
           (head->n_events > 0 || (stream->kind == CHECKER_PAGES && !head->fragment));
}

/* The rest of the revision is gone, and its client is told so. */
static bool ends_pages(const struct checker_stream *stream, const struct belfry_wire_watch *head)
{
    return stream->kind == CHECKER_PAGES && head->canceled && head->compact_revision != 0;
}

/* Pieces joined are a message, too, with the events of all in order. */
static bool on_last_piece(struct checker_stream *stream, struct belfry_wire_watch head, struct belfry_bytes message)
{
    add_piece(stream, &head, message);
    struct belfry_bytes whole = belfry_buf_bytes(&stream->pieces);
    if (belfry_scan_watch(whole, &head) != BELFRY_OK)
        abort();
    bool ok = on_response(stream, &head, whole);
    belfry_buf_take(&stream->pieces, whole.len);
    stream->checker->counts.reassembled++;
    return ok;
}

static bool on_first_piece(struct checker_stream *stream, const struct belfry_wire_watch *head,
                           struct belfry_bytes message)
{
    struct watch *watch = find_in(&stream->watches, head->watch_id);
    if (watch == NULL)
        return on_unknown(stream, head);
    if (!watch->asked.fragment || head->n_events == 0 || head->created || head->canceled)
        return watch->wronged || checker_watch_wrong(watch, "a fragment that was not asked for, or without events");
    add_piece(stream, head, message);
    return true;
}

static bool on_message(struct checker_stream *stream, const struct belfry_wire_watch *head, struct belfry_bytes message)
{
    if (ends_pages(stream, head))
        belfry_buf_clear(&stream->pieces);
    bool inside = belfry_buf_len(&stream->pieces) > 0;
    if (head->header.cluster_id != HISTORY_CLUSTER_ID && head->compact_revision == 0)
        return stream_wrong(stream, "a response of cluster %llx", (unsigned long long)head->header.cluster_id);
    if (inside && !piece_belongs(stream, head))
        return stream_wrong(stream, "a response of watch %lld at %lld between fragments of watch %lld",
                            (long long)head->watch_id, (long long)head->header.revision,
                            (long long)stream->piece.watch_id);
    if (inside && !head->fragment)
        return on_last_piece(stream, *head, message);
    if (inside)
        add_piece(stream, head, message);
    else
        return head->fragment ? on_first_piece(stream, head, message) : on_response(stream, head, message);
    return true;
}

static void trace_response(const struct checker_stream *stream, const struct belfry_wire_watch *head,
                           struct belfry_bytes message)
{
    struct belfry_bytes event;
    int64_t first = 0, last = 0;
    size_t at = 0;
    while (belfry_scan_field(message, BELFRY_WATCH_EVENTS, &at, &event) == BELFRY_OK) {
        if (belfry_scan_event_rev(event, &last) == BELFRY_OK && first == 0)
            first = last;
    }
    stream_trace(stream, "<- watch %lld header %lld%s%s%s compact %lld, %zu events %lld..%lld",
                 (long long)head->watch_id, (long long)head->header.revision, head->created ? " created" : "",
                 head->canceled ? " canceled" : "", head->fragment ? " fragment" : "",
                 (long long)head->compact_revision, head->n_events, (long long)first, (long long)last);
}

bool checker_stream_received(struct checker_stream *stream, struct belfry_bytes response)
{
    struct belfry_wire_watch head;
    if (stream->wronged)
        return true;
    if (belfry_scan_watch(response, &head) != BELFRY_OK)
        return stream_wrong(stream, "%zu bytes are not a WatchResponse", response.len);
    if (stream->checker->opts.trace != NULL)
        trace_response(stream, &head, response);
    return on_message(stream, &head, response);
}

/* ---- streams ---- */

struct checker_stream *checker_stream_open(struct checker *checker, const char *name, enum checker_kind kind)
{
    struct checker_stream *stream = checker_alloc(sizeof(*stream));
    stream->checker = checker;
    snprintf(stream->name, sizeof(stream->name), "%s", name);
    stream->kind = kind;
    stream->last_auto = -1;
    belfry_list_init(&stream->watches);
    belfry_list_init(&stream->gone);
    belfry_buf_init(&stream->pieces);
    belfry_list_append(&checker->streams, &stream->node);
    checker->counts.streams++;
    return stream;
}

static void free_watches(struct belfry_list *list)
{
    struct belfry_list *node;
    while ((node = belfry_list_pop(list)) != NULL) {
        free((void *)(uintptr_t)checker_watch_of(node)->asked.key.data);
        free((void *)(uintptr_t)checker_watch_of(node)->asked.range_end.data);
        free(checker_watch_of(node));
    }
}

void checker_stream_close(struct checker_stream *stream)
{
    if (stream == NULL)
        return;
    stream_trace(stream, "closed");
    belfry_list_remove(&stream->node);
    free_watches(&stream->watches);
    free_watches(&stream->gone);
    belfry_buf_fini(&stream->pieces);
    free(stream);
}

static bool watch_goes_on(const struct watch *watch)
{
    return !watch->wronged && (watch->state == ASKED || watch->state == CREATED);
}

size_t checker_stream_watches(const struct checker_stream *stream)
{
    size_t n = 0;
    belfry_list_each (node, &stream->watches)
        n += watch_goes_on(checker_watch_of(node));
    return n;
}

struct checker_watch checker_stream_watch(const struct checker_stream *stream, size_t i)
{
    belfry_list_each (node, &stream->watches) {
        struct watch *watch = checker_watch_of(node);
        if (!watch_goes_on(watch) || i-- > 0)
            continue;
        struct checker_watch view = watch->asked;
        view.next = checker_watch_next(watch);
        view.cancel_sent = watch->cancels_sent > 0;
        return view;
    }
    assert(!"no such watch");
    return (struct checker_watch){0};
}

/* ---- the end ---- */

/* etcd forgets a request for progress that it cannot answer; a tier answers as soon as it can. It cannot while a watch
 * starts in the future, or was told compacted and its cancel is not confirmed. */
static void finish_progress(struct checker_stream *stream)
{
    const struct history *history = stream->checker->history;
    struct watch *owed = NULL;
    belfry_list_each (node, &stream->watches) {
        struct watch *watch = checker_watch_of(node);
        if (watch->state != CREATED || watch->wronged || watch->cancels_sent > 0 ||
            watch->asked.start > history_head(history, history_now(history)))
            return;
        if (watch->progress_owed)
            owed = watch;
    }
    if (owed != NULL && stream->kind != CHECKER_DIRECT)
        checker_watch_wrong(owed, "progress for all was asked for and never answered");
}

static void stream_finish(struct checker_stream *stream)
{
    if (!stream->wronged && belfry_buf_len(&stream->pieces) > 0)
        stream_wrong(stream, "ended inside a fragmented response of watch %lld", (long long)stream->piece.watch_id);
    if (stream->wronged)
        return;
    belfry_list_each (node, &stream->watches) {
        checker_watch_finish(checker_watch_of(node));
        if (checker_is_of_lines(stream->kind) && checker_watch_of(node)->state == COMPACTED)
            checker_watch_wrong(checker_watch_of(node), "was told its last line, and its stream never ended");
    }
    finish_progress(stream);
}

/* ---- the checker ---- */

void checker_report(struct checker *checker, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    violations_add_list(&checker->violations, format, args);
    va_end(args);
}

struct checker *checker_create(const struct history *history, const struct checker_opts *opts)
{
    struct checker *checker = checker_alloc(sizeof(*checker));
    checker->history = history;
    checker->opts = *opts;
    checker->violations = (struct violations){.report = opts->violation, .user = opts->user};
    belfry_list_init(&checker->streams);
    return checker;
}

void checker_destroy(struct checker *checker)
{
    if (checker == NULL)
        return;
    checker->opts.trace = NULL; /* the end of the streams is no news */
    while (!belfry_list_empty(&checker->streams))
        checker_stream_close(belfry_container(checker->streams.next, struct checker_stream, node));
    violations_fini(&checker->violations);
    free(checker->rewrites.all);
    free(checker->capped.all);
    free(checker->events);
    free(checker);
}

static void checker_revs_add(struct checker_revs *revs, int64_t rev)
{
    if (revs->n == revs->room) {
        revs->room = revs->room == 0 ? 16 : revs->room * 2;
        revs->all = realloc(revs->all, revs->room * sizeof(revs->all[0]));
        if (revs->all == NULL)
            abort();
    }
    revs->all[revs->n++] = rev;
}

void checker_listed(struct checker *checker, const struct evlog_cut *cut, uint64_t oldest_past)
{
    if (cut->why == EVLOG_CUT_REWRITTEN || oldest_past < cut->rewritten)
        checker_revs_add(&checker->rewrites, cut->rev);
    if (cut->rev > checker->highest_listing)
        checker->highest_listing = cut->rev;
}

void checker_capped(struct checker *checker, int64_t rev)
{
    if (!checker_revs_have(&checker->capped, rev))
        checker_revs_add(&checker->capped, rev);
}

bool checker_finish(struct checker *checker)
{
    belfry_list_each (node, &checker->streams)
        stream_finish(belfry_container(node, struct checker_stream, node));
    return checker->violations.n == 0;
}

size_t checker_violations(const struct checker *checker)
{
    return checker->violations.n;
}

const char *checker_violation(const struct checker *checker, size_t i)
{
    return i < VIOLATIONS_KEPT ? checker->violations.kept[i] : NULL;
}

const struct checker_counts *checker_counts(const struct checker *checker)
{
    return &checker->counts;
}
