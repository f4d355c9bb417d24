/* src/core/lines_test.c: streams of lines on a real log, with a dialect whose lines are "revision.sub TYPE key value".
 */
#include "core/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "core/watcher.h"
#include "core/worker.h"
#include "support/refuse.h"
#include "wire/write.h"

#define PLENTY      ((size_t)1 << 30)
#define BATCHES_MAX 256
#define KEYS_MAX    2048
#define VALUE_MAX   64
#define TEXT_MAX    512

/* What a key holds, so that events have what was there before. */
struct held {
    char key[16], value[VALUE_MAX];
    int64_t version; /* 0: it is not there */
};

struct peer {
    struct stream *stream;
    struct belfry_buf in;
    size_t room; /* given again before each turn; 0: stalled */
    const char *pin;
    size_t pad;        /* bytes a line is made longer by */
    bool needs_prev;   /* a line cannot be told without what was before */
    bool no_bookmarks; /* progress: not now */
    uint32_t per_line; /* by revision: events of a line at most; 0: all */
    size_t events;     /* how often it was asked for */
    unsigned refusals; /* so many questions are answered with BELFRY_ERR_NOMEM */
};

struct bed {
    struct evlog *log;
    struct worker *worker;
    struct peer peers[8];
    size_t n_peers;
    struct held held[KEYS_MAX];
    size_t n_held;
    struct batch *batches[BATCHES_MAX]; /* history */
    size_t n_batches;
    int64_t head, compacted;
    uint64_t now;
    size_t turn_work;
    unsigned attribute_refusals;
    size_t attributes; /* asked for */
    bool no_prev;      /* history has no previous values */
};

/* ---- the dialect ---- */

static struct belfry_bytes value_of(struct belfry_bytes kv)
{
    struct belfry_wire_kv fields;
    if (kv.len == 0)
        return (struct belfry_bytes){0};
    assert_int_equal(belfry_scan_kv(kv, &fields), BELFRY_OK);
    return fields.value;
}

static void values(const struct batch *batch, uint32_t number, struct belfry_bytes *before, struct belfry_bytes *after)
{
    struct belfry_wire_event event;
    const struct batch_event *at = &batch->events[number];
    assert_int_equal(belfry_scan_event(batch_bytes(batch, at, false), &event), BELFRY_OK);
    *before = value_of(batch_prev_kv(batch, at));
    *after = event.is_delete ? (struct belfry_bytes){0} : event.kv.value;
}

static bool refused(struct peer *peer)
{
    if (peer->refusals == 0)
        return false;
    peer->refusals--;
    return true;
}

static enum belfry_err line_of(const struct peer *peer, const char *text, struct belfry_blob **out)
{
    size_t len = strlen(text);
    enum belfry_err err = belfry_blob_alloc(len + peer->pad + 1, out);
    if (err != BELFRY_OK)
        return err;
    uint8_t *to = belfry_blob_edit(*out);
    memcpy(to, text, len);
    memset(to + len, '.', peer->pad);
    to[len + peer->pad] = '\n';
    return BELFRY_OK;
}

static enum belfry_err on_event(void *user, const struct batch *batch, uint32_t number, struct belfry_blob **out)
{
    struct peer *peer = user;
    const struct batch_event *event = &batch->events[number];
    struct belfry_bytes key = batch_key(batch, event), before, after;
    char text[TEXT_MAX];
    peer->events++;
    if (refused(peer))
        return BELFRY_ERR_NOMEM;
    if (peer->needs_prev && batch_prev_lost(batch, event))
        return BELFRY_ERR_COMPACTED;
    values(batch, number, &before, &after);
    if (peer->pin != NULL && !belfry_bytes_equal(before, belfry_bytes_str(peer->pin)) &&
        !belfry_bytes_equal(after, belfry_bytes_str(peer->pin))) {
        *out = NULL;
        return BELFRY_OK;
    }
    snprintf(text, sizeof(text), "%lld.%u %s %.*s %.*s", (long long)batch->rev, batch->first_sub + number,
             event->is_delete ? "DELETE" : "PUT", (int)key.len, key.data, (int)after.len,
             after.len == 0 ? "" : after.data);
    return line_of(peer, text, out);
}

static enum belfry_err on_progress(void *user, int64_t rev, struct belfry_blob **out)
{
    struct peer *peer = user;
    char text[TEXT_MAX];
    if (refused(peer))
        return BELFRY_ERR_NOMEM;
    snprintf(text, sizeof(text), "BOOKMARK %lld", (long long)rev);
    *out = NULL;
    return peer->no_bookmarks ? BELFRY_OK : line_of(peer, text, out);
}

static enum belfry_err on_lost(void *user, int64_t compact_rev, struct belfry_blob **out)
{
    struct peer *peer = user;
    char text[TEXT_MAX];
    if (refused(peer))
        return BELFRY_ERR_NOMEM;
    snprintf(text, sizeof(text), "LOST %lld", (long long)compact_rev);
    return line_of(peer, text, out);
}

static void on_write(void *user, const uint8_t *data, size_t len)
{
    struct peer *peer = user;
    assert_true(len <= peer->room);
    peer->room -= len;
    if (belfry_buf_append(&peer->in, data, len) != BELFRY_OK)
        abort();
}

static void no_write(void *user, const uint8_t *data, size_t len)
{
    (void)user, (void)data, (void)len;
    fail_msg("a stream of lines was written to as if it were etcd's");
}

static const struct lines dialect = {.event = on_event, .progress = on_progress, .lost = on_lost, .write = on_write};

/* A line by revision: "revision: sub key=value ..." and, if more may follow, "+". */
static enum belfry_err on_revision(void *user, const struct lines_part *part, uint32_t *used, struct belfry_blob **out)
{
    struct peer *peer = user;
    char text[TEXT_MAX];
    size_t len = (size_t)snprintf(text, sizeof(text), "%lld:", (long long)part->batch->rev);
    peer->events++;
    if (refused(peer))
        return BELFRY_ERR_NOMEM;
    *used = peer->per_line != 0 && peer->per_line < part->n ? peer->per_line : part->n;
    for (uint32_t i = 0; i < *used; i++) {
        uint32_t number = part->events[i];
        struct belfry_bytes key = batch_key(part->batch, &part->batch->events[number]), before, after;
        values(part->batch, number, &before, &after);
        len += (size_t)snprintf(text + len, sizeof(text) - len, " %u %.*s=%.*s", part->batch->first_sub + number,
                                (int)key.len, key.data, (int)after.len, after.len == 0 ? "" : after.data);
    }
    snprintf(text + len, sizeof(text) - len, "%s", part->open || *used < part->n ? " +" : "");
    return line_of(peer, text, out);
}

static const struct lines by_revision = {
    .revision = on_revision, .progress = on_progress, .lost = on_lost, .write = on_write};

/* The one attribute: the whole value. */
static bool on_attribute(void *user, const struct batch *batch, uint32_t number, struct belfry_bytes name,
                         struct belfry_bytes *before, struct belfry_bytes *after)
{
    struct bed *bed = user;
    assert_true(belfry_bytes_equal(name, belfry_bytes_str("value")));
    bed->attributes++;
    values(batch, number, before, after);
    if (bed->attribute_refusals > 0) {
        bed->attribute_refusals--;
        return false;
    }
    return true;
}

