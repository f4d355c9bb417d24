/* src/cli/out/out_json.h
 *
 * out_json: the pieces that JSON is written from, and the lines of --output json: one an event, keys and values as text
 * where they are UTF-8, as name_b64 where they are not.
 *
 * Thread: owner of the stream. Memory: none; failures are left in ferror(out).
 */
#ifndef BELFRY_CLI_OUT_OUT_JSON_H
#define BELFRY_CLI_OUT_OUT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <belfry/belfry.h>

/* In quotes. `text` must be UTF-8. */
void json_string(FILE *out, struct belfry_bytes text);
/* In quotes: RFC 4648 section 4, padded. */
void json_base64(FILE *out, struct belfry_bytes bytes);
/* ,"name":"text" or ,"name_b64":"..." */
void json_member(FILE *out, const char *name, struct belfry_bytes bytes);

/* {"rev":48120734,"op":"put","create":true,"key":"/a","value":"1","prev":"0"} and a newline; `op` is put, del or state.
 * A delete has no value. */
void json_event_line(FILE *out, int64_t rev, const char *op, const struct belfry_event *event);

#endif
