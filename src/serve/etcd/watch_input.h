/* src/serve/etcd/watch_input.h
 *
 * watch_input: WatchRequests out of the bytes of a stream's body, however they are cut, compressed or not.
 *
 * A message that is complete in the given bytes is read in place: nothing is copied or allocated for it.
 *
 * Thread: owner. Pure.
 * Memory: one message that was received in parts, at most WATCH_REQUEST_BYTES; nothing between messages.
 */
#ifndef BELFRY_SERVE_ETCD_WATCH_INPUT_H
#define BELFRY_SERVE_ETCD_WATCH_INPUT_H

#include "net/grpc_frame.h"
#include "wire/scan.h"

#define WATCH_REQUEST_BYTES (2 * 1024 * 1024) /* etcd's limit */

/* The encoding (grpc-encoding) of messages whose compressed flag is set. */
enum watch_coding { WATCH_CODING_NONE, WATCH_CODING_GZIP };

struct watch_input {
    struct belfry_grpc_frame frame;
    struct belfry_blob *message; /* owned; what the last request points into, when it was not read in place */
    enum watch_coding coding;
    size_t unpacked; /* bytes that the last message was unpacked to; 0: it was not compressed */
};

/* How the stream must end: a gRPC status. */
struct watch_fault {
    int code;
    char text[128];
};

static inline void watch_input_init(struct watch_input *input, enum watch_coding coding)
{
    *input = (struct watch_input){.coding = coding};
    belfry_grpc_frame_init(&input->frame);
}

void watch_input_fini(struct watch_input *input);

/* Takes one message from the front of *in. BELFRY_OK: it was read; *request and *raw (the message) are lent until the
 * next call, or until *in goes. BELFRY_ERR_AGAIN: all of *in was taken and more is needed.
 * Errors: BELFRY_ERR_PROTOCOL, BELFRY_ERR_TOO_LARGE, BELFRY_ERR_NOMEM: *fault says how the stream ends. */
BELFRY_NODISCARD enum belfry_err watch_input_next(struct watch_input *input, struct belfry_bytes *in,
                                                  struct belfry_wire_watch_request *request, struct belfry_bytes *raw,
                                                  struct watch_fault *fault);

/* Bytes reserved for an incomplete message. */
static inline size_t watch_input_bytes(const struct watch_input *input)
{
    return input->frame.blob == NULL ? 0 : belfry_blob_len(input->frame.blob);
}

/* True inside a message: a body that ends here was cut short. */
static inline bool watch_input_inside(const struct watch_input *input)
{
    return belfry_grpc_frame_inside(&input->frame);
}

#endif
