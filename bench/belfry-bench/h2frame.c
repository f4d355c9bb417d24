/* bench/belfry-bench/h2frame.c */
#include "h2frame.h"

#include "die.h"

void h2frame_put_head(struct belfry_buf *out, enum h2frame_type type, uint8_t flags, uint32_t id, size_t len)
{
    uint8_t head[H2FRAME_HEAD] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, (uint8_t)type, flags};
    h2frame_write_u32(head + 5, id);
    must(belfry_buf_append(out, head, sizeof(head)), "frame");
}

/* The size of the frame that starts here, with its head; 0: not known yet. */
static size_t frame_size(struct belfry_bytes bytes)
{
    const uint8_t *head = (const uint8_t *)bytes.data;
    return bytes.len < H2FRAME_HEAD ? 0 : H2FRAME_HEAD + ((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]);
}

static struct h2frame frame_at(const char *data, size_t size)
{
    const uint8_t *head = (const uint8_t *)data;
    return (struct h2frame){.type = head[3],
                            .flags = head[4],
                            .id = h2frame_read_u32(head + 5) & 0x7fffffffu,
                            .payload = head + H2FRAME_HEAD,
                            .len = size - H2FRAME_HEAD};
}

static void advance(struct belfry_bytes *bytes, size_t len)
{
    *bytes = belfry_bytes_of(bytes->data + len, bytes->len - len);
}

/* Adds to the frame that has begun what belongs to it. */
static enum h2frame_next complete(struct h2frame_cutter *cutter, struct belfry_bytes *bytes, struct h2frame *out)
{
    for (;;) {
        struct belfry_bytes have = belfry_buf_bytes(&cutter->start);
        size_t size = frame_size(have);
        if (size > H2FRAME_HEAD + H2FRAME_MAX)
            return H2FRAME_TOO_LONG;
        if (size != 0 && size == have.len) {
            *out = frame_at(have.data, size);
            cutter->lent = true;
            return H2FRAME_CUT;
        }
        if (bytes->len == 0)
            return H2FRAME_INCOMPLETE;
        size_t want = (size == 0 ? H2FRAME_HEAD : size) - have.len;
        size_t take = want < bytes->len ? want : bytes->len;
        must(belfry_buf_append(&cutter->start, bytes->data, take), "frame");
        advance(bytes, take);
    }
}

enum h2frame_next h2frame_cut(struct h2frame_cutter *cutter, struct belfry_bytes *bytes, struct h2frame *out)
{
    if (cutter->lent)
        belfry_buf_clear(&cutter->start);
    cutter->lent = false;
    size_t size = frame_size(*bytes);
    if (belfry_buf_len(&cutter->start) > 0 || size == 0 || size > bytes->len)
        return complete(cutter, bytes, out);
    if (size > H2FRAME_HEAD + H2FRAME_MAX)
        return H2FRAME_TOO_LONG;
    *out = frame_at(bytes->data, size);
    advance(bytes, size);
    return H2FRAME_CUT;
}

void h2frame_cutter_fini(struct h2frame_cutter *cutter)
{
    belfry_buf_fini(&cutter->start);
}
