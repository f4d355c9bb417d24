/* src/follow/replay.h
 *
 * replay: the watches of the upstream machine, each a lane, in the order in which their revisions are to be merged.
 *
 *     front                                               slot 0: no end
 *     | 101 .. 1100 |  1100 .. 2100  |  2100 .. 3100  | ... | 7100 ..
 *       given on      held              held                  held
 *
 * What comes on the front lane goes on immediately; what comes on a lane behind it is held, copied, until its turn.
 * Every lane starts one revision early, at the last one of the lane before it: so each join is an overlap that can be
 * compared, and windows served by members of different pasts are found out. Near the head there is one lane: slot 0.
 *
 * Thread: owner. Pure.
 * Memory: what is held is bounded by max_bytes together; at the bound a lane is paused. The front holds nothing new, so
 * it can always go on.
 */
#ifndef BELFRY_FOLLOW_REPLAY_H
#define BELFRY_FOLLOW_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "follow/upstream.h"

#define REPLAY_LANES  (UPSTREAM_WINDOWS + 1)
#define REPLAY_NO_END INT64_MAX

/* IDLE -> WANTED -> OPEN -> ENDED; closed from any. */
enum lane_state { LANE_IDLE, LANE_WANTED, LANE_OPEN, LANE_ENDED };

struct lane {
    struct belfry_list order; /* in replay.order while it is not IDLE */
    struct belfry_list held;  /* of struct held, ascending */
    enum lane_state state;
    uint64_t wanted_at;    /* WANTED: not to be opened before */
    int64_t start, end;    /* revisions of the watch: [start, end) */
    bool created;          /* its first created answer has come: another one is a resume */
    bool joined;           /* what it begins with was found to follow ours */
    bool close_owed;       /* the owner still has a watch in this slot, which is not this one any more */
    bool paused, told;     /* wanted, and what the owner knows */
    bool refused;          /* the owner keeps a revision that was not taken */
    size_t needs;          /* bytes of it, if that is why */
    enum belfry_err ended; /* ENDED: why */
    int64_t compact_rev;
    struct belfry_wire_header progress; /* of the newest progress that was not given on; revision 0: none */
};

/* A revision that waits for its turn. */
struct held {
    struct belfry_list node;
    size_t bytes; /* of the allocation */
    struct ingest_revision revision;
    struct belfry_wire_event events[]; /* their bytes behind them */
};

struct replay {
    struct lane lanes[REPLAY_LANES];
    struct belfry_list order;
    size_t bytes, max_bytes;
};

void replay_init(struct replay *replay, size_t max_bytes);
void replay_fini(struct replay *replay);

struct lane *replay_front(const struct replay *replay); /* NULL: no lane */
unsigned replay_slot(const struct replay *replay, const struct lane *lane);

/* A slot for one more window; 0: all are taken. */
unsigned replay_free_slot(const struct replay *replay);

/* Wants a watch of [start, end), behind all others. The slot is idle. */
void replay_open(struct replay *replay, unsigned slot, int64_t start, int64_t end, uint64_t at_ms);
void replay_close(struct replay *replay, struct lane *lane);
void replay_close_all(struct replay *replay);

/* Copies a revision behind what the lane holds. Errors: BELFRY_ERR_LIMIT (no room: the lane is paused now),
 * BELFRY_ERR_NOMEM (likewise). */
BELFRY_NODISCARD enum belfry_err replay_hold(struct replay *replay, struct lane *lane,
                                             const struct ingest_revision *revision);
struct held *replay_held(const struct lane *lane); /* the first; NULL: none */
void replay_drop(struct replay *replay, struct held *held);

/* A revision was not taken: the owner keeps it. */
void replay_refuse(struct lane *lane);

/* Resumes the lanes for which there is room. */
void replay_resume(struct replay *replay);

/* What the owner is to do next: CLOSE, WATCH, PAUSE, RESUME; false: nothing. */
bool replay_next(struct replay *replay, uint64_t now_ms, struct upstream_action *out);
uint64_t replay_due(const struct replay *replay);

#endif
