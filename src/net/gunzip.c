/* src/net/gunzip.c */
#include "net/gunzip.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#include "net/zlib_mem.h"

struct belfry_gunzip {
    z_stream z;
    size_t left;   /* bytes that may still come out */
    bool is_whole; /* a member has ended, and no other has begun */
    uint8_t piece[BELFRY_GUNZIP_PIECE];
};

enum belfry_err belfry_gunzip_create(size_t max_bytes, struct belfry_gunzip **out)
{
    struct belfry_gunzip *gunzip = calloc(1, sizeof(*gunzip));
    if (gunzip == NULL)
        return BELFRY_ERR_NOMEM;
    gunzip->left = max_bytes;
    belfry_zlib_mem(&gunzip->z);
    if (inflateInit2(&gunzip->z, BELFRY_ZLIB_GZIP) != Z_OK) {
        free(gunzip);
        return BELFRY_ERR_NOMEM;
    }
    *out = gunzip;
    return BELFRY_OK;
}

void belfry_gunzip_destroy(struct belfry_gunzip *gunzip)
{
    if (gunzip == NULL)
        return;
    inflateEnd(&gunzip->z);
    free(gunzip);
}

/* One step of zlib: *in loses what it took. */
static int inflate_some(struct belfry_gunzip *gunzip, struct belfry_bytes *in, size_t *out_n)
{
    uInt given = in->len < UINT_MAX ? (uInt)in->len : UINT_MAX;
    gunzip->z.next_in = (const Bytef *)in->data;
    gunzip->z.avail_in = given;
    gunzip->z.next_out = gunzip->piece;
    gunzip->z.avail_out = sizeof(gunzip->piece);
    int rc = inflate(&gunzip->z, Z_NO_FLUSH);
    size_t taken = given - gunzip->z.avail_in;
    *in = belfry_bytes_of(in->data + taken, in->len - taken);
    *out_n = sizeof(gunzip->piece) - gunzip->z.avail_out;
    return rc;
}

/* The next step that has something to show for it. */
static enum belfry_err unpack_some(struct belfry_gunzip *gunzip, struct belfry_bytes *in, size_t *out_n)
{
    for (;;) {
        if (gunzip->is_whole && (in->len == 0 || inflateReset(&gunzip->z) != Z_OK))
            return in->len == 0 ? BELFRY_OK : BELFRY_ERR_PROTOCOL;
        int rc = inflate_some(gunzip, in, out_n);
        gunzip->is_whole = rc == Z_STREAM_END;
        if (rc == Z_MEM_ERROR)
            return BELFRY_ERR_NOMEM;
        if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
            return BELFRY_ERR_PROTOCOL;
        if (*out_n > 0 || in->len == 0)
            return BELFRY_OK;
    }
}

enum belfry_err belfry_gunzip_next(struct belfry_gunzip *gunzip, struct belfry_bytes *in, struct belfry_bytes *out)
{
    size_t n = 0;
    enum belfry_err err = unpack_some(gunzip, in, &n);
    if (err != BELFRY_OK)
        return err;
    if (n > gunzip->left)
        return BELFRY_ERR_TOO_LARGE;
    gunzip->left -= n;
    *out = belfry_bytes_of(gunzip->piece, n);
    return BELFRY_OK;
}

bool belfry_gunzip_is_whole(const struct belfry_gunzip *gunzip)
{
    return gunzip->is_whole;
}
