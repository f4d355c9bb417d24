/* src/cli/verify/verify_judge.h
 *
 * verify_judge: whether watchers were given what the reference was given.
 *
 * The reference's revisions go in, in order; what each watcher was given goes in, a case for each watch; out come
 * violations. Neither side need be ahead: what a watcher was given before the reference has told of it is held, one
 * revision a case, and judged when the reference has come that far. The reference's newest revisions are kept, up to a
 * number of bytes; what a watcher had not been given when it fell out is counted and not judged.
 *
 * A case is catching up until it has once been given all that the reference has told; from then on it is live, and
 * only then are its events a measure of lag. An event is overdue when a live case has not been given it max_lag after the
 * reference; a case that is catching up, or resumes after it has lost its connection, when it has been given nothing new
 * for so long. Without a connection nothing is overdue: that nobody answers is no secret, and is told as what it is. Who
 * asks sees to it that the event is not waiting in a socket of this process.
 *
 * Thread: owner. Pure: no clock, no I/O.
 * Memory: the window and one revision a case.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_JUDGE_H
#define BELFRY_CLI_VERIFY_VERIFY_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include <belfry/belfry.h>

#include "cli/verify/verify_lag.h"
#include "cli/verify/verify_range.h"
#include "cli/verify/verify_rev.h"
#include "cli/verify/verify_violation.h"

struct verify_judge;
struct verify_case;

struct verify_judge_opts {
    size_t window_bytes; /* the newest revision is kept whatever its size */
    int64_t max_lag_us;
    verify_blame_fn blame;
    void *user;
};

struct verify_numbers {
    uint64_t n_revisions;                /* told by the reference */
    uint64_t n_events;                   /* given to watchers and found at the reference */
    uint64_t n_prev_same, n_prev_absent; /* prev_kv: compared; missing where the reference has it */
    uint64_t n_progress;
    uint64_t n_not_judged; /* events: they had left the window, or were older than it */
    uint64_t n_gaps;       /* times the reference itself lost history */
    int64_t cut_us;        /* the longest that a case was without a connection */
    struct verify_lag lag; /* of live cases, an event a sample */
};

BELFRY_NODISCARD enum belfry_err verify_judge_create(const struct verify_judge_opts *opts, struct verify_judge **out);
/* Its cases end with it. NULL is fine. */
void verify_judge_destroy(struct verify_judge *judge);
const struct verify_numbers *verify_judge_numbers(const struct verify_judge *judge); /* lent while the judge lives */

/* ---- the reference ---- */

/* It tells everything from revision `first` on. Again: what was told before is forgotten, and cases are judged from
 * there on; that is a gap, when anything had been told. */
void verify_judge_begin(struct verify_judge *judge, int64_t first);
/* One revision, newer than any before; consumed, on failure too. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err verify_judge_reference(struct verify_judge *judge, struct verify_rev *rev);
/* It has told everything up to `rev`. */
void verify_judge_reference_at(struct verify_judge *judge, int64_t rev);
/* A linearizable read of the cluster, begun at asked_us, found revision `rev`: who was given something newer before that
 * was given what has not happened. */
void verify_judge_cluster_at(struct verify_judge *judge, int64_t rev, int64_t asked_us);
/* Whatever is due is due from now on: this process itself was held up. */
void verify_judge_excuse(struct verify_judge *judge, int64_t now_us);
/* Nothing more will come. What a watcher was given before the reference shows what it was not given before that; itself
 * it is counted as not judged, up to revision `rev`. */
void verify_judge_end(struct verify_judge *judge, int64_t rev, int64_t now_us);

int64_t verify_judge_first(const struct verify_judge *judge); /* the oldest revision that can be judged */
int64_t verify_judge_head(const struct verify_judge *judge);  /* everything up to here has been told */
/* An event in the window, the same for the same number; NULL: there is none. */
const struct verify_event *verify_judge_pick(const struct verify_judge *judge, uint64_t number);

/* ---- previous values that are missing ---- */

/* etcd, and who stands before it, leaves a previous value out when the revision before the event has been compacted by the
 * time it is sent. So a watcher may lack what the reference was given in time. The newest such event decides: when the
 * cluster has compacted the revision before it, that explains it and all before it. */
enum verify_compacted { VERIFY_COMPACTED, VERIFY_READABLE, VERIFY_NOBODY_KNOWS };

/* The event's revision, to be answered once; 0: there is nothing to ask, or the last answer has not come. */
int64_t verify_judge_ask_prev(struct verify_judge *judge);
/* How it is with the revision before. READABLE: blamed. NOBODY_KNOWS: to be asked again. */
void verify_judge_answer_prev(struct verify_judge *judge, enum verify_compacted answer);
bool verify_judge_doubts_prev(const struct verify_judge *judge); /* something is to be asked, or has been */

/* ---- cases ---- */

struct verify_spec {
    unsigned watcher;
    struct belfry_range range; /* lent while the case lives */
    int64_t start;             /* the revision it was asked from; at least 1 */
    int64_t newest;            /* where the cluster was: what is not newer is a replay, and no measure of lag */
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
void verify_case_take(struct verify_case *c, struct verify_rev *given, int64_t header_rev);
void verify_case_progress(struct verify_case *c, int64_t rev, int64_t header_rev, int64_t now_us);
/* For what is known outside: .watcher is filled in. */
void verify_case_blame(const struct verify_case *c, enum verify_property property, int64_t rev, const char *expected,
                       const char *came);

/* It was told whether there is a connection to its server. */
void verify_case_link(struct verify_case *c, enum verify_link link, int64_t now_us);

/* Blames what is overdue. True: it is given up. */
bool verify_case_overdue(struct verify_case *c, int64_t now_us);
bool verify_case_cut(const struct verify_case *c); /* it has no connection */
bool verify_case_given_up(
    const struct verify_case *c);                    /* it was blamed for what it cannot recover from: to be closed */
bool verify_case_ahead(const struct verify_case *c); /* holds what the reference has not told yet: let it wait */
/* Has been given all up to `rev` that the reference has told, and nothing that it has not. */
bool verify_case_complete(struct verify_case *c, int64_t rev);
bool verify_case_live(const struct verify_case *c);
int64_t verify_case_next(const struct verify_case *c); /* the first revision it has not been given, as it was told */

#endif
