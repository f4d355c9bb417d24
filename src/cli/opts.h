/* src/cli/opts.h: the library's options from the flags of one taker, by the table. Thread: owner. */
#ifndef BELFRY_CLI_OPTS_H
#define BELFRY_CLI_OPTS_H

#include <belfry/belfry.h>

#include "cli/flags.h"

/* Sets in *out (NULL to begin with) every option of `taker` that the user has given; the caller frees it with
 * belfry_opts_free(), on failure too.
 * Errors: BELFRY_ERR_INVALID (the sentence is in why[0, FLAGS_WHY)), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err opts_fill(const struct flags *flags, enum flag_taker taker, struct belfry_opts **out,
                                           char *why);

#endif
