/* fuzz/check.h: what a fuzz target ends with when something is not as it must be. Thread: any. */
#ifndef BELFRY_FUZZ_CHECK_H
#define BELFRY_FUZZ_CHECK_H

#include <stdbool.h>
#include <stdlib.h>

static inline void check(bool ok)
{
    if (!ok)
        abort();
}

#endif
