/* src/follow/repeats.c */
#include "follow/repeats.h"

#include <stdlib.h>

void repeats_clear(struct repeats *repeats)
{
    for (size_t i = 0; i < repeats->n; i++)
        belfry_blob_unref(repeats->list[i].before);
    free(repeats->list);
    free(repeats->lasts);
    *repeats = (struct repeats){0};
}

static bool are_ascending(const struct belfry_wire_event *events, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (belfry_bytes_cmp(events[i - 1].kv.key, events[i].kv.key) >= 0)
            return false;
    return true;
}

/* By key, then by place: they lie in one array. */
static int event_order(const void *a, const void *b)
{
    const struct belfry_wire_event *one = *(const struct belfry_wire_event *const *)a,
                                   *other = *(const struct belfry_wire_event *const *)b;
    int order = belfry_bytes_cmp(one->kv.key, other->kv.key);
    return order != 0 ? order : (one > other) - (one < other);
}

static int number_order(const void *a, const void *b)
{
    const size_t *one = a, *other = b;
    return (*one > *other) - (*one < *other);
}

static int place_order(const void *a, const void *b)
{
    const struct repeat *one = a, *other = b;
    return number_order(&one->at, &other->at);
}

static bool is_same_key(const struct belfry_wire_event *a, const struct belfry_wire_event *b)
{
    return belfry_bytes_equal(a->kv.key, b->kv.key);
}

static size_t count_same(const struct belfry_wire_event **sorted, size_t n)
{
    size_t same = 0;
    for (size_t i = 1; i < n; i++)
        same += is_same_key(sorted[i - 1], sorted[i]);
    return same;
}

/* The arrays have a place for each. */
static void note_same(struct repeats *repeats, const struct belfry_wire_event **sorted, size_t n,
                      const struct belfry_wire_event *events)
{
    for (size_t i = 1; i < n; i++) {
        if (!is_same_key(sorted[i - 1], sorted[i]))
            continue;
        repeats->lasts[repeats->n] = (size_t)(sorted[i - 1] - events);
        repeats->list[repeats->n] =
            (struct repeat){.at = (size_t)(sorted[i] - events), .last = repeats->lasts[repeats->n]};
        repeats->n++;
    }
    qsort(repeats->list, repeats->n, sizeof(*repeats->list), place_order);
    qsort(repeats->lasts, repeats->n, sizeof(*repeats->lasts), number_order);
}

static enum belfry_err repeats_reserve(struct repeats *repeats, size_t n)
{
    if (n == 0)
        return BELFRY_OK;
    repeats->list = malloc(n * sizeof(*repeats->list));
    repeats->lasts = malloc(n * sizeof(*repeats->lasts));
    if (repeats->list != NULL && repeats->lasts != NULL)
        return BELFRY_OK;
    repeats_clear(repeats);
    return BELFRY_ERR_NOMEM;
}

enum belfry_err repeats_find(struct repeats *repeats, const struct belfry_wire_event *events, size_t n)
{
    repeats_clear(repeats);
    if (are_ascending(events, n))
        return BELFRY_OK;
    const struct belfry_wire_event **sorted = malloc(n * sizeof(*sorted));
    if (sorted == NULL)
        return BELFRY_ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &events[i];
    qsort(sorted, n, sizeof(*sorted), event_order);
    enum belfry_err err = repeats_reserve(repeats, count_same(sorted, n));
    if (repeats->list != NULL)
        note_same(repeats, sorted, n, events);
    free(sorted);
    return err;
}

struct repeat *repeats_of(const struct repeats *repeats, size_t at)
{
    if (repeats->n == 0)
        return NULL;
    struct repeat sought = {.at = at};
    return bsearch(&sought, repeats->list, repeats->n, sizeof(*repeats->list), place_order);
}

bool repeats_changed_later(const struct repeats *repeats, size_t at)
{
    return repeats->n > 0 && bsearch(&at, repeats->lasts, repeats->n, sizeof(*repeats->lasts), number_order) != NULL;
}

enum belfry_err repeats_keep(struct repeats *repeats, struct repeat *repeat, struct belfry_bytes before)
{
    enum belfry_err err = belfry_blob_copy(before, &repeat->before);
    if (err == BELFRY_OK)
        repeats->bytes += before.len;
    return err;
}
