/* tests/sim/judge.h
 *
 * judge: does what a watch was given agree with one past of the history? The checker asks it for every past that the
 * watch may belong to.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_SIM_JUDGE_H
#define BELFRY_SIM_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "sim/history.h"

/* What is known of a watch before the delivery that is judged. */
struct judge_watch {
    uint64_t puts, deletes; /* keys whose events it wants */
    bool prev_kv;
    int64_t start;      /* nothing below may come */
    int64_t next;       /* all that it wants below this has been given, or was not asked for */
    bool lines;         /* a revision comes event by event */
    unsigned pin;       /* of lines (dialect.h); 0: none */
    size_t given;       /* of lines: so many events of revision `next` that it wants have been given */
    bool resumed;       /* of lines: it began by resuming from `start`, and nothing has come since */
    bool has_all;       /* resumed: its client has all of `start` that it wants */
    int64_t prev_floor; /* at or below, a previous value may be missing */
};

enum fault {
    FAULT_NONE,
    FAULT_GARBLED,      /* not an Event */
    FAULT_OUT_OF_RANGE, /* a key that was not asked for */
    FAULT_FILTERED,     /* a type that was filtered out, or a value that was not pinned */
    FAULT_BELOW_START,
    FAULT_UNWRITTEN, /* above the head */
    FAULT_INVENTED,  /* no such event in that revision */
    FAULT_BYTES,     /* it happened, but not like this */
    FAULT_PREV_WRONG,
    FAULT_PREV_MISSING,
    FAULT_PREV_UNASKED,
    FAULT_AGAIN,   /* at or below what was given: twice, or back in time */
    FAULT_SWAPPED, /* out of order in its revision */
    FAULT_MISSING, /* something before it was left out */
    FAULT_SPLIT,   /* the response ends inside a revision */
    FAULT_HEADER,  /* header.revision is below the last event, or above the head; of a line: not its own */
    FAULT_PROGRESS /* progress beyond what was given */
};

struct verdict {
    enum fault fault;
    size_t agreed;                    /* events before the fault: how near a past came */
    int64_t rev;                      /* given; 0: not known */
    int key;                          /* given; -1: not known */
    const struct history_event *want; /* what should have come; NULL: nothing, or not known */
    size_t prev_missing;              /* rightly */
    int64_t head;
};

/* What is to be expected of a watch that has resumed, given that what comes next is of revision `rev` or later: all of
 * `start` again, or nothing of it. Nothing is right if its client can have missed none; all of it, if the revision has
 * several events, so that a server cannot know. Others are returned as they are. */
struct judge_watch judge_resumed(const struct history *history, unsigned past, const struct judge_watch *watch,
                                 int64_t rev);

/* Judges a whole response: `events` are raw Events. True: it agrees, up to the last event's revision. */
bool judge_events(const struct history *history, unsigned past, const struct judge_watch *watch,
                  const struct belfry_bytes *events, size_t n, int64_t header_rev, struct verdict *out);

/* Has all up to `rev` been given? */
bool judge_progress(const struct history *history, unsigned past, const struct judge_watch *watch, int64_t rev,
                    struct verdict *out);

/* The first event in [watch->next, to] that the watch wants and was not given; NULL: none. */
const struct history_event *judge_first(const struct history *history, unsigned past, const struct judge_watch *watch,
                                        int64_t to);

/* Of lines: has the revision that is being given events behind the last one given, wanted or not? */
bool judge_is_inside(const struct history *history, unsigned past, const struct judge_watch *watch);

/* The verdict as a part of a sentence. Returns `text`. */
const char *judge_sentence(const struct history *history, const struct verdict *verdict, char *text, size_t size);

/* A key for people: printable, and short. Returns `text`. */
const char *judge_key_text(struct belfry_bytes key, char *text, size_t size);

#endif
