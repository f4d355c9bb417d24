/* src/cli/verify/verify_judge_private.h: the structs of verify_judge.c, for it and its suites. Thread: owner. */
#ifndef BELFRY_CLI_VERIFY_VERIFY_JUDGE_PRIVATE_H
#define BELFRY_CLI_VERIFY_VERIFY_JUDGE_PRIVATE_H

#include "cli/verify/verify_judge.h"
#include "judge/judge_rev.h"

#define PREV_KEY 256 /* a longer key is cut */

/* The newest revisions of the reference, in order. A place is the number of revisions that were added before:
 * [first, next) are held. The window does not bound itself: the judge drops the oldest, after it has counted what that
 * means for each case. */
struct verify_window {
    struct judge_rev **slots; /* owned, and what they point at; a place p is at p & (n_slots - 1) */
    size_t n_slots;           /* a power of two, or 0 */
    uint64_t first, next;     /* places */
    size_t bytes;             /* of all revisions held */
};

/* A previous value that a watcher was not sent although the reference was, kept until it is known whether a compaction
 * explains that. A copy: by then the event may have left the window. */
struct verify_prev {
    int64_t rev; /* of the event; 0: there is none */
    unsigned watcher;
    size_t key_len;
    char key[PREV_KEY], expected[JUDGE_TEXT], asked[VERIFY_SPEC_TEXT];
};

struct verify_judge {
    struct verify_judge_opts opts;
    struct verify_window window;
    struct judge_reference reference;  /* the window */
    int64_t first, head;               /* [first, head] is what can be judged */
    bool told;                         /* something since verify_judge_begin() */
    int64_t excused_us;                /* nothing is due before this and max_lag */
    struct verify_case *cases;         /* owned: a list, since there are few */
    struct verify_prev missing, asked; /* previous values: the newest not asked about, and the one that is */
    struct verify_numbers numbers;
};

struct verify_case {
    struct verify_judge *judge;
    struct verify_case *next, **link; /* link: what points at this one */
    struct verify_spec spec;
    struct judge_watch watch;
    int64_t judged_from; /* the window began here when the case was opened */
    int64_t active_us;   /* when something new came last */
    int64_t cut_us;      /* since then there is no connection; 0: there is one, as far as is known */
    bool resuming;       /* since it was connected it has not been sent all there is */
    /* what came before the reference: first the progress, then the revision */
    int64_t held_progress; /* 0: none */
    int64_t held_us;       /* when the progress came */
    struct judge_rev *held;
    /* how far behind */
    bool live;
    bool given_up;
    int64_t open_rev; /* where the cluster was when the case was opened */
};

#endif
