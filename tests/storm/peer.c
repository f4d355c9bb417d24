/* tests/storm/peer.c */
#include "storm/peer.h"

#include <string.h>

#include "base/clock.h"
#include "storm/frames.h"
#include "storm/house.h"
#include "storm/verdict.h"

#define FRAME_HEAD     9
#define FRAME_MAX      16384
#define WINDOW_DEFAULT 65535
#define WINDOW_MOST    (16 << 20) /* that grpc-go grows to */
#define RETURN_MIN     4096       /* of net/http2 */
#define CORE_PREFIX    5          /* that grpcio asks for ahead of each message */
#define CORE_EVERY_MS  100
#define CORE_SELDOM_MS 10000
#define ANSWER_MS      10000 /* for a PING that asks whether the server is there */
#define CODE_CANCEL    8
#define GO_GOODBYE     "client transport shutdown"

static const uint8_t ping_go[8] = {2, 4, 16, 16, 9, 14, 7, 7}, ping_alive[8] = {0xa1};

/* ---- what is sent ---- */

static void peer_frame(struct peer *peer, enum frame_type type, unsigned flags, uint32_t stream,
                       struct belfry_bytes payload)
{
    frame_write(&peer->line.out, type, flags, stream, payload.data, payload.len);
}

static void peer_ping(struct peer *peer, const uint8_t opaque[8])
{
    peer_frame(peer, FRAME_PING, 0, 0, belfry_bytes_of(opaque, 8));
    peer->n_pings++;
}

static void peer_give_window(struct peer *peer, uint32_t stream, uint32_t n)
{
    if (n > 0)
        frame_write_u32(&peer->line.out, FRAME_WINDOW_UPDATE, stream, n);
}

static void peer_settings(struct peer *peer, const nghttp2_settings_entry *entries, size_t n)
{
    uint8_t payload[HABIT_SETTINGS * 6];
    ssize_t len = nghttp2_pack_settings_payload(payload, sizeof(payload), entries, n);
    verdict_must(len >= 0, "SETTINGS");
    peer_frame(peer, FRAME_SETTINGS, 0, 0, belfry_bytes_of(payload, (size_t)len));
}

static void peer_greet(struct peer *peer)
{
    const struct habit *habit = peer->habit;
    verdict_must(belfry_buf_append(&peer->line.out, FRAMES_PREFACE, sizeof(FRAMES_PREFACE) - 1) == BELFRY_OK, "output");
    peer_settings(peer, habit->settings, habit->n_settings);
    peer_give_window(peer, 0, habit->conn_more);
    peer->state = PEER_ON;
    peer->heard_ms = belfry_clock_ms();
}

/* DATA, as much as the windows allow. */
static void call_pump(struct peer *peer, struct peer_call *call)
{
    while (belfry_buf_len(&call->out) > 0 || (call->ends && !call->is_half_closed)) {
        struct belfry_bytes left = belfry_buf_bytes(&call->out);
        int64_t room = call->window_out < peer->window_out ? call->window_out : peer->window_out;
        size_t n = left.len < FRAME_MAX ? left.len : FRAME_MAX;
        if (left.len > 0 && room <= 0)
            return;
        n = left.len > 0 && (int64_t)n > room ? (size_t)room : n;
        bool is_last = call->ends && n == left.len;
        peer_frame(peer, FRAME_DATA, is_last ? FRAME_END_STREAM : 0, call->id, belfry_bytes_of(left.data, n));
        belfry_buf_take(&call->out, n);
        call->window_out -= (int64_t)n;
        peer->window_out -= (int64_t)n;
        call->is_half_closed = is_last;
    }
}

static struct peer_call *call_free_place(struct peer *peer)
{
    for (size_t i = 0; i < PEER_CALLS; i++)
        if (peer->calls[i].id == 0)
            return &peer->calls[i];
    verdict_fail("%s: %d calls are open at once", peer->who, PEER_CALLS);
}

static void call_forget(struct peer *peer, struct peer_call *call)
{
    belfry_buf_fini(&call->in);
    belfry_buf_fini(&call->out);
    *call = (struct peer_call){0};
    peer->n_calls--;
}

