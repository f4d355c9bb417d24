/* bench/belfry-bench/median.h: the middle of a few figures. Thread: any. */
#ifndef BENCH_MEDIAN_H
#define BENCH_MEDIAN_H

#include <stdlib.h>

static inline int median_order(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Sorts the figures; of an even number, the mean of the two in the middle. */
static inline double median(double *figures, size_t n)
{
    if (n == 0)
        return 0;
    qsort(figures, n, sizeof(*figures), median_order);
    return (figures[(n - 1) / 2] + figures[n / 2]) / 2;
}

#endif
