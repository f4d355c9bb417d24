/* src/judge/judge_rev.h
 *
 * judge_rev: one revision as one side has it: a digest of each of its events, in one block.
 *
 * A digest has the whole key. Of a value it has the length, a 64-bit hash and the first bytes, which are shown to
 * people, so a window of many revisions is small, however large the values are. Two different values of equal length
 * have the same digest once in 2^64, or less.
 *
 * Thread: owner. Memory: one block per revision; free() ends it.
 */
#ifndef BELFRY_JUDGE_JUDGE_REV_H
#define BELFRY_JUDGE_JUDGE_REV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <belfry/belfry.h>

#define JUDGE_HEAD 24
#define JUDGE_TEXT 400

struct judge_value {
    size_t len;
    uint64_t hash;
    char head[JUDGE_HEAD]; /* the first bytes; zeroes after a shorter value */
};

struct judge_kv {
    int64_t create_rev, mod_rev, version, lease; /* of a delete only mod_rev */
    struct judge_value value;
};

struct judge_event {
    enum belfry_op op;
    bool has_prev;
    struct belfry_bytes key; /* in the block of its revision */
    struct judge_kv kv, prev;
};

struct judge_rev {
    int64_t rev;
    int64_t at_us; /* when it came, for the user; the judge does not look at it */
    size_t bytes;  /* of the block */
    size_t n;
    struct judge_event events[];
};

/* Gives the events of a source one after another, as belfry_batch_next() does; it is walked twice. */
typedef const struct belfry_event *(*judge_next_fn)(const void *source, const struct belfry_event *after);

/* The caller frees *out. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err judge_rev_create(int64_t rev, int64_t at_us, judge_next_fn next, const void *source,
                                                  struct judge_rev **out);

bool judge_kv_same(const struct judge_kv *a, const struct judge_kv *b);
/* Is it a put that creates its key? */
bool judge_event_creates(const struct judge_event *event);

/* For people, in ASCII, cut to JUDGE_TEXT: put "/a" = "1" (1 byte), create 3, mod 7, version 2, lease 0 */
void judge_event_text(const struct judge_event *event, char out[JUDGE_TEXT]);
/* The same of what was there before: "0" (1 byte), create 3, ...; "none" without. */
void judge_prev_text(const struct judge_event *event, char out[JUDGE_TEXT]);
/* The bytes in quotes; bytes that are not printable ASCII as \xNN. Cut to `len` (at least 16, with the terminator). */
void judge_bytes_text(struct belfry_bytes bytes, char *out, size_t len);

#endif