/* ---- the bed ---- */

static void bed_open(struct bed *bed, unsigned log2)
{
    struct evlog_opts log_opts = {.capacity_log2 = log2, .max_bytes = PLENTY, .n_workers = 1};
    *bed = (struct bed){.now = 1000, .head = 10, .turn_work = 10000};
    assert_int_equal(evlog_create(&log_opts, &bed->log), BELFRY_OK);
    assert_int_equal(evlog_cut(bed->log, bed->head, EVLOG_CUT_START, 0), BELFRY_OK);
    struct worker_opts opts = {.log = bed->log,
                               .seed = 1,
                               .fragment_bytes = 2 << 20,
                               .response_bytes = 1 << 20,
                               .response_revs = 1000,
                               .segment_bytes = 8 << 20,
                               .write = no_write,
                               .attribute = on_attribute,
                               .attribute_user = bed};
    assert_int_equal(worker_create(&opts, &bed->worker), BELFRY_OK);
    worker_turn(bed->worker, bed->now, 1);
}

static void bed_close(struct bed *bed)
{
    worker_destroy(bed->worker);
    evlog_destroy(bed->log);
    for (size_t i = 0; i < bed->n_batches; i++)
        batch_unref(bed->batches[i]);
    for (size_t i = 0; i < bed->n_peers; i++)
        belfry_buf_fini(&bed->peers[i].in);
}

static struct bed *bed_new(unsigned log2)
{
    static struct bed bed;
    bed_open(&bed, log2);
    return &bed;
}

static struct peer *bed_peer_of(struct bed *bed, const struct lines *lines)
{
    struct peer *peer = &bed->peers[bed->n_peers++];
    *peer = (struct peer){.room = PLENTY};
    belfry_buf_init(&peer->in);
    assert_int_equal(stream_open_lines(bed->worker, peer, lines, bed->now, &peer->stream), BELFRY_OK);
    return peer;
}

static struct peer *bed_peer(struct bed *bed)
{
    return bed_peer_of(bed, &dialect);
}

static void create(struct bed *bed, struct peer *peer, struct stream_create *create, const char *pin)
{
    create->flags = WATCHER_PROGRESS;
    peer->pin = pin;
    if (pin != NULL) {
        create->pin_name = belfry_bytes_str("value");
        create->pin_value = belfry_bytes_str(pin);
    }
    assert_int_equal(stream_create(bed->worker, peer->stream, create), BELFRY_OK);
}

static void watch(struct bed *bed, struct peer *peer, const char *key, const char *end, int64_t start, const char *pin)
{
    struct stream_create request = {
        .key = belfry_bytes_str(key), .range_end = belfry_bytes_str(end), .start_rev = start};
    create(bed, peer, &request, pin);
}

static struct peer *bed_watch(struct bed *bed, const char *key, const char *end, int64_t start, const char *pin)
{
    struct peer *peer = bed_peer(bed);
    watch(bed, peer, key, end, start, pin);
    return peer;
}

/* Of [key, end), by a client that has lines of `rev`. */
static struct peer *bed_resume(struct bed *bed, const char *key, const char *end, int64_t rev, const char *pin)
{
    struct peer *peer = bed_peer(bed);
    struct stream_create request = {
        .key = belfry_bytes_str(key), .range_end = belfry_bytes_str(end), .start_rev = rev, .resumed = true};
    create(bed, peer, &request, pin);
    return peer;
}

static struct held *held_of(struct bed *bed, const char *key)
{
    size_t i = 0;
    while (i < bed->n_held && strcmp(bed->held[i].key, key) != 0)
        i++;
    if (i == bed->n_held) {
        assert_true(bed->n_held < KEYS_MAX);
        bed->held[bed->n_held++] = (struct held){0};
        snprintf(bed->held[i].key, sizeof(bed->held[i].key), "%s", key);
    }
    return &bed->held[i];
}

/* One operation of a revision: "key=value" or "-key". */
static void add_event(struct bed *bed, struct batch *batch, char *op)
{
    bool is_delete = op[0] == '-';
    char *value = is_delete ? NULL : strchr(op, '=');
    if (value != NULL)
        *value++ = '\0';
    struct held *held = held_of(bed, op + is_delete);
    struct belfry_bytes key = belfry_bytes_str(held->key);
    uint8_t raw[256], prev[256];
    struct belfry_wire_kv before = {
        .key = key, .value = belfry_bytes_str(held->value), .mod_rev = batch->rev - 1, .version = held->version};
    size_t prev_len = held->version == 0 ? 0 : (size_t)(belfry_write_kv(&before, prev) - prev);
    held->version = is_delete ? 0 : held->version + 1;
    struct belfry_wire_event event = {.is_delete = is_delete, .kv = {.key = key, .mod_rev = batch->rev}};
    if (!is_delete) {
        snprintf(held->value, sizeof(held->value), "%s", value);
        event.kv.value = belfry_bytes_str(held->value);
        event.kv.version = held->version;
    }
    size_t len = (size_t)(belfry_write_event(&event, raw) - raw);
    assert_int_equal(belfry_scan_event(belfry_bytes_of(raw, len), &event), BELFRY_OK);
    batch_add(batch, &event, belfry_bytes_of(prev, prev_len));
}

static struct batch *make_batch(struct bed *bed, const char *ops)
{
    char *copy = strdup(ops), *save;
    uint32_t n = 1;
    for (const char *c = ops; *c != '\0'; c++)
        n += *c == ' ';
    struct batch *batch;
    assert_int_equal(batch_create(++bed->head, BATCH_EVENTS, n, (size_t)n * 600, &batch), BELFRY_OK);
    for (char *op = strtok_r(copy, " ", &save); op != NULL; op = strtok_r(NULL, " ", &save))
        add_event(bed, batch, op);
    free(copy);
    bed->batches[bed->n_batches++] = batch;
    return batch;
}

static void bed_write(struct bed *bed, const char *ops)
{
    struct batch *batch = make_batch(bed, ops);
    evlog_committed(bed->log, batch->rev - 1);
    assert_int_equal(evlog_append(bed->log, batch_ref(batch)), BELFRY_OK);
    evlog_committed(bed->log, batch->rev);
}

/* Its rows are in history alone. */
static void bed_write_extent(struct bed *bed, const char *ops)
{
    struct batch *batch = make_batch(bed, ops), *extent;
    assert_int_equal(batch_create(batch->rev, BATCH_EXTENT, 0, 0, &extent), BELFRY_OK);
    batch_set_extent(extent, batch->n_events, batch->bytes);
    evlog_committed(bed->log, batch->rev - 1);
    assert_int_equal(evlog_append(bed->log, extent), BELFRY_OK);
    evlog_committed(bed->log, batch->rev);
}

