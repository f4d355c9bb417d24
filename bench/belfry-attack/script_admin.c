/* bench/belfry-attack/script_admin.c: the admin address, pages of other sites, and the past. */
#include <stdio.h>
#include <string.h>

#include "hpack.h"
#include "script_parts.h"
#include "scripts.h"

#define PAGES     100 /* requests of a connection */
#define REVISIONS 900 /* old ones, from 2 on */

static void put(struct hostile *hostile, const char *text)
{
    hostile_put(hostile, text, strlen(text));
}

/* The largest file of the page, many times, and no window to send it. */
static void pages_turn(struct hostile *hostile)
{
    if (hostile->step++ > 0)
        return;
    for (int i = 0; i < PAGES; i++) {
        struct belfry_buf block = {0};
        hpack_get(&block, "/page.js");
        hostile_open(hostile, &block, H2FRAME_END_HEADERS | H2FRAME_END_STREAM);
        belfry_buf_fini(&block);
    }
}

static void idle_turn(struct hostile *hostile)
{
    (void)hostile;
}

/* Ten at a time: the server answers them one after the other. */
static void metrics_turn(struct hostile *hostile)
{
    for (int i = 0; i < 10; i++)
        put(hostile, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    script_pause(hostile, 20);
}

/* As a browser sends it for fetch(..., {mode: "no-cors"}): key "stolen", value "yes". */
static void web_page_turn(struct hostile *hostile)
{
    static const char body[] = "{\"key\":\"c3RvbGVu\",\"value\":\"eWVz\"}";
    char text[512];
    snprintf(
        text, sizeof(text),
        "POST /v3/kv/put HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://other.example\r\nSec-Fetch-Site: cross-site\r\n"
        "Content-Type: text/plain\r\nContent-Length: %zu\r\n\r\n%s",
        sizeof(body) - 1, body);
    put(hostile, text);
    hostile->step = 1;
    script_pause(hostile, 100);
}

/* A watch from an old revision that no other watch has, so that each needs a part of the past of its own. */
static void backfill_turn(struct hostile *hostile)
{
    if (hostile->step++ >= 60)
        return;
    uint32_t from = 2 + (uint32_t)(hostile->index * 60 + hostile->step) * 7 % REVISIONS;
    uint8_t create[] = {
        0, 0, 0, 0, 11, 0x0a, 9, 0x0a, 1, 0, 0x12, 1, 0, 0x18, (uint8_t)(from | 0x80), (uint8_t)(from >> 7)};
    uint32_t id = script_call(hostile, SCRIPT_WATCH, 0);
    hostile_frame(hostile, H2FRAME_DATA, 0, id, create, sizeof(create));
}

/* A record of TLS of 16 KiB that does not go on. */
static void half_record_turn(struct hostile *hostile)
{
    static const uint8_t record[] = {22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc, 3, 3};
    if (hostile->step++ == 0)
        hostile_put(hostile, record, sizeof(record));
}

/* A whole ClientHello of TLS 1.3, for which the server makes a key and signs, and then the connection ends. */
static void hello_turn(struct hostile *hostile)
{
    static const uint8_t front[] = {22, 3, 1, 0, 0x9a, 1, 0, 0, 0x96, 3, 3}; /* record, handshake, version */
    static const uint8_t back[] = {
        0,    0,    2,    0x13, 1,    1,    0,    0,    0x6b, /* no session, AES-128-GCM, extensions: */
        0,    16,   0,    5,    0,    3,    2,    'h',  '2',  /* HTTP/2, */
        0,    43,   0,    3,    2,    3,    4,    0,    10,   0,    4,    0,    2,    0,    23, /* TLS 1.3, P-256, */
        0,    13,   0,    4,    0,    2,    4,    3,    0,    51,   0,    71,   0,    69,   0,    23,
        0,    65, /* ECDSA with SHA-256, a share of P-256: */
        4,        /* its generator, which is a point of the curve */
        0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2,
        0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96,
        0x4f, 0xe3, 0x42, 0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16,
        0x2b, 0xce, 0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5};
    uint8_t random[32];
    memset(random, (int)hostile->index, sizeof(random));
    hostile_put(hostile, front, sizeof(front));
    hostile_put(hostile, random, sizeof(random));
    hostile_put(hostile, back, sizeof(back));
    hostile->step = 1;
    script_pause(hostile, 50); /* the server answers meanwhile */
}

const struct script script_admin[] = {
    {"admin-pages", "the admin page's files without a window", SCRIPT_HTTP2, 300, 1 << 20, .turn = pages_turn,
     .no_window = true},
    {"admin-idle", "connections to the admin address that say nothing", SCRIPT_HTTP1, 2000, 1 << 20, .turn = idle_turn},
    {"admin-metrics", "/metrics again and again", SCRIPT_HTTP1, 8, 4 << 20, .turn = metrics_turn},
    {"web-page", "writes as a page of another site sends them", SCRIPT_HTTP1, 20, 1 << 20, .turn = web_page_turn},
    {"many-addresses", "connections from many addresses of 127.0.0.0/8", SCRIPT_HTTP1, 3000, 1 << 20, .turn = idle_turn,
     .spread = "127.1.0.1"},
    {"backfills", "watches from many old revisions", SCRIPT_HTTP2, 40, 1 << 20, .turn = backfill_turn},
    {"unread-backfills", "the same, and nothing is read", SCRIPT_HTTP2, 40, 1 << 20, .turn = backfill_turn,
     .no_window = true},
    {"tls-hellos", "connections that end after a ClientHello", SCRIPT_HTTP1, 20, 1 << 20, .turn = hello_turn,
     .hasty = true},
    {"half-records", "records of TLS that do not go on", SCRIPT_HTTP1, 2000, 1 << 20, .turn = half_record_turn},
    {0},
};
