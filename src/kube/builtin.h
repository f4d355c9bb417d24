/* src/kube/builtin.h: what is known about Kubernetes' own types beside their discovery: what items of their lists omit,
 * and by which fields they can be selected. Thread: any. Pure. */
#ifndef BELFRY_KUBE_BUILTIN_H
#define BELFRY_KUBE_BUILTIN_H

#include <stdbool.h>
#include <stddef.h>

/* Is it a group of Kubernetes' own types? Items of their lists have no kind and no apiVersion; items of lists of custom
 * resources have both. */
bool kube_builtin_is_group(const char *group);

struct kube_builtin_field {
    const char *name;    /* as in a selector */
    const char *path;    /* JSON path of its value; NULL: '.' and the name */
    const char *missing; /* its value if the object does not have it; NULL: "" */
};

/* The fields of a type, without metadata.name and metadata.namespace. Only fields that every Kubernetes from 1.20 to
 * 1.36 supports, and whose value is at one path; the others are upstream's business. NULL, *n 0: none. */
const struct kube_builtin_field *kube_builtin_fields(const char *group, const char *version, const char *plural,
                                                     size_t *n);

#endif