/* A copy of events [from, from + n), with what was before or, if nobody has that any more, without. */
static struct batch *part_of(const struct bed *bed, const struct batch *whole, enum batch_kind kind, uint32_t from,
                             uint32_t n)
{
    struct batch *part;
    assert_int_equal(batch_create(whole->rev, kind, n, (size_t)n * 600, &part), BELFRY_OK);
    for (uint32_t i = from; i < from + n; i++) {
        const struct batch_event *event = &whole->events[i];
        struct belfry_bytes prev = bed->no_prev ? (struct belfry_bytes){0} : batch_prev_kv(whole, event);
        batch_add_stored(part, batch_bytes(whole, event, false), prev, batch_key(whole, event), event->is_delete);
    }
    if (kind == BATCH_SLICE)
        batch_set_slice(part, from, from + n < whole->n_events);
    return part;
}

static void answer(struct bed *bed, const struct worker_fetch *fetch)
{
    struct segment_builder builder;
    struct segment *segment;
    if (fetch->from < bed->compacted) {
        worker_fetched(bed->worker, fetch, BELFRY_ERR_COMPACTED, NULL, bed->compacted, bed->compacted);
        return;
    }
    segment_begin(&builder);
    for (size_t i = 0; i < bed->n_batches; i++) {
        const struct batch *batch = bed->batches[i];
        if (fetch->slice && batch->rev == fetch->from) {
            uint32_t left = batch->n_events - fetch->sub;
            struct batch *slice = part_of(bed, batch, BATCH_SLICE, fetch->sub, left < 2 ? left : 2);
            assert_int_equal(segment_add(&builder, slice), BELFRY_OK);
        } else if (!fetch->slice && batch->rev >= fetch->from) {
            struct batch *copy = part_of(bed, batch, BATCH_EVENTS, 0, batch->n_events);
            assert_int_equal(segment_add(&builder, copy), BELFRY_OK);
        }
    }
    int64_t upto = fetch->slice ? fetch->from : bed->head;
    assert_int_equal(segment_finish(&builder, fetch->past, fetch->from, upto, &segment), BELFRY_OK);
    worker_fetched(bed->worker, fetch, BELFRY_OK, segment, 0, 0);
}

static bool bed_turn(struct bed *bed)
{
    for (size_t i = 0; i < bed->n_peers; i++) {
        if (bed->peers[i].stream != NULL && bed->peers[i].room > 0)
            stream_writable(bed->worker, bed->peers[i].stream, bed->peers[i].room);
    }
    return worker_turn(bed->worker, bed->now, bed->turn_work);
}

/* Turns until nothing moves. */
static void bed_run(struct bed *bed)
{
    for (int quiet = 0, turns = 0; quiet < 3; turns++) {
        struct worker_fetch fetch;
        assert_true(turns < 100000);
        bool more = bed_turn(bed);
        while (worker_wants_fetch(bed->worker, &fetch)) {
            answer(bed, &fetch);
            more = true;
        }
        quiet = more ? 0 : quiet + 1;
    }
}

/* Everything that it was given, which is then forgotten. */
static void assert_given(struct peer *peer, const char *lines)
{
    struct belfry_bytes in = belfry_buf_bytes(&peer->in);
    char *text = calloc(1, in.len + 1);
    assert_non_null(text);
    if (in.len > 0)
        memcpy(text, in.data, in.len);
    assert_string_equal(text, lines);
    free(text);
    belfry_buf_clear(&peer->in);
}

static size_t bytes_of(const struct bed *bed)
{
    struct worker_stats stats;
    worker_stats(bed->worker, &stats);
    return stats.bytes;
}

/* ---- live ---- */

static void revision_comes_line_by_line_and_created_is_silent(void **state)
{
    (void)state;
    struct bed *bed = bed_new(8);
    struct peer *all = bed_watch(bed, "k", "l", 0, NULL), *one = bed_watch(bed, "k2", "", 0, NULL);
    bed_run(bed);
    assert_given(all, "");
    bed_write(bed, "k1=a j=x k2=b");
    bed_write(bed, "-k1");
    bed_run(bed);
    assert_given(all, "11.0 PUT k1 a\n11.2 PUT k2 b\n12.0 DELETE k1 \n");
    assert_given(one, "11.2 PUT k2 b\n");
    assert_false(stream_pending(all->stream));
    bed_close(bed);
}

static void filters_of_the_watcher_hold_for_lines_too(void **state)
{
    (void)state;
    struct bed *bed = bed_new(8);
    struct peer *peer = bed_peer(bed);
    struct stream_create create = {.key = belfry_bytes_str("k"), .flags = WATCHER_NO_DELETE};
    assert_int_equal(stream_create(bed->worker, peer->stream, &create), BELFRY_OK);
    bed_write(bed, "k=a");
    bed_write(bed, "-k");
    bed_run(bed);
    assert_given(peer, "11.0 PUT k a\n");
    bed_close(bed);
}

static void what_etcd_would_refuse_is_invalid_and_cancel_is_silent(void **state)
{
    (void)state;
    struct bed *bed = bed_new(8);
    struct peer *peer = bed_peer(bed);
    struct stream_create empty = {.key = belfry_bytes_str("l"), .range_end = belfry_bytes_str("k")};
    struct stream_create negative = {.key = belfry_bytes_str("l"), .start_rev = -1};
    assert_int_equal(stream_create(bed->worker, peer->stream, &empty), BELFRY_ERR_INVALID);
    assert_int_equal(stream_create(bed->worker, peer->stream, &negative), BELFRY_ERR_INVALID);
    assert_false(stream_ended(peer->stream));
    watch(bed, peer, "k", "", 0, NULL);
    assert_int_equal(stream_cancel(bed->worker, peer->stream, 0), BELFRY_OK);
    bed_write(bed, "k=a");
    bed_run(bed);
    assert_given(peer, "");
    bed_close(bed);
}

static void lines_are_the_same_in_parts_of_every_size(void **state)
{
    (void)state;
    for (size_t room = 1; room < 40; room++) {
        struct bed *bed = bed_new(4);
        struct peer *peer = bed_watch(bed, "k", "l", 0, NULL);
        bed_run(bed);
        bed_write(bed, "k1=a k2=b k3=c");
        bed_write(bed, "k4=d");
        for (int i = 0; i < 100; i++) {
            peer->room = room;
            bed_run(bed);
        }
        assert_given(peer, "11.0 PUT k1 a\n11.1 PUT k2 b\n11.2 PUT k3 c\n12.0 PUT k4 d\n");
        assert_int_equal(peer->events, 4); /* nothing was made twice */
        bed_close(bed);
    }
}

static void stream_parked_inside_a_revision_goes_on_there_from_history(void **state)
{
    (void)state;
    struct bed *bed = bed_new(4);
    struct peer *peer = bed_watch(bed, "k", "l", 0, NULL);
    bed_run(bed);
    peer->room = 20; /* one line and a half */
    bed_write(bed, "k1=a k2=b k3=c");
    bed_run(bed);
    for (int i = 0; i < 100; i++)
        bed_write(bed, "k9=x");
    bed_run(bed);
    peer->room = 14 + 14 + 14 - 20;
    bed_run(bed);
    assert_given(peer, "11.0 PUT k1 a\n11.1 PUT k2 b\n11.2 PUT k3 c\n");
    peer->room = PLENTY;
    bed_run(bed);
    assert_int_equal(belfry_buf_len(&peer->in), 88 * 14 + 12 * 15);
    bed_close(bed);
}

