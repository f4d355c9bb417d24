/* tests/sim/mutants.c */
#include "sim/mutants.h"

#include <string.h>

enum belfry_mutant belfry_mutant;

#define MUTANT_NAME(name, what) [BELFRY_MUTANT_##name] = #name,
#define MUTANT_WHAT(name, what) [BELFRY_MUTANT_##name] = what,
static const char *const names[BELFRY_MUTANT_END_] = {"none", BELFRY_MUTANT_TABLE(MUTANT_NAME)};
static const char *const whats[BELFRY_MUTANT_END_] = {"", BELFRY_MUTANT_TABLE(MUTANT_WHAT)};

const char *mutant_name(enum belfry_mutant mutant)
{
    return names[mutant];
}

const char *mutant_what(enum belfry_mutant mutant)
{
    return whats[mutant];
}

bool mutant_is_of_rights(enum belfry_mutant mutant)
{
    return strncmp(names[mutant], "rights_", 7) == 0 || strncmp(names[mutant], "auth_", 5) == 0;
}

bool mutant_is_of_reads(enum belfry_mutant mutant)
{
    return strncmp(names[mutant], "reads_", 6) == 0;
}

bool mutant_is_of_kube(enum belfry_mutant mutant)
{
    return strncmp(names[mutant], "kube_", 5) == 0;
}

enum belfry_mutant mutant_find(const char *name)
{
    unsigned mutant = 0;
    while (mutant < BELFRY_MUTANT_END_ && strcmp(names[mutant], name) != 0)
        mutant++;
    return (enum belfry_mutant)mutant;
}
