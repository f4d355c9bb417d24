/* tests/support/storepair.c: one random history, given to two stores; declared in storecheck.h. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "support/storecheck.h"
#include "wire/write.h"

#define KEY_BYTES   2100
#define VALUE_BYTES 6000
#define HISTORY     400 /* so far back reads go */

struct seen {
    struct belfry_buf rows;
};

/* Short keys, keys at the edges of what LMDB takes, and long ones that differ only behind their first 480 bytes. */
static struct belfry_bytes random_key(struct belfry_rng *rng, char *room)
{
    static const size_t lengths[] = {479, 480, 481, 495, 496, 497, 511, 512, 600, 2000};
    uint64_t kind = belfry_rng_below(rng, 4);
    if (kind != 0) {
        uint64_t n = belfry_rng_below(rng, kind == 1 ? 1000 : 60); /* some that change often, many that do not */
        return belfry_bytes_of(room, (size_t)snprintf(room, KEY_BYTES, "/k/%02" PRIu64, n));
    }
    size_t len = lengths[belfry_rng_below(rng, sizeof(lengths) / sizeof(lengths[0]))];
    memset(room, 'p', len);
    if (len > 480)
        room[480 + belfry_rng_below(rng, len - 480)] = (char)('a' + belfry_rng_below(rng, 26));
    return belfry_bytes_of(room, len);
}

static struct belfry_bytes random_value(struct belfry_rng *rng, char *room)
{
    uint64_t kind = belfry_rng_below(rng, 40);
    size_t len = (size_t)(kind == 0 ? belfry_rng_below(rng, VALUE_BYTES) : belfry_rng_below(rng, 80));
    memset(room, (int)('A' + belfry_rng_below(rng, 26)), len);
    return belfry_bytes_of(room, len);
}

static void same_meta(const struct storecheck_pair *pair)
{
    struct store_meta a, b;
    pair->a->api->meta(pair->a, &a);
    pair->b->api->meta(pair->b, &b);
    assert_memory_equal(&a, &b, sizeof(a));
    pair->a->api->snapshot(pair->a, &a);
    pair->b->api->snapshot(pair->b, &b);
    assert_memory_equal(&a, &b, sizeof(a));
}

static void same_bytes(struct belfry_bytes a, struct belfry_bytes b)
{
    assert_int_equal(a.len, b.len);
    assert_true(belfry_bytes_equal(a, b));
}

/* Puts or deletes a random key, by what the stores say is there. */
static void apply_one(struct storecheck_pair *pair, int64_t rev, uint32_t sub)
{
    char key_room[KEY_BYTES], value_room[VALUE_BYTES];
    struct belfry_bytes key = random_key(&pair->rng, key_room), a, b, value = {0};
    enum belfry_err err = pair->a->api->get(pair->a, key, &a);
    assert_int_equal(err, pair->b->api->get(pair->b, key, &b));
    struct belfry_wire_kv before;
    if (err == BELFRY_OK) {
        same_bytes(a, b);
        assert_int_equal(belfry_scan_kv(a, &before), BELFRY_OK);
    }
    if (err != BELFRY_OK || belfry_rng_below(&pair->rng, 3) != 0)
        value = random_value(&pair->rng, value_room);
    struct storecheck_event event = storecheck_event(key, value, rev, err == BELFRY_OK ? &before : NULL);
    assert_int_equal(pair->a->api->apply(pair->a, rev, sub, &event.event, NULL, &a), BELFRY_OK);
    assert_int_equal(pair->b->api->apply(pair->b, rev, sub, &event.event, NULL, &b), BELFRY_OK);
    same_bytes(a, b);
    storecheck_event_fini(&event);
}

static void advance_both(struct storecheck_pair *pair, int64_t rev)
{
    struct belfry_wire_header header = {.cluster_id = 5, .member_id = belfry_rng_below(&pair->rng, 3), .revision = rev};
    assert_int_equal(pair->a->api->advance(pair->a, rev, &header), BELFRY_OK);
    assert_int_equal(pair->b->api->advance(pair->b, rev, &header), BELFRY_OK);
}

static void trim_both(struct storecheck_pair *pair, uint64_t now_s)
{
    size_t a, b, most = (size_t)belfry_rng_below(&pair->rng, 20);
    assert_int_equal(pair->a->api->trim(pair->a, now_s, most, &a), BELFRY_OK);
    assert_int_equal(pair->b->api->trim(pair->b, now_s, most, &b), BELFRY_OK);
    assert_int_equal(a, b);
}

