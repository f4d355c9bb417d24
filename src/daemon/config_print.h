/* src/daemon/config_print.h: the values of a configuration as YAML that config_load() reads back. Thread: owner. */
#ifndef BELFRY_DAEMON_CONFIG_PRINT_H
#define BELFRY_DAEMON_CONFIG_PRINT_H

#include "base/buf.h"
#include "daemon/config_draft.h"

/* `draft` NULL: without where each value came from. */
void config_write(const struct config *config, const struct config_draft *draft, FILE *out);

/* Appends the lines of one key; two configurations have the same value if these are the same.
 * Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err config_write_key(const struct config *config, enum config_key key,
                                                  struct belfry_buf *out);

/* The value of a number or a text, or the items of allowed-hosts, for a person: cut where out[out_len] ends. */
void config_show(const struct config *config, enum config_key key, char *out, size_t out_len);

#endif