static void one_behind_is_given_the_past_and_rides(void **state)
{
    (void)state;
    for (size_t work = 4; work < 40; work += 3) {
        struct bed *bed = bed_new(4);
        char expected[2048] = "";
        bed->turn_work = work;
        for (int i = 11; i < 60; i++) {
            bed_write(bed, "k=a j=b");
            snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), "%d.0 PUT k a\n", i);
        }
        bed_run(bed);
        struct peer *peer = bed_watch(bed, "k", "", 11, NULL);
        for (int i = 0; i < 300; i++) {
            peer->room = 1 + work;
            bed_run(bed);
        }
        assert_given(peer, expected);
        bed_close(bed);
    }
}

/* ---- what is held ---- */

static void long_line_is_held_by_reference_and_accounted(void **state)
{
    (void)state;
    struct bed *bed = bed_new(8);
    struct peer *peer = bed_watch(bed, "k", "", 0, NULL);
    bed_run(bed);
    peer->pad = 200000;
    peer->room = 100;
    size_t before = bytes_of(bed), inside;
    bed_write(bed, "k=a");
    bed_run(bed);
    assert_int_equal(belfry_buf_len(&peer->in), 100);
    assert_true(bytes_of(bed) >= before + 200000 && bytes_of(bed) < before + 210000);
    assert_int_equal(stream_inside_since(peer->stream, &inside), bed->now);
    assert_true(inside >= 200000);
    peer->room = PLENTY;
    bed_run(bed);
    assert_int_equal(belfry_buf_len(&peer->in), 200000 + 13);
    assert_true(bytes_of(bed) < before + 5000);
    bed_close(bed);
}

static char *many_ops(size_t n)
{
    char *ops = calloc(n, 16);
    assert_non_null(ops);
    for (size_t i = 0, at = 0; i < n; i++)
        at += (size_t)snprintf(ops + at, n * 16 - at, "%sk%zu=a", i == 0 ? "" : " ", i);
    return ops;
}

static void revision_of_many_lines_is_never_held_whole_by_one_who_is_slow(void **state)
{
    (void)state;
    struct bed *bed = bed_new(8);
    struct peer *peer = bed_watch(bed, "k", "l", 0, NULL);
    bed_run(bed);
    char *ops = many_ops(1000);
    peer->pad = 1000;
    peer->room = 10;
    bed_write(bed, ops);
    bed_run(bed);
    size_t idle = bytes_of(bed); /* who wants the batch has been found */
    for (int i = 0; i < 1000; i++) {
        peer->room = 1100;
        bed_run(bed);
        assert_true(bytes_of(bed) <= idle + 2000);
        assert_true(peer->events <= 2 + 1100 * ((size_t)i + 1) / 1010);
    }
    assert_int_equal(peer->events, 1000);
    free(ops);
    bed_close(bed);
}

static void turn_is_bounded_inside_a_revision_of_many_lines(void **state)
{
    (void)state;
    for (int start = 0; start < 2; start++) { /* live, and on a bus */
        struct bed *bed = bed_new(8);
        char *ops = many_ops(1000);
        struct peer *peer = bed_watch(bed, "k", "l", 0, NULL);
        if (start == 1) {
            stream_close(bed->worker, peer->stream);
            peer->stream = NULL;
        }
        bed_run(bed);
        bed_write(bed, ops);
        if (start == 1) {
            bed_run(bed);
            peer = bed_watch(bed, "k", "l", 11, NULL);
        }
        bed->turn_work = 20;
        size_t turns = 0;
        while (peer->events < 1000) {
            size_t before = peer->events;
            (void)bed_turn(bed);
            assert_true(peer->events - before <= 60);
            assert_true(++turns < 1000);
        }
        bed_run(bed);
        assert_int_equal(peer->events, 1000);
        free(ops);
        bed_close(bed);
    }
}

/* ---- pins ---- */

static void pinned_stream_is_visited_only_for_its_value_before_or_after(void **state)
{
    (void)state;
    struct bed *bed = bed_new(8);
    struct peer *a = bed_watch(bed, "k", "l", 0, "a"), *b = bed_watch(bed, "k", "l", 0, "b");
    struct peer *all = bed_watch(bed, "k", "l", 0, NULL);
    bed_run(bed);
    bed_write(bed, "k1=a");
    bed_write(bed, "k1=b");
    bed_write(bed, "k1=c");
    bed_write(bed, "k2=b k3=c");
    bed_write(bed, "-k2");
    bed_run(bed);
    assert_given(a, "11.0 PUT k1 a\n12.0 PUT k1 b\n");
    assert_given(b, "12.0 PUT k1 b\n13.0 PUT k1 c\n14.0 PUT k2 b\n15.0 DELETE k2 \n");
    assert_int_equal(a->events, 2);
    assert_int_equal(b->events, 4);
    assert_int_equal(all->events, 6);
    assert_int_equal(bed->attributes, 6);
    bed_close(bed);
}

static void pinned_stream_that_is_behind_is_given_its_past(void **state)
{
    (void)state;
    struct bed *bed = bed_new(4);
    for (int i = 0; i < 20; i++) {
        bed_write(bed, "k1=a k2=x");
        bed_write(bed, "k1=b k2=y");
        bed_run(bed);
    }
    struct peer *peer = bed_watch(bed, "k", "l", 45, "y");
    bed_run(bed);
    assert_given(peer, "45.1 PUT k2 x\n46.1 PUT k2 y\n47.1 PUT k2 x\n48.1 PUT k2 y\n49.1 PUT k2 x\n50.1 PUT k2 y\n");
    bed_close(bed);
}

static void attribute_without_memory_is_asked_for_again(void **state)
{
    (void)state;
    struct bed *bed = bed_new(8);
    struct peer *peer = bed_watch(bed, "k", "l", 0, "a");
    bed_run(bed);
    bed->attribute_refusals = 1;
    bed_write(bed, "k1=a");
    assert_false(bed_turn(bed));
    assert_given(peer, "");
    assert_true(worker_due(bed->worker) > bed->now && worker_due(bed->worker) <= bed->now + 100);
    bed->now = worker_due(bed->worker);
    bed_run(bed);
    assert_given(peer, "11.0 PUT k1 a\n");
    bed_close(bed);
}

/* ---- revisions too large for memory ---- */

static void extent_comes_line_by_line_to_those_who_want_it(void **state)
{
    (void)state;
    for (size_t room = 1; room < 60; room += 7) {
        struct bed *bed = bed_new(4);
        struct peer *all = bed_watch(bed, "k", "l", 0, NULL), *pinned = bed_watch(bed, "k", "l", 0, "b");
        struct peer *none = bed_watch(bed, "k", "l", 0, "nowhere");
        bed_run(bed);
        bed_write_extent(bed, "j1=b k1=a j2=b j3=b j4=b k2=b k3=c");
        bed_write(bed, "k4=b");
        for (int i = 0; i < 120; i++) {
            all->room = pinned->room = room;
            bed_run(bed);
        }
        assert_given(all, "11.1 PUT k1 a\n11.5 PUT k2 b\n11.6 PUT k3 c\n12.0 PUT k4 b\n");
        assert_given(pinned, "11.5 PUT k2 b\n12.0 PUT k4 b\n");
        assert_int_equal(none->events, 0);
        bed_close(bed);
    }
}

