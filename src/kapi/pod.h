/* src/kapi/pod.h
 *
 * pod: reads a pod's environment and the files of its service account, in the way client-go does.
 *
 * Thread: any. Reads files and the environment ($KUBERNETES_SERVICE_HOST and _PORT).
 */
#ifndef BELFRY_KAPI_POD_H
#define BELFRY_KAPI_POD_H

#include "kapi/kubeconfig.h"

/* Whether the process runs in a pod. */
bool belfry_pod_is_here(void);

/* Fills server, cacert_file, ns (from `dir`/namespace, if it exists) and, unless NO_USER, token_file.
 * Errors: BELFRY_ERR_INVALID (why[0, BELFRY_KUBECONFIG_WHY) names the unreadable file), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_pod_read(const char *dir, enum belfry_kubeconfig_parts parts,
                                                 struct belfry_kubeconfig *out, char *why);

#endif
