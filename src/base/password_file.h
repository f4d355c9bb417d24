/* src/base/password_file.h
 *
 * password_file: a file whose first line is a password.
 *
 * Thread: any.
 */
#ifndef BELFRY_BASE_PASSWORD_FILE_H
#define BELFRY_BASE_PASSWORD_FILE_H

#include <stddef.h>

#include "base/err.h"

#define BELFRY_PASSWORD_MAX 1024 /* bytes, with newline and terminator */

/* Stores the first line, without its newline, in out; the caller wipes it after use. On failure it stores a sentence
 * that names the file in why (NULL: not wanted).
 * Errors: BELFRY_ERR_AUTH (unreadable, empty, or the line is too long), BELFRY_ERR_LIMIT (no descriptor is left),
 *         BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_password_file_read(const char *path, char out[BELFRY_PASSWORD_MAX], char *why,
                                                           size_t why_len);

#endif
