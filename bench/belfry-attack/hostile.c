/* bench/belfry-attack/hostile.c */
#include "hostile.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "die.h"
#include "stopwatch.h"
#include "wire/scan.h"

#define WINDOW       65535
#define READ_BYTES   ((size_t)64 << 10)
#define SMALL_BUFFER 4096
#define SIP_NS       ((uint64_t)100 * NS_PER_MS)
#define AGAIN_NS     ((uint64_t)100 * NS_PER_MS) /* after it was ended: a client that retries, and does not back off */
#define MESSAGE_HEAD 5u
#define SECRET       "belfry-secret" /* in values that the user of an attack may not see */

#define SETTINGS_INITIAL_WINDOW 4

void hostile_init(struct hostile *hostile, struct hostile_gang *gang, size_t index)
{
    *hostile = (struct hostile){.gang = gang, .index = index, .fd = -1};
}

/* Forgets everything of the connection but its place among the others. */
static void hostile_clear(struct hostile *hostile)
{
    if (hostile->fd >= 0)
        close(hostile->fd);
    if (hostile->inflater != NULL)
        nghttp2_hd_inflate_del(hostile->inflater);
    h2frame_cutter_fini(&hostile->cutter);
    belfry_buf_fini(&hostile->out);
    hostile_init(hostile, hostile->gang, hostile->index);
}

void hostile_fini(struct hostile *hostile)
{
    hostile_clear(hostile);
}

static void hostile_end(struct hostile *hostile, uint64_t wait_ns)
{
    poller_forget(hostile->gang->poll, hostile->fd);
    hostile_clear(hostile);
    hostile->due_ns = stopwatch_ns() + wait_ns;
}

static void hostile_ended_by_server(struct hostile *hostile)
{
    hostile->gang->ended++;
    hostile_end(hostile, hostile->gang->script->returns ? 0 : AGAIN_NS);
}

/* ---- what the server says ---- */

static const char *code_name(uint32_t code)
{
    static const char *const names[] = {"NO_ERROR",
                                        "PROTOCOL_ERROR",
                                        "INTERNAL_ERROR",
                                        "FLOW_CONTROL_ERROR",
                                        "SETTINGS_TIMEOUT",
                                        "STREAM_CLOSED",
                                        "FRAME_SIZE_ERROR",
                                        "REFUSED_STREAM",
                                        "CANCEL",
                                        "COMPRESSION_ERROR",
                                        "CONNECT_ERROR",
                                        "ENHANCE_YOUR_CALM",
                                        "INADEQUATE_SECURITY",
                                        "HTTP_1_1_REQUIRED"};
    return code < sizeof(names) / sizeof(names[0]) ? names[code] : "unknown code";
}

static bool header_is(const nghttp2_nv *nv, const char *name)
{
    return nv->namelen == strlen(name) && memcmp(nv->name, name, nv->namelen) == 0;
}

static void on_headers(struct hostile *hostile, const struct h2frame *frame)
{
    char status[8] = "", grpc_status[8] = "", text[96] = "";
    int flags = 0;
    const uint8_t *at = frame->payload;
    size_t left = frame->len;
    if (hostile->inflater == NULL && nghttp2_hd_inflate_new(&hostile->inflater) != 0)
        die("out of memory");
    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv nv;
        flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(hostile->inflater, &nv, &flags, at, left, 1);
        if (n < 0)
            return; /* an attacker does not mind */
        at += n;
        left -= (size_t)n;
        if (!(flags & NGHTTP2_HD_INFLATE_EMIT))
            continue;
        int len = nv.valuelen < 95 ? (int)nv.valuelen : 95;
        if (header_is(&nv, ":status"))
            snprintf(status, sizeof(status), "%.*s", len, nv.value);
        else if (header_is(&nv, "grpc-status"))
            snprintf(grpc_status, sizeof(grpc_status), "%.*s", len, nv.value);
        else if (header_is(&nv, "grpc-message"))
            snprintf(text, sizeof(text), "%.*s", len, nv.value);
    }
    nghttp2_hd_inflate_end_headers(hostile->inflater);
    if (grpc_status[0] != '\0' && strcmp(grpc_status, "0") != 0)
        told_add(&hostile->gang->told, "grpc-status %s: %s", grpc_status, text);
    else if (status[0] != '\0' && strcmp(status, "200") != 0)
        told_add(&hostile->gang->told, "HTTP %s", status);
}

static void give_window(struct hostile *hostile, uint32_t id, size_t by)
{
    uint8_t payload[4];
    h2frame_write_u32(payload, (uint32_t)by);
    hostile_frame(hostile, H2FRAME_WINDOW_UPDATE, 0, id, payload, sizeof(payload));
}

/* What stands in the body between `before` and `end`, if both are there. */
static void on_text(struct hostile *hostile, const struct h2frame *frame, const char *what, const char *before,
                    char end)
{
    const uint8_t *at = memmem(frame->payload, frame->len, before, strlen(before));
    if (at == NULL)
        return;
    at += strlen(before);
    const uint8_t *until = memchr(at, end, frame->len - (size_t)(at - frame->payload));
    if (until != NULL)
        told_add(&hostile->gang->told, "%s: %.*s", what, (int)(until - at), (const char *)at);
}

