/* tests/sim/serve.c: requests in, bytes out, as the daemon does for one worker. */
#include "sim/serve.h"

#include <assert.h>
#include <stdlib.h>

#include "core/watcher.h"
#include "sim/asking.h"
#include "sim/cover.h"
#include "sim/dialect.h"
#include "sim/guard.h"
#include "sim/reading.h"
#include "sim/trace.h"
#include "sim/verdict.h"
#include "wire/rpc.pb-c.h"

struct served {
    struct belfry_list node;
    struct server *server;
    unsigned serial; /* for the trace */
    struct link *link;
    struct stream *stream;
    uint64_t watched_past; /* as of exchange_conn */
    enum tier_stream kind;
    struct dialect_watch watch; /* of lines */
    int64_t part_rev;           /* of pages, as dialect_revision() has it */
    size_t told;                /* room */
    size_t seen;                /* the link's room, when `told` was last decided; with auth */
    struct auth_who who;
    struct guard guard; /* once there is a stream, with auth */
    int64_t line_id;    /* of lines: its watch */
    /* the message being written */
    size_t head_len, left; /* bytes of its prefix that came; bytes of it that are to come */
    uint8_t head[5];
    struct belfry_buf message; /* its bytes while it is small */
    size_t message_len;
    bool began_stale;
    bool canceled_inside; /* a cancel came while it was being written */
};

#define CLIENTS 5   /* that the streams of a tier count for; one of them is nobody */
#define SMALL   128 /* a message up to this size is looked into */

/* ---- what is written ---- */

/* Is the message to be looked into? */
static bool is_judged(const struct served *served)
{
    return served->message_len <= SMALL || served->guard.permit != NULL;
}

/* The last page of a revision may have no event. */
static bool ends_revision(const struct served *served, const struct belfry_wire_watch *watch)
{
    return served->kind == TIER_STREAM_PAGES && !dialect_is_progress(watch);
}

/* A whole message has been written: a stale tier must not have said progress; its client must have had the right. */
static void judge(struct served *served)
{
    struct belfry_wire_watch watch;
    if (belfry_scan_watch(belfry_buf_bytes(&served->message), &watch) != BELFRY_OK)
        verdict_fail("%s: a response cannot be read", served->server->opts->name);
    else if (watch.n_events > 0 && served->guard.permit != NULL)
        guard_wrote(&served->guard, served->kind != TIER_STREAM_GRPC ? served->line_id : watch.watch_id,
                    served->server->turn_ms);
    else if (served->began_stale && watch.n_events == 0 && !watch.created && !watch.canceled &&
             !ends_revision(served, &watch))
        verdict_fail("%s: progress %lld was told while stale", served->server->opts->name,
                     (long long)watch.header.revision);
}

static void message_ends(struct served *served)
{
    if (is_judged(served))
        judge(served);
    if (served->canceled_inside)
        COVER(rest_finished);
    served->canceled_inside = false;
    served->head_len = 0;
    belfry_buf_clear(&served->message);
}

/* Follows the messages in the bytes. */
static void follow(struct served *served, const uint8_t *data, size_t len)
{
    while (len > 0) {
        if (served->head_len < sizeof(served->head)) {
            if (served->head_len == 0)
                served->began_stale = served->server->told_stale;
            served->head[served->head_len++] = *data++;
            len--;
            if (served->head_len < sizeof(served->head))
                continue;
            const uint8_t *head = served->head;
            served->left = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
            served->message_len = served->left;
        }
        size_t part = len < served->left ? len : served->left;
        if (is_judged(served) && belfry_buf_append(&served->message, data, part) != BELFRY_OK)
            abort();
        data += part;
        len -= part;
        served->left -= part;
        if (served->left == 0)
            message_ends(served);
    }
}

static void write_stream(void *user, const uint8_t *data, size_t len)
{
    struct served *served = user;
    if (len > served->told)
        verdict_fail("%s: %zu bytes were written to a stream that takes %zu", served->server->opts->name, len,
                     served->told);
    served->told -= len < served->told ? len : served->told;
    served->seen -= len < served->seen ? len : served->seen;
    follow(served, data, len);
    link_write(served->link, data, len);
}

