/* src/net/zlib_mem.c */
#include "net/zlib_mem.h"

#include <stdlib.h>

static voidpf z_alloc(voidpf opaque, uInt n, uInt size)
{
    (void)opaque;
    return calloc(n, size);
}

static void z_free(voidpf opaque, voidpf ptr)
{
    (void)opaque;
    free(ptr);
}

void belfry_zlib_mem(z_stream *z)
{
    z->zalloc = z_alloc;
    z->zfree = z_free;
}
