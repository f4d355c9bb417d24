/* fuzz/steps.h: an input as a list of steps. The first byte of a step says what happens: a piece of up to 63 or 16,128
 * bytes arrives, which are the bytes behind it, time passes, or something is done. */
#ifndef BELFRY_FUZZ_STEPS_H
#define BELFRY_FUZZ_STEPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

enum step_kind { STEP_PIECE, STEP_TIME, STEP_ACT };

struct step {
    enum step_kind kind;
    size_t n;    /* STEP_PIECE: its length; otherwise six bits that say how long, or what */
    char *piece; /* STEP_PIECE: a copy of its own, so that a byte read past its end is found; for free() */
};

/* Takes the next step from `in`; false: there is none. */
static inline bool step_next(struct belfry_bytes *in, struct step *out)
{
    if (in->len == 0)
        return false;
    uint8_t head = (uint8_t)in->data[0];
    *in = belfry_bytes_of(in->data + 1, in->len - 1);
    *out = (struct step){.kind = head >> 6 == 2 ? STEP_TIME : STEP_ACT, .n = head & 0x3f};
    if (head >> 6 > 1)
        return true;
    size_t n = head >> 6 == 1 ? out->n << 8 : out->n;
    *out = (struct step){.kind = STEP_PIECE, .n = n < in->len ? n : in->len};
    if ((out->piece = malloc(out->n + 1)) == NULL)
        abort();
    if (out->n > 0)
        memcpy(out->piece, in->data, out->n);
    *in = belfry_bytes_of(in->data + out->n, in->len - out->n);
    return true;
}

#endif
