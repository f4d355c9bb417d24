/* src/kube/request_target.c: the path.
 *
 *     api   VERSION           \
 *     apis  GROUP  VERSION     >  [watch]  [namespaces NS]  RESOURCE  [NAME  [SUBRESOURCE]]
 *
 * Which of two readings "namespaces/x/y" has is decided by y alone: "status" and "finalize" belong to the object x, any
 * other is a resource in it.
 */
#include "kube/request.h"

#define PARTS_MAX 9 /* apis G V watch namespaces NS RESOURCE NAME SUBRESOURCE */

struct parts {
    struct belfry_bytes at[PARTS_MAX];
    size_t n, next; /* `next` is the first that is not yet understood */
};

static struct belfry_bytes trim_slashes(struct belfry_bytes path)
{
    while (path.len > 0 && path.data[0] == '/')
        path = belfry_bytes_of(path.data + 1, path.len - 1);
    while (path.len > 0 && path.data[path.len - 1] == '/')
        path.len--;
    return path;
}

/* False: there are more than any path of ours has, or one is empty. */
static bool split(struct belfry_bytes path, struct parts *out)
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

static bool is(struct belfry_bytes part, const char *word)
{
    return belfry_bytes_equal(part, belfry_bytes_str(word));
}

static size_t left(const struct parts *parts)
{
    return parts->n - parts->next;
}

/* The next part; empty when there is none. */
static struct belfry_bytes take(struct parts *parts)
{
    return parts->next < parts->n ? parts->at[parts->next++] : (struct belfry_bytes){0};
}

static bool take_word(struct parts *parts, const char *word)
{
    bool there = left(parts) > 0 && is(parts->at[parts->next], word);
    parts->next += there;
    return there;
}

/* False: it ends before a resource (discovery), or is no path of the API. */
static bool take_group_version(struct parts *parts, struct kube_target *target)
{
    if (take_word(parts, "apis"))
        target->group = take(parts);
    else if (!take_word(parts, "api"))
        return false;
    target->version = take(parts);
    return left(parts) > 0;
}

static void take_namespace(struct parts *parts, struct kube_target *target)
{
    if (left(parts) < 3 || !is(parts->at[parts->next], "namespaces"))
        return;
    struct belfry_bytes third = parts->at[parts->next + 2];
    if (is(third, "status") || is(third, "finalize"))
        return;
    target->namespace = parts->at[parts->next + 1];
    parts->next += 2;
}

static enum kube_verb verb_of(struct belfry_bytes method, bool has_name, bool watch)
{
    if (!is(method, "GET") && !is(method, "HEAD"))
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
    if (!split(path, &parts) || !take_group_version(&parts, &target))
        return;
    bool by_prefix = take_word(&parts, "watch");
    take_namespace(&parts, &target);
    target.resource = take(&parts);
    target.name = take(&parts);
    target.subresource = take(&parts);
    if (target.resource.len == 0 || left(&parts) > 0)
        return;
    target.verb = verb_of(method, target.name.len > 0 && !by_prefix, watch || by_prefix);
    *out = target;
}
