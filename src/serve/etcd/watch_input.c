/* src/serve/etcd/watch_input.c */
#include "serve/etcd/watch_input.h"

#include <stdarg.h>
#include <stdio.h>

#include "net/gzip.h"

static void watch_input_forget(struct watch_input *input)
{
    belfry_blob_unref(input->message);
    input->message = NULL;
}

void watch_input_fini(struct watch_input *input)
{
    watch_input_forget(input);
    belfry_grpc_frame_fini(&input->frame);
}

/* ---- what goes wrong; the texts are those of etcd's gRPC ---- */

__attribute__((format(printf, 4, 5))) static enum belfry_err watch_input_fail(struct watch_fault *fault,
                                                                              enum belfry_err err, int code,
                                                                              const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fault->code = code;
    vsnprintf(fault->text, sizeof(fault->text), format, args);
    va_end(args);
    return err;
}

static enum belfry_err watch_input_fail_memory(struct watch_fault *fault)
{
    return watch_input_fail(fault, BELFRY_ERR_NOMEM, 14, "belfry: memory limit reached; try again");
}

static enum belfry_err watch_input_fail_frame(const struct watch_input *input, enum belfry_err err,
                                              struct watch_fault *fault)
{
    if (err == BELFRY_ERR_TOO_LARGE)
        return watch_input_fail(fault, err, 8, "grpc: received message larger than max (%zu vs. %d)",
                                belfry_grpc_frame_need(&input->frame), WATCH_REQUEST_BYTES);
    if (err == BELFRY_ERR_PROTOCOL)
        return watch_input_fail(fault, err, 13, "grpc: received unexpected payload format %u", input->frame.prefix[0]);
    return watch_input_fail_memory(fault);
}

static enum belfry_err watch_input_fail_gzip(enum belfry_err err, size_t most, struct watch_fault *fault)
{
    if (err == BELFRY_ERR_TOO_LARGE) /* it is not unpacked further to learn how large */
        return watch_input_fail(
            fault, err, 8, "grpc: received message after decompression larger than max (%zu vs. %zu)", most + 1, most);
    if (err == BELFRY_ERR_PROTOCOL)
        return watch_input_fail(fault, err, 13,
                                "grpc: failed to decompress the received message: it is not whole gzip");
    return watch_input_fail_memory(fault);
}

/* ---- a message ---- */

/* The message at the front of *in, if all of it is there and nothing came before. */
static bool take_in_place(const struct watch_input *input, struct belfry_bytes *in, struct belfry_bytes *raw,
                          bool *compressed)
{
    const uint8_t *p = (const uint8_t *)in->data;
    if (belfry_grpc_frame_inside(&input->frame) || in->len < BELFRY_GRPC_PREFIX_BYTES || p[0] > 1)
        return false;
    size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (len > WATCH_REQUEST_BYTES || len > in->len - BELFRY_GRPC_PREFIX_BYTES)
        return false;
    *raw = belfry_bytes_of(p + BELFRY_GRPC_PREFIX_BYTES, len);
    *compressed = p[0] == 1;
    *in = belfry_bytes_of(in->data + BELFRY_GRPC_PREFIX_BYTES + len, in->len - BELFRY_GRPC_PREFIX_BYTES - len);
    return true;
}

static enum belfry_err take_message(struct watch_input *input, struct belfry_bytes *in, struct belfry_bytes *raw,
                                    bool *compressed, struct watch_fault *fault)
{
    watch_input_forget(input);
    if (take_in_place(input, in, raw, compressed))
        return BELFRY_OK;
    enum belfry_err err = belfry_grpc_frame_feed(&input->frame, in, WATCH_REQUEST_BYTES, &input->message, compressed);
    if (err != BELFRY_OK)
        return watch_input_fail_frame(input, err, fault);
    if (input->message == NULL)
        return BELFRY_ERR_AGAIN;
    *raw = belfry_blob_bytes(input->message);
    return BELFRY_OK;
}

/* What a message of `packed` bytes may unpack to. */
static size_t unpacked_most(size_t packed)
{
    size_t most = belfry_gzip_allowance(packed);
    return most < WATCH_REQUEST_BYTES ? most : WATCH_REQUEST_BYTES;
}

static enum belfry_err watch_input_unpack(struct watch_input *input, struct belfry_bytes *raw,
                                          struct watch_fault *fault)
{
    if (input->coding == WATCH_CODING_NONE)
        return watch_input_fail(fault, BELFRY_ERR_PROTOCOL, 13,
                                "grpc: compressed flag set with identity or empty encoding");
    struct belfry_blob *plain;
    size_t most = unpacked_most(raw->len);
    enum belfry_err err = belfry_gzip_unpack(*raw, most, &plain);
    if (err != BELFRY_OK)
        return watch_input_fail_gzip(err, most, fault);
    watch_input_forget(input);
    input->message = plain;
    *raw = belfry_blob_bytes(plain);
    input->unpacked = raw->len;
    return BELFRY_OK;
}

enum belfry_err watch_input_next(struct watch_input *input, struct belfry_bytes *in,
                                 struct belfry_wire_watch_request *request, struct belfry_bytes *raw,
                                 struct watch_fault *fault)
{
    bool compressed = false;
    input->unpacked = 0;
    enum belfry_err err = take_message(input, in, raw, &compressed, fault);
    if (err == BELFRY_OK && compressed)
        err = watch_input_unpack(input, raw, fault);
    if (err != BELFRY_OK)
        return err;
    if (belfry_scan_watch_request(*raw, request) != BELFRY_OK)
        return watch_input_fail(fault, BELFRY_ERR_PROTOCOL, 13,
                                "grpc: failed to unmarshal the received message: proto: malformed WatchRequest");
    return BELFRY_OK;
}
