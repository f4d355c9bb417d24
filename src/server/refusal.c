/* src/server/refusal.c */
#include "server/refusal.h"

#include <assert.h>
#include <sys/socket.h>
#include <unistd.h>

#define TLS_HANDSHAKE 0x16 /* the first byte of a record (RFC 8446, 5.1) */
#define READS         16   /* of what a peer has sent already: 64 KiB */

#define WHY "belfry: no room for one more connection; see belfryctl top --clients, --max-connections, --client-share"

/* An empty SETTINGS frame, and GOAWAY: no stream was processed, ENHANCE_YOUR_CALM (RFC 9113, 6.5 and 6.8). */
static const char http2_answer[] = "\0\0\0\4\0\0\0\0\0"
                                   "\0\0\x6f\7\0\0\0\0\0"
                                   "\0\0\0\0\0\0\0\x0b" WHY;
static_assert(sizeof(WHY) - 1 + 8 == 0x6f, "the GOAWAY's length");

static const char http1_answer[] = "HTTP/1.1 503 Service Unavailable\r\n"
                                   "content-type: text/plain; charset=utf-8\r\n"
                                   "content-length: 104\r\n"
                                   "retry-after: 1\r\n"
                                   "connection: close\r\n"
                                   "\r\n" WHY "\n";
static_assert(sizeof(WHY "\n") - 1 == 104, "the content-length");

struct belfry_bytes refusal_text(enum inbound_sniffed protocol)
{
    switch (protocol) {
    case INBOUND_SNIFFED_HTTP1:
        return belfry_bytes_of(http1_answer, sizeof(http1_answer) - 1);
    case INBOUND_SNIFFED_HTTP2:
        return belfry_bytes_of(http2_answer, sizeof(http2_answer) - 1);
    case INBOUND_SNIFFED_LITTLE:
        break;
    }
    return (struct belfry_bytes){0};
}

struct belfry_bytes refusal_after(const struct inbound_sniff *sniff, enum inbound_sniffed protocol)
{
    return refusal_text(sniff->n > 0 && sniff->bytes[0] == TLS_HANDSHAKE ? INBOUND_SNIFFED_LITTLE : protocol);
}

void refusal_answer(int fd, struct inbound_sniff *sniff)
{
    enum inbound_sniffed protocol = INBOUND_SNIFFED_LITTLE;
    uint8_t buf[4096];
    ssize_t n;
    for (int i = 0; i < READS && (n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0; i++) {
        struct belfry_bytes bytes = belfry_bytes_of(buf, (size_t)n);
        if (protocol == INBOUND_SNIFFED_LITTLE)
            protocol = inbound_sniff_read(sniff, &bytes);
    }
    struct belfry_bytes answer = refusal_after(sniff, protocol);
    if (answer.len > 0)
        (void)!send(fd, answer.data, answer.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void refusal_close(int fd)
{
    struct inbound_sniff sniff = {0};
    refusal_answer(fd, &sniff);
    close(fd);
}
