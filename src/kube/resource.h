/* src/kube/resource.h
 *
 * resource: what a CustomResourceDefinition says of one kind of object, and where in etcd its objects are.
 *
 * Objects lie under `prefix`, at "{namespace}/{name}" or, cluster-scoped, "{name}". With a wrap the values are no
 * Kubernetes objects: the rest of a key behind `prefix` is read by a template, and the value becomes the field that
 * `wrap_field` names ("spec"); the object around it is made here (object.h).
 *
 * Thread: any; immutable once made, counted.
 */
#ifndef BELFRY_KUBE_RESOURCE_H
#define BELFRY_KUBE_RESOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define KUBE_FIELDS_MAX   8  /* selectable fields a version, as in Kubernetes */
#define KUBE_COLUMNS_MAX  64 /* additionalPrinterColumns */
#define KUBE_VERSIONS_MAX 16
#define KUBE_NAMES_MAX    32  /* shortNames, categories */
#define KUBE_PREFIX_MAX   512 /* bytes of a prefix, and of a template */

struct belfry_kube_path; /* a simple JSON path, read: path.h */

struct kube_column {
    char *name, *type, *format, *description;
    int64_t priority;
    struct belfry_kube_path *path;
};

struct kube_field {
    char *name; /* as in a selector: "spec.nodeName" */
    struct belfry_kube_path *path;
};

struct kube_version {
    char *name;        /* "v1" */
    char *api_version; /* "demo.example.com/v1"; "v1" in the core group */
    bool served, storage, deprecated, has_status, has_scale;
    char *deprecation_warning; /* NULL: none */
    struct kube_column *columns;
    size_t n_columns;
    struct kube_field *fields; /* besides metadata.name and metadata.namespace */
    size_t n_fields;
    char *schema; /* openAPIV3Schema as compact JSON; NULL: none */
};

struct kube_resource {
    char *group, *plural, *singular, *kind, *list_kind; /* group "": core */
    char **short_names, **categories;
    size_t n_short_names, n_categories;
    bool namespaced;
    struct kube_version *versions; /* served ones first, in Kubernetes' order of preference */
    size_t n_versions, n_served;
    char *prefix;     /* of its keys; ends in '/' */
    char *wrap_key;   /* NULL: values are objects. Otherwise a template: "{namespace}/{name}" */
    char *wrap_field; /* NULL with wrap_key NULL */
    char *guard;      /* a prefix of keys: whoever may read all of it may see the definition */
    uint64_t hash;    /* of the manifest's spec, however it is written, and the options: equal when nothing changed that
                         counts here: not its status, annotations or managedFields */
};

struct kube_resource_opts {
    const char *prefix;     /* NULL: "/registry/{group}/{plural}/"; {group} and {plural} are replaced */
    const char *wrap_key;   /* NULL: no wrap, unless wrap_field is set: then "{namespace}/{name}" or "{name}" */
    const char *wrap_field; /* NULL with wrap_key: "spec" */
    const char *under; /* the prefix in etcd under which the definition lies: its guard; NULL: it lies in none, and is
                               guarded by the prefix of its objects */
};

/* Reads a manifest, YAML or JSON, of one CustomResourceDefinition (manifest.h, crd.h: what is read and what is
 * refused). In a prefix "{group}/" of the core group is left out, and a '/' is added where it does not end in one. A
 * template has {name} and, for a namespaced resource, {namespace}, once each, with literals around them; the literal
 * between the two has a '/', so that a key can be read in one way only. *why (owned by the caller, NULL when there
 * is no memory for it) names the field that is wrong and what is wrong with it. Errors: BELFRY_ERR_INVALID,
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_resource_read(struct belfry_bytes manifest, const struct kube_resource_opts *opts,
                                                    struct kube_resource **out, char **why);

struct kube_resource *kube_resource_ref(const struct kube_resource *resource);
void kube_resource_unref(const struct kube_resource *resource); /* NULL is fine */

/* The version of this name; NULL: there is none, or it is not served. */
const struct kube_version *kube_resource_served(const struct kube_resource *resource, struct belfry_bytes version);

/* Name and namespace ("" when cluster-scoped) of a key that begins with the prefix, lent from the key. False: it is not
 * one of its objects: it does not fit the template, or a part is no valid name (RFC 1123 subdomain; label for a
 * namespace). */
bool kube_resource_parts(const struct kube_resource *resource, struct belfry_bytes key, struct belfry_bytes *namespace,
                         struct belfry_bytes *name);

/* The key of an object, or (name empty) the prefix under which all objects of the namespace are, or (both empty)
 * everything. Appended to `out`; `namespace` does not count where the resource is cluster-scoped. A part that is given
 * but cannot be in the prefix ("{name}/{namespace}" has none for a namespace; a name alone has none with
 * "{namespace}/{name}") sets *filter: what the prefix covers must still be looked at by kube_resource_parts().
 * Errors: BELFRY_ERR_NOMEM. */
struct belfry_buf;
BELFRY_NODISCARD enum belfry_err kube_resource_key(const struct kube_resource *resource, struct belfry_bytes namespace,
                                                   struct belfry_bytes name, struct belfry_buf *out, bool *filter);

#endif
