/* src/kube/group.h: an API group as documents describe it: its resources, and the versions in which any of them is
 * served. Thread: any. Everything is lent. */
#ifndef BELFRY_KUBE_GROUP_H
#define BELFRY_KUBE_GROUP_H

#include "kube/resource.h"

struct kube_group {
    const char *name; /* "": core */
    struct kube_resource *const *resources;
    size_t n_resources;
    const char **versions; /* the preferred one first; none if there are no resources */
    size_t n_versions;
};

#endif
