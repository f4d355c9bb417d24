/* bench/belfry-bench/histogram.h
 *
 * histogram: how often each duration was met, with 64 steps to each power of two, so that a percentile is right to 1.6
 * % whatever its size. Count, sum, least and largest are exact.
 *
 * Thread: owner.
 * Memory: fixed, 30 KiB; nothing allocates.
 */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_STEP_BITS 6
#define HISTOGRAM_STEPS     (1u << HISTOGRAM_STEP_BITS)
#define HISTOGRAM_BUCKETS   ((64 - HISTOGRAM_STEP_BITS + 1) * HISTOGRAM_STEPS)

struct histogram {
    uint64_t count, least, largest; /* least: valid if count > 0 */
    double sum;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_clear(struct histogram *histogram);
void histogram_add(struct histogram *histogram, uint64_t value);

/* Everything that `from` has is added to `to`. */
void histogram_merge(struct histogram *to, const struct histogram *from);

/* The value that `percent` of all are not above, rounded up to its bucket's end; 0 when there are none. */
uint64_t histogram_percentile(const struct histogram *histogram, double percent);
double histogram_mean(const struct histogram *histogram);

#endif
