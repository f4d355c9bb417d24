/* src/cli/verify/verify_violation.h
 *
 * verify_violation: one broken promise: which, where, what was due and what came instead.
 *
 * The first nine are what etcd promises of a watch, and what its own robustness suite checks; the others are what follows
 * from them for whoever stands between etcd and a client.
 *
 * Thread: any. Memory: none.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_VIOLATION_H
#define BELFRY_CLI_VERIFY_VERIFY_VIOLATION_H

#include <stdint.h>

#include <belfry/bytes.h>

/* clang-format off */
#define VERIFY_PROPERTIES(X) \
    X(FILTER,       "filter",       "an event outside the range") \
    X(ORDERED,      "ordered",      "events older than those before, or not in the order of their transaction") \
    X(UNIQUE,       "unique",       "the same key at the same revision again") \
    X(ATOMIC,       "atomic",       "a revision that is not whole, or two in one") \
    X(BOOKMARKABLE, "bookmarkable", "an event at or below a progress before it, or a progress that goes back") \
    X(RESUMABLE,    "resumable",    "the first event is not the first since the start") \
    X(IS_CREATE,    "is_create",    "an event that says the key was created when it was there, or the reverse") \
    X(RELIABLE,     "reliable",     "an event that was left out, or one that never happened") \
    X(PREV_KV,      "prev_kv",      "a previous value that is not the one before, is missing, or that nobody asked for") \
    X(PROGRESS,     "progress",     "progress to a revision while an event at or below it was not given") \
    X(CONTENT,      "content",      "value, version, lease or revisions are other ones") \
    X(HEADER,       "header",       "a header older than what it brings, or of another cluster") \
    X(END,          "end",          "an end that the reference knows no reason for") \
    X(ALIVE,        "alive",        "an event that did not come in time, although there was a connection")
/* clang-format on */
#define VERIFY_PROPERTY_ENUM(name, word, sentence) VERIFY_##name,
enum verify_property { VERIFY_PROPERTIES(VERIFY_PROPERTY_ENUM) VERIFY_N_PROPERTIES };

const char *verify_property_word(enum verify_property property);
const char *verify_property_sentence(enum verify_property property);

/* Lent for the call that brings it. */
struct verify_violation {
    enum verify_property property;
    unsigned watcher;        /* its number */
    int64_t rev;             /* where */
    struct belfry_bytes key; /* empty: none in particular */
    const char *expected, *came;
    const char *asked; /* what the watcher had asked for, for people; NULL: the same as now */
};

typedef void (*verify_blame_fn)(const struct verify_violation *violation, void *user);

#endif
