/* bench/belfry-attack/script_parts.c */
#include "script_parts.h"

#include "hpack.h"
#include "stopwatch.h"

void script_token(struct hostile *hostile, struct belfry_buf *block)
{
    const struct credentials *tokens = hostile->gang->tokens;
    if (tokens == NULL || tokens->n == 0)
        return;
    struct belfry_bytes token = credentials_of(tokens, hostile->index * 7919 + hostile->next_id / 2);
    hpack_field(block, HPACK_FORGET, "token", token.data, token.len);
}

uint32_t script_call(struct hostile *hostile, const char *path, uint8_t flags)
{
    struct belfry_buf block = {0};
    if (hostile->taught)
        hpack_call_again(&block, 0);
    else
        hpack_call(&block, HPACK_KEEP, path);
    hostile->taught = true;
    script_token(hostile, &block);
    uint32_t id = hostile_open(hostile, &block, flags | H2FRAME_END_HEADERS);
    belfry_buf_fini(&block);
    return id;
}

size_t script_data(struct hostile *hostile, const void *data, size_t len)
{
    int64_t room = hostile->window < hostile->stream_window ? hostile->window : hostile->stream_window;
    if (room <= 0)
        return 0;
    if (len > H2FRAME_MAX)
        len = H2FRAME_MAX;
    if ((int64_t)len > room)
        len = (size_t)room;
    hostile_frame(hostile, H2FRAME_DATA, 0, hostile->stream, data, len);
    hostile->window -= (int64_t)len;
    hostile->stream_window -= (int64_t)len;
    return len;
}

void script_pause(struct hostile *hostile, uint64_t ms)
{
    hostile->due_ns = stopwatch_ns() + ms * NS_PER_MS;
}
