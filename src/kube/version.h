/* src/kube/version.h: Kubernetes' order of API versions. Thread: any. Pure. */
#ifndef BELFRY_KUBE_VERSION_H
#define BELFRY_KUBE_VERSION_H

/* Compares like strcmp(), the preferred version first: v10, v2, v1, v1beta2, v1beta1, v1alpha1, then all others by
 * bytes. */
int kube_version_order(const char *a, const char *b);

#endif
