/* src/follow/upstream_private.h: the upstream machine, as its own files see it.
 *
 *     upstream.c        what comes in, what is wanted, time
 *     upstream_lanes.c  joining, replaying, and what the lanes give to ingest
 *     upstream_list.c   listing
 *     upstream_witness.c  one key, when the overlap is compacted away
 *
 * Thread: owner.
 */
#ifndef BELFRY_FOLLOW_UPSTREAM_PRIVATE_H
#define BELFRY_FOLLOW_UPSTREAM_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/buf.h"
#include "follow/listing.h"
#include "follow/replay.h"
#include "follow/upstream.h"

/* A question of which one at a time is under way. */
struct question {
    bool wanted;
    uint64_t at;    /* not to be asked before */
    uint64_t token; /* under way; 0: not */
    bool again;     /* what was learned meanwhile asks for another one */
};

struct upstream {
    /* fixed at creation */
    struct ingest *ingest;
    struct store *store;
    struct belfry_bytes key; /* owned copy of the scope's beginning; where it ends, the owner knows */
    int64_t window, far, page;
    const struct belfry_log *log;
    /* moved by the owner */
    enum upstream_state state;
    struct replay replay;
    struct listing listing;
    enum evlog_cut_why why; /* LISTING: what the cut will tell */
    int64_t compact_rev;
    int64_t compare_at;  /* LISTING because of damage: the revision that shows whether the past is still ours; 0: it was
                             shown, or nothing can show it */
    int64_t next_window; /* REPLAYING: first revision that no lane has */
    int64_t known;       /* the highest revision upstream has shown since the last join */
    uint64_t cluster_id; /* of our past; 0: not known */
    struct question read; /* a linearizable revision: a judgement, or where a listing begins */
    int64_t floor;        /* the head when it was asked */
    int64_t shown;        /* what upstream had shown by then */
    struct question pages;
    struct question witness; /* JOINING, the overlap is compacted: one key as it was at witness_at */
    bool vouching;           /* JOINING: nothing of the live watch is taken before the witness has been heard */
    int64_t witness_at;
    struct belfry_buf witness_key, witness_kv;
    bool witness_deleted;
    bool begun;         /* LISTING: the fresh copy is there */
    uint64_t adopt_at;  /* LISTING: not to be adopted before: it was refused */
    uint64_t resume_at; /* what was refused is not tried again before */
    uint64_t last_token;
    struct belfry_backoff backoff;
    struct belfry_rng rng;
    uint64_t now;         /* of the call we are in */
    uint64_t progress_at; /* when silence is broken */
    uint64_t heard_at, ticked_at;
    uint64_t gap_until; /* after a gap: nobody is judged before; 0: none */
    bool stale;
    bool proven; /* since the last join: what upstream has was found to follow ours */
    struct upstream_stats stats;
};

static inline void question_ask(struct question *question, uint64_t at)
{
    if (!question->wanted || at < question->at)
        question->at = at;
    question->wanted = true;
}

static inline void question_forget(struct question *question)
{
    *question = (struct question){.at = question->at};
}

static inline bool question_is_due(const struct question *question, uint64_t now_ms)
{
    return question->wanted && question->token == 0 && now_ms >= question->at;
}

/* The one place that moves the state. */
void upstream_move(struct upstream *up, enum upstream_state to);
void upstream_heard(struct upstream *up);
uint64_t upstream_retry_at(struct upstream *up); /* counts a failure */

/* ---- lanes ---- */

/* Watches, at the time `at`, from where an overlap can be compared. */
void upstream_join(struct upstream *up, uint64_t at);
/* The same where it cannot, because it is compacted: from the compaction or from behind our head. */
void upstream_join_behind(struct upstream *up, int64_t compact_rev, uint64_t at);

/* What the lane begins with follows ours. The live lane, in its turn: LIVE. */
void upstream_joined(struct upstream *up, struct lane *lane);

/* Nothing was compared on it yet: is its first revision the newest that we hold events of? */
bool upstream_expects_overlap(struct upstream *up, const struct lane *lane);

/* Far behind: windows instead of the live watch. */
void upstream_replay(struct upstream *up);
void upstream_open_windows(struct upstream *up);

/* A revision of a lane that is open, for ingest or to be held; false: not taken. Likewise a progress. */
bool upstream_take(struct upstream *up, struct lane *lane, const struct ingest_revision *revision);
void upstream_take_progress(struct upstream *up, struct lane *lane, const struct belfry_wire_header *header);

/* Gives on what the front holds, lane after lane. */
void upstream_merge(struct upstream *up);

/* ---- witness ---- */

/* The overlap is compacted away, and nothing that we lack: joins behind it, and asks when the watch is there. */
void upstream_call_witness(struct upstream *up, int64_t compact_rev);
bool upstream_ask_witness(struct upstream *up, struct upstream_action *out);
void upstream_hear_witness(struct upstream *up, struct belfry_bytes response);
void upstream_witness_failed(struct upstream *up, enum belfry_err err);

/* ---- listing ---- */

/* Lists, or lists again. `because` is for the log. */
void upstream_relist(struct upstream *up, enum evlog_cut_why why, int64_t compact_rev, const char *because);
void upstream_list_again(struct upstream *up, const char *because);

/* Does it know where it began? Then a revision that was read is a judgement. */
static inline bool upstream_is_listing(const struct upstream *up)
{
    return up->state == UPSTREAM_LISTING && up->begun && up->listing.first != 0;
}

/* Where the listing begins is known: the watch first. */
void upstream_list_from(struct upstream *up, const struct belfry_wire_header *header);
void upstream_list_ended(struct upstream *up, enum belfry_err err); /* its watch, for good */
void upstream_list_revision(struct upstream *up, const struct ingest_revision *revision);
bool upstream_ask_page(struct upstream *up, struct upstream_action *out);
void upstream_page_failed(struct upstream *up, enum belfry_err err);
void upstream_adopt_if_whole(struct upstream *up);

#endif
