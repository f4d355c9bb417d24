/* src/cli/out/out_table.h
 *
 * out_table: events in columns, for people. What could move the cursor or change the colours of a terminal (control
 * characters, and bytes that are not UTF-8) is written as \xNN.
 *
 *       rev        op      key                    value
 *       48120701   =       /services/api/1        {"addr":"10.0.0.4:80"}
 *       48120734   put +   /services/web/2        {"addr":"10.0.0.12:80"}                   17:40:02.118
 *
 * Thread: owner of the stream. Memory: none.
 */
#ifndef BELFRY_CLI_OUT_OUT_TABLE_H
#define BELFRY_CLI_OUT_OUT_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <belfry/belfry.h>

/* Zeroed to begin with, but for .hex. */
struct table {
    bool hex;
    bool begun;       /* the names of the columns are written */
    size_t key_width; /* widest key so far, within bounds */
};

/* Writes the bytes, safe for a terminal; returns how many columns they took. */
size_t table_bytes(FILE *out, struct belfry_bytes bytes, bool hex);

/* One event; `op` is "=", "put", "put +" or "del"; `when` (NULL: none) goes to the end of the line. */
void table_event(struct table *t, FILE *out, int64_t rev, const char *op, const struct belfry_event *event,
                 const char *when);

/* "17:40:02.118" of now, in local time. */
#define TABLE_CLOCK 16
void table_clock(char out[TABLE_CLOCK]);

#endif
