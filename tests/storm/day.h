/* tests/storm/day.h
 *
 * day: hours of normal use of a tier with the limits of a small machine: users (user.h) of every habit, objects that
 * change, nights in which hardly anything happens. Nothing is hostile, and nothing fails. The clock jumps from one
 * event to the next.
 *
 * After each hour, and in the end:
 * - nothing was refused, ended, put to an end by a wait, or found full: every such counter is zero, and no pool of a
 *   worker was fuller than DAY_FULL percent;
 * - watches received every event, leases were kept, calls answered (the users judge that);
 * - memory: the least that was in use in the hour is at most DAY_GROWTH bytes above the least of the second half of the
 *   first hour, in which all users are there. (The least, because what is under way at a moment differs; what leaks is
 *   there at all times.) The log and decoded objects, which fill up to bounds of their own, do not count. DAY_GROWTH is
 *   about twice what tables grow by until they are as large as a burst needs, and less than 50 bytes for each get of a
 *   day. After the end nothing at all may be left.
 *
 * Thread: owner. One at a time.
 */
#ifndef BELFRY_STORM_DAY_H
#define BELFRY_STORM_DAY_H

#include <stdint.h>

#include "daemon/config.h"
#include "storm/choices.h"
#include "storm/user.h"

#define DAY_FULL      10 /* percent */
#define DAY_GROWTH    ((size_t)4 << 20)
#define DAY_HOURS_MAX 96 /* certificates of the storm live for five days */

struct day_tally {
    uint64_t days, hours, turns, revisions;
    struct user_tally did;
    size_t memory;     /* of the last day: the least in its first hour */
    size_t memory_end; /* and in its last */
    unsigned fullest;  /* percent of a pool that were used, at most */
};

/* What is wrong with a day, so that it must be found (mutant.h). */
struct day_fault {
    const char *name, *finds;              /* finds: words of the finding */
    void (*change)(struct config *config); /* NULL: nothing */
    unsigned haste;                        /* user.h; 0: 1 */
    unsigned full;                         /* percent of a pool that may be used; 0: DAY_FULL */
    enum { DAY_WELL, DAY_CUT, DAY_SILENT, DAY_LEAK } what;
};

/* fault NULL: there is none. A finding ends the process (verdict.h). */
void day_run(struct choices *choices, uint64_t seed, unsigned hours, const struct day_fault *fault,
             struct day_tally *tally);

#endif
