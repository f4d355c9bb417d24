/* src/cli/verify/verify_range.h
 *
 * verify_range: the keys that a watcher asks for: a range of the library that owns its bytes, and ways to cut a smaller
 * range out of a larger one.
 *
 * Thread: owner. Memory: the bytes of the keys; verify_range_fini() frees them.
 */
#ifndef BELFRY_CLI_VERIFY_VERIFY_RANGE_H
#define BELFRY_CLI_VERIFY_VERIFY_RANGE_H

#include <stdbool.h>

#include <belfry/belfry.h>

/* Zeroed to begin with. */
struct verify_range {
    struct belfry_range is; /* its bytes are those below */
    char *bytes;            /* owned */
};

#define VERIFY_RANGE_TEXT 160

/* Replaces *out with a copy. Errors: BELFRY_ERR_NOMEM, *out unchanged. */
BELFRY_NODISCARD enum belfry_err verify_range_copy(struct verify_range *out, struct belfry_range from);
void verify_range_fini(struct verify_range *range);

/* A range inside `whole`, made of two of its keys. `dice` decides which: the keys between them, the keys that begin
 * like one of them up to a slash, or a single key. The result borrows the bytes of the keys. */
struct belfry_range verify_range_within(const struct belfry_range *whole, struct belfry_bytes a, struct belfry_bytes b,
                                        unsigned dice);

/* For people: prefix "/a/", key "/a", from "/a", "/a" to "/b", all keys. */
void verify_range_text(const struct belfry_range *range, char out[VERIFY_RANGE_TEXT]);

#endif
