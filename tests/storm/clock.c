/* tests/storm/clock.c */
#include "storm/clock.h"

#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS  1000
#define FIRST_NS UINT64_C(1000000000000) /* of the monotonic clock when a run begins */
#define FIRST_S  1800000000              /* of Unix time, then and before: certificates are the same in each process */
#define S_NS     UINT64_C(1000000000)
#define SEEN     __attribute__((visibility("default"))) /* by shared libraries, too */

static struct {
    bool running;
    uint64_t now_ns;
} state;

static uint64_t true_ns(clockid_t id)
{
    struct timespec t;
    syscall(SYS_clock_gettime, id, &t);
    return (uint64_t)t.tv_sec * S_NS + (uint64_t)t.tv_nsec;
}

void clock_begin(void)
{
    state.now_ns = FIRST_NS;
    state.running = true;
}

void clock_end(void)
{
    state.running = false;
}

void clock_pass(uint64_t ms)
{
    state.now_ns += ms * 1000000;
}

uint64_t clock_true_ms(void)
{
    return true_ns(CLOCK_MONOTONIC) / 1000000;
}

uint64_t clock_cpu_us(void)
{
    return true_ns(CLOCK_THREAD_CPUTIME_ID) / 1000;
}

/* ---- in the place of libc's ---- */

/* CLOCK_REALTIME stays true: a fuzzer looks at it during a run, and nothing of a run depends on it. */
SEEN int clock_gettime(clockid_t id, struct timespec *t)
{
    bool is_ours = id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE || id == CLOCK_BOOTTIME;
    if (!state.running || !is_ours)
        return (int)syscall(SYS_clock_gettime, id, t);
    state.now_ns += LOOK_NS;
    *t = (struct timespec){.tv_sec = (time_t)(state.now_ns / S_NS), .tv_nsec = (long)(state.now_ns % S_NS)};
    return 0;
}

SEEN time_t time(time_t *out)
{
    time_t now = FIRST_S + (time_t)(state.running ? (state.now_ns - FIRST_NS) / S_NS : 0);
    if (out != NULL)
        *out = now;
    return now;
}
