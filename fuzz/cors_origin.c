/* fuzz/cors_origin.c: any bytes as an origin. One that is fine has a scheme, no path, no blank and no upper case, and
 * is an item of a list of options: it has no comma. */
#include <stdint.h>

#include "fuzz/check.h"
#include "serve/sse/cors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct belfry_bytes text = belfry_bytes_of(data, size);
    if (cors_origin_wrong(text) != NULL)
        return 0;
    const char *scheme = memmem(data, size, "://", 3);
    check(scheme != NULL && scheme > text.data);
    for (const char *at = text.data; at < text.data + size; at++)
        check(*at > ' ' && *at < 0x7f && *at != ',' && *at != '*' && (*at < 'A' || *at > 'Z') &&
              (*at != '/' || at == scheme + 1 || at == scheme + 2));
    return 0;
}
