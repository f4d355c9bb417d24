/* src/kube/builtin.h
 *
 * builtin: what is known about Kubernetes' own types beside their discovery: what items of their lists omit, and by
 * which fields they can be selected.
 *
 * Every type can be selected by metadata.name, and by metadata.namespace unless its row says no_namespace; a type
 * without a row by these two alone. A row's fields are those of every Kubernetes from 1.20 on, and those that came
 * later, each with the version that brought it: to an API server that is older they mean nothing, and it refuses them
 * (docs/spec/kubernetes-watch.md 8.2.1). `tools/selectable-fields` compares the table with a real API server.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_KUBE_BUILTIN_H
#define BELFRY_KUBE_BUILTIN_H

#include <stdbool.h>
#include <stddef.h>

#define KUBE_BUILTIN_VERSIONS 4  /* of an API that have the same fields */
#define KUBE_BUILTIN_LEAST    20 /* the oldest Kubernetes, 1.20: what an API server has whose version is not known */

/* Is it a group of Kubernetes' own types? Items of their lists have no kind and no apiVersion; items of lists of custom
 * resources have both. */
bool kube_builtin_is_group(const char *group);

/* Its value is the text at `path`: that of a number in decimal, of a boolean "true" or "false", of what the object does
 * not have `missing`. */
struct kube_builtin_field {
    const char *name;      /* as in a selector */
    const char *path;      /* JSON path of its value; NULL: '.' and the name */
    const char *otherwise; /* another path, for objects that have nothing or "" at the first; NULL: none */
    const char *missing;   /* NULL: "" */
    unsigned since;        /* 31: Kubernetes 1.31 was the first that has it; 0: all have it */
    bool is_empty;         /* API servers accept the name and know no value: it is "" for every object */
};

struct kube_builtin_type {
    const char *group, *versions[KUBE_BUILTIN_VERSIONS], *plural;
    const struct kube_builtin_field *fields; /* without metadata.name and metadata.namespace */
    size_t n_fields;
    bool no_namespace; /* API servers refuse metadata.namespace */
};

/* The whole table. */
const struct kube_builtin_type *kube_builtin_types(size_t *n);

/* NULL: a type that has no row. */
const struct kube_builtin_type *kube_builtin_find(const char *group, const char *version, const char *plural);

/* Does Kubernetes 1.`minor` have the field? 0: the version is not known. */
bool kube_builtin_has(const struct kube_builtin_field *field, unsigned minor);

#endif
