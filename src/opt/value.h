/* src/opt/value.h
 *
 * value: times, sizes, numbers, booleans and choices as people write them, read and written back. Every program and the
 * library read them here, so that a value means the same wherever it is given.
 *
 *     time     numbers with h, m, s, ms, us or ns, which may be combined, with decimals: 1h30m, 1.5s, 500ms; or 0
 *     size     digits, alone (bytes) or with B, KiB, MiB, GiB, TiB, or K, M, G, T, which mean the same
 *     count    decimal digits
 *     boolean  1, t, true or 0, f, false; T, TRUE, True, F, FALSE and False too
 *     choice   one of "a|b|c"; one without capitals is taken in any case, one with capitals as it is written
 *     list     items with commas between them
 *
 * Nothing else is taken: no signs, no blanks, no digits of other bases. Addresses are read by net/endpoint.h.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_OPT_VALUE_H
#define BELFRY_OPT_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each returns false when `text` is not such a value, and writes *out only when it is. */
bool belfry_value_ms(const char *text, uint64_t *out); /* what is finer than 1 ms is dropped */
bool belfry_value_size(const char *text, uint64_t *out);
bool belfry_value_count(const char *text, uint64_t *out); /* UINT64_MAX: as large as that, or larger */
bool belfry_value_hex(const char *text, uint64_t *out);   /* with or without 0x; overflow as for a count */
bool belfry_value_bool(const char *text, bool *out);

/* As belfry_value_size(), and also KB, MB and GB, which are powers of 1000. */
bool belfry_value_size_decimal(const char *text, uint64_t *out);

/* *out: the place of `text` among `choices`, "a|b|c", from 0. */
bool belfry_value_choice(const char *choices, const char *text, unsigned *out);
/* The choice at `place`, lent from `choices`; "" and *len 0 when there are fewer. */
const char *belfry_value_choice_at(const char *choices, unsigned place, size_t *len);

/* The next item of a list: returns its start, stores its length and moves *list behind it and its separator, which
 * is any byte of `separators`. NULL: there are no more. An item may be empty, except behind the last separator. */
const char *belfry_value_item(const char **list, const char *separators, size_t *len);

#define BELFRY_VALUE_MAX 32
void belfry_value_write_ms(uint64_t ms, char out[BELFRY_VALUE_MAX]);      /* the largest unit that is exact: 90s */
void belfry_value_write_size(uint64_t bytes, char out[BELFRY_VALUE_MAX]); /* likewise: 256MiB */

#endif
