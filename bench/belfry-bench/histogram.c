/* bench/belfry-bench/histogram.c
 *
 * Values below HISTOGRAM_STEPS have a bucket each. Above, a value is its highest bit and the HISTOGRAM_STEP_BITS bits
 * behind it:
 *
 *     bucket = (position of the highest bit - STEP_BITS + 1) * STEPS + those bits
 */
#include "histogram.h"

#include <string.h>

static size_t bucket_of(uint64_t value)
{
    if (value < HISTOGRAM_STEPS)
        return (size_t)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_STEP_BITS;
    return (size_t)(shift + 1) * HISTOGRAM_STEPS + (size_t)((value >> shift) & (HISTOGRAM_STEPS - 1));
}

/* The largest value of the bucket. */
static uint64_t end_of(size_t bucket)
{
    if (bucket < HISTOGRAM_STEPS)
        return bucket;
    unsigned shift = (unsigned)(bucket / HISTOGRAM_STEPS) - 1;
    uint64_t first = (uint64_t)(HISTOGRAM_STEPS + bucket % HISTOGRAM_STEPS) << shift;
    return first + (((uint64_t)1 << shift) - 1);
}

void histogram_clear(struct histogram *histogram)
{
    memset(histogram, 0, sizeof(*histogram));
    histogram->least = UINT64_MAX;
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
    histogram->buckets[bucket_of(value)]++;
    histogram->count++;
    histogram->sum += (double)value;
    if (value < histogram->least)
        histogram->least = value;
    if (value > histogram->largest)
        histogram->largest = value;
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        to->buckets[i] += from->buckets[i];
    to->count += from->count;
    to->sum += from->sum;
    if (from->least < to->least)
        to->least = from->least;
    if (from->largest > to->largest)
        to->largest = from->largest;
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent)
{
    if (histogram->count == 0)
        return 0;
    double wanted = (double)histogram->count * percent / 100;
    uint64_t seen = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen > 0 && (double)seen >= wanted)
            return end_of(i) < histogram->largest ? end_of(i) : histogram->largest;
    }
    return histogram->largest;
}

double histogram_mean(const struct histogram *histogram)
{
    return histogram->count == 0 ? 0 : histogram->sum / (double)histogram->count;
}
