/* src/follow/past_fixture.h
 *
 * past: for the tests of this folder: a history as etcd would tell it, revision by revision, with its events, headers
 * and pages. Two pasts that share a beginning are a cluster and its restored backup.
 *
 * Thread: owner. Memory: aborts when there is none; built before allocations are refused.
 */
#ifndef BELFRY_FOLLOW_PAST_FIXTURE_H
#define BELFRY_FOLLOW_PAST_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/rng.h"
#include "follow/ingest.h"
#include "wire/scan.h"

#define PAST_KEYS 24
#define PAST_REVS 16384

struct past_kv {
    int64_t create_rev, mod_rev, version; /* version 0: not there */
    char value[24];
};

struct past_rev {
    size_t n;
    int keys[PAST_KEYS];
    struct past_kv after[PAST_KEYS], before[PAST_KEYS]; /* of keys[i] */
    uint8_t *raw[2];                                    /* without and with prev_kv */
    struct belfry_wire_event events[2][PAST_KEYS];
};

struct past {
    uint64_t cluster;
    int64_t head; /* 1: empty */
    struct past_kv now[PAST_KEYS];
    struct past_rev *revs[PAST_REVS];
};

static inline uint8_t *past_varint(uint8_t *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *to++ = (uint8_t)(value | 0x80);
    *to++ = (uint8_t)value;
    return to;
}

static inline uint8_t *past_number(uint8_t *to, uint8_t field, int64_t value)
{
    if (value == 0)
        return to;
    *to++ = (uint8_t)(field << 3);
    return past_varint(to, (uint64_t)value);
}

static inline uint8_t *past_bytes(uint8_t *to, uint8_t field, const void *data, size_t len)
{
    *to++ = (uint8_t)(field << 3 | 2);
    to = past_varint(to, len);
    if (len > 0)
        memcpy(to, data, len);
    return to + len;
}

static inline size_t past_key(int key, char out[16])
{
    return (size_t)snprintf(out, 16, "/k/%02d", key);
}

static inline size_t past_encode_kv(int key, const struct past_kv *kv, uint8_t out[128])
{
    char name[16];
    uint8_t *to = past_bytes(out, 1, name, past_key(key, name));
    to = past_number(to, 2, kv->create_rev);
    to = past_number(to, 3, kv->mod_rev);
    to = past_number(to, 4, kv->version);
    if (kv->version > 0)
        to = past_bytes(to, 5, kv->value, strlen(kv->value));
    return (size_t)(to - out);
}

static inline void past_encode(struct past_rev *rev, int with_prev)
{
    uint8_t *to = rev->raw[with_prev] = malloc(PAST_KEYS * 300);
    if (to == NULL)
        abort();
    for (size_t i = 0; i < rev->n; i++) {
        uint8_t kv[128], *from = to;
        to = past_number(to, 1, rev->after[i].version == 0);
        to = past_bytes(to, 2, kv, past_encode_kv(rev->keys[i], &rev->after[i], kv));
        if (with_prev && rev->before[i].version > 0)
            to = past_bytes(to, 3, kv, past_encode_kv(rev->keys[i], &rev->before[i], kv));
        if (belfry_scan_event(belfry_bytes_of(from, (size_t)(to - from)), &rev->events[with_prev][i]) != BELFRY_OK)
            abort();
    }
}

static inline struct past *past_create(uint64_t cluster)
{
    struct past *past = calloc(1, sizeof(*past));
    if (past == NULL)
        abort();
    past->cluster = cluster;
    past->head = 1;
    return past;
}

static inline void past_destroy(struct past *past)
{
    for (int64_t rev = 0; rev < PAST_REVS; rev++) {
        if (past->revs[rev] == NULL)
            continue;
        free(past->revs[rev]->raw[0]);
        free(past->revs[rev]->raw[1]);
        free(past->revs[rev]);
    }
    free(past);
}

/* One revision; a key whose value is NULL is deleted, and must be there. A key may come again; what was before it is,
 * as etcd says it, from before the revision, and nothing for a put that creates its key. */
static inline int64_t past_txn(struct past *past, size_t n, const int *keys, const char *const *values)
{
    struct past_rev *rev = calloc(1, sizeof(*rev));
    struct past_kv start[PAST_KEYS];
    memcpy(start, past->now, sizeof(start));
    if (rev == NULL || past->head + 1 >= PAST_REVS)
        abort();
    int64_t number = ++past->head;
    past->revs[number] = rev;
    rev->n = n;
    for (size_t i = 0; i < n; i++) {
        struct past_kv *kv = &past->now[keys[i]];
        rev->keys[i] = keys[i];
        rev->before[i] = values[i] == NULL || kv->version > 0 ? start[keys[i]] : (struct past_kv){0};
        if (values[i] == NULL) {
            *kv = (struct past_kv){0};
            rev->after[i] = (struct past_kv){.mod_rev = number};
            continue;
        }
        kv->create_rev = kv->version == 0 ? number : kv->create_rev;
        kv->version++;
        kv->mod_rev = number;
        snprintf(kv->value, sizeof(kv->value), "%s", values[i]);
        rev->after[i] = *kv;
    }
    past_encode(rev, 0);
    past_encode(rev, 1);
    return number;
}

