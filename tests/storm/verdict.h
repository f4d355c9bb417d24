/* tests/storm/verdict.h: a finding ends the process, after it has said which run it was. Thread: any. */
#ifndef BELFRY_STORM_VERDICT_H
#define BELFRY_STORM_VERDICT_H

#include <stdbool.h>

/* What repeats the run, for the last line of a finding; lent. Also said when a sanitizer ends the process. */
void verdict_of(const char *run);

__attribute__((format(printf, 1, 2))) void verdict_note(const char *format, ...);
__attribute__((format(printf, 1, 2), noreturn)) void verdict_fail(const char *format, ...);

/* What the storm itself cannot do without: memory, descriptors. */
static inline void verdict_must(bool holds, const char *what)
{
    if (!holds)
        verdict_fail("cannot go on: %s", what);
}

#endif
