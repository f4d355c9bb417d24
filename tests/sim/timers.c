/* tests/sim/timers.c */
#include "sim/timers.h"

#include <assert.h>
#include <string.h>

void timers_init(struct timers *timers, struct sched *sched)
{
    *timers = (struct timers){.sched = sched};
}

uv_loop_t *timers_loop(struct timers *timers)
{
    return (uv_loop_t *)(void *)timers;
}

static struct timers *timers_of(uv_loop_t *loop)
{
    return (struct timers *)(void *)loop;
}

static struct timer *timer_of(uv_loop_t *loop, const void *handle)
{
    struct timers *timers = timers_of(loop);
    struct timer *timer = timers->all;
    while ((const void *)timer->handle != handle)
        timer++;
    assert(timer < timers->all + timers->n);
    return timer;
}

void timers_run(struct timers *timers, uint64_t now_ms)
{
    for (size_t i = 0; i < timers->n; i++) {
        struct timer *timer = &timers->all[i];
        if (timer->due_ms > now_ms)
            continue;
        timer->due_ms = BELFRY_NEVER;
        timer->fn(timer->handle);
    }
}

uint64_t timers_due(const struct timers *timers)
{
    uint64_t due = BELFRY_NEVER;
    for (size_t i = 0; i < timers->n; i++)
        due = belfry_min_time(due, timers->all[i].due_ms);
    return due;
}

/* ---- libuv ---- */

int uv_timer_init(uv_loop_t *loop, uv_timer_t *handle)
{
    struct timers *timers = timers_of(loop);
    assert(timers->n < TIMERS_MAX);
    handle->loop = loop;
    timers->all[timers->n++] = (struct timer){.handle = handle, .due_ms = BELFRY_NEVER};
    return 0;
}

int uv_timer_start(uv_timer_t *handle, uv_timer_cb fn, uint64_t timeout_ms, uint64_t repeat_ms)
{
    struct timer *timer = timer_of(handle->loop, handle);
    (void)repeat_ms;
    timer->fn = fn;
    timer->due_ms = sched_now(timers_of(handle->loop)->sched) + timeout_ms;
    return 0;
}

int uv_timer_stop(uv_timer_t *handle)
{
    timer_of(handle->loop, handle)->due_ms = BELFRY_NEVER;
    return 0;
}

void uv_close(uv_handle_t *handle, uv_close_cb fn)
{
    struct timers *timers = timers_of(handle->loop);
    struct timer *timer = timer_of(handle->loop, handle);
    *timer = timers->all[--timers->n];
    fn(handle);
}

void uv_update_time(uv_loop_t *loop)
{
    (void)loop;
}

int uv_random(uv_loop_t *loop, uv_random_t *request, void *to, size_t len, unsigned flags, uv_random_cb fn)
{
    (void)loop, (void)request, (void)flags, (void)fn;
    memset(to, 7, len);
    return 0;
}

uint64_t uv_hrtime(void)
{
    return 0;
}
