/* tests/sim/history.h
 *
 * history: what truly happened in the simulated cluster: every revision of every past, and the bytes etcd would write.
 *
 * A past is one line of revisions. A restore from a snapshot at revision B forks: the new past has the old one's
 * revisions up to B and goes on differently, under the same cluster id. No past is ever forgotten, so that what a
 * watcher was given before a fork can still be judged. Pasts count from 0; the newest is the cluster's.
 *
 *     past 0:  2 3 4 5 6 7 8 9
 *                    |
 *     past 1:        `- 6' 7' 8' 9' 10'         forked at 5
 *
 * While a new past writes numbers that another past has used, each of its revisions has a put whose value names the
 * past: two revisions of the same number are never the same, and a machine that compares them can tell. (A revision of
 * deletes alone could be equal by chance; no client of etcd can tell those apart.)
 *
 * Keys are at most HISTORY_KEYS_MAX, so that a range is a set of bits.
 *
 * Thread: owner. Everything random comes from the generator given.
 * Memory: everything is kept until destroy; no memory: abort.
 */
#ifndef BELFRY_SIM_HISTORY_H
#define BELFRY_SIM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/rng.h"
#include "judge/judge_rev.h"
#include "wire/scan.h"

#define HISTORY_KEYS_MAX   64
#define HISTORY_PASTS_MAX  32 /* a fork beyond is refused */
#define HISTORY_EMPTY_REV  1  /* of a new cluster; its first write is 2 */
#define HISTORY_TXN_MAX    20 /* operations of a usual transaction */
#define HISTORY_CLUSTER_ID 0x5eed0c1u

/* One event. Its encodings share one run of bytes: prev_kv comes last in an Event. */
struct history_event {
    int64_t rev;
    uint32_t sub; /* place in its revision */
    unsigned key; /* index; history_key() */
    bool is_delete;
    int64_t create_rev, version, lease; /* 0 for a delete */
    const struct history_event *prev;   /* the put before its revision that it replaces or deletes; NULL: none, or the
                                           key was not there */
    struct belfry_bytes kv;             /* the KeyValue */
    struct belfry_bytes raw;            /* the Event without prev_kv */
    struct belfry_bytes raw_prev;       /* the Event with prev_kv, if there is a prev; otherwise as raw */
};

struct history_revision {
    int64_t rev;
    unsigned past; /* in which it was written; later pasts may share it */
    size_t n;
    uint64_t put_keys, deleted_keys; /* sets of key indexes */
    size_t bytes;                    /* of all raw events */
    struct history_event *events;    /* in operation order */
    struct judge_rev *digest;        /* the same, with previous values, as the judge compares them */
};

struct history;

struct history_opts {
    size_t huge_bytes; /* history_write_huge() makes a revision well above this; 0: 4096 */
    bool big_values;   /* now and then a value of a few KB */
};

struct history *history_create(const struct history_opts *opts);
void history_destroy(struct history *history);

/* ---- writing: to the newest past ---- */

/* One more revision, of a random kind: a put, a delete, a transaction, which may put a key and delete it, a range
 * delete, a lease that expires. */
const struct history_revision *history_write(struct history *history, struct belfry_rng *rng);

/* One more revision, larger than huge_bytes: a delete of everything, or a transaction of many puts. */
const struct history_revision *history_write_huge(struct history *history, struct belfry_rng *rng);

/* A put of one key (an index below history_keys()); for runs that end with a known write. */
const struct history_revision *history_write_put(struct history *history, struct belfry_rng *rng, unsigned key);

/* Compacts the newest past. False: `rev` is above the head, or not above the last compaction. */
bool history_compact(struct history *history, int64_t rev);

/* A restore from a snapshot taken at `rev`: a new past begins, as compacted as the old one was when `rev` was written.
 * Returns its number. `rev` is in [HISTORY_EMPTY_REV, head]; HISTORY_PASTS_MAX is not exceeded (assert). */
unsigned history_fork(struct history *history, int64_t rev);

/* ---- keys and ranges ---- */

unsigned history_keys(const struct history *history);
struct belfry_bytes history_key(const struct history *history, unsigned key);
int history_key_find(const struct history *history, struct belfry_bytes key); /* -1: no such key */

/* The keys that match key and range_end of a request, as etcd reads them (an empty key is "\0"). */
uint64_t history_range_keys(const struct history *history, struct belfry_bytes key, struct belfry_bytes range_end);

/* etcd refuses a watch of such a range: "mvcc: watcher range is empty". */
bool history_range_is_empty(struct belfry_bytes key, struct belfry_bytes range_end);

/* A range worth watching: a key, a prefix, everything, a span, from a key on, something that is never written. Lent
 * until the next call (range_end) or for ever (key). */
void history_pick_range(struct history *history, struct belfry_rng *rng, struct belfry_bytes *key,
                        struct belfry_bytes *range_end);

/* ---- reading ---- */

unsigned history_pasts(const struct history *history);
unsigned history_now(const struct history *history); /* the newest past */
int64_t history_head(const struct history *history, unsigned past);
int64_t history_fork_rev(const struct history *history, unsigned past); /* of past 0: HISTORY_EMPTY_REV */
unsigned history_parent(const struct history *history, unsigned past);  /* of past 0: 0 */

/* NULL: there is none of that number (below 2, above the head). */
const struct history_revision *history_at(const struct history *history, unsigned past, int64_t rev);

/* The first revision in [from, to] that has a put of `puts` or a delete of `deletes`; NULL: none. */
const struct history_revision *history_next(const struct history *history, unsigned past, int64_t from, int64_t to,
                                            uint64_t puts, uint64_t deletes);

/* The put that holds of a key at a revision; NULL: the key is not there. */
const struct history_event *history_state(const struct history *history, unsigned past, int64_t rev, unsigned key);

/* The digest of raw Events, all of revision `rev`; the caller frees it. NULL: one of them cannot be read. */
struct judge_rev *history_digest(int64_t rev, const struct belfry_bytes *raw, size_t n);

/* Compactions in the order of the cluster's log: each was proposed when `after` was the head. */
struct history_compaction {
    int64_t after, rev;
};
size_t history_compactions(const struct history *history, unsigned past, const struct history_compaction **out);
int64_t history_compacted(const struct history *history, unsigned past);               /* 0: never */
bool history_was_compacted(const struct history *history, unsigned past, int64_t rev); /* exactly at `rev`, ever */

/* What has been written, so that a run can insist on having met it. */
struct history_counts {
    uint64_t revisions, events, puts, deletes, txns, range_deletes, lease_expiries, huge, compactions, forks, long_keys;
};
const struct history_counts *history_counts(const struct history *history);

#endif