static void extent_whose_rows_are_gone_ends_the_stream_with_its_last_line(void **state)
{
    (void)state;
    struct bed *bed = bed_new(4);
    struct peer *peer = bed_watch(bed, "k", "l", 0, NULL);
    bed_run(bed);
    peer->room = 14;
    bed_write_extent(bed, "k1=a k2=b k3=c k4=d k5=e");
    bed_run(bed);
    for (int i = 0; i < 20; i++)
        bed_write(bed, "x=y");
    bed->compacted = 20;
    assert_int_equal(evlog_cut(bed->log, bed->head, EVLOG_CUT_COMPACTED, 20), BELFRY_OK);
    peer->room = PLENTY;
    bed_run(bed);
    assert_given(peer, "11.0 PUT k1 a\nLOST 20\n");
    assert_true(stream_ended(peer->stream));
    assert_false(stream_pending(peer->stream));
    bed_close(bed);
}

/* ---- lines by revision ---- */

static struct peer *bed_watch_by_revision(struct bed *bed, uint32_t per_line, const char *pin)
{
    struct peer *peer = bed_peer_of(bed, &by_revision);
    peer->per_line = per_line;
    watch(bed, peer, "k", "l", 0, pin);
    return peer;
}

static void revision_is_one_line(void **state)
{
    (void)state;
    struct bed *bed = bed_new(8);
    struct peer *all = bed_watch_by_revision(bed, 0, NULL), *pinned = bed_watch_by_revision(bed, 0, "b");
    bed_run(bed);
    bed_write(bed, "k1=a j=x k2=b k3=c");
    bed_write(bed, "-k1");
    bed_run(bed);
    assert_given(all, "11: 0 k1=a 2 k2=b 3 k3=c\n12: 0 k1=\n");
    assert_given(pinned, "11: 2 k2=b\n");
    bed_close(bed);
}

static void revision_in_parts_is_the_same_however_little_room_there_is(void **state)
{
    (void)state;
    for (size_t room = 1; room < 40; room++) {
        struct bed *bed = bed_new(4);
        struct peer *peer = bed_watch_by_revision(bed, 2, NULL);
        bed_run(bed);
        bed_write(bed, "k1=a k2=b k3=c j=x k4=d k5=e");
        bed_write(bed, "k6=f k7=g");
        for (int i = 0; i < 100; i++) {
            peer->room = room;
            bed_run(bed);
        }
        assert_given(peer, "11: 0 k1=a 1 k2=b +\n11: 2 k3=c 4 k4=d +\n11: 5 k5=e\n12: 0 k6=f 1 k7=g\n");
        assert_int_equal(peer->events, 4); /* nothing was made twice */
        bed_close(bed);
    }
}

/* The last line of a revision is not open, also where none of its last events is for the stream. */
static void extent_by_revision_ends_with_a_line_that_says_so(void **state)
{
    (void)state;
    for (size_t room = 1; room < 60; room += 7) {
        struct bed *bed = bed_new(4);
        struct peer *peer = bed_watch_by_revision(bed, 0, NULL);
        bed_run(bed);
        bed_write_extent(bed, "j1=b k1=a j2=b k2=b k3=c");
        bed_write_extent(bed, "k4=d j3=x j4=x j5=x");
        bed_write(bed, "k5=e");
        for (int i = 0; i < 120; i++) {
            peer->room = room;
            bed_run(bed);
        }
        assert_given(peer, "11: 1 k1=a +\n11: 3 k2=b +\n11: 4 k3=c\n12: 0 k4=d +\n12:\n13: 0 k5=e\n");
        bed_close(bed);
    }
}

/* A revision that was begun in slices goes on as a whole when the store has lost its history: all of its events for the
 * stream are given, and what is left is the line that ends it. */
static void revision_begun_in_slices_ends_as_a_whole(void **state)
{
    (void)state;
    struct bed *bed = bed_new(4);
    struct peer *peer = bed_watch_by_revision(bed, 0, NULL);
    bed_run(bed);
    bed_write_extent(bed, "k4=d j3=x j4=x j5=x");
    for (int turns = 0; belfry_buf_len(&peer->in) == 0; turns++) {
        struct worker_fetch fetch;
        assert_true(turns < 100);
        if (worker_wants_fetch(bed->worker, &fetch)) /* the next one waits for its answer until the cut */
            answer(bed, &fetch);
        bed_turn(bed);
    }
    assert_given(peer, "11: 0 k4=d +\n");
    assert_int_equal(evlog_cut(bed->log, bed->head, EVLOG_CUT_DAMAGED, 0), BELFRY_OK);
    bed_run(bed);
    assert_given(peer, "11:\n");
    bed_write(bed, "k5=e");
    bed_run(bed);
    assert_given(peer, "12: 0 k5=e\n");
    bed_close(bed);
}

static void line_by_revision_without_memory_is_asked_for_again(void **state)
{
    (void)state;
    struct bed *bed = bed_new(4);
    struct peer *peer = bed_watch_by_revision(bed, 1, NULL);
    bed_run(bed);
    bed_write(bed, "k1=a k2=b");
    bed_write_extent(bed, "k3=c j=x");
    for (int i = 0; i < 12; i++) {
        peer->refusals = i % 2;
        bed_run(bed);
        bed->now += 100;
    }
    assert_given(peer, "11: 0 k1=a +\n11: 1 k2=b\n12: 0 k3=c +\n12:\n");
    bed_close(bed);
}

/* ---- resuming ---- */

static void who_resumes_from_a_revision_of_several_is_given_all_of_it_again(void **state)
{
    (void)state;
    for (unsigned far = 0; far < 2; far++) {
        struct bed *bed = bed_new(4);
        bed_write(bed, "k1=a j=x k2=b");
        bed_write(bed, "k1=c");
        for (unsigned i = 0; i < far * 40; i++)
            bed_write(bed, "x=y"); /* out of the log */
        bed_run(bed);
        struct peer *all = bed_resume(bed, "k", "l", 11, NULL), *slow = bed_resume(bed, "k", "l", 11, NULL);
        struct peer *pinned = bed_resume(bed, "j", "l", 11, "b");
        slow->room = 20;
        bed_run(bed);
        slow->room = PLENTY;
        bed_run(bed);
        assert_given(all, "11.0 PUT k1 a\n11.2 PUT k2 b\n12.0 PUT k1 c\n");
        assert_given(slow, "11.0 PUT k1 a\n11.2 PUT k2 b\n12.0 PUT k1 c\n");
        assert_given(pinned, ""); /* of all that it may want there was one */
        bed_close(bed);
    }
}

