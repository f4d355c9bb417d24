/* bench/h2fit.c: what a delivery costs up to the socket: the core alone, and with HTTP/2 frames around it.
 *
 * Server sessions of nghttp2 in memory, no sockets; each has one gRPC stream that stays open, as a Watch call does. One
 * revision at a time is appended to the log and delivered to everybody before the next (paced: the worst case, one
 * frame a session and revision). What the worker writes is framed at once, without being copied (NO_COPY), into the
 * session's output, which is thrown away; the peer's WINDOW_UPDATEs are fed when half a window is used, as clients do.
 * The same run with a sink that drops the bytes gives the core's share.
 *
 *     h2fit [--revisions N] [--only ROW]
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nghttp2/nghttp2.h>

#include "base/buf.h"
#include "core/worker.h"
#include "wire/write.h"

#define VALUE_BYTES   256
#define OUT_BYTES     (32 * 1024) /* of a session: two full frames */
#define FRAME_HEAD    9
#define UPDATE_BYTES  13 /* a WINDOW_UPDATE frame */
#define WORK_PER_TURN 4096
#define WARM_UP       20 /* revisions that are not counted */

enum sink { SINK_DROP, SINK_H2, SINK_KEEP };

struct setup {
    const char *what;
    size_t sessions, watchers; /* watchers: of each */
    uint32_t window;
};

struct peer {
    struct fit *fit;
    nghttp2_session *session;
    struct stream *stream;
    int32_t id;
    const uint8_t *data; /* what the worker handed over and is not framed yet */
    size_t len;
    size_t unacknowledged;
    bool due;      /* for a WINDOW_UPDATE */
    bool deferred; /* by us: nghttp2 itself wakes what it held back for the window */
    size_t out_len;
    uint8_t *out;
    struct belfry_buf kept;
};

struct fit {
    const struct setup *setup;
    enum sink sink;
    struct evlog *log;
    struct worker *worker;
    struct peer *peers;
    struct peer **due;
    size_t n_due;
    int64_t rev;
    uint64_t written, framed; /* bytes handed over; payload of DATA frames */
};

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "h2fit: %s failed\n", what);
    exit(1);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- nghttp2, the server's side ---- */

static void put_out(struct peer *peer, const uint8_t *data, size_t len)
{
    if (peer->out_len + len > OUT_BYTES)
        peer->out_len = 0; /* a socket would have taken it */
    memcpy(peer->out + peer->out_len, data, len);
    peer->out_len += len;
}

static ssize_t on_send(nghttp2_session *session, const uint8_t *data, size_t len, int flags, void *user)
{
    (void)session, (void)flags;
    put_out(user, data, len);
    return (ssize_t)len;
}

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t len, uint32_t *flags,
                       nghttp2_data_source *source, void *user)
{
    (void)session, (void)id, (void)buf, (void)user;
    struct peer *peer = source->ptr;
    peer->deferred = peer->len == 0;
    if (peer->deferred)
        return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    return (ssize_t)(len < peer->len ? len : peer->len);
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t len,
                        nghttp2_data_source *source, void *user)
{
    (void)session, (void)frame, (void)user;
    struct peer *peer = source->ptr;
    put_out(peer, head, FRAME_HEAD);
    put_out(peer, peer->data, len);
    peer->data += len;
    peer->len -= len;
    peer->fit->framed += len;
    return 0;
}

static nghttp2_nv field(const char *name, const char *value)
{
    union {
        const char *in;
        uint8_t *out; /* nghttp2 does not write there */
    } n = {.in = name}, v = {.in = value};
    return (nghttp2_nv){.name = n.out, .value = v.out, .namelen = strlen(name), .valuelen = strlen(value)};
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct peer *peer = user;
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    nghttp2_nv fields[] = {field(":status", "200"), field("content-type", "application/grpc")};
    nghttp2_data_provider provider = {.source.ptr = peer, .read_callback = on_read};
    peer->id = frame->hd.stream_id;
    return nghttp2_submit_response(session, frame->hd.stream_id, fields, 2, &provider);
}

static void server_create(struct peer *peer)
{
    nghttp2_session_callbacks *callbacks;
    must(nghttp2_session_callbacks_new(&callbacks) == 0, "nghttp2");
    nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    must(nghttp2_session_server_new(&peer->session, callbacks, peer) == 0, "nghttp2");
    nghttp2_session_callbacks_del(callbacks);
    must(nghttp2_submit_settings(peer->session, NGHTTP2_FLAG_NONE, NULL, 0) == 0, "settings");
}

