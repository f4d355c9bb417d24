/* src/cli/verify/verify_judge_private.h: what verify_judge.c and verify_case.c share. Thread: owner. */
#ifndef BELFRY_CLI_VERIFY_VERIFY_JUDGE_PRIVATE_H
#define BELFRY_CLI_VERIFY_VERIFY_JUDGE_PRIVATE_H

#include "cli/verify/verify_judge.h"
#include "cli/verify/verify_prev.h"
#include "cli/verify/verify_window.h"

struct verify_judge {
    struct verify_judge_opts opts;
    struct verify_window window;
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
    int64_t judged_from; /* the window began here when it was opened */
    uint64_t at;         /* the place in the window of the first revision that was not looked at for this case */
    /* what it was given */
    bool given;       /* anything */
    bool whole;       /* the newest revision was complete */
    int64_t last_rev; /* the newest */
    int64_t progress;
    int64_t active_us; /* when something new came last */
    int64_t cut_us;    /* since then there is no connection; 0: there is one, as far as it was told */
    bool resuming;     /* since it was connected it has not been given all there is */
    /* what it was given before the reference: first the progress, then the revision */
    int64_t held_progress; /* 0: none */
    int64_t held_us;       /* when the progress came */
    struct verify_rev *held;
    /* how far behind */
    bool live;
    bool given_up;
    int64_t open_rev; /* what there was when it was opened */
};

/* The reference has told more: judges what was held for that. */
void verify_case_settle(struct verify_case *c);
/* The revision at `place` is about to leave the window. */
void verify_case_pass(struct verify_case *c, uint64_t place);
/* The reference will tell no more. */
void verify_case_end(struct verify_case *c, int64_t rev, int64_t now_us);
void verify_case_cluster_at(struct verify_case *c, int64_t rev, int64_t asked_us);

#endif
