/* src/core/table.h
 *
 * table: a hash table linked through its elements that grows and shrinks by one bucket at a time.
 *
 * base/map.h moves all elements when it doubles: with a million of them that takes many milliseconds, and meanwhile the
 * memory of both tables. Here an addition splits one bucket and a removal joins two (Litwin's linear
 * hashing), and the buckets lie in segments, each as large as all before it, that are never moved:
 *
 *     segment 0   1          2                      n_buckets
 *     |-------|-------|---------------|--------------v- - - - - - - - - |
 *             ^ buckets up to n_buckets - 2^k are split already, the next to be split follows
 *
 * Adding never fails: without memory for a segment, chains get longer.
 *
 * Thread: owner.
 */
#ifndef BELFRY_CORE_TABLE_H
#define BELFRY_CORE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define TABLE_FIRST_LOG2 6
#define TABLE_SEGMENTS   (64 - TABLE_FIRST_LOG2)

struct table_link {
    struct table_link *next; /* in the same bucket */
    uint64_t hash;
};

struct table {
    struct table_link **segments[TABLE_SEGMENTS]; /* owned; NULL until a bucket in it is used */
    struct table_link *one;                       /* the only bucket while there was no memory for the first segment */
    size_t n_buckets;                             /* 0: `one` serves */
    size_t count;
};

void table_init(struct table *table);
void table_fini(struct table *table); /* the elements are the caller's */

/* Does not look for equal elements. */
void table_add(struct table *table, uint64_t hash, struct table_link *link);
void table_remove(struct table *table, struct table_link *link); /* it is in the table */

/* The first and the following elements with exactly this hash; NULL: no more. */
struct table_link *table_first(const struct table *table, uint64_t hash);
struct table_link *table_next(const struct table_link *link);

size_t table_bytes(const struct table *table); /* of the segments */

#endif