/* ---- lines ---- */

/* Now and then there is no memory. */
static bool refused(const struct server *server)
{
    return sched_one_in(server->opts->sched, 40);
}

static enum belfry_err line_event(void *user, const struct batch *batch, uint32_t event, struct belfry_blob **out)
{
    struct served *served = user;
    if (refused(served->server))
        return BELFRY_ERR_NOMEM;
    enum belfry_err err = dialect_event(&served->watch, batch, event, out);
    COVER_BY(lines, err == BELFRY_OK && *out != NULL);
    COVER_BY(lines_pinned, err == BELFRY_OK && *out != NULL && served->watch.pin != 0);
    COVER_BY(lines_unwanted, err == BELFRY_OK && *out == NULL);
    COVER_BY(lines_lost, err == BELFRY_ERR_COMPACTED);
    return err;
}

static enum belfry_err page_revision(void *user, const struct lines_part *part, uint32_t *used,
                                     struct belfry_blob **out)
{
    struct served *served = user;
    if (refused(served->server))
        return BELFRY_ERR_NOMEM;
    uint32_t most = 1 + (uint32_t)sched_below(served->server->opts->sched, 4);
    enum belfry_err err = dialect_revision(&served->watch, part, most, &served->part_rev, used, out);
    COVER_BY(pages, err == BELFRY_OK && *out != NULL);
    COVER_BY(pages_open, err == BELFRY_OK && *out != NULL && (part->open || *used < part->n));
    COVER_BY(pages_last_empty, err == BELFRY_OK && *out != NULL && part->n == 0);
    return err;
}

static enum belfry_err line_progress(void *user, int64_t rev, struct belfry_blob **out)
{
    struct served *served = user;
    return refused(served->server) ? BELFRY_ERR_NOMEM : dialect_progress(rev, out);
}

static enum belfry_err line_lost(void *user, int64_t compact_rev, struct belfry_blob **out)
{
    struct served *served = user;
    return refused(served->server) ? BELFRY_ERR_NOMEM : dialect_lost(compact_rev, out);
}

static bool attribute(void *user, const struct batch *batch, uint32_t event, struct belfry_bytes name,
                      struct belfry_bytes *before, struct belfry_bytes *after)
{
    const struct server *server = user;
    dialect_attribute(batch, event, name, before, after);
    return !refused(server);
}

static const struct lines lines = {
    .event = line_event, .progress = line_progress, .lost = line_lost, .write = write_stream};

static const struct lines pages = {
    .revision = page_revision, .progress = line_progress, .lost = line_lost, .write = write_stream};

static bool is_of_lines(const struct served *served)
{
    return served->kind != TIER_STREAM_GRPC;
}

/* ---- streams ---- */

static struct served *served_of(struct belfry_list *node)
{
    return belfry_container(node, struct served, node);
}

static void end_stream(struct served *served)
{
    guard_fini(&served->guard);
    if (served->server->reading != NULL)
        reading_drop(served->server->reading, served->link);
    if (served->stream != NULL)
        stream_close(served->server->worker, served->stream);
    link_leave_server(served->link);
    belfry_list_remove(&served->node);
    belfry_buf_fini(&served->message);
    free(served);
}

struct link *serve_dial(struct server *server, struct actor *client, size_t window, enum tier_stream kind,
                        const struct auth_who *who, unsigned serial)
{
    struct served *served = calloc(1, sizeof(*served));
    if (served == NULL)
        abort();
    struct link_opts opts = {.sched = server->opts->sched,
                             .client = client,
                             .server = server->jobs.actor,
                             .delay_ms = server->opts->delay_ms,
                             .window = window};
    served->server = server;
    served->serial = serial;
    served->kind = kind;
    served->who = *who;
    served->link = link_create(&opts);
    belfry_list_append(&server->dialled, &served->node);
    sched_wake(server->opts->sched, server->jobs.actor, sched_now(server->opts->sched));
    return served->link;
}