static void who_resumes_from_a_revision_of_one_has_it(void **state)
{
    (void)state;
    struct bed *bed = bed_new(8);
    bed_write(bed, "k1=a");
    bed_write(bed, "j=x k1=b");
    bed_write(bed, "k1=c");
    bed_run(bed);
    struct peer *first = bed_resume(bed, "k", "l", 11, NULL), *second = bed_resume(bed, "k1", "", 12, NULL);
    struct peer *last = bed_resume(bed, "k", "l", 13, NULL), *none = bed_resume(bed, "m", "n", 12, NULL);
    bed_run(bed);
    assert_given(first, "12.1 PUT k1 b\n13.0 PUT k1 c\n");
    assert_given(second, "13.0 PUT k1 c\n");
    assert_given(last, "");
    assert_given(none, "");
    bed_write(bed, "k1=d k2=d m=d");
    bed_run(bed);
    assert_given(last, "14.0 PUT k1 d\n14.1 PUT k2 d\n");
    assert_given(none, "14.2 PUT m d\n");
    bed_close(bed);
}

static void who_resumes_from_an_extent_is_given_it_again_unless_it_has_one_event(void **state)
{
    (void)state;
    struct bed *bed = bed_new(8);
    bed_write_extent(bed, "j=x k1=a k2=b k3=c k4=d");
    bed_write_extent(bed, "k1=e");
    bed_run(bed);
    struct peer *several = bed_resume(bed, "k", "l", 11, NULL), *one = bed_resume(bed, "k", "l", 12, NULL);
    several->room = 20;
    bed_run(bed);
    several->room = PLENTY;
    bed_write(bed, "k1=f");
    bed_run(bed);
    assert_given(several, "11.1 PUT k1 a\n11.2 PUT k2 b\n11.3 PUT k3 c\n11.4 PUT k4 d\n12.0 PUT k1 e\n13.0 PUT k1 f\n");
    assert_given(one, "13.0 PUT k1 f\n");
    bed_close(bed);
}

/* Breaks behind every line: from its revision on, nothing is missing. */
static void cut_off_behind_any_line_it_finds_the_rest(void **state)
{
    (void)state;
    static const char *const lines[] = {"11.0 PUT k1 a\n", "12.0 PUT k1 b\n",   "12.1 PUT k2 b\n",   "13.0 PUT k2 c\n",
                                        "13.1 PUT k1 c\n", "14.0 DELETE k1 \n", "14.1 DELETE k2 \n", "15.0 PUT k3 d\n"};
    static const size_t again_from[] = {1, 1, 1, 3, 3, 5, 5, 8};
    struct bed *bed = bed_new(8);
    bed_write(bed, "k1=a");
    bed_write(bed, "k1=b k2=b");
    bed_write(bed, "k2=c k1=c");
    bed_write(bed, "-k1 -k2");
    bed_write(bed, "k3=d");
    bed_run(bed);
    for (size_t n = 0; n < sizeof(lines) / sizeof(lines[0]); n++) {
        char expected[256] = "";
        for (size_t i = again_from[n]; i < sizeof(lines) / sizeof(lines[0]); i++)
            strcat(expected, lines[i]);
        struct peer *peer = bed_resume(bed, "k", "l", atoi(lines[n]), NULL);
        bed_run(bed);
        assert_given(peer, expected);
    }
    bed_close(bed);
}

static void who_resumes_from_above_p_is_told_no_progress_below(void **state)
{
    (void)state;
    struct bed *bed = bed_new(8);
    struct peer *next = bed_resume(bed, "k", "l", 11, NULL), *far = bed_resume(bed, "k", "l", 13, NULL);
    stream_set_progress(bed->worker, next->stream, 1000);
    stream_progress(bed->worker, next->stream);
    stream_progress(bed->worker, far->stream);
    bed->now += 1100;
    bed_run(bed);
    assert_given(next, "");
    bed_write(bed, "k1=a k2=a");
    bed_run(bed);
    assert_given(next, "11.0 PUT k1 a\n11.1 PUT k2 a\nBOOKMARK 11\nBOOKMARK 11\n");
    bed_write(bed, "k1=b k2=b");
    bed_run(bed);
    assert_given(far, "");
    bed_write(bed, "j=c");
    bed_run(bed);
    assert_given(far, "BOOKMARK 13\n");
    bed_close(bed);
}

static void who_resumes_from_what_nobody_has_is_lost(void **state)
{
    (void)state;
    struct bed *bed = bed_new(4);
    for (int i = 0; i < 40; i++) {
        bed_write(bed, "k1=a k2=a");
        bed_run(bed);
    }
    bed->compacted = 20;
    struct peer *lost = bed_resume(bed, "k1", "", 19, NULL), *edge = bed_resume(bed, "k1", "", 20, NULL);
    bed_run(bed);
    assert_given(lost, "LOST 20\n");
    struct belfry_bytes given = belfry_buf_bytes(&edge->in);
    assert_memory_equal(given.data, "21.0 PUT k1 a\n", 14); /* and has that of 20 */
    bed_close(bed);
}

/* ---- the end of a stream ---- */

static void watcher_whose_past_is_gone_is_told_in_a_last_line(void **state)
{
    (void)state;
    struct bed *bed = bed_new(4);
    for (int i = 0; i < 40; i++) {
        bed_write(bed, "k=a");
        bed_run(bed);
    }
    bed->compacted = 20;
    struct peer *peer = bed_watch(bed, "k", "", 15, NULL);
    peer->refusals = 1;
    peer->room = 3;
    bed_run(bed);
    bed->now += 100;
    bed_run(bed);
    assert_true(stream_ended(peer->stream));
    assert_true(stream_pending(peer->stream));
    peer->room = PLENTY;
    stream_progress(bed->worker, peer->stream);
    bed_write(bed, "k=b");
    bed->now += 10000000;
    bed_run(bed);
    assert_given(peer, "LOST 20\n");
    assert_false(stream_pending(peer->stream));
    struct worker_stats stats;
    worker_stats(bed->worker, &stats);
    assert_int_equal(stats.parked, 0);
    bed_close(bed);
}

static void streams_of_the_tier_itself_are_counted_apart(void **state)
{
    (void)state;
    static const struct lines inward = {
        .event = on_event, .progress = on_progress, .lost = on_lost, .write = on_write, .inward = true};
    struct bed *bed = bed_new(8);
    struct worker_stats stats;
    struct peer *other = bed_peer(bed), *own = &bed->peers[bed->n_peers++];
    *own = (struct peer){.room = PLENTY};
    belfry_buf_init(&own->in);
    assert_int_equal(stream_open_lines(bed->worker, own, &inward, bed->now, &own->stream), BELFRY_OK);
    watch(bed, other, "k", "l", 0, NULL);
    watch(bed, own, "k", "l", 0, NULL);
    bed_run(bed);
    worker_stats(bed->worker, &stats);
    assert_int_equal(stats.watchers, 2);
    assert_int_equal(stats.lines[LINES_BY_EVENT].synced, 1);
    assert_int_equal(stats.lines[LINES_INWARD].synced, 1);
    own->room = 0;
    stream_writable(bed->worker, own->stream, 0);
    bed_write(bed, "k=b");
    bed_run(bed);
    worker_stats(bed->worker, &stats);
    assert_true(stats.lines[LINES_BY_EVENT].synced == 1 && stats.lines[LINES_BY_EVENT].parked == 0);
    assert_true(stats.lines[LINES_INWARD].synced == 0 && stats.lines[LINES_INWARD].parked == 1);
    bed_close(bed);
}

