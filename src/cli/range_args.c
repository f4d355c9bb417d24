/* src/cli/range_args.c */
#include "cli/range_args.h"

#include <stdio.h>
#include <string.h>

static enum belfry_err wrong(char *why, const char *sentence)
{
    snprintf(why, FLAGS_WHY, "%s", sentence);
    return BELFRY_ERR_INVALID;
}

enum belfry_err range_of_flags(const struct flags *flags, struct belfry_range *out, char *why)
{
    bool prefix = flags_on(flags, FLAG_PREFIX), from = flags_on(flags, FLAG_FROM_KEY);
    if (prefix && from)
        return wrong(why, "--prefix and --from-key exclude each other: choose one");
    if ((prefix || from) && flags->n_args > 1)
        return wrong(why, "RANGE_END and --prefix or --from-key exclude each other: choose one");
    if (flags->args[0][0] == '\0' && !prefix && !from)
        return wrong(why, "the key is empty: for all keys add --prefix");
    if (flags->n_args > 1 && strcmp(flags->args[0], flags->args[1]) >= 0)
        return wrong(why, "the range is empty: RANGE_END must come after KEY");
    if (prefix)
        *out = belfry_prefix(flags->args[0]);
    else if (from)
        *out = belfry_from(flags->args[0]);
    else if (flags->n_args > 1)
        *out = belfry_interval(flags->args[0], flags->args[1]);
    else
        *out = belfry_key(flags->args[0]);
    return BELFRY_OK;
}
