/* src/cli/opts.h: the library's options from the flags of one taker, by the table. Thread: owner. */
#ifndef BELFRY_CLI_OPTS_H
#define BELFRY_CLI_OPTS_H

#include <belfry/belfry.h>

#include "cli/flags.h"

#define OPTS_VALUE 64

/* What the library is told for `text`, which the parser has accepted: a time in ms, a lease in decimal, a choice in the
 * library's own word. Returns `text` itself where nothing changes, else `room`. */
const char *opts_value(const struct flag_row *row, const char *text, char room[OPTS_VALUE]);

/* Sets in *out (NULL to begin with) every option of `taker` that the user has given; the caller frees it with
 * belfry_opts_free(), on failure too.
 * Errors: BELFRY_ERR_INVALID (the sentence is in why[0, FLAGS_WHY)), BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err opts_fill(const struct flags *flags, enum flag_taker taker, struct belfry_opts **out,
                                           char *why);

#endif
