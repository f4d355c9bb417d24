/* tests/support/gzipped.c */
#include "support/gzipped.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "net/zlib_mem.h"

size_t gzipped(const void *in, size_t len, int level, uint8_t *out, size_t cap)
{
    z_stream z = {.next_in = in, .avail_in = (uInt)len, .next_out = out, .avail_out = (uInt)cap};
    assert_int_equal(deflateInit2(&z, level, Z_DEFLATED, BELFRY_ZLIB_GZIP, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return cap - z.avail_out;
}
