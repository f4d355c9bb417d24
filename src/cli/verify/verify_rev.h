/* src/cli/verify/verify_rev.h
 *
 * verify_rev: one revision as one side told it, a digest of each of its events, in one block.
 *
 * Keys are kept whole; of a value its length, a 64-bit hash and its first bytes, which is what a person is shown. So
 * a window of many revisions is small whatever the values are, and two different values of equal length pass for equal
 * once in 2^64.
 *
 * Thread: owner. Memory: one block a revision; free() ends it.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_REV_H
#define BELFRY_CLI_VERIFY_VERIFY_REV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <belfry/belfry.h>

#define VERIFY_HEAD 24
#define VERIFY_TEXT 400

struct verify_value {
    size_t len;
    uint64_t hash;
    char head[VERIFY_HEAD]; /* the first bytes; zeroes behind a shorter value */
};

struct verify_kv {
    int64_t create_rev, mod_rev, version, lease; /* of a delete only mod_rev */
    struct verify_value value;
};

struct verify_event {
    enum belfry_op op;
    bool has_prev;
    struct belfry_bytes key; /* in the block of its revision */
    struct verify_kv kv, prev;
};

struct verify_rev {
    int64_t rev;
    int64_t at_us; /* when it was told */
    size_t bytes;  /* of the block */
    size_t n;
    struct verify_event events[];
};

/* Gives the events of a source one after another, as belfry_batch_next() does; it is walked twice. */
typedef const struct belfry_event *(*verify_next_fn)(const void *source, const struct belfry_event *after);

/* The caller frees *out. Errors: BELFRY_ERR_NOMEM. */
BELFRY_NODISCARD enum belfry_err verify_rev_create(int64_t rev, int64_t at_us, verify_next_fn next, const void *source,
                                                   struct verify_rev **out);
BELFRY_NODISCARD enum belfry_err verify_rev_of_batch(const struct belfry_batch *batch, int64_t at_us,
                                                     struct verify_rev **out);

bool verify_key_same(struct belfry_bytes a, struct belfry_bytes b);
bool verify_kv_same(const struct verify_kv *a, const struct verify_kv *b);
/* A put that says that the key was not there before. */
bool verify_event_creates(const struct verify_event *event);

/* For people, in ASCII, cut to VERIFY_TEXT: put "/a" = "1" (1 byte), create 3, mod 7, version 2, lease 0 */
void verify_event_text(const struct verify_event *event, char out[VERIFY_TEXT]);
/* The same of what was there before: "0" (1 byte), create 3, ...; "none" without. */
void verify_prev_text(const struct verify_event *event, char out[VERIFY_TEXT]);
/* The bytes in quotes; what is not printable ASCII as \xNN. Cut, with dots, to `len` with the terminator, at least 16. */
void verify_bytes_text(struct belfry_bytes bytes, char *out, size_t len);

#endif
