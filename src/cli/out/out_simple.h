/* src/cli/out/out_simple.h: the bytes of etcdctl -w simple (3.5.16). Thread: owner of the stream. Memory: none. */
#ifndef BELFRY_CLI_OUT_OUT_SIMPLE_H
#define BELFRY_CLI_OUT_OUT_SIMPLE_H

#include <stdio.h>

#include <belfry/belfry.h>

enum { SIMPLE_HEX = 1, SIMPLE_VALUE_ONLY = 2 }; /* `how`, or 0 */

/* The bytes as they are, or as \xNN. On a terminal control characters but tab and newline are \xNN, too. */
void simple_bytes(FILE *out, struct belfry_bytes bytes, unsigned how);
/* A key and its value, each on a line. */
void simple_kv(FILE *out, const struct belfry_event *kv, unsigned how);
/* PUT or DELETE, what was there before if it is known, and what is there now. */
void simple_change(FILE *out, const struct belfry_event *event, unsigned how);

#endif
