/* bench/belfry-bench/readers.h
 *
 * readers: connections with so many readers each. A reader has one Range under way and asks the next when that is
 * answered. It reads one key, chosen at random, or the first keys of the prefix, or the whole prefix page by page: all
 * pages at the revision of the first, then from the start again. An answer without the keys that must be in it is a
 * failure.
 *
 * Thread: owner, that of its poll.
 * Memory: about 1 KiB per reader, and one answer for each.
 */
#ifndef BENCH_READERS_H
#define BENCH_READERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "load.h"
#include "outcome.h"
#include "target.h"

enum readers_what { READERS_KEY, READERS_RANGE, READERS_PAGES };

struct readers_opts {
    struct target target;
    struct load load; /* a key for each number below n_keys */
    size_t n_keys;
    enum readers_what what;
    size_t limit; /* keys of a range or of a page */
    bool serializable;
    size_t n_conns, n_readers; /* n_readers: of a connection */
    uint64_t seed;             /* of the keys that are read */
};

struct readers_seat;

struct readers {
    struct readers_opts opts;
    char key[LOAD_KEY_MAX], end[LOAD_KEY_MAX]; /* of the prefix */
    struct readers_seat *seats;                /* owned; one per connection */
    struct belfry_rng rng;
    size_t to_ask, under_way;
    struct outcome outcome; /* an answer that is late has not failed */
    uint64_t kvs, pinned;   /* in answers; answers at a revision that was asked for */
    char fault[256];        /* what broke it; "" if nothing has */
};

/* Begins to connect. `opts.load.prefix` is lent until readers_close(). */
void readers_open(struct readers *readers, int poll, const struct readers_opts *opts);
void readers_close(struct readers *readers);
bool readers_are_connected(const struct readers *readers);

/* Counts from zero, and asks so many times. All earlier reads must have ended. */
void readers_begin(struct readers *readers, size_t n_reads);
bool readers_have_ended(const struct readers *readers);

#endif
