/* src/kube/name.h: names that Kubernetes allows (RFC 1123, RFC 1035). Thread: any. Pure. */
#ifndef BELFRY_KUBE_NAME_H
#define BELFRY_KUBE_NAME_H

#include <stdbool.h>

#include "base/bytes.h"

#define KUBE_LABEL_MAX     63
#define KUBE_SUBDOMAIN_MAX 253

/* "a-1": lower case, digits and '-' inside. */
bool kube_name_is_label(struct belfry_bytes name);
/* The same with a letter first: plurals, kinds in lower case, versions. */
bool kube_name_is_word(struct belfry_bytes name);
/* Labels (of any length) with dots between. */
bool kube_name_is_subdomain(struct belfry_bytes name);

#endif