struct peer_call *peer_call(struct peer *peer, const struct habit_request *request, unsigned what)
{
    static uint8_t block[4096];
    nghttp2_nv fields[HABIT_FIELDS];
    struct peer_call *call = call_free_place(peer);
    if (peer->state == PEER_SILENT)
        peer_greet(peer);
    *call = (struct peer_call){.id = peer->next_id, .what = what, .grpc_status = -1};
    call->since_ms = belfry_clock_ms();
    call->window_out = peer->first_window_out;
    peer->next_id += 2;
    peer->n_calls++;
    size_t n = habit_head(peer->habit, request, fields);
    ssize_t len = nghttp2_hd_deflate_hd(peer->deflater, block, sizeof(block), fields, n);
    verdict_must(len > 0, "a head");
    call->ends = call->is_half_closed = peer->habit->is_get;
    peer_frame(peer, FRAME_HEADERS, FRAME_END_HEADERS | (peer->habit->is_get ? FRAME_END_STREAM : 0), call->id,
               belfry_bytes_of(block, (size_t)len));
    if (peer->habit->returns == HABIT_RETURN_ALL)
        peer_give_window(peer, call->id, CORE_PREFIX);
    return call;
}

void peer_send(struct peer *peer, struct peer_call *call, struct belfry_bytes bytes, bool ends)
{
    verdict_must(belfry_buf_append(&call->out, bytes.data, bytes.len) == BELFRY_OK, "output");
    call->ends = ends;
    call_pump(peer, call);
}

void peer_cancel(struct peer *peer, struct peer_call *call)
{
    if (peer->habit->pings_with_reset)
        peer_ping(peer, ping_alive);
    frame_write_u32(&peer->line.out, FRAME_RST_STREAM, call->id, CODE_CANCEL);
    call_forget(peer, call);
}

struct peer_call *peer_find(struct peer *peer, unsigned what)
{
    for (size_t i = 0; i < PEER_CALLS; i++)
        if (peer->calls[i].id != 0 && peer->calls[i].what == what)
            return &peer->calls[i];
    return NULL;
}

/* ---- window and bandwidth ---- */

static bool is_due(enum habit_return returns, uint32_t owed, uint32_t window)
{
    switch (returns) {
    case HABIT_RETURN_QUARTERS:
        return owed >= window / 4;
    case HABIT_RETURN_HALVES:
        return owed >= window / 2;
    case HABIT_RETURN_4K:
        return owed >= RETURN_MIN;
    case HABIT_RETURN_ALL:
        return true;
    }
    return true;
}

/* grpc-go: a PING with the first DATA since the last was answered, and the connection's window before it. grpcio: not
 * more often than its last answer suggests. */
static void peer_measure(struct peer *peer, size_t n)
{
    uint64_t now_ms = belfry_clock_ms();
    uint8_t number[8] = {0};
    peer->sample += n;
    if (peer->is_measuring || now_ms < peer->measure_ms || peer->window == WINDOW_MOST)
        return;
    switch (peer->habit->measures) {
    case HABIT_MEASURE_NEVER:
        return;
    case HABIT_MEASURE_GO:
        peer_give_window(peer, 0, peer->owed);
        peer->owed = 0;
        peer_ping(peer, ping_go);
        break;
    case HABIT_MEASURE_CORE:
        number[6] = (uint8_t)(peer->n_measured >> 8);
        number[7] = (uint8_t)peer->n_measured;
        peer_ping(peer, number);
        peer->measure_ms = now_ms + peer->measure_every_ms;
        break;
    }
    peer->n_measured++;
    peer->is_measuring = true;
    peer->sample = n;
}

/* grpc-go: if much came between PING and ACK, windows become twice as large as that. grpcio's are large as they are,
 * and it asks less often while nothing changes. */
static void peer_measured(struct peer *peer)
{
    bool has_grown = peer->habit->measures == HABIT_MEASURE_GO && peer->sample * 3 >= (uint64_t)peer->window * 2;
    peer->is_measuring = false;
    peer->measure_every_ms += peer->measure_every_ms < CORE_SELDOM_MS ? CORE_EVERY_MS : 0;
    if (!has_grown)
        return;
    uint32_t window = peer->sample * 2 > WINDOW_MOST ? WINDOW_MOST : (uint32_t)peer->sample * 2;
    if (window <= peer->window)
        return;
    peer_give_window(peer, 0, window - peer->conn_window);
    peer_settings(peer, &(nghttp2_settings_entry){NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window}, 1);
    peer->window = peer->conn_window = window;
}

