/* tests/support/storecheck.h
 *
 * storecheck: what every store must do, whichever it is: one suite for the model and the replica, and random histories
 * that are given to two stores at once, whose every answer must be the same.
 *
 * All functions fail the cmocka test they are called from.
 *
 * Thread: owner.
 */
#ifndef BELFRY_TESTS_STORECHECK_H
#define BELFRY_TESTS_STORECHECK_H

#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "core/store.h"

#define STORECHECK_EXTENT 4000 /* extent_bytes that the checks expect of the store */
#define STORECHECK_AGE_S  100  /* history_age_s */

/* ---- events ---- */

/* An event with bytes of its own; PUT when value.data is not NULL. */
struct storecheck_event {
    uint8_t *bytes; /* owned */
    struct belfry_wire_event event;
};
struct storecheck_event storecheck_event(struct belfry_bytes key, struct belfry_bytes value, int64_t rev,
                                         const struct belfry_wire_kv *before); /* NULL: the key is new */
void storecheck_event_fini(struct storecheck_event *event);

/* One revision with one event on a text key, begun and committed; value NULL deletes. */
void storecheck_write(struct store *store, int64_t rev, const char *key, const char *value);

/* The state at `rev` as text: "a=1 b=2", at most max_rows keys; "..." at its end when there are more. To be freed. */
char *storecheck_list(struct store *store, const char *key, const char *end, int64_t rev, size_t max_rows);

/* History from `from` as text: "5:a=1(0) 6:-a(1)", the previous value in brackets, "7:extent". To be freed. */
char *storecheck_history(struct store *store, uint64_t past, int64_t from);

/* ---- the suite; each takes an empty store ---- */

struct storecheck_test {
    const char *name; /* a sentence */
    void (*run)(struct store *store);
};
extern const struct storecheck_test storecheck_tests[]; /* ends with a NULL name */

/* ---- one history, two stores ---- */

struct storecheck_pair {
    struct store *a, *b; /* replaced by reopen */
    struct belfry_rng rng;
    /* Ends both as if killed and opens them again; NULL: never. */
    void (*reopen)(struct storecheck_pair *pair);
    void *user;
};
void storecheck_compare(struct storecheck_pair *pair, size_t steps);

#endif
