/* src/base/blob.h
 *
 * blob: immutable bytes, shared by reference count.
 *
 * A received message becomes one blob. Code that needs a part of it keeps a reference to the whole blob and a pointer
 * into it. The creator may write to the blob between belfry_blob_alloc() and the first time it shares it; never later.
 *
 * Thread: any. The last unref may happen on any thread.
 * Memory: one allocation, header and bytes together.
 */
#ifndef BELFRY_BASE_BLOB_H
#define BELFRY_BASE_BLOB_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct belfry_blob;

/* A blob of `len` bytes, not initialised: the caller fills them through belfry_blob_edit() before sharing.
 * On BELFRY_OK the caller owns one reference. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_blob_alloc(size_t len, struct belfry_blob **out);

/* A blob holding a copy of `bytes`. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_blob_copy(struct belfry_bytes bytes, struct belfry_blob **out);

/* The bytes for writing; legal only while the caller holds the only reference. */
uint8_t *belfry_blob_edit(struct belfry_blob *blob);

/* Changes the length of a blob that only the caller holds; keeps the first min(old, new) bytes. May move the blob.
 * On failure *blob is unchanged. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_blob_resize(struct belfry_blob **blob, size_t len);

/* Adds a reference and returns the blob. The caller must already hold a reference. */
struct belfry_blob *belfry_blob_ref(struct belfry_blob *blob);

/* Ends one reference. NULL is fine, as for free(). */
void belfry_blob_unref(struct belfry_blob *blob);

struct belfry_bytes belfry_blob_bytes(const struct belfry_blob *blob);
size_t belfry_blob_len(const struct belfry_blob *blob);

#endif
