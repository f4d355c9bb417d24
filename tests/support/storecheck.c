/* tests/support/storecheck.c: events, and the suite. */
#include "support/storecheck.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "wire/write.h"

#define CLUSTER 77
#define MANY    100000

/* ---- events ---- */

struct storecheck_event storecheck_event(struct belfry_bytes key, struct belfry_bytes value, int64_t rev,
                                         const struct belfry_wire_kv *before)
{
    struct belfry_wire_event event = {.is_delete = value.data == NULL, .kv = {.key = key, .mod_rev = rev}};
    if (!event.is_delete) {
        event.kv.value = value;
        event.kv.create_rev = before == NULL ? rev : before->create_rev;
        event.kv.version = before == NULL ? 1 : before->version + 1;
    }
    struct storecheck_event made = {.bytes = malloc(belfry_write_event_size(&event))};
    assert_non_null(made.bytes);
    size_t len = (size_t)(belfry_write_event(&event, made.bytes) - made.bytes);
    assert_int_equal(belfry_scan_event(belfry_bytes_of(made.bytes, len), &made.event), BELFRY_OK);
    return made;
}

void storecheck_event_fini(struct storecheck_event *event)
{
    free(event->bytes);
}

static struct belfry_wire_header header_at(int64_t rev)
{
    return (struct belfry_wire_header){.cluster_id = CLUSTER, .member_id = 3, .raft_term = 9, .revision = rev};
}

static void advance(struct store *store, int64_t rev)
{
    struct belfry_wire_header header = header_at(rev);
    assert_int_equal(store->api->advance(store, rev, &header), BELFRY_OK);
}

/* Applies an event on a text key; value NULL deletes. */
static enum belfry_err try_apply(struct store *store, int64_t rev, uint32_t sub, const char *key, const char *value,
                                 const struct belfry_bytes *known)
{
    struct belfry_bytes kv, prev, name = belfry_bytes_str(key), bytes = {0};
    struct belfry_wire_kv before;
    enum belfry_err err = store->api->get(store, name, &kv);
    if (err == BELFRY_OK)
        assert_int_equal(belfry_scan_kv(kv, &before), BELFRY_OK);
    if (value != NULL)
        bytes = belfry_bytes_str(value);
    struct storecheck_event event = storecheck_event(name, bytes, rev, err == BELFRY_OK ? &before : NULL);
    err = store->api->apply(store, rev, sub, &event.event, known, &prev);
    storecheck_event_fini(&event);
    return err;
}

static void apply(struct store *store, int64_t rev, uint32_t sub, const char *key, const char *value)
{
    assert_int_equal(try_apply(store, rev, sub, key, value, NULL), BELFRY_OK);
}

static void begin(struct store *store)
{
    assert_int_equal(store->api->begin(store), BELFRY_OK);
}

static void commit(struct store *store)
{
    assert_int_equal(store->api->commit(store), BELFRY_OK);
}

void storecheck_write(struct store *store, int64_t rev, const char *key, const char *value)
{
    begin(store);
    apply(store, rev, 0, key, value);
    advance(store, rev);
    commit(store);
}

/* ---- as text ---- */

struct text {
    struct belfry_buf buf;
};

