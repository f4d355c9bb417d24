/* fuzz/relay_peek.c: any bytes as the body of a response, cut anywhere: the first byte says how. However they are cut,
 * the same term is heard, little is kept, and the peek is at the same place. */
#include <stdint.h>

#include "fuzz/check.h"
#include "serve/relay/relay_peek.h"

#define KEPT_MAX (5 + 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t pass(const uint8_t *data, size_t size, size_t step, uint64_t *skip)
{
    struct relay_peek peek;
    struct term term;
    relay_peek_init(&peek);
    term_init(&term);
    for (size_t at = 0; at < size; at += step) {
        check(relay_peek_pass(&peek, belfry_bytes_of(data + at, size - at < step ? size - at : step), &term) ==
              BELFRY_OK);
        check(belfry_buf_len(&peek.front) <= KEPT_MAX);
    }
    uint64_t heard = term_now(&term);
    *skip = peek.skip;
    relay_peek_fini(&peek);
    term_fini(&term);
    return heard;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t once, cut;
    if (size < 2)
        return 0;
    size_t step = 1 + data[0] % 64;
    data++;
    size--;
    check(pass(data, size, size, &once) == pass(data, size, step, &cut));
    check(once == cut);
    return 0;
}
