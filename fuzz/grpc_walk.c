/* fuzz/grpc_walk.c: any bytes as the body of a gRPC request, cut anywhere: the first byte says how. However they are
 * cut the walk is at the same place, which is where one finds it who has all of them. */
#include <stdint.h>

#include "fuzz/check.h"
#include "serve/relay/grpc_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t length_at(const uint8_t *prefix)
{
    return (uint32_t)prefix[1] << 24 | (uint32_t)prefix[2] << 16 | (uint32_t)prefix[3] << 8 | prefix[4];
}

/* How many messages are whole; *rest is what is left behind them. */
static uint64_t count(const uint8_t *data, size_t size, size_t *rest)
{
    uint64_t n = 0;
    for (; size >= BELFRY_GRPC_PREFIX_BYTES; n++) {
        uint32_t len = length_at(data);
        if (len > size - BELFRY_GRPC_PREFIX_BYTES)
            break;
        data += BELFRY_GRPC_PREFIX_BYTES + len;
        size -= BELFRY_GRPC_PREFIX_BYTES + len;
    }
    *rest = size;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct grpc_walk once = {0}, cut = {0};
    size_t rest, step;
    if (size == 0)
        return 0;
    step = 1 + data[0] % 16;
    data++;
    size--;
    grpc_walk_pass(&once, belfry_bytes_of(data, size));
    for (size_t at = 0; at < size; at += step)
        grpc_walk_pass(&cut, belfry_bytes_of(data + at, size - at < step ? size - at : step));
    check(once.whole == count(data, size, &rest));
    check(grpc_walk_inside(&once) == (rest > 0));
    check(cut.whole == once.whole && cut.left == once.left && cut.n_prefix == once.n_prefix);
    return 0;
}