static void rewritten_past_is_told_in_a_last_line(void **state)
{
    (void)state;
    struct bed *bed = bed_new(4);
    struct peer *peer = bed_watch(bed, "k", "", 0, NULL);
    bed_write(bed, "k=a");
    bed_run(bed);
    assert_int_equal(evlog_cut(bed->log, 30, EVLOG_CUT_REWRITTEN, 30), BELFRY_OK);
    bed_run(bed);
    assert_given(peer, "11.0 PUT k a\nLOST 30\n");
    assert_true(stream_ended(peer->stream));
    bed_close(bed);
}

static void line_that_needs_what_nobody_has_any_more_loses_the_watcher(void **state)
{
    (void)state;
    for (int pinned = 0; pinned < 2; pinned++) {
        struct bed *bed = bed_new(4);
        bed->no_prev = true;
        bed_write(bed, "k1=a");
        bed_write(bed, "k2=b");
        bed_write(bed, "k2=c");
        bed_write(bed, "k1=d");
        for (int i = 0; i < 40; i++)
            bed_write(bed, "x=y");
        bed_run(bed);
        struct peer *peer = bed_peer(bed), *other = bed_watch(bed, "k", "l", 11, NULL);
        peer->needs_prev = true;
        watch(bed, peer, "k", "l", 11, pinned == 1 ? "b" : NULL);
        stream_progress(bed->worker, peer->stream);
        bed_run(bed);
        assert_given(peer, pinned == 1 ? "12.0 PUT k2 b\nLOST 14\n" : "11.0 PUT k1 a\n12.0 PUT k2 b\nLOST 14\n");
        assert_true(stream_ended(peer->stream));
        assert_given(other, "11.0 PUT k1 a\n12.0 PUT k2 b\n13.0 PUT k2 c\n14.0 PUT k1 d\n");
        assert_false(stream_ended(other->stream));
        bed_write(bed, "k1=b");
        bed_run(bed);
        assert_given(peer, "");
        bed_close(bed);
    }
}

static void extent_that_needs_what_nobody_has_any_more_loses_the_watcher(void **state)
{
    (void)state;
    struct bed *bed = bed_new(4);
    bed->no_prev = true;
    struct peer *peer = bed_watch(bed, "k", "l", 0, "b");
    peer->needs_prev = true;
    bed_write(bed, "k1=b");
    bed_run(bed);
    bed_write_extent(bed, "k2=b k3=c k1=d");
    bed_run(bed);
    assert_given(peer, "11.0 PUT k1 b\n12.0 PUT k2 b\nLOST 13\n");
    assert_true(stream_ended(peer->stream));
    bed_close(bed);
}

/* ---- progress ---- */

static void progress_has_a_period_of_its_own_and_comes_to_the_busy_too(void **state)
{
    (void)state;
    struct bed *bed = bed_new(8);
    struct peer *peer = bed_watch(bed, "k", "", 0, NULL), *silent = bed_watch(bed, "k", "", 0, NULL);
    stream_set_progress(bed->worker, peer->stream, 1000);
    stream_set_progress(bed->worker, silent->stream, 1000);
    silent->no_bookmarks = true;
    bed_write(bed, "k=a");
    bed_run(bed);
    assert_true(worker_due(bed->worker) >= bed->now + 1000 && worker_due(bed->worker) <= bed->now + 1100);
    bed->now += 1100;
    bed_run(bed);
    assert_given(peer, "11.0 PUT k a\nBOOKMARK 11\n");
    assert_given(silent, "11.0 PUT k a\n");
    bed_write(bed, "j=a");
    worker_set_stale(bed->worker, true);
    bed->now += 1100;
    bed_run(bed);
    assert_given(peer, "");
    worker_set_stale(bed->worker, false);
    bed_run(bed);
    assert_given(peer, "BOOKMARK 12\n");
    bed_close(bed);
}

#define TICKING 6

/* Whatever budget the turn had that decided on it: the tier may be stale in the next one. */
static void progress_that_was_not_begun_is_not_told_by_a_stale_tier(void **state)
{
    (void)state;
    bool told = false;
    for (size_t work = 1; work < 20; work++) {
        struct bed *bed = bed_new(8);
        struct peer *peers[TICKING];
        size_t begun[TICKING];
        for (size_t i = 0; i < TICKING; i++) {
            peers[i] = bed_watch(bed, "k", "", 0, NULL);
            stream_set_progress(bed->worker, peers[i]->stream, 1000);
        }
        bed_run(bed);
        for (size_t i = 0; i < TICKING; i++)
            peers[i]->room = 5; /* less than the line */
        bed->now += 1100;
        bed->turn_work = work;
        bed_turn(bed);
        worker_set_stale(bed->worker, true);
        for (size_t i = 0; i < TICKING; i++) {
            begun[i] = belfry_buf_bytes(&peers[i]->in).len;
            peers[i]->room = PLENTY;
            told = told || begun[i] > 0;
        }
        bed_run(bed);
        for (size_t i = 0; i < TICKING; i++)
            assert_given(peers[i], begun[i] > 0 ? "BOOKMARK 10\n" : "");
        worker_set_stale(bed->worker, false);
        bed_run(bed);
        for (size_t i = 0; i < TICKING; i++)
            assert_given(peers[i], begun[i] > 0 ? "" : "BOOKMARK 10\n");
        bed_close(bed);
    }
    assert_true(told);
}

static void progress_waits_for_one_who_is_slow_or_behind(void **state)
{
    (void)state;
    struct bed *bed = bed_new(4);
    struct peer *slow = bed_watch(bed, "k", "", 0, NULL);
    bed_run(bed);
    slow->room = 5;
    bed_write(bed, "k=a");
    bed_write(bed, "k=b");
    stream_progress(bed->worker, slow->stream);
    bed_run(bed);
    slow->room = 13;
    slow->refusals = 1;
    bed_run(bed);
    slow->room = PLENTY;
    bed->now += 100;
    bed_run(bed);
    assert_given(slow, "11.0 PUT k a\n12.0 PUT k b\nBOOKMARK 12\n");
    struct peer *behind = bed_watch(bed, "k", "", 12, NULL), *future = bed_watch(bed, "k", "", 20, NULL);
    stream_progress(bed->worker, behind->stream);
    stream_progress(bed->worker, future->stream);
    bed_run(bed);
    assert_given(behind, "12.0 PUT k b\nBOOKMARK 12\n");
    assert_given(future, "");
    bed_close(bed);
}

/* ---- memory ---- */

