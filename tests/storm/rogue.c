/* tests/storm/rogue.c */
#include "storm/rogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storm/frames.h"
#include "storm/house.h"
#include "storm/request.h"
#include "storm/verdict.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define OUT_MAX      (256 * 1024) /* that waits to be sent: then it adds nothing */
#define FRAME_MAX    16384
#define FLOOD_MAX    300
#define FILLER       20000

static void append(struct belfry_buf *to, const void *data, size_t len)
{
    verdict_must(belfry_buf_append(to, data, len) == BELFRY_OK, "output");
}

static void append_text(struct belfry_buf *to, const char *text)
{
    append(to, text, strlen(text));
}

/* ---- HTTP/2 ---- */

/* One that it has opened; seldom any number, which mostly ends the connection. */
static uint32_t rogue_stream(struct rogue *rogue, struct choices *choices)
{
    uint32_t known = rogue->streams[choose(choices, ROGUE_STREAMS)];
    if (rogue->is_wild && choose_rarely(choices, 20))
        return choose(choices, 1000);
    return known != 0 || rogue->next_stream == 1 ? known : rogue->next_stream - 2;
}

static void remember(struct rogue *rogue, struct choices *choices, uint32_t stream)
{
    rogue->streams[choose(choices, ROGUE_STREAMS)] = stream;
}

static void greet(struct rogue *rogue, struct choices *choices)
{
    static const uint32_t windows[] = {65535, 1 << 20, 0, 1, 100};
    struct belfry_buf *out = &rogue->line.out;
    append_text(out, FRAMES_PREFACE);
    if (rogue->is_wild && choose_rarely(choices, 20))
        return; /* without SETTINGS */
    if (rogue->is_wild && choose_rarely(choices, 10))
        frame_write(out, FRAME_SETTINGS, FRAME_ACK, 0, "", 0); /* of none that came */
    frame_write_setting(out, 4, windows[choose(choices, COUNT(windows))]);
    if (choose(choices, 2) == 0)
        frame_write_u32(out, FRAME_WINDOW_UPDATE, 0, 1 << 24);
    if (choose_rarely(choices, 6))
        frame_write_setting(out, 1, choose(choices, 2) == 0 ? 0 : 1 << 20); /* HPACK's table */
}

static void write_block(struct rogue *rogue, struct belfry_buf *block, const struct request *request,
                        struct choices *choices)
{
    enum frame_field how = choose(choices, 3) == 0 ? FRAME_FIELD_INDEXED : FRAME_FIELD_PLAIN;
    static char filler[FILLER + 1];
    frame_field(block, how, ":method", request->method);
    frame_field(block, how, ":scheme", "http");
    frame_field(block, how, ":path", request->path);
    frame_field(block, how, ":authority", request->authority);
    for (size_t i = 0; i < request->n_fields; i++)
        frame_field(block, how, request->fields[i].name, request->fields[i].value);
    if (!rogue->is_wild)
        return;
    switch (choose(choices, 20)) {
    case 15: /* a long head */
        memset(filler, 'f', FILLER);
        for (uint32_t n = 1 + choose(choices, 5); n > 0; n--)
            frame_field(block, FRAME_FIELD_PLAIN, "x-filler", filler);
        break;
    case 16: /* names from the table, which may not be there */
        for (uint32_t n = choose(choices, 60); n > 0; n--)
            append(block, &(uint8_t){(uint8_t)(0x80 | (1 + choose(choices, 100)))}, 1);
        break;
    case 17:
        frame_field(block, how, ":path", "/again");
        break;
    case 18:
        frame_field(block, how, "Upper", "\x01\x02");
        break;
    case 19:
        append(block, "\xff\xff\xff\xff\xff\xff\xff", 7);
        break;
    }
}

/* HEADERS, with CONTINUATIONs where it is long; perhaps without an end. */
static void send_block(struct rogue *rogue, struct choices *choices, uint32_t stream, unsigned flags,
                       struct belfry_bytes block)
{
    size_t piece = choose_rarely(choices, 6) ? 1 + choose(choices, 200) : FRAME_MAX;
    bool is_cut = rogue->is_wild && choose_rarely(choices, 24);
    enum frame_type type = FRAME_HEADERS;
    for (size_t at = 0; at < block.len || at == 0;) {
        size_t n = block.len - at < piece ? block.len - at : piece;
        bool is_last = at + n == block.len;
        frame_write(&rogue->line.out, type, flags | (is_last && !is_cut ? FRAME_END_HEADERS : 0), stream,
                    block.data + at, n);
        at += n;
        type = FRAME_CONTINUATION;
        flags = 0;
        if (n == 0)
            break;
    }
}

