/* src/kapi/pod.h
 *
 * pod: what a pod finds in its environment and in the files of its service account, as client-go looks for it.
 *
 * Thread: any. Reads files and the environment ($KUBERNETES_SERVICE_HOST and _PORT).
 */
#ifndef BELFRY_KAPI_POD_H
#define BELFRY_KAPI_POD_H

#include "kapi/kubeconfig.h"

/* Is this a pod at all? */
bool belfry_pod_is_here(void);

/* Fills server, cacert_file, ns (from `dir`/namespace, if it is there) and, unless NO_USER, token_file.
 * Errors: BELFRY_ERR_INVALID: a file cannot be read; why[0, BELFRY_KUBECONFIG_WHY) names it. BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_pod_read(const char *dir, enum belfry_kubeconfig_parts parts,
                                                 struct belfry_kubeconfig *out, char *why);

#endif