static uint8_t flags_of(const Etcdserverpb__WatchCreateRequest *create)
{
    uint8_t flags = 0;
    flags |= create->prev_kv ? WATCHER_PREV_KV : 0;
    flags |= create->progress_notify ? WATCHER_PROGRESS : 0;
    flags |= create->fragment ? WATCHER_FRAGMENT : 0;
    for (size_t i = 0; i < create->n_filters; i++)
        flags |= create->filters[i] == ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT ? WATCHER_NO_PUT
                                                                                              : WATCHER_NO_DELETE;
    return flags;
}

static void cover_start(const struct server *server, int64_t start)
{
    struct evlog_view view;
    serve_look(server, &view);
    if (start > view.head + 1)
        COVER(future);
    else if (start > 0 && start <= view.head && evlog_covers(&view, start))
        COVER(resume_log);
}

/* What others have as a watch id is its pin, and what others have as fragments says that it resumes. */
static void suit_lines(struct served *served, struct stream_create *request)
{
    struct sched *sched = served->server->opts->sched;
    served->watch.prev_kv = (request->flags & WATCHER_PREV_KV) != 0;
    served->watch.pin = (unsigned)request->watch_id;
    request->watch_id = 0;
    request->resumed = served->kind == TIER_STREAM_LINES && (request->flags & WATCHER_FRAGMENT) != 0;
    request->flags &= (uint8_t)~WATCHER_FRAGMENT;
    if (served->watch.pin != 0) {
        request->pin_name = dialect_pin_name(served->watch.pin);
        request->pin_value = dialect_pin_value(served->watch.pin);
    }
    stream_set_progress(served->server->worker, served->stream, 200 + sched_below(sched, 2000));
}

/* A range as two that together have its keys, some of them twice; of one key, or an empty one: not at all. */
struct halves {
    struct range ranges[2];
    struct belfry_buf middle, before;
};

static void halves_fini(struct halves *halves)
{
    belfry_buf_fini(&halves->middle);
    belfry_buf_fini(&halves->before);
}

static void append_key(struct belfry_buf *to, struct belfry_bytes key, char more)
{
    bool is_none = key.len == 1 && key.data[0] == '\0';
    if (belfry_buf_append(to, key.data, is_none ? 0 : key.len) != BELFRY_OK ||
        belfry_buf_append(to, &more, 1) != BELFRY_OK)
        abort();
}

static void halve(struct served *served, struct stream_create *request, struct halves *halves)
{
    struct sched *sched = served->server->opts->sched;
    if (served->kind != TIER_STREAM_PAGES || served->watch.pin != 0 || request->range_end.len == 0 ||
        sched_one_in(sched, 2))
        return;
    append_key(&halves->middle, request->key, 'm');
    append_key(&halves->before, request->key, sched_one_in(sched, 2) ? 'c' : 'm');
    struct range whole;
    if (!range_read(request->key, request->range_end, &whole) || !range_has(&whole, belfry_buf_bytes(&halves->middle)))
        return; /* the first would have more */
    if (!range_read(request->key, belfry_buf_bytes(&halves->middle), &halves->ranges[0]) ||
        !range_read(belfry_buf_bytes(&halves->before), request->range_end, &halves->ranges[1]))
        return;
    COVER(pages_several);
    request->ranges = halves->ranges;
    request->n_ranges = 2;
}

