/* src/cli/out/keyset.c: open addressing; a removal closes the gap, so that no slot is ever "deleted". */
#include "cli/out/keyset.h"

#include <stdlib.h>

#define SLOTS_MIN 1024

static uint64_t hash_of(struct belfry_bytes key)
{
    uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a, and a last mixing for the low bits that pick the slot */
    for (size_t i = 0; i < key.len; i++)
        h = (h ^ (unsigned char)key.data[i]) * UINT64_C(1099511628211);
    h ^= h >> 32;
    h *= UINT64_C(0xD6E8FEB86659FD93);
    h ^= h >> 32;
    return h != 0 ? h : 1;
}

/* Where `hash` is, or the free slot where it would go. */
static size_t find(const struct keyset *set, uint64_t hash)
{
    size_t at = hash & (set->n_slots - 1);
    while (set->slots[at] != 0 && set->slots[at] != hash)
        at = (at + 1) & (set->n_slots - 1);
    return at;
}

static bool grow(struct keyset *set)
{
    struct keyset larger = {.n_slots = set->n_slots == 0 ? SLOTS_MIN : set->n_slots * 2, .n = set->n};
    larger.slots = calloc(larger.n_slots, sizeof(*larger.slots));
    if (larger.slots == NULL)
        return false;
    for (size_t i = 0; i < set->n_slots; i++)
        if (set->slots[i] != 0)
            larger.slots[find(&larger, set->slots[i])] = set->slots[i];
    free(set->slots);
    *set = larger;
    return true;
}

void keyset_add(struct keyset *set, struct belfry_bytes key)
{
    if (set->unknown)
        return;
    if (set->n >= set->n_slots / 4 * 3 && !grow(set)) {
        keyset_fini(set);
        set->unknown = true;
        return;
    }
    uint64_t hash = hash_of(key);
    size_t at = find(set, hash);
    set->n += set->slots[at] == 0;
    set->slots[at] = hash;
}

void keyset_remove(struct keyset *set, struct belfry_bytes key)
{
    if (set->unknown || set->n == 0)
        return;
    size_t mask = set->n_slots - 1, gap = find(set, hash_of(key));
    if (set->slots[gap] == 0)
        return;
    set->n--;
    /* Whatever stands further on and would no longer be found across the gap moves into it. */
    for (size_t at = (gap + 1) & mask; set->slots[at] != 0; at = (at + 1) & mask) {
        size_t home = set->slots[at] & mask;
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            set->slots[gap] = set->slots[at];
            gap = at;
        }
    }
    set->slots[gap] = 0;
}

int64_t keyset_count(const struct keyset *set)
{
    return set->unknown ? -1 : (int64_t)set->n;
}

void keyset_fini(struct keyset *set)
{
    free(set->slots);
    *set = (struct keyset){.slots = NULL};
}
