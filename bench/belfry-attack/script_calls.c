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

/* The message, packed with its head of five bytes. Returns how long it is. */
static size_t pack_message(struct belfry_bytes plain, uint8_t *packed, size_t room)
{
    z_stream zip = {.next_in = (Bytef *)(uintptr_t)plain.data,
                    .avail_in = (uInt)plain.len,
                    .next_out = packed + MESSAGE_HEAD,
                    .avail_out = (uInt)(room - MESSAGE_HEAD)};
    if (deflateInit2(&zip, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&zip, Z_FINISH) != Z_STREAM_END)
        die("a message cannot be packed");
    packed[0] = 1;
    h2frame_write_u32(packed + 1, (uint32_t)zip.total_out);
    deflateEnd(&zip);
    return MESSAGE_HEAD + zip.total_out;
}

/* A WatchRequest that asks for nothing. */
static struct belfry_bytes bomb(void)
{
    static uint8_t plain[BOMB_BYTES] = {0x7a, 0, 0, 0}, packed[16384];
    static size_t len;
    if (len > 0)
        return belfry_bytes_of(packed, len);
    size_t inside = sizeof(plain) - 4;
    for (int i = 0; i < 3; i++) /* its length, as a varint of three bytes */
        plain[1 + i] = (uint8_t)((inside >> (7 * i) & 127) | (i < 2 ? 128 : 0));
    len = pack_message(belfry_bytes_of(plain, sizeof(plain)), packed, sizeof(packed));
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

/* ---- watches and lists that are large in memory and small on the wire ---- */

#define LARGE_KEY     31000 /* bytes of a key, packed with gzip; a stream has LARGE_WATCHES of such watches */
#define LARGE_WATCHES 10
#define LARGE_PATH    4000 /* bytes of a path, which are one from its second use on: the server's table holds 4,096 */
#define LARGE_GETS    1500 /* of a connection */
#define FEW           4    /* watches of an address that is one of many */
#define PODS          "/apis/example.apiserver.k8s.io/v1/pods?resourceVersion=0"

static void open_packed_watch(struct hostile *hostile)
{
    struct belfry_buf block = {0};
    hpack_call(&block, HPACK_FORGET, SCRIPT_WATCH);
    hpack_field(&block, HPACK_FORGET, "grpc-encoding", "gzip", 4);
    script_token(hostile, &block);
    hostile_open(hostile, &block, H2FRAME_END_HEADERS);
    belfry_buf_fini(&block);
}

/* etcd's: spans with long keys, all below /k/. A message goes whole, because nothing is kept of it between turns. */
static void long_keys_turn(struct hostile *hostile)
{
    static char key[LARGE_KEY], end[LARGE_KEY];
    uint8_t packed[1024];
    struct belfry_buf message = {0};
    if (hostile->window < (int64_t)sizeof(packed))
        return;
    memset(key, 'k', sizeof(key));
    memset(end, 'z', sizeof(end));
    snprintf(key, sizeof(key), "/k/%zu/%zu/", hostile->index, hostile->step);
    memcpy(end, "/k/", 3);
    must(belfry_write_watch_create(&message,
                                   &(const struct belfry_wire_create){.key = belfry_bytes_of(key, sizeof(key)),
                                                                      .range_end = belfry_bytes_of(end, sizeof(end))}),
         "create");
    size_t len = pack_message(belfry_buf_bytes(&message), packed, sizeof(packed));
    belfry_buf_fini(&message);
    if (hostile->step++ % LARGE_WATCHES == 0)
        open_packed_watch(hostile);
    script_data(hostile, packed, len);
}

/* GETs of one path. */
static void gets_turn(struct hostile *hostile, const char *path)
{
    for (int i = 0; i < A_TURN && hostile->next_id < 2 * LARGE_GETS; i++, hostile->step++) {
        struct belfry_buf block = {0};
        hpack_entry(&block, 2); /* GET, */
        hpack_entry(&block, 6); /* http */
        if (hostile->step == 0)
            hpack_field(&block, HPACK_KEEP, ":path", path, strlen(path));
        else
            hpack_entry(&block, HPACK_NEWEST);
        hpack_field(&block, HPACK_FORGET, ":authority", "127.0.0.1", 9);
        hostile_open(hostile, &block, H2FRAME_END_HEADERS | H2FRAME_END_STREAM);
        belfry_buf_fini(&block);
    }
}

/* The path, and as many empty values of a selector as it takes. */
static const char *path_of_values(const char *front, char path[LARGE_PATH])
{
    size_t len = strlen(front);
    memset(path, ',', LARGE_PATH);
    memcpy(path, front, len);
    path[LARGE_PATH - 2] = ')';
    path[LARGE_PATH - 1] = '\0';
    return path;
}

static void selectors_turn(struct hostile *hostile)
{
    char path[LARGE_PATH];
    gets_turn(hostile, path_of_values(PODS "&watch=1&labelSelector=a+in+(", path));
}

/* A few of those. */
static void few_selectors_turn(struct hostile *hostile)
{
    struct belfry_buf block = {0};
    char path[LARGE_PATH];
    if (hostile->step++ >= FEW)
        return;
    hpack_get(&block, path_of_values(PODS "&watch=1&labelSelector=a+in+(", path));
    hostile_open(hostile, &block, H2FRAME_END_HEADERS | H2FRAME_END_STREAM);
    belfry_buf_fini(&block);
    script_pause(hostile, 200);
}

static void list_selectors_turn(struct hostile *hostile)
{
    char path[LARGE_PATH];
    gets_turn(hostile, path_of_values(PODS "&labelSelector=a+notin+(", path));
}

/* Server-Sent Events, of sixteen long prefixes. */
static void prefixes_turn(struct hostile *hostile)
{
    char path[LARGE_PATH] = "/v1/events?";
    size_t len = strlen(path);
    for (int i = 0; i < 16; i++) {
        len += (size_t)snprintf(path + len, sizeof(path) - len, "%sprefix=%%2F", i > 0 ? "&" : "");
        memset(path + len, 'a' + i, 220);
        len += 220;
    }
    path[len] = '\0';
    gets_turn(hostile, path);
}

/* All dialects at once: what one holds counts for the others. */
static void dialects_turn(struct hostile *hostile)
{
    static void (*const turns[])(struct hostile * hostile) = {selectors_turn, long_keys_turn, prefixes_turn};
    turns[hostile->index % (sizeof(turns) / sizeof(turns[0]))](hostile);
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

/* ---- garbage ---- */

/* A step of a random walk (SplitMix64), the same in each run. */
static uint64_t random_next(struct hostile *hostile)
{
    uint64_t n = (hostile->index + 1) * 0x2545f4914f6cdd1du + ++hostile->step * 0x9e3779b97f4a7c15u;
    n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9u;
    n = (n ^ (n >> 27)) * 0x94d049bb133111ebu;
    return n ^ (n >> 31);
}

/* Fields that have the shape of a message's, with numbers and lengths that may be wrong. */
static size_t garbage_message(struct hostile *hostile, uint8_t *to, size_t room)
{
    size_t len = 5;
    for (uint64_t n = random_next(hostile) % 8; n > 0 && len + 24 < room; n--) {
        uint64_t what = random_next(hostile), value = random_next(hostile);
        to[len++] = (uint8_t)(what % 16 << 3 | (what >> 8) % 6);
        size_t bytes = (what >> 16) % 12;
        if ((what >> 24) % 3 > 0)
            to[len++] = (uint8_t)(bytes + ((what >> 32) % 8 == 0)); /* a length, at times one too long */
        for (; bytes > 0; bytes--, value >>= 5)
            to[len++] = (uint8_t)value;
    }
    to[0] = random_next(hostile) % 16 == 0; /* compressed */
    h2frame_write_u32(to + 1, (uint32_t)(len - 5 + (random_next(hostile) % 32 == 0)));
    return len;
}

/* Calls of everything that is served with such messages, and with frames that are cut anywhere. */
static void garbage_turn(struct hostile *hostile)
{
    static const char *const paths[] = {SCRIPT_RANGE,
                                        "/etcdserverpb.KV/Txn",
                                        SCRIPT_WATCH,
                                        SCRIPT_KEEP_ALIVE,
                                        SCRIPT_TIME_TO_LIVE,
                                        "/etcdserverpb.Maintenance/Status",
                                        "/etcdserverpb.Cluster/MemberList",
                                        "/grpc.health.v1.Health/Watch",
                                        "/etcdserverpb.KV/RangeStream",
                                        "/belfry.About/About"};
    uint8_t message[256];
    for (int i = 0; i < A_TURN / 4 && hostile->next_id < 2 * STREAMS; i++) {
        struct belfry_buf block = {0};
        size_t len = garbage_message(hostile, message, sizeof(message)), cut = random_next(hostile) % (len + 1);
        hpack_call(&block, HPACK_FORGET, paths[random_next(hostile) % (sizeof(paths) / sizeof(paths[0]))]);
        if (message[0] != 0)
            hpack_field(&block, HPACK_FORGET, "grpc-encoding", "gzip", 4);
        uint32_t id = hostile_open(hostile, &block, H2FRAME_END_HEADERS);
        belfry_buf_fini(&block);
        hostile_frame(hostile, H2FRAME_DATA, 0, id, message, cut);
        hostile_frame(hostile, H2FRAME_DATA, H2FRAME_END_STREAM, id, message + cut, len - cut);
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
    {"garbage", "calls with messages that are wrong in every way", SCRIPT_HTTP2, 8, 256 << 10, .turn = garbage_turn},
    {"selectors", "Kubernetes watches whose selectors are 60 KB in memory", SCRIPT_HTTP2, 8, 1 << 20,
     .turn = selectors_turn},
    {"returners", "the same, and connections that are ended come back immediately", SCRIPT_HTTP2, 8, 1 << 20,
     .turn = selectors_turn, .returns = true},
    {"crowd", "300 addresses with four such watches each", SCRIPT_HTTP2, 300, 2 << 20, .turn = few_selectors_turn,
     .spread = "10.77.4.1"},
    {"long-keys", "etcd watches of keys of 31 KB, packed with gzip", SCRIPT_HTTP2, 8, 1 << 20, .turn = long_keys_turn},
    {"prefixes", "Server-Sent Events of sixteen long prefixes", SCRIPT_HTTP2, 8, 1 << 20, .turn = prefixes_turn},
    {"dialects", "selectors, long-keys and prefixes at once", SCRIPT_HTTP2, 12, 1 << 20, .turn = dialects_turn},
    {"list-selectors", "lists whose selectors are 60 KB in memory, without a window", SCRIPT_HTTP2, 8, 1 << 20,
     .turn = list_selectors_turn, .no_window = true},
    {0},
};