/* DATA in pieces; perhaps only the first half of it. */
static void send_body(struct rogue *rogue, struct choices *choices, uint32_t stream, struct belfry_bytes body,
                      bool ends)
{
    bool is_half = choose_rarely(choices, 6);
    size_t len = is_half ? choose(choices, (uint32_t)body.len + 1) : body.len;
    size_t piece = choose_rarely(choices, 5) ? 1 + choose(choices, 64) : FRAME_MAX;
    for (size_t at = 0; at < len;) {
        size_t n = len - at < piece ? len - at : piece;
        at += n;
        frame_write(&rogue->line.out, FRAME_DATA, ends && !is_half && at == len ? FRAME_END_STREAM : 0, stream,
                    body.data + at - n, n);
        if (piece < 100 && at > 100 * piece)
            piece = FRAME_MAX;
    }
}

static void send_request(struct rogue *rogue, struct choices *choices)
{
    struct request request;
    struct belfry_buf block;
    belfry_buf_init(&block);
    request_choose(&request, choices, rogue->is_wild ? REQUEST_WILD : 0);
    uint32_t stream = rogue->next_stream;
    rogue->next_stream += 2;
    remember(rogue, choices, stream);
    write_block(rogue, &block, &request, choices);
    bool is_alone = !request.has_body || choose_rarely(choices, 10); /* without a body */
    send_block(rogue, choices, stream, is_alone ? FRAME_END_STREAM : 0, belfry_buf_bytes(&block));
    bool ends = request.is_watch ? choose_rarely(choices, 12) : choose(choices, 4) != 0;
    if (!is_alone && !choose_rarely(choices, 8))
        send_body(rogue, choices, stream, belfry_buf_bytes(&request.body), ends);
    if (request.is_watch && !is_alone && !ends)
        rogue->watch = stream;
    belfry_buf_fini(&block);
    request_fini(&request);
}

static void send_more(struct rogue *rogue, struct choices *choices)
{
    struct belfry_buf body;
    belfry_buf_init(&body);
    bool is_watch = !rogue->is_wild || choose(choices, 3) != 0;
    uint32_t stream = is_watch ? rogue->watch : rogue_stream(rogue, choices);
    for (uint32_t n = 1 + choose(choices, 4); n > 0; n--)
        request_watch_message(&body, choices, rogue->is_wild);
    bool ends = choose_rarely(choices, 12);
    if (stream != 0)
        send_body(rogue, choices, stream, belfry_buf_bytes(&body), ends);
    if (ends && is_watch)
        rogue->watch = 0;
    belfry_buf_fini(&body);
}

/* Calls that are never whole, each with much of its body. */
static void send_hoard(struct rogue *rogue, struct choices *choices)
{
    static const uint8_t body[FRAME_MAX] = {0, 0, 1, 0, 0};
    for (uint32_t n = 1 + choose(choices, 12); n > 0; n--) {
        struct belfry_buf block;
        belfry_buf_init(&block);
        frame_field(&block, FRAME_FIELD_PLAIN, ":method", "POST");
        frame_field(&block, FRAME_FIELD_PLAIN, ":scheme", "http");
        frame_field(&block, FRAME_FIELD_PLAIN, ":path",
                    house_is_kube() ? "/api/v1/namespaces/ns/configmaps" : "/etcdserverpb.KV/Put");
        frame_field(&block, FRAME_FIELD_PLAIN, ":authority", "localhost");
        frame_field(&block, FRAME_FIELD_PLAIN, "content-type",
                    house_is_kube() ? "application/json" : "application/grpc");
        frame_field(&block, FRAME_FIELD_PLAIN, "te", "trailers");
        frame_write(&rogue->line.out, FRAME_HEADERS, FRAME_END_HEADERS, rogue->next_stream,
                    belfry_buf_bytes(&block).data, belfry_buf_len(&block));
        for (uint32_t k = choose(choices, 4); k > 0; k--) /* within the window of the stream */
            frame_write(&rogue->line.out, FRAME_DATA, 0, rogue->next_stream, body, sizeof(body));
        remember(rogue, choices, rogue->next_stream);
        rogue->next_stream += 2;
        belfry_buf_fini(&block);
    }
}

