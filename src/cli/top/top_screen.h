/* src/cli/top/top_screen.h
 *
 * top_screen: top_data as lines for people. Characters that could move a terminal's cursor (control characters, bytes
 * that are not UTF-8) become question marks.
 *
 * Thread: owner of the stream. Memory: none.
 */
#ifndef BELFRY_CLI_TOP_TOP_SCREEN_H
#define BELFRY_CLI_TOP_TOP_SCREEN_H

#include <stdio.h>

#include "cli/top/top_data.h"

struct top_view {
    const struct top_numbers *before; /* the frame before; NULL: none, and totals are shown instead of rates */
    uint64_t elapsed_ms;              /* since that frame */
    size_t columns, lines;            /* of the terminal; 0: no bound */
    const char *right;                /* the end of the first line, e.g. keys to press; "": none */
    const char *line_end;             /* "\n", or what a terminal needs to clear the rest of the line */
};

void top_screen_write(FILE *out, const struct top_data *data, const struct top_view *view);

/* 1234567 is "1,234,567"; 90061000 ms is "1d01h". */
#define TOP_TEXT 32
void top_screen_number(uint64_t number, char out[TOP_TEXT]);
void top_screen_age(uint64_t ms, char out[TOP_TEXT]);

#endif
