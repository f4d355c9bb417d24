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

/* Turns a loop whose handles are all closed, or closing, to its end, and closes it. */
void threads_end_loop(uv_loop_t *loop);

#endif
