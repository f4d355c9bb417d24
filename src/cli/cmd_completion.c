/* src/cli/cmd_completion.c: what the three shells need to complete belfryctl, from its one table of options. */
#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/out/out.h"
#include "opt/completion.h"

enum exit_code cmd_completion(const struct flags *flags)
{
    static const struct {
        const char *shell;
        void (*write)(FILE *out, const struct belfry_opt_table *table);
    } shells[] = {
        {"bash", belfry_opt_complete_bash}, {"zsh", belfry_opt_complete_zsh}, {"fish", belfry_opt_complete_fish}};
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
        if (strcmp(shells[i].shell, flags->args[0]) == 0) {
            shells[i].write(stdout, &flag_table);
            return out_flush() == OUT_BROKEN ? EXIT_FAILED : EXIT_DONE;
        }
    return report_usage("completion: write bash, zsh or fish");
}