/* Many of one kind. */
static void send_flood(struct rogue *rogue, struct choices *choices)
{
    static const uint8_t eight[8];
    struct belfry_buf *out = &rogue->line.out;
    uint32_t what = choose(choices, 7), stream = rogue_stream(rogue, choices);
    for (uint32_t n = choose(choices, FLOOD_MAX); n > 0; n--) {
        switch (what) {
        case 0:
            frame_write(out, FRAME_PING, 0, 0, eight, 8);
            break;
        case 1:
            frame_write_setting(out, 4, choose(choices, 2) == 0 ? 0 : 65535);
            break;
        case 2:
            frame_write_u32(out, FRAME_WINDOW_UPDATE, choose(choices, 2) == 0 ? 0 : stream, 1);
            break;
        case 3:
            frame_write(out, FRAME_DATA, 0, stream, "", 0);
            break;
        case 4:
            frame_write(out, FRAME_PRIORITY, 0, stream, eight, 5);
            break;
        case 5:
            frame_write(out, FRAME_UNKNOWN, 0, 0, eight, 8);
            break;
        case 6: /* rapid resets */
            send_request(rogue, choices);
            frame_write_u32(out, FRAME_RST_STREAM, rogue->next_stream - 2, 8);
            n = n > 16 ? n - 16 : 1;
            break;
        }
    }
}

static void send_odd_frame(struct rogue *rogue, struct choices *choices)
{
    uint8_t payload[64];
    size_t len = choose(choices, sizeof(payload));
    for (size_t i = 0; i < len; i++)
        payload[i] = choices_byte(choices);
    frame_write(&rogue->line.out, (enum frame_type)choose(choices, FRAME_UNKNOWN + 1), choices_byte(choices),
                rogue_stream(rogue, choices), payload, len);
}

static void act_http2(struct rogue *rogue, struct choices *choices)
{
    struct belfry_buf *out = &rogue->line.out;
    if (rogue->next_stream == 1 && !rogue->is_wild) {
        send_request(rogue, choices);
        return;
    }
    switch (choose(choices, rogue->is_wild ? 17 : 14)) {
    default:
        send_request(rogue, choices);
        break;
    case 6:
    case 7:
    case 8:
        send_more(rogue, choices);
        break;
    case 9:
    case 10:
        frame_write_u32(out, FRAME_RST_STREAM, rogue_stream(rogue, choices), choose(choices, 14));
        break;
    case 11:
        frame_write_u32(out, FRAME_WINDOW_UPDATE, choose(choices, 2) == 0 ? 0 : rogue_stream(rogue, choices),
                        1 + choose(choices, choose_rarely(choices, 10) ? 0x7fffffff : 100000));
        break;
    case 12:
    case 13:
        send_hoard(rogue, choices);
        break;
    case 14: /* from here on: wild ones */
        send_flood(rogue, choices);
        break;
    case 15:
        send_odd_frame(rogue, choices);
        break;
    case 16:
        frame_write(out, FRAME_GOAWAY, 0, 0, "\0\0\0\1\0\0\0\0", 8);
        break;
    }
}

/* ---- HTTP/1.1 ---- */

static void send_head(struct rogue *rogue, const struct request *request, struct choices *choices)
{
    char line[800];
    struct belfry_buf *out = &rogue->line.out;
    const char *end = rogue->is_wild && choose_rarely(choices, 10) ? "\n" : "\r\n";
    snprintf(line, sizeof(line), "%s %s HTTP/1.%u%s", request->method, request->path,
             !rogue->is_wild || choose(choices, 10) != 0, end);
    append_text(out, line);
    snprintf(line, sizeof(line), "Host: %s%s", request->authority, end);
    append_text(out, line);
    for (size_t i = 0; i < request->n_fields; i++) {
        snprintf(line, sizeof(line), "%s: %s%s", request->fields[i].name, request->fields[i].value, end);
        append_text(out, line);
    }
    switch (choose(choices, rogue->is_wild ? 16 : 13)) {
    case 12:
        append_text(out, "Connection: close\r\n");
        break;
    case 13:
        append_text(out, "Upgrade: h2c\r\nConnection: upgrade, http2-settings\r\nHTTP2-Settings: AAMAAABk\r\n");
        break;
    case 14:
        append_text(out, "Expect: 100-continue\r\n");
        break;
    case 15:
        append_text(out, " folded\r\n: no name\r\n");
        break;
    }
}

static void send_chunks(struct rogue *rogue, struct choices *choices)
{
    struct belfry_buf *out = &rogue->line.out;
    append_text(out, "Transfer-Encoding: chunked\r\n\r\n");
    for (uint32_t n = choose(choices, 6); n > 0; n--)
        append_text(out, choose(choices, 3) == 0 ? "3;ext=\"a\";b\r\nabc\r\n" : "1\r\nx\r\n");
    switch (choose(choices, 6)) {
    default:
        append_text(out, "0\r\n\r\n");
        break;
    case 3:
        append_text(out, "0\r\nTrailer: x\r\n\r\n");
        break;
    case 4:
        append_text(out, "ffffffffffffffffff\r\n");
        break;
    case 5: /* it does not end */
        break;
    }
}

