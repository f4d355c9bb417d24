/* src/base/buf.h
 *
 * buf: bytes that are appended at the end and taken from the front, such as output that waits to be written.
 *
 * Thread: owner.
 * Memory: grows by doubling. Taking everything keeps the storage; belfry_buf_fini() frees it. If a peer can make a
 * buffer grow, its owner checks the length against its own bound.
 */
#ifndef BELFRY_BASE_BUF_H
#define BELFRY_BASE_BUF_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct belfry_buf {
    uint8_t *data; /* owned; the live bytes are data[start, end) */
    size_t start, end, cap;
};

static inline void belfry_buf_init(struct belfry_buf *buf)
{
    *buf = (struct belfry_buf){0};
}

void belfry_buf_fini(struct belfry_buf *buf);

static inline size_t belfry_buf_len(const struct belfry_buf *buf)
{
    return buf->end - buf->start;
}

static inline struct belfry_bytes belfry_buf_bytes(const struct belfry_buf *buf)
{
    if (buf->data == NULL) /* in C, NULL + 0 is undefined */
        return (struct belfry_bytes){0};
    return belfry_bytes_of(buf->data + buf->start, belfry_buf_len(buf));
}

/* Makes room for `len` more bytes and stores their address; then call belfry_buf_grown() with the number written.
 * Errors: BELFRY_ERR_NOMEM, the buffer unchanged. */
BELFRY_NODISCARD enum belfry_err belfry_buf_reserve(struct belfry_buf *buf, size_t len, uint8_t **out);

/* How many bytes more the buffer would take from the allocator to hold `len` more: for accounts that ask first. */
size_t belfry_buf_growth(const struct belfry_buf *buf, size_t len);
void belfry_buf_grown(struct belfry_buf *buf, size_t len);

/* Appends a copy. Errors: BELFRY_ERR_NOMEM, the buffer unchanged. */
BELFRY_NODISCARD enum belfry_err belfry_buf_append(struct belfry_buf *buf, const void *data, size_t len);

/* Drops `len` bytes from the front; len is at most the length. */
void belfry_buf_take(struct belfry_buf *buf, size_t len);

/* Drops all bytes; keeps the storage. */
static inline void belfry_buf_clear(struct belfry_buf *buf)
{
    belfry_buf_take(buf, belfry_buf_len(buf));
}

#endif
