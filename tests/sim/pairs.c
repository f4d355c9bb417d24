/* tests/sim/pairs.c */
#include "sim/pairs.h"

#include <stdbool.h>
#include <string.h>

uint32_t pairs_first[PAIRS];

static struct {
    uint64_t counts[COVER_END_]; /* at the last look */
    uint64_t taken[COVER_END_];  /* the last look at which the path had been taken; 0: none */
    uint64_t look;
} last;

void pairs_start(void)
{
    memset(pairs_first, 0, sizeof(pairs_first));
    memset(&last, 0, sizeof(last));
    memcpy(last.counts, cover_counts, sizeof(cover_counts));
}

static void note_taken(void)
{
    last.look++;
    for (unsigned i = 0; i < COVER_END_; i++) {
        if (cover_counts[i] != last.counts[i])
            last.taken[i] = last.look;
    }
    memcpy(last.counts, cover_counts, sizeof(cover_counts));
}

static bool is_near(unsigned path)
{
    return last.taken[path] != 0 && last.look - last.taken[path] <= PAIRS_NEAR;
}

static void mark_before(unsigned path, uint64_t step)
{
    for (unsigned i = 0; i < COVER_END_; i++) {
        uint32_t *first = &pairs_first[i * COVER_END_ + path];
        if (*first == 0 && is_near(i))
            *first = (uint32_t)step + 1;
    }
}

void pairs_look(uint64_t step)
{
    note_taken();
    for (unsigned i = 0; i < COVER_END_; i++) {
        if (last.taken[i] == last.look)
            mark_before(i, step);
    }
}
