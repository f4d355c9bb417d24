/* tests/storm/frames.c */
#include "storm/frames.h"

#include <string.h>

#include "storm/verdict.h"

static void append(struct belfry_buf *to, const void *data, size_t len)
{
    verdict_must(belfry_buf_append(to, data, len) == BELFRY_OK, "a frame");
}

void frame_write(struct belfry_buf *to, enum frame_type type, unsigned flags, uint32_t stream, const void *payload,
                 size_t len)
{
    const uint8_t head[] = {(uint8_t)(len >> 16),    (uint8_t)(len >> 8),    (uint8_t)len,
                            (uint8_t)type,           (uint8_t)flags,         (uint8_t)(stream >> 24),
                            (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
    append(to, head, sizeof(head));
    append(to, payload, len);
}

void frame_write_u32(struct belfry_buf *to, enum frame_type type, uint32_t stream, uint32_t value)
{
    const uint8_t payload[] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
    frame_write(to, type, 0, stream, payload, sizeof(payload));
}

void frame_write_setting(struct belfry_buf *to, uint16_t id, uint32_t value)
{
    const uint8_t payload[] = {(uint8_t)(id >> 8),     (uint8_t)id,           (uint8_t)(value >> 24),
                               (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
    frame_write(to, FRAME_SETTINGS, 0, 0, payload, sizeof(payload));
}

/* A length with a prefix of seven bits (RFC 7541, 5.1). */
static void append_text(struct belfry_buf *block, const char *text)
{
    size_t len = strlen(text);
    if (len < 127) {
        append(block, &(uint8_t){(uint8_t)len}, 1);
    } else {
        append(block, &(uint8_t){127}, 1);
        for (size_t rest = len - 127;; rest >>= 7) {
            append(block, &(uint8_t){(uint8_t)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0))}, 1);
            if (rest <= 0x7f)
                break;
        }
    }
    append(block, text, len);
}

void frame_field(struct belfry_buf *block, enum frame_field how, const char *name, const char *value)
{
    append(block, &(uint8_t){how == FRAME_FIELD_INDEXED ? 0x40 : 0x00}, 1);
    append_text(block, name);
    append_text(block, value);
}
