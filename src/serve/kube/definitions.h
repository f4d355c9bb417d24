/* src/serve/kube/definitions.h
 *
 * definitions: CustomResourceDefinitions, from files that are read once and from prefixes of etcd that are followed,
 * and the catalog that they make together.
 *
 * Files are configuration: one that cannot be read or makes no sense is a mistake that stops the start. What lies in
 * etcd is data: a definition that makes no sense is logged, once for what was written, and left out, and a file's wins over
 * one of the same name.
 *
 * What did not change stays the same resource from one catalog to the next, so that its watches go on: a key that was
 * not written since, or one that says the same as before (kube_resource.hash) with another status or other annotations.
 *
 * The prefixes are read piece by piece, because a thousand definitions are half a second of work; all pieces are of one
 * revision, so that what is found is what was there at one time.
 *
 * Thread: definitions_load() any; the rest the reader's, one call at a time.
 * Memory: at most KUBE_RESOURCES_MAX definitions, those of files included, and DEFINITIONS_BYTES of manifests under all
 * prefixes together; twice that while they are read anew.
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

/* Reads the files. `sources` is lent until definitions_destroy(). On failure `why` has a sentence with the file's name. Errors: BELFRY_ERR_INVALID (a file, or a
 * prefix outside of what is followed), NOMEM. */
BELFRY_NODISCARD enum belfry_err definitions_load(const struct definition_sources *sources, struct definitions **out,
                                                  char *why, size_t why_len);
void definitions_destroy(struct definitions *definitions); /* NULL is fine */

/* Reads the next piece of what the prefixes have, at a revision that is not below `floor`: the first piece says which.
 * *done: that was all, and definitions_catalog() tells of it. What is left out is logged.
 * Errors: BELFRY_ERR_AGAIN (the store is not there yet), BELFRY_ERR_COMPACTED (its past was cut meanwhile),
 * BELFRY_ERR_IO, BELFRY_ERR_NOMEM: the next call begins anew. */
BELFRY_NODISCARD enum belfry_err definitions_read(struct definitions *definitions, struct store *store, int64_t floor,
                                                  const struct belfry_log *log, bool *done);

/* The catalog of the files and of what was read last, one reference handed over. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err definitions_catalog(struct definitions *definitions, const struct belfry_log *log,
                                                     struct kube_catalog **out);

#endif
