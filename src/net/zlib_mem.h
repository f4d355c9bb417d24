/* src/net/zlib_mem.h: zlib's memory, through our own malloc and free, so that tests can refuse it. Thread: any. */
#ifndef BELFRY_NET_ZLIB_MEM_H
#define BELFRY_NET_ZLIB_MEM_H

#ifndef ZLIB_CONST
#define ZLIB_CONST /* next_in points to const */
#endif
#include <zlib.h>

#define BELFRY_ZLIB_GZIP (15 + 16) /* for ...Init2: the largest window, and a gzip header instead of a zlib one */

/* Before the stream's Init. */
void belfry_zlib_mem(z_stream *z);

#endif
