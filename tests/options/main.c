/* tests/options/main.c: belfry-options, for tools/options-doc: what is made from the tables of options.
 *
 *     belfry-options PROGRAM FORM      PROGRAM is belfryd, belfryctl or belfry-bench
 *
 * FORM is flags (every flag, one per line), man-flags, man-commands, man-keys, bash, fish or zsh. */
#include <stdio.h>
#include <string.h>

#include "cli/flags.h"
#include "daemon/config_table.h"
#include "modes.h"
#include "opt/completion.h"
#include "opt/man.h"

static void write_flags(FILE *out, const struct belfry_opt_table *table)
{
    for (size_t i = 0; i < table->n_rows; i++)
        fprintf(out, "--%s\n", table->rows[i].name);
}

int main(int argc, char *argv[])
{
    static const struct {
        const char *name;
        void (*write)(FILE *out, const struct belfry_opt_table *table);
    } forms[] = {{"flags", write_flags},
                 {"man-flags", belfry_opt_man_flags},
                 {"man-commands", belfry_opt_man_commands},
                 {"man-keys", belfry_opt_man_keys},
                 {"bash", belfry_opt_complete_bash},
                 {"fish", belfry_opt_complete_fish},
                 {"zsh", belfry_opt_complete_zsh}};
    const struct belfry_opt_table *const tables[] = {&config_table, &flag_table, modes_table()};
    for (size_t i = 0; i < 3 && argc == 3; i++)
        for (size_t j = 0; j < sizeof(forms) / sizeof(forms[0]); j++)
            if (strcmp(tables[i]->program, argv[1]) == 0 && strcmp(forms[j].name, argv[2]) == 0) {
                forms[j].write(stdout, tables[i]);
                return ferror(stdout) != 0;
            }
    fputs("usage: belfry-options PROGRAM flags|man-flags|man-commands|man-keys|bash|fish|zsh\n", stderr);
    return 2;
}
