/* src/cli/top/top_table.h
 *
 * top_table: the table of top: watchers, groups of them, or clients. Which columns it has follows from the width of the
 * terminal; the one that it is sorted by is always there, with a * behind its name.
 *
 * Thread: owner of the stream. Memory: none.
 */
#ifndef BELFRY_CLI_TOP_TOP_TABLE_H
#define BELFRY_CLI_TOP_TOP_TABLE_H

#include <stdio.h>

#include "cli/top/top_data.h"

struct top_table_view {
    size_t columns;     /* of the terminal; 0: no bound. Then the widest column is the last, and nothing is cut */
    const char *sort;   /* the word for the order, as in "lag"; "": none is marked */
    size_t first, most; /* rows: from this one on, so many */
    const char *line_end;
};

size_t top_table_rows(const struct top_data *data); /* all of them */

/* The names of the columns, and rows. */
void top_table_write(FILE *out, const struct top_data *data, const struct top_table_view *view);

#endif
