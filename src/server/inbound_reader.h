/* src/server/inbound_reader.h
 *
 * inbound_reader: reads from a socket in portions that follow how long it took to handle the last: a few bytes may be a
 * request, and sixty thousand a part of one.
 *
 * Thread: owner.
 * Memory: none; the caller lends the buffer.
 */
#ifndef BELFRY_SERVER_INBOUND_READER_H
#define BELFRY_SERVER_INBOUND_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define INBOUND_READER_MOST  (64 * 1024) /* bytes per read, ... */
#define INBOUND_READER_LEAST (2 * 1024)
#define INBOUND_READER_NS    500000 /* for one read with all that follows from it, and for the reads of one turn */

struct inbound_reader {
    size_t bytes; /* per read */
};

enum inbound_reader_end {
    INBOUND_READER_PAUSED, /* nothing is there, most likely, or it is the turn of others; the poll reports more */
    INBOUND_READER_ENDED,  /* the peer sends no more */
    INBOUND_READER_LOST
};

/* Handles bytes, which are lent. False: do not read on. */
typedef bool (*inbound_reader_fn)(struct belfry_bytes bytes, void *user);

static inline void inbound_reader_init(struct inbound_reader *reader)
{
    reader->bytes = INBOUND_READER_MOST / 4;
}

/* Reads a few times, into `buf` of INBOUND_READER_MOST bytes. `began_ns`: when the connection's turn began, by
 * uv_hrtime(). */
enum inbound_reader_end inbound_reader_read(struct inbound_reader *reader, int fd, uint8_t *buf, uint64_t began_ns,
                                            inbound_reader_fn fn, void *user);

#endif
