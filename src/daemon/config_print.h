/* src/daemon/config_print.h: the values of a configuration as YAML that config_load() reads back. Thread: owner. */
#ifndef BELFRY_DAEMON_CONFIG_PRINT_H
#define BELFRY_DAEMON_CONFIG_PRINT_H

#include "daemon/config_draft.h"

/* `draft` NULL: without where each value came from. */
void config_write(const struct config *config, const struct config_draft *draft, FILE *out);

#endif