static void peer_owe(struct peer *peer, struct peer_call *call, size_t n)
{
    peer->owed += (uint32_t)n;
    if (call != NULL)
        call->owed += (uint32_t)n;
    if (call != NULL && is_due(peer->habit->returns, call->owed, peer->window)) {
        peer_give_window(peer, call->id, call->owed);
        call->owed = 0;
    }
    if (is_due(peer->habit->returns, peer->owed, peer->conn_window)) {
        peer_give_window(peer, 0, peer->owed);
        peer->owed = 0;
    }
    peer_measure(peer, n);
}

/* ---- what is received ---- */

struct frame {
    uint8_t type, flags;
    uint32_t stream;
    struct belfry_bytes payload;
};

static uint32_t u32_at(struct belfry_bytes bytes, size_t at)
{
    const uint8_t *b = (const uint8_t *)bytes.data + at;
    verdict_must(bytes.len >= at + 4, "a frame that is long enough");
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static struct peer_call *call_of(struct peer *peer, uint32_t id)
{
    for (size_t i = 0; i < PEER_CALLS && id != 0; i++)
        if (peer->calls[i].id == id)
            return &peer->calls[i];
    return NULL; /* it was canceled, and the server did not know yet */
}

static int number_of(const nghttp2_nv *field)
{
    int value = 0;
    for (size_t i = 0; i < field->valuelen && i < 6; i++)
        value = value * 10 + (field->value[i] - '0');
    return value;
}

static void call_field(struct peer_call *call, const nghttp2_nv *field)
{
    struct belfry_bytes name = belfry_bytes_of(field->name, field->namelen);
    if (belfry_bytes_equal(name, belfry_bytes_str(":status")))
        call->status = number_of(field);
    else if (belfry_bytes_equal(name, belfry_bytes_str("grpc-status")))
        call->grpc_status = number_of(field);
    else if (belfry_bytes_equal(name, belfry_bytes_str("grpc-message")) && field->valuelen > 0)
        verdict_note("stream %u: %.*s", call->id, (int)field->valuelen, (const char *)field->value);
}

/* Also for a call that was canceled: the table must not miss a field. */
static void peer_take_head(struct peer *peer, const struct frame *frame)
{
    struct peer_call *call = call_of(peer, frame->stream);
    const uint8_t *at = (const uint8_t *)frame->payload.data, *end = at + frame->payload.len;
    int flags = 0;
    verdict_must((frame->flags & FRAME_END_HEADERS) != 0 && (frame->flags & FRAME_PADDED) == 0, "a head in one frame");
    while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
        nghttp2_nv field;
        ssize_t n = nghttp2_hd_inflate_hd2(peer->inflater, &field, &flags, at, (size_t)(end - at), 1);
        if (n < 0)
            verdict_fail("%s: a head that cannot be read", peer->who);
        at += n;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0 && call != NULL)
            call_field(call, &field);
    }
    nghttp2_hd_inflate_end_headers(peer->inflater);
}

static void peer_take_data(struct peer *peer, const struct frame *frame)
{
    struct peer_call *call = call_of(peer, frame->stream);
    if (call != NULL)
        verdict_must(belfry_buf_append(&call->in, frame->payload.data, frame->payload.len) == BELFRY_OK, "input");
    if (frame->payload.len > 0)
        peer_owe(peer, call, frame->payload.len);
    call = call_of(peer, frame->stream);
    if (call != NULL)
        peer->events->data(peer->user, call);
}

static void peer_take_end(struct peer *peer, uint32_t id)
{
    struct peer_call *call = call_of(peer, id);
    if (call == NULL)
        return;
    peer->events->end(peer->user, call);
    if (call_of(peer, id) == call)
        call_forget(peer, call);
}

static void peer_take_settings(struct peer *peer, const struct frame *frame)
{
    if ((frame->flags & FRAME_ACK) != 0)
        return;
    for (size_t at = 0; at + 6 <= frame->payload.len; at += 6) {
        const uint8_t *id = (const uint8_t *)frame->payload.data + at;
        if ((id[0] << 8 | id[1]) != NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE)
            continue;
        int64_t first = u32_at(frame->payload, at + 2);
        for (size_t i = 0; i < PEER_CALLS; i++)
            peer->calls[i].window_out += first - peer->first_window_out;
        peer->first_window_out = first;
    }
    peer_frame(peer, FRAME_SETTINGS, FRAME_ACK, 0, belfry_bytes_str(""));
}

