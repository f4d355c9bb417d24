/* bench/belfry-bench/tally.h
 *
 * tally: what each watcher has been given, against what it had to be given.
 *
 * A watcher must see the revisions of the puts that concern it, each once and in ascending order. An event that is
 * not above the watcher's last one is doubled (or out of order) and counted at once. What is lost shows at the end,
 * when all the revisions of the puts are known: a watcher with too few events has lost some, and the place of its
 * first gap says which was the first. Revisions need not be consecutive (others may write elsewhere), but then that
 * place is a guess.
 *
 * Thread: owner.
 * Memory: 24 bytes a watcher, at creation; tally_event() never allocates.
 */
#ifndef BENCH_TALLY_H
#define BENCH_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct tally_row {
    int64_t last_rev;  /* or the one behind which it began, while it has had none; 0: not known */
    int64_t gap_after; /* the first revision that was not followed by its next number; 0: no such */
    uint32_t events;
};

struct tally {
    size_t n_watchers;
    struct tally_row *rows; /* owned */
    uint64_t events, doubled;
    /* the first that was doubled */
    size_t doubled_watcher;
    int64_t doubled_rev, doubled_last;
};

void tally_init(struct tally *tally, size_t n_watchers);
void tally_fini(struct tally *tally);

/* Counts from here on: rows keep their last revision, so that order is watched over all of it. */
void tally_restart(struct tally *tally);

/* The watcher is given what is above `rev`; nothing if it has begun already. */
static inline void tally_begin(struct tally *tally, size_t watcher, int64_t rev);

/* Returns whether it was new. */
static inline bool tally_event(struct tally *tally, size_t watcher, int64_t rev);

/* Puts in ascending order of their revisions. `watchers` NULL: each concerned everyone; else the one it names, or, if
 * there is `range_of`, all watchers of the range that it names. */
struct tally_puts {
    const int64_t *revs;
    const uint32_t *watchers;
    size_t n_puts;
    const uint32_t *range_of; /* by watcher */
    size_t n_ranges;
};

/* Deliveries that all of them make. */
uint64_t tally_wanted(const struct tally *tally, const struct tally_puts *puts);

/* Deliveries that are missing. Prints the first few to `out`, and the first doubled one: which watcher, which
 * revision. `per_connection` and `per_stream` watchers say how a watcher is called. */
uint64_t tally_judge(const struct tally *tally, const struct tally_puts *puts, size_t per_connection, size_t per_stream,
                     FILE *out);

void tally_doubled(struct tally *tally, size_t watcher, int64_t rev); /* for tally_event() */

static inline void tally_begin(struct tally *tally, size_t watcher, int64_t rev)
{
    if (tally->rows[watcher].last_rev == 0)
        tally->rows[watcher].last_rev = rev;
}

static inline bool tally_event(struct tally *tally, size_t watcher, int64_t rev)
{
    struct tally_row *row = &tally->rows[watcher];
    tally->events++;
    if (rev <= row->last_rev) {
        tally_doubled(tally, watcher, rev);
        return false;
    }
    if (rev != row->last_rev + 1 && row->gap_after == 0 && row->events > 0)
        row->gap_after = row->last_rev;
    row->last_rev = rev;
    row->events++;
    return true;
}

#endif
