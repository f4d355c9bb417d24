/* bench/belfry-bench/bound.h
 *
 * bound: when a run opens no more connections although more were asked for, because the machine's memory or the time
 * that it was given is used up. What is open by then is measured.
 *
 * Thread: any.
 */
#ifndef BENCH_BOUND_H
#define BENCH_BOUND_H

#include <stdbool.h>
#include <stdint.h>

struct bound {
    uint64_t memory_floor; /* bytes that the machine must have left; 0: no such bound */
    uint64_t until_ns;     /* 0: no such bound */
};

enum bound_hit { BOUND_NONE, BOUND_MEMORY, BOUND_TIME };

bool bound_is_set(const struct bound *bound);
enum bound_hit bound_check(const struct bound *bound, uint64_t available_bytes, uint64_t now_ns);

/* "", "memory", "time". */
const char *bound_name(enum bound_hit hit);

#endif
