/* src/base/secret_file.h
 *
 * secret_file: a file that holds keys, which other users of the machine must not read or write.
 *
 * Thread: any.
 */
#ifndef BELFRY_BASE_SECRET_FILE_H
#define BELFRY_BASE_SECRET_FILE_H

#include "base/buf.h"

/* Appends the whole file, at most max_bytes, to `out`. The caller ends the buffer with belfry_secret_buf_fini(), also
 * on failure. On failure it stores a sentence that names the file and what to do in why.
 * Errors: BELFRY_ERR_INVALID (not a regular file, unreadable, longer than max_bytes, or every user of the machine may
 *         read or write it), BELFRY_ERR_NOMEM (why is untouched). */
BELFRY_NODISCARD enum belfry_err belfry_secret_file_read(const char *path, size_t max_bytes, struct belfry_buf *out,
                                                         char *why, size_t why_len);

/* Wipes the storage, then frees it. */
void belfry_secret_buf_fini(struct belfry_buf *buf);

#endif