static enum belfry_err create_watch(struct served *served, const Etcdserverpb__WatchCreateRequest *create)
{
    struct stream_created created = {.id = -1};
    struct stream_create request = {.key = belfry_bytes_of(create->key.data, create->key.len),
                                    .range_end = belfry_bytes_of(create->range_end.data, create->range_end.len),
                                    .start_rev = create->start_revision,
                                    .watch_id = create->watch_id,
                                    .flags = flags_of(create),
                                    .out = &created};
    TRACE(served->server->opts->name, "worker %u at %lld: create from %lld%s on stream %u", served->server->number,
          (long long)worker_position(served->server->worker), (long long)request.start_rev,
          (request.flags & WATCHER_FRAGMENT) != 0 ? " fragment" : "", served->serial);
    cover_start(served->server, request.start_rev);
    if (is_of_lines(served))
        suit_lines(served, &request);
    struct halves halves = {.middle = {0}};
    halve(served, &request, &halves);
    served->watched_past = worker_past(served->server->worker);
    enum belfry_err err = stream_create(served->server->worker, served->stream, &request);
    halves_fini(&halves);
    if (err == BELFRY_OK && served->guard.permit != NULL)
        guard_created(&served->guard, created.is_there ? created.id : -1, request.key, request.range_end);
    served->line_id = created.id;
    return err;
}

/* As serve/etcd/watch.c: rights are asked for first, but for a negative start. */
static enum belfry_err on_create(struct served *served, struct belfry_bytes bytes,
                                 const Etcdserverpb__WatchCreateRequest *create)
{
    if (served->guard.permit == NULL || create->start_revision < 0)
        return create_watch(served, create);
    uint64_t now = sched_now(served->server->opts->sched);
    enum guard_answer answer = guard_create(&served->guard, bytes, belfry_bytes_of(create->key.data, create->key.len),
                                            belfry_bytes_of(create->range_end.data, create->range_end.len), now);
    if (answer == GUARD_WAIT && served->who.kind != AUTH_NOBODY)
        asking_claimed(served->server->uplink, &served->who, now);
    return answer == GUARD_FREE ? create_watch(served, create) : BELFRY_OK;
}

static enum belfry_err on_request(struct served *served, struct belfry_bytes bytes)
{
    struct worker *worker = served->server->worker;
    Etcdserverpb__WatchRequest *request =
        etcdserverpb__watch_request__unpack(NULL, bytes.len, (const uint8_t *)bytes.data);
    if (request == NULL)
        abort();
    enum belfry_err err = BELFRY_OK;
    if (request->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST) {
        err = on_create(served, bytes, request->create_request);
    } else if (request->request_union_case == ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST) {
        TRACE(served->server->opts->name, "worker %u: cancel %lld on stream %u", served->server->number,
              (long long)request->cancel_request->watch_id, served->serial);
        served->canceled_inside = served->head_len > 0;
        if (served->guard.permit != NULL)
            guard_canceled(&served->guard, request->cancel_request->watch_id);
        err = stream_cancel(worker, served->stream, request->cancel_request->watch_id);
    } else {
        TRACE(served->server->opts->name, "worker %u at %lld: progress asked on stream %u", served->server->number,
              (long long)worker_position(worker), served->serial);
        stream_progress(worker, served->stream);
    }
    etcdserverpb__watch_request__free_unpacked(request, NULL);
    return err;
}

/* ---- rights ---- */

static enum belfry_err create_asked(struct served *served, struct belfry_bytes bytes)
{
    Etcdserverpb__WatchRequest *request =
        etcdserverpb__watch_request__unpack(NULL, bytes.len, (const uint8_t *)bytes.data);
    if (request == NULL)
        abort();
    enum belfry_err err = create_watch(served, request->create_request);
    etcdserverpb__watch_request__free_unpacked(request, NULL);
    return err;
}

/* The rest of a message that was begun must not go out: then the stream ends. So does one of lines, whose dialect would
 * say why. */
static enum belfry_err expel(struct served *served, const struct guard_order *order)
{
    size_t bytes;
    if (is_of_lines(served) || stream_inside_since(served->stream, &bytes) != 0) {
        COVER(rights_expelled_inside);
        return BELFRY_ERR_DENIED;
    }
    COVER(rights_expelled);
    guard_canceled(&served->guard, order->id);
    return stream_expel(served->server->worker, served->stream, order->id, order->reason);
}

