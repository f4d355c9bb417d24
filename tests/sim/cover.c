/* tests/sim/cover.c */
#include "sim/cover.h"

uint64_t cover_counts[COVER_END_];

const char *cover_what(enum cover path)
{
#define COVER_WHAT(name, what) [COVER_##name] = what,
    static const char *const whats[COVER_END_] = {COVER_TABLE(COVER_WHAT)};
    return whats[path];
}
