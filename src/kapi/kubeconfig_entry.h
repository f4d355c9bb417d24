/* src/kapi/kubeconfig_entry.h
 *
 * kubeconfig_entry: reads one named cluster or user of a kubeconfig, and rejects what is not supported.
 *
 * Thread: any. Pure but for yyjson.
 */
#ifndef BELFRY_KAPI_KUBECONFIG_ENTRY_H
#define BELFRY_KAPI_KUBECONFIG_ENTRY_H

#include "kapi/kubeconfig.h"
#include "json/member.h"

struct belfry_kubeconfig_entry {
    const char *path; /* lent: the file that contains it */
    const char *name; /* lent */
    struct belfry_kube_members members;
};

/* Each fills its part of *out, also if it fails. Errors: BELFRY_ERR_INVALID with a sentence, without the file's name,
 * in entry->members.fault; BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err belfry_kubeconfig_cluster(const struct belfry_kubeconfig_entry *entry,
                                                           struct belfry_kubeconfig *out);
BELFRY_NODISCARD enum belfry_err belfry_kubeconfig_user(const struct belfry_kubeconfig_entry *entry,
                                                        struct belfry_kubeconfig *out);

/* A text; *out NULL: missing or empty, which is the same in a kubeconfig. Errors: as above. */
BELFRY_NODISCARD enum belfry_err belfry_kubeconfig_text(const struct belfry_kube_members *members, const char *key,
                                                        char **out);

#endif
