/* src/kapi/file.h: a small file, read whole. Thread: any. */
#ifndef BELFRY_KAPI_FILE_H
#define BELFRY_KAPI_FILE_H

#include <stddef.h>

/* Reads the file into out[0, cap). It never waits: what would (a pipe that nobody has written to) cannot be read.
 * Returns 0, or an errno: EFBIG when there is more than that. */
int belfry_file_read(const char *path, char *out, size_t cap, size_t *out_len);

#endif