static enum belfry_err obey(struct served *served, const struct guard_order *order)
{
    switch (order->act) {
    case GUARD_NOTHING:
        break;
    case GUARD_CREATE:
        return create_asked(served, order->request);
    case GUARD_REFUSE:
        return stream_refuse(served->server->worker, served->stream, order->reason);
    case GUARD_EXPEL:
        return expel(served, order);
    case GUARD_END:
        return BELFRY_ERR_DENIED;
    }
    return BELFRY_OK;
}

/* Does what answers about rights ask for. False: it has ended. */
static bool serve_rights(struct served *served, uint64_t now)
{
    struct guard_order order;
    do {
        order = guard_next(&served->guard, now);
        enum belfry_err err = obey(served, &order);
        if (err == BELFRY_OK)
            continue;
        TRACE(served->server->opts->name, "worker %u ends stream %u of %s: %s", served->server->number, served->serial,
              served->who.secret, belfry_errname((int)err));
        end_stream(served);
        return false;
    } while (order.act != GUARD_NOTHING);
    return true;
}

static bool wants_requests(const struct served *served)
{
    bool waits = served->guard.permit != NULL && guard_is_asking(&served->guard);
    return !waits && stream_wants_requests(served->stream);
}

static void on_serve_regime(void *user)
{
    struct server *server = user;
    server->regime_changed = true;
}

/* As watch_after_turn() does. */
static void tell_regime(struct server *server, uint64_t now)
{
    belfry_list_each (node, &server->streams) {
        struct guard *guard = &served_of(node)->guard;
        if (guard->permit == NULL)
            continue;
        if (server->regime_changed)
            guard_apply_regime(guard);
        guard_claim_free(guard, now);
    }
    server->regime_changed = false;
}

bool serve_is_calm(const struct server *server)
{
    uint64_t now = sched_now(server->opts->sched);
    belfry_list_each (node, &server->streams) {
        const struct guard *guard = &served_of(node)->guard;
        if (guard->permit != NULL && !guard_is_calm(guard, now))
            return false;
    }
    return true;
}

/* ---- */

/* False: it has ended. */
static bool serve_requests(struct served *served)
{
    struct server *server = served->server;
    if (link_client_gone(served->link)) {
        end_stream(served);
        return false;
    }
    if (served->guard.permit != NULL && !serve_rights(served, sched_now(server->opts->sched)))
        return false;
    while (wants_requests(served) && link_request(served->link, &server->request)) {
        enum belfry_err err = on_request(served, belfry_buf_bytes(&server->request));
        if (err == BELFRY_OK)
            continue;
        TRACE(server->opts->name, "worker %u ends a stream: %s", server->number, belfry_errname((int)err));
        end_stream(served);
        return false;
    }
    return true;
}

static void serve_room(struct served *served)
{
    size_t room = link_room(served->link);
    if (served->guard.permit !=
        NULL) { /* as watch.c: looked at when the client reads, and when permit says something */
        if (room == served->seen && !served->guard.changed)
            return;
        served->seen = room;
        served->guard.changed = false;
        room = guard_may_deliver(&served->guard, sched_now(served->server->opts->sched)) ? room : 0;
    }
    if (room == served->told)
        return;
    served->told = room;
    stream_writable(served->server->worker, served->stream, room);
}

static bool open_stream(struct served *served, uint64_t now)
{
    struct worker *worker = served->server->worker;
    enum belfry_err err = is_of_lines(served)
                              ? stream_open_lines(worker, served, served->kind == TIER_STREAM_PAGES ? &pages : &lines,
                                                  now, &served->stream)
                              : stream_open(worker, served, now, &served->stream);
    if (err == BELFRY_OK)
        stream_set_client(served->stream, served->serial % CLIENTS);
    return err == BELFRY_OK;
}

static void accept_dialled(struct server *server, uint64_t now)
{
    while (!belfry_list_empty(&server->dialled)) {
        struct served *served = served_of(belfry_list_pop(&server->dialled));
        belfry_list_append(&server->streams, &served->node);
        if (worker_position(server->worker) == 0 || !open_stream(served, now))
            end_stream(served); /* not ready: status 14 */
        else if (server->permit != NULL)
            guard_init(&served->guard, server->permit, server->opts->auth, server->uplink, &served->who,
                       server->opts->name);
    }
}

