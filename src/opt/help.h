/* src/opt/help.h: --help, made from a table. Thread: any. Failures are left in ferror(out). */
#ifndef BELFRY_OPT_HELP_H
#define BELFRY_OPT_HELP_H

#include <stdio.h>

#include "opt/options.h"

/* The help of a command, or for 0 of the whole program. */
void belfry_opt_help(FILE *out, const struct belfry_opt_table *table, unsigned command);

#endif
