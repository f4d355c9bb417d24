/* fuzz/kapi_warning.c: the value of a Warning field. Every warning takes bytes, its text ends, and is printable. */
#include <stdlib.h>
#include <string.h>

#include "kapi/warning.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1); /* exactly the bytes: a look beyond them is found */
    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    struct belfry_bytes field = belfry_bytes_of(copy, size);
    struct belfry_warning warning;
    for (size_t left = size; belfry_warning_next(&field, &warning); left = field.len) {
        if (field.len >= left || warning.code < 0 || warning.code > 999 ||
            memchr(warning.text, '\0', sizeof(warning.text)) == NULL)
            abort();
        for (const char *c = warning.text; *c != '\0'; c++)
            if ((unsigned char)*c < ' ')
                abort();
    }
    free(copy);
    return 0;
}
