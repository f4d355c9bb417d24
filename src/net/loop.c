/* src/net/loop.c
 *
 * What makes the descriptor readable:
 *
 *     our epoll --+-- uv_backend_fd()   a socket that libuv has registered is ready
 *                 +-- timerfd           libuv's next timer is due, or a turn has something to do at once
 *                 +-- eventfd           belfry_loop_wake()
 *
 * "At once" is how uv_backend_timeout() speaks of idle handles, of handles that close, and of watchers that were
 * started but are not in libuv's epoll yet (libuv registers them at the start of its next poll). One turn settles each
 * of these.
 */
#include "net/loop.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/owner.h"

#define CLOSING_TURNS_MAX 16 /* a close callback may close another handle; deeper chains than this are a bug */

struct belfry_loop {
    uv_loop_t uv;
    int epoll_fd, timer_fd, wake_fd; /* -1: not there */
    atomic_bool woken;               /* wake_fd is readable: set behind the write, so that whoever reads finds it */
    bool uv_ready;
    uint64_t due_ms; /* what the timerfd is set to; BELFRY_NEVER: disarmed */
    BELFRY_OWNER;
};

static enum belfry_err from_errno(int code)
{
    switch (code) {
    case EMFILE:
    case ENFILE:
        return BELFRY_ERR_LIMIT;
    case ENOMEM:
        return BELFRY_ERR_NOMEM;
    default:
        return BELFRY_ERR_IO;
    }
}

static enum belfry_err set_timer(struct belfry_loop *loop, int timeout_ms)
{
    struct itimerspec when = {0};
    if (timeout_ms > 0) {
        when.it_value.tv_sec = timeout_ms / 1000;
        when.it_value.tv_nsec = timeout_ms % 1000 * 1000000L;
    } else if (timeout_ms == 0) {
        when.it_value.tv_nsec = 1; /* all zeroes would disarm it */
    }
    return timerfd_settime(loop->timer_fd, 0, &when, NULL) == 0 ? BELFRY_OK : BELFRY_ERR_IO;
}

/* Setting the timerfd also makes it unreadable if it had expired, so it is never read. */
static enum belfry_err arm(struct belfry_loop *loop)
{
    uv_update_time(&loop->uv);
    /* A loop without live handles has a backend timeout of 0, but no turn would do anything. */
    int timeout_ms = uv_loop_alive(&loop->uv) ? uv_backend_timeout(&loop->uv) : -1;
    uint64_t due_ms = timeout_ms < 0 ? BELFRY_NEVER : uv_now(&loop->uv) + (uint64_t)timeout_ms;

    /* Most turns do not move the next timer. The clock is asked because libuv may use a coarse one that lags: a timerfd
     * that has expired must be set again, or the descriptor would stay readable. */
    if (due_ms == loop->due_ms && timeout_ms != 0 && due_ms > belfry_clock_ms())
        return BELFRY_OK;
    enum belfry_err err = set_timer(loop, timeout_ms);
    loop->due_ms = err == BELFRY_OK ? due_ms : BELFRY_NEVER;
    return err;
}

static void closed(uv_handle_t *handle)
{
    (void)handle;
}

/* libuv registers its own wake-up descriptor on the first turn of a live loop. Take that turn now, so that a loop is
 * quiet until its owner gives it something. */
static void settle(struct belfry_loop *loop)
{
    uv_idle_t idle;
    uv_idle_init(&loop->uv, &idle);
    uv_close((uv_handle_t *)&idle, closed);
    uv_run(&loop->uv, UV_RUN_NOWAIT);
}

static enum belfry_err watch(struct belfry_loop *loop, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? BELFRY_OK : from_errno(errno);
}

enum belfry_err belfry_loop_create(struct belfry_loop **out)
{
    enum belfry_err err = BELFRY_ERR_NOMEM;
    struct belfry_loop *loop = calloc(1, sizeof(*loop));
    if (loop == NULL)
        return BELFRY_ERR_NOMEM;
    loop->epoll_fd = loop->timer_fd = loop->wake_fd = -1;
    loop->due_ms = BELFRY_NEVER;

    int code = uv_loop_init(&loop->uv);
    if (code != 0) {
        err = from_errno(-code);
        goto fail;
    }
    loop->uv_ready = true;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd >= 0)
        loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (loop->timer_fd >= 0)
        loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->wake_fd < 0) {
        err = from_errno(errno);
        goto fail;
    }
    if ((err = watch(loop, uv_backend_fd(&loop->uv))) != BELFRY_OK ||
        (err = watch(loop, loop->timer_fd)) != BELFRY_OK || (err = watch(loop, loop->wake_fd)) != BELFRY_OK)
        goto fail;
    settle(loop);

    BELFRY_OWNER_INIT(loop);
    *out = loop;
    return BELFRY_OK;

fail:
    belfry_loop_destroy(loop);
    return err;
}

void belfry_loop_destroy(struct belfry_loop *loop)
{
    if (loop == NULL)
        return;
    BELFRY_OWNER_CHECK(loop);
    if (loop->uv_ready) {
        int busy = uv_loop_close(&loop->uv);
        for (int turn = 0; busy != 0 && turn < CLOSING_TURNS_MAX; turn++) {
            uv_run(&loop->uv, UV_RUN_NOWAIT);
            busy = uv_loop_close(&loop->uv);
        }
        assert(busy == 0); /* a handle was never asked to close */
    }
    if (loop->wake_fd >= 0)
        close(loop->wake_fd);
    if (loop->timer_fd >= 0)
        close(loop->timer_fd);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    free(loop);
}

uv_loop_t *belfry_loop_uv(struct belfry_loop *loop)
{
    BELFRY_OWNER_CHECK(loop);
    return &loop->uv;
}

int belfry_loop_fd(const struct belfry_loop *loop)
{
    return loop->epoll_fd;
}

/* A signal handler may interrupt anything, also this: what it leaves unread is found in the next turn. */
void belfry_loop_wake(struct belfry_loop *loop)
{
    int saved = errno;
    ssize_t written = write(loop->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)written; /* it fails only if it is readable already */
    atomic_store(&loop->woken, true);
    errno = saved;
}

static void take_wake(struct belfry_loop *loop)
{
    uint64_t count;
    ssize_t taken = atomic_exchange(&loop->woken, false) ? read(loop->wake_fd, &count, sizeof(count)) : 0;
    (void)taken;
}

enum belfry_err belfry_loop_dispatch(struct belfry_loop *loop)
{
    BELFRY_OWNER_CHECK(loop);
    take_wake(loop);
    uv_run(&loop->uv, UV_RUN_NOWAIT);
    /* What the callbacks started is registered by a second turn, which is cheaper than coming back for it. */
    if (uv_loop_alive(&loop->uv) && uv_backend_timeout(&loop->uv) == 0)
        uv_run(&loop->uv, UV_RUN_NOWAIT);
    return arm(loop);
}

void belfry_loop_rearm(struct belfry_loop *loop)
{
    BELFRY_OWNER_CHECK(loop);
    /* Setting a timerfd that exists to a sane time cannot fail; if it did, the next dispatch would tell. */
    belfry_ignore(arm(loop));
}

enum belfry_err belfry_loop_wait(struct belfry_loop *loop, int timeout_ms)
{
    BELFRY_OWNER_CHECK(loop);
    struct pollfd poller = {.fd = loop->epoll_fd, .events = POLLIN};
    int n = poll(&poller, 1, timeout_ms);
    if (n > 0 || (n < 0 && errno == EINTR))
        return BELFRY_OK;
    return n == 0 ? BELFRY_ERR_TIMEOUT : BELFRY_ERR_IO;
}
