/* src/serve/json/json_int.h
 *
 * json_int: whole numbers in any form that JSON has for them: 12, 1.2e1, 120e-1.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SERVE_JSON_JSON_INT_H
#define BELFRY_SERVE_JSON_JSON_INT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* Reads a number of JSON's at the beginning of `text`. As Go's decoder does with numbers in strings, it looks no
 * further than where the number clearly ends; but a space at the end of `text` is an error. False: it is none, or not a
 * whole one, or its amount needs more than 64 bits. */
bool json_int_read(struct belfry_bytes text, bool *out_negative, uint64_t *out_amount);

#endif
