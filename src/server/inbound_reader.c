/* src/server/inbound_reader.c */
#include "server/inbound_reader.h"

#include <errno.h>
#include <sys/socket.h>
#include <uv.h>

#define READS_PER_TURN 4

static void reader_adapt(struct inbound_reader *reader, uint64_t took_ns)
{
    if (took_ns > INBOUND_READER_NS)
        reader->bytes = reader->bytes / 2 > INBOUND_READER_LEAST ? reader->bytes / 2 : INBOUND_READER_LEAST;
    else if (took_ns < INBOUND_READER_NS / 4 && reader->bytes < INBOUND_READER_MOST)
        reader->bytes *= 2;
}

enum inbound_reader_end inbound_reader_read(struct inbound_reader *reader, int fd, uint8_t *buf, uint64_t began_ns,
                                            inbound_reader_fn fn, void *user)
{
    uint64_t last = began_ns;
    for (int i = 0; i < READS_PER_TURN; i++) {
        size_t most = reader->bytes;
        ssize_t n = recv(fd, buf, most, MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? INBOUND_READER_PAUSED
                                                                             : INBOUND_READER_LOST;
        if (n == 0)
            return INBOUND_READER_ENDED;
        bool goes_on = fn(belfry_bytes_of(buf, (size_t)n), user);
        uint64_t now = uv_hrtime();
        reader_adapt(reader, now - last);
        last = now;
        if (!goes_on || (size_t)n < most || now - began_ns > INBOUND_READER_NS)
            break;
    }
    return INBOUND_READER_PAUSED;
}
