/* tests/support/steadyclock.c
 *
 * The clock of the unit suites: time in which a suite was not allowed to run does not pass. A host that takes the
 * processor away for a second between two lines would otherwise make every limit pass and every timer late, and a suite
 * could not say "not yet" of anything.
 *
 * CLOCK_MONOTONIC and CLOCK_BOOTTIME go on
 *
 *     while a thread waits     for as long as it has asked to, and not beyond the next timerfd
 *     otherwise                by STEP_NS at most from one look at the clock to the next
 *
 * and what truly passed beyond that is lag, for good. So a suite that only waits and looks sees true time, and one that
 * was stopped finds its timers due one after the other, as on a machine of its own. Timerfds are set anew when the
 * clock has fallen behind.
 *
 * The program's own symbols come before those of shared libraries: libuv and c-ares see this clock, too.
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

#define STEP_NS    INT64_C(10000000)
#define S_NS       INT64_C(1000000000)
#define TIMERS_MAX 64
#define WAITS_MAX  64                                     /* threads */
#define SEEN       __attribute__((visibility("default"))) /* by shared libraries, too */

static struct {
    int (*clock_gettime)(clockid_t, struct timespec *);
    int (*epoll_wait)(int, struct epoll_event *, int, int);
    int (*epoll_pwait)(int, struct epoll_event *, int, int, const sigset_t *);
    int (*poll)(struct pollfd *, nfds_t, int);
    int (*nanosleep)(const struct timespec *, struct timespec *);
    int (*timerfd_settime)(int, int, const struct itimerspec *, struct itimerspec *);
} real;

struct timer {
    int fd;
    int64_t due_ns; /* of this clock; 0: not set */
};

struct wait {
    int64_t until_ns; /* truly; what is beyond counts as any other time; 0: not in use */
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* of the rest */
static int64_t seen_ns;                                /* when somebody last looked; 0: nobody did */
static int64_t waited_ns;                              /* the end of the last wait that is over */
static int64_t lag_ns;                                 /* behind the true clock */
static int64_t boot_ns;                                /* CLOCK_BOOTTIME when CLOCK_MONOTONIC was 0 */
static struct timer timers[TIMERS_MAX];
static size_t n_timers;
static struct wait waits[WAITS_MAX];

static int64_t ns_of(const struct timespec *t)
{
    return (int64_t)t->tv_sec * S_NS + t->tv_nsec;
}

static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / S_NS, .tv_nsec = ns % S_NS};
}

static int64_t true_ns(clockid_t id)
{
    struct timespec t;
    real.clock_gettime(id, &t);
    return ns_of(&t);
}

static void *find(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    if (symbol == NULL)
        abort();
    return symbol;
}

/* Before main: a suite that refuses memory must not meet dlsym. Other constructors may have looked before. */
__attribute__((constructor)) static void find_all(void)
{
    if (real.clock_gettime != NULL)
        return;
    *(void **)&real.epoll_wait = find("epoll_wait");
    *(void **)&real.epoll_pwait = find("epoll_pwait");
    *(void **)&real.poll = find("poll");
    *(void **)&real.nanosleep = find("nanosleep");
    *(void **)&real.timerfd_settime = find("timerfd_settime");
    *(void **)&real.clock_gettime = find("clock_gettime");
    boot_ns = true_ns(CLOCK_BOOTTIME) - true_ns(CLOCK_MONOTONIC);
}

/* ---- with mu held ---- */

static struct timer *timer_of(int fd)
{
    for (size_t i = 0; i < n_timers; i++) {
        if (timers[i].fd == fd)
            return &timers[i];
    }
    if (n_timers == TIMERS_MAX)
        abort();
    timers[n_timers].fd = fd;
    return &timers[n_timers++];
}

/* Those that are due have been told, or are about to be. One that was closed is not set, which does no harm. */
static void put_off_timers(int64_t now)
{
    for (size_t i = 0; i < n_timers; i++) {
        if (timers[i].due_ns > now)
            real.timerfd_settime(timers[i].fd, 0, &(struct itimerspec){.it_value = timespec_of(timers[i].due_ns - now)},
                                 NULL);
    }
}

