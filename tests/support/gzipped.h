/* tests/support/gzipped.h: bytes as a gzip member, for tests of those who unpack them. Thread: any. */
#ifndef BELFRY_TESTS_GZIPPED_H
#define BELFRY_TESTS_GZIPPED_H

#include <stddef.h>
#include <stdint.h>

/* level: zlib's; 0: they stay as large as they are. Returns the bytes written to `out`; the test fails if `cap` is too
 * few. */
size_t gzipped(const void *in, size_t len, int level, uint8_t *out, size_t cap);

#endif
