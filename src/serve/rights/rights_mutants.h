/* src/serve/rights/rights_mutants.h
 *
 * rights_mutants: bugs of rights that take more than a condition (base/sim.h). Their bodies are in
 * tests/sim/rights_mutants.c: only the simulator is built with them, and everywhere else the calls are never reached
 * and compiled away.
 *
 * Thread: the worker's.
 */
#ifndef BELFRY_SERVE_RIGHTS_RIGHTS_MUTANTS_H
#define BELFRY_SERVE_RIGHTS_RIGHTS_MUTANTS_H

#include "serve/rights/rights.h"

/* An answer that is taken for another. */
enum rights_answer mutant_rights_answer(enum rights_answer answer);

#endif
