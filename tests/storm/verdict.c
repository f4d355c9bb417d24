/* tests/storm/verdict.c */
#include "storm/verdict.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *run = "";

/* Called by the sanitizers before they end the process; other builds do not have it. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*fn)(void));

static void say_run(void)
{
    static const char begin[] = "storm: the run was: ";
    if (write(2, begin, sizeof(begin) - 1) < 0 || write(2, run, strlen(run)) < 0 || write(2, "\n", 1) < 0)
        return;
}

static void on_signal(int number)
{
    say_run();
    signal(number, SIG_DFL);
    raise(number);
}

void verdict_of(const char *text)
{
    if (run[0] == '\0') {
        if (__sanitizer_set_death_callback != NULL)
            __sanitizer_set_death_callback(say_run);
        else
            signal(SIGSEGV, on_signal);
        signal(SIGABRT, on_signal);
    }
    run = text;
}

void verdict_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("storm: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

void verdict_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("storm: FOUND: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}