/* ---- the handshake, with a client that is then forgotten ---- */

static ssize_t never_ends(nghttp2_session *session, int32_t id, uint8_t *buf, size_t len, uint32_t *flags,
                          nghttp2_data_source *source, void *user)
{
    (void)session, (void)id, (void)buf, (void)len, (void)flags, (void)source, (void)user;
    return NGHTTP2_ERR_DEFERRED;
}

static nghttp2_session *client_create(uint32_t window)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *client;
    must(nghttp2_session_callbacks_new(&callbacks) == 0, "nghttp2");
    must(nghttp2_session_client_new(&client, callbacks, NULL) == 0, "nghttp2");
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_settings_entry entry = {.settings_id = NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, .value = window};
    must(nghttp2_submit_settings(client, NGHTTP2_FLAG_NONE, &entry, 1) == 0, "settings");
    must(nghttp2_session_set_local_window_size(client, NGHTTP2_FLAG_NONE, 0, (int32_t)window) == 0, "window");
    nghttp2_nv fields[] = {field(":method", "POST"),
                           field(":scheme", "http"),
                           field(":path", "/etcdserverpb.Watch/Watch"),
                           field(":authority", "127.0.0.1"),
                           field("content-type", "application/grpc"),
                           field("te", "trailers")};
    nghttp2_data_provider provider = {.read_callback = never_ends};
    must(nghttp2_submit_request(client, NULL, fields, 6, &provider, NULL) > 0, "request");
    return client;
}

static void handshake(struct peer *peer, uint32_t window)
{
    nghttp2_session *client = client_create(window);
    bool busy;
    do {
        const uint8_t *data;
        ssize_t n = nghttp2_session_mem_send(client, &data);
        must(n >= 0 && nghttp2_session_mem_recv(peer->session, data, (size_t)n) == n, "handshake");
        must(nghttp2_session_send(peer->session) == 0, "handshake");
        busy = n > 0 || peer->out_len > 0;
        n = nghttp2_session_mem_recv(client, peer->out, peer->out_len);
        must(n == (ssize_t)peer->out_len, "handshake");
        peer->out_len = 0;
    } while (busy);
    nghttp2_session_del(client);
    must(peer->id > 0, "request");
}

/* ---- between worker and session ---- */

static void on_write(void *user, const uint8_t *data, size_t len)
{
    struct peer *peer = user;
    struct fit *fit = peer->fit;
    fit->written += len;
    peer->unacknowledged += len;
    if (!peer->due && peer->unacknowledged >= fit->setup->window / 2) {
        peer->due = true;
        fit->due[fit->n_due++] = peer;
    }
    switch (fit->sink) {
    case SINK_DROP:
        break;
    case SINK_KEEP:
        must(belfry_buf_append(&peer->kept, data, len) == BELFRY_OK, "memory");
        break;
    case SINK_H2:
        peer->data = data;
        peer->len = len;
        must(!peer->deferred || nghttp2_session_resume_data(peer->session, peer->id) == 0, "resume");
        must(nghttp2_session_send(peer->session) == 0, "send");
        must(peer->len == 0, "framing all that was written");
        peer->out_len = 0;
        break;
    }
}

static uint8_t *put_update(uint8_t *to, int32_t stream, size_t bytes)
{
    const uint8_t frame[UPDATE_BYTES] = {0,
                                         0,
                                         4,
                                         NGHTTP2_WINDOW_UPDATE,
                                         0,
                                         (uint8_t)(stream >> 24),
                                         (uint8_t)(stream >> 16),
                                         (uint8_t)(stream >> 8),
                                         (uint8_t)stream,
                                         (uint8_t)(bytes >> 24),
                                         (uint8_t)(bytes >> 16),
                                         (uint8_t)(bytes >> 8),
                                         (uint8_t)bytes};
    memcpy(to, frame, sizeof(frame));
    return to + sizeof(frame);
}

/* The peer gives back the window it has read. */
static void acknowledge(struct peer *peer)
{
    uint8_t frames[2 * UPDATE_BYTES];
    size_t room = peer->fit->setup->window;
    put_update(put_update(frames, 0, peer->unacknowledged), peer->id, peer->unacknowledged);
    if (peer->fit->sink == SINK_H2) {
        ssize_t n = nghttp2_session_mem_recv(peer->session, frames, sizeof(frames));
        must(n == (ssize_t)sizeof(frames), "window update");
        int32_t window = nghttp2_session_get_stream_remote_window_size(peer->session, peer->id);
        must(window == (int32_t)room && nghttp2_session_get_remote_window_size(peer->session) == window, "windows");
    }
    peer->unacknowledged = 0;
    peer->due = false;
    stream_writable(peer->fit->worker, peer->stream, room);
}

