/* src/cli/cmd_watch.c */
#include "cli/cmd.h"
#include "cli/live.h"

enum exit_code cmd_watch(const struct flags *flags)
{
    return live_run(flags, belfry_watch_open);
}
