/* src/kube/name.c */
#include "kube/name.h"

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_inner(char c)
{
    return is_lower(c) || (c >= '0' && c <= '9') || c == '-';
}

static bool is_part(struct belfry_bytes part)
{
    if (part.len == 0 || part.data[0] == '-' || part.data[part.len - 1] == '-')
        return false;
    for (size_t i = 0; i < part.len; i++) {
        if (!is_inner(part.data[i]))
            return false;
    }
    return true;
}

bool kube_name_is_label(struct belfry_bytes name)
{
    return name.len <= KUBE_LABEL_MAX && is_part(name);
}

bool kube_name_is_word(struct belfry_bytes name)
{
    return kube_name_is_label(name) && is_lower(name.data[0]);
}

bool kube_name_is_subdomain(struct belfry_bytes name)
{
    size_t from = 0;
    if (name.len == 0 || name.len > KUBE_SUBDOMAIN_MAX)
        return false;
    for (size_t i = 0; i <= name.len; i++) {
        if (i < name.len && name.data[i] != '.')
            continue;
        if (!is_part(belfry_bytes_of(name.data + from, i - from)))
            return false;
        from = i + 1;
    }
    return true;
}
