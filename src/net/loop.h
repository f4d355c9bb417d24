/* src/net/loop.h
 *
 * loop: a libuv loop behind ONE descriptor, so that any other loop can drive it.
 *
 * libuv's backend descriptor does not tell of timers, and not of handles whose registration libuv has put off; behind
 * ours, an epoll holds the backend descriptor and a timerfd that is set after each turn to libuv's next timeout. It is
 * readable when, and only when, a turn has something to do.
 *
 * Thread: owner.
 */
#ifndef BELFRY_NET_LOOP_H
#define BELFRY_NET_LOOP_H

#include <uv.h>

#include "base/err.h"

struct belfry_loop;

/* Errors: BELFRY_ERR_LIMIT (no descriptors), BELFRY_ERR_NOMEM, BELFRY_ERR_IO. */
BELFRY_NODISCARD enum belfry_err belfry_loop_create(struct belfry_loop **out);

/* Runs what handles still need to finish closing, then frees. Every handle has been closed or asked to. NULL is fine.
 */
void belfry_loop_destroy(struct belfry_loop *loop);

uv_loop_t *belfry_loop_uv(struct belfry_loop *loop);
int belfry_loop_fd(const struct belfry_loop *loop);

/* One turn that never blocks. Errors: BELFRY_ERR_IO. */
BELFRY_NODISCARD enum belfry_err belfry_loop_dispatch(struct belfry_loop *loop);

/* Whatever was armed outside a turn (a timer started by a public call, say) is made visible to the descriptor. */
void belfry_loop_rearm(struct belfry_loop *loop);

/* Makes the descriptor readable until the next dispatch. From any thread, and from a signal handler; the loop must not
 * be destroyed meanwhile. */
void belfry_loop_wake(struct belfry_loop *loop);

/* Waits until the descriptor is readable, at most timeout_ms (-1: for ever).
 * Errors: BELFRY_ERR_TIMEOUT, BELFRY_ERR_IO. A signal counts as readable. */
BELFRY_NODISCARD enum belfry_err belfry_loop_wait(struct belfry_loop *loop, int timeout_ms);

#endif
