/* bench/belfry-bench/h1get.h
 *
 * h1get: one GET, waited for; dies when the answer is not 200 or does not come.
 *
 * Thread: any.
 */
#ifndef BENCH_H1GET_H
#define BENCH_H1GET_H

#include <stdint.h>

#include "base/bytes.h"
#include "target.h"

struct h1get_opts {
    const struct target *target;
    const char *path;
    void (*body)(void *user, struct belfry_bytes piece);
    void (*tick)(void *user); /* about every millisecond while it lasts; NULL: not */
    void *user;
    uint64_t deadline_ns;
};

/* Returns the bytes that were read, with all of HTTP. */
uint64_t h1get(const struct h1get_opts *opts);

#endif