/* ---- reads ---- */

static void serve_reads(struct server *server, uint64_t now)
{
    reading_stand(server->reading, server->standing, &server->identity);
    reading_run(server->reading);
    timers_run(&server->timers, now);
    belfry_list_each (node, &server->streams) {
        struct served *served = served_of(node);
        reading_take(server->reading, served->link, served->serial, served->watched_past);
    }
}

static uint64_t reads_due(const struct server *server)
{
    uint64_t due = reading_due(server->reading);
    belfry_list_each (node, &server->streams)
        due = belfry_min_time(due, link_calls_due(served_of(node)->link));
    return due;
}

/* ---- the loop ---- */

static void set_identity(struct server *server)
{
    struct evlog_view view;
    serve_look(server, &view);
    if (view.cut.past == server->past)
        return;
    struct store_meta meta;
    server->store->api->snapshot(server->store, &meta);
    struct response_identity identity = {meta.cluster_id, meta.member_id, meta.raft_term};
    server->past = view.cut.past;
    server->identity = identity;
    worker_set_identity(server->worker, &identity);
}

static void take_answers(struct server *server)
{
    for (struct job *job; (job = jobs_take(&server->jobs)) != NULL; free(job))
        worker_fetched(server->worker, &job->fetch, job->err, job->segment, job->compact_rev, job->oldest);
}

static void ask_for_history(struct server *server)
{
    struct worker_fetch fetch;
    while (worker_wants_fetch(server->worker, &fetch)) {
        struct job *job = calloc(1, sizeof(*job));
        if (job == NULL)
            abort();
        job->worker = server->number;
        job->fetch = fetch;
        jobs_post(server->reader, job);
    }
}

static void count_states(const struct server *server)
{
    struct worker_stats stats;
    worker_stats(server->worker, &stats);
    COVER_BY(solo, stats.solo > 0);
    COVER_BY(stalled, stats.stalled > 0);
}

/* Those in the middle of what cannot be finished any more: their clients resume. */
static void end_broken(struct server *server)
{
    belfry_list_each_safe (node, &server->streams) {
        if (!stream_broken(served_of(node)->stream))
            continue;
        TRACE(server->opts->name, "worker %u ends stream %u: its rest is gone", server->number,
              served_of(node)->serial);
        COVER(broken);
        end_stream(served_of(node));
    }
}

/* Those that have said their last line. */
static void end_ended(struct server *server)
{
    belfry_list_each_safe (node, &server->streams) {
        if (!stream_ended(served_of(node)->stream) || stream_pending(served_of(node)->stream))
            continue;
        COVER(lines_ended);
        end_stream(served_of(node));
    }
}

static uint64_t serve_step(void *arg)
{
    struct server *server = arg;
    struct sched *sched = server->opts->sched;
    uint64_t now = sched_now(sched);
    set_identity(server);
    if (server->told_stale != server->stale) {
        server->told_stale = server->stale;
        worker_set_stale(server->worker, server->stale);
    }
    accept_dialled(server, now);
    server->turn_ms = now;
    uint64_t due = BELFRY_NEVER;
    if (server->permit != NULL) {
        asking_run(server->uplink, now);
        timers_run(&server->timers, now);
        permit_turn(server->permit, now);
    }
    belfry_list_each_safe (node, &server->streams)
        if (serve_requests(served_of(node)))
            serve_room(served_of(node));
    take_answers(server);
    if (server->reading != NULL)
        serve_reads(server, now);
    static const uint64_t budgets[] = {1, 4, 30, 400};
    size_t budget = 1 + sched_below(sched, budgets[sched_below(sched, 4)]);
    bool more = server->regime_changed || worker_turn(server->worker, now, budget); /* as while streams learn of it */
    if (server->permit != NULL)
        tell_regime(server, now);
    ask_for_history(server);
    if (server->reading != NULL) {
        reading_see_past(server->reading, worker_past(server->worker), worker_rewritten(server->worker));
        more = reading_turn(server->reading) || more;
    }
    count_states(server);
    end_broken(server);
    end_ended(server);
    belfry_list_each (node, &server->streams) {
        if (wants_requests(served_of(node)))
            due = belfry_min_time(due, link_server_due(served_of(node)->link));
        if (server->permit != NULL)
            due = belfry_min_time(due, served_of(node)->guard.changed ? now : guard_due(&served_of(node)->guard));
    }
    if (server->permit != NULL)
        due = belfry_min_time(due, asking_due(server->uplink));
    if (server->reading != NULL)
        due = belfry_min_time(due, reads_due(server));
    due = belfry_min_time(due, timers_due(&server->timers));
    due = belfry_min_time(due, jobs_due(&server->jobs));
    return more ? now : belfry_min_time(due, worker_due(server->worker));
}

