/* tests/storm/threads.c */
#include "storm/threads.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "storm/verdict.h"

#define LAST_TURNS 1000 /* of a loop that ends: handles close in one or two */

struct thread {
    struct thread_part part;
    void *user;
    uv_loop_t loop;
    struct mailbox *box;
};

static struct thread *threads[THREADS_MAX];
static size_t n_threads;

size_t threads_count(void)
{
    return n_threads;
}

void threads_turn(size_t i)
{
    uv_run(&threads[i]->loop, UV_RUN_NOWAIT);
}

uint64_t threads_loop_due(const uv_loop_t *loop)
{
    struct pollfd sockets = {.fd = uv_backend_fd(loop), .events = POLLIN};
    int wait_ms = uv_backend_timeout(loop);
    if (wait_ms == 0 || poll(&sockets, 1, 0) != 0)
        return 0;
    return wait_ms < 0 ? BELFRY_NEVER : uv_now(loop) + (uint64_t)wait_ms;
}

uint64_t threads_due(void)
{
    uint64_t due_ms = BELFRY_NEVER;
    for (size_t i = 0; i < n_threads && due_ms > 0; i++)
        due_ms = belfry_min_time(due_ms, threads_loop_due(&threads[i]->loop));
    return due_ms;
}

static void tell_handle(uv_handle_t *handle, void *user)
{
    (void)user;
    verdict_note("a %s is still open", uv_handle_type_name(handle->type));
}

void threads_end_loop(uv_loop_t *loop)
{
    unsigned turns = 0;
    while (turns++ < LAST_TURNS && uv_run(loop, UV_RUN_NOWAIT) != 0)
        continue;
    if (uv_loop_close(loop) == 0)
        return;
    uv_walk(loop, tell_handle, NULL);
    verdict_fail("a loop has handles that nothing has closed");
}

enum belfry_err thread_start(const struct thread_part *part, void *user, struct thread **out)
{
    struct thread *thread = calloc(1, sizeof(*thread));
    if (thread == NULL || n_threads == THREADS_MAX || uv_loop_init(&thread->loop) != 0)
        verdict_fail("cannot make a thread");
    thread->part = *part;
    thread->user = user;
    *out = thread; /* begin() may already hand it out */
    enum belfry_err err = mailbox_create(&thread->loop, user, &thread->box);
    if (err == BELFRY_OK)
        err = part->begin(thread, user);
    if (err == BELFRY_OK) {
        threads[n_threads++] = thread;
        return BELFRY_OK;
    }
    *out = NULL;
    mailbox_close(thread->box);
    threads_end_loop(&thread->loop);
    thread_destroy(thread);
    return err;
}

void thread_stop(struct thread *thread)
{
    if (thread == NULL)
        return;
    thread->part.end(thread, thread->user);
    mailbox_close(thread->box);
    threads_end_loop(&thread->loop);
    for (size_t i = 0; i < n_threads; i++)
        if (threads[i] == thread)
            threads[i] = threads[--n_threads];
}

void thread_destroy(struct thread *thread)
{
    if (thread == NULL)
        return;
    mailbox_destroy(thread->box);
    free(thread);
}

int thread_spawn(pthread_t *id, void *(*start)(void *arg), void *arg)
{
    (void)id, (void)start, (void)arg;
    return EAGAIN; /* a run has one thread: as at a limit of processes */
}

uv_loop_t *thread_loop(struct thread *thread)
{
    return &thread->loop;
}

void thread_post(struct thread *thread, struct mail *mail)
{
    mailbox_post(thread->box, mail);
}

void thread_wake(struct thread *thread)
{
    mailbox_wake(thread->box);
}
