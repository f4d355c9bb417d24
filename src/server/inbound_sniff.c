/* src/server/inbound_sniff.c */
#include "server/inbound_sniff.h"

#include <assert.h>
#include <stdbool.h>

enum inbound_sniffed inbound_sniff_read(struct inbound_sniff *sniff, struct belfry_bytes *bytes)
{
    static const char wanted[] = "PRI * HTTP/2.0";
    static_assert(sizeof(wanted) - 1 == INBOUND_SNIFF_BYTES, "the preface is kept whole");
    bool same = true;
    while (same && bytes->len > 0 && sniff->n < INBOUND_SNIFF_BYTES) {
        same = bytes->data[0] == wanted[sniff->n];
        sniff->bytes[sniff->n++] = bytes->data[0];
        *bytes = belfry_bytes_of(bytes->data + 1, bytes->len - 1);
    }
    if (!same)
        return INBOUND_SNIFFED_HTTP1;
    return sniff->n < INBOUND_SNIFF_BYTES ? INBOUND_SNIFFED_LITTLE : INBOUND_SNIFFED_HTTP2;
}
