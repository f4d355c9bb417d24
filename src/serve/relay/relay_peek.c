/* src/serve/relay/relay_peek.c */
#include "serve/relay/relay_peek.h"

#include "net/grpc_frame.h"
#include "net/gzip.h"

#define PLAIN_BYTES  64   /* of a message: a header has at most 46 */
#define PACKED_BYTES 1024 /* of a compressed one: the largest tables of deflate, and then the header */

struct front {
    bool packed;
    uint64_t len;                /* of the whole message */
    struct belfry_bytes message; /* as much of it as is there and may be needed */
    size_t most;                 /* that may be needed */
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* False: gRPC's prefix is not whole. */
static bool front_read(struct belfry_bytes bytes, struct front *out)
{
    const uint8_t *prefix = (const uint8_t *)bytes.data;
    if (bytes.len < BELFRY_GRPC_PREFIX_BYTES)
        return false;
    out->packed = prefix[0] != 0;
    out->len = (uint64_t)prefix[1] << 24 | (uint64_t)prefix[2] << 16 | (uint64_t)prefix[3] << 8 | prefix[4];
    out->most = least(out->packed ? PACKED_BYTES : PLAIN_BYTES, (size_t)out->len);
    size_t have = bytes.len - BELFRY_GRPC_PREFIX_BYTES;
    out->message = belfry_bytes_of(prefix + BELFRY_GRPC_PREFIX_BYTES, least(have, out->most));
    return true;
}

/* Errors: BELFRY_ERR_PROTOCOL: there is no whole header at the front. */
static enum belfry_err scan_front(struct belfry_bytes message, struct belfry_wire_header *out)
{
    struct belfry_bytes header;
    size_t at = 0;
    enum belfry_err err = belfry_scan_field(message, 1, &at, &header);
    return err != BELFRY_OK ? BELFRY_ERR_PROTOCOL : belfry_scan_header(header, out);
}

static enum belfry_err front_header(const struct front *front, struct belfry_wire_header *out)
{
    uint8_t plain[PLAIN_BYTES];
    size_t n;
    if (!front->packed)
        return scan_front(front->message, out);
    enum belfry_err err = belfry_gzip_front(front->message, plain, sizeof(plain), &n);
    return err != BELFRY_OK ? err : scan_front(belfry_bytes_of(plain, n), out);
}

/* The beginning of a message. Errors: BELFRY_ERR_AGAIN (its header is cut), BELFRY_ERR_NOMEM. */
static enum belfry_err peek_front(struct belfry_bytes bytes, struct term *term, uint64_t *message_bytes)
{
    struct front front;
    struct belfry_wire_header header;
    if (!front_read(bytes, &front))
        return BELFRY_ERR_AGAIN;
    enum belfry_err err = front_header(&front, &header);
    if (err == BELFRY_ERR_NOMEM)
        return err;
    if (err != BELFRY_OK && front.message.len < front.most)
        return BELFRY_ERR_AGAIN;
    if (err == BELFRY_OK)
        term_hear(term, &header);
    *message_bytes = BELFRY_GRPC_PREFIX_BYTES + front.len;
    return BELFRY_OK;
}

/* The same, with what was kept of it before `bytes`. */
static enum belfry_err peek_kept(struct relay_peek *peek, struct belfry_bytes bytes, struct term *term)
{
    size_t kept = belfry_buf_len(&peek->front), most = BELFRY_GRPC_PREFIX_BYTES + PACKED_BYTES - kept;
    uint64_t message_bytes;
    enum belfry_err err = belfry_buf_append(&peek->front, bytes.data, least(bytes.len, most));
    if (err == BELFRY_OK)
        err = peek_front(belfry_buf_bytes(&peek->front), term, &message_bytes);
    if (err != BELFRY_OK)
        return err;
    belfry_buf_fini(&peek->front);
    peek->skip = message_bytes - kept;
    return BELFRY_OK;
}

enum belfry_err relay_peek_pass(struct relay_peek *peek, struct belfry_bytes bytes, struct term *term)
{
    while (bytes.len > 0) {
        if (peek->skip == 0) {
            bool has_kept = belfry_buf_len(&peek->front) > 0;
            enum belfry_err err = has_kept ? peek_kept(peek, bytes, term) : peek_front(bytes, term, &peek->skip);
            if (err == BELFRY_ERR_AGAIN)
                return has_kept ? BELFRY_OK : belfry_buf_append(&peek->front, bytes.data, bytes.len);
            if (err != BELFRY_OK)
                return err;
        }
        size_t n = least(bytes.len, (size_t)peek->skip);
        peek->skip -= n;
        bytes = belfry_bytes_of(bytes.data + n, bytes.len - n);
    }
    return BELFRY_OK;
}