/* A transaction of some revisions, committed or not. */
static void write_some(struct storecheck_pair *pair, uint64_t now_s)
{
    struct store_meta meta;
    pair->a->api->meta(pair->a, &meta);
    int64_t rev = meta.revision;
    assert_int_equal(pair->a->api->begin(pair->a), BELFRY_OK);
    assert_int_equal(pair->b->api->begin(pair->b), BELFRY_OK);
    for (uint64_t n = belfry_rng_below(&pair->rng, 6); n > 0; n--) {
        rev += 1 + (belfry_rng_below(&pair->rng, 10) == 0);
        bool large = belfry_rng_below(&pair->rng, 30) == 0;
        uint32_t events = (uint32_t)belfry_rng_below(&pair->rng, large ? 200 : 4);
        for (uint32_t sub = 0; sub < events; sub++)
            apply_one(pair, rev, sub);
        advance_both(pair, rev);
    }
    if (belfry_rng_below(&pair->rng, 2) == 0)
        trim_both(pair, now_s);
    same_meta(pair);
    if (belfry_rng_below(&pair->rng, 5) == 0) {
        pair->a->api->abort(pair->a);
        pair->b->api->abort(pair->b);
    } else {
        assert_int_equal(pair->a->api->commit(pair->a), BELFRY_OK);
        assert_int_equal(pair->b->api->commit(pair->b), BELFRY_OK);
    }
}

static void same_batch(const struct batch *a, const struct batch *b)
{
    assert_int_equal(a->rev, b->rev);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->n_events, b->n_events);
    assert_int_equal(a->first_sub, b->first_sub);
    assert_int_equal(a->more, b->more);
    assert_int_equal(a->extent_events, b->extent_events);
    assert_int_equal(a->extent_bytes, b->extent_bytes);
    for (uint32_t i = 0; i < a->n_events; i++) {
        same_bytes(batch_bytes(a, &a->events[i], true), batch_bytes(b, &b->events[i], true));
        same_bytes(batch_bytes(a, &a->events[i], false), batch_bytes(b, &b->events[i], false));
        same_bytes(batch_key(a, &a->events[i]), batch_key(b, &b->events[i]));
        assert_int_equal(a->events[i].is_delete, b->events[i].is_delete);
    }
}

static void same_segment(struct segment *a, struct segment *b)
{
    assert_true(a->past == b->past && a->from == b->from);
    assert_int_equal(a->upto, b->upto);
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++)
        same_batch(a->batches[i], b->batches[i]);
    segment_unref(a);
    segment_unref(b);
}

/* A revision near or inside the window. */
static int64_t random_rev(struct storecheck_pair *pair)
{
    struct store_meta meta;
    pair->a->api->snapshot(pair->a, &meta);
    int64_t rev = meta.revision + 2 - (int64_t)belfry_rng_below(&pair->rng, HISTORY);
    return rev < 1 ? 1 : rev;
}

static void read_history(struct storecheck_pair *pair)
{
    struct segment *a, *b;
    struct store_meta meta;
    pair->a->api->snapshot(pair->a, &meta);
    uint64_t past = meta.past - (belfry_rng_below(&pair->rng, 20) == 0);
    int64_t from = random_rev(pair), oldest_a = 0, oldest_b = 0;
    size_t most = (size_t)belfry_rng_below(&pair->rng, 20000);
    uint32_t sub = (uint32_t)belfry_rng_below(&pair->rng, 8);
    enum belfry_err err = pair->a->api->history(pair->a, past, from, most, &a, &oldest_a);
    assert_int_equal(err, pair->b->api->history(pair->b, past, from, most, &b, &oldest_b));
    assert_int_equal(oldest_a, oldest_b);
    if (err == BELFRY_OK)
        same_segment(a, b);
    err = pair->a->api->slice(pair->a, past, from, sub, most, &a, &oldest_a);
    assert_int_equal(err, pair->b->api->slice(pair->b, past, from, sub, most, &b, &oldest_b));
    if (err == BELFRY_OK)
        same_segment(a, b);
}

static bool note_row(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    struct seen *seen = user;
    struct belfry_wire_kv scanned;
    assert_int_equal(belfry_scan_kv(kv, &scanned), BELFRY_OK);
    same_bytes(scanned.key, key);
    size_t len = kv.len;
    assert_int_equal(belfry_buf_append(&seen->rows, &len, sizeof(len)), BELFRY_OK);
    assert_int_equal(belfry_buf_append(&seen->rows, kv.data, kv.len), BELFRY_OK);
    return true;
}