/* Until nothing is left to do. */
static void turns(struct fit *fit)
{
    bool more;
    do {
        more = worker_turn(fit->worker, 1, WORK_PER_TURN) || fit->n_due > 0;
        while (fit->n_due > 0)
            acknowledge(fit->due[--fit->n_due]);
    } while (more);
}

/* ---- one run ---- */

static struct batch *next_batch(struct fit *fit)
{
    static char value[VALUE_BYTES];
    memset(value, 'v', sizeof(value));
    struct belfry_wire_event fields = {.kv = {.key = belfry_bytes_str("/watched/by/everybody"),
                                              .value = belfry_bytes_of(value, sizeof(value)),
                                              .create_rev = 2,
                                              .mod_rev = ++fit->rev,
                                              .version = fit->rev - 1}};
    uint8_t raw[2 * VALUE_BYTES];
    struct belfry_wire_event event;
    struct belfry_bytes none = {0};
    struct batch *batch;
    size_t len = belfry_write_event_size(&fields);
    belfry_write_event(&fields, raw);
    must(belfry_scan_event(belfry_bytes_of(raw, len), &event) == BELFRY_OK, "event");
    must(batch_create(fit->rev, BATCH_EVENTS, 1, batch_event_bytes(&event, none), &batch) == BELFRY_OK, "memory");
    batch_add(batch, &event, none);
    return batch;
}

/* Nanoseconds of CPU from the append until everybody has it. */
static uint64_t deliver_one(struct fit *fit)
{
    struct batch *batch = next_batch(fit);
    uint64_t began = cpu_ns();
    must(evlog_append(fit->log, batch) == BELFRY_OK, "append");
    evlog_committed(fit->log, fit->rev);
    turns(fit);
    return cpu_ns() - began;
}

static void add_watchers(struct fit *fit, struct peer *peer)
{
    struct stream_create create = {.key = belfry_bytes_str("/watched/"), .range_end = belfry_bytes_str("/watched0")};
    for (size_t i = 0; i < fit->setup->watchers; i++) {
        if (!stream_wants_requests(peer->stream))
            turns(fit);
        must(stream_create(fit->worker, peer->stream, &create) == BELFRY_OK, "create");
    }
    turns(fit);
}

static void open_peer(struct fit *fit, struct peer *peer)
{
    peer->fit = fit;
    peer->out = malloc(OUT_BYTES);
    must(peer->out != NULL, "memory");
    belfry_buf_init(&peer->kept);
    server_create(peer);
    handshake(peer, fit->setup->window);
    must(stream_open(fit->worker, peer, 1, &peer->stream) == BELFRY_OK, "stream");
    stream_writable(fit->worker, peer->stream, fit->setup->window);
    add_watchers(fit, peer);
}

static void begin(struct fit *fit)
{
    struct evlog_opts log = {.capacity_log2 = 10, .max_bytes = (size_t)64 << 20, .n_workers = 1};
    must(evlog_create(&log, &fit->log) == BELFRY_OK, "log");
    fit->rev = 1;
    must(evlog_cut(fit->log, fit->rev, EVLOG_CUT_START, 0) == BELFRY_OK, "cut");
    struct worker_opts opts = {
        .log = fit->log,
        .identity = {.cluster_id = 0x1cf5e9c1c12248eau, .member_id = 0x61f97220ab052a12u, .raft_term = 2},
        .seed = 1,
        .fragment_bytes = (size_t)2 << 20,
        .response_bytes = (size_t)1 << 20,
        .response_revs = 1000,
        .segment_bytes = (size_t)8 << 20,
        .progress_ms = 600000,
        .write = on_write};
    must(worker_create(&opts, &fit->worker) == BELFRY_OK, "worker");
    worker_turn(fit->worker, 1, WORK_PER_TURN); /* it learns of the past */
    fit->peers = calloc(fit->setup->sessions, sizeof(*fit->peers));
    fit->due = calloc(fit->setup->sessions, sizeof(struct peer *));
    must(fit->peers != NULL && fit->due != NULL, "memory");
    for (size_t i = 0; i < fit->setup->sessions; i++)
        open_peer(fit, &fit->peers[i]);
}

