/* tests/storm/threads.h
 *
 * threads: thread/thread.h without threads. Each "thread" is a loop of its own, and the run decides which of them takes
 * the next turn, so that a seed decides in which order mail and sockets are looked at.
 *
 * The functions of thread/thread.h are defined here; the linker takes them instead of the real ones.
 *
 * Thread: owner.
 */
#ifndef BELFRY_STORM_THREADS_H
#define BELFRY_STORM_THREADS_H

#include <stddef.h>
#include <uv.h>

#include "thread/thread.h"

#define THREADS_MAX 8

size_t threads_count(void);
void threads_turn(size_t i); /* one turn of its loop, which does not block */

/* When the loop has something to do: a time in the past if it has now, BELFRY_NEVER if only sockets or mail can tell.
 * Right after two turns in which nothing came: libuv registers sockets at the beginning of the next one. */
uint64_t threads_loop_due(const uv_loop_t *loop);
uint64_t threads_due(void); /* of all threads, the first */

/* Turns a loop whose handles are all closed, or closing, to its end, and closes it. */
void threads_end_loop(uv_loop_t *loop);

#endif
