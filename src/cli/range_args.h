/* src/cli/range_args.h: the range that KEY, RANGE_END, --prefix and --from-key mean. Thread: owner. */
#ifndef BELFRY_CLI_RANGE_ARGS_H
#define BELFRY_CLI_RANGE_ARGS_H

#include <belfry/belfry.h>

#include "cli/flags.h"

/* Errors: BELFRY_ERR_INVALID (they contradict each other; the sentence is in why[0, FLAGS_WHY)). */
BELFRY_NODISCARD enum belfry_err range_of_flags(const struct flags *flags, struct belfry_range *out, char *why);

#endif