static void start_permit(struct server *server)
{
    const struct tier_opts *tier = server->opts;
    server->uplink = asking_create(tier);
    struct permit_opts opts = {.uplink = server->uplink,
                               .loop = timers_loop(&server->timers),
                               .n_members = etcd_members(tier->peer.etcd),
                               .period_ms = tier->rights_period_ms,
                               .answers = server->answers,
                               .seed = tier->seed + 100 + server->number};
    if (permit_create(&opts, &server->permit) != BELFRY_OK)
        abort();
    permit_listen(server->permit, on_serve_regime, server);
}

static void start_reading(struct server *server)
{
    struct reading_opts opts = {.tier = server->opts,
                                .store = server->store,
                                .timers = &server->timers,
                                .thread = &server->mails,
                                .ingest = server->ingest,
                                .term = server->term,
                                .actor = server->jobs.actor,
                                .boot = server->boot};
    server->reading = reading_create(&opts);
}

void serve_start(struct server *server)
{
    const struct tier_opts *tier = server->opts;
    belfry_list_init(&server->streams);
    belfry_list_init(&server->dialled);
    jobs_init(&server->jobs, tier->sched, tier->delay_ms);
    timers_init(&server->timers, tier->sched);
    struct worker_opts opts = {.log = server->log,
                               .number = server->number,
                               .seed = tier->seed + server->number,
                               .fragment_bytes = tier->fragment_bytes,
                               .response_bytes = tier->response_bytes,
                               .response_revs = tier->response_revs,
                               .segment_bytes = tier->segment_bytes * 4,
                               .progress_ms = tier->progress_ms,
                               .write = write_stream,
                               .attribute = attribute,
                               .attribute_user = server};
    if (worker_create(&opts, &server->worker) != BELFRY_OK)
        abort();
    if (tier->auth != NULL)
        start_permit(server);
    server->jobs.actor = sched_add(tier->sched, ACTOR_THREAD, serve_step, server);
    if (tier->reads)
        start_reading(server);
}

void serve_stop(struct server *server)
{
    while (!belfry_list_empty(&server->dialled))
        end_stream(served_of(server->dialled.next));
    while (!belfry_list_empty(&server->streams))
        end_stream(served_of(server->streams.next));
    reading_destroy(server->reading);
    server->reading = NULL;
    permit_destroy(server->permit);
    asking_destroy(server->uplink);
    worker_destroy(server->worker);
    belfry_buf_fini(&server->request);
    jobs_drop(&server->jobs.list);
}

bool serve_is_waiting(const struct server *server)
{
    return !belfry_list_empty(&server->jobs.list);
}

void serve_answer(struct server *server, struct job *job, enum belfry_err err, struct segment *segment,
                  int64_t compact_rev)
{
    job->err = err;
    job->segment = segment;
    job->compact_rev = compact_rev;
    jobs_post(&server->jobs, job);
}

void serve_look(const struct server *server, struct evlog_view *view)
{
    sched_hold();
    evlog_enter(server->log, server->opts->n_workers, view);
    evlog_leave(server->log, server->opts->n_workers);
    sched_release();
}