/* Watches that were refused, the message of a Kubernetes Status, and the comment with which an event stream is
 * refused. Only what lies whole in one frame is looked at: belfryd sends refusals so. */
static void on_data(struct hostile *hostile, const struct h2frame *frame)
{
    struct belfry_wire_watch watch;
    const uint8_t *at = frame->payload, *end = frame->payload + frame->len;
    if (frame->len > 0 && !hostile->gang->script->no_window) {
        give_window(hostile, 0, frame->len);
        give_window(hostile, frame->id, frame->len);
    }
    if (memmem(frame->payload, frame->len, SECRET, sizeof(SECRET) - 1) != NULL)
        told_add(&hostile->gang->told, "a secret");
    on_text(hostile, frame, "comment", "\n: belfry: ", '\n');
    on_text(hostile, frame, "message", "\"message\":\"", '"');
    while (at + MESSAGE_HEAD < end) {
        size_t len = h2frame_read_u32(at + 1);
        at += MESSAGE_HEAD;
        if (len > (size_t)(end - at))
            return;
        if (belfry_scan_watch(belfry_bytes_of(at, len), &watch) == BELFRY_OK && watch.canceled &&
            watch.cancel_reason.len > 0)
            told_add(&hostile->gang->told, "watch canceled: %.*s", (int)watch.cancel_reason.len,
                     watch.cancel_reason.data);
        at += len;
    }
}

static void on_goaway(struct hostile *hostile, const struct h2frame *frame)
{
    if (frame->len < 8)
        return;
    uint32_t code = h2frame_read_u32(frame->payload + 4);
    told_add(&hostile->gang->told, "GOAWAY %s%s%.*s", code_name(code), frame->len > 8 ? ": " : "",
             (int)(frame->len - 8), (const char *)frame->payload + 8);
}

static void on_window_update(struct hostile *hostile, const struct h2frame *frame)
{
    if (frame->len != 4)
        return;
    uint32_t by = h2frame_read_u32(frame->payload);
    if (frame->id == 0)
        hostile->window += by;
    else if (frame->id == hostile->stream)
        hostile->stream_window += by;
}

static void on_frame(struct hostile *hostile, const struct h2frame *frame)
{
    switch (frame->type) {
    case H2FRAME_HEADERS:
        on_headers(hostile, frame);
        break;
    case H2FRAME_DATA:
        on_data(hostile, frame);
        break;
    case H2FRAME_RST_STREAM:
        if (frame->len == 4)
            told_add(&hostile->gang->told, "RST_STREAM %s", code_name(h2frame_read_u32(frame->payload)));
        break;
    case H2FRAME_GOAWAY:
        on_goaway(hostile, frame);
        break;
    case H2FRAME_WINDOW_UPDATE:
        on_window_update(hostile, frame);
        break;
    default: /* PINGs are left unanswered: nothing may come between the parts of a head */
        break;
    }
}

/* Every status line that lies whole in what was read. */
static void on_http1(struct hostile *hostile, const char *data, size_t len)
{
    static const char version[] = "HTTP/1.1 ";
    const char *at, *end = data + len;
    while ((at = memmem(data, (size_t)(end - data), version, sizeof(version) - 1)) != NULL) {
        data = at + sizeof(version) - 1;
        if (end - data >= 3 && memcmp(data, "200", 3) != 0)
            told_add(&hostile->gang->told, "HTTP %.3s", data);
    }
}

static void on_bytes(struct hostile *hostile, const uint8_t *data, size_t len)
{
    struct belfry_bytes bytes = belfry_bytes_of(data, len);
    struct h2frame frame;
    hostile->gang->bytes_in += len;
    if (hostile->gang->script->protocol == SCRIPT_HTTP1) {
        on_http1(hostile, bytes.data, len);
        return;
    }
    while (h2frame_cut(&hostile->cutter, &bytes, &frame) == H2FRAME_CUT)
        on_frame(hostile, &frame);
}

/* ---- the socket ---- */

static void hostile_watch(struct hostile *hostile, int op)
{
    uint32_t want = hostile->gang->script->sip > 0 ? 0u : EPOLLIN;
    want |= hostile->wants_write ? EPOLLOUT : 0u;
    poller_watch(hostile->gang->poll, op, hostile->fd, want, &hostile->entry);
}

