/* src/cli/top/top_line.h
 *
 * top_line: one line of a screen under construction, no wider than the terminal. A character counts as one column.
 * Characters that could move a terminal's cursor (control characters, bytes that are not UTF-8) become question marks.
 *
 * Thread: owner. Memory: none but its own.
 */
#ifndef BELFRY_CLI_TOP_TOP_LINE_H
#define BELFRY_CLI_TOP_TOP_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TOP_LINE 1024 /* columns at most */

struct top_line {
    char text[TOP_LINE * 4];
    size_t len, columns, max;
};

void top_line_begin(struct top_line *line, size_t columns); /* 0: no bound */

/* What does not fit is cut. */
__attribute__((format(printf, 2, 3))) void top_line_add(struct top_line *line, const char *format, ...);

/* A gap, if the line has begun, and the text: whole, or not at all. */
__attribute__((format(printf, 2, 3))) void top_line_field(struct top_line *line, const char *format, ...);

/* In exactly `width` columns, with two blanks before it if the line has begun; a longer text is cut. */
enum top_align { TOP_LEFT, TOP_RIGHT };
void top_line_cell(struct top_line *line, const char *text, size_t width, enum top_align align);

/* Writes it without blanks at its end, and `line_end`. */
void top_line_end(struct top_line *line, FILE *out, const char *line_end);

#endif
