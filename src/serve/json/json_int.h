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

/* Reads `text`, which is one number of JSON's and nothing else. False: it is none, or not a whole one, or its amount
 * needs more than 64 bits. */
bool json_int_read(struct belfry_bytes text, bool *out_negative, uint64_t *out_amount);

#endif