static void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void text_add(struct text *text, const char *format, ...)
{
    char part[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(part, sizeof(part), format, args);
    va_end(args);
    assert_true(len >= 0 && (size_t)len < sizeof(part));
    assert_int_equal(belfry_buf_append(&text->buf, part, (size_t)len), BELFRY_OK);
}

static char *text_end(struct text *text)
{
    struct belfry_bytes bytes = belfry_buf_bytes(&text->buf);
    char *copy = strndup(bytes.len > 0 ? bytes.data : "", bytes.len);
    assert_non_null(copy);
    belfry_buf_fini(&text->buf);
    return copy;
}

static bool add_state_row(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    struct text *text = user;
    struct belfry_wire_kv scanned;
    assert_int_equal(belfry_scan_kv(kv, &scanned), BELFRY_OK);
    assert_true(belfry_bytes_equal(scanned.key, key));
    text_add(text, "%s%.*s=%.*s", belfry_buf_len(&text->buf) > 0 ? " " : "", (int)key.len, key.data,
             (int)scanned.value.len, scanned.value.data);
    return true;
}

static char *list(struct store *store, const struct store_read *read)
{
    struct text text = {0};
    struct store_page page;
    enum belfry_err err = store->api->range(store, read, add_state_row, &text, &page);
    if (err != BELFRY_OK)
        text_add(&text, "%s", belfry_errname(err));
    else if (page.more)
        text_add(&text, "...");
    if (err == BELFRY_OK && read->rev != 0)
        assert_int_equal(page.at, read->rev);
    return text_end(&text);
}

char *storecheck_list(struct store *store, const char *key, const char *end, int64_t rev, size_t max_rows)
{
    struct store_read read = {.key = belfry_bytes_str(key),
                              .end = belfry_bytes_str(end),
                              .rev = rev,
                              .max_rows = max_rows,
                              .max_bytes = SIZE_MAX};
    return list(store, &read);
}

static void add_event(struct text *text, const struct batch *batch, const struct batch_event *event)
{
    struct belfry_wire_event scanned;
    struct belfry_bytes key = batch_key(batch, event), prev = batch_prev_kv(batch, event);
    struct belfry_wire_kv before = {0};
    assert_int_equal(belfry_scan_event(batch_bytes(batch, event, true), &scanned), BELFRY_OK);
    assert_true(belfry_bytes_equal(scanned.kv.key, key));
    assert_int_equal(scanned.is_delete, event->is_delete);
    assert_int_equal(scanned.has_prev, prev.len > 0);
    if (prev.len > 0)
        assert_int_equal(belfry_scan_kv(prev, &before), BELFRY_OK);
    text_add(text, "%s%" PRId64 ":%s%.*s", belfry_buf_len(&text->buf) > 0 ? " " : "", batch->rev,
             event->is_delete ? "-" : "", (int)key.len, key.data);
    if (!event->is_delete)
        text_add(text, "=%.*s", (int)scanned.kv.value.len, scanned.kv.value.data);
    if (prev.len > 0)
        text_add(text, "(%.*s)", (int)before.value.len, before.value.data);
}

static void add_segment(struct text *text, const struct segment *segment)
{
    for (size_t i = 0; i < segment->n; i++) {
        const struct batch *batch = segment->batches[i];
        if (batch->kind == BATCH_EXTENT)
            text_add(text, "%s%" PRId64 ":extent of %" PRIu64, belfry_buf_len(&text->buf) > 0 ? " " : "", batch->rev,
                     batch->extent_events);
        for (uint32_t k = 0; k < batch->n_events; k++)
            add_event(text, batch, &batch->events[k]);
    }
}

char *storecheck_history(struct store *store, uint64_t past, int64_t from)
{
    struct text text = {0};
    struct segment *segment;
    int64_t oldest;
    enum belfry_err err;
    while ((err = store->api->history(store, past, from, 1, &segment, &oldest)) == BELFRY_OK) {
        assert_int_equal(segment->from, from);
        assert_int_equal(segment->past, past);
        add_segment(&text, segment);
        from = segment->upto + 1;
        segment_unref(segment);
    }
    if (err != BELFRY_ERR_AGAIN)
        text_add(&text, "%s", belfry_errname(err));
    return text_end(&text);
}

static void expect(char *got, const char *want)
{
    assert_string_equal(got, want);
    free(got);
}

static void expect_state(struct store *store, const char *want)
{
    expect(storecheck_list(store, "", "", 0, MANY), want);
}

static struct store_meta snapshot(struct store *store)
{
    struct store_meta meta;
    store->api->snapshot(store, &meta);
    return meta;
}

/* ---- the suite ---- */

static void empty_store_has_nothing(struct store *store)
{
    struct store_meta meta = snapshot(store);
    assert_int_equal(meta.revision, 0);
    assert_int_equal(meta.oldest, 1);
    assert_int_equal(meta.past, 0);
    expect_state(store, "");
    expect(storecheck_history(store, 0, 1), "");
    struct segment *segment;
    int64_t oldest;
    assert_int_equal(store->api->history(store, 0, 1, 1, &segment, &oldest), BELFRY_ERR_AGAIN);
}

static void readers_see_what_is_committed_and_the_writer_its_own(struct store *store)
{
    struct belfry_bytes kv;
    storecheck_write(store, 2, "a", "1");
    begin(store);
    apply(store, 3, 0, "b", "2");
    apply(store, 3, 1, "a", NULL);
    advance(store, 3);
    assert_int_equal(store->api->get(store, belfry_bytes_str("b"), &kv), BELFRY_OK);
    assert_int_equal(store->api->get(store, belfry_bytes_str("a"), &kv), BELFRY_ERR_NOT_FOUND);
    struct store_meta meta;
    store->api->meta(store, &meta);
    assert_int_equal(meta.revision, 3);
    assert_int_equal(meta.cluster_id, CLUSTER);
    assert_int_equal(snapshot(store).revision, 2);
    expect_state(store, "a=1");
    expect(storecheck_history(store, 0, 2), "2:a=1");
    commit(store);
    assert_int_equal(snapshot(store).revision, 3);
    assert_int_equal(snapshot(store).raft_term, 9);
    expect_state(store, "b=2");
    expect(storecheck_history(store, 0, 2), "2:a=1 3:b=2 3:-a(1)");
}

static void aborted_transaction_leaves_no_trace(struct store *store)
{
    storecheck_write(store, 2, "a", "1");
    storecheck_write(store, 3, "b", "1");
    begin(store);
    apply(store, 4, 0, "a", "2");
    apply(store, 4, 1, "c", "2");
    apply(store, 4, 2, "b", NULL);
    advance(store, 4);
    size_t n;
    assert_int_equal(store->api->trim(store, 5, 10, &n), BELFRY_OK);
    store->api->abort(store);
    store->api->abort(store); /* there is none: nothing happens */
    struct store_meta meta;
    store->api->meta(store, &meta);
    assert_int_equal(meta.revision, 3);
    expect_state(store, "a=1 b=1");
    storecheck_write(store, 4, "a", "3");
    expect_state(store, "a=3 b=1");
    expect(storecheck_history(store, 0, 2), "2:a=1 3:b=1 4:a=3(1)");
}

static void calls_out_of_order_are_refused(struct store *store)
{
    struct belfry_bytes kv;
    struct belfry_wire_header header = header_at(1);
    size_t n;
    struct storecheck_event event = storecheck_event(belfry_bytes_str("a"), belfry_bytes_str("1"), 5, NULL);
    assert_int_equal(store->api->get(store, belfry_bytes_str("a"), &kv), BELFRY_ERR_INVALID);
    assert_int_equal(store->api->apply(store, 5, 0, &event.event, NULL, &kv), BELFRY_ERR_INVALID);
    assert_int_equal(store->api->advance(store, 5, &header), BELFRY_ERR_INVALID);
    assert_int_equal(store->api->trim(store, 5, 1, &n), BELFRY_ERR_INVALID);
    assert_int_equal(store->api->commit(store), BELFRY_ERR_INVALID);
    assert_int_equal(store->api->put(store, &event.event.kv), BELFRY_ERR_INVALID);
    assert_int_equal(store->api->adopt(store, 5, &header, 1), BELFRY_ERR_INVALID);
    storecheck_write(store, 4, "b", "1");
    begin(store);
    assert_int_equal(store->api->begin(store), BELFRY_ERR_INVALID);
    assert_int_equal(store->api->apply(store, 4, 1, &event.event, NULL, &kv),
                     BELFRY_ERR_INVALID); /* not above revision */
    assert_int_equal(store->api->apply(store, 5, 3, &event.event, NULL, &kv), BELFRY_OK);
    assert_int_equal(store->api->apply(store, 5, 3, &event.event, NULL, &kv), BELFRY_ERR_INVALID); /* the same place */
    assert_int_equal(store->api->commit(store), BELFRY_ERR_INVALID); /* inside a revision */
    assert_int_equal(snapshot(store).revision, 4);
    storecheck_event_fini(&event);
    storecheck_write(store, 5, "a", "1");
    expect_state(store, "a=1 b=1");
}

static void previous_value_is_the_one_that_was_there(struct store *store)
{
    begin(store);
    apply(store, 2, 0, "a", "1");
    advance(store, 2);
    apply(store, 3, 0, "a", "2");
    advance(store, 3);
    commit(store);
    struct belfry_bytes prev;
    struct belfry_wire_kv kv;
    begin(store);
    struct storecheck_event event = storecheck_event(belfry_bytes_str("a"), (struct belfry_bytes){0}, 4, NULL);
    assert_int_equal(store->api->apply(store, 4, 0, &event.event, NULL, &prev), BELFRY_OK);
    assert_int_equal(belfry_scan_kv(prev, &kv), BELFRY_OK);
    assert_true(belfry_bytes_equal(kv.value, belfry_bytes_str("2")));
    assert_int_equal(kv.version, 2);
    advance(store, 4);
    commit(store);
    storecheck_event_fini(&event);
    storecheck_write(store, 5, "a", "4");
    expect(storecheck_history(store, 0, 2), "2:a=1 3:a=2(1) 4:-a(2) 5:a=4");
}

static void event_that_brings_a_previous_value_is_stored_without_it(struct store *store)
{
    storecheck_write(store, 2, "a", "ours");
    struct belfry_wire_event event = {.kv = {.key = belfry_bytes_str("a"),
                                             .value = belfry_bytes_str("new"),
                                             .create_rev = 2,
                                             .mod_rev = 3,
                                             .version = 2},
                                      .has_prev = true,
                                      .prev = {.key = belfry_bytes_str("a"), .value = belfry_bytes_str("theirs")}};
    uint8_t bytes[256];
    struct belfry_bytes prev;
    size_t len = (size_t)(belfry_write_event(&event, bytes) - bytes);
    assert_int_equal(belfry_scan_event(belfry_bytes_of(bytes, len), &event), BELFRY_OK);
    begin(store);
    assert_int_equal(store->api->apply(store, 3, 0, &event, NULL, &prev), BELFRY_OK);
    advance(store, 3);
    commit(store);
    expect(storecheck_history(store, 0, 3), "3:a=new(ours)");
}

static void segment_ends_at_a_revision_and_covers_those_without_events(struct store *store)
{
    struct segment *segment;
    int64_t oldest;
    begin(store);
    apply(store, 2, 0, "a", "1");
    apply(store, 2, 1, "b", "1");
    advance(store, 2);
    advance(store, 7);
    apply(store, 8, 0, "a", "2");
    advance(store, 8);
    advance(store, 12);
    commit(store);
    assert_int_equal(store->api->history(store, 0, 1, 1, &segment, &oldest), BELFRY_OK);
    assert_int_equal(segment->n, 1);
    assert_int_equal(segment->batches[0]->n_events, 2);
    assert_int_equal(segment->upto, 2);
    segment_unref(segment);
    assert_int_equal(store->api->history(store, 0, 3, 1, &segment, &oldest), BELFRY_OK);
    assert_int_equal(segment->n, 1);
    assert_int_equal(segment->batches[0]->rev, 8);
    assert_int_equal(segment->upto, 12);
    segment_unref(segment);
    assert_int_equal(store->api->history(store, 0, 9, 1, &segment, &oldest), BELFRY_OK);
    assert_int_equal(segment->n, 0);
    assert_int_equal(segment->upto, 12);
    segment_unref(segment);
    assert_int_equal(store->api->history(store, 0, 13, 1, &segment, &oldest), BELFRY_ERR_AGAIN);
}

static void large_revision_is_an_extent_that_is_read_in_slices(struct store *store)
{
    char key[16], value[101];
    memset(value, 'v', 100);
    value[100] = '\0';
    storecheck_write(store, 2, "first", "1");
    begin(store);
    for (uint32_t sub = 0; sub < 100; sub++) {
        snprintf(key, sizeof(key), "k%02u", sub);
        apply(store, 3, sub, key, value);
    }
    advance(store, 3);
    commit(store);
    storecheck_write(store, 4, "last", "1");
    expect(storecheck_history(store, 0, 2), "2:first=1 3:extent of 100 4:last=1");
    uint32_t sub = 0;
    for (bool more = true; more;) {
        struct segment *segment;
        int64_t oldest;
        assert_int_equal(store->api->slice(store, 0, 3, sub, 1000, &segment, &oldest), BELFRY_OK);
        assert_int_equal(segment->n, 1);
        assert_true(segment->from == 3 && segment->upto == 3);
        const struct batch *batch = segment->batches[0];
        assert_int_equal(batch->kind, BATCH_SLICE);
        assert_int_equal(batch->first_sub, sub);
        assert_in_range(batch->n_events, 1, 9);
        snprintf(key, sizeof(key), "k%02u", sub);
        assert_true(belfry_bytes_equal(batch_key(batch, &batch->events[0]), belfry_bytes_str(key)));
        sub += batch->n_events;
        more = batch->more;
        segment_unref(segment);
    }
    assert_int_equal(sub, 100);
    struct segment *segment;
    int64_t oldest;
    assert_int_equal(store->api->slice(store, 0, 3, 100, 1000, &segment, &oldest), BELFRY_ERR_INVALID);
    assert_int_equal(store->api->slice(store, 0, 5, 0, 1000, &segment, &oldest), BELFRY_ERR_AGAIN);
    assert_int_equal(store->api->slice(store, 1, 3, 0, 1000, &segment, &oldest), BELFRY_ERR_CANCELED);
    assert_int_equal(store->api->slice(store, 0, 3, 7, 1, &segment, &oldest), BELFRY_OK); /* at least one event */
    assert_int_equal(segment->batches[0]->n_events, 1);
    segment_unref(segment);
}

static void range_gives_pages_in_key_order(struct store *store)
{
    const char *keys[] = {"b", "a/2", "a", "a/1", "c"};
    for (int64_t i = 0; i < 5; i++)
        storecheck_write(store, 2 + i, keys[i], "1");
    expect_state(store, "a=1 a/1=1 a/2=1 b=1 c=1");
    expect(storecheck_list(store, "a/", "a0", 0, MANY), "a/1=1 a/2=1");
    expect(storecheck_list(store, "a/2", "", 0, 2), "a/2=1 b=1...");
    expect(storecheck_list(store, "b", "", 0, 2), "b=1 c=1");
    expect(storecheck_list(store, "b", "b", 0, 2), "");
    expect(storecheck_list(store, "a", "", 0, 0), "a=1...");
    expect(storecheck_list(store, "", "", 99, 1), "BELFRY_ERR_AGAIN");
}

static bool stop_at_once(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    (void)key;
    (void)kv;
    (*(int *)user)++;
    return false;
}

static void who_reads_may_stop(struct store *store)
{
    storecheck_write(store, 2, "a", "1");
    storecheck_write(store, 3, "b", "1");
    struct store_read read = {.max_rows = 10, .max_bytes = SIZE_MAX};
    int rows = 0;
    struct store_page page;
    assert_int_equal(store->api->range(store, &read, stop_at_once, &rows, &page), BELFRY_OK);
    assert_int_equal(rows, 1);
    assert_true(page.more);
    assert_int_equal(page.at, 3);
    read.key = belfry_bytes_str("b");
    assert_int_equal(store->api->range(store, &read, stop_at_once, &rows, &page), BELFRY_OK);
    assert_false(page.more);
}

static uint64_t count_of(struct store *store, const char *key, const char *end, int64_t rev)
{
    struct store_read read = {.key = belfry_bytes_str(key), .end = belfry_bytes_str(end), .rev = rev, .counted = true};
    struct store_page page;
    assert_int_equal(store->api->range(store, &read, NULL, NULL, &page), BELFRY_OK);
    assert_false(page.more);
    return page.count;
}

static void keys_are_counted_whatever_is_given(struct store *store)
{
    int rows = 0;
    struct store_page page;
    struct store_read read = {.key = belfry_bytes_str("b"), .max_rows = 1, .max_bytes = SIZE_MAX, .counted = true};
    assert_int_equal(count_of(store, "", "", 0), 0);
    storecheck_write(store, 2, "a", "1");
    storecheck_write(store, 3, "b", "1");
    storecheck_write(store, 4, "c", "1");
    storecheck_write(store, 5, "c", "2");
    storecheck_write(store, 6, "a", NULL);
    assert_int_equal(store->api->range(store, &read, stop_at_once, &rows, &page), BELFRY_OK);
    assert_true(rows == 1 && page.more && page.count == 2 && page.at == 6 && page.meta.revision == 6);
    read.rev = 3;
    assert_int_equal(store->api->range(store, &read, stop_at_once, &rows, &page), BELFRY_OK);
    assert_true(rows == 2 && !page.more && page.count == 1 && page.at == 3 && page.meta.revision == 6);
    assert_int_equal(count_of(store, "", "", 0), 2);
    assert_int_equal(count_of(store, "", "c", 0), 1);
    assert_int_equal(count_of(store, "c", "b", 0), 0);
    assert_int_equal(count_of(store, "", "", 5), 3);
    assert_int_equal(count_of(store, "a", "b", 5), 1);
    assert_int_equal(count_of(store, "", "", 2), 1);
}

/* Deletes a key that the revision has put; `known` is what was before the revision. */
static void delete_again(struct store *store, int64_t rev, uint32_t sub, const char *key, struct belfry_bytes known)
{
    assert_int_equal(try_apply(store, rev, sub, key, NULL, &known), BELFRY_OK);
}

static void revision_may_change_a_key_again(struct store *store)
{
    struct belfry_bytes kv;
    uint8_t before[256];
    storecheck_write(store, 2, "a", "1");
    begin(store);
    apply(store, 3, 0, "z", "1");
    delete_again(store, 3, 1, "z", (struct belfry_bytes){0});
    apply(store, 3, 2, "a", NULL);
    apply(store, 3, 3, "a", "3");
    advance(store, 3);
    assert_int_equal(store->api->get(store, belfry_bytes_str("a"), &kv), BELFRY_OK);
    assert_true(kv.len <= sizeof(before));
    memcpy(before, kv.data, kv.len);
    kv.data = (const char *)before;
    apply(store, 4, 0, "a", "a value that is longer than the one before");
    delete_again(store, 4, 1, "a", kv);
    apply(store, 4, 2, "b", "1");
    advance(store, 4);
    commit(store);
    expect_state(store, "b=1");
    expect(storecheck_history(store, 0, 2),
           "2:a=1 3:z=1 3:-z 3:-a(1) 3:a=3 4:a=a value that is longer than the one before(3) 4:-a(3) 4:b=1");
    for (int64_t rev = 2; rev <= 4; rev++) {
        assert_int_equal(count_of(store, "", "", rev), 1);
        assert_int_equal(count_of(store, "a", "b", rev), rev < 4);
        assert_int_equal(count_of(store, "z", "", rev), 0);
    }
    storecheck_write(store, 5, "c", "1");
    expect(storecheck_list(store, "", "", 2, MANY), "a=1");
    expect(storecheck_list(store, "", "", 3, MANY), "a=3");
    expect(storecheck_list(store, "", "", 4, MANY), "b=1");
}

static void state_is_read_as_it_was(struct store *store)
{
    storecheck_write(store, 2, "a", "1");
    storecheck_write(store, 3, "b", "1");
    storecheck_write(store, 4, "a", "2");
    storecheck_write(store, 5, "b", NULL);
    storecheck_write(store, 6, "c", "1");
    storecheck_write(store, 7, "b", "2");
    const char *was[] = {"", "a=1", "a=1 b=1", "a=2 b=1", "a=2", "a=2 c=1", "a=2 b=2 c=1"};
    for (int64_t rev = 1; rev <= 7; rev++)
        expect(storecheck_list(store, "", "", rev, MANY), was[rev - 1]);
    expect(storecheck_list(store, "b", "c", 4, MANY), "b=1");
    expect(storecheck_list(store, "", "", 4, 1), "a=2...");
    expect(storecheck_list(store, "b", "", 4, 1), "b=1");
}

/* Trims at `now_s` and commits. */
static size_t trim(struct store *store, uint64_t now_s, size_t max_rows)
{
    size_t n;
    begin(store);
    assert_int_equal(store->api->trim(store, now_s, max_rows, &n), BELFRY_OK);
    commit(store);
    return n;
}

static void expect_in_view(struct store *store, struct store_view *view, int64_t rev, const char *want)
{
    struct store_read read = {.view = view, .rev = rev, .max_rows = MANY, .max_bytes = SIZE_MAX, .counted = true};
    struct store_page page;
    expect(list(store, &read), want);
    if (rev > 4)
        return;
    read.max_rows = 0;
    assert_int_equal(store->api->range(store, &read, NULL, NULL, &page), BELFRY_OK);
    assert_int_equal(page.meta.revision, 4);
    assert_int_equal(page.at, rev != 0 ? rev : 4);
    assert_int_equal(page.count, page.at == 2 ? 1 : 2);
}

static void view_stays_as_it_was_when_it_began(struct store *store)
{
    struct store_view *view;
    struct store_meta meta;
    storecheck_write(store, 2, "a", "1");
    storecheck_write(store, 3, "b", "1");
    storecheck_write(store, 4, "a", "2");
    assert_int_equal(store->api->view_begin(store, &view, &meta), BELFRY_OK);
    assert_int_equal(meta.revision, 4);
    expect_in_view(store, view, 0, "a=2 b=1");
    storecheck_write(store, 5, "a", NULL);
    storecheck_write(store, 6, "c", "1");
    expect_in_view(store, view, 0, "a=2 b=1");
    expect_in_view(store, view, 4, "a=2 b=1");
    expect_in_view(store, view, 3, "a=1 b=1");
    expect_in_view(store, view, 2, "a=1");
    expect_in_view(store, view, 5, "BELFRY_ERR_AGAIN");
    expect_state(store, "b=1 c=1");
    store->api->view_end(store, view);
}

static void trimming_by_age_moves_oldest(struct store *store)
{
    struct segment *segment;
    int64_t oldest;
    storecheck_write(store, 2, "a", "1");
    storecheck_write(store, 3, "a", "2");
    assert_int_equal(trim(store, 1000, 100), 0);
    storecheck_write(store, 4, "a", "3");
    assert_int_equal(trim(store, 1050, 100), 0);
    storecheck_write(store, 5, "a", "4");
    assert_int_equal(trim(store, 1000 + STORECHECK_AGE_S, 100), 0);
    assert_int_equal(trim(store, 1001 + STORECHECK_AGE_S, 1), 1); /* revisions up to 3 are too old; one row at a time */
    assert_int_equal(snapshot(store).oldest, 3);
    expect(storecheck_history(store, 0, 2), "BELFRY_ERR_NOT_FOUND");
    expect(storecheck_history(store, 0, 3), "3:a=2(1) 4:a=3(2) 5:a=4(3)");
    assert_int_equal(trim(store, 1001 + STORECHECK_AGE_S, 100), 1);
    assert_int_equal(store->api->history(store, 0, 3, 1, &segment, &oldest), BELFRY_ERR_NOT_FOUND);
    assert_int_equal(oldest, 4);
    assert_int_equal(store->api->slice(store, 0, 3, 0, 1, &segment, &oldest), BELFRY_ERR_NOT_FOUND);
    expect(storecheck_list(store, "", "", 3, MANY), "a=2"); /* all that came since is there */
    expect(storecheck_list(store, "", "", 2, MANY), "BELFRY_ERR_COMPACTED");
    assert_int_equal(trim(store, 9999, 100), 1);
    assert_int_equal(trim(store, 99999, 100), 0); /* the newest stays */
    expect(storecheck_history(store, 0, 5), "5:a=4(3)");
}

static void revision_that_is_trimmed_in_part_is_gone_whole(struct store *store)
{
    begin(store);
    apply(store, 2, 0, "a", "1");
    apply(store, 2, 1, "b", "1");
    apply(store, 2, 2, "c", "1");
    advance(store, 2);
    commit(store);
    assert_int_equal(trim(store, 1, 10), 0);
    storecheck_write(store, 3, "d", "1");
    assert_int_equal(trim(store, 200, 2), 2);
    assert_int_equal(snapshot(store).oldest, 3);
    expect(storecheck_history(store, 0, 2), "BELFRY_ERR_NOT_FOUND");
    expect(storecheck_list(store, "", "", 2, MANY), "a=1 b=1 c=1");
    assert_int_equal(trim(store, 200, 10), 1);
    expect(storecheck_history(store, 0, 3), "3:d=1");
    expect(storecheck_list(store, "", "", 2, MANY), "a=1 b=1 c=1");
}

static void marks_of_another_clock_are_forgotten(struct store *store)
{
    storecheck_write(store, 2, "a", "1");
    assert_int_equal(trim(store, 5000, 10), 0);
    storecheck_write(store, 3, "a", "2");
    assert_int_equal(trim(store, 10, 10), 0); /* the machine was started again */
    assert_int_equal(trim(store, 9999, 10), 1);
}

static void put_text(struct store *store, const char *key, const char *value, int64_t mod_rev)
{
    struct storecheck_event event = storecheck_event(belfry_bytes_str(key), belfry_bytes_str(value), mod_rev, NULL);
    assert_int_equal(store->api->put(store, &event.event.kv), BELFRY_OK);
    storecheck_event_fini(&event);
}

static void adopt(struct store *store, int64_t rev, uint64_t past)
{
    struct belfry_wire_header header = header_at(rev);
    assert_int_equal(store->api->adopt(store, rev, &header, past), BELFRY_OK);
}

static void fresh_copy_takes_over_when_it_is_adopted(struct store *store)
{
    struct segment *segment;
    int64_t oldest;
    store->api->set_past(store, 1);
    storecheck_write(store, 2, "old", "1");
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    put_text(store, "b", "1", 10);
    storecheck_write(store, 3, "old", "2"); /* the current content goes on */
    put_text(store, "a", "1", 11);
    expect_state(store, "old=2");
    expect(storecheck_history(store, 1, 2), "2:old=1 3:old=2(1)");
    adopt(store, 12, 2);
    struct store_meta meta = snapshot(store);
    assert_true(meta.revision == 12 && meta.oldest == 13 && meta.past == 2 && meta.cluster_id == CLUSTER);
    store->api->meta(store, &meta);
    assert_true(meta.revision == 12 && meta.oldest == 13 && meta.past == 2);
    expect_state(store, "a=1 b=1");
    expect(storecheck_list(store, "", "", 12, MANY), "a=1 b=1");
    expect(storecheck_list(store, "", "", 11, MANY), "BELFRY_ERR_COMPACTED");
    assert_int_equal(store->api->history(store, 1, 3, 1, &segment, &oldest), BELFRY_ERR_CANCELED);
    assert_int_equal(store->api->history(store, 2, 12, 1, &segment, &oldest), BELFRY_ERR_NOT_FOUND);
    assert_int_equal(store->api->history(store, 2, 13, 1, &segment, &oldest), BELFRY_ERR_AGAIN);
    storecheck_write(store, 13, "a", "2");
    expect(storecheck_history(store, 2, 13), "13:a=2(1)");
}

static void fresh_copy_keeps_each_key_as_its_highest_revision_left_it(struct store *store)
{
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    put_text(store, "dropped", "1", 5);
    assert_int_equal(store->api->fresh(store), BELFRY_OK); /* an unfinished one goes */
    put_text(store, "a", "new", 9);
    put_text(store, "a", "old", 8);
    put_text(store, "b", "old", 8);
    put_text(store, "b", "new", 9);
    put_text(store, "c", "kept", 9);
    assert_int_equal(store->api->remove(store, belfry_bytes_str("c"), 8), BELFRY_OK);
    put_text(store, "d", "gone", 8);
    assert_int_equal(store->api->remove(store, belfry_bytes_str("d"), 9), BELFRY_OK);
    assert_int_equal(store->api->remove(store, belfry_bytes_str("e"), 9), BELFRY_OK);
    put_text(store, "e", "came late", 8);
    assert_int_equal(store->api->remove(store, belfry_bytes_str("f"), 9), BELFRY_OK);
    put_text(store, "f", "again", 10);
    adopt(store, 10, 1);
    expect_state(store, "a=new b=new c=kept f=again");
}

static void transaction_that_is_open_ends_with_adopt(struct store *store)
{
    storecheck_write(store, 2, "a", "1");
    assert_int_equal(store->api->fresh(store), BELFRY_OK);
    begin(store);
    apply(store, 3, 0, "a", "2");
    adopt(store, 9, 1);
    assert_int_equal(store->api->commit(store), BELFRY_ERR_INVALID);
    expect_state(store, "");
    storecheck_write(store, 10, "x", "1");
    expect_state(store, "x=1");
}

const struct storecheck_test storecheck_tests[] = {
    {"empty_store_has_nothing", empty_store_has_nothing},
    {"readers_see_what_is_committed_and_the_writer_its_own", readers_see_what_is_committed_and_the_writer_its_own},
    {"aborted_transaction_leaves_no_trace", aborted_transaction_leaves_no_trace},
    {"calls_out_of_order_are_refused", calls_out_of_order_are_refused},
    {"previous_value_is_the_one_that_was_there", previous_value_is_the_one_that_was_there},
    {"event_that_brings_a_previous_value_is_stored_without_it",
     event_that_brings_a_previous_value_is_stored_without_it},
    {"segment_ends_at_a_revision_and_covers_those_without_events",
     segment_ends_at_a_revision_and_covers_those_without_events},
    {"large_revision_is_an_extent_that_is_read_in_slices", large_revision_is_an_extent_that_is_read_in_slices},
    {"range_gives_pages_in_key_order", range_gives_pages_in_key_order},
    {"who_reads_may_stop", who_reads_may_stop},
    {"keys_are_counted_whatever_is_given", keys_are_counted_whatever_is_given},
    {"revision_may_change_a_key_again", revision_may_change_a_key_again},
    {"state_is_read_as_it_was", state_is_read_as_it_was},
    {"view_stays_as_it_was_when_it_began", view_stays_as_it_was_when_it_began},
    {"trimming_by_age_moves_oldest", trimming_by_age_moves_oldest},
    {"revision_that_is_trimmed_in_part_is_gone_whole", revision_that_is_trimmed_in_part_is_gone_whole},
    {"marks_of_another_clock_are_forgotten", marks_of_another_clock_are_forgotten},
    {"fresh_copy_takes_over_when_it_is_adopted", fresh_copy_takes_over_when_it_is_adopted},
    {"fresh_copy_keeps_each_key_as_its_highest_revision_left_it",
     fresh_copy_keeps_each_key_as_its_highest_revision_left_it},
    {"transaction_that_is_open_ends_with_adopt", transaction_that_is_open_ends_with_adopt},
    {NULL, NULL},
};
