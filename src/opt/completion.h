/* src/opt/completion.h
 *
 * completion: what a shell needs to complete the commands and flags of a table, and those of their values that are
 * choices, files or folders. tools/options-doc writes the result into packaging/completion.
 *
 * Thread: any. Failures are left in ferror(out).
 */
#ifndef BELFRY_OPT_COMPLETION_H
#define BELFRY_OPT_COMPLETION_H

#include <stdio.h>

#include "opt/options.h"

void belfry_opt_complete_bash(FILE *out, const struct belfry_opt_table *table);
void belfry_opt_complete_fish(FILE *out, const struct belfry_opt_table *table);
void belfry_opt_complete_zsh(FILE *out, const struct belfry_opt_table *table);

#endif
