/* src/kfollow/resource_name.h
 *
 * resource_name: a resource as people write it: PLURAL[.VERSION].GROUP, or PLURAL of the core group.
 *
 *     pods                                  any version of the core group
 *     endpointslices.discovery.k8s.io       the version that the server prefers
 *     endpointslices.v1.discovery.k8s.io    this version
 *
 * As in kubectl, the second part is a version if it looks like one (v1, v2beta3) and a group follows it.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KFOLLOW_RESOURCE_NAME_H
#define BELFRY_KFOLLOW_RESOURCE_NAME_H

#include <stdbool.h>

#define RESOURCE_LABEL_MAX 63
#define RESOURCE_GROUP_MAX 253
#define RESOURCE_NAME_MAX  (RESOURCE_LABEL_MAX + 1 + RESOURCE_GROUP_MAX)

struct resource_name {
    char plural[RESOURCE_LABEL_MAX + 1];
    char version[RESOURCE_LABEL_MAX + 1]; /* "": the one that the server prefers */
    char group[RESOURCE_GROUP_MAX + 1];   /* "": core */
};

/* False: it is none. */
bool resource_name_read(const char *text, struct resource_name *out);

/* PLURAL or PLURAL.GROUP: how it is called in logs and numbers, and what its folder is called. */
void resource_name_write(const struct resource_name *name, char out[RESOURCE_NAME_MAX + 1]);

/* The same plural and group: two of them cannot be followed at once. */
bool resource_name_same(const struct resource_name *a, const struct resource_name *b);

#endif
