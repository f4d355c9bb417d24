/* tests/storm/objects.c */
#include "storm/objects.h"

#include <stdlib.h>
#include <string.h>

#include "storm/verdict.h"

struct belfry_bytes objects_text(struct belfry_bytes in, const char *name)
{
    const char *at = in.len == 0 ? NULL : memmem(in.data, in.len, name, strlen(name));
    if (at == NULL)
        return belfry_bytes_of("", 0);
    at += strlen(name);
    const char *end = memchr(at, '"', in.len - (size_t)(at - (const char *)in.data));
    return belfry_bytes_of(at, end == NULL ? 0 : (size_t)(end - at));
}

int64_t objects_revision(const char *who, struct belfry_bytes in)
{
    struct belfry_bytes text = objects_text(in, "\"resourceVersion\":\"");
    if (text.len == 0)
        verdict_fail("%s: no resourceVersion in %.*s", who, (int)(in.len < 200 ? in.len : 200), in.data);
    return strtoll((const char *)text.data, NULL, 10);
}

/* It comes after the items, with or without the kind before it. */
int64_t objects_list_revision(const char *who, struct belfry_bytes list)
{
    static const char *const ends[] = {"],\"metadata\":", "],\"kind\":"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        const char *at = list.len == 0 ? NULL : memmem(list.data, list.len, ends[i], strlen(ends[i]));
        if (at != NULL)
            return objects_revision(who, belfry_bytes_of(at, list.len - (size_t)(at - list.data)));
    }
    verdict_fail("%s: a list that is not whole: %.*s", who, (int)(list.len < 200 ? list.len : 200), list.data);
}
