/* src/follow/shelf.c */
#include "follow/shelf.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct place {
    struct segment *segment; /* NULL: free */
    uint64_t used;           /* the shelf's lookup counter at the last use */
};

struct shelf {
    size_t bytes_max; /* fixed at creation */
    /* under mu */
    pthread_mutex_t mu;
    uint64_t past, looks;
    size_t bytes;
    struct place places[SHELF_SEGMENTS];
};

enum belfry_err shelf_create(size_t bytes_max, struct shelf **out)
{
    struct shelf *shelf = calloc(1, sizeof(*shelf));
    if (shelf == NULL)
        return BELFRY_ERR_NOMEM;
    shelf->bytes_max = bytes_max;
    pthread_mutex_init(&shelf->mu, NULL);
    *out = shelf;
    return BELFRY_OK;
}

static void shelf_clear(struct shelf *shelf, struct place *place)
{
    shelf->bytes -= place->segment->bytes;
    segment_unref(place->segment);
    place->segment = NULL;
}

static void shelf_clear_all(struct shelf *shelf)
{
    for (size_t i = 0; i < SHELF_SEGMENTS; i++) {
        if (shelf->places[i].segment != NULL)
            shelf_clear(shelf, &shelf->places[i]);
    }
}

void shelf_destroy(struct shelf *shelf)
{
    if (shelf == NULL)
        return;
    shelf_clear_all(shelf);
    pthread_mutex_destroy(&shelf->mu);
    free(shelf);
}

static struct place *shelf_least_used(struct shelf *shelf)
{
    struct place *least = NULL;
    for (size_t i = 0; i < SHELF_SEGMENTS; i++) {
        struct place *place = &shelf->places[i];
        if (place->segment != NULL && (least == NULL || place->used < least->used))
            least = place;
    }
    return least;
}

static bool shelf_has(const struct shelf *shelf, const struct segment *segment)
{
    for (size_t i = 0; i < SHELF_SEGMENTS; i++) {
        const struct segment *there = shelf->places[i].segment;
        if (there != NULL && there->from <= segment->from && there->upto >= segment->upto)
            return true;
    }
    return false;
}

static void shelf_place(struct shelf *shelf, const struct segment *segment)
{
    struct place *place, *end = shelf->places + SHELF_SEGMENTS;
    while (shelf->bytes + segment->bytes > shelf->bytes_max && (place = shelf_least_used(shelf)) != NULL)
        shelf_clear(shelf, place);
    for (place = shelf->places; place < end && place->segment != NULL; place++)
        ;
    if (place == end) {
        place = shelf_least_used(shelf);
        shelf_clear(shelf, place);
    }
    *place = (struct place){.segment = segment_ref(segment), .used = ++shelf->looks};
    shelf->bytes += segment->bytes;
}

void shelf_put(struct shelf *shelf, const struct segment *segment)
{
    if (segment->bytes > shelf->bytes_max)
        return;
    pthread_mutex_lock(&shelf->mu);
    if (segment->past > shelf->past) {
        shelf_clear_all(shelf);
        shelf->past = segment->past;
    }
    if (segment->past == shelf->past && !shelf_has(shelf, segment))
        shelf_place(shelf, segment);
    pthread_mutex_unlock(&shelf->mu);
}

struct segment *shelf_find(struct shelf *shelf, uint64_t past, int64_t rev)
{
    struct segment *found = NULL;
    pthread_mutex_lock(&shelf->mu);
    for (size_t i = 0; i < SHELF_SEGMENTS && past == shelf->past && found == NULL; i++) {
        struct place *place = &shelf->places[i];
        if (place->segment == NULL || rev < place->segment->from || rev > place->segment->upto)
            continue;
        place->used = ++shelf->looks;
        found = segment_ref(place->segment);
    }
    pthread_mutex_unlock(&shelf->mu);
    return found;
}

size_t shelf_bytes(struct shelf *shelf)
{
    pthread_mutex_lock(&shelf->mu);
    size_t bytes = shelf->bytes;
    pthread_mutex_unlock(&shelf->mu);
    return bytes;
}
