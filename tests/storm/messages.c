/* tests/storm/messages.c */
#include "storm/messages.h"

#include "storm/verdict.h"

bool messages_first(const struct belfry_buf *in, struct belfry_bytes *out)
{
    struct belfry_bytes bytes = belfry_buf_bytes(in);
    const uint8_t *at = (const uint8_t *)bytes.data;
    if (bytes.len < MESSAGES_PREFIX)
        return false;
    size_t len = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
    if (bytes.len - MESSAGES_PREFIX < len)
        return false;
    *out = belfry_bytes_of(bytes.data + MESSAGES_PREFIX, len);
    return true;
}

void messages_drop(struct belfry_buf *in, struct belfry_bytes first)
{
    belfry_buf_take(in, MESSAGES_PREFIX + first.len);
}

void messages_append(struct belfry_buf *to, struct belfry_bytes message)
{
    const uint8_t prefix[MESSAGES_PREFIX] = {0, (uint8_t)(message.len >> 24), (uint8_t)(message.len >> 16),
                                             (uint8_t)(message.len >> 8), (uint8_t)message.len};
    verdict_must(belfry_buf_append(to, prefix, sizeof(prefix)) == BELFRY_OK &&
                     belfry_buf_append(to, message.data, message.len) == BELFRY_OK,
                 "a message");
}
