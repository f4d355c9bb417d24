/* tests/preload/shifted_clock.c: a process whose clock is wrong. LD_PRELOAD puts it before libc, and
 * BELFRY_SHIFT_S says by how many seconds the time of day is off. Clocks that only run forward stay as they are. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static time_t shift_s(void)
{
    const char *text = getenv("BELFRY_SHIFT_S");
    return text != NULL ? (time_t)atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int result = (int)syscall(SYS_clock_gettime, clock, out);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        out->tv_sec += shift_s();
    return result;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}