static void hostile_flush(struct hostile *hostile)
{
    bool full = false;
    while (belfry_buf_len(&hostile->out) > 0 && !full) {
        struct belfry_bytes bytes = belfry_buf_bytes(&hostile->out);
        ssize_t n = send(hostile->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (n > 0) {
            belfry_buf_take(&hostile->out, (size_t)n);
            hostile->gang->bytes_out += (uint64_t)n;
        } else if (errno == EAGAIN) {
            full = true;
        } else if (errno != EINTR) {
            belfry_buf_clear(&hostile->out); /* its end comes by reading, with the last words */
            return;
        }
    }
    if (hostile->wants_write != full) {
        hostile->wants_write = full;
        hostile_watch(hostile, EPOLL_CTL_MOD);
    }
}

/* False: the connection has ended. */
static bool hostile_read(struct hostile *hostile, size_t most)
{
    static uint8_t data[READ_BYTES];
    ssize_t n = recv(hostile->fd, data, most < sizeof(data) ? most : sizeof(data), 0);
    if (n > 0) {
        on_bytes(hostile, data, (size_t)n);
        return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    told_add(&hostile->gang->told, n == 0 ? "closed" : "closed: %s", strerror(errno));
    hostile_ended_by_server(hostile);
    return false;
}

static void on_connected(struct hostile *hostile)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const struct script *script = hostile->gang->script;
    int err = 0;
    socklen_t len = sizeof(err);
    getsockopt(hostile->fd, SOL_SOCKET, SO_ERROR, &err, &len);
    if (err != 0) {
        told_add(&hostile->gang->told, "not connected: %s", strerror(err));
        hostile_ended_by_server(hostile);
        return;
    }
    hostile->state = HOSTILE_OPEN;
    hostile->next_id = 1;
    hostile->window = WINDOW;
    if (script->protocol == SCRIPT_HTTP2) {
        uint8_t setting[6] = {0, SETTINGS_INITIAL_WINDOW};
        bool announces = script->no_window || script->window != 0;
        h2frame_write_u32(setting + 2, script->window);
        hostile_put(hostile, preface, sizeof(preface) - 1);
        hostile_frame(hostile, H2FRAME_SETTINGS, 0, 0, setting, announces ? sizeof(setting) : 0);
        hostile_frame(hostile, H2FRAME_SETTINGS, H2FRAME_ACK, 0, NULL, 0); /* the server's are on their way */
    }
    hostile->wants_write = false;
    hostile_watch(hostile, EPOLL_CTL_MOD);
    hostile_flush(hostile);
}

static void on_ready(struct poller_entry *entry, uint32_t events)
{
    struct hostile *hostile = (struct hostile *)entry; /* its first member */
    if (hostile->state == HOSTILE_CONNECTING) {
        on_connected(hostile);
        return;
    }
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP) && !hostile_read(hostile, READ_BYTES))
        return;
    hostile_flush(hostile);
}

void hostile_connect(struct hostile *hostile)
{
    const struct target *target = &hostile->gang->target;
    assert(hostile->state == HOSTILE_AWAY);
    hostile->fd = target_try(target);
    if (hostile->fd < 0) {
        told_add(&hostile->gang->told, "not connected: %s", strerror(errno));
        hostile->due_ns = stopwatch_ns() + AGAIN_NS;
        return;
    }
    struct linger reset = {.l_onoff = 1}; /* no TIME_WAIT: an attacker does not run out of ports */
    setsockopt(hostile->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    if (hostile->gang->script->sip > 0) {
        int small = SMALL_BUFFER;
        setsockopt(hostile->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    }
    hostile->gang->connects++;
    hostile->state = HOSTILE_CONNECTING;
    hostile->entry.ready = on_ready;
    hostile->due_ns = 0;
    poller_watch(hostile->gang->poll, EPOLL_CTL_ADD, hostile->fd, EPOLLOUT, &hostile->entry);
}

size_t hostile_turn(struct hostile *hostile, uint64_t now_ns)
{
    const struct script *script = hostile->gang->script;
    if (hostile->state != HOSTILE_OPEN)
        return 0;
    if (script->sip > 0 && now_ns >= hostile->sip_ns) {
        hostile->sip_ns = now_ns + SIP_NS;
        if (!hostile_read(hostile, script->sip))
            return 0;
    }
    if (belfry_buf_len(&hostile->out) > 0 || now_ns < hostile->due_ns)
        return 0;
    if (script->hasty && hostile->step > 0) {
        hostile_end(hostile, 0);
        return 0;
    }
    script->turn(hostile);
    size_t made = belfry_buf_len(&hostile->out);
    hostile_flush(hostile);
    return made;
}

/* ---- for scripts ---- */

void hostile_put(struct hostile *hostile, const void *data, size_t len)
{
    must(belfry_buf_append(&hostile->out, data, len), "bytes");
}

void hostile_frame(struct hostile *hostile, enum h2frame_type type, uint8_t flags, uint32_t id, const void *payload,
                   size_t len)
{
    h2frame_put_head(&hostile->out, type, flags, id, len);
    hostile_put(hostile, payload, len);
}

uint32_t hostile_open(struct hostile *hostile, const struct belfry_buf *block, uint8_t flags)
{
    struct belfry_bytes bytes = belfry_buf_bytes(block);
    uint32_t id = hostile->next_id;
    hostile->next_id += 2;
    hostile->stream = id;
    hostile->stream_window = WINDOW;
    hostile->gang->streams++;
    hostile_frame(hostile, H2FRAME_HEADERS, flags, id, bytes.data, bytes.len);
    return id;
}
