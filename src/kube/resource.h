/* src/kube/resource.h
 *
 * resource: the definition of one kind of object (from a CustomResourceDefinition, or from an API server's discovery),
 * and where etcd or the copy of an API server's objects holds them.
 *
 * The key of an object is `prefix` followed by "{namespace}/{name}" or, if cluster-scoped, by "{name}". With a wrap,
 * the values are not Kubernetes objects: a template reads the key after `prefix`, and the value becomes the field that
 * `wrap_field` names ("spec") of an object that is made around it (object.h).
 *
 * A CustomResourceDefinition is of apiextensions.k8s.io/v1 or of v1beta1. People no longer write the second form, but
 * kube-apiserver stores definitions in etcd with it when it is shorter: schema, subresources, columns and selectable
 * fields that all versions share are then stored once, beside the versions. What would make us serve wrong answers is
 * checked: names, scope, versions, paths. Kubernetes' further rules for schemas are not: the schema is kept as it is.
 * If conversion uses a webhook, only the storage version is served, because belfryd cannot convert.
 *
 * A resource that an API server defines is verbatim: the values are its objects as the API server sends them, and
 * nothing in them is changed. Their names are what the API server accepts, so they are not checked.
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

#define KUBE_FIELDS_MAX   16 /* selectable fields per version */
#define KUBE_CRD_FIELDS   8  /* of them in a CustomResourceDefinition, as in Kubernetes */
#define KUBE_COLUMNS_MAX  64 /* additionalPrinterColumns */
#define KUBE_VERSIONS_MAX 16
#define KUBE_NAMES_MAX    32  /* shortNames, categories */
#define KUBE_PREFIX_MAX   512 /* bytes of a prefix, and of a template */

struct belfry_kube_path; /* a parsed JSON path: path.h */

struct kube_column {
    char *name, *type, *format, *description;
    int64_t priority;
    struct belfry_kube_path *path;
};

struct kube_field {
    char *name;                         /* as in a selector: "spec.nodeName" */
    struct belfry_kube_path *path;      /* NULL: every object has "" */
    struct belfry_kube_path *otherwise; /* of objects that have nothing or "" at `path`; NULL: none */
    const char *missing;                /* its value if the object does not have it; a constant. NULL: "" */
};

struct kube_version {
    char *name;        /* "v1" */
    char *api_version; /* "demo.example.com/v1"; "v1" in the core group */
    bool served, storage, deprecated, has_status, has_scale;
    char *deprecation_warning; /* NULL: none */
    struct kube_column *columns;
    size_t n_columns;
    struct kube_field *fields; /* in addition to metadata.name and metadata.namespace */
    size_t n_fields;
    bool no_namespace; /* metadata.namespace is none of the fields */
    char *schema;      /* openAPIV3Schema as compact JSON; NULL: none */
};

struct kube_resource {
    char *group, *plural, *singular, *kind, *list_kind; /* group "": core */
    char **short_names, **categories;
    size_t n_short_names, n_categories;
    bool namespaced;
    struct kube_version *versions; /* served ones first, in Kubernetes' order of preference */
    size_t n_versions, n_served;
    bool is_verbatim; /* the objects are an API server's */
    char *omitted;    /* verbatim: how each object begins, of which items of lists have the brace alone:
                         {"kind":"Pod","apiVersion":"v1",   NULL: items are whole */
    char *prefix;     /* of its keys; ends in '/'; verbatim: "" */
    char *wrap_key;   /* NULL: values are objects. Otherwise a template: "{namespace}/{name}" */
    char *wrap_field; /* NULL with wrap_key NULL */
    char *guard;      /* a key prefix: clients that may read all of it may see the definition */
    uint64_t hash;    /* of the manifest's spec, independent of its formatting, and the options. Status, annotations and
                         managedFields do not change it */
};

struct kube_resource_opts {
    const char *prefix;     /* NULL: "/registry/{group}/{plural}/"; {group} and {plural} are replaced */
    const char *wrap_key;   /* NULL: no wrap, unless wrap_field is set: then "{namespace}/{name}" or "{name}" */
    const char *wrap_field; /* NULL with wrap_key: "spec" */
    const char *under;      /* the prefix in etcd that holds the definition: its guard; NULL: not in etcd;
                               the guard is then the prefix of its objects */
};

/* Reads a manifest, YAML or JSON, of one CustomResourceDefinition (manifest.h lists the texts that are rejected). In
 * the prefix, "{group}/" is omitted for the core group, and a '/' is added at the end if missing. A template contains
 * {name} and, for a namespaced resource, {namespace}, once each, with literals around them. The literal between the two
 * must contain a '/', so that every key has only one reading. *why (owned by the caller, NULL if there is no memory for
 * it) names the bad field and the problem. Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_resource_read(struct belfry_bytes manifest, const struct kube_resource_opts *opts,
                                                    struct kube_resource **out, char **why);

/* A resource as an API server's discovery describes it. Everything is lent. */
struct kube_api_resource {
    const char *group, *version, *plural, *singular, *kind; /* group "": core; singular may be "" */
    bool namespaced;
    unsigned minor;            /* of the server's version: 31 for Kubernetes 1.31; 0: not known */
    const char *const *fields; /* paths by which a custom resource can be selected (".spec.color"), as its definition
                                  says; those that are no path are left out */
    size_t n_fields;           /* at most KUBE_CRD_FIELDS */
};

/* Makes a verbatim resource with this one version. The fields by which a built-in type can be selected at a server of
 * this version, and whether items of lists omit kind and apiVersion, come from builtin.h.
 * Errors: BELFRY_ERR_INVALID (a name that cannot be one), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_resource_of_api(const struct kube_api_resource *of, struct kube_resource **out);

struct kube_resource *kube_resource_ref(const struct kube_resource *resource);
void kube_resource_unref(const struct kube_resource *resource); /* NULL is fine */

/* The version of this name; NULL: unknown, or not served. */
const struct kube_version *kube_resource_served(const struct kube_resource *resource, struct belfry_bytes version);

/* Splits a key that begins with the prefix into name and namespace ("" if cluster-scoped), which point into the key.
 * False: the key is not an object's: it does not fit the template, or a part is not a valid name (RFC 1123 subdomain; a
 * label for namespaces; of a verbatim resource: anything but "" without a '/'). */
bool kube_resource_parts(const struct kube_resource *resource, struct belfry_bytes key, struct belfry_bytes *namespace,
                         struct belfry_bytes *name);

/* Appends the key of an object; if `name` is empty, the prefix of all objects in the namespace; if both are empty, the
 * prefix of all objects. Cluster-scoped resources ignore `namespace`. If the prefix cannot contain a given part (the
 * namespace in "{name}/{namespace}", or a name without namespace in "{namespace}/{name}"), *filter is set: the caller
 * must check the keys under the prefix with kube_resource_parts(). Errors: BELFRY_ERR_NOMEM. */
struct belfry_buf;
BELFRY_NODISCARD enum belfry_err kube_resource_key(const struct kube_resource *resource, struct belfry_bytes namespace,
                                                   struct belfry_bytes name, struct belfry_buf *out, bool *filter);

#endif
