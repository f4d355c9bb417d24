/* src/daemon/config_check.h: does a configuration make sense, and would it work here? Thread: owner. */
#ifndef BELFRY_DAEMON_CONFIG_CHECK_H
#define BELFRY_DAEMON_CONFIG_CHECK_H

#include "daemon/config_draft.h"

/* What keys say together; reads the definitions that resources name. Errors: BELFRY_ERR_INVALID (told),
 * BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err config_check(const struct config_draft *draft);

/* Files with passwords, tokens and keys that every user of the machine may read. They are used all the same: Kubernetes
 * mounts secrets so unless it is told otherwise. */
void config_each_open_secret(const struct config *config, void (*fn)(const char *path, void *user), void *user);

/* Prints what is allowed and probably not meant, a line each. */
void config_warn(const struct config_draft *draft, FILE *out);

/* --check-config: certificates, keys and the password are read, the cache folder and the addresses tried, as a start
 * would, but nothing is made, locked or listened on. Every fault is told; an address that is taken is a warning on
 * `out`, because a belfryd may be running while its next configuration is checked.
 * Errors: BELFRY_ERR_INVALID, BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err config_try(const struct config_draft *draft, FILE *out);

#endif
