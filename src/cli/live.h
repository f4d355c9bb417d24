/* src/cli/live.h
 *
 * live: a watch or a follow on the screen, until it ends, nobody reads it any more, or the user has had enough.
 *
 * Thread: owner.
 */
#ifndef BELFRY_CLI_LIVE_H
#define BELFRY_CLI_LIVE_H

#include <belfry/belfry.h>

#include "cli/flags.h"
#include "cli/out/report.h"

/* belfry_watch_open or belfry_follow_open */
typedef int (*live_open_fn)(struct belfry *b, struct belfry_range range, const struct belfry_opts *opts,
                            belfry_batch_fn fn, void *user, struct belfry_watch **out);

enum exit_code live_run(const struct flags *flags, live_open_fn open);

#endif
