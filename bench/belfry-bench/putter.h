/* bench/belfry-bench/putter.h
 *
 * putter: writes to etcd over one connection, a bounded number of puts at a time, and remembers the revision of each.
 *
 * Thread: owner, that of its poll.
 * Memory: 16 bytes a put, at creation.
 */
#ifndef BENCH_PUTTER_H
#define BENCH_PUTTER_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"
#include "load.h"
#include "tally.h"
#include "target.h"

#define PUTTER_CALLS 256 /* the most that can be under way */

struct putter_opts {
    struct target target;
    struct load load;
    size_t value_bytes; /* PUT_TIME_BYTES and up; of an object: of its spec */
    size_t max_puts;
    size_t in_flight;          /* at most PUTTER_CALLS / 2 */
    size_t n_watchers;         /* distinct load: the puts go round these, spread evenly */
    struct belfry_bytes token; /* lent for the opening; empty: none */
};

struct putter {
    struct putter_opts opts;
    struct h2conn *conn; /* owned */
    char *message;       /* owned; the PutRequest under construction */
    char *value;         /* owned; the value that goes into it */
    size_t sent, answered;
    int64_t *revs;      /* owned; of each put; 0: no answer yet */
    uint32_t *watchers; /* owned; distinct load: whom each put concerns; of a fleet: which range; else NULL */
    struct histogram latency;
    char fault[256]; /* what broke it; "" if nothing has */
    uint64_t sent_at[PUTTER_CALLS];
    size_t put_of[PUTTER_CALLS]; /* which put a call is, by its number % PUTTER_CALLS */
};

void putter_open(struct putter *putter, int poll, const struct putter_opts *opts);
void putter_close(struct putter *putter);

/* Forgets the puts made so far, which must all have been answered. */
void putter_restart(struct putter *putter);

/* Sends one more, unless too many are under way; returns whether it did. */
bool putter_put(struct putter *putter);

/* The puts in the order of their revisions; all must have been answered. Lent until the next call to the putter. */
struct tally_puts putter_puts(struct putter *putter);

#endif
