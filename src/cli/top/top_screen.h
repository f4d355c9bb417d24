/* src/cli/top/top_screen.h
 *
 * top_screen: top_data as lines for people, and the help. At 80 columns nothing that matters is cut: lines leave out
 * whole fields, and the table whole columns (top_table.h).
 *
 * Of the last hour there is one line for each number: what it is now, the largest that it was, and its course.
 *
 *     deliveries        1,200/s   9,400/s  ▁▁▁▂▂▂▇█▅▁▁▁▁
 *
 * Thread: owner of the stream. Memory: the parsed hour, during the call.
 */
#ifndef BELFRY_CLI_TOP_TOP_SCREEN_H
#define BELFRY_CLI_TOP_TOP_SCREEN_H

#include <stdio.h>

#include "cli/http_get.h"
#include "cli/top/top_data.h"

struct top_view {
    const struct top_numbers *before; /* the frame before; NULL: none, and totals are shown instead of rates */
    uint64_t elapsed_ms;              /* since that frame */
    size_t columns, lines;            /* of the terminal; 0: no bound. The last line is left to the caller */
    const char *sort;                 /* the order of the table, by its word: "lag" */
    size_t first;                     /* the first row of the table that is shown */
    const struct http_page *hour;     /* the last hour, instead of the table; NULL: the table */
    const char *line_end;             /* "\n", or what a terminal needs to clear the rest of the line */
};

void top_screen_write(FILE *out, const struct top_data *data, const struct top_view *view);
void top_screen_write_help(FILE *out, const struct top_view *view);

/* How many rows of the table there is room for. */
size_t top_screen_page(const struct top_data *data, const struct top_view *view);

#endif
