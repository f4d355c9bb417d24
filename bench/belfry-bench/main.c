/* bench/belfry-bench/main.c: `belfry-bench MODE --target ADDR:PORT ...`. Exit 0: measured; 1: an event was lost or
 * doubled, or it could not be measured; 2: asked for wrongly. */
#include <stdio.h>
#include <string.h>

#include "descriptors.h"
#include "modes.h"
#include "opt/help.h"
#include "opt/nearest.h"

int main(int argc, char *argv[])
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        belfry_opt_help(argc < 2 ? stderr : stdout, modes_table(), 0);
        return argc < 2 ? 2 : 0;
    }
    const char *nearest = NULL;
    for (unsigned i = 0; i < N_MODES; i++) {
        belfry_nearest_consider(argv[1], modes[i].name, &nearest);
        if (strcmp(argv[1], modes[i].name) != 0)
            continue;
        struct plan plan;
        enum plan_do what;
        if (plan_read(&modes[i], argc, argv, stderr, &plan, &what) != BELFRY_OK)
            return 2;
        if (what == PLAN_HELP) {
            belfry_opt_help(stdout, modes_table(), i + 1);
            return 0;
        }
        descriptors_raise();
        return modes[i].run(&plan);
    }
    if (nearest != NULL)
        fprintf(stderr, "belfry-bench: unknown mode '%.48s': did you mean %s?\n", argv[1], nearest);
    else
        fprintf(stderr, "belfry-bench: unknown mode '%.48s': 'belfry-bench --help' lists them\n", argv[1]);
    return 2;
}
