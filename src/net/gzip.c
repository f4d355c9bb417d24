/* src/net/gzip.c */
#include "net/gzip.h"

#include <limits.h>

#include "net/zlib_mem.h"

#define FIRST_BYTES  1024
#define UNPACK_RATIO 4 /* a first guess at the size; what JSON and protobuf of keys come to */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static enum belfry_err grow(struct belfry_blob **blob, size_t max_bytes)
{
    size_t len = belfry_blob_len(*blob);
    if (len >= max_bytes)
        return BELFRY_ERR_TOO_LARGE;
    return belfry_blob_resize(blob, len > max_bytes / 2 ? max_bytes : len * 2);
}

/* At the limit one more byte is asked for, into a scrap: only whether there is one matters. */
static int inflate_step(z_stream *z, struct belfry_blob *blob, size_t done, size_t *out_n)
{
    Bytef scrap;
    size_t room = smaller(belfry_blob_len(blob) - done, UINT_MAX);
    z->next_out = room > 0 ? belfry_blob_edit(blob) + done : &scrap;
    z->avail_out = room > 0 ? (uInt)room : 1;
    uInt before = z->avail_out;
    int rc = inflate(z, Z_NO_FLUSH);
    *out_n = before - z->avail_out;
    return rc;
}

static enum belfry_err unpack(z_stream *z, size_t max_bytes, struct belfry_blob **blob)
{
    size_t done = 0;
    for (;;) {
        size_t n;
        int rc = inflate_step(z, *blob, done, &n);
        if (done + n > belfry_blob_len(*blob))
            return BELFRY_ERR_TOO_LARGE;
        done += n;
        if (rc == Z_STREAM_END && z->avail_in == 0)
            return belfry_blob_resize(blob, done);
        if (rc == Z_STREAM_END)
            rc = inflateReset(z); /* another member follows */
        if (rc == Z_MEM_ERROR)
            return BELFRY_ERR_NOMEM;
        if (rc != Z_OK)
            return BELFRY_ERR_PROTOCOL; /* Z_BUF_ERROR: the input ended early, since there is always room */
        if (done == belfry_blob_len(*blob) && done < max_bytes) {
            enum belfry_err err = grow(blob, max_bytes);
            if (err != BELFRY_OK)
                return err;
        }
    }
}

enum belfry_err belfry_gzip_unpack(struct belfry_bytes in, size_t max_bytes, struct belfry_blob **out)
{
    if (in.len > UINT_MAX)
        return BELFRY_ERR_TOO_LARGE;
    if (in.len == 0)
        return BELFRY_ERR_PROTOCOL;
    struct belfry_blob *blob = NULL;
    z_stream z = {.next_in = (const Bytef *)in.data, .avail_in = (uInt)in.len};
    belfry_zlib_mem(&z);
    if (inflateInit2(&z, BELFRY_ZLIB_GZIP) != Z_OK)
        return BELFRY_ERR_NOMEM;
    size_t first = in.len * UNPACK_RATIO > FIRST_BYTES ? in.len * UNPACK_RATIO : FIRST_BYTES;
    enum belfry_err err = belfry_blob_alloc(smaller(first, max_bytes), &blob);
    if (err == BELFRY_OK)
        err = unpack(&z, max_bytes, &blob);
    inflateEnd(&z);
    if (err != BELFRY_OK) {
        belfry_blob_unref(blob);
        return err;
    }
    *out = blob;
    return BELFRY_OK;
}

enum belfry_err belfry_gzip_front(struct belfry_bytes in, uint8_t *to, size_t cap, size_t *out_n)
{
    z_stream z = {.next_in = (const Bytef *)in.data,
                  .avail_in = (uInt)smaller(in.len, UINT_MAX),
                  .next_out = to,
                  .avail_out = (uInt)smaller(cap, UINT_MAX)};
    uInt room = z.avail_out;
    belfry_zlib_mem(&z);
    if (inflateInit2(&z, BELFRY_ZLIB_GZIP) != Z_OK)
        return BELFRY_ERR_NOMEM;
    int rc = inflate(&z, Z_SYNC_FLUSH);
    inflateEnd(&z);
    if (rc == Z_MEM_ERROR)
        return BELFRY_ERR_NOMEM;
    *out_n = room - z.avail_out;
    return BELFRY_OK;
}