static void peer_take_ping(struct peer *peer, const struct frame *frame)
{
    verdict_must(frame->payload.len == 8, "a PING of eight bytes");
    if ((frame->flags & FRAME_ACK) == 0)
        peer_frame(peer, FRAME_PING, FRAME_ACK, 0, frame->payload);
    else if (memcmp(frame->payload.data, ping_alive, 8) == 0)
        peer->asked_ms = 0;
    else
        peer_measured(peer);
}

static void peer_take_window(struct peer *peer, const struct frame *frame)
{
    uint32_t n = u32_at(frame->payload, 0);
    struct peer_call *call = call_of(peer, frame->stream);
    if (frame->stream == 0)
        peer->window_out += n;
    else if (call != NULL)
        call->window_out += n;
    for (size_t i = 0; i < PEER_CALLS; i++)
        if (peer->calls[i].id != 0)
            call_pump(peer, &peer->calls[i]);
}

/* After a whole response NO_ERROR says that the rest of the request is not wanted; such a call is over for us. */
static void peer_take_reset(struct peer *peer, const struct frame *frame)
{
    if (call_of(peer, frame->stream) != NULL)
        verdict_fail("%s: stream %u is reset with code %u", peer->who, frame->stream, u32_at(frame->payload, 0));
}

static void peer_take(struct peer *peer, const struct frame *frame)
{
    peer->heard_ms = belfry_clock_ms();
    switch (frame->type) {
    case FRAME_DATA:
        peer_take_data(peer, frame);
        break;
    case FRAME_HEADERS:
        peer_take_head(peer, frame);
        break;
    case FRAME_RST_STREAM:
        peer_take_reset(peer, frame);
        break;
    case FRAME_SETTINGS:
        peer_take_settings(peer, frame);
        break;
    case FRAME_PING:
        peer_take_ping(peer, frame);
        break;
    case FRAME_GOAWAY:
        verdict_fail("%s: GOAWAY with code %u: %.*s", peer->who, u32_at(frame->payload, 4),
                     (int)(frame->payload.len - 8), frame->payload.data + 8);
    case FRAME_WINDOW_UPDATE:
        peer_take_window(peer, frame);
        break;
    default:
        verdict_fail("%s: a frame of type %u", peer->who, frame->type);
    }
    if ((frame->type == FRAME_DATA || frame->type == FRAME_HEADERS) && (frame->flags & FRAME_END_STREAM) != 0)
        peer_take_end(peer, frame->stream);
}

static bool first_frame(const struct belfry_buf *in, struct frame *out)
{
    struct belfry_bytes bytes = belfry_buf_bytes(in);
    const uint8_t *at = (const uint8_t *)bytes.data;
    if (bytes.len < FRAME_HEAD)
        return false;
    size_t len = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
    if (bytes.len < FRAME_HEAD + len)
        return false;
    *out = (struct frame){at[3], at[4], u32_at(bytes, 5), belfry_bytes_of(bytes.data + FRAME_HEAD, len)};
    return true;
}

/* ---- turns ---- */

static void peer_look_alive(struct peer *peer)
{
    const struct habit *habit = peer->habit;
    uint64_t now_ms = belfry_clock_ms();
    if (peer->asked_ms != 0 && now_ms - peer->asked_ms > ANSWER_MS)
        verdict_fail("%s: a PING is not answered", peer->who);
    bool has_reason = peer->n_calls > 0 || habit->pings_while_idle;
    if (habit->ping_ms == 0 || peer->asked_ms != 0 || !has_reason || now_ms < peer->heard_ms + habit->ping_ms)
        return;
    peer_ping(peer, ping_alive);
    peer->asked_ms = now_ms;
}

/* All frames that have come. An event may make the peer leave. */
static bool peer_read(struct peer *peer)
{
    struct frame frame;
    bool did = false;
    line_pull(&peer->line, SIZE_MAX);
    while (peer->state == PEER_ON && first_frame(&peer->line.in, &frame)) {
        did = true;
        peer_take(peer, &frame);
        if (peer->state != PEER_AWAY)
            belfry_buf_take(&peer->line.in, FRAME_HEAD + frame.payload.len);
    }
    return did;
}

