/* src/kfollow/resource_find.h
 *
 * resource_find: kind, scope and version of a resource, from a server's discovery. Documents go in, and the path of the
 * next one comes out:
 *
 *     core group:             /api/v1
 *     a group, no version:    /apis/GROUP, then /apis/GROUP/VERSION of each version, the preferred one first, until one
 *                             has the resource
 *     a group and a version:  /apis/GROUP/VERSION
 *
 * A resource counts only if it can be listed and watched.
 *
 * Thread: owner. Pure.
 * Memory: none besides the struct and, during a call, the parsed document.
 */
#ifndef BELFRY_KFOLLOW_RESOURCE_FIND_H
#define BELFRY_KFOLLOW_RESOURCE_FIND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/err.h"
#include "kfollow/resource_name.h"

#define RESOURCE_FIND_VERSIONS 16                /* of a group that are looked at */
#define RESOURCE_FIND_BYTES    (8 * 1024 * 1024) /* of a document, which the caller keeps to */
#define RESOURCE_FIND_PATH     (RESOURCE_GROUP_MAX + RESOURCE_LABEL_MAX + 16)

enum resource_find_state {
    RESOURCE_FIND_ASKING, /* resource_find_path() is wanted */
    RESOURCE_FIND_FOUND,
    RESOURCE_FIND_ABSENT, /* the server does not have it */
    RESOURCE_FIND_FAILED  /* the server's answer cannot be used: `why` */
};

/* What discovery says. */
struct resource_facts {
    char group_version[RESOURCE_GROUP_MAX + RESOURCE_LABEL_MAX + 2]; /* "v1", "apps/v1" */
    char version[RESOURCE_LABEL_MAX + 1];
    char singular[RESOURCE_LABEL_MAX + 1]; /* "": it has none */
    char kind[RESOURCE_LABEL_MAX + 1];
    bool is_namespaced;
};

struct resource_find {
    struct resource_name name;
    enum resource_find_state state;
    bool has_versions; /* of the group are known, or need not be */
    char versions[RESOURCE_FIND_VERSIONS][RESOURCE_LABEL_MAX + 1];
    size_t n_versions, at;
    char path[RESOURCE_FIND_PATH];
    struct resource_facts facts;          /* FOUND */
    const char *why;                      /* FAILED: a literal */
    char nearest[RESOURCE_LABEL_MAX + 1]; /* a resource of these versions whose name is like ours; "": none is */
};

/* Begins, or begins again. */
void resource_find_init(struct resource_find *find, const struct resource_name *name);

/* What to GET, without the base path of the server. Only while ASKING. */
static inline const char *resource_find_path(const struct resource_find *find)
{
    return find->path;
}

/* The answer to it: its HTTP status, and its body. Returns the new state. Errors are a state, too. */
enum resource_find_state resource_find_take(struct resource_find *find, int status, struct belfry_bytes body);

#endif
