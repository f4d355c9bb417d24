/* src/daemon/config_listen.h: one listener of the configuration, from URL,OPTION,... or setting by setting. Thread:
 * any. */
#ifndef BELFRY_DAEMON_CONFIG_LISTEN_H
#define BELFRY_DAEMON_CONFIG_LISTEN_H

#include "daemon/config.h"

#define CONFIG_WHY        512
#define CONFIG_NAMES      64 /* names in tiers, and in users-from */
#define CONFIG_PROXY_FROM 64 /* networks in proxy-from */

/* Says what is wrong with a part of a value, and returns BELFRY_ERR_INVALID. */
__attribute__((format(printf, 2, 3))) enum belfry_err config_why(char why[CONFIG_WHY], const char *format, ...);

/* One setting: url, serve, read-only, cert, key, client-ca, crl, user, rights, tiers, users-from, proxy-from; each
 * once (`*seen` remembers). Errors: BELFRY_ERR_INVALID (a sentence in why), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err config_listen_set(struct config_listen *listen, unsigned *seen, const char *name,
                                                   const char *text, char why[CONFIG_WHY]);
/* URL[,serve=...][,read-only]... Errors: as above, `listen` then owning nothing. */
BELFRY_NODISCARD enum belfry_err config_listen_parse(const char *text, struct config_listen *listen,
                                                     char why[CONFIG_WHY]);
/* "upstream", "open", "open+writes"; NULL: not set. */
const char *config_listen_rights(const struct listen_policy *policy);
/* "grpc+json". */
void config_listen_dialects(unsigned dialects, const char *separator, char *out, size_t size);
void config_listen_fini(struct config_listen *listen);

#endif
