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
    {.name = "spec.hostNetwork", .missing = "false", .since = 28},
    {.name = "status.phase"},
    {.name = "status.podIP"},
    {.name = "status.podIPs", .is_empty = true},
    {.name = "status.nominatedNodeName"},
};
static const struct kube_builtin_field of_nodes[] = {{.name = "spec.unschedulable", .missing = "false"}};
static const struct kube_builtin_field of_namespaces[] = {{.name = "status.phase"}};
static const struct kube_builtin_field of_secrets[] = {{.name = "type"}};
static const struct kube_builtin_field of_services[] = {
    {.name = "spec.clusterIP", .since = 31},
    {.name = "spec.type", .since = 31},
};
static const struct kube_builtin_field of_controllers[] = {{.name = "status.replicas", .missing = "0"}};
static const struct kube_builtin_field of_core_events[] = {
    {.name = "involvedObject.kind"},
    {.name = "involvedObject.namespace"},
    {.name = "involvedObject.name"},
    {.name = "involvedObject.uid"},
    {.name = "involvedObject.apiVersion"},
    {.name = "involvedObject.resourceVersion"},
    {.name = "involvedObject.fieldPath"},
    {.name = "reason"},
    {.name = "reportingComponent"},
    {.name = "source", .path = ".source.component", .otherwise = ".reportingComponent"},
    {.name = "type"},
};
static const struct kube_builtin_field of_events[] = {
    {.name = "regarding.kind"},       {.name = "regarding.namespace"},
    {.name = "regarding.name"},       {.name = "regarding.uid"},
    {.name = "regarding.apiVersion"}, {.name = "regarding.resourceVersion"},
    {.name = "regarding.fieldPath"},  {.name = "reason"},
    {.name = "reportingController"},  {.name = "type"},
};
static const struct kube_builtin_field of_jobs[] = {
    {.name = "status.successful", .path = ".status.succeeded", .missing = "0"}};
static const struct kube_builtin_field of_cron_jobs[] = {{.name = "status.successful", .is_empty = true}};
static const struct kube_builtin_field of_signings[] = {{.name = "spec.signerName"}};
static const struct kube_builtin_field of_bundles[] = {{.name = "spec.signerName", .since = 27}};
static const struct kube_builtin_field of_pod_certificates[] = {
    {.name = "spec.signerName", .since = 34},
    {.name = "spec.podName", .since = 34},
    {.name = "spec.nodeName", .since = 34},
};
static const struct kube_builtin_field of_slices[] = {
    {.name = "spec.nodeName", .since = 31},
    {.name = "spec.driver", .since = 31},
    {.name = "spec.pool.name", .since = 37},
};

#define FIELDS(list) .fields = (list), .n_fields = sizeof(list) / sizeof((list)[0])
#define CERTIFICATES "certificates.k8s.io"
static const struct kube_builtin_type types[] = {
    {"", {"v1"}, "pods", FIELDS(of_pods)},
    {"", {"v1"}, "nodes", FIELDS(of_nodes), .no_namespace = true},
    {"", {"v1"}, "namespaces", FIELDS(of_namespaces), .no_namespace = true},
    {"", {"v1"}, "secrets", FIELDS(of_secrets)},
    {"", {"v1"}, "services", FIELDS(of_services)},
    {"", {"v1"}, "replicationcontrollers", FIELDS(of_controllers)},
    {"", {"v1"}, "events", FIELDS(of_core_events)},
    {"events.k8s.io", {"v1", "v1beta1"}, "events", FIELDS(of_events)},
    {"batch", {"v1"}, "jobs", FIELDS(of_jobs)},
    {"batch", {"v1beta1"}, "cronjobs", FIELDS(of_cron_jobs)},
    {CERTIFICATES, {"v1", "v1beta1"}, "certificatesigningrequests", FIELDS(of_signings), .no_namespace = true},
    {CERTIFICATES, {"v1", "v1beta1", "v1alpha1"}, "clustertrustbundles", FIELDS(of_bundles), .no_namespace = true},
    {CERTIFICATES,
     {"v1", "v1beta1", "v1alpha1"},
     "podcertificaterequests",
     FIELDS(of_pod_certificates),
     .no_namespace = true},
    {"resource.k8s.io",
     {"v1", "v1beta2", "v1beta1", "v1alpha3"},
     "resourceslices",
     FIELDS(of_slices),
     .no_namespace = true},
};

const struct kube_builtin_type *kube_builtin_types(size_t *n)
{
    *n = sizeof(types) / sizeof(types[0]);
    return types;
}

static bool has_version(const struct kube_builtin_type *type, const char *version)
{
    for (size_t i = 0; i < KUBE_BUILTIN_VERSIONS && type->versions[i] != NULL; i++) {
        if (strcmp(type->versions[i], version) == 0)
            return true;
    }
    return false;
}

const struct kube_builtin_type *kube_builtin_find(const char *group, const char *version, const char *plural)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i].plural, plural) == 0 && strcmp(types[i].group, group) == 0 &&
            has_version(&types[i], version))
            return &types[i];
    }
    return NULL;
}

bool kube_builtin_has(const struct kube_builtin_field *field, unsigned minor)
{
    return field->since <= (minor == 0 ? KUBE_BUILTIN_LEAST : minor);
}
