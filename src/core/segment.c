/* src/core/segment.c: the builder's array becomes the segment's. */
#include "core/segment.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#define FIRST_CAP 16

struct shared {
    struct segment segment; /* first: a pointer to it is a pointer to the allocation */
    atomic_size_t refs;     /* release on unref, acquire before free */
    struct batch **batches; /* owned, one reference each; what segment.batches shows read-only */
};

static struct shared *segment_shared(const struct segment *segment)
{
    union {
        const struct segment *in;
        struct shared *out;
    } cast = {.in = segment};
    return cast.out;
}

void segment_begin(struct segment_builder *builder)
{
    *builder = (struct segment_builder){0};
}

static bool builder_grow(struct segment_builder *builder)
{
    if (builder->n < builder->cap)
        return true;
    size_t cap = builder->cap == 0 ? FIRST_CAP : builder->cap * 2;
    struct batch **batches = realloc(builder->batches, cap * sizeof(*batches));
    if (batches == NULL)
        return false;
    builder->batches = batches;
    builder->cap = cap;
    return true;
}

enum belfry_err segment_add(struct segment_builder *builder, struct batch *batch)
{
    assert(builder->n == 0 || builder->batches[builder->n - 1]->rev < batch->rev);
    if (!builder_grow(builder)) {
        batch_unref(batch);
        return BELFRY_ERR_NOMEM;
    }
    builder->batches[builder->n++] = batch;
    builder->bytes += batch->bytes;
    return BELFRY_OK;
}

static void drop_batches(struct batch **batches, size_t n)
{
    for (size_t i = 0; i < n; i++)
        batch_unref(batches[i]);
    free(batches);
}

enum belfry_err segment_finish(struct segment_builder *builder, uint64_t past, int64_t from, int64_t upto,
                               struct segment **out)
{
    assert(from <= upto);
    assert(builder->n == 0 || (builder->batches[0]->rev >= from && builder->batches[builder->n - 1]->rev <= upto));
    struct shared *shared = malloc(sizeof(*shared));
    if (shared == NULL) {
        segment_abort(builder);
        return BELFRY_ERR_NOMEM;
    }
    *shared = (struct shared){
        .segment = {.past = past, .from = from, .upto = upto, .n = builder->n, .batches = builder->batches},
        .batches = builder->batches};
    shared->segment.bytes = sizeof(*shared) + builder->cap * sizeof(*builder->batches) + builder->bytes;
    atomic_init(&shared->refs, 1);
    segment_begin(builder);
    *out = &shared->segment;
    return BELFRY_OK;
}

void segment_abort(struct segment_builder *builder)
{
    drop_batches(builder->batches, builder->n);
    segment_begin(builder);
}

struct segment *segment_ref(const struct segment *segment)
{
    struct shared *shared = segment_shared(segment);
    size_t before = atomic_fetch_add_explicit(&shared->refs, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
    return &shared->segment;
}

void segment_unref(const struct segment *segment)
{
    if (segment == NULL)
        return;
    struct shared *shared = segment_shared(segment);
    if (atomic_fetch_sub_explicit(&shared->refs, 1, memory_order_acq_rel) != 1)
        return;
    drop_batches(shared->batches, shared->segment.n);
    free(shared);
}

size_t segment_find(const struct segment *segment, int64_t rev)
{
    size_t low = 0, high = segment->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (segment->batches[mid]->rev < rev)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}
