/* src/cli/verify/verify_judge.h
 *
 * verify_judge: whether watchers of the tier are sent what the reference is sent, and in time.
 *
 * The reference's revisions go in, in order, and so does what each watcher is sent: one case per watch. Violations come
 * out; judge/ finds them. Either side may be ahead. What a watcher is sent before the reference is held, one revision
 * per case, until the reference has come that far. The newest revisions of the reference are kept, up to a number of
 * bytes; what a watcher had not been sent when they left is counted, and not judged.
 *
 * A case catches up until it has been sent all that the reference has told. From then on it is live, and only then do
 * its events measure lag. An event is overdue when:
 * - a live case has not been sent it max_lag after the reference;
 * - a case that catches up, or resumes after it lost its connection, has been sent nothing new for max_lag.
 * Without a connection nothing is overdue: a lost connection is reported as what it is. The caller makes sure that the
 * event does not wait in a socket of this process.
 *
 * Thread: owner. Pure: no clock, no I/O.
 * Memory: the window and one revision per case.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_JUDGE_H
#define BELFRY_CLI_VERIFY_VERIFY_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include <belfry/belfry.h>

#include "cli/verify/verify_lag.h"
#include "cli/verify/verify_range.h"
#include "judge/judge.h"

struct verify_judge;
struct verify_case;

struct verify_judge_opts {
    size_t window_bytes; /* the newest revision is kept whatever its size */
    int64_t max_lag_us;
    judge_blame_fn blame;
    void *user;
};

struct verify_numbers {
    uint64_t n_revisions;                /* told by the reference */
    uint64_t n_events;                   /* sent to watchers and found at the reference */
    uint64_t n_prev_same, n_prev_absent; /* prev_kv: compared; missing where the reference has it */
    uint64_t n_progress;
    uint64_t n_not_judged; /* events: they had left the window, or were older than it */
    uint64_t n_gaps;       /* times the reference itself lost history */
    int64_t cut_us;        /* the longest that a case was without a connection */
    struct verify_lag lag; /* of live cases, one sample per event */
};

BELFRY_NODISCARD enum belfry_err verify_judge_create(const struct verify_judge_opts *opts, struct verify_judge **out);
/* Its cases end with it. NULL is fine. */
void verify_judge_destroy(struct verify_judge *judge);
const struct verify_numbers *verify_judge_numbers(const struct verify_judge *judge); /* lent while the judge lives */

/* ---- the reference ---- */

/* It tells everything from revision `first` on. Called again, it forgets what was told before, and cases are judged
 * from there on; this counts as a gap if anything had been told. */
void verify_judge_begin(struct verify_judge *judge, int64_t first);
/* One revision, newer than any before; consumed, on failure too. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err verify_judge_reference(struct verify_judge *judge, struct judge_rev *rev);
/* It has told everything up to `rev`. */
void verify_judge_reference_at(struct verify_judge *judge, int64_t rev);
/* A linearizable read of the cluster, begun at asked_us, found revision `rev`: newer revisions that came before
 * asked_us have not happened. */
void verify_judge_cluster_at(struct verify_judge *judge, int64_t rev, int64_t asked_us);
/* This process itself was held up: the time for whatever is due begins now. */
void verify_judge_excuse(struct verify_judge *judge, int64_t now_us);
/* Nothing more will come. A revision that is held shows what was left out before it; itself it counts as not judged, if
 * it is at most `rev`. */
void verify_judge_end(struct verify_judge *judge, int64_t rev, int64_t now_us);

int64_t verify_judge_first(const struct verify_judge *judge); /* the oldest revision that can be judged */
int64_t verify_judge_head(const struct verify_judge *judge);  /* everything up to here has been told */
/* An event in the window, the same for the same number; NULL: there is none. */
const struct judge_event *verify_judge_pick(const struct verify_judge *judge, uint64_t number);

/* ---- previous values that are missing ---- */

/* etcd, and a tier before it, leaves a previous value out when the revision before the event has been compacted by the
 * time it is sent. So a watcher may lack what the reference was sent in time. The newest such event decides: if the
 * cluster has compacted the revision before it, that explains it and all older ones. */
enum verify_compacted { VERIFY_COMPACTED, VERIFY_READABLE, VERIFY_NOBODY_KNOWS };

/* The event's revision, to be answered once; 0: there is nothing to ask, or the last answer has not come. */
int64_t verify_judge_ask_prev(struct verify_judge *judge);
/* Whether the revision before it is compacted. READABLE: a violation. NOBODY_KNOWS: ask again. */
void verify_judge_answer_prev(struct verify_judge *judge, enum verify_compacted answer);
bool verify_judge_doubts_prev(const struct verify_judge *judge); /* something is to be asked, or has been */

/* ---- cases ---- */

struct verify_spec {
    unsigned watcher;
    struct belfry_range range; /* lent while the case lives */
    int64_t start;             /* the revision it was asked from; at least 1 */
    int64_t newest; /* where the cluster was: an event that is not newer is a replay, and does not measure lag */
    bool prev_kv;
};

/* For people: prefix "/a/" from revision 48120701, prev-kv */
#define VERIFY_SPEC_TEXT (VERIFY_RANGE_TEXT + 64)
void verify_spec_text(const struct verify_spec *spec, char out[VERIFY_SPEC_TEXT]);

enum verify_link { VERIFY_CUT, VERIFY_CONNECTED };

/* Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err verify_case_open(struct verify_judge *judge, const struct verify_spec *spec,
                                                  int64_t now_us, struct verify_case **out);
void verify_case_close(struct verify_case *c); /* NULL is fine */

/* A batch of changes; consumed. Not while verify_case_ahead(). */
void verify_case_take(struct verify_case *c, struct judge_rev *given, int64_t header_rev);
void verify_case_progress(struct verify_case *c, int64_t rev, int64_t header_rev, int64_t now_us);
/* Reports what the caller has found. */
void verify_case_blame(const struct verify_case *c, enum judge_property property, int64_t rev, const char *expected,
                       const char *came);

/* Whether there is a connection to its server has changed. */
void verify_case_link(struct verify_case *c, enum verify_link link, int64_t now_us);

/* Reports what is overdue. True: the case is given up. */
bool verify_case_overdue(struct verify_case *c, int64_t now_us);
bool verify_case_cut(const struct verify_case *c);      /* it has no connection */
bool verify_case_given_up(const struct verify_case *c); /* it cannot recover from a violation: close it */
bool verify_case_ahead(
    const struct verify_case *c); /* holds a revision that the reference has not told yet: pause it */
/* Has been sent all up to `rev` that the reference has told, and nothing that the reference has not. */
bool verify_case_complete(struct verify_case *c, int64_t rev);
bool verify_case_live(const struct verify_case *c);
int64_t verify_case_next(const struct verify_case *c); /* the first revision it has not been sent */

#endif
