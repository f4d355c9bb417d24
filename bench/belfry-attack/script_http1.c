/* bench/belfry-attack/script_http1.c: HTTP/1.1, and connections in great numbers. */
#include <string.h>

#include "object.h"
#include "script_parts.h"
#include "scripts.h"

#define A_TURN 100

static void put(struct hostile *hostile, const char *text)
{
    hostile_put(hostile, text, strlen(text));
}

static void lists_turn(struct hostile *hostile)
{
    if (hostile->step++ == 0)
        put(hostile, "GET " OBJECT_PATH " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

static void slow_head_turn(struct hostile *hostile)
{
    static const char field[] = "a: b\r\n";
    if (hostile->step++ == 0)
        put(hostile, "GET " OBJECT_PATH " HTTP/1.1\r\nHost: localhost\r\n");
    hostile_put(hostile, &field[(hostile->step - 1) % (sizeof(field) - 1)], 1);
    script_pause(hostile, 500);
}

static void begin_chunks(struct hostile *hostile)
{
    if (hostile->step++ == 0)
        put(hostile, "POST " OBJECT_PATH " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
}

static void extensions_turn(struct hostile *hostile)
{
    begin_chunks(hostile);
    for (int i = 0; i < A_TURN; i++)
        put(hostile, "1;an-extension-that-nobody-reads=which-is-long-beside-its-chunk\r\nx\r\n");
}

static void trailers_turn(struct hostile *hostile)
{
    bool first = hostile->step == 0;
    begin_chunks(hostile);
    if (first)
        put(hostile, "0\r\n");
    for (int i = 0; i < A_TURN; i++)
        put(hostile, "a-trailer: that-nobody-reads\r\n");
}

static void silent_turn(struct hostile *hostile)
{
    (void)hostile;
}

static void newcomer_turn(struct hostile *hostile)
{
    static const uint8_t range[] = {0, 0, 0, 0, 3, 0x0a, 1, 'k'};
    uint32_t id = script_call(hostile, SCRIPT_RANGE, 0);
    hostile_frame(hostile, H2FRAME_DATA, H2FRAME_END_STREAM, id, range, sizeof(range));
    hostile->step = 1;
}

const struct script script_http1[] = {
    {"lists", "lists that are not read", SCRIPT_HTTP1, 900, 1 << 20, .turn = lists_turn, .sip = 1},
    {"slow-head-http1", "heads of HTTP/1.1 that come byte by byte", SCRIPT_HTTP1, 200, 1 << 20, .turn = slow_head_turn},
    {"chunk-extensions", "chunks of one byte with long extensions", SCRIPT_HTTP1, 4, 4 << 20, .turn = extensions_turn},
    {"trailers-http1", "a chunked body whose trailers do not end", SCRIPT_HTTP1, 4, 4 << 20, .turn = trailers_turn},
    {"connections", "connections that say nothing", SCRIPT_HTTP1, 5000, 1 << 20, .turn = silent_turn},
    {"newcomers", "connections with one call, as many per second as can be made", SCRIPT_HTTP2, 50, 1 << 20,
     .turn = newcomer_turn, .hasty = true},
    {0},
};
