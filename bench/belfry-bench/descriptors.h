/* bench/belfry-bench/descriptors.h: how many connections a load generator may have. Thread: any. */
#ifndef BELFRY_BENCH_DESCRIPTORS_H
#define BELFRY_BENCH_DESCRIPTORS_H

/* Raises the soft limit of descriptors to the hard one: the soft one is for programs that use select(). */
void descriptors_raise(void);

#endif
