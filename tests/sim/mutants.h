/* tests/sim/mutants.h: the seeded bugs of base/sim.h by name. Thread: any. */
#ifndef BELFRY_SIM_MUTANTS_H
#define BELFRY_SIM_MUTANTS_H

#include <stdbool.h>

#include "base/sim.h"

const char *mutant_name(enum belfry_mutant mutant);
const char *mutant_what(enum belfry_mutant mutant);
bool mutant_is_of_rights(enum belfry_mutant mutant); /* only runs with auth can find it, and no other needs them */
bool mutant_is_of_reads(enum belfry_mutant mutant);  /* likewise, with reads */
bool mutant_is_of_kube(enum belfry_mutant mutant);   /* likewise, of kube/kube_world.h */
enum belfry_mutant mutant_find(const char *name);    /* BELFRY_MUTANT_END_: there is none of that name */

#endif
