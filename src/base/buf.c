/* src/base/buf.c */
#include "base/buf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 256

void belfry_buf_fini(struct belfry_buf *buf)
{
    free(buf->data);
    belfry_buf_init(buf);
}

static bool has_room_behind(const struct belfry_buf *buf, size_t len)
{
    return buf->data != NULL && buf->cap - buf->end >= len;
}

/* Move down only if at least half is free: otherwise every append would move the waiting bytes. */
static bool can_move_down(const struct belfry_buf *buf, size_t len)
{
    return buf->data != NULL && buf->cap - belfry_buf_len(buf) >= len && buf->start >= buf->cap / 2;
}

/* Add half of the waiting bytes as slack: a nearly full buffer would otherwise be copied per append. */
static size_t larger_cap(const struct belfry_buf *buf, size_t len)
{
    size_t live = belfry_buf_len(buf), cap = buf->cap == 0 ? FIRST_CAP : buf->cap;
    while (cap < live + live / 2 + len)
        cap *= 2;
    return cap;
}

size_t belfry_buf_growth(const struct belfry_buf *buf, size_t len)
{
    if (len > SIZE_MAX / 4 || belfry_buf_len(buf) > SIZE_MAX / 4)
        return len;
    return has_room_behind(buf, len) || can_move_down(buf, len) ? 0 : larger_cap(buf, len) - buf->cap;
}

enum belfry_err belfry_buf_reserve(struct belfry_buf *buf, size_t len, uint8_t **out)
{
    size_t live = belfry_buf_len(buf);
    if (len > SIZE_MAX / 4 || live > SIZE_MAX / 4)
        return BELFRY_ERR_NOMEM;
    if (!has_room_behind(buf, len)) {
        if (can_move_down(buf, len)) {
            memmove(buf->data, buf->data + buf->start, live);
        } else {
            size_t cap = larger_cap(buf, len);
            uint8_t *data = malloc(cap);
            if (data == NULL)
                return BELFRY_ERR_NOMEM;
            if (live > 0)
                memcpy(data, buf->data + buf->start, live);
            free(buf->data);
            buf->data = data;
            buf->cap = cap;
        }
        buf->start = 0;
        buf->end = live;
    }
    *out = buf->data + buf->end;
    return BELFRY_OK;
}

void belfry_buf_grown(struct belfry_buf *buf, size_t len)
{
    assert(len <= buf->cap - buf->end);
    buf->end += len;
}

enum belfry_err belfry_buf_append(struct belfry_buf *buf, const void *data, size_t len)
{
    if (len == 0)
        return BELFRY_OK;
    uint8_t *to;
    enum belfry_err err = belfry_buf_reserve(buf, len, &to);
    if (err != BELFRY_OK)
        return err;
    memcpy(to, data, len);
    belfry_buf_grown(buf, len);
    return BELFRY_OK;
}

void belfry_buf_take(struct belfry_buf *buf, size_t len)
{
    assert(len <= belfry_buf_len(buf));
    buf->start += len;
    if (buf->start == buf->end)
        buf->start = buf->end = 0;
}
