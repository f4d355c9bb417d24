/* src/base/blob.c */
#include "base/blob.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct belfry_blob {
    atomic_size_t refs; /* release on unref, acquire before free: all other holders' reads end before the free */
    size_t len;
    uint8_t data[];
};

enum belfry_err belfry_blob_alloc(size_t len, struct belfry_blob **out)
{
    if (len > SIZE_MAX - sizeof(struct belfry_blob))
        return BELFRY_ERR_NOMEM;
    struct belfry_blob *blob = malloc(sizeof(*blob) + len);
    if (blob == NULL)
        return BELFRY_ERR_NOMEM;
    atomic_init(&blob->refs, 1);
    blob->len = len;
    *out = blob;
    return BELFRY_OK;
}

enum belfry_err belfry_blob_copy(struct belfry_bytes bytes, struct belfry_blob **out)
{
    enum belfry_err err = belfry_blob_alloc(bytes.len, out);
    if (err == BELFRY_OK && bytes.len > 0)
        memcpy((*out)->data, bytes.data, bytes.len);
    return err;
}

uint8_t *belfry_blob_edit(struct belfry_blob *blob)
{
    assert(atomic_load_explicit(&blob->refs, memory_order_relaxed) == 1);
    return blob->data;
}

enum belfry_err belfry_blob_resize(struct belfry_blob **blob, size_t len)
{
    assert(atomic_load_explicit(&(*blob)->refs, memory_order_relaxed) == 1);
    if (len > SIZE_MAX - sizeof(struct belfry_blob))
        return BELFRY_ERR_NOMEM;
    struct belfry_blob *moved = realloc(*blob, sizeof(*moved) + len);
    if (moved == NULL)
        return BELFRY_ERR_NOMEM;
    moved->len = len;
    *blob = moved;
    return BELFRY_OK;
}

struct belfry_blob *belfry_blob_ref(struct belfry_blob *blob)
{
    size_t before = atomic_fetch_add_explicit(&blob->refs, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
    return blob;
}

void belfry_blob_unref(struct belfry_blob *blob)
{
    if (blob == NULL || atomic_fetch_sub_explicit(&blob->refs, 1, memory_order_acq_rel) != 1)
        return;
    free(blob);
}

struct belfry_bytes belfry_blob_bytes(const struct belfry_blob *blob)
{
    return belfry_bytes_of(blob->data, blob->len);
}

size_t belfry_blob_len(const struct belfry_blob *blob)
{
    return blob->len;
}
