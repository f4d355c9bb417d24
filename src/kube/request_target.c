/* src/kube/request_target.c: the path.
 *
 *     api   VERSION           \
 *     apis  GROUP  VERSION     >  [watch]  [namespaces NS]  RESOURCE  [NAME  [SUBRESOURCE]]
 *
 * "namespaces/x/y" has two readings, and y decides: "status" and "finalize" are subresources of the object x; any other
 * y is a resource in the namespace x.
 */
#include "kube/request.h"

#define PARTS_MAX 9 /* apis G V watch namespaces NS RESOURCE NAME SUBRESOURCE */

struct parts {
    struct belfry_bytes at[PARTS_MAX];
    size_t n, next; /* `next` is the first part not yet read */
};

static struct belfry_bytes trim_slashes(struct belfry_bytes path)
{
    while (path.len > 0 && path.data[0] == '/')
        path = belfry_bytes_of(path.data + 1, path.len - 1);
    while (path.len > 0 && path.data[path.len - 1] == '/')
        path.len--;
    return path;
}

/* False: too many parts for any valid path, or an empty one. */
static bool split_path(struct belfry_bytes path, struct parts *out)
{
    *out = (struct parts){.n = 0};
    path = trim_slashes(path);
    while (path.len > 0) {
        const char *slash = memchr(path.data, '/', path.len);
        size_t len = slash == NULL ? path.len : (size_t)(slash - path.data);
        if (len == 0 || out->n == PARTS_MAX)
            return false;
        out->at[out->n++] = belfry_bytes_of(path.data, len);
        size_t taken = slash == NULL ? len : len + 1;
        path = belfry_bytes_of(path.data + taken, path.len - taken);
    }
    return true;
}

static bool is_part(struct belfry_bytes part, const char *word)
{
    return belfry_bytes_equal(part, belfry_bytes_str(word));
}

static size_t parts_left(const struct parts *parts)
{
    return parts->n - parts->next;
}

/* The next part; empty after the last. */
static struct belfry_bytes take_part(struct parts *parts)
{
    return parts->next < parts->n ? parts->at[parts->next++] : (struct belfry_bytes){0};
}

static bool take_word(struct parts *parts, const char *word)
{
    bool there = parts_left(parts) > 0 && is_part(parts->at[parts->next], word);
    parts->next += there;
    return there;
}

/* False: the path ends before a resource (discovery), or is not an API path. */
static bool take_group_version(struct parts *parts, struct kube_target *target)
{
    if (take_word(parts, "apis"))
        target->group = take_part(parts);
    else if (!take_word(parts, "api"))
        return false;
    target->version = take_part(parts);
    return parts_left(parts) > 0;
}

static void take_namespace(struct parts *parts, struct kube_target *target)
{
    if (parts_left(parts) < 3 || !is_part(parts->at[parts->next], "namespaces"))
        return;
    struct belfry_bytes third = parts->at[parts->next + 2];
    if (is_part(third, "status") || is_part(third, "finalize"))
        return;
    target->namespace = parts->at[parts->next + 1];
    parts->next += 2;
}

static enum kube_verb verb_of(struct belfry_bytes method, bool has_name, bool watch)
{
    if (!is_part(method, "GET") && !is_part(method, "HEAD"))
        return KUBE_VERB_WRITE;
    if (has_name)
        return KUBE_VERB_GET;
    return watch ? KUBE_VERB_WATCH : KUBE_VERB_LIST;
}

void kube_target_read(struct belfry_bytes method, struct belfry_bytes path, bool watch, struct kube_target *out)
{
    struct parts parts;
    struct kube_target target = {.is_resource = true};
    *out = (struct kube_target){.verb = verb_of(method, true, false)};
    if (!split_path(path, &parts) || !take_group_version(&parts, &target))
        return;
    target.by_prefix = take_word(&parts, "watch");
    take_namespace(&parts, &target);
    target.resource = take_part(&parts);
    target.name = take_part(&parts);
    target.subresource = take_part(&parts);
    if (target.resource.len == 0 || parts_left(&parts) > 0)
        return;
    target.verb = verb_of(method, target.name.len > 0 && !target.by_prefix, watch || target.by_prefix);
    *out = target;
}