static void line_without_memory_is_asked_for_again_and_nothing_is_skipped(void **state)
{
    (void)state;
    for (unsigned refusals = 1; refusals < 6; refusals++) {
        struct bed *bed = bed_new(4);
        struct peer *live = bed_watch(bed, "k", "l", 0, NULL);
        bed_run(bed);
        live->refusals = refusals;
        bed_write(bed, "k1=a k2=b");
        bed_write_extent(bed, "k1=c k2=d k3=e");
        bed_run(bed);
        struct peer *behind = bed_watch(bed, "k", "l", 11, NULL);
        behind->refusals = refusals;
        for (int i = 0; i < 10; i++) {
            bed->now += 100;
            bed_run(bed);
        }
        assert_given(live, "11.0 PUT k1 a\n11.1 PUT k2 b\n12.0 PUT k1 c\n12.1 PUT k2 d\n12.2 PUT k3 e\n");
        assert_given(behind, "11.0 PUT k1 a\n11.1 PUT k2 b\n12.0 PUT k1 c\n12.1 PUT k2 d\n12.2 PUT k3 e\n");
        bed_close(bed);
    }
}

static struct batch *kept_batches[8];

static void drop_bytes(void *user, const uint8_t *data, size_t len)
{
    struct peer *peer = user;
    (void)data;
    peer->room -= len;
}

/* Two streams, one pinned, slow at first; returns what was written in all in *bytes. */
static enum belfry_err serve_all(struct worker *worker, struct bed *bed, size_t *bytes)
{
    static const struct lines dropping = {
        .event = on_event, .progress = on_progress, .lost = on_lost, .write = drop_bytes};
    struct stream_create create = {.key = belfry_bytes_str("k"), .range_end = belfry_bytes_str("l"), .start_rev = 11};
    enum belfry_err err = BELFRY_OK;
    *bytes = 0;
    for (size_t i = 0; i < 2 && err == BELFRY_OK; i++) {
        struct peer *peer = &bed->peers[i];
        *peer = (struct peer){.pin = i == 0 ? NULL : "b"};
        create.pin_name = belfry_bytes_str(i == 0 ? "" : "value");
        create.pin_value = belfry_bytes_str("b");
        err = stream_open_lines(worker, peer, &dropping, 0, &peer->stream);
        if (err == BELFRY_OK)
            err = stream_create(worker, peer->stream, &create);
        bed->n_peers += err == BELFRY_OK;
    }
    for (uint64_t turn = 0; turn < 60 && err == BELFRY_OK; turn++) {
        for (size_t i = 0; i < 2; i++) {
            size_t room = turn < 20 ? 9 : 4096;
            bed->peers[i].room = room;
            stream_writable(worker, bed->peers[i].stream, room);
        }
        worker_turn(worker, turn * 20, 1000);
        for (size_t i = 0; i < 2; i++)
            *bytes += (turn < 20 ? 9 : 4096) - bed->peers[i].room;
    }
    return err;
}

static enum belfry_err scenario(void)
{
    static struct bed bed;
    struct evlog_opts log_opts = {.capacity_log2 = 8, .max_bytes = PLENTY, .n_workers = 1};
    struct worker_opts opts = {.segment_bytes = 1, .attribute = on_attribute, .attribute_user = &bed};
    size_t bytes = 0;
    memset(&bed, 0, sizeof(bed));
    enum belfry_err err = evlog_create(&log_opts, &bed.log);
    opts.log = bed.log;
    if (err == BELFRY_OK)
        err = evlog_cut(bed.log, 10, EVLOG_CUT_START, 0);
    if (err == BELFRY_OK)
        err = worker_create(&opts, &bed.worker);
    if (err == BELFRY_OK)
        worker_turn(bed.worker, 0, 1000);
    for (size_t i = 0; i < 8 && err == BELFRY_OK; i++)
        err = evlog_append(bed.log, batch_ref(kept_batches[i]));
    if (err == BELFRY_OK)
        err = serve_all(bed.worker, &bed, &bytes);
    if (err == BELFRY_OK)
        assert_int_equal(bytes, (16 + 15) * 14);
    worker_destroy(bed.worker);
    evlog_destroy(bed.log);
    return err;
}

static void refused_allocations_lose_nothing(void **state)
{
    (void)state;
    struct bed *bed = bed_new(8);
    for (int i = 0; i < 8; i++)
        bed_write(bed, i % 2 == 0 ? "k1=a k2=b" : "k1=b k2=b"); /* both are the pin's, but k1 at first */
    memcpy(kept_batches, bed->batches, sizeof(kept_batches));
    assert_true(refuse_sweep(scenario) > 20);
    bed_close(bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revision_comes_line_by_line_and_created_is_silent),
        cmocka_unit_test(filters_of_the_watcher_hold_for_lines_too),
        cmocka_unit_test(what_etcd_would_refuse_is_invalid_and_cancel_is_silent),
        cmocka_unit_test(lines_are_the_same_in_parts_of_every_size),
        cmocka_unit_test(stream_parked_inside_a_revision_goes_on_there_from_history),
        cmocka_unit_test(one_behind_is_given_the_past_and_rides),
        cmocka_unit_test(long_line_is_held_by_reference_and_accounted),
        cmocka_unit_test(revision_of_many_lines_is_never_held_whole_by_one_who_is_slow),
        cmocka_unit_test(turn_is_bounded_inside_a_revision_of_many_lines),
        cmocka_unit_test(pinned_stream_is_visited_only_for_its_value_before_or_after),
        cmocka_unit_test(pinned_stream_that_is_behind_is_given_its_past),
        cmocka_unit_test(attribute_without_memory_is_asked_for_again),
        cmocka_unit_test(extent_comes_line_by_line_to_those_who_want_it),
        cmocka_unit_test(extent_whose_rows_are_gone_ends_the_stream_with_its_last_line),
        cmocka_unit_test(revision_is_one_line),
        cmocka_unit_test(revision_in_parts_is_the_same_however_little_room_there_is),
        cmocka_unit_test(extent_by_revision_ends_with_a_line_that_says_so),
        cmocka_unit_test(revision_begun_in_slices_ends_as_a_whole),
        cmocka_unit_test(line_by_revision_without_memory_is_asked_for_again),
        cmocka_unit_test(who_resumes_from_a_revision_of_several_is_given_all_of_it_again),
        cmocka_unit_test(who_resumes_from_a_revision_of_one_has_it),
        cmocka_unit_test(who_resumes_from_an_extent_is_given_it_again_unless_it_has_one_event),
        cmocka_unit_test(cut_off_behind_any_line_it_finds_the_rest),
        cmocka_unit_test(who_resumes_from_above_p_is_told_no_progress_below),
        cmocka_unit_test(who_resumes_from_what_nobody_has_is_lost),
        cmocka_unit_test(watcher_whose_past_is_gone_is_told_in_a_last_line),
        cmocka_unit_test(streams_of_the_tier_itself_are_counted_apart),
        cmocka_unit_test(rewritten_past_is_told_in_a_last_line),
        cmocka_unit_test(line_that_needs_what_nobody_has_any_more_loses_the_watcher),
        cmocka_unit_test(extent_that_needs_what_nobody_has_any_more_loses_the_watcher),
        cmocka_unit_test(progress_has_a_period_of_its_own_and_comes_to_the_busy_too),
        cmocka_unit_test(progress_that_was_not_begun_is_not_told_by_a_stale_tier),
        cmocka_unit_test(progress_waits_for_one_who_is_slow_or_behind),
        cmocka_unit_test(line_without_memory_is_asked_for_again_and_nothing_is_skipped),
        cmocka_unit_test(refused_allocations_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
