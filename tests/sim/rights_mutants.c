/* tests/sim/rights_mutants.c: bugs of rights that take more than a condition. */
#include "serve/rights/rights_mutants.h"

#include "base/sim.h"

enum rights_answer mutant_rights_answer(enum rights_answer answer)
{
    if (BELFRY_MUTANT(rights_old_denies) && answer == RIGHTS_TOKEN_IS_OLD)
        return RIGHTS_FORBIDDEN;
    if (BELFRY_MUTANT(rights_old_granted) && answer == RIGHTS_TOKEN_IS_OLD)
        return RIGHTS_ALLOWED;
    if (BELFRY_MUTANT(rights_silence_granted) && answer == RIGHTS_SILENCE)
        return RIGHTS_ALLOWED;
    if (BELFRY_MUTANT(rights_unreachable_ends) && answer == RIGHTS_UNREACHABLE)
        return RIGHTS_NO_SUCH_TOKEN;
    return answer;
}
