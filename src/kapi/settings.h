/* src/kapi/settings.h
 *
 * settings: server and credentials, combined from options, kubeconfig files and the pod's service account.
 * belfry/kube.h defines the order.
 *
 * Thread: any. Reads files and the environment ($KUBECONFIG, $HOME, $KUBERNETES_SERVICE_HOST and _PORT).
 */
#ifndef BELFRY_KAPI_SETTINGS_H
#define BELFRY_KAPI_SETTINGS_H

#include <belfry/belfry.h>

#include "kapi/kubeconfig.h"
#include "net/endpoint.h"

#define BELFRY_IN_CLUSTER_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

struct belfry_kube_settings {
    struct belfry_kubeconfig config; /* complete: server is not NULL; ns is not NULL ("default") */
    struct belfry_endpoint endpoint; /* of the server's URL */
    char *base;                      /* its path, without a slash at the end; usually ""; owned */
};

/* `dir` is BELFRY_IN_CLUSTER_DIR except in tests. A kubeconfig has at most 3 MiB; $KUBECONFIG names at most 32 files;
 * files that do not exist are skipped.
 * If options set credentials (token, token-file, cert and key), nothing is taken from the context's user or the pod's
 * service account. The option cacert overrides an insecure-skip-tls-verify of the file, and the reverse. An empty
 * option counts as unset.
 * Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOT_FOUND (no server is configured: the sentence says where it looked),
 * BELFRY_ERR_NOMEM; why[0, BELFRY_KUBECONFIG_WHY) has a sentence.
 * INVALID also means: the server is not an http(s) URL; a token would go over plain http beyond loopback; a token file
 * cannot be read; the namespace is not a valid name; options exclude each other (server and kubeconfig or context,
 * cacert and insecure-skip-tls-verify) or require each other (cert and key). */
BELFRY_NODISCARD enum belfry_err belfry_kube_settings_read(const struct belfry_opts *opts, const char *dir,
                                                           struct belfry_kube_settings *out, char *why);
void belfry_kube_settings_fini(struct belfry_kube_settings *settings); /* accepts an all-zero struct */

#endif
