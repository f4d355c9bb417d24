/* src/cli/opts.c */
#include "cli/opts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KEEPALIVE_MS_MIN 10000 /* servers end connections that ping faster; etcdctl's 2s is raised in the same way */

/* Sets the option that the flag stands for, in the library's words. */
static int set_option(struct belfry_opts **out, const struct flags *flags, const struct belfry_opt_row *row)
{
    uint64_t number = flags->number[row->id];
    char text[BELFRY_VALUE_MAX];
    if (row->kind == BELFRY_KIND_TEXT)
        return belfry_opts_set(out, row->name, flags->value[row->id]);
    if (row->id == FLAG_CONSISTENCY) /* the one flag whose option has another name */
        return belfry_opts_set(out, "serializable", number == 1 ? "true" : "false");
    if (row->id == FLAG_KEEPALIVE_TIME && number < KEEPALIVE_MS_MIN)
        number = KEEPALIVE_MS_MIN;
    if (row->kind == BELFRY_KIND_HEX)
        snprintf(text, sizeof(text), "%" PRIu64, number);
    else
        belfry_opt_write(row, number, text);
    return belfry_opts_set(out, row->name, strcmp(text, "modify") == 0 ? "mod" : text);
}

enum belfry_err opts_fill(const struct flags *flags, enum flag_taker taker, struct belfry_opts **out, char *why)
{
    for (size_t i = 0; i < flag_table.n_rows; i++) {
        const struct belfry_opt_row *row = &flag_table.rows[i];
        bool ours = row->taker == taker && belfry_opt_is_on(row, flags->command);
        if (!ours || !flags_given(flags, row->id))
            continue;
        int err = set_option(out, flags, row);
        if (err == BELFRY_ERR_INVALID)
            snprintf(why, FLAGS_WHY, "%s", belfry_opts_why(*out));
        if (err != BELFRY_OK)
            return (enum belfry_err)err;
    }
    return BELFRY_OK;
}