static inline int64_t past_put(struct past *past, int key, const char *value)
{
    return past_txn(past, 1, &key, &value);
}

static inline int64_t past_delete(struct past *past, int key)
{
    const char *none = NULL;
    return past_txn(past, 1, &key, &none);
}

/* A random transaction of 1 to 4 keys, some of which may be put and deleted in turn. */
static inline int64_t past_random(struct past *past, struct belfry_rng *rng)
{
    int keys[8];
    const char *values[8];
    char text[4][24];
    size_t n = 1 + (size_t)belfry_rng_below(rng, 4);
    int first = (int)belfry_rng_below(rng, PAST_KEYS);
    for (size_t i = 0; i < n; i++) {
        keys[i] = (first + (int)i * 5) % PAST_KEYS;
        snprintf(text[i], sizeof(text[i]), "v%u", (unsigned)belfry_rng_below(rng, 100000));
        values[i] = past->now[keys[i]].version > 0 && belfry_rng_below(rng, 3) == 0 ? NULL : text[i];
    }
    for (size_t last = n - 1; n < 8 && belfry_rng_below(rng, 4) == 0; last = n++) {
        keys[n] = keys[last];
        values[n] = values[last] == NULL ? text[0] : NULL;
    }
    return past_txn(past, n, keys, values);
}

/* Writes on to `head`: revision r puts the key r mod PAST_KEYS. */
static inline void past_fill(struct past *past, int64_t head, const char *value)
{
    while (past->head < head)
        past_put(past, (int)(past->head % PAST_KEYS), value);
}

/* The same past up to `rev`, to be written on differently. */
static inline struct past *past_fork(const struct past *from, int64_t rev)
{
    struct past *past = past_create(from->cluster);
    while (past->head < rev) {
        const struct past_rev *r = from->revs[past->head + 1];
        const char *values[PAST_KEYS];
        for (size_t i = 0; i < r->n; i++)
            values[i] = r->after[i].version > 0 ? r->after[i].value : NULL;
        past_txn(past, r->n, r->keys, values);
    }
    return past;
}

static inline struct belfry_wire_header past_header(const struct past *past, int64_t rev)
{
    return (struct belfry_wire_header){.cluster_id = past->cluster, .member_id = 7, .raft_term = 2, .revision = rev};
}

enum past_prev { PAST_BARE, PAST_PREV };

static inline struct ingest_revision past_revision(const struct past *past, int64_t rev, enum past_prev prev)
{
    const struct past_rev *r = past->revs[rev];
    return (struct ingest_revision){
        .rev = rev, .events = r->events[prev], .n = r->n, .header = past_header(past, past->head)};
}

/* The KeyValue of `key` as of `rev`; false: it is not there. */
static inline bool past_at(const struct past *past, int key, int64_t rev, struct past_kv *out)
{
    for (int64_t r = rev; r > 1; r--)
        for (size_t i = past->revs[r]->n; i-- > 0;)
            if (past->revs[r]->keys[i] == key) {
                *out = past->revs[r]->after[i];
                return out->version > 0;
            }
    return false;
}

/* A RangeResponse of up to `limit` keys from `from` on, as of `rev`, under a header of the head. */
static inline struct belfry_bytes past_page(const struct past *past, int64_t rev, struct belfry_bytes from,
                                            int64_t limit, struct belfry_buf *buf)
{
    uint8_t raw[256], kv_raw[128], *to = raw;
    struct belfry_wire_header header = past_header(past, past->head);
    uint8_t head[64], *h = past_number(head, 1, (int64_t)header.cluster_id);
    h = past_number(h, 2, (int64_t)header.member_id);
    h = past_number(h, 3, header.revision);
    to = past_bytes(to, 1, head, (size_t)(h - head));
    belfry_buf_take(buf, belfry_buf_len(buf));
    if (belfry_buf_append(buf, raw, (size_t)(to - raw)) != BELFRY_OK)
        abort();
    bool more = false;
    int64_t n = 0;
    for (int key = 0; key < PAST_KEYS; key++) {
        char name[16];
        struct past_kv kv;
        if (belfry_bytes_cmp(belfry_bytes_of(name, past_key(key, name)), from) < 0 || !past_at(past, key, rev, &kv))
            continue;
        if (n++ == limit) {
            more = true;
            break;
        }
        to = past_bytes(raw, 2, kv_raw, past_encode_kv(key, &kv, kv_raw));
        if (belfry_buf_append(buf, raw, (size_t)(to - raw)) != BELFRY_OK)
            abort();
    }
    if (more && belfry_buf_append(buf, "\x18\x01", 2) != BELFRY_OK)
        abort();
    return belfry_buf_bytes(buf);
}

#endif
