/* tests/sim/violations.h
 *
 * violations: what a run did wrong, as sentences: all are counted and reported, the first are kept.
 *
 * Thread: the one thread of the simulator.
 */
#ifndef BELFRY_SIM_VIOLATIONS_H
#define BELFRY_SIM_VIOLATIONS_H

#include <stdarg.h>
#include <stddef.h>

#define VIOLATIONS_KEPT     16
#define VIOLATIONS_TEXT_MAX 1024

struct violations {
    void (*report)(void *user, const char *sentence); /* NULL: they are only counted and kept */
    void *user;
    size_t n;
    char *kept[VIOLATIONS_KEPT]; /* owned */
};

void violations_add(struct violations *violations, const char *format, ...) __attribute__((format(printf, 2, 3)));
void violations_add_list(struct violations *violations, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
void violations_fini(struct violations *violations);

#endif
