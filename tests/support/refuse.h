/* tests/support/refuse.h
 *
 * refuse: an allocator that says no when asked to, and counts what is still held.
 *
 * Unit suites link with --wrap=malloc and so on, so every allocation made by our own objects passes here (what shared
 * libraries allocate for themselves does not; nghttp2 is given ours). A scenario is a function that does a module's
 * work from creation to destruction and returns the first error it meets, cleaned up. refuse_sweep() runs it with the
 * first allocation refused, then the second, ... until a run in which none was: each run must return BELFRY_ERR_NOMEM
 * or, where the module can do without, BELFRY_OK, and must leave nothing allocated.
 *
 * Thread: any; the refusing counter is per process, so scenarios run one at a time.
 */
#ifndef BELFRY_TESTS_REFUSE_H
#define BELFRY_TESTS_REFUSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

typedef enum belfry_err (*refuse_scenario_fn)(void);

/* Runs the scenario with every n-th allocation refused in turn; fails the cmocka test if a run leaks or returns
 * another error. Returns how many allocations there were to refuse. */
size_t refuse_sweep(refuse_scenario_fn scenario);

/* By hand: refuse the n-th allocation from now (0 = the next). refuse_end() returns whether it was reached. */
void refuse_begin(size_t n);
bool refuse_end(void);

/* Blocks allocated by our objects and not freed. */
size_t refuse_held(void);

#endif
