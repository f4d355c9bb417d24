/* src/follow/stamps.h
 *
 * stamps: when the newest revisions were published here: a ring of (revision, time), one per turn in which the head
 * moved. A revision between two of them came with the later one.
 *
 * Thread: owner. Pure.
 */
#ifndef BELFRY_FOLLOW_STAMPS_H
#define BELFRY_FOLLOW_STAMPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STAMPS 1024 /* kept: at 20 us per turn the last 20 ms, mostly the last minutes */

struct stamp {
    int64_t rev;
    uint64_t ns;
};

struct stamps {
    uint64_t n; /* added so far; the newest is at (n - 1) % STAMPS */
    struct stamp ring[STAMPS];
};

static inline void stamps_clear(struct stamps *stamps)
{
    stamps->n = 0;
}

/* The head is at `rev` now. A revision that is not above the last is of another past: older stamps are discarded. */
void stamps_add(struct stamps *stamps, int64_t rev, uint64_t ns);

/* The newest `max`, oldest first; returns how many. */
size_t stamps_newest(const struct stamps *stamps, struct stamp *out, size_t max);

/* When `rev` came. False: it did not, or too long ago. */
bool stamps_when(const struct stamps *stamps, int64_t rev, uint64_t *ns);

#endif
