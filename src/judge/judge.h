/* src/judge/judge.h
 *
 * judge: whether what a watch was sent agrees with a reference history.
 *
 * The reference is a history of revisions that the user keeps: belfryctl verify has what a second watch was sent, the
 * simulator has every past of its cluster. A watch has asked for some of the events, from a revision on. Each revision
 * that it is sent goes through two functions, and so does each progress:
 *
 *     judge_arrival()     what can be judged without the reference
 *     judge_revision()    the comparison, as soon as the reference is known that far
 *
 * Every violation is reported, and judging continues: what has been reported as lost is not due any more. A user that
 * tries several references judges a copy of the watch for each.
 *
 * Left to the users: time and lateness, connections, and what may excuse a loss (compaction, a rewritten past).
 *
 * Thread: owner. Pure: no clock, no I/O.
 * Memory: none of its own.
 */
#ifndef BELFRY_JUDGE_JUDGE_H
#define BELFRY_JUDGE_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include <belfry/belfry.h>

#include "judge/judge_rev.h"

/* ---- violations ---- */

/* The first nine are what etcd promises of a watch, and what its own robustness suite checks. The others follow from
 * them for a server between etcd and its clients. */
/* clang-format off */
#define JUDGE_PROPERTIES(X) \
    X(FILTER,       "filter",       "an event outside the range") \
    X(ORDERED,      "ordered",      "events older than those before, or not in the order of their transaction") \
    X(UNIQUE,       "unique",       "the same key at the same revision again") \
    X(ATOMIC,       "atomic",       "a revision that is not whole, or two in one") \
    X(BOOKMARKABLE, "bookmarkable", "an event at or below a progress before it, or a progress that goes back") \
    X(RESUMABLE,    "resumable",    "the first event is not the first since the start") \
    X(IS_CREATE,    "is_create",    "an event that says the key was created when it was there, or the reverse") \
    X(RELIABLE,     "reliable",     "an event that was left out, or one that never happened") \
    X(PREV_KV,      "prev_kv",      "a previous value that is wrong, is missing, or was not asked for") \
    X(PROGRESS,     "progress",     "progress to a revision while an event at or below it was not sent") \
    X(CONTENT,      "content",      "a wrong value, version, lease or revision") \
    X(HEADER,       "header",       "a header older than the events below it, or of another cluster") \
    X(END,          "end",          "an end that the reference knows no reason for") \
    X(ALIVE,        "alive",        "an event that did not come in time, although there was a connection")
/* clang-format on */
#define JUDGE_PROPERTY_ENUM(name, word, sentence) JUDGE_##name,
enum judge_property { JUDGE_PROPERTIES(JUDGE_PROPERTY_ENUM) JUDGE_N_PROPERTIES };

const char *judge_property_word(enum judge_property property);
const char *judge_property_sentence(enum judge_property property);

/* Lent for the call that brings it. */
struct judge_violation {
    enum judge_property property;
    unsigned watcher;        /* its number */
    int64_t rev;             /* where */
    struct belfry_bytes key; /* empty: none in particular */
    const char *expected, *came;
    const char *asked; /* what the watcher had asked for, for people; NULL: the same as now */
};

typedef void (*judge_blame_fn)(const struct judge_violation *violation, void *user);

/* ---- the two sides ---- */

struct judge_reference {
    /* The first revision in [from, to] that may have events for the watch; NULL: none. */
    const struct judge_rev *(*next)(const void *user, int64_t from, int64_t to);
    const void *user;
};

struct judge_watch {
    /* fixed when the watch begins */
    unsigned number;           /* of the watcher, for violations */
    struct belfry_range range; /* lent */
    bool no_put, no_delete, prev_kv;
    bool piecewise; /* a revision may come in pieces, event by event */
    /* A further condition for events of the reference; NULL: none. */
    bool (*picks)(const struct judge_event *event, unsigned pin);
    unsigned pin;
    int64_t start; /* nothing below may come */
    judge_blame_fn blame;
    void *user;
    /* moved by the functions below; `next` begins at start */
    int64_t next;     /* the first revision of which events may still be due */
    size_t sent;      /* piecewise: how many wanted events of `next` have come */
    int64_t last_rev; /* the newest revision that came; 0: none */
    int64_t progress; /* the newest that came; 0: none */
    bool any;         /* a revision has been compared */
    bool whole;       /* the last one had all its events */
};

bool judge_range_has(const struct belfry_range *range, struct belfry_bytes key);

/* How many events of a revision of the reference the watch wants. */
size_t judge_count(const struct judge_watch *watch, const struct judge_rev *rev);
/* Piecewise: the index in `rev` after the last event that came; 0: none of it came. */
size_t judge_place(const struct judge_watch *watch, const struct judge_rev *rev);
/* The first event of the reference up to revision `to` that the watch wants and has not been sent; NULL: none. */
const struct judge_event *judge_first(const struct judge_watch *watch, const struct judge_reference *reference,
                                      int64_t to);

/* ---- judging ---- */

/* A revision came. False: it may not come now, and is not to be compared; the violation has been reported. */
bool judge_arrival(struct judge_watch *watch, const struct judge_rev *given, int64_t header_rev);

/* Counted up by judge_revision(). */
struct judge_found {
    uint64_t n_events;                     /* found on both sides */
    uint64_t n_prev_same, n_prev_absent;   /* with prev_kv: on both sides; only in the reference */
    const struct judge_event *prev_absent; /* the newest of the latter, in the reference; NULL: none. The user decides
                                              whether a compaction explains it */
};

/* The reference is known up to given->rev: reports what was left out before it, and every difference. */
void judge_revision(struct judge_watch *watch, const struct judge_reference *reference, const struct judge_rev *given,
                    struct judge_found *found);
/* Only what was left out before revision `rev`, which came. */
void judge_skipped(struct judge_watch *watch, const struct judge_reference *reference, int64_t rev);

/* A progress came. False: it goes back; the violation has been reported. */
bool judge_progress_arrival(struct judge_watch *watch, int64_t rev, int64_t header_rev);
/* The reference is known up to `rev`. */
void judge_progress(struct judge_watch *watch, const struct judge_reference *reference, int64_t rev);

/* What is due up to revision `to`, and is not due any more after this call. */
struct judge_lost {
    size_t n; /* events */
    int64_t first_rev, last_rev;
    const struct judge_event *first; /* in the reference */
};
struct judge_lost judge_lose(struct judge_watch *watch, const struct judge_reference *reference, int64_t to);

/* Reports a violation of this watch that was found elsewhere. `came` is a format. */
void judge_blame(const struct judge_watch *watch, enum judge_property property, int64_t rev, struct belfry_bytes key,
                 const char *expected, const char *came, ...) __attribute__((format(printf, 6, 7)));

#endif
