/* src/replica/rowform.h
 *
 * rowform: the bytes of keys and rows on disk. All of it is this process's own format: meta's version says which.
 *
 *     state     key -> KeyValue. A key over ROWFORM_KEY_MAX bytes, which LMDB does not take, is stored as
 *
 *                   | first 480 bytes | 128-bit keyed hash of the whole key |
 *
 *               and the whole key is read from its KeyValue. Such rows come after the key of just these 480 bytes and
 *               before every other: only among themselves they are out of order, and state.h sorts them when read.
 *
 *     history   | revision, 8 | sub, 4 |  big endian, so that LMDB's order is theirs
 *            -> | check of the row before, 8 | flags, 1 | event_len | key_at | key_len |  (varints)
 *               | Event without prev_kv | KeyValue before |
 *               key_at and key_len are the key's place in the Event; the rest of the row is the KeyValue.
 *
 *     marks     | revision, 8 | -> | second of CLOCK_BOOTTIME, 8 |
 *     extents   | revision, 8 | -> | events, 8 | bytes, 8 |          revisions that were too large for memory
 *     counts    | level, 1 | key of state, as stored | -> | rows, 8 |        see counts.h
 *
 * After every value come the 8 bytes of its check: XXH64 of the value, seeded with that of its key, its table and a
 * salt that the environment drew when it was made. So a row that was damaged, that is under another key, in another
 * table, or of an earlier replica does not pass. SipHash, which maps use for keys, would do as well at a third of the
 * speed; CRC-32 is too short to be summed over a million rows.
 *
 * Thread: any. Pure.
 */
#ifndef BELFRY_REPLICA_ROWFORM_H
#define BELFRY_REPLICA_ROWFORM_H

#include <lmdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/hash.h"

#define ROWFORM_KEY_MAX  480
#define ROWFORM_HASH     16
#define ROWFORM_HEAD_MAX 24 /* the check before, flags and three varints of 32 bits */

static inline struct belfry_bytes rowform_bytes(MDB_val val)
{
    return belfry_bytes_of(val.mv_data, val.mv_size);
}

/* For LMDB to read from; it writes to no key and to no value that is given. */
MDB_val rowform_val(struct belfry_bytes bytes);

/* ---- keys of state ---- */

/* How `key` is stored: as it is, or, when it is long, made in `room` (ROWFORM_KEY_MAX + ROWFORM_HASH bytes). */
MDB_val rowform_state_key(struct belfry_hash_key hash, struct belfry_bytes key, uint8_t *room);

static inline bool rowform_is_long(MDB_val stored)
{
    return stored.mv_size > ROWFORM_KEY_MAX;
}

/* The key of a state row; false: the row is not one of ours. */
bool rowform_key_of(MDB_val stored, MDB_val kv, struct belfry_bytes *out);

/* ---- numbers ---- */

#define ROWFORM_AT 12                            /* bytes of a history key */
void rowform_put64(uint8_t *to, uint64_t value); /* big endian */
uint64_t rowform_get64(const uint8_t *from);
void rowform_at(int64_t rev, uint32_t sub, uint8_t *to);
int64_t rowform_rev(MDB_val at);
uint32_t rowform_sub(MDB_val at);

/* ---- checks ---- */

enum rowform_table { ROWFORM_STATE, ROWFORM_HISTORY, ROWFORM_MARKS, ROWFORM_EXTENTS, ROWFORM_COUNTS, ROWFORM_META };
#define ROWFORM_COUNTED ROWFORM_META /* the tables before it are counted: see env.h */
#define ROWFORM_CHECK   8

uint64_t rowform_check(uint64_t salt, enum rowform_table table, MDB_val key, struct belfry_bytes value);

/* Writes the check of the `len` bytes before it, and returns it. There is room. */
uint64_t rowform_seal(uint64_t salt, enum rowform_table table, MDB_val key, uint8_t *value, size_t len);

/* Takes the check off a value and hands it out. False: the row is not what was written under this key. */
bool rowform_open(uint64_t salt, enum rowform_table table, MDB_val key, MDB_val *value, uint64_t *check);

/* Takes the check off a value, unverified. False: it has none. */
bool rowform_trim(MDB_val *value);

/* The check of a value, unverified; 0: it has none. */
uint64_t rowform_check_of(MDB_val value);

/* ---- rows of history ---- */

struct rowform_event {
    uint64_t before;                      /* check of the row before; 0: none */
    struct belfry_bytes event, key, prev; /* key is inside of event; prev empty: none */
    bool is_delete;
};

size_t rowform_event_size(const struct rowform_event *row);
void rowform_event_write(const struct rowform_event *row, uint8_t *to);
bool rowform_event_read(MDB_val val, struct rowform_event *out); /* false: not one of ours */

#endif