static int64_t min_ns(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_ns(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t look(void)
{
    int64_t truly = true_ns(CLOCK_MONOTONIC), from = max_ns(seen_ns, waited_ns);
    for (size_t i = 0; i < WAITS_MAX; i++)
        from = max_ns(from, min_ns(truly, waits[i].until_ns));
    int64_t lost = seen_ns == 0 ? 0 : truly - from - STEP_NS;
    seen_ns = truly;
    if (lost > 0) {
        lag_ns += lost;
        put_off_timers(truly - lag_ns);
    }
    return truly - lag_ns;
}

static int64_t until_next_timer(int64_t now)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < n_timers; i++) {
        if (timers[i].due_ns > now)
            least = min_ns(least, timers[i].due_ns - now);
    }
    return least;
}

/* ---- a wait ---- */

/* asked_ns < 0: without a limit. Who waits for no time at all lets none pass. */
static struct wait *wait_begin(int64_t asked_ns)
{
    struct wait *w = NULL;
    find_all();
    pthread_mutex_lock(&mu);
    int64_t next = until_next_timer(look());
    int64_t most = asked_ns >= 0 ? min_ns(asked_ns, next) : next;
    for (size_t i = 0; i < WAITS_MAX && w == NULL; i++)
        w = waits[i].until_ns == 0 ? &waits[i] : NULL;
    if (w == NULL)
        abort();
    w->until_ns = seen_ns + (most == INT64_MAX ? 0 : most);
    pthread_mutex_unlock(&mu);
    return w;
}

static void wait_end(struct wait *w)
{
    pthread_mutex_lock(&mu);
    waited_ns = max_ns(waited_ns, min_ns(true_ns(CLOCK_MONOTONIC), w->until_ns));
    w->until_ns = 0;
    pthread_mutex_unlock(&mu);
}

static int64_t ns_of_ms(int ms)
{
    return (int64_t)ms * 1000000;
}

/* ---- in the place of libc's ---- */

SEEN int clock_gettime(clockid_t id, struct timespec *t)
{
    find_all();
    if (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE && id != CLOCK_BOOTTIME)
        return real.clock_gettime(id, t);
    pthread_mutex_lock(&mu);
    *t = timespec_of(look() + (id == CLOCK_BOOTTIME ? boot_ns : 0));
    pthread_mutex_unlock(&mu);
    return 0;
}

SEEN int timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *was)
{
    find_all();
    pthread_mutex_lock(&mu);
    int64_t in_ns = ns_of(&when->it_value);
    timer_of(fd)->due_ns = in_ns == 0 ? 0 : look() + in_ns;
    int code = real.timerfd_settime(fd, flags, when, was);
    pthread_mutex_unlock(&mu);
    return code;
}

SEEN int epoll_wait(int fd, struct epoll_event *events, int n, int timeout_ms)
{
    struct wait *w = wait_begin(ns_of_ms(timeout_ms));
    int code = real.epoll_wait(fd, events, n, timeout_ms);
    wait_end(w);
    return code;
}

SEEN int epoll_pwait(int fd, struct epoll_event *events, int n, int timeout_ms, const sigset_t *mask)
{
    struct wait *w = wait_begin(ns_of_ms(timeout_ms));
    int code = real.epoll_pwait(fd, events, n, timeout_ms, mask);
    wait_end(w);
    return code;
}

SEEN int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    struct wait *w = wait_begin(ns_of_ms(timeout_ms));
    int code = real.poll(fds, n, timeout_ms);
    wait_end(w);
    return code;
}

SEEN int nanosleep(const struct timespec *asked, struct timespec *left)
{
    struct wait *w = wait_begin(ns_of(asked));
    int code = real.nanosleep(asked, left);
    wait_end(w);
    return code;
}
