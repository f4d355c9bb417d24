/* src/serve/relay/relay_body.c */
#include "serve/relay/relay_body.h"

#include <string.h>

bool relay_body_is_whole(const struct relay_body *body)
{
    if (body->ended || body->kind == RELAY_ONE_MESSAGE)
        return body->ended;
    return body->walk.whole > 0 && !grpc_walk_inside(&body->walk);
}

bool relay_body_may_set_out(const struct relay_body *body)
{
    return body->kind != RELAY_ONE_MESSAGE || body->ended || body->walk.whole > 0 ||
           belfry_buf_len(&body->bytes) >= EXCHANGE_WINDOW / 2;
}

bool relay_body_is_sent(const struct relay_body *body)
{
    return body->ended && belfry_buf_len(&body->bytes) == 0;
}

void relay_body_set_pace(struct relay_body *body, size_t n, uint64_t now_ms, uint64_t span_ms)
{
    bool waits = body->kind == RELAY_ONE_MESSAGE ? !body->ended : grpc_walk_inside(&body->walk);
    if (waits)
        pace_wait(&body->pace, n, now_ms, span_ms);
    else
        pace_init(&body->pace);
}

size_t relay_body_read(struct relay_body *body, uint8_t *to, size_t cap, bool *out_end)
{
    struct belfry_bytes have = belfry_buf_bytes(&body->bytes);
    size_t n = have.len < cap ? have.len : cap;
    if (n > 0)
        memcpy(to, have.data, n);
    belfry_buf_take(&body->bytes, n);
    if (n == have.len)
        belfry_buf_fini(&body->bytes);
    *out_end = relay_body_is_sent(body);
    return n;
}
