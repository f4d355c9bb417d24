/* src/cli/kubeconfig_text.h
 *
 * kubeconfig: the file by which kubectl and the libraries of Kubernetes find a server and log in to it.
 *
 * Thread: owner. Memory: none; what it says is lent.
 */
#ifndef BELFRY_CLI_KUBECONFIG_TEXT_H
#define BELFRY_CLI_KUBECONFIG_TEXT_H

#include <stdbool.h>
#include <stdio.h>

#include <belfry/belfry.h>

struct kubeconfig {
    const char *server;                          /* http:// or https:// */
    const char *name;                            /* of cluster, user and context alike */
    const char *namespace, *token, *server_name; /* NULL: none */
    bool skip_verify;
    struct belfry_bytes authority, certificate, key; /* PEM; empty: none */
};

/* Errors: BELFRY_ERR_INVALID: clients would not take it; one line for the user is in why[0, FLAGS_WHY). */
BELFRY_NODISCARD enum belfry_err kubeconfig_check(const struct kubeconfig *config, char *why);

/* What kubectl will do with it that its user may not expect; NULL: nothing. */
const char *kubeconfig_warning(const struct kubeconfig *config);

/* As YAML. It must have passed kubeconfig_check(). Failures are left in ferror(out). */
void kubeconfig_write(FILE *out, const struct kubeconfig *config);

#endif
