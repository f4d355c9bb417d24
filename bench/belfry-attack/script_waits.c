/* bench/belfry-attack/script_waits.c: clients that send or read slowly, or not at all. */
#include <string.h>

#include "hpack.h"
#include "object.h"
#include "script_parts.h"
#include "scripts.h"

#define CALLS 50 /* of a connection */

/* A head whose frame comes byte by byte. */
static void slow_head_turn(struct hostile *hostile)
{
    static const uint8_t field[] = {0, 1, 'a', 1, 'b'};
    if (hostile->step == 0)
        h2frame_put_head(&hostile->out, H2FRAME_HEADERS, H2FRAME_END_HEADERS, 1, 10000);
    hostile_put(hostile, &field[hostile->step++ % sizeof(field)], 1);
    script_pause(hostile, 500);
}

/* Puts of which a byte comes at a time. */
static void slow_body_turn(struct hostile *hostile)
{
    static const uint8_t head[] = {0, 0, 1, 0, 0};
    for (; hostile->next_id < 2 * CALLS;)
        hostile_frame(hostile, H2FRAME_DATA, 0, script_call(hostile, SCRIPT_PUT, 0), head, sizeof(head));
    for (uint32_t i = 0; i < CALLS; i++)
        hostile_frame(hostile, H2FRAME_DATA, 0, 2 * i + 1, "\n", 1);
    script_pause(hostile, 500);
}

/* From the first revision on, of everything. */
static void watch_all(struct hostile *hostile)
{
    static const uint8_t create[] = {0, 0, 0, 0, 10, 0x0a, 8, 0x0a, 1, 0, 0x12, 1, 0, 0x18, 1};
    uint32_t id = script_call(hostile, SCRIPT_WATCH, 0);
    hostile_frame(hostile, H2FRAME_DATA, 0, id, create, sizeof(create));
}

static void slow_read_turn(struct hostile *hostile)
{
    if (hostile->step++ == 0)
        watch_all(hostile);
}

/* Lists, watches and reads that may not be answered with a byte. */
static void zero_window_turn(struct hostile *hostile)
{
    static const uint8_t everything[] = {0, 0, 0, 0, 6, 0x0a, 1, 0, 0x12, 1, 0};
    if (hostile->step++ > 0)
        return;
    for (int i = 0; i < CALLS; i++) {
        struct belfry_buf block = {0};
        watch_all(hostile);
        hpack_get(&block, OBJECT_PATH);
        hostile_open(hostile, &block, H2FRAME_END_HEADERS | H2FRAME_END_STREAM);
        belfry_buf_fini(&block);
        hpack_call(&block, HPACK_FORGET, SCRIPT_RANGE);
        uint32_t id = hostile_open(hostile, &block, H2FRAME_END_HEADERS);
        belfry_buf_fini(&block);
        hostile_frame(hostile, H2FRAME_DATA, H2FRAME_END_STREAM, id, everything, sizeof(everything));
    }
}

const struct script script_waits[] = {
    {"slow-head", "heads that come byte by byte", SCRIPT_HTTP2, 200, 1 << 20, .turn = slow_head_turn},
    {"slow-body", "puts that come byte by byte", SCRIPT_HTTP2, 40, 1 << 20, .turn = slow_body_turn},
    {"slow-read", "watches from the first revision on, read by 100 bytes per second", SCRIPT_HTTP2, 200, 1 << 20,
     .turn = slow_read_turn, .window = 1 << 30, .sip = 10},
    {"zero-window", "lists, watches and reads without a window", SCRIPT_HTTP2, 40, 1 << 20, .turn = zero_window_turn,
     .no_window = true},
    {0},
};
