/* src/net/grpc_frame.c */
#include "net/grpc_frame.h"

#include <assert.h>
#include <string.h>

#define FIRST_BYTES 1024

void belfry_grpc_frame_fini(struct belfry_grpc_frame *frame)
{
    belfry_blob_unref(frame->blob);
    belfry_grpc_frame_init(frame);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t belfry_grpc_frame_need(const struct belfry_grpc_frame *frame)
{
    const uint8_t *p = frame->prefix;
    if (frame->n_prefix < BELFRY_GRPC_PREFIX_BYTES)
        return 0;
    return (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
}

void belfry_grpc_frame_prefix(uint8_t to[BELFRY_GRPC_PREFIX_BYTES], size_t len)
{
    assert(len <= UINT32_MAX);
    to[0] = 0;
    to[1] = (uint8_t)(len >> 24);
    to[2] = (uint8_t)(len >> 16);
    to[3] = (uint8_t)(len >> 8);
    to[4] = (uint8_t)len;
}

struct belfry_bytes belfry_grpc_frame_only(struct belfry_bytes body)
{
    uint8_t prefix[BELFRY_GRPC_PREFIX_BYTES];
    if (body.len < sizeof(prefix))
        return (struct belfry_bytes){0};
    struct belfry_bytes message = belfry_bytes_of(body.data + sizeof(prefix), body.len - sizeof(prefix));
    belfry_grpc_frame_prefix(prefix, message.len);
    return memcmp(body.data, prefix, sizeof(prefix)) == 0 ? message : (struct belfry_bytes){0};
}

static void advance(struct belfry_bytes *in, size_t n)
{
    in->data += n;
    in->len -= n;
}

static enum belfry_err take_prefix(struct belfry_grpc_frame *frame, struct belfry_bytes *in, size_t max_bytes)
{
    size_t n = smaller(BELFRY_GRPC_PREFIX_BYTES - (size_t)frame->n_prefix, in->len);
    if (n == 0)
        return BELFRY_OK;
    memcpy(frame->prefix + frame->n_prefix, in->data, n);
    frame->n_prefix = (uint8_t)(frame->n_prefix + n);
    advance(in, n);
    if (frame->prefix[0] > 1)
        return BELFRY_ERR_PROTOCOL;
    return belfry_grpc_frame_need(frame) > max_bytes ? BELFRY_ERR_TOO_LARGE : BELFRY_OK;
}

/* Makes room for what is at hand, or doubles: a message that comes whole is reserved once, to the byte. */
static enum belfry_err make_room(struct belfry_grpc_frame *frame, size_t at_hand)
{
    size_t need = belfry_grpc_frame_need(frame);
    if (frame->blob == NULL)
        return belfry_blob_alloc(smaller(need, at_hand > FIRST_BYTES ? at_hand : FIRST_BYTES), &frame->blob);
    size_t reserved = belfry_blob_len(frame->blob);
    if (reserved - frame->have >= smaller(at_hand, need - frame->have))
        return BELFRY_OK;
    size_t wanted = reserved * 2 > frame->have + at_hand ? reserved * 2 : frame->have + at_hand;
    return belfry_blob_resize(&frame->blob, smaller(need, wanted));
}

static enum belfry_err take_body(struct belfry_grpc_frame *frame, struct belfry_bytes *in)
{
    enum belfry_err err = make_room(frame, in->len);
    if (err != BELFRY_OK)
        return err;
    size_t n = smaller(belfry_grpc_frame_need(frame) - frame->have, in->len);
    if (n > 0)
        memcpy(belfry_blob_edit(frame->blob) + frame->have, in->data, n);
    frame->have += n;
    advance(in, n);
    return BELFRY_OK;
}

enum belfry_err belfry_grpc_frame_feed(struct belfry_grpc_frame *frame, struct belfry_bytes *in, size_t max_bytes,
                                       struct belfry_blob **out, bool *out_compressed)
{
    *out = NULL;
    enum belfry_err err = take_prefix(frame, in, max_bytes);
    if (err != BELFRY_OK || frame->n_prefix < BELFRY_GRPC_PREFIX_BYTES)
        return err;
    err = take_body(frame, in);
    if (err != BELFRY_OK || frame->have < belfry_grpc_frame_need(frame))
        return err;
    *out = frame->blob;
    *out_compressed = frame->prefix[0] == 1;
    belfry_grpc_frame_init(frame);
    return BELFRY_OK;
}
