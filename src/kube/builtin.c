/* src/kube/builtin.c */
#include "kube/builtin.h"

#include <string.h>

static const char *const groups[] = {"",
                                     "admissionregistration.k8s.io",
                                     "apiextensions.k8s.io",
                                     "apiregistration.k8s.io",
                                     "apps",
                                     "autoscaling",
                                     "batch",
                                     "certificates.k8s.io",
                                     "coordination.k8s.io",
                                     "discovery.k8s.io",
                                     "events.k8s.io",
                                     "extensions",
                                     "flowcontrol.apiserver.k8s.io",
                                     "internal.apiserver.k8s.io",
                                     "networking.k8s.io",
                                     "node.k8s.io",
                                     "policy",
                                     "rbac.authorization.k8s.io",
                                     "resource.k8s.io",
                                     "scheduling.k8s.io",
                                     "storage.k8s.io",
                                     "storagemigration.k8s.io"};

bool kube_builtin_is_group(const char *group)
{
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        if (strcmp(group, groups[i]) == 0)
            return true;
    }
    return false;
}

/* ---- fields ---- */

static const struct kube_builtin_field of_pods[] = {
    {.name = "spec.nodeName"},
    {.name = "spec.host", .path = ".spec.nodeName"}, /* as clients before v1 wrote it */
    {.name = "spec.restartPolicy"},
    {.name = "spec.schedulerName"},
    {.name = "spec.serviceAccountName"},
    {.name = "status.phase"},
    {.name = "status.podIP"},
    {.name = "status.nominatedNodeName"},
};
static const struct kube_builtin_field of_nodes[] = {{.name = "spec.unschedulable", .missing = "false"}};
static const struct kube_builtin_field of_namespaces[] = {{.name = "status.phase"}};
static const struct kube_builtin_field of_secrets[] = {{.name = "type"}};
static const struct kube_builtin_field of_controllers[] = {{.name = "status.replicas", .missing = "0"}};
static const struct kube_builtin_field of_events[] = {
    {.name = "involvedObject.kind"},
    {.name = "involvedObject.namespace"},
    {.name = "involvedObject.name"},
    {.name = "involvedObject.uid"},
    {.name = "involvedObject.apiVersion"},
    {.name = "involvedObject.resourceVersion"},
    {.name = "involvedObject.fieldPath"},
    {.name = "reason"},
    {.name = "type"},
};
static const struct kube_builtin_field of_jobs[] = {
    {.name = "status.successful", .path = ".status.succeeded", .missing = "0"}};
static const struct kube_builtin_field of_signings[] = {{.name = "spec.signerName"}};

#define FIELDS(list) .fields = (list), .n = sizeof(list) / sizeof((list)[0])
static const struct type {
    const char *group, *version, *plural;
    const struct kube_builtin_field *fields;
    size_t n;
} types[] = {
    {"", "v1", "pods", FIELDS(of_pods)},
    {"", "v1", "nodes", FIELDS(of_nodes)},
    {"", "v1", "namespaces", FIELDS(of_namespaces)},
    {"", "v1", "secrets", FIELDS(of_secrets)},
    {"", "v1", "replicationcontrollers", FIELDS(of_controllers)},
    {"", "v1", "events", FIELDS(of_events)},
    {"batch", "v1", "jobs", FIELDS(of_jobs)},
    {"certificates.k8s.io", "v1", "certificatesigningrequests", FIELDS(of_signings)},
};

const struct kube_builtin_field *kube_builtin_fields(const char *group, const char *version, const char *plural,
                                                     size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        const struct type *type = &types[i];
        if (strcmp(type->group, group) != 0 || strcmp(type->version, version) != 0 || strcmp(type->plural, plural) != 0)
            continue;
        *n = type->n;
        return type->fields;
    }
    return NULL;
}
