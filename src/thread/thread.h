/* src/thread/thread.h
 *
 * thread: a thread with a loop and a mailbox. What lives on it is made by `begin` and taken down by `end`, both on the
 * thread itself.
 *
 * Thread: start, stop and destroy: the front's. thread_post and thread_wake: any.
 */
#ifndef BELFRY_THREAD_THREAD_H
#define BELFRY_THREAD_THREAD_H

#include <pthread.h>
#include <uv.h>

#include "base/err.h"
#include "thread/mail.h"

struct thread;

struct thread_part {
    const char *name; /* as ps shows it, up to 15 bytes */
    enum belfry_err (*begin)(struct thread *, void *user);
    void (*end)(struct thread *, void *user); /* after a begin that succeeded; closes every handle */
};

/* Starts it and waits until begin has returned; its error is the result. `user` is also the owner of the mail.
 * Errors: BELFRY_ERR_NOMEM, BELFRY_ERR_LIMIT, what begin returned. */
BELFRY_NODISCARD enum belfry_err thread_start(const struct thread_part *part, void *user, struct thread **out);

/* Ends the loop and waits for the thread; later mail is opened with owner NULL. NULL is fine. */
void thread_stop(struct thread *thread);
void thread_destroy(struct thread *thread); /* stopped, and no thread can post any more. NULL is fine */

/* pthread_create() of a thread that receives no signals: those are the front's. Not 0: it failed. */
int thread_spawn(pthread_t *id, void *(*start)(void *arg), void *arg);

uv_loop_t *thread_loop(struct thread *thread);
void thread_post(struct thread *thread, struct mail *mail);
void thread_wake(struct thread *thread);

#endif
