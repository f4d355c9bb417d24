/* src/kfollow/resource_find.h
 *
 * resource_find: kind, scope and version of a resource, from a server's discovery, and what decides by which fields it
 * can be selected. Documents go in, and the path of the next one comes out:
 *
 *     core group:             /api/v1
 *     a group, no version:    /apis/GROUP, then /apis/GROUP/VERSION of each version, the preferred one first, until one
 *                             has the resource
 *     a group and a version:  /apis/GROUP/VERSION
 *     then the server's:      /version
 *     then, if it is custom:  /apis/apiextensions.k8s.io/v1/customresourcedefinitions/PLURAL.GROUP
 *
 * A resource counts only if it can be listed and watched. The last two may be missing, or be refused: then the version
 * is not known, and the definition has no fields.
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
#define RESOURCE_FIND_PATH     (RESOURCE_GROUP_MAX + RESOURCE_LABEL_MAX + 64)
#define RESOURCE_FIND_FIELDS   8   /* selectableFields of a version, as in Kubernetes */
#define RESOURCE_FIND_FIELD    128 /* bytes of one, with a zero; a longer one is left out */

enum resource_find_state {
    RESOURCE_FIND_ASKING, /* resource_find_path() is wanted */
    RESOURCE_FIND_FOUND,
    RESOURCE_FIND_ABSENT, /* the server does not have it */
    RESOURCE_FIND_FAILED  /* the server's answer cannot be used: `why` */
};

/* By which fields can it be selected? */
struct resource_selectable {
    unsigned minor; /* the server is Kubernetes 1.31: 31; 0: not known */
    unsigned n_fields;
    char fields[RESOURCE_FIND_FIELDS][RESOURCE_FIND_FIELD]; /* jsonPath of each, as its definition has them */
};

/* What discovery says. */
struct resource_facts {
    char group_version[RESOURCE_GROUP_MAX + RESOURCE_LABEL_MAX + 2]; /* "v1", "apps/v1" */
    char version[RESOURCE_LABEL_MAX + 1];
    char singular[RESOURCE_LABEL_MAX + 1]; /* "": it has none */
    char kind[RESOURCE_LABEL_MAX + 1];
    bool is_namespaced;
    struct resource_selectable selectable;
};

/* The document that is wanted. */
enum resource_find_step {
    RESOURCE_FIND_GROUP,
    RESOURCE_FIND_RESOURCES,
    RESOURCE_FIND_SERVER,
    RESOURCE_FIND_DEFINITION
};

struct resource_find {
    struct resource_name name;
    bool is_custom; /* it has a definition */
    enum resource_find_state state;
    enum resource_find_step step; /* while ASKING */
    char versions[RESOURCE_FIND_VERSIONS][RESOURCE_LABEL_MAX + 1];
    size_t n_versions, at;
    char path[RESOURCE_FIND_PATH];
    bool is_unsure;                       /* FOUND: the server gave no answer about `selectable` */
    struct resource_facts facts;          /* FOUND */
    const char *why;                      /* FAILED: a literal */
    char nearest[RESOURCE_LABEL_MAX + 1]; /* a resource of these versions whose name is like ours; "": none is */
};

/* Begins, or begins again. */
void resource_find_init(struct resource_find *find, const struct resource_name *name, bool is_custom);

/* Begins with what another has found, and looks for its `selectable` alone. */
void resource_find_init_selectable(struct resource_find *find, const struct resource_find *found);

/* What to GET, without the base path of the server. Only while ASKING. */
static inline const char *resource_find_path(const struct resource_find *find)
{
    return find->path;
}

/* The answer to it: its HTTP status, and its body. Returns the new state. Errors are a state, too. */
enum resource_find_state resource_find_take(struct resource_find *find, int status, struct belfry_bytes body);

#endif