static void same_page(const struct store_page *a, const struct store_page *b)
{
    assert_memory_equal(&a->meta, &b->meta, sizeof(a->meta));
    assert_int_equal(a->at, b->at);
    assert_int_equal(a->more, b->more);
    assert_int_equal(a->count, b->count);
}

static void read_range(struct storecheck_pair *pair)
{
    char from_room[KEY_BYTES], end_room[KEY_BYTES];
    struct store_read read = {.max_rows = (size_t)belfry_rng_below(&pair->rng, 60),
                              .max_bytes = (size_t)belfry_rng_below(&pair->rng, 50000)};
    read.counted = belfry_rng_below(&pair->rng, 2) == 0;
    if (belfry_rng_below(&pair->rng, 2) == 0)
        read.key = random_key(&pair->rng, from_room);
    if (belfry_rng_below(&pair->rng, 2) == 0)
        read.end = random_key(&pair->rng, end_room);
    if (belfry_rng_below(&pair->rng, 3) != 0)
        read.rev = random_rev(pair);
    struct seen a = {0}, b = {0};
    struct store_page page_a, page_b;
    enum belfry_err err = pair->a->api->range(pair->a, &read, note_row, &a, &page_a);
    assert_int_equal(err, pair->b->api->range(pair->b, &read, note_row, &b, &page_b));
    if (err == BELFRY_OK)
        same_page(&page_a, &page_b);
    same_bytes(belfry_buf_bytes(&a.rows), belfry_buf_bytes(&b.rows));
    belfry_buf_fini(&a.rows);
    belfry_buf_fini(&b.rows);
}

static void fill_fresh(struct storecheck_pair *pair, int64_t rev)
{
    for (uint64_t n = belfry_rng_below(&pair->rng, 300); n > 0; n--) {
        char key_room[KEY_BYTES], value_room[VALUE_BYTES];
        struct belfry_bytes key = random_key(&pair->rng, key_room);
        int64_t mod = rev - (int64_t)belfry_rng_below(&pair->rng, 50);
        if (belfry_rng_below(&pair->rng, 4) == 0) {
            assert_int_equal(pair->a->api->remove(pair->a, key, mod), BELFRY_OK);
            assert_int_equal(pair->b->api->remove(pair->b, key, mod), BELFRY_OK);
            continue;
        }
        struct storecheck_event event = storecheck_event(key, random_value(&pair->rng, value_room), mod, NULL);
        assert_int_equal(pair->a->api->put(pair->a, &event.event.kv), BELFRY_OK);
        assert_int_equal(pair->b->api->put(pair->b, &event.event.kv), BELFRY_OK);
        storecheck_event_fini(&event);
    }
}

static void list_anew(struct storecheck_pair *pair)
{
    struct store_meta meta;
    pair->a->api->meta(pair->a, &meta);
    assert_int_equal(pair->a->api->fresh(pair->a), BELFRY_OK);
    assert_int_equal(pair->b->api->fresh(pair->b), BELFRY_OK);
    int64_t rev = meta.revision + 100;
    fill_fresh(pair, rev);
    struct belfry_wire_header header = {.cluster_id = 6, .revision = rev};
    if (belfry_rng_below(&pair->rng, 3) == 0)
        return; /* it is never finished */
    assert_int_equal(pair->a->api->adopt(pair->a, rev, &header, meta.past + 1), BELFRY_OK);
    assert_int_equal(pair->b->api->adopt(pair->b, rev, &header, meta.past + 1), BELFRY_OK);
}

static void reopen_both(struct storecheck_pair *pair)
{
    if (pair->reopen == NULL)
        return;
    pair->reopen(pair);
    same_meta(pair);
    pair->a->api->set_past(pair->a, 40);
    pair->b->api->set_past(pair->b, 40);
}

void storecheck_compare(struct storecheck_pair *pair, size_t steps)
{
    uint64_t now_s = 1000;
    for (size_t i = 0; i < steps; i++) {
        uint64_t what = belfry_rng_below(&pair->rng, 400);
        now_s += belfry_rng_below(&pair->rng, 3);
        if (what < 200)
            write_some(pair, now_s);
        else if (what < 300)
            read_history(pair);
        else if (what < 396)
            read_range(pair);
        else if (what < 398)
            list_anew(pair);
        else
            reopen_both(pair);
        same_meta(pair);
    }
}