static void act_http1(struct rogue *rogue, struct choices *choices)
{
    struct request request;
    char line[64];
    struct belfry_buf *out = &rogue->line.out;
    unsigned kind = rogue->is_wild ? REQUEST_WILD : REQUEST_HTTP;
    request_choose(&request, choices, kind);
    send_head(rogue, &request, choices);
    switch (choose(choices, rogue->is_wild ? 12 : 10)) {
    default:
        append_text(out, "\r\n");
        break;
    case 8:
        send_chunks(rogue, choices);
        break;
    case 9:
        snprintf(line, sizeof(line), "Content-Length: %u\r\n\r\nabc", choose(choices, 10));
        append_text(out, line);
        break;
    case 10: /* the head does not end */
        append_text(out, "X-Slow: ");
        break;
    case 11:
        for (uint32_t n = choose(choices, 2000); n > 0; n--)
            append_text(out, "X-Filler: 0123456789012345678901234567890\r\n");
        append_text(out, "\r\n");
        break;
    }
    request_fini(&request);
}

static void act_noise(struct rogue *rogue, struct choices *choices)
{
    for (uint32_t n = choose(choices, 200); n > 0; n--)
        append(&rogue->line.out, &(uint8_t){choices_byte(choices)}, 1);
}

/* ---- the client ---- */

/* Sound ones write so little in a turn that they seldom exceed the window of the connection, which they do not heed. */
static void choose_pace(struct rogue *rogue, struct choices *choices)
{
    static const uint32_t paces[] = {1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 14, 300, 20, 1};
    static const uint32_t sound[] = {1 << 14, 1 << 14, 1 << 14, 1 << 13, 1 << 12, 300, 20};
    rogue->reads = choose_rarely(choices, 6) ? 0 : paces[choose(choices, COUNT(paces))];
    rogue->writes = rogue->is_wild ? paces[choose(choices, COUNT(paces))] : sound[choose(choices, COUNT(sound))];
}

/* A byte that was to be sent becomes another. */
static void corrupt(struct rogue *rogue, struct choices *choices)
{
    struct belfry_buf *out = &rogue->line.out;
    size_t len = belfry_buf_len(out);
    if (len > 0)
        out->data[out->start + choose(choices, (uint32_t)len)] = choices_byte(choices);
}

void rogue_init(struct rogue *rogue)
{
    *rogue = (struct rogue){.line = {.fd = -1}};
}

bool rogue_is_open(const struct rogue *rogue)
{
    return rogue->line.fd >= 0;
}

void rogue_open(struct rogue *rogue, struct choices *choices)
{
    const uint8_t ip[4] = {10, 6, 6, (uint8_t)choose(choices, 4)};
    bool is_wild = choose(choices, 3) == 0;
    struct line_opts opts = {.door = choose(choices, (uint32_t)house_doors()),
                             .client = client_address_ipv4(ip, (uint16_t)(1 + choose(choices, 60000))),
                             .with_cert = !is_wild || choose(choices, 2) == 0,
                             .is_bare = is_wild && choose_rarely(choices, 8)};
    *rogue = (struct rogue){.next_stream = 1, .is_wild = is_wild};
    line_open(&rogue->line, &opts);
    uint32_t speech = choose(choices, 16);
    rogue->speech = speech < 10 ? ROGUE_HTTP2 : speech < 15 || !rogue->is_wild ? ROGUE_HTTP1 : ROGUE_NOISE;
    choose_pace(rogue, choices);
    if (rogue->speech == ROGUE_HTTP2)
        greet(rogue, choices);
}

void rogue_close(struct rogue *rogue)
{
    line_close(&rogue->line);
}

void rogue_act(struct rogue *rogue, struct choices *choices)
{
    uint32_t what = choose(choices, 40);
    if (what == 39) {
        choose_rarely(choices, 2) ? line_half_close(&rogue->line) : rogue_close(rogue);
        return;
    }
    if (what == 38)
        choose_pace(rogue, choices);
    if (belfry_buf_len(&rogue->line.out) > OUT_MAX)
        return;
    switch (rogue->speech) {
    case ROGUE_HTTP2:
        act_http2(rogue, choices);
        break;
    case ROGUE_HTTP1:
        act_http1(rogue, choices);
        break;
    case ROGUE_NOISE:
        act_noise(rogue, choices);
        break;
    }
    if (what == 37 && rogue->is_wild)
        corrupt(rogue, choices);
}

void rogue_turn(struct rogue *rogue)
{
    if (!rogue_is_open(rogue))
        return;
    line_push(&rogue->line, rogue->writes);
    if (rogue->reads > 0)
        line_pull(&rogue->line, rogue->reads);
    belfry_buf_clear(&rogue->line.in);
    if (rogue->line.is_over)
        rogue_close(rogue);
}
