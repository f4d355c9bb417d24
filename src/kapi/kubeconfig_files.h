/* src/kapi/kubeconfig_files.h
 *
 * kubeconfig_files: finds the kubeconfig files and reads their texts.
 *
 * Empty files are skipped: KUBECONFIG=/dev/null means no kubeconfig.
 *
 * Thread: any. Reads files and the environment ($KUBECONFIG, $HOME).
 * Memory: the texts, each of at most KUBE_MANIFEST_MAX; they hold secrets and are wiped.
 */
#ifndef BELFRY_KAPI_KUBECONFIG_FILES_H
#define BELFRY_KAPI_KUBECONFIG_FILES_H

#include "kapi/kubeconfig.h"

#define BELFRY_KUBECONFIG_FILES 32 /* most files that $KUBECONFIG may name */

struct belfry_kubeconfig_files {
    struct belfry_kubeconfig_file list[BELFRY_KUBECONFIG_FILES];
    size_t n;
    char *paths[BELFRY_KUBECONFIG_FILES], *texts[BELFRY_KUBECONFIG_FILES]; /* owned; the list points to them */
    size_t n_there;                                                        /* including empty files */
};

/* Reads the file at `path`; if NULL, the files of $KUBECONFIG that exist; if that is not set, ~/.kube/config if it
 * exists. n may be 0 afterwards. Call belfry_kubeconfig_files_fini() in any case.
 * Errors: BELFRY_ERR_NOT_FOUND (a named file does not exist), BELFRY_ERR_INVALID (unreadable, too large, or `path` is
 * empty); both with a sentence in why[0, BELFRY_KUBECONFIG_WHY). BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_kubeconfig_files_read(struct belfry_kubeconfig_files *files, const char *path,
                                                              char *why);
void belfry_kubeconfig_files_fini(struct belfry_kubeconfig_files *files);

#endif
