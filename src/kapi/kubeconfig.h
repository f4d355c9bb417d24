/* src/kapi/kubeconfig.h
 *
 * kubeconfig: what a kubeconfig says of one context: where the server is and who we are.
 *
 * Several files are one, as kubectl reads them: the first that sets current-context decides it, the first that has a
 * context, cluster or user of a name is the one that counts. Relative paths are relative to the file they stand in.
 *
 * Thread: any. Pure but for libyaml and yyjson (json/manifest reads the YAML).
 * Memory: the texts that are kept.
 */
#ifndef BELFRY_KAPI_KUBECONFIG_H
#define BELFRY_KAPI_KUBECONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/err.h"

#define BELFRY_KUBECONFIG_WHY 256

struct belfry_kubeconfig {
    /* each owned; NULL: not said. Secrets are wiped when freed. */
    char *server, *server_name; /* tls-server-name */
    char *cacert_file, *cert_file, *key_file, *token_file;
    char *cacert_pem, *cert_pem, *key_pem; /* of the -data members, decoded; they win over the files */
    char *token;                           /* wins over nothing: token_file wins over it, as in client-go */
    char *ns;
    bool skip_verify;
};

struct belfry_kubeconfig_file {
    const char *path; /* for sentences and relative paths */
    struct belfry_bytes text;
};

enum belfry_kubeconfig_parts {
    BELFRY_KUBECONFIG_WHOLE,
    BELFRY_KUBECONFIG_NO_USER /* who we are was said elsewhere: the user's entry is not looked at */
};

/* Reads `context` (NULL or "": the current one) of the files.
 * What would log in otherwise than by certificate or token (exec, auth-provider, username) is refused by a sentence that
 * names the user entry and says what to do instead; so are proxy-url, impersonation (as) and a certificate without its
 * key, because leaving them out silently would be another identity or another way to the server.
 * Errors: BELFRY_ERR_INVALID with why[0, BELFRY_KUBECONFIG_WHY): file, entry, member. BELFRY_ERR_NOT_FOUND: there is no
 * such context, cluster or user, or no current-context is set (the sentence names the contexts there are, up to ten).
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_kubeconfig_read(const struct belfry_kubeconfig_file *files, size_t n_files,
                                                        const char *context, enum belfry_kubeconfig_parts parts,
                                                        struct belfry_kubeconfig *out, char *why);
void belfry_kubeconfig_fini(struct belfry_kubeconfig *config); /* of zeroes too */

#endif