/* What the server said last may tell why; sending may have failed before that was read. */
static void peer_fail_closed(struct peer *peer)
{
    peer->line.is_over = false;
    (void)peer_read(peer);
    verdict_fail("%s: the server has closed the connection", peer->who);
}

/* Bytes wait in the line until its TLS handshake is done. */
bool peer_turn(struct peer *peer)
{
    if (peer->state == PEER_AWAY)
        return false;
    if (peer->state == PEER_SILENT && belfry_clock_ms() >= peer->greets_ms)
        peer_greet(peer);
    if (peer->state == PEER_ON)
        peer_look_alive(peer);
    bool did = peer_read(peer);
    if (peer->state == PEER_AWAY)
        return true;
    did = did || belfry_buf_len(&peer->line.out) > 0;
    line_push(&peer->line, SIZE_MAX);
    if (peer->line.is_over)
        peer_fail_closed(peer);
    return did;
}

uint64_t peer_due(const struct peer *peer)
{
    if (peer->state == PEER_AWAY)
        return BELFRY_NEVER;
    if (peer->state == PEER_SILENT)
        return peer->greets_ms;
    bool has_reason = peer->n_calls > 0 || peer->habit->pings_while_idle;
    if (peer->asked_ms != 0)
        return peer->asked_ms + ANSWER_MS + 1;
    return peer->habit->ping_ms != 0 && has_reason ? peer->heard_ms + peer->habit->ping_ms : BELFRY_NEVER;
}

/* ---- connections ---- */

void peer_init(struct peer *peer)
{
    peer->line.fd = -1;
}

void peer_open(struct peer *peer, size_t door, struct client_address address, uint64_t pause_ms)
{
    struct line_opts opts = {.door = door, .client = address};
    verdict_must(peer->state == PEER_AWAY, "one connection at a time");
    line_open(&peer->line, &opts);
    verdict_must(nghttp2_hd_deflate_new(&peer->deflater, 4096) == 0 && nghttp2_hd_inflate_new(&peer->inflater) == 0,
                 "HPACK");
    peer->state = PEER_SILENT;
    peer->greets_ms = belfry_clock_ms() + pause_ms;
    peer->next_id = 1;
    peer->window_out = peer->first_window_out = WINDOW_DEFAULT;
    peer->window = peer->habit->window;
    peer->conn_window = WINDOW_DEFAULT + peer->habit->conn_more;
    peer->owed = 0;
    peer->is_measuring = false;
    peer->measure_ms = peer->asked_ms = 0;
    peer->measure_every_ms = CORE_EVERY_MS;
}

static void peer_say_goodbye(struct peer *peer)
{
    uint8_t payload[8 + sizeof(GO_GOODBYE) - 1] = {0};
    uint32_t last = peer->next_id > 1 ? peer->next_id - 2 : 0;
    switch (peer->habit->goodbye) {
    case HABIT_GOODBYE_NONE:
        break;
    case HABIT_GOODBYE_OWN:
        payload[2] = (uint8_t)(last >> 8);
        payload[3] = (uint8_t)last;
        payload[1] = (uint8_t)(last >> 16);
        memcpy(payload + 8, GO_GOODBYE, sizeof(GO_GOODBYE) - 1);
        peer_frame(peer, FRAME_GOAWAY, 0, 0, belfry_bytes_of(payload, sizeof(payload)));
        break;
    case HABIT_GOODBYE_TWICE:
        peer_frame(peer, FRAME_GOAWAY, 0, 0, belfry_bytes_of(payload, 8));
        peer_frame(peer, FRAME_GOAWAY, 0, 0, belfry_bytes_of(payload, 8));
        break;
    }
}

void peer_leave(struct peer *peer)
{
    if (peer->state == PEER_AWAY)
        return;
    for (size_t i = 0; i < PEER_CALLS; i++)
        if (peer->calls[i].id != 0)
            peer_cancel(peer, &peer->calls[i]);
    if (peer->state == PEER_ON)
        peer_say_goodbye(peer);
    line_push(&peer->line, SIZE_MAX);
    line_close(&peer->line);
    nghttp2_hd_deflate_del(peer->deflater);
    nghttp2_hd_inflate_del(peer->inflater);
    peer->state = PEER_AWAY;
}
