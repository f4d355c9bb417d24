/* src/daemon/rotation.h
 *
 * rotation: the work of one turn, divided among many. Each that wants a turn gets a slice, one after another, round
 * after round, until nobody wants more or the work is used up. The next turn begins where this one stopped, so nobody
 * waits for longer than everybody else's slices.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_DAEMON_ROTATION_H
#define BELFRY_DAEMON_ROTATION_H

#include <stdbool.h>
#include <stddef.h>

struct rotation {
    size_t next; /* who is first in the next turn */
};

struct rotation_ops {
    bool (*wants)(size_t number, void *user);
    /* Gives it a slice of `work` units, and returns what it spent. *more: it would go on now. */
    size_t (*turn)(size_t number, size_t work, bool *more, void *user);
};

/* Among n. A slice costs at least one unit, so it ends. True: the work was used up; some may want more. */
bool rotation_run(struct rotation *rotation, size_t n, size_t work, size_t slice, const struct rotation_ops *ops,
                  void *user);

#endif
