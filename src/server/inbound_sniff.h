/* src/server/inbound_sniff.h
 *
 * inbound_sniff: which protocol a plain connection speaks, by its first bytes: HTTP/2 with prior knowledge begins with
 * "PRI * HTTP/2.0" (RFC 9113, 3.4), and no method of HTTP/1.1 begins like that.
 *
 * Thread: owner. Pure.
 * Memory: the bytes that were needed to tell, which the protocol reads first.
 */
#ifndef BELFRY_SERVER_INBOUND_SNIFF_H
#define BELFRY_SERVER_INBOUND_SNIFF_H

#include <stdint.h>

#include "base/bytes.h"

#define INBOUND_SNIFF_BYTES 14

struct inbound_sniff { /* all zero: at the beginning */
    uint8_t n;
    char bytes[INBOUND_SNIFF_BYTES];
};

enum inbound_sniffed {
    INBOUND_SNIFFED_LITTLE, /* more bytes are needed; all were kept */
    INBOUND_SNIFFED_HTTP1,
    INBOUND_SNIFFED_HTTP2
};

/* Keeps bytes until one differs or all were seen, and advances *bytes to those that follow. */
enum inbound_sniffed inbound_sniff_read(struct inbound_sniff *sniff, struct belfry_bytes *bytes);

#endif
