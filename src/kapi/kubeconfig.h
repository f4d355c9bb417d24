/* src/kapi/kubeconfig.h
 *
 * kubeconfig: server and credentials of one context in kubeconfig files.
 *
 * Several files are merged as by kubectl: the first that sets current-context decides it, and the first that has a
 * context, cluster or user of some name wins. Relative paths are relative to the file that contains them.
 *
 * Thread: any. Pure but for libyaml and yyjson (json/manifest reads the YAML).
 * Memory: the copied texts.
 */
#ifndef BELFRY_KAPI_KUBECONFIG_H
#define BELFRY_KAPI_KUBECONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/err.h"

#define BELFRY_KUBECONFIG_WHY 256

struct belfry_kubeconfig {
    /* all owned; NULL: not set. Secrets are wiped when freed. */
    char *server, *server_name; /* tls-server-name */
    char *cacert_file, *cert_file, *key_file, *token_file;
    char *cacert_pem, *cert_pem, *key_pem; /* the decoded -data members; they win over the files */
    char *token;                           /* token_file wins over it, as in client-go */
    char *ns;
    bool skip_verify;
};

struct belfry_kubeconfig_file {
    const char *path; /* for messages and relative paths */
    struct belfry_bytes text;
};

enum belfry_kubeconfig_parts {
    BELFRY_KUBECONFIG_WHOLE,
    BELFRY_KUBECONFIG_NO_USER /* the credentials come from elsewhere: skip the user's entry */
};

/* Reads `context` (NULL or "": the current one) of the files.
 * Log-in methods other than certificates and tokens (exec, auth-provider, username) are rejected; the message names the
 * user entry and an alternative. Also rejected are proxy-url, impersonation (as) and a certificate without its key:
 * ignoring them would mean another identity or another way to the server.
 * Errors: BELFRY_ERR_INVALID with why[0, BELFRY_KUBECONFIG_WHY): file, entry, member. BELFRY_ERR_NOT_FOUND: no such
 * context, cluster or user, or no current-context is set (the message names up to ten existing contexts).
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_kubeconfig_read(const struct belfry_kubeconfig_file *files, size_t n_files,
                                                        const char *context, enum belfry_kubeconfig_parts parts,
                                                        struct belfry_kubeconfig *out, char *why);
void belfry_kubeconfig_fini(struct belfry_kubeconfig *config); /* accepts an all-zero struct */

#endif
