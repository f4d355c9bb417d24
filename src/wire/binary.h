/* src/wire/binary.h: our bytes as protobuf-c's type, for packing. Its pointer is not const, but packing does not write.
 * Thread: any. */
#ifndef BELFRY_WIRE_BINARY_H
#define BELFRY_WIRE_BINARY_H

#include <protobuf-c/protobuf-c.h>

#include "base/bytes.h"

static inline ProtobufCBinaryData belfry_binary(struct belfry_bytes bytes)
{
    union {
        const char *in;
        uint8_t *out;
    } cast = {.in = bytes.data};
    return (ProtobufCBinaryData){.len = bytes.len, .data = cast.out};
}

#endif
