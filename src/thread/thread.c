/* src/thread/thread.c */
#include "thread/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct thread {
    /* fixed at creation */
    struct thread_part part;
    void *user;
    pthread_t id;
    /* written by the thread before `begun`, read by the starter after it */
    enum belfry_err err;
    uv_sem_t begun;
    /* the thread's */
    uv_loop_t loop;
    struct mailbox *box;
    struct mail stop;
};

static enum belfry_err thread_on_begin(struct thread *thread)
{
    enum belfry_err err = mailbox_create(&thread->loop, thread->user, &thread->box);
    return err != BELFRY_OK ? err : thread->part.begin(thread, thread->user);
}

static void *thread_main(void *arg)
{
    struct thread *thread = arg;
    pthread_setname_np(pthread_self(), thread->part.name);
    thread->err = thread_on_begin(thread);
    enum belfry_err err = thread->err;
    uv_sem_post(&thread->begun);
    if (err == BELFRY_OK) {
        uv_run(&thread->loop, UV_RUN_DEFAULT);
        thread->part.end(thread, thread->user);
    }
    mailbox_close(thread->box);
    uv_run(&thread->loop, UV_RUN_DEFAULT); /* every open handle closes in a turn or two */
    uv_loop_close(&thread->loop);
    return NULL;
}

int thread_spawn(pthread_t *id, void *(*start)(void *arg), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(id, NULL, start, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

enum belfry_err thread_start(const struct thread_part *part, void *user, struct thread **out)
{
    struct thread *thread = calloc(1, sizeof(*thread));
    if (thread == NULL)
        return BELFRY_ERR_NOMEM;
    thread->part = *part;
    thread->user = user;
    if (uv_loop_init(&thread->loop) != 0) {
        free(thread);
        return BELFRY_ERR_LIMIT;
    }
    uv_sem_init(&thread->begun, 0);
    *out = thread; /* thread_on_begin() may already hand it out */
    if (thread_spawn(&thread->id, thread_main, thread) != 0) {
        *out = NULL;
        uv_loop_close(&thread->loop);
        uv_sem_destroy(&thread->begun);
        free(thread);
        return BELFRY_ERR_LIMIT;
    }
    uv_sem_wait(&thread->begun);
    if (thread->err == BELFRY_OK)
        return BELFRY_OK;
    enum belfry_err err = thread->err;
    *out = NULL;
    pthread_join(thread->id, NULL);
    thread_destroy(thread);
    return err;
}

static void on_stop(struct mail *mail, void *owner)
{
    struct thread *thread = belfry_container(mail, struct thread, stop);
    if (owner != NULL)
        uv_stop(&thread->loop);
}

void thread_stop(struct thread *thread)
{
    if (thread == NULL)
        return;
    thread->stop.open = on_stop;
    mailbox_post(thread->box, &thread->stop);
    pthread_join(thread->id, NULL);
}

void thread_destroy(struct thread *thread)
{
    if (thread == NULL)
        return;
    mailbox_destroy(thread->box);
    uv_sem_destroy(&thread->begun);
    free(thread);
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
