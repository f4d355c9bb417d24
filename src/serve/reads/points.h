/* src/serve/reads/points.h
 *
 * points: the revisions that upstream has reached (follow/readpoint.h), for the linearizable reads of one worker.
 *
 * One question of a worker is away at a time. It answers the waits that began before it was sent upstream; those that
 * come later are answered by the next. So a worker with a thousand reads has two.
 *
 * Thread: owner (the worker's). Answers come from the loop, never from inside points_wait().
 */
#ifndef BELFRY_SERVE_READS_POINTS_H
#define BELFRY_SERVE_READS_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"

struct point {
    enum belfry_err err; /* not BELFRY_OK: the tier cannot ask, and the read is to be relayed (follow/readpoint.h) */
    int64_t rev;         /* the store has it, and upstream had it after the question was sent */
    uint64_t past;       /* of which it is */
};

/* Who asks upstream, on another thread. Wired by the daemon. `back` comes once for each ask(), on this thread, never
 * from inside it; when nothing is followed any more it does not come. One ask at a time. */
struct points_source {
    void (*ask)(struct points_source *source, size_t n); /* for so many waits, or as if for a crowd */
    bool (*join)(struct points_source *source); /* one wait more for the ask under way; false: it was sent upstream */
    void (*back)(const struct point *point, void *user); /* set by points_create(), as `user` */
    void *user;
};

struct points;
BELFRY_NODISCARD enum belfry_err points_create(struct points_source *source, struct points **out);
void points_destroy(struct points *points); /* after the last wait; NULL is fine */

/* Embedded in what waits. */
struct point_wait {
    struct belfry_list node;
    void (*told)(struct point_wait *wait, const struct point *point);
};
void point_wait_init(struct point_wait *wait, void (*told)(struct point_wait *wait, const struct point *point));
void points_wait(struct points *points, struct point_wait *wait);
void point_wait_end(struct point_wait *wait); /* it is not told any more; twice is fine */

/* Reads that were told wait for time of this thread: to ask less often costs them nothing, so a question counts as one
 * of a crowd (READPOINT_CROWD). */
void points_set_busy(struct points *points, bool is_busy);

#endif
