/* src/follow/stamps.c */
#include "follow/stamps.h"

static const struct stamp *stamps_at(const struct stamps *stamps, uint64_t i)
{
    return &stamps->ring[i % STAMPS];
}

static uint64_t stamps_oldest(const struct stamps *stamps)
{
    return stamps->n > STAMPS ? stamps->n - STAMPS : 0;
}

void stamps_add(struct stamps *stamps, int64_t rev, uint64_t ns)
{
    if (stamps->n > 0 && rev <= stamps_at(stamps, stamps->n - 1)->rev)
        stamps_clear(stamps);
    stamps->ring[stamps->n++ % STAMPS] = (struct stamp){rev, ns};
}

size_t stamps_newest(const struct stamps *stamps, struct stamp *out, size_t max)
{
    uint64_t from = stamps_oldest(stamps);
    size_t n = 0;
    if (stamps->n - from > max)
        from = stamps->n - max;
    for (uint64_t i = from; i < stamps->n; i++)
        out[n++] = *stamps_at(stamps, i);
    return n;
}

bool stamps_when(const struct stamps *stamps, int64_t rev, uint64_t *ns)
{
    uint64_t low = stamps_oldest(stamps), high = stamps->n; /* the first that is not below rev is in [low, high] */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (stamps_at(stamps, middle)->rev < rev)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == stamps->n)
        return false;
    const struct stamp *found = stamps_at(stamps, low);
    if (low == stamps_oldest(stamps) && found->rev != rev)
        return false; /* it may have been published together with an earlier revision, which is no longer recorded */
    *ns = found->ns;
    return true;
}
