/* src/daemon/config_resource.h: where resources are described, from FILE,OPTION,... or setting by setting. Thread:
 * any. */
#ifndef BELFRY_DAEMON_CONFIG_RESOURCE_H
#define BELFRY_DAEMON_CONFIG_RESOURCE_H

#include "daemon/config_listen.h"
#include "serve/kube/definitions.h"

/* One setting: crd, crds-under, prefix, wrap, key; each once. Errors: as config_listen_set(). */
BELFRY_NODISCARD enum belfry_err config_resource_set(struct definition_source *resource, const char *name,
                                                     const char *text, char why[CONFIG_WHY]);
/* Do its settings make sense together? */
BELFRY_NODISCARD enum belfry_err config_resource_check(const struct definition_source *resource, char why[CONFIG_WHY]);
BELFRY_NODISCARD enum belfry_err config_resource_parse(const char *text, struct definition_source *resource,
                                                       char why[CONFIG_WHY]);
void config_resource_fini(struct definition_source *resource);

#endif
