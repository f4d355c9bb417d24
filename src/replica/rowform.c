/* src/replica/rowform.c */
#include "replica/rowform.h"

#include <string.h>

#include "base/sim.h"
#include "base/xxh64.h"
#include "wire/scan.h"

#define FLAG_DELETE 1
#define BEFORE      8 /* bytes */

MDB_val rowform_val(struct belfry_bytes bytes)
{
    union {
        const char *in;
        void *out;
    } cast = {.in = bytes.data};
    return (MDB_val){.mv_size = bytes.len, .mv_data = cast.out};
}

void rowform_put64(uint8_t *to, uint64_t value)
{
    uint64_t big = __builtin_bswap64(value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    big = value;
#endif
    memcpy(to, &big, sizeof(big));
}

uint64_t rowform_get64(const uint8_t *from)
{
    uint64_t big;
    memcpy(&big, from, sizeof(big));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return big;
#else
    return __builtin_bswap64(big);
#endif
}

MDB_val rowform_state_key(struct belfry_hash_key hash, struct belfry_bytes key, uint8_t *room)
{
    if (key.len <= ROWFORM_KEY_MAX)
        return rowform_val(key);
    memcpy(room, key.data, ROWFORM_KEY_MAX);
    if (BELFRY_MUTANT(long_key_cut))
        return (MDB_val){.mv_size = ROWFORM_KEY_MAX, .mv_data = room};
    struct belfry_hash_key other = {~hash.k0, ~hash.k1};
    rowform_put64(room + ROWFORM_KEY_MAX, belfry_hash(hash, key));
    rowform_put64(room + ROWFORM_KEY_MAX + 8, belfry_hash(other, key));
    return (MDB_val){.mv_size = ROWFORM_KEY_MAX + ROWFORM_HASH, .mv_data = room};
}

bool rowform_key_of(MDB_val stored, MDB_val kv, struct belfry_bytes *out)
{
    *out = rowform_bytes(stored);
    if (!rowform_is_long(stored))
        return true;
    struct belfry_wire_kv scanned;
    if (belfry_scan_kv(rowform_bytes(kv), &scanned) != BELFRY_OK)
        return false;
    *out = scanned.key;
    return true;
}

void rowform_at(int64_t rev, uint32_t sub, uint8_t *to)
{
    rowform_put64(to, (uint64_t)rev);
    for (unsigned i = 0; i < 4; i++)
        to[8 + i] = (uint8_t)(sub >> (24 - 8 * i));
}

int64_t rowform_rev(MDB_val at)
{
    return (int64_t)rowform_get64(at.mv_data);
}

uint32_t rowform_sub(MDB_val at)
{
    const uint8_t *from = (const uint8_t *)at.mv_data + 8;
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

uint64_t rowform_check(uint64_t salt, enum rowform_table table, MDB_val key, struct belfry_bytes value)
{
    return belfry_xxh64(belfry_xxh64(salt + table, rowform_bytes(key)), value);
}

uint64_t rowform_seal(uint64_t salt, enum rowform_table table, MDB_val key, uint8_t *value, size_t len)
{
    uint64_t check = rowform_check(salt, table, key, belfry_bytes_of(value, len));
    rowform_put64(value + len, check);
    return check;
}

uint64_t rowform_check_of(MDB_val value)
{
    if (value.mv_size < ROWFORM_CHECK)
        return 0;
    return rowform_get64((const uint8_t *)value.mv_data + value.mv_size - ROWFORM_CHECK);
}

bool rowform_trim(MDB_val *value)
{
    if (value->mv_size < ROWFORM_CHECK)
        return false;
    value->mv_size -= ROWFORM_CHECK;
    return true;
}

bool rowform_open(uint64_t salt, enum rowform_table table, MDB_val key, MDB_val *value, uint64_t *check)
{
    if (value->mv_size < ROWFORM_CHECK)
        return false;
    *check = rowform_check_of(*value);
    value->mv_size -= ROWFORM_CHECK;
    return rowform_check(salt, table, key, rowform_bytes(*value)) == *check;
}

static size_t number_size(size_t value)
{
    size_t size = 1;
    while (value >>= 7)
        size++;
    return size;
}

static uint8_t *put_number(uint8_t *to, size_t value)
{
    for (; value >= 0x80; value >>= 7)
        *to++ = (uint8_t)(value | 0x80);
    *to++ = (uint8_t)value;
    return to;
}

/* Reads a number of at most 35 bits; NULL: it does not end before `end`. */
static const uint8_t *get_number(const uint8_t *from, const uint8_t *end, size_t *out)
{
    if (from == NULL)
        return NULL;
    size_t value = 0;
    for (unsigned shift = 0; from < end && shift < 35; shift += 7) {
        value |= (size_t)(*from & 0x7f) << shift;
        if (*from++ < 0x80) {
            *out = value;
            return from;
        }
    }
    return NULL;
}

static size_t key_at(const struct rowform_event *row)
{
    return row->key.len > 0 ? (size_t)(row->key.data - row->event.data) : 0;
}

size_t rowform_event_size(const struct rowform_event *row)
{
    return BEFORE + 1 + number_size(row->event.len) + number_size(key_at(row)) + number_size(row->key.len) +
           row->event.len + row->prev.len;
}

void rowform_event_write(const struct rowform_event *row, uint8_t *to)
{
    rowform_put64(to, row->before);
    to += BEFORE;
    *to++ = row->is_delete ? FLAG_DELETE : 0;
    to = put_number(to, row->event.len);
    to = put_number(to, key_at(row));
    to = put_number(to, row->key.len);
    memcpy(to, row->event.data, row->event.len);
    if (row->prev.len > 0)
        memcpy(to + row->event.len, row->prev.data, row->prev.len);
}

bool rowform_event_read(MDB_val val, struct rowform_event *out)
{
    const uint8_t *from = val.mv_data, *end = from + val.mv_size;
    size_t event_len, at, key_len;
    if (val.mv_size <= BEFORE)
        return false;
    out->before = rowform_get64(from);
    from += BEFORE;
    uint8_t flags = *from++;
    from = get_number(from, end, &event_len);
    from = get_number(from, end, &at);
    from = get_number(from, end, &key_len);
    if (from == NULL || event_len > (size_t)(end - from) || at > event_len || key_len > event_len - at)
        return false;
    out->event = belfry_bytes_of(from, event_len);
    out->key = belfry_bytes_of(from + at, key_len);
    out->prev = belfry_bytes_of(from + event_len, (size_t)(end - from) - event_len);
    out->is_delete = (flags & FLAG_DELETE) != 0;
    return true;
}
