/* tests/storm/choices.h
 *
 * choices: everything that a run decides, drawn from a seed or read from the input of a fuzzer. A run makes the same
 * choices from the same seed or bytes.
 *
 * Bytes that are used up go on as zeroes: the run then ends (choices_are_over()). What was drawn from a seed can be
 * recorded, as bytes that give the same choices: inputs to begin with, for a fuzzer.
 *
 * Thread: owner. Plain data; the bytes and the record are lent.
 */
#ifndef BELFRY_STORM_CHOICES_H
#define BELFRY_STORM_CHOICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rng.h"

struct choices {
    struct belfry_rng rng;
    const uint8_t *bytes; /* NULL: from the seed */
    size_t len, at;
    struct belfry_buf *record; /* NULL: none */
};

static inline struct choices choices_of_seed(uint64_t seed)
{
    return (struct choices){.rng = {seed * 0x9e3779b97f4a7c15u + 1}};
}

static inline struct choices choices_of_bytes(const uint8_t *bytes, size_t len)
{
    static const uint8_t none;
    return (struct choices){.bytes = len == 0 ? &none : bytes, .len = len};
}

static inline bool choices_are_over(const struct choices *choices)
{
    return choices->bytes != NULL && choices->at >= choices->len;
}

/* Without memory the record ends early, which does no harm. */
static inline void choices_record(struct choices *choices, uint8_t byte)
{
    if (choices->record != NULL)
        belfry_ignore(belfry_buf_append(choices->record, &byte, 1));
}

static inline uint8_t choices_byte(struct choices *choices)
{
    if (choices->bytes != NULL)
        return choices->at < choices->len ? choices->bytes[choices->at++] : 0;
    uint8_t byte = (uint8_t)belfry_rng_next(&choices->rng);
    choices_record(choices, byte);
    return byte;
}

static inline unsigned choices_width(uint32_t n)
{
    unsigned width = 0;
    for (uint32_t left = n - 1; left > 0; left >>= 8)
        width++;
    return width;
}

/* A number in [0, n); n is at least 1. It takes no more bytes than n needs. */
static inline uint32_t choose(struct choices *choices, uint32_t n)
{
    uint32_t value = 0;
    unsigned width = choices_width(n);
    if (choices->bytes != NULL) {
        for (; width > 0; width--)
            value = value << 8 | choices_byte(choices);
        return value % n;
    }
    value = (uint32_t)belfry_rng_below(&choices->rng, n);
    for (; width > 0; width--)
        choices_record(choices, (uint8_t)(value >> (8 * (width - 1))));
    return value;
}

/* Once in n times. Zeroes say no, so that a short input is a calm run. */
static inline bool choose_rarely(struct choices *choices, uint32_t n)
{
    return choose(choices, n) == n - 1;
}

#endif
