/* fuzz/belfry_kube_path.c: the first line as a JSON path, what follows as the JSON that it is followed through.
 *
 * A path that is simple leads to one value at most..
 */
#include <stdint.h>
#include <string.h>

#include "fuzz/check.h"
#include "json/path.h"

#define VALUES_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t follow(const struct belfry_kube_path *path, struct belfry_bytes json, yyjson_read_flag flags)
{
    size_t n = 0;
    yyjson_doc *doc = yyjson_read(json.data, json.len, flags);
    while (doc != NULL && n < VALUES_MAX && belfry_kube_path_get(path, yyjson_doc_get_root(doc), n) != NULL)
        n++;
    if (doc != NULL)
        check(!belfry_kube_path_is_simple(path) || n <= 1);
    yyjson_doc_free(doc);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line = size == 0 ? NULL : memchr(data, '\n', size);
    size_t len = line == NULL ? size : (size_t)(line - data);
    struct belfry_kube_path *path = NULL;
    if (belfry_kube_path_read(belfry_bytes_of(data, len), &path) != BELFRY_OK) {
        check(path == NULL);
        return 0;
    }
    check(len > 0 && len <= KUBE_PATH_MAX);
    if (line != NULL) {
        struct belfry_bytes json = belfry_bytes_of(line + 1, size - len - 1);
        follow(path, json, YYJSON_READ_NUMBER_AS_RAW);
        follow(path, json, YYJSON_READ_NOFLAG);
    }
    belfry_kube_path_free(path);
    return 0;
}
