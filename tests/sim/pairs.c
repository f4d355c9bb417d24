/* tests/sim/pairs.c */
#include "sim/pairs.h"

#include <assert.h>
#include <string.h>

static_assert(COVER_END_ <= 64, "a set of paths is one word");

uint32_t pairs_first[PAIRS];

static struct {
    uint64_t counts[COVER_END_]; /* at the last look */
    uint64_t near[PAIRS_NEAR];   /* the sets of the last looks, in a ring */
    unsigned at;
} last;

void pairs_start(void)
{
    memset(pairs_first, 0, sizeof(pairs_first));
    memset(&last, 0, sizeof(last));
    memcpy(last.counts, cover_counts, sizeof(cover_counts));
}

static uint64_t taken_since(void)
{
    uint64_t taken = 0;
    for (unsigned i = 0; i < COVER_END_; i++)
        taken |= (uint64_t)(cover_counts[i] != last.counts[i]) << i;
    memcpy(last.counts, cover_counts, sizeof(cover_counts));
    return taken;
}

static void mark(uint64_t before, uint64_t now, uint64_t step)
{
    for (uint64_t rest_a = before; rest_a != 0; rest_a &= rest_a - 1)
        for (uint64_t rest_b = now; rest_b != 0; rest_b &= rest_b - 1) {
            uint32_t *first = &pairs_first[__builtin_ctzll(rest_a) * COVER_END_ + __builtin_ctzll(rest_b)];
            if (*first == 0)
                *first = (uint32_t)step + 1;
        }
}

void pairs_look(uint64_t step)
{
    uint64_t now = taken_since(), before = now;
    for (unsigned i = 0; i < PAIRS_NEAR; i++)
        before |= last.near[i];
    mark(before, now, step);
    last.near[last.at++ % PAIRS_NEAR] = now;
}
