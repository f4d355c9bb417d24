/* src/daemon/kube_upstream.h
 *
 * kube_upstream: the API servers that a tier stands in front of, and its own credential there, from --upstream-kube:
 *
 *     in-cluster     the service account of the pod
 *     a path         a kubeconfig: its current context
 *     URLs           with --upstream-cacert, --upstream-server-name and --upstream-token-file
 *
 * The tier's credential is a token: requests that are relayed for clients use connections without a client certificate,
 * so that none of them counts as the tier's own.
 *
 * Thread: any; fixed once read.
 */
#ifndef BELFRY_DAEMON_KUBE_UPSTREAM_H
#define BELFRY_DAEMON_KUBE_UPSTREAM_H

#include "daemon/config.h"
#include "kapi/settings.h"
#include "net/tls.h"

#define KUBE_UPSTREAM_MAX 16 /* servers */

struct kube_upstream {
    struct belfry_opts *opts[KUBE_UPSTREAM_MAX]; /* for belfry_kube_open() */
    struct belfry_endpoint endpoints[KUBE_UPSTREAM_MAX];
    unsigned n;
    struct belfry_kube_settings settings; /* of the first server: base, token, authorities */
    struct belfry_tls *tls;               /* for connections of clients' requests; NULL: plain */
};

/* Reads files. Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOT_FOUND, BELFRY_ERR_TLS (`why` has a sentence),
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err kube_upstream_read(const struct config *config, struct kube_upstream *out, char *why,
                                                    size_t why_len);
void kube_upstream_fini(struct kube_upstream *upstream); /* accepts an all-zero struct */

#endif
