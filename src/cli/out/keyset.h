/* src/cli/out/keyset.h
 *
 * keyset: how many keys there are, from puts and deletes that may repeat.
 *
 * It keeps a 64-bit hash of each key instead of the key, 11 to 22 bytes in all. Two keys of one hash would be
 * counted as one: with a million keys the chance of any such pair is 3 in 100 million, and all it spoils is the number
 * that a person is shown.
 *
 * Thread: owner. Memory: grows with the keys; when there is none left the count is unknown from then on, no failure.
 */
#ifndef BELFRY_CLI_OUT_KEYSET_H
#define BELFRY_CLI_OUT_KEYSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <belfry/bytes.h>

/* Zeroed to begin with. */
struct keyset {
    uint64_t *slots; /* owned; 0: free */
    size_t n_slots;  /* a power of two, or 0 */
    size_t n;
    bool unknown;
};

void keyset_add(struct keyset *set, struct belfry_bytes key);
void keyset_remove(struct keyset *set, struct belfry_bytes key);
/* -1: unknown. */
int64_t keyset_count(const struct keyset *set);
void keyset_fini(struct keyset *set);

#endif
