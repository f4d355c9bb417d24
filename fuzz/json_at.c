/* fuzz/json_at.c: the first line as a path, what follows as the JSON that is looked into.
 *
 * What does not fit says how much it needs, and fits then.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <belfry/object.h>

#include "base/bytes.h"
#include "fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(struct belfry_bytes json, const char *path)
{
    char small[8];
    size_t len = SIZE_MAX, again = SIZE_MAX;
    int err = belfry_json_at(json, path, small, sizeof(small), &len);
    if (err == BELFRY_ERR_INVALID || err == BELFRY_ERR_NOT_FOUND) {
        check(len == SIZE_MAX);
        return;
    }
    check((err == BELFRY_OK && len < sizeof(small)) || (err == BELFRY_ERR_TOO_LARGE && len >= sizeof(small)));
    char *out = malloc(len + 1);
    check(out != NULL);
    check(belfry_json_at(json, path, out, len, &again) == BELFRY_ERR_TOO_LARGE && again == len);
    check(belfry_json_at(json, path, out, len + 1, &again) == BELFRY_OK && again == len && out[len] == '\0');
    check(err != BELFRY_OK || memcmp(out, small, len + 1) == 0);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line = size == 0 ? NULL : memchr(data, '\n', size);
    if (line == NULL)
        return 0;
    size_t len = (size_t)(line - data);
    char *path = strndup((const char *)data, len);
    check(path != NULL);
    look(belfry_bytes_of(line + 1, size - len - 1), path);
    free(path);
    return 0;
}
