/* src/kapi/settings.h
 *
 * settings: where the API server is and who we are, put together from options, kubeconfig files and the pod we may be
 * in. belfry/kube.h says in which order.
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
    char *base;                      /* its path, without a slash at the end; "" is usual; owned */
};

/* `dir` is BELFRY_IN_CLUSTER_DIR but in tests. A kubeconfig is at most 3 MiB; $KUBECONFIG names at most 32 of them, of
 * which those that are not there are passed over.
 * Credentials by option (token, token-file, cert and key) are who we are: of the context's user, or of the pod's service
 * account, nothing is then taken. A cacert by option ends an insecure-skip-tls-verify of the file, and the other way
 * round. An option that is empty is none.
 * Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOT_FOUND (nothing names a server: the sentence says where was looked),
 * BELFRY_ERR_NOMEM; a sentence is in why[0, BELFRY_KUBECONFIG_WHY).
 * INVALID also: a server that is no http(s) URL; a token that would go over plain http to anything but loopback; a token
 * file that cannot be read; a namespace that is no name; options that exclude each other (server and kubeconfig or
 * context, cacert and insecure-skip-tls-verify) or miss each other (cert and key). */
BELFRY_NODISCARD enum belfry_err belfry_kube_settings_read(const struct belfry_opts *opts, const char *dir,
                                                           struct belfry_kube_settings *out, char *why);
void belfry_kube_settings_fini(struct belfry_kube_settings *settings); /* of zeroes too */

#endif
