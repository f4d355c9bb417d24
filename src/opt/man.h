/* src/opt/man.h
 *
 * man: the sections of man pages that a table has all facts for, in roff. tools/options-doc puts them into the pages of
 * docs/man.
 *
 * Thread: any. Failures are left in ferror(out).
 */
#ifndef BELFRY_OPT_MAN_H
#define BELFRY_OPT_MAN_H

#include <stdio.h>

#include "opt/options.h"

/* Each command with its notes, flags and examples, as a subsection. */
void belfry_opt_man_commands(FILE *out, const struct belfry_opt_table *table);

/* The flags of every command; each group is a subsection. */
void belfry_opt_man_flags(FILE *out, const struct belfry_opt_table *table);

/* The same options as keys of a file: what each takes, and its default. */
void belfry_opt_man_keys(FILE *out, const struct belfry_opt_table *table);

#endif
