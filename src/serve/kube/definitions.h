/* src/serve/kube/definitions.h
 *
 * definitions: CustomResourceDefinitions, from files that are read once and from prefixes of etcd that are followed,
 * and the catalog that they make together.
 *
 * Files are configuration: an invalid one prevents the start. Definitions in etcd are data: an invalid one is logged,
 * once per write, and left out. A file's definition takes precedence over one of the same name in etcd.
 *
 * A definition that did not change stays the same resource from one catalog to the next, so that its watches go on:
 * its key was not written, or was written with the same content (kube_resource.hash) and only another status or
 * annotations.
 *
 * The prefixes are read in pieces, because a thousand definitions are half a second of work. All pieces are of one
 * revision, so the result is a consistent state.
 *
 * Thread: definitions_load() any; the rest the reader's, one call at a time.
 * Memory: at most KUBE_RESOURCES_MAX definitions, those of files included, and DEFINITIONS_BYTES of manifests under all
 * prefixes together; twice that while they are read again.
 */
#ifndef BELFRY_SERVE_KUBE_DEFINITIONS_H
#define BELFRY_SERVE_KUBE_DEFINITIONS_H

#include "base/log.h"
#include "core/store.h"
#include "kube/catalog.h"

#define DEFINITIONS_BYTES (64 * 1024 * 1024)

struct definitions;

/* Where definitions come from: files or a prefix, and how their objects are kept. */
struct definition_source {
    char *crd;    /* a file, or a pattern of files, each a CustomResourceDefinition */
    char *under;  /* or a prefix in etcd under which they are, followed live */
    char *prefix; /* of the objects' keys; NULL: /registry/{group}/{plural}/ */
    char *wrap;   /* the field that a value becomes; NULL: values are objects */
    char *key;    /* how such a key is read; NULL: {namespace}/{name}, or {name} */
};

struct definition_sources {
    struct definition_source *all;
    size_t n;
    const char *scope; /* the prefix that the tier follows; NULL: everything */
};

/* Reads the files. `sources` is lent until definitions_destroy(). On failure `why` has a sentence with the file's name.
 * Errors: BELFRY_ERR_INVALID (a file, or a prefix outside of the scope), NOMEM. */
BELFRY_NODISCARD enum belfry_err definitions_load(const struct definition_sources *sources, struct definitions **out,
                                                  char *why, size_t why_len);
void definitions_destroy(struct definitions *definitions); /* NULL is fine */

/* Reads the next piece of the prefixes, at a revision not below `floor`, which the first piece determines. *done: that
 * was the last one, and definitions_catalog() has the result. Definitions that are left out are logged.
 * Errors: BELFRY_ERR_AGAIN (the store is not that far yet), BELFRY_ERR_COMPACTED (its past was cut meanwhile),
 * BELFRY_ERR_IO, BELFRY_ERR_NOMEM: the next call starts over. */
BELFRY_NODISCARD enum belfry_err definitions_read(struct definitions *definitions, struct store *store, int64_t floor,
                                                  const struct belfry_log *log, bool *done);

/* The catalog of the files and of what was read last, one reference handed over. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err definitions_catalog(struct definitions *definitions, const struct belfry_log *log,
                                                     struct kube_catalog **out);

#endif
