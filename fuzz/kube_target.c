/* fuzz/kube_target.c: any bytes as a method (up to the first blank), whether a watch is asked for (the byte behind it)
 * and a path. The parts of a target are parts of the path, in order, and none has a slash in it. */
#include <stdint.h>

#include "fuzz/check.h"
#include "kube/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns where the next part may begin. */
static const char *check_part(struct belfry_bytes path, const char *from, struct belfry_bytes part)
{
    if (part.len == 0)
        return from;
    check(part.data >= from && part.data + part.len <= path.data + path.len);
    check(memchr(part.data, '/', part.len) == NULL);
    check(part.data == path.data || part.data[-1] == '/');
    return part.data + part.len;
}

static void check_target(struct belfry_bytes path, bool watch, const struct kube_target *target)
{
    if (!target->is_resource) {
        check(target->group.len + target->version.len + target->resource.len + target->namespace.len +
                  target->name.len + target->subresource.len ==
              0);
        return;
    }
    check(target->version.len > 0 && target->resource.len > 0);
    check(target->name.len > 0 || target->subresource.len == 0);
    check(target->name.len > 0 || target->verb != KUBE_VERB_GET);
    check(target->name.len == 0 || target->verb != KUBE_VERB_LIST);
    check(!watch || target->verb != KUBE_VERB_LIST);
    const char *at = check_part(path, path.data, target->group);
    at = check_part(path, at, target->version);
    at = check_part(path, at, target->namespace);
    at = check_part(path, at, target->resource);
    at = check_part(path, at, target->name);
    check_part(path, at, target->subresource);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kube_target target;
    const uint8_t *blank = size == 0 ? NULL : memchr(data, ' ', size);
    size_t method_len = blank == NULL ? 0 : (size_t)(blank - data);
    struct belfry_bytes rest = belfry_bytes_of(data + method_len, size - method_len);
    if (rest.len < 2)
        return 0;
    bool watch = (rest.data[1] & 1) != 0;
    struct belfry_bytes path = belfry_bytes_of(rest.data + 2, rest.len - 2);
    kube_target_read(belfry_bytes_of(data, method_len), path, watch, &target);
    check_target(path, watch, &target);
    return 0;
}
