/* src/cli/cmd_follow.c */
#include "cli/cmd.h"
#include "cli/live.h"

enum exit_code cmd_follow(const struct flags *flags)
{
    return live_run(flags, belfry_follow_open);
}