static void end(struct fit *fit)
{
    for (size_t i = 0; i < fit->setup->sessions; i++) {
        struct peer *peer = &fit->peers[i];
        nghttp2_session_del(peer->session);
        stream_close(fit->worker, peer->stream);
        belfry_buf_fini(&peer->kept);
        free(peer->out);
    }
    worker_destroy(fit->worker);
    evlog_destroy(fit->log);
    free(fit->due);
    free(fit->peers);
}

/* One message with one event for each watcher, in the order of their ids. */
static void check_kept(struct peer *peer)
{
    size_t n = 0;
    for (; belfry_buf_len(&peer->kept) > 0; n++) {
        struct belfry_bytes all = belfry_buf_bytes(&peer->kept);
        const uint8_t *head = (const uint8_t *)all.data;
        size_t len = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
        struct belfry_wire_watch watch;
        must(all.len >= RESPONSE_PREFIX + len, "message");
        must(belfry_scan_watch(belfry_bytes_of(head + RESPONSE_PREFIX, len), &watch) == BELFRY_OK, "message");
        must(watch.n_events == 1 && watch.watch_id == (int64_t)n && watch.header.revision == peer->fit->rev,
             "response");
        belfry_buf_take(&peer->kept, RESPONSE_PREFIX + len);
    }
    must(n == peer->fit->setup->watchers, "delivery to every watcher");
}

/* One revision, outside of the measurement, looked at byte by byte. */
static void check(const struct setup *setup)
{
    struct fit fit = {.setup = setup, .sink = SINK_DROP};
    begin(&fit);
    fit.sink = SINK_KEEP;
    deliver_one(&fit);
    for (size_t i = 0; i < setup->sessions; i++)
        check_kept(&fit.peers[i]);
    end(&fit);
}

static int ascending(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Median of the revisions, and the least, in nanoseconds a delivery. */
static void measure(const struct setup *setup, enum sink sink, size_t revisions, double *median, double *least)
{
    struct fit fit = {.setup = setup, .sink = sink};
    uint64_t *took = calloc(revisions, sizeof(*took));
    must(took != NULL, "memory");
    begin(&fit);
    for (size_t i = 0; i < WARM_UP; i++)
        deliver_one(&fit);
    for (size_t i = 0; i < revisions; i++)
        took[i] = deliver_one(&fit);
    struct worker_stats stats;
    worker_stats(fit.worker, &stats);
    double deliveries = (double)(setup->sessions * setup->watchers);
    must(stats.deliveries == (WARM_UP + revisions) * setup->sessions * setup->watchers, "delivery to everybody");
    must(sink != SINK_H2 || fit.framed == fit.written, "framing everything");
    end(&fit);
    qsort(took, revisions, sizeof(*took), ascending);
    *median = (double)took[revisions / 2] / deliveries;
    *least = (double)took[0] / deliveries;
    free(took);
}

static void report(const struct setup *setup, size_t revisions)
{
    double core, core_least, both, both_least;
    check(setup);
    measure(setup, SINK_DROP, revisions, &core, &core_least);
    measure(setup, SINK_H2, revisions, &both, &both_least);
    printf("%-44s %8.0f %8.0f %10.0f %8.0f\n", setup->what, core, core_least, both, both_least);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"revisions", required_argument, NULL, 'r'}, {"only", required_argument, NULL, 'o'}, {0}};
    static const struct setup setups[] = {
        {"1,000 sessions, a watcher each", 1000, 1, 65535},
        {"10 sessions, 1,000 watchers each", 10, 1000, 1 << 20},
        {"10 sessions, 1,000 watchers each, 64 KiB", 10, 1000, 65535},
    };
    size_t revisions = 300, only = 0;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        size_t n = c == '?' ? 0 : strtoul(optarg, NULL, 10);
        if (n == 0) {
            fprintf(stderr, "usage: h2fit [--revisions N] [--only ROW]\n");
            return 2;
        }
        *(c == 'r' ? &revisions : &only) = n;
    }
    printf("CPU a delivery in ns, %zu revisions, paced; %d B values\n", revisions, VALUE_BYTES);
    printf("%-44s %8s %8s %10s %8s\n", "", "core", "least", "+ nghttp2", "least");
    for (size_t i = 0; i < sizeof(setups) / sizeof(*setups); i++)
        if (only == 0 || only == i + 1)
            report(&setups[i], revisions);
    return 0;
}
