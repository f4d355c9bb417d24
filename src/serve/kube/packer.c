/* src/serve/kube/packer.c */
#include "serve/kube/packer.h"

#include <limits.h>
#include <stdlib.h>

#include "net/zlib_mem.h"

#define LEVEL     1 /* the fastest: it is the one reader thread that packs */
#define MEM_LEVEL 8 /* zlib's default */
#define STEP      (16 * 1024)

struct packer {
    z_stream z;
};

enum belfry_err packer_create(struct packer **out)
{
    struct packer *packer = calloc(1, sizeof(*packer));
    if (packer == NULL)
        return BELFRY_ERR_NOMEM;
    belfry_zlib_mem(&packer->z);
    if (deflateInit2(&packer->z, LEVEL, Z_DEFLATED, BELFRY_ZLIB_GZIP, MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(packer);
        return BELFRY_ERR_NOMEM;
    }
    *out = packer;
    return BELFRY_OK;
}

void packer_destroy(struct packer *packer)
{
    if (packer == NULL)
        return;
    deflateEnd(&packer->z);
    free(packer);
}

enum belfry_err packer_add(struct packer *packer, struct belfry_bytes in, enum packer_piece piece,
                           struct belfry_buf *out)
{
    z_stream *z = &packer->z;
    if (in.len > UINT_MAX)
        return BELFRY_ERR_NOMEM;
    z->next_in = (const Bytef *)in.data;
    z->avail_in = (uInt)in.len;
    do { /* until it leaves room: then it has nothing more to give */
        uint8_t *to;
        enum belfry_err err = belfry_buf_reserve(out, STEP, &to);
        if (err != BELFRY_OK)
            return err;
        z->next_out = to;
        z->avail_out = STEP;
        deflate(z, piece == PACKER_LAST ? Z_FINISH : Z_NO_FLUSH);
        belfry_buf_grown(out, STEP - z->avail_out);
    } while (z->avail_out == 0);
    return BELFRY_OK;
}
