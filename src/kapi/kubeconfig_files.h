/* src/kapi/kubeconfig_files.h
 *
 * kubeconfig_files: which kubeconfig files there are, and their texts.
 *
 * Files without a byte of text are passed over: KUBECONFIG=/dev/null is how to have none.
 *
 * Thread: any. Reads files and the environment ($KUBECONFIG, $HOME).
 * Memory: the texts, each of at most KUBE_MANIFEST_MAX; they hold secrets and are wiped.
 */
#ifndef BELFRY_KAPI_KUBECONFIG_FILES_H
#define BELFRY_KAPI_KUBECONFIG_FILES_H

#include "kapi/kubeconfig.h"

#define BELFRY_KUBECONFIG_FILES 32 /* that $KUBECONFIG may name */

struct belfry_kubeconfig_files {
    struct belfry_kubeconfig_file list[BELFRY_KUBECONFIG_FILES];
    size_t n;
    char *paths[BELFRY_KUBECONFIG_FILES], *texts[BELFRY_KUBECONFIG_FILES]; /* owned; what the list lends */
    size_t n_there;                                                        /* the empty ones included */
};

/* The file at `path`; NULL: those of $KUBECONFIG that are there; that is not set: ~/.kube/config if it is there. n may be
 * 0 after it. belfry_kubeconfig_files_fini() in any case.
 * Errors: BELFRY_ERR_NOT_FOUND (what was named is not there), BELFRY_ERR_INVALID (it cannot be read, is too large, or
 * `path` is empty); both with a sentence in why[0, BELFRY_KUBECONFIG_WHY). BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_kubeconfig_files_read(struct belfry_kubeconfig_files *files, const char *path,
                                                              char *why);
void belfry_kubeconfig_files_fini(struct belfry_kubeconfig_files *files);

#endif
