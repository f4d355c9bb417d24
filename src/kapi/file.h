/* src/kapi/file.h: reads a small file completely. Thread: any. */
#ifndef BELFRY_KAPI_FILE_H
#define BELFRY_KAPI_FILE_H

#include <stddef.h>

/* Reads the file into out[0, cap). It never blocks: a file that would block (a pipe without a writer) is an error.
 * Stores how many bytes of `out` it has written, also on failure. Returns 0 or an errno; EFBIG if the file is larger
 * than cap. */
int belfry_file_read(const char *path, char *out, size_t cap, size_t *out_len);

#endif
