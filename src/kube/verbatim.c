/* src/kube/verbatim.c */
#include "kube/verbatim.h"

#include "json/shallow.h"

static bool find_member(struct belfry_bytes object, const char *name, struct belfry_bytes *value)
{
    struct belfry_shallow_member member;
    if (!belfry_shallow_is_object(object))
        return false;
    struct belfry_shallow walk = belfry_shallow_walk(object);
    while (belfry_shallow_next(&walk, &member)) {
        if (belfry_bytes_equal(member.name, belfry_bytes_str(name))) {
            *value = member.value;
            return true;
        }
    }
    return false;
}

bool kube_verbatim_read(struct belfry_bytes object, struct kube_verbatim *out)
{
    struct belfry_bytes version;
    if (!find_member(object, "metadata", &out->metadata) || !find_member(out->metadata, "resourceVersion", &version))
        return false;
    if (version.len < 2 || !belfry_shallow_is_string(version))
        return false;
    out->version = belfry_shallow_text(version);
    return true;
}
