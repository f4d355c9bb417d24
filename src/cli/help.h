/* src/cli/help.h: --help, made from the tables of flags.h. Thread: owner. */
#ifndef BELFRY_CLI_HELP_H
#define BELFRY_CLI_HELP_H

#include <stdio.h>

#include "cli/flags.h"

/* The help of `command`, or of the whole program for CMD_NONE. */
void help_write(FILE *out, enum command command);

#endif
