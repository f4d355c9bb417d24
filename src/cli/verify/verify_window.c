/* src/cli/verify/verify_window.c */
#include "cli/verify/verify_window.h"

#include <assert.h>
#include <stdlib.h>

#define SLOTS_MIN 1024

static bool grow(struct verify_window *window)
{
    size_t n_slots = window->n_slots == 0 ? SLOTS_MIN : window->n_slots * 2;
    struct judge_rev **slots = calloc(n_slots, sizeof(struct judge_rev *));
    if (slots == NULL)
        return false;
    for (uint64_t p = window->first; p != window->next; p++)
        slots[p & (n_slots - 1)] = window->slots[p & (window->n_slots - 1)];
    free(window->slots);
    window->slots = slots;
    window->n_slots = n_slots;
    return true;
}

enum belfry_err verify_window_add(struct verify_window *window, struct judge_rev *rev)
{
    if (window->next - window->first == window->n_slots && !grow(window)) {
        free(rev);
        return BELFRY_ERR_NOMEM;
    }
    assert(window->next == window->first || verify_window_at(window, window->next - 1)->rev < rev->rev);
    window->slots[window->next++ & (window->n_slots - 1)] = rev;
    window->bytes += rev->bytes;
    return BELFRY_OK;
}

const struct judge_rev *verify_window_at(const struct verify_window *window, uint64_t place)
{
    bool held = place >= window->first && place < window->next;
    return held ? window->slots[place & (window->n_slots - 1)] : NULL;
}

uint64_t verify_window_find(const struct verify_window *window, int64_t rev)
{
    uint64_t low = window->first, high = window->next;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (verify_window_at(window, middle)->rev < rev)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void verify_window_drop(struct verify_window *window)
{
    if (window->first == window->next)
        return;
    struct judge_rev *oldest = window->slots[window->first++ & (window->n_slots - 1)];
    window->bytes -= oldest->bytes;
    free(oldest);
}

void verify_window_fini(struct verify_window *window)
{
    while (window->first != window->next)
        verify_window_drop(window);
    free(window->slots);
    *window = (struct verify_window){.slots = NULL};
}
