/* src/core/worker_test.c: a worker on a real log, with streams that are byte buffers and history that the test serves.
 */
#include "core/worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "core/turn.h"
#include "core/watcher.h"
#include "support/refuse.h"
#include "wire/write.h"

#define BYTES(literal) belfry_bytes_of(literal, sizeof(literal) - 1)
#define PLENTY         ((size_t)1 << 30)
#define BATCHES_MAX    4096
#define RESPONSES_MAX  8192
#define EVENTS_MAX     1024 /* of one revision */

/* One decoded response. */
struct got {
    struct belfry_wire_watch watch;
    int64_t revs[64]; /* of its events */
    size_t n;
    bool prev; /* some event has one */
    size_t bytes;
    bool has_reason; /* of a cancel */
};

struct peer {
    struct stream *stream;
    struct belfry_buf in;
    struct got *got;
    size_t n;
    size_t room; /* given again before each turn; 0: stalled */
};

struct bed {
    struct evlog *log;
    struct worker *worker;
    struct peer peers[8];
    size_t n_peers;
    struct batch *batches[BATCHES_MAX]; /* everything that was written: history */
    size_t n_batches;
    uint64_t now;
    int64_t head;
    int64_t compacted; /* history below is gone */
    int64_t seam;      /* no segment of history reaches over this revision */
    bool no_history;   /* fetches are not answered */
    size_t turn_work;
    size_t turns;
    uint64_t fetches;
};

static void on_write(void *user, const uint8_t *data, size_t len)
{
    struct peer *peer = user;
    assert_true(len <= peer->room);
    peer->room -= len;
    if (belfry_buf_append(&peer->in, data, len) != BELFRY_OK)
        abort();
}

static enum belfry_err bed_open(struct bed *bed, unsigned log2, struct worker_opts opts)
{
    struct evlog_opts log_opts = {.capacity_log2 = log2, .max_bytes = PLENTY, .n_workers = 1};
    *bed = (struct bed){.now = 1000, .head = 10, .turn_work = 10000};
    enum belfry_err err = evlog_create(&log_opts, &bed->log);
    if (err == BELFRY_OK)
        err = evlog_cut(bed->log, bed->head, EVLOG_CUT_START, 0);
    opts.log = bed->log;
    opts.identity = (struct response_identity){.cluster_id = 7, .member_id = 8, .raft_term = 2};
    opts.write = on_write;
    if (opts.fragment_bytes == 0)
        opts.fragment_bytes = 2 << 20;
    opts.response_bytes = opts.response_bytes == 0 ? 1 << 20 : opts.response_bytes;
    opts.response_revs = opts.response_revs == 0 ? 1000 : opts.response_revs;
    opts.segment_bytes = 8 << 20;
    opts.progress_ms = opts.progress_ms == 0 ? 600000 : opts.progress_ms;
    if (err == BELFRY_OK)
        err = worker_create(&opts, &bed->worker);
    return err;
}

static void bed_close(struct bed *bed)
{
    worker_destroy(bed->worker);
    evlog_destroy(bed->log);
    for (size_t i = 0; i < bed->n_batches; i++)
        batch_unref(bed->batches[i]);
    for (size_t i = 0; i < bed->n_peers; i++) {
        belfry_buf_fini(&bed->peers[i].in);
        free(bed->peers[i].got);
    }
}

static void decode(struct peer *peer)
{
    struct belfry_bytes in = belfry_buf_bytes(&peer->in);
    while (in.len >= 5) {
        const uint8_t *p = (const uint8_t *)in.data;
        size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4], at = 0;
        assert_int_equal(p[0], 0);
        if (in.len < 5 + len)
            break;
        assert_true(peer->n < RESPONSES_MAX);
        if (peer->got == NULL)
            peer->got = calloc(RESPONSES_MAX, sizeof(*peer->got));
        struct got *got = &peer->got[peer->n++];
        struct belfry_bytes message = belfry_bytes_of(in.data + 5, len), raw;
        *got = (struct got){.bytes = len + 5};
        assert_int_equal(belfry_scan_watch(message, &got->watch), BELFRY_OK);
        while (belfry_scan_field(message, BELFRY_WATCH_EVENTS, &at, &raw) == BELFRY_OK) {
            struct belfry_wire_event event;
            assert_int_equal(belfry_scan_event(raw, &event), BELFRY_OK);
            if (got->n < 64)
                got->revs[got->n] = event.kv.mod_rev;
            got->n++;
            got->prev |= event.has_prev;
        }
        got->has_reason = got->watch.cancel_reason.len > 0;
        got->watch.cancel_reason = (struct belfry_bytes){0};
        belfry_buf_take(&peer->in, 5 + len);
        in = belfry_buf_bytes(&peer->in);
    }
}

static struct peer *bed_peer(struct bed *bed)
{
    struct peer *peer = &bed->peers[bed->n_peers++];
    *peer = (struct peer){.room = PLENTY};
    belfry_buf_init(&peer->in);
    assert_int_equal(stream_open(bed->worker, peer, bed->now, &peer->stream), BELFRY_OK);
    return peer;
}

/* One revision: puts of the keys given, separated by spaces; "-k" deletes. */
static void bed_write_sized(struct bed *bed, const char *keys, size_t value_len)
{
    static struct belfry_wire_event events[EVENTS_MAX];
    char *copy = strdup(keys), *value = calloc(1, value_len + 1);
    size_t n = 0, bytes = 0;
    char prev[64];
    int64_t rev = ++bed->head;
    struct belfry_wire_kv before = {.key = BYTES("k"), .create_rev = 2, .mod_rev = rev - 1, .version = 1};
    size_t prev_len = (size_t)(belfry_write_kv(&before, (uint8_t *)prev) - (uint8_t *)prev);
    static uint8_t raw[1 << 22];
    uint8_t *to = raw;
    static struct belfry_bytes raws[EVENTS_MAX];
    for (char *key = strtok(copy, " "); key != NULL; key = strtok(NULL, " "), n++) {
        assert_true(n < EVENTS_MAX);
        bool is_delete = key[0] == '-';
        struct belfry_wire_event event = {.is_delete = is_delete};
        event.kv = (struct belfry_wire_kv){.key = belfry_bytes_str(key + is_delete), .mod_rev = rev};
        if (!is_delete) {
            event.kv.create_rev = 2;
            event.kv.version = 2;
            event.kv.value = belfry_bytes_of(value, value_len);
        }
        uint8_t *end = belfry_write_event(&event, to);
        raws[n] = belfry_bytes_of(to, (size_t)(end - to));
        to = end;
        assert_int_equal(belfry_scan_event(raws[n], &events[n]), BELFRY_OK);
        bytes += batch_event_bytes(&events[n], belfry_bytes_of(prev, prev_len));
    }
    struct batch *batch;
    assert_int_equal(batch_create(rev, BATCH_EVENTS, (uint32_t)n, bytes, &batch), BELFRY_OK);
    for (size_t i = 0; i < n; i++)
        batch_add(batch, &events[i], belfry_bytes_of(prev, prev_len));
    bed->batches[bed->n_batches++] = batch_ref(batch);
    evlog_committed(bed->log, rev - 1);
    assert_int_equal(evlog_append(bed->log, batch), BELFRY_OK);
    evlog_committed(bed->log, rev);
    free(copy);
    free(value);
}

static void bed_write(struct bed *bed, const char *keys)
{
    bed_write_sized(bed, keys, 10);
}

/* The newest revision as an extent in the log; its events stay in `batches` to be read as slices. */
static void bed_write_extent(struct bed *bed, const char *keys)
{
    bed_write(bed, keys);
    struct batch *real = bed->batches[bed->n_batches - 1], *extent;
    int64_t rev = real->rev;
    assert_int_equal(evlog_cut(bed->log, rev - 1, EVLOG_CUT_START, 0), BELFRY_OK);
    assert_int_equal(batch_create(rev, BATCH_EXTENT, 0, 0, &extent), BELFRY_OK);
    batch_set_extent(extent, real->n_events, real->bytes);
    assert_int_equal(evlog_append(bed->log, extent), BELFRY_OK);
}

static struct batch *slice_of(const struct batch *whole, uint32_t sub)
{
    struct batch *slice;
    size_t bytes = batch_stored_bytes(whole->events[sub].len, 0) + 64;
    assert_int_equal(batch_create(whole->rev, BATCH_SLICE, 1, bytes, &slice), BELFRY_OK);
    batch_add_stored(slice, batch_bytes(whole, &whole->events[sub], false), (struct belfry_bytes){0},
                     batch_key(whole, &whole->events[sub]), whole->events[sub].is_delete);
    batch_set_slice(slice, sub, sub + 1 < whole->n_events);
    return slice;
}

/* Adds the batches in [from, upto]; not every revision has one. */
static void add_history(const struct bed *bed, struct segment_builder *builder, int64_t from, int64_t upto)
{
    for (size_t i = 0; i < bed->n_batches; i++) {
        if (bed->batches[i]->rev >= from && bed->batches[i]->rev <= upto)
            assert_int_equal(segment_add(builder, batch_ref(bed->batches[i])), BELFRY_OK);
    }
}

static void answer(struct bed *bed, const struct worker_fetch *fetch)
{
    struct segment_builder builder;
    struct segment *segment;
    int64_t upto = fetch->from;
    bed->fetches++;
    if (fetch->from < bed->compacted) {
        worker_fetched(bed->worker, fetch, BELFRY_ERR_COMPACTED, NULL, bed->compacted, bed->compacted);
        return;
    }
    segment_begin(&builder);
    if (fetch->slice) {
        size_t i = 0;
        while (bed->batches[i]->rev != fetch->from)
            i++;
        assert_int_equal(segment_add(&builder, slice_of(bed->batches[i], fetch->sub)), BELFRY_OK);
    } else {
        upto = fetch->from + 6 < bed->head ? fetch->from + 6 : bed->head;
        if (fetch->from <= bed->seam && upto > bed->seam)
            upto = bed->seam;
        add_history(bed, &builder, fetch->from, upto);
    }
    assert_int_equal(segment_finish(&builder, fetch->past, fetch->from, upto, &segment), BELFRY_OK);
    worker_fetched(bed->worker, fetch, BELFRY_OK, segment, 0, 0);
}

/* One turn; history is not answered. */
static bool bed_turn(struct bed *bed, size_t work)
{
    for (size_t i = 0; i < bed->n_peers; i++) {
        if (bed->peers[i].stream != NULL && bed->peers[i].room > 0)
            stream_writable(bed->worker, bed->peers[i].stream, bed->peers[i].room);
    }
    bool more = worker_turn(bed->worker, bed->now, work);
    for (size_t i = 0; i < bed->n_peers; i++)
        decode(&bed->peers[i]);
    bed->turns++;
    return more;
}

/* Turns until nothing moves. */
static void bed_run(struct bed *bed)
{
    for (int quiet = 0, turns = 0; quiet < 3; turns++) {
        struct worker_fetch fetch;
        assert_true(turns < 100000);
        bool more = bed_turn(bed, bed->turn_work);
        while (!bed->no_history && worker_wants_fetch(bed->worker, &fetch)) {
            answer(bed, &fetch);
            more = true;
        }
        quiet = more ? 0 : quiet + 1;
    }
}

static void create(struct bed *bed, struct peer *peer, const char *key, const char *end, int64_t start, uint8_t flags)
{
    struct stream_create request = {
        .key = belfry_bytes_str(key), .range_end = belfry_bytes_str(end), .start_rev = start, .flags = flags};
    assert_int_equal(stream_create(bed->worker, peer->stream, &request), BELFRY_OK);
}

static void assert_created(const struct got *got, int64_t id, int64_t rev)
{
    assert_true(got->watch.created);
    assert_false(got->watch.canceled);
    assert_int_equal(got->watch.watch_id, id);
    assert_int_equal(got->watch.header.revision, rev);
    assert_int_equal(got->watch.header.cluster_id, 7);
}

static void assert_event(const struct got *got, int64_t id, int64_t rev)
{
    assert_false(got->watch.created);
    assert_int_equal(got->watch.watch_id, id);
    assert_true(got->n >= 1);
    assert_int_equal(got->revs[0], rev);
}

static size_t count_events(const struct peer *peer, int64_t id)
{
    size_t n = 0;
    for (size_t i = 0; i < peer->n; i++)
        n += peer->got[i].watch.watch_id == id ? peer->got[i].n : 0;
    return n;
}

static size_t count_parked(const struct bed *bed)
{
    struct worker_stats stats;
    worker_stats(bed->worker, &stats);
    return stats.parked;
}

#define BED(name, log2, ...)                                                                                           \
    struct bed name;                                                                                                   \
    assert_int_equal(bed_open(&name, log2, (struct worker_opts){__VA_ARGS__}), BELFRY_OK);                             \
    bed_run(&name)

/* ---- live ---- */

static void event_goes_to_those_who_want_it_in_the_order_of_ids(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed), *b = bed_peer(&bed);
    create(&bed, a, "x", "y", 0, 0);
    create(&bed, a, "x1", "", 0, 0);
    create(&bed, a, "", "\0", 0, 0);
    create(&bed, b, "y", "", 0, 0);
    bed_run(&bed);
    bed_write(&bed, "x1");
    bed_run(&bed);
    assert_int_equal(a->n, 3 + 2);
    assert_created(&a->got[0], 0, 10);
    assert_created(&a->got[1], 1, 10);
    assert_event(&a->got[3], 0, 11);
    assert_event(&a->got[4], 1, 11);
    assert_int_equal(a->got[3].watch.header.revision, 11);
    assert_int_equal(b->n, 1);
    bed_close(&bed);
}

static void whole_revision_comes_in_one_response(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    create(&bed, a, "a", "c", 0, WATCHER_PREV_KV);
    create(&bed, a, "b", "", 0, WATCHER_NO_DELETE);
    bed_run(&bed);
    bed_write(&bed, "b1 z a -b");
    bed_run(&bed);
    assert_int_equal(a->n, 3); /* the second watcher's only event is filtered out */
    assert_event(&a->got[2], 0, 11);
    assert_int_equal(a->got[2].n, 3);
    assert_true(a->got[2].prev);
    bed_close(&bed);
}

static void stream_without_room_is_parked_and_loses_nothing(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed), *b = bed_peer(&bed);
    for (int i = 0; i < 5; i++)
        create(&bed, a, "k", "", 0, 0);
    create(&bed, b, "k", "", 0, 0);
    bed_run(&bed);
    bed_write(&bed, "k"); /* scratch memory has its size */
    bed_run(&bed);
    a->room = 0;
    stream_writable(bed.worker, a->stream, 0);
    struct worker_stats before, after;
    worker_stats(bed.worker, &before);
    for (int i = 0; i < 20; i++) {
        bed_write(&bed, "k");
        bed_run(&bed);
    }
    worker_stats(bed.worker, &after);
    assert_int_equal(before.bytes, after.bytes);
    assert_int_equal(after.parked, 1);
    assert_int_equal(after.riding_parked, 5);
    assert_int_equal(count_events(b, 0), 21);
    for (int i = 0; i < 100000 && a->n < 10 + 100; i++) { /* a byte at a time */
        a->room = 1;
        bed_run(&bed);
    }
    assert_int_equal(a->n, 10 + 100);
    for (size_t i = 0; i < 100; i++)
        assert_event(&a->got[10 + i], (int64_t)(i % 5), 12 + (int64_t)(i / 5));
    worker_stats(bed.worker, &after);
    assert_int_equal(after.riding_parked, 0);
    bed_close(&bed);
}

static void parked_stream_outlives_the_log(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct peer *a = bed_peer(&bed);
    create(&bed, a, "k", "", 0, 0);
    bed_run(&bed);
    a->room = 0;
    stream_writable(bed.worker, a->stream, 0);
    for (int i = 0; i < 100; i++) {
        bed_write(&bed, i % 3 == 0 ? "k" : "other");
        bed_run(&bed);
    }
    a->room = PLENTY;
    bed_run(&bed);
    assert_int_equal(count_events(a, 0), 34);
    assert_true(bed.fetches > 0);
    bed_close(&bed);
}

static void worker_that_overslept_goes_on_from_history(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct peer *a = bed_peer(&bed);
    create(&bed, a, "k", "", 0, 0);
    bed_run(&bed);
    for (int i = 0; i < 100; i++)
        bed_write(&bed, "k");
    bed_run(&bed);
    assert_int_equal(count_events(a, 0), 100);
    struct worker_stats stats;
    worker_stats(bed.worker, &stats);
    assert_int_equal(stats.overslept, 1);
    bed_close(&bed);
}

/* Three streams want the newest revision; the turn's budget ends when the first of them has been given it. */
static void hand_out_to_the_first(struct bed *bed, struct peer *first)
{
    struct peer *b = first + 1, *c = first + 2;
    bed_write(bed, "x");
    assert_true(bed_turn(bed, 2));
    assert_int_equal(count_events(first, 0), 1);
    assert_int_equal(count_events(b, 0) + count_events(c, 0), 0);
    assert_true(worker_position(bed->worker) < bed->head);
}

static struct peer *three_who_want_x(struct bed *bed)
{
    struct peer *first = &bed->peers[bed->n_peers];
    for (int i = 0; i < 3; i++)
        create(bed, bed_peer(bed), "x", "", 0, 0);
    bed_run(bed);
    return first;
}

static void assert_each_has_one(const struct peer *first)
{
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(count_events(&first[i], 0), 1);
}

static void range_that_joins_in_the_middle_of_a_hand_out_repeats_nothing(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *first = three_who_want_x(&bed), *walker = bed_peer(&bed);
    create(&bed, walker, "z", "", 0, 0);
    bed_run(&bed);
    walker->room = 0;
    stream_writable(bed.worker, walker->stream, 0);
    bed_write(&bed, "z");
    bed_write(&bed, "q");
    bed_run(&bed); /* the walker is parked before both */
    hand_out_to_the_first(&bed, first);
    create(&bed, walker, "x", "y", 12, 0); /* rides along at once: one more range that wants the batch */
    walker->room = PLENTY;
    bed_run(&bed);
    assert_each_has_one(first);
    assert_int_equal(count_events(walker, 0), 1);
    assert_int_equal(count_events(walker, 1), 1);
    bed_close(&bed);
}

static void hand_out_whose_batch_left_the_log_repeats_nothing(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct peer *first = three_who_want_x(&bed);
    bed.head += 4; /* 11 to 14 have no batch, and history comes in two parts: up to 13, and the batch of 15 */
    bed.seam = 13;
    hand_out_to_the_first(&bed, first);
    for (int i = 0; i < 40; i++)
        bed_write(&bed, "q");
    bed_run(&bed);
    assert_true(bed.fetches > 1);
    assert_each_has_one(first);
    bed_close(&bed);
}

/* A stream with three watchers that took the first response of revision 15 and a part of the second; then the log
 * moved on. 11 to 14 have no batch. */
static struct peer *parked_inside_15(struct bed *bed)
{
    struct peer *peer = bed_peer(bed);
    for (int i = 0; i < 3; i++)
        create(bed, peer, "x", "", 0, 0);
    bed_run(bed);
    bed->head += 4;
    peer->room = 60;
    bed_write(bed, "x");
    bed_run(bed);
    assert_int_equal(peer->room, 0);
    assert_int_equal(peer->n, 3 + 1);
    for (int i = 0; i < 60; i++) {
        bed_write(bed, "q");
        bed_run(bed); /* awake all the time: it has no segments of the past */
    }
    return peer;
}

static void stream_parked_inside_a_revision_goes_on_there_from_history(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct peer *a = parked_inside_15(&bed);
    bed.seam = 13; /* the part of history before its place is empty */
    a->room = PLENTY;
    bed_run(&bed);
    assert_true(bed.fetches > 1);
    assert_int_equal(a->n, 3 + 3);
    for (int i = 0; i < 3; i++)
        assert_event(&a->got[3 + i], i, 15);
    bed_close(&bed);
}

static void stream_parked_inside_a_revision_repeats_nothing_when_history_is_gone(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct peer *a = parked_inside_15(&bed);
    bed.compacted = 13;
    a->room = PLENTY;
    bed_run(&bed);
    assert_int_equal(a->n, 3 + 3);
    assert_event(&a->got[3], 0, 15);
    assert_event(&a->got[4], 1, 15);
    assert_true(a->got[5].watch.canceled); /* it still needed 11 */
    assert_int_equal(a->got[5].watch.watch_id, 2);
    assert_int_equal(a->got[5].watch.compact_revision, 13);
    bed_close(&bed);
}

/* ---- room ---- */

static void answer_that_fills_the_room_parks_nobody(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed), *b = bed_peer(&bed);
    create(&bed, a, "x", "", 0, 0);
    bed_run(&bed);
    create(&bed, b, "x", "", 0, 0);
    b->room = a->got[0].bytes;
    bed_turn(&bed, 100);
    assert_int_equal(b->n, 1);
    assert_int_equal(b->room, 0);
    assert_false(stream_pending(b->stream));
    assert_int_equal(count_parked(&bed), 0);
    bed_close(&bed);
}

static void peaks_stay_when_what_made_them_is_gone(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct worker_stats stats;
    struct peer *peers[3];
    for (int i = 0; i < 3; i++) {
        peers[i] = bed_peer(&bed);
        create(&bed, peers[i], "x", "", 0, 0);
        bed_run(&bed);
    }
    worker_stats(bed.worker, &stats);
    assert_int_equal(stats.parked_peak, 1); /* each had no room when it was opened */
    for (int i = 0; i < 2; i++)
        peers[i]->room = 10; /* the beginning of a message, and no more */
    bed_write(&bed, "x");
    bed_run(&bed);
    worker_stats(bed.worker, &stats);
    assert_int_equal(stats.parked, 2);
    size_t pinned = stats.rest_bytes;
    assert_true(pinned > 0);
    peers[0]->room = peers[1]->room = PLENTY;
    bed_run(&bed);
    worker_stats(bed.worker, &stats);
    assert_int_equal(stats.parked, 0);
    assert_int_equal(stats.rest_bytes, 0);
    assert_int_equal(stats.parked_peak, 2);
    assert_in_range(stats.rest_bytes_peak, pinned, 2 * pinned);
    bed_close(&bed);
}

static void nobody_is_parked_after_everything_was_given(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1, .response_revs = 3);
    struct peer *live = bed_peer(&bed), *late = bed_peer(&bed);
    create(&bed, live, "x", "", 0, 0);
    bed_run(&bed);
    live->room = 0;
    stream_writable(bed.worker, live->stream, 0);
    for (int i = 0; i < 40; i++) {
        bed_write(&bed, "x");
        bed_run(&bed);
    }
    assert_int_equal(count_parked(&bed), 1);
    late->room = 0;
    stream_writable(bed.worker, late->stream, 0);
    create(&bed, late, "x", "", 11, 0);
    bed_run(&bed);
    assert_int_equal(count_parked(&bed), 2);
    for (int i = 0; i < 1000 && count_events(live, 0) + count_events(late, 0) < 80; i++) {
        live->room = late->room = 50;
        bed_run(&bed);
    }
    assert_int_equal(count_events(live, 0), 40);
    assert_int_equal(count_events(late, 0), 40);
    assert_int_equal(count_parked(&bed), 0);
    live->room = late->room = 0; /* and no room alone parks nobody */
    stream_writable(bed.worker, live->stream, 0);
    stream_writable(bed.worker, late->stream, 0);
    bed_turn(&bed, 1000);
    assert_int_equal(count_parked(&bed), 0);
    bed_write(&bed, "x");
    bed_turn(&bed, 1000);
    assert_int_equal(count_parked(&bed), 2);
    live->room = late->room = PLENTY;
    bed_turn(&bed, 1000); /* one is enough */
    assert_int_equal(count_events(live, 0) + count_events(late, 0), 82);
    assert_int_equal(count_parked(&bed), 0);
    bed_close(&bed);
}

static void stream_with_room_is_not_parked_though_it_may_not_tell_progress(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    create(&bed, a, "x", "", 0, 0);
    bed_run(&bed);
    a->room = 0;
    stream_writable(bed.worker, a->stream, 0);
    stream_progress(bed.worker, a->stream);
    assert_int_equal(count_parked(&bed), 1);
    worker_set_stale(bed.worker, true);
    a->room = PLENTY;
    bed_run(&bed);
    assert_int_equal(a->n, 1);
    assert_int_equal(count_parked(&bed), 0);
    bed_close(&bed);
}

/* ---- catching up ---- */

static void watcher_behind_is_given_the_past_packed_then_rides(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1, .response_revs = 30);
    struct peer *a = bed_peer(&bed);
    for (int i = 0; i < 100; i++)
        bed_write(&bed, "k");
    bed_run(&bed);
    create(&bed, a, "k", "", 21, 0);
    bed_run(&bed);
    assert_created(&a->got[0], 0, 110);
    assert_int_equal(a->n, 1 + 3);
    assert_event(&a->got[1], 0, 21);
    assert_int_equal(a->got[1].n, 30);
    assert_int_equal(a->got[1].watch.header.revision, 110); /* ahead of its events, as in etcd */
    assert_event(&a->got[3], 0, 81);
    bed_write(&bed, "k");
    bed_run(&bed);
    assert_event(&a->got[4], 0, 111);
    assert_int_equal(a->got[4].watch.header.revision, 111);
    struct worker_stats stats;
    worker_stats(bed.worker, &stats);
    assert_int_equal(stats.riding, 1);
    assert_int_equal(stats.handovers, 1);
    bed_close(&bed);
}

static void many_behind_read_history_once(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct peer *a = bed_peer(&bed), *b = bed_peer(&bed);
    for (int i = 0; i < 500; i++)
        bed_write(&bed, i % 2 == 0 ? "a" : "b");
    bed_run(&bed);
    for (int i = 0; i < 100; i++)
        create(&bed, i % 2 == 0 ? a : b, i % 3 == 0 ? "a" : "b", "", 11 + i * 4, 0);
    bed_run(&bed);
    for (int i = 0; i < 100; i++) {
        size_t expect = 0;
        for (int64_t rev = 11 + i * 4; rev <= bed.head; rev++)
            expect += (rev - 11) % 2 == (i % 3 == 0 ? 0 : 1);
        assert_int_equal(count_events(i % 2 == 0 ? a : b, i / 2), expect);
    }
    assert_true(bed.fetches <= 2 * 500 / 7 + 4);
    bed_close(&bed);
}

static void start_in_the_future_is_given_nothing_before(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    create(&bed, a, "k", "", 14, 0);
    stream_progress(bed.worker, a->stream);
    bed_run(&bed);
    assert_int_equal(a->n, 1); /* and no progress while it is in the future */
    for (int i = 0; i < 5; i++)
        bed_write(&bed, "k");
    bed_run(&bed);
    assert_int_equal(count_events(a, 0), 2);
    assert_event(&a->got[1], 0, 14);
    assert_event(&a->got[2], 0, 15);
    assert_int_equal(a->n, 4);
    assert_int_equal(a->got[3].watch.watch_id, -1); /* asked once, answered when it could be */
    assert_int_equal(a->got[3].watch.header.revision, 15);
    bed_close(&bed);
}

static void compacted_is_told_with_the_revision_and_the_id_stays_taken(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct peer *a = bed_peer(&bed);
    for (int i = 0; i < 100; i++) {
        bed_write(&bed, "k");
        bed_run(&bed); /* awake all the time: it has no segments of the past */
    }
    bed.compacted = 60;
    create(&bed, a, "k", "", 20, 0);
    create(&bed, a, "k", "", 60, 0);
    bed_run(&bed);
    assert_created(&a->got[0], 0, 110);
    assert_created(&a->got[1], 1, 110);
    assert_true(a->got[2].watch.canceled);
    assert_int_equal(a->got[2].watch.watch_id, 0);
    assert_int_equal(a->got[2].watch.compact_revision, 60);
    assert_int_equal(a->got[2].watch.header.revision, 0);
    assert_int_equal(count_events(a, 0), 0);
    assert_int_equal(count_events(a, 1), 51);
    size_t n = a->n;
    assert_int_equal(stream_cancel(bed.worker, a->stream, 0), BELFRY_OK);
    bed_run(&bed);
    assert_int_equal(a->n, n + 1);
    assert_true(a->got[n].watch.canceled);
    assert_int_equal(stream_cancel(bed.worker, a->stream, 0), BELFRY_OK); /* unknown by now: no answer */
    bed_run(&bed);
    assert_int_equal(a->n, n + 1);
    bed_close(&bed);
}

static void stalled_watcher_goes_on_where_it_got_off(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct peer *a = bed_peer(&bed);
    for (int i = 0; i < 100; i++)
        bed_write(&bed, "k");
    bed_run(&bed);
    for (int i = 0; i < 4; i++)
        create(&bed, a, "k", "", 20 + i, 0);
    for (int i = 0; i < 4000 && count_events(a, 3) < 88; i++) {
        a->room = 100;
        bed_run(&bed);
    }
    for (int i = 0; i < 4; i++) {
        int64_t last = 19 + i;
        assert_int_equal(count_events(a, i), 91 - i);
        for (size_t j = 0; j < a->n; j++) {
            if (a->got[j].watch.watch_id != i || a->got[j].n == 0)
                continue;
            assert_int_equal(a->got[j].revs[0], last + 1);
            last = a->got[j].revs[a->got[j].n - 1];
        }
    }
    bed_close(&bed);
}

/* Two who are behind the log: one needs revision 12, which nobody serves, the other 60. */
static struct peer *one_unserved_one_behind(struct bed *bed)
{
    for (int i = 0; i < 100; i++) {
        bed_write(bed, "x");
        bed_run(bed); /* awake all the time: it has no segments of the past */
    }
    struct peer *unserved = bed_peer(bed), *behind = bed_peer(bed);
    create(bed, unserved, "x", "", 12, 0);
    create(bed, behind, "x", "", 60, 0);
    return behind;
}

static void history_that_fails_again_and_again_holds_up_nobody_else(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct peer *behind = one_unserved_one_behind(&bed);
    for (int i = 0; i < 50; i++, bed.now += 10) {
        struct worker_fetch fetch;
        bed_turn(&bed, 1000);
        while (worker_wants_fetch(bed.worker, &fetch)) {
            if (fetch.from == 12)
                worker_fetched(bed.worker, &fetch, BELFRY_ERR_IO, NULL, 0, 0);
            else
                answer(&bed, &fetch);
        }
    }
    assert_int_equal(count_events(behind, 0), 51);
    bed_close(&bed);
}

static void worker_is_due_when_a_wait_for_history_has_been_too_long(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct peer *behind = one_unserved_one_behind(&bed);
    struct worker_fetch fetch;
    bed.no_history = true;
    bed_run(&bed);
    bed.no_history = false;
    assert_true(worker_wants_fetch(bed.worker, &fetch));
    assert_int_equal(fetch.from, 12);
    assert_false(worker_wants_fetch(bed.worker, &fetch));
    assert_true(worker_due(bed.worker) > bed.now);
    assert_true(worker_due(bed.worker) != BELFRY_NEVER);
    bed.now = worker_due(bed.worker);
    bed_run(&bed); /* the fetch of 12 stays unanswered */
    assert_int_equal(count_events(behind, 0), 51);
    bed_close(&bed);
}

/* ---- clients take turns ---- */

/* Revisions up to 3,010, of which the log has the newest 16; no client is near another. */
static void write_much(struct bed *bed)
{
    for (int i = 0; i < 3000; i++) {
        bed_write(bed, "x");
        bed_turn(bed, 1000); /* awake all the time: it has no segments of the past */
    }
}

static struct peer *bed_client(struct bed *bed, uint64_t client)
{
    struct peer *peer = bed_peer(bed);
    stream_set_client(peer->stream, client);
    return peer;
}

/* Turns over a while in which no history comes; how many fetches are wanted for the client. The last is in *out. */
static size_t wanted_for(struct bed *bed, uint64_t client, struct worker_fetch *out)
{
    size_t n = 0;
    for (int i = 0; i < 20; i++, bed->now += 5) {
        struct worker_fetch fetch;
        bed_turn(bed, 1000);
        while (worker_wants_fetch(bed->worker, &fetch)) {
            assert_int_equal(fetch.client, client);
            *out = fetch;
            n++;
        }
    }
    return n;
}

static void create_many(struct bed *bed, struct peer *peer)
{
    for (int64_t start = 12; start < 900; start += 9)
        create(bed, peer, "x", "", start, 0);
}

static void a_client_with_many_cursors_leaves_buses_to_others(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct worker_fetch fetch;
    write_much(&bed);
    struct peer *greedy = bed_client(&bed, 7);
    create_many(&bed, greedy);
    assert_int_equal(wanted_for(&bed, 7, &fetch), 2);
    struct peer *other = bed_client(&bed, 8);
    create(&bed, other, "x", "", 2950, 0);
    assert_int_equal(wanted_for(&bed, 8, &fetch), 1);
    assert_int_equal(fetch.from, 2950);
    answer(&bed, &fetch);
    bed_turn(&bed, 1000);
    assert_int_equal(count_events(other, 0), 7); /* and nothing came for the first client yet */
    assert_int_equal(count_events(greedy, 0), 0);
    bed_close(&bed);
}

static void the_second_bus_of_a_client_gives_way_to_one_without(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct worker_fetch first, fetch, of_new;
    write_much(&bed);
    struct peer *greedy = bed_client(&bed, 7);
    create_many(&bed, greedy);
    assert_int_equal(wanted_for(&bed, 7, &first), 2);
    for (uint64_t client = 8; client < 10; client++) {
        create(&bed, bed_client(&bed, client), "x", "", 2000 + 100 * (int64_t)client, 0);
        assert_int_equal(wanted_for(&bed, client, &fetch), 1);
    }
    struct peer *new = bed_client(&bed, 10);
    create(&bed, new, "x", "", 1950, 0);
    assert_int_equal(wanted_for(&bed, 10, &of_new), 0); /* all four wait for their first history */
    answer(&bed, &first);
    bed_turn(&bed, 1000);
    bool found = false;
    while (worker_wants_fetch(bed.worker, &fetch))
        found = found || (fetch.client == 10 && fetch.from == 1950);
    assert_true(found);
    bed_run(&bed); /* those that are not answered are asked for again */
    bed_close(&bed);
}

/* History below our window comes from upstream, and upstream is away: four clients wait for it. */
static void clients_whose_history_does_not_come_hold_up_nobody(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct worker_fetch fetch;
    write_much(&bed);
    for (uint64_t client = 7; client < 11; client++) {
        create(&bed, bed_client(&bed, client), "x", "", 12 + 400 * (int64_t)(client - 7), 0);
        assert_int_equal(wanted_for(&bed, client, &fetch), 1);
    }
    struct peer *near = bed_client(&bed, 11);
    create(&bed, near, "x", "", 1950, 0);
    assert_int_equal(wanted_for(&bed, 11, &fetch), 0);
    for (int i = 0; i < 20; i++) {
        bed.now = worker_due(bed.worker) > bed.now && worker_due(bed.worker) < bed.now + 100 ? worker_due(bed.worker)
                                                                                             : bed.now + 100;
        bed_turn(&bed, 1000);
    }
    assert_int_equal(wanted_for(&bed, 11, &fetch), 1);
    answer(&bed, &fetch);
    bed_turn(&bed, 100000);
    assert_true(count_events(near, 0) > 0);
    bed_run(&bed);
    bed_close(&bed);
}

/* Answers with the revision as an extent, whose slices are still to be read. */
static void answer_with_extent(struct bed *bed, const struct worker_fetch *fetch)
{
    struct segment_builder builder;
    struct segment *segment;
    struct batch *extent;
    assert_int_equal(batch_create(fetch->from, BATCH_EXTENT, 0, 0, &extent), BELFRY_OK);
    batch_set_extent(extent, 1, 100);
    segment_begin(&builder);
    assert_int_equal(segment_add(&builder, extent), BELFRY_OK);
    assert_int_equal(segment_finish(&builder, fetch->past, fetch->from, fetch->from, &segment), BELFRY_OK);
    worker_fetched(bed->worker, fetch, BELFRY_OK, segment, 0, 0);
}

/* The same inside of extents: their batches are at hand, but the window has lost their rows. */
static void clients_whose_slices_do_not_come_hold_up_nobody(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct worker_fetch fetch, slices[4];
    write_much(&bed);
    for (uint64_t i = 0; i < 4; i++) {
        create(&bed, bed_client(&bed, 7 + i), "x", "", 12 + 400 * (int64_t)i, 0);
        assert_int_equal(wanted_for(&bed, 7 + i, &fetch), 1);
        answer_with_extent(&bed, &fetch);
        assert_int_equal(wanted_for(&bed, 7 + i, &slices[i]), 1);
        assert_true(slices[i].slice);
    }
    struct peer *near = bed_client(&bed, 11);
    create(&bed, near, "x", "", 1950, 0);
    assert_int_equal(wanted_for(&bed, 11, &fetch), 0);
    for (int i = 0; i < 20; i++, bed.now += 100) {
        bed_turn(&bed, 1000);
        if (worker_wants_fetch(bed.worker, &fetch))
            answer(&bed, &fetch);
    }
    assert_true(count_events(near, 0) > 0);
    for (size_t i = 0; i < 4; i++)
        answer(&bed, &slices[i]);
    bed_run(&bed);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(count_events(&bed.peers[i], 0), 2999 - 400 * i);
    bed_close(&bed);
}

/* The extent's batch has come, and memory is short: no history is missing. */
static void a_bus_without_memory_at_an_extent_tries_again(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct worker_fetch fetch, slice;
    write_much(&bed);
    struct peer *peer = bed_client(&bed, 7);
    create(&bed, peer, "x", "", 12, 0);
    assert_int_equal(wanted_for(&bed, 7, &fetch), 1);
    bed.now += 5000;
    bed_turn(&bed, 1000);
    answer_with_extent(&bed, &fetch);
    refuse_begin(0);
    bed_turn(&bed, 1000);
    assert_true(refuse_end());
    assert_int_equal(worker_due(bed.worker), bed.now + TURN_RETRY_MS);
    assert_false(worker_wants_fetch(bed.worker, &slice));
    bed.now += TURN_RETRY_MS;
    bed_turn(&bed, 1000);
    assert_true(worker_wants_fetch(bed.worker, &slice) && slice.slice);
    answer(&bed, &slice);
    refuse_begin(0);
    bed_turn(&bed, 1000);
    refuse_end();
    bed_run(&bed);
    assert_int_equal(count_events(peer, 0), 2999);
    bed_close(&bed);
}

/* One more client than buses, and history that comes slowly: buses give way, and nobody misses or repeats anything. */
static void clients_that_are_far_behind_all_go_on(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct peer *peers[5];
    write_much(&bed);
    for (size_t i = 0; i < 5; i++) {
        peers[i] = bed_client(&bed, 7 + i);
        create(&bed, peers[i], "x", "", 1900 - 400 * (int64_t)i, 0);
    }
    struct worker_fetch asked[256];
    size_t n_asked = 0, n_answered = 0;
    for (int turn = 0; turn < 200; turn++, bed.now += 100) {
        bed_turn(&bed, 1000);
        while (worker_wants_fetch(bed.worker, &asked[n_asked]))
            assert_true(++n_asked < 256);
        if (n_answered < n_asked)
            answer(&bed, &asked[n_answered++]);
    }
    for (size_t i = 0; i < 5; i++)
        assert_true(count_events(peers[i], 0) > 0);
    while (n_answered < n_asked)
        answer(&bed, &asked[n_answered++]);
    bed_run(&bed);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(count_events(peers[i], 0), 3010 - 1900 + 400 * i + 1);
    bed_close(&bed);
}

/* ---- requests ---- */

static void ids_are_the_smallest_never_assigned_and_taken_ones_are_refused(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    struct stream_create request = {.key = BYTES("k"), .watch_id = 1};
    assert_int_equal(stream_create(bed.worker, a->stream, &request), BELFRY_OK);
    create(&bed, a, "k", "", 0, 0);
    create(&bed, a, "k", "", 0, 0);
    assert_int_equal(stream_create(bed.worker, a->stream, &request), BELFRY_OK);
    request.watch_id = -7;
    assert_int_equal(stream_create(bed.worker, a->stream, &request), BELFRY_OK);
    bed_run(&bed);
    assert_created(&a->got[0], 1, 10);
    assert_created(&a->got[1], 0, 10);
    assert_created(&a->got[2], 2, 10);
    assert_true(a->got[3].watch.created && a->got[3].watch.canceled);
    assert_int_equal(a->got[3].watch.watch_id, -1);
    assert_created(&a->got[4], -7, 10);
    assert_int_equal(stream_cancel(bed.worker, a->stream, 0), BELFRY_OK);
    create(&bed, a, "k", "", 0, 0);
    bed_run(&bed);
    assert_true(a->got[5].watch.canceled);
    assert_created(&a->got[6], 3, 10);
    bed_close(&bed);
}

static void empty_range_and_negative_start_are_refused(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    create(&bed, a, "b", "a", 0, 0);
    create(&bed, a, "b", "", -1, 0);
    bed_run(&bed);
    assert_int_equal(a->n, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(a->got[i].watch.created && a->got[i].watch.canceled);
        assert_int_equal(a->got[i].watch.watch_id, -1);
        assert_int_equal(a->got[i].watch.compact_revision, 0);
    }
    bed_close(&bed);
}

static void no_event_follows_a_cancel_but_what_was_begun_is_finished(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    create(&bed, a, "k", "", 0, 0);
    bed_run(&bed);
    a->room = 30;
    bed_write(&bed, "k");
    bed_run(&bed);
    assert_int_equal(a->n, 1); /* half of it is out */
    assert_int_equal(stream_cancel(bed.worker, a->stream, 0), BELFRY_OK);
    a->room = PLENTY;
    bed_write(&bed, "k");
    bed_run(&bed);
    assert_int_equal(a->n, 3);
    assert_event(&a->got[1], 0, 11);
    assert_true(a->got[2].watch.canceled);
    bed_close(&bed);
}

static void answers_that_wait_are_bounded(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    a->room = 0;
    for (int i = 0; i < STREAM_ANSWERS_MAX; i++) {
        assert_true(stream_wants_requests(a->stream));
        create(&bed, a, "k", "", 0, 0);
    }
    assert_false(stream_wants_requests(a->stream));
    struct stream_create request = {.key = BYTES("k")};
    assert_int_equal(stream_create(bed.worker, a->stream, &request), BELFRY_ERR_LIMIT);
    a->room = PLENTY;
    bed_run(&bed);
    assert_true(stream_wants_requests(a->stream));
    assert_int_equal(a->n, STREAM_ANSWERS_MAX);
    bed_close(&bed);
}

static void an_expelled_watcher_is_told_why_and_receives_nothing_more(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    struct stream_created created = {0};
    struct stream_create request = {.key = BYTES("k"), .watch_id = 5, .out = &created};
    assert_int_equal(stream_create(bed.worker, a->stream, &request), BELFRY_OK);
    assert_true(created.is_there && created.id == 5);
    created.is_there = false;
    assert_int_equal(stream_create(bed.worker, a->stream, &request), BELFRY_OK); /* the id is taken */
    assert_false(created.is_there);
    create(&bed, a, "k", "", 0, 0);
    bed_run(&bed);
    bed_write(&bed, "k");
    assert_int_equal(stream_expel(bed.worker, a->stream, 5, "no right"), BELFRY_OK);
    assert_int_equal(stream_expel(bed.worker, a->stream, 5, "no right"), BELFRY_OK); /* unknown by now: no answer */
    bed_run(&bed);
    assert_int_equal(a->n, 5);
    assert_true(a->got[3].watch.canceled && !a->got[3].watch.created && a->got[3].has_reason);
    assert_int_equal(a->got[3].watch.watch_id, 5);
    assert_event(&a->got[4], 0, 11);
    bed_close(&bed);
}

static void memory_over_the_limit_refuses_new_watchers(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1, .memory_max = 100000);
    struct peer *a = bed_peer(&bed);
    enum belfry_err err = BELFRY_OK;
    int n = 0;
    for (; err == BELFRY_OK && n < 1000; n++) {
        char key[32];
        snprintf(key, sizeof(key), "key-%d", n);
        struct stream_create request = {.key = belfry_bytes_str(key)};
        err = stream_create(bed.worker, a->stream, &request);
    }
    assert_int_equal(err, BELFRY_ERR_LIMIT);
    struct worker_stats stats;
    worker_stats(bed.worker, &stats);
    assert_true(stats.bytes < 101000);
    bed_close(&bed);
}

/* Each watcher counts for its range in full, shared or not, and what was asked for is what is counted. */
static void a_stream_says_what_its_watchers_hold(void **state)
{
    (void)state;
    static char big[30000], end[30000];
    memset(big, 'a', sizeof(big));
    memset(end, 'b', sizeof(end));
    const struct stream_create rows[] = {
        {.key = BYTES("k")},
        {.key = BYTES("k"), .range_end = BYTES("l")},
        {.key = BYTES("k"), .range_end = BYTES("kz")},
        {.key = belfry_bytes_of(big, sizeof(big)), .range_end = belfry_bytes_of(end, sizeof(end))},
    };
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed), *b = bed_peer(&bed);
    size_t idle = stream_bytes(a->stream);
    struct worker_stats before, after;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t was = stream_bytes(a->stream), expected = stream_create_bytes(&rows[i]);
        worker_stats(bed.worker, &before);
        assert_int_equal(stream_create(bed.worker, a->stream, &rows[i]), BELFRY_OK);
        assert_int_equal(stream_create(bed.worker, b->stream, &rows[i]), BELFRY_OK);
        bed_run(&bed);
        worker_stats(bed.worker, &after);
        assert_int_equal(stream_bytes(a->stream), was + expected);
        assert_int_equal(stream_bytes(b->stream), stream_bytes(a->stream)); /* it shares the range */
        assert_true(expected > rows[i].key.len + sizeof(void *));
        size_t tables = 4096, grown = after.bytes - before.bytes; /* tables: what the first nodes make them take */
        assert_in_range(grown, expected / 2, 2 * expected + tables);
    }
    for (int64_t id = 0; id < 4; id++)
        assert_int_equal(stream_cancel(bed.worker, a->stream, id), BELFRY_OK);
    assert_int_equal(stream_bytes(a->stream), idle);
    struct stream_create empty = {.key = BYTES("l"), .range_end = BYTES("k")};
    assert_int_equal(stream_create_bytes(&empty), 0);
    assert_int_equal(stream_create(bed.worker, a->stream, &empty), BELFRY_OK); /* refused, with the reason */
    assert_int_equal(stream_bytes(a->stream), idle);
    bed_close(&bed);
}

static size_t create_until_refused(struct bed *bed, struct peer *peer)
{
    enum belfry_err err = BELFRY_OK;
    size_t n = 0;
    for (; err == BELFRY_OK && n < 1000; n++) {
        char key[32];
        snprintf(key, sizeof(key), "key-%zu", n);
        struct stream_create request = {.key = belfry_bytes_str(key)};
        err = stream_create(bed->worker, peer->stream, &request);
        bed_run(bed);
    }
    assert_int_equal(err, BELFRY_ERR_LIMIT);
    return n;
}

static void workers_that_share_a_bound_are_counted_together(void **state)
{
    (void)state;
    struct worker_memory memory = {0};
    BED(one, 8, .seed = 1, .memory = &memory, .memory_max = 200000);
    BED(two, 8, .seed = 1, .memory = &memory, .memory_max = 200000);
    struct peer *a = bed_peer(&one), *b = bed_peer(&two);
    bed_run(&two);
    size_t n_first = create_until_refused(&one, a);
    struct stream_create request = {.key = BYTES("k")};
    assert_int_equal(stream_create(two.worker, b->stream, &request), BELFRY_ERR_LIMIT);
    struct worker_stats first, second;
    worker_stats(one.worker, &first);
    worker_stats(two.worker, &second);
    assert_int_equal(memory.bytes, first.bytes + second.bytes);
    assert_int_equal(first.shared_bytes, memory.bytes);
    assert_int_equal(second.shared_bytes, memory.bytes);
    bed_close(&one); /* what it had is free for the other */
    bed_run(&two);
    worker_stats(two.worker, &second);
    assert_int_equal(memory.bytes, second.bytes);
    assert_true(create_until_refused(&two, b) > n_first / 2);
    bed_close(&two);
    assert_int_equal(memory.bytes, 0);
}

static void a_stream_that_was_closed_wants_a_turn(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed), *b = bed_peer(&bed);
    create(&bed, a, "k", "", 0, 0);
    create(&bed, b, "k", "", 0, 0);
    bed_run(&bed);
    assert_false(worker_wants_turn(bed.worker));
    struct worker_stats before, after;
    worker_stats(bed.worker, &before);
    stream_close(bed.worker, a->stream);
    a->stream = NULL;
    assert_true(worker_wants_turn(bed.worker)); /* until then its watchers take memory */
    bed_run(&bed);
    assert_false(worker_wants_turn(bed.worker));
    worker_stats(bed.worker, &after);
    assert_true(after.bytes < before.bytes && after.watchers == 1);
    bed_close(&bed);
}

static void a_turn_says_what_it_spent(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    create(&bed, a, "k", "", 0, 0);
    bed_run(&bed);
    worker_turn(bed.worker, bed.now, 1000);
    size_t idle = worker_spent(bed.worker);
    bed_write(&bed, "k");
    worker_turn(bed.worker, bed.now, 1000);
    assert_true(worker_spent(bed.worker) > idle);
    assert_true(worker_spent(bed.worker) < 100);
    bed_close(&bed);
}

/* What is accounted when a watcher has caught up from history, and another comes. */
static size_t bytes_after_history(size_t memory_max)
{
    BED(bed, 4, .seed = 1, .memory_max = memory_max);
    struct peer *a = bed_peer(&bed);
    for (int i = 0; i < 100; i++) {
        bed_write(&bed, "k");
        bed_run(&bed);
    }
    create(&bed, a, "k", "", 15, 0);
    bed_run(&bed);
    assert_int_equal(count_events(a, 0), 96);
    struct worker_stats stats;
    worker_stats(bed.worker, &stats);
    create(&bed, a, "k", "", 0, 0);
    bed_close(&bed);
    return stats.bytes;
}

static void history_that_is_kept_refuses_no_watcher(void **state)
{
    (void)state;
    size_t with_history = bytes_after_history(0);
    assert_true(bytes_after_history(with_history - 1) < with_history);
}

/* ---- progress ---- */

static void manual_progress_waits_for_those_who_are_behind(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct peer *a = bed_peer(&bed);
    for (int i = 0; i < 100; i++) {
        bed_write(&bed, "k");
        bed_run(&bed); /* awake all the time: it has no segments of the past */
    }
    stream_progress(bed.worker, a->stream); /* nobody is there: forgotten */
    create(&bed, a, "x", "", 0, 0);
    create(&bed, a, "k", "", 15, 0);
    bed.no_history = true;
    stream_progress(bed.worker, a->stream);
    bed_run(&bed);
    assert_int_equal(a->n, 2);
    bed.no_history = false;
    bed.now += 100;
    struct worker_fetch fetch;
    while (worker_wants_fetch(bed.worker, &fetch))
        answer(&bed, &fetch);
    bed_run(&bed);
    assert_int_equal(count_events(a, 1), 96);
    assert_int_equal(a->got[a->n - 1].watch.watch_id, -1);
    assert_int_equal(a->got[a->n - 1].watch.header.revision, 110);
    bed_close(&bed);
}

static void stale_worker_tells_no_progress(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1, .progress_ms = 1000);
    struct peer *a = bed_peer(&bed);
    create(&bed, a, "x", "", 0, WATCHER_PROGRESS);
    bed_run(&bed);
    worker_set_stale(bed.worker, true);
    stream_progress(bed.worker, a->stream);
    bed.now += 2000;
    bed_run(&bed);
    assert_int_equal(a->n, 1);
    worker_set_stale(bed.worker, false);
    bed_run(&bed);
    assert_int_equal(a->n, 3);
    bed_close(&bed);
}

/* With three watches: one that was active, one that was not, and one that did not ask for progress. */
static struct peer *peer_with_progress(struct bed *bed)
{
    struct peer *peer = bed_peer(bed);
    create(bed, peer, "k", "", 0, WATCHER_PROGRESS);
    create(bed, peer, "x", "", 0, WATCHER_PROGRESS);
    create(bed, peer, "x", "", 0, 0);
    bed_write(bed, "k");
    bed_run(bed);
    return peer;
}

static void periodic_progress_skips_those_who_were_active(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1, .progress_ms = 1000);
    struct peer *a = peer_with_progress(&bed);
    size_t n = a->n;
    assert_true(worker_due(bed.worker) <= bed.now + 1100);
    bed.now += 1200;
    bed_run(&bed);
    assert_int_equal(a->n, n + 1);
    assert_int_equal(a->got[n].watch.watch_id, 1);
    assert_int_equal(a->got[n].watch.header.revision, 11);
    bed.now += 1200;
    bed_run(&bed);
    assert_int_equal(a->n, n + 3);
    bed_close(&bed);
}

static void progress_out_of_turn_is_for_those_who_were_active_too(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1, .progress_ms = 1000);
    struct peer *a = peer_with_progress(&bed);
    size_t n = a->n;
    worker_set_identity(bed.worker, &(struct response_identity){.cluster_id = 7, .member_id = 8, .raft_term = 3});
    stream_tick(bed.worker, a->stream);
    bed_run(&bed);
    assert_int_equal(a->n, n + 2);
    for (int64_t i = 0; i < 2; i++) {
        assert_int_equal(a->got[n + (size_t)i].watch.watch_id, i);
        assert_int_equal(a->got[n + (size_t)i].watch.header.revision, 11);
        assert_int_equal(a->got[n + (size_t)i].watch.header.raft_term, 3);
    }
    bed_run(&bed);
    assert_int_equal(a->n, n + 2); /* once */
    struct peer *b = bed_peer(&bed);
    create(&bed, b, "x", "", 0, 0);
    bed_run(&bed);
    stream_tick(bed.worker, b->stream); /* nobody wants it there */
    bed_run(&bed);
    assert_int_equal(b->n, 1);
    bed_close(&bed);
}

static void tick_tells_each_once(size_t n_watchers, size_t work)
{
    BED(bed, 8, .seed = 1, .progress_ms = 1000);
    struct peer *a = bed_peer(&bed);
    for (size_t i = 0; i < n_watchers; i++)
        create(&bed, a, "x", "", 0, WATCHER_PROGRESS);
    bed_run(&bed);
    bed.now += 1200;
    for (int i = 0; i < 1000 && bed_turn(&bed, work); i++)
        ;
    assert_int_equal(a->n, 2 * n_watchers);
    for (size_t i = 0; i < n_watchers; i++)
        assert_int_equal(a->got[n_watchers + i].watch.watch_id, i);
    bed_close(&bed);
}

static void periodic_progress_is_told_once_however_many_turns_it_takes(void **state)
{
    (void)state;
    tick_tells_each_once(300, 10000); /* more than a stream's quantum */
    tick_tells_each_once(3, 1);
}

static void active_watchers_are_skipped_however_many_turns_it_takes(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1, .progress_ms = 1000);
    struct peer *a = bed_peer(&bed);
    create(&bed, a, "x", "", 0, WATCHER_PROGRESS);
    create(&bed, a, "y", "", 0, WATCHER_PROGRESS);
    bed_write(&bed, "x y");
    bed_run(&bed);
    size_t n = a->n;
    bed.now += 1200;
    for (int i = 0; i < 50; i++)
        bed_turn(&bed, 1);
    assert_int_equal(a->n, n);
    bed_close(&bed);
}

/* ---- large ---- */

static void fragments_come_whole_with_nothing_between(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1, .fragment_bytes = 300);
    struct peer *a = bed_peer(&bed);
    create(&bed, a, "a", "z", 0, WATCHER_FRAGMENT);
    create(&bed, a, "a", "z", 0, 0);
    bed_run(&bed);
    a->room = 7;
    bed_write_sized(&bed, "b c d e f g h i", 80);
    stream_progress(bed.worker, a->stream);
    for (int i = 0; i < 1000; i++) {
        a->room = 7;
        bed_run(&bed);
    }
    size_t n = 0, at = 2;
    for (; at < a->n && a->got[at].watch.watch_id == 0; at++) {
        n += a->got[at].n;
        assert_int_equal(a->got[at].watch.fragment, n < 8);
        assert_true(a->got[at].bytes < 310);
    }
    assert_int_equal(n, 8);
    assert_true(at > 4);
    assert_int_equal(a->got[at].n, 8);
    assert_int_equal(a->got[at + 1].watch.watch_id, -1);
    bed_close(&bed);
}

static void revision_too_large_for_memory_reaches_all_who_want_it(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed), *b = bed_peer(&bed);
    create(&bed, a, "a", "d", 0, 0);
    create(&bed, a, "x", "", 0, 0);
    create(&bed, a, "c", "", 0, 0);
    create(&bed, b, "nobody", "", 0, 0);
    bed_run(&bed);
    bed_write_extent(&bed, "b c x y");
    bed_write(&bed, "c");
    bed_run(&bed);
    assert_int_equal(count_events(a, 0), 3);
    assert_int_equal(count_events(a, 1), 1);
    assert_int_equal(count_events(a, 2), 2);
    assert_int_equal(b->n, 1);
    struct worker_stats stats;
    worker_stats(bed.worker, &stats);
    assert_int_equal(stats.riding, 4);
    bed_close(&bed);
}

/* A tier below reads a huge revision with previous values. Our replica's slices of it are at hand, and the whole of it
 * from a backfill for somebody further behind, whose rows are not the same. */
static void huge_revision_is_measured_and_written_from_the_same_rows(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) { /* 1: the whole comes when the response is begun */
        BED(bed, 8, .seed = 1);
        for (int i = 0; i < 5; i++)
            bed_write(&bed, "z");
        struct worker_fetch fetch;
        bed_run(&bed);
        bed_write_extent(&bed, "b c x y");
        struct peer *below = bed_peer(&bed), *behind = bed_peer(&bed);
        create(&bed, below, "a", "z", bed.head, WATCHER_PREV_KV);
        for (int slices = 0; slices < (round == 0 ? 1 : 4); slices++) {
            while (bed_turn(&bed, bed.turn_work))
                continue;
            assert_true(worker_wants_fetch(bed.worker, &fetch));
            assert_true(fetch.slice);
            below->room = round == 0 ? PLENTY : 30;
            answer(&bed, &fetch);
        }
        create(&bed, behind, "z", "", bed.head - 2, 0);
        bed_turn(&bed, bed.turn_work);
        while (worker_wants_fetch(bed.worker, &fetch))
            answer(&bed, &fetch);
        below->room = PLENTY;
        bed_run(&bed);
        assert_false(stream_broken(below->stream));
        assert_int_equal(count_events(below, 0), 4);
        assert_int_equal(count_events(behind, 0), 2);
        bed_close(&bed);
    }
}

#define NESTED        300
#define NESTED_EVENTS 1000

/* Range i is everything from "k<i>" on, so all hold the keys of the last. Each is watched on one of two streams. */
static void create_nested(struct bed *bed, struct peer *even, struct peer *odd, int64_t start)
{
    for (int i = 0; i < NESTED; i++) {
        char key[16];
        snprintf(key, sizeof(key), "k%03d", i);
        create(bed, i % 2 == 0 ? even : odd, key, "z", start, 0);
    }
}

/* One revision; its first hundred events are for the outer ranges only. */
static void write_nested(struct bed *bed)
{
    static char keys[NESTED_EVENTS * 16];
    size_t len = 0;
    for (int i = 0; i < NESTED_EVENTS; i++)
        len += (size_t)snprintf(keys + len, sizeof(keys) - len, "k%03d/%04d ", i < 100 ? 3 * i : NESTED, i);
    bed_write(bed, keys);
}

/* Each range of this parity has all its events of the revision, in one response. */
static void assert_nested(const struct peer *peer, int parity, int64_t rev)
{
    bool given[NESTED] = {false};
    size_t n = 0;
    for (size_t i = 0; i < peer->n; i++) {
        const struct got *got = &peer->got[i];
        if (got->n == 0 || got->revs[0] != rev)
            continue;
        int range = 2 * (int)got->watch.watch_id + parity;
        assert_true(range < NESTED && !given[range]);
        given[range] = true;
        assert_false(got->watch.fragment);
        assert_int_equal(got->n, NESTED_EVENTS - (range + 2) / 3);
        n++;
    }
    assert_int_equal(n, NESTED / 2);
}

static void batch_that_too_many_ranges_want_reaches_each_in_one_response(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *even = bed_peer(&bed), *odd = bed_peer(&bed);
    create_nested(&bed, even, odd, 0);
    create(&bed, odd, "a", "", 0, 0);
    bed_run(&bed);
    odd->room = 0;
    stream_writable(bed.worker, odd->stream, 0);
    bed_write(&bed, "a"); /* parks it: it finds the large batch on its own way, later */
    bed_run(&bed);
    bed.turns = 0;
    write_nested(&bed);
    bed_run(&bed);
    assert_nested(even, 0, 12);
    odd->room = PLENTY;
    bed_run(&bed);
    assert_nested(odd, 1, 12);
    struct worker_stats stats;
    worker_stats(bed.worker, &stats);
    assert_true(bed.turns < 20);
    assert_true(stats.bytes < 16 << 20); /* what is found about a batch is bounded */
    assert_int_equal(stats.riding, NESTED + 1);
    bed_close(&bed);
}

static void batch_that_too_many_ranges_want_reaches_those_who_are_behind(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 1);
    struct peer *even = bed_peer(&bed), *odd = bed_peer(&bed);
    write_nested(&bed);
    bed_write(&bed, "a"); /* outside of all */
    bed_run(&bed);
    create_nested(&bed, even, odd, 11);
    bed.turns = 0;
    bed_run(&bed);
    assert_true(bed.turns < 20);
    assert_nested(even, 0, 11);
    assert_nested(odd, 1, 11);
    bed_close(&bed);
}

/* ---- cuts ---- */

static void rewritten_past_cancels_everybody(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    create(&bed, a, "k", "", 0, 0);
    create(&bed, a, "k", "", 99, 0);
    bed_run(&bed);
    assert_int_equal(evlog_cut(bed.log, 5, EVLOG_CUT_REWRITTEN, 5), BELFRY_OK);
    bed_run(&bed);
    assert_int_equal(a->n, 4);
    for (size_t i = 2; i < 4; i++) {
        assert_true(a->got[i].watch.canceled);
        assert_int_equal(a->got[i].watch.compact_revision, 5);
    }
    assert_int_equal(worker_position(bed.worker), 5);
    create(&bed, a, "k", "", 0, 0);
    bed_run(&bed);
    assert_created(&a->got[4], 2, 5);
    bed_close(&bed);
}

/* The second cut alone would spare it. */
static void worker_that_slept_through_a_rewrite_hears_of_it_from_the_next_cut(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    create(&bed, a, "k", "", 60, 0);
    bed_run(&bed);
    assert_int_equal(worker_past(bed.worker), 1);
    assert_int_equal(evlog_cut(bed.log, 5, EVLOG_CUT_REWRITTEN, 5), BELFRY_OK);
    assert_int_equal(evlog_cut(bed.log, 50, EVLOG_CUT_COMPACTED, 40), BELFRY_OK);
    assert_int_equal(worker_past(bed.worker), 1);
    bed_run(&bed);
    assert_int_equal(worker_past(bed.worker), 3);
    assert_int_equal(a->n, 2);
    assert_true(a->got[1].watch.canceled);
    assert_int_equal(a->got[1].watch.compact_revision, 50);
    bed_close(&bed);
}

static void compaction_over_our_head_spares_who_starts_behind_it(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    create(&bed, a, "k", "", 0, 0);
    create(&bed, a, "k", "", 60, 0);
    bed_run(&bed);
    assert_int_equal(evlog_cut(bed.log, 50, EVLOG_CUT_COMPACTED, 40), BELFRY_OK);
    bed.head = 50;
    bed_run(&bed);
    assert_int_equal(a->n, 3);
    assert_true(a->got[2].watch.canceled);
    assert_int_equal(a->got[2].watch.watch_id, 0);
    assert_int_equal(a->got[2].watch.compact_revision, 40);
    for (int i = 0; i < 12; i++)
        bed_write(&bed, "k");
    bed_run(&bed);
    assert_int_equal(count_events(a, 1), 3);
    bed_close(&bed);
}

static void cut_in_the_middle_of_a_hand_out_repeats_nothing(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *first = three_who_want_x(&bed);
    hand_out_to_the_first(&bed, first);
    assert_int_equal(evlog_cut(bed.log, 11, EVLOG_CUT_COMPACTED, 11), BELFRY_OK);
    bed_run(&bed);
    assert_each_has_one(first);
    bed_close(&bed);
}

static void cut_upon_a_cut_leaves_the_turn_bounded(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    struct worker_stats stats;
    for (int i = 0; i < 100; i++)
        create(&bed, a, "x", "", 1000, 0);
    bed_run(&bed);
    assert_int_equal(evlog_cut(bed.log, 10, EVLOG_CUT_COMPACTED, 0), BELFRY_OK);
    assert_true(bed_turn(&bed, 10));
    assert_int_equal(evlog_cut(bed.log, 10, EVLOG_CUT_REWRITTEN, 10), BELFRY_OK);
    assert_true(bed_turn(&bed, 10));
    worker_stats(bed.worker, &stats);
    assert_true(stats.waiting >= 80);
    bed_run(&bed);
    assert_int_equal(a->n, 200);
    for (size_t i = 100; i < 200; i++)
        assert_true(a->got[i].watch.canceled);
    bed_close(&bed);
}

static void turn_is_bounded_and_goes_on(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    for (int i = 0; i < 300; i++)
        create(&bed, a, "k", "", 0, 0);
    bed.turn_work = 7;
    bed_run(&bed);
    bed_write(&bed, "k");
    stream_writable(bed.worker, a->stream, PLENTY);
    assert_true(worker_turn(bed.worker, bed.now, 7));
    decode(a);
    assert_true(a->n < 300 + 30);
    bed_run(&bed);
    assert_int_equal(a->n, 600);
    bed_close(&bed);
}

static void closed_stream_is_taken_down_over_turns(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    struct worker_stats before, after;
    worker_stats(bed.worker, &before);
    for (int i = 0; i < 300; i++)
        create(&bed, a, i % 2 == 0 ? "k" : "j", "", i % 3, 0);
    stream_close(bed.worker, a->stream);
    a->stream = NULL;
    assert_true(worker_turn(bed.worker, bed.now, 10));
    worker_stats(bed.worker, &after);
    assert_true(after.watchers > 200);
    bed_run(&bed);
    worker_stats(bed.worker, &after);
    assert_int_equal(after.watchers, 0);
    assert_int_equal(after.nodes, 0);
    bed_close(&bed);
}

/* ---- refused allocations ---- */

static enum belfry_err try_create(struct bed *bed, struct peer *peer, int64_t start, uint8_t flags)
{
    struct stream_create request = {.key = BYTES("a"), .range_end = BYTES("z"), .start_rev = start, .flags = flags};
    return stream_create(bed->worker, peer->stream, &request);
}

static struct batch *kept_batches[16];

static void drop_bytes(void *user, const uint8_t *data, size_t len)
{
    (void)user, (void)data, (void)len;
}

static enum belfry_err scenario(void)
{
    struct evlog_opts log_opts = {.capacity_log2 = 8, .max_bytes = PLENTY, .n_workers = 1};
    struct worker_opts opts = {.write = drop_bytes, .fragment_bytes = 60, .segment_bytes = 1, .progress_ms = 1000};
    struct bed bed = {0};
    struct peer peer = {0};
    enum belfry_err err = evlog_create(&log_opts, &bed.log);
    opts.log = bed.log;
    if (err == BELFRY_OK)
        err = evlog_cut(bed.log, 10, EVLOG_CUT_START, 0);
    if (err == BELFRY_OK)
        err = worker_create(&opts, &bed.worker);
    if (err == BELFRY_OK) {
        worker_turn(bed.worker, 0, 1000);
        err = stream_open(bed.worker, &peer, 0, &peer.stream);
    }
    for (size_t i = 0; i < 16 && err == BELFRY_OK; i++)
        err = evlog_append(bed.log, batch_ref(kept_batches[i]));
    if (err == BELFRY_OK)
        err = try_create(&bed, &peer, 12, WATCHER_FRAGMENT);
    if (err == BELFRY_OK)
        err = try_create(&bed, &peer, 0, 0);
    for (int i = 0; i < 60 && err == BELFRY_OK; i++) {
        stream_writable(bed.worker, peer.stream, i < 20 ? 16 : 4096);
        worker_turn(bed.worker, (uint64_t)i * 20, 1000);
    }
    struct worker_stats stats = {.riding = 2};
    if (err == BELFRY_OK)
        worker_stats(bed.worker, &stats);
    if (stats.riding != 2)
        fail_msg("a refused allocation left a watcher behind");
    if (err == BELFRY_OK)
        err = stream_cancel(bed.worker, peer.stream, 0);
    worker_destroy(bed.worker);
    evlog_destroy(bed.log);
    return err;
}

static void refused_allocations_lose_nothing(void **state)
{
    (void)state;
    struct bed bed;
    assert_int_equal(bed_open(&bed, 8, (struct worker_opts){.seed = 1}), BELFRY_OK);
    for (int i = 0; i < 16; i++)
        bed_write(&bed, "b c d");
    memcpy(kept_batches, bed.batches, sizeof(kept_batches));
    assert_true(refuse_sweep(scenario) > 5);
    bed_close(&bed);
}

/* Not at once: a worker that tried until there is memory would do nothing else. */
static void refused_allocation_is_tried_again_at_a_later_turn(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 1);
    struct peer *a = bed_peer(&bed);
    create(&bed, a, "x", "", 0, 0);
    a->room = 1; /* the rest of the answer must be kept */
    stream_writable(bed.worker, a->stream, a->room);
    refuse_begin(0);
    bool more = worker_turn(bed.worker, bed.now, 1000);
    assert_true(refuse_end());
    assert_false(more);
    assert_int_equal(a->room, 1);
    assert_true(worker_due(bed.worker) > bed.now);
    assert_true(worker_due(bed.worker) != BELFRY_NEVER);
    bed.now = worker_due(bed.worker);
    a->room = PLENTY;
    bed_run(&bed);
    assert_int_equal(a->n, 1);
    assert_created(&a->got[0], 0, 10);
    bed_close(&bed);
}

/* ---- views ---- */

static struct watcher_view view_after(const struct bed *bed, const struct peer *peer, int64_t after)
{
    struct watcher_view view;
    assert_true(stream_watcher(bed->worker, peer->stream, after, &view));
    return view;
}

static void assert_stands(const struct watcher_view *view, int64_t id, enum watcher_standing standing, int64_t next)
{
    assert_int_equal(view->id, id);
    assert_int_equal(view->standing, standing);
    assert_int_equal(view->next, next);
    assert_false(view->ended);
}

static void views_of_a_stream_come_by_id_and_say_how_each_stands(void **state)
{
    (void)state;
    BED(bed, 8, .seed = 60);
    struct peer *a = bed_peer(&bed);
    struct watcher_view view;
    assert_false(stream_watcher(bed.worker, a->stream, INT64_MIN, &view));
    create(&bed, a, "x", "y", 0, WATCHER_PREV_KV);
    create(&bed, a, "k", "", 0, 0);
    create(&bed, a, "a", "b1", 100, 0);
    bed_run(&bed);
    view = view_after(&bed, a, INT64_MIN);
    assert_stands(&view, 0, WATCHER_SYNCED, 11);
    assert_int_equal(view.range.kind, RANGE_PREFIX);
    assert_true(belfry_bytes_equal(view.range.key, BYTES("x")));
    assert_int_equal(view.flags & WATCHER_PREV_KV, WATCHER_PREV_KV);
    view = view_after(&bed, a, 0);
    assert_stands(&view, 1, WATCHER_SYNCED, 11);
    assert_int_equal(view.range.kind, RANGE_KEY);
    view = view_after(&bed, a, 1);
    assert_stands(&view, 2, WATCHER_SYNCED, 100); /* in the future */
    assert_true(belfry_bytes_equal(view.range.end, BYTES("b1")));
    assert_false(stream_watcher(bed.worker, a->stream, 2, &view));

    a->room = 0;
    stream_writable(bed.worker, a->stream, 0);
    for (int i = 0; i < 5; i++)
        bed_write(&bed, "x1");
    bed_run(&bed);
    view = view_after(&bed, a, -1);
    assert_stands(&view, 0, WATCHER_PARKED, 11);
    a->room = PLENTY;
    bed_run(&bed);
    view = view_after(&bed, a, -1);
    assert_stands(&view, 0, WATCHER_SYNCED, 16);
    bed_close(&bed);
}

static void view_of_one_who_is_behind_says_where_it_is_and_of_one_who_was_told_compacted_that_it_ended(void **state)
{
    (void)state;
    BED(bed, 4, .seed = 61);
    for (int i = 0; i < 40; i++) {
        bed_write(&bed, "x");
        bed_run(&bed);
    }
    struct peer *a = bed_peer(&bed);
    bed.no_history = true;
    create(&bed, a, "x", "", 15, 0);
    bed_run(&bed);
    struct watcher_view view = view_after(&bed, a, -1);
    assert_stands(&view, 0, WATCHER_CATCHING_UP, 15);
    bed.no_history = false;
    bed.compacted = 20;
    bed_run(&bed);
    view = view_after(&bed, a, -1);
    assert_true(view.ended);
    assert_int_equal(view.next, 20);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(event_goes_to_those_who_want_it_in_the_order_of_ids),
        cmocka_unit_test(whole_revision_comes_in_one_response),
        cmocka_unit_test(stream_without_room_is_parked_and_loses_nothing),
        cmocka_unit_test(parked_stream_outlives_the_log),
        cmocka_unit_test(worker_that_overslept_goes_on_from_history),
        cmocka_unit_test(range_that_joins_in_the_middle_of_a_hand_out_repeats_nothing),
        cmocka_unit_test(hand_out_whose_batch_left_the_log_repeats_nothing),
        cmocka_unit_test(stream_parked_inside_a_revision_goes_on_there_from_history),
        cmocka_unit_test(stream_parked_inside_a_revision_repeats_nothing_when_history_is_gone),
        cmocka_unit_test(answer_that_fills_the_room_parks_nobody),
        cmocka_unit_test(peaks_stay_when_what_made_them_is_gone),
        cmocka_unit_test(nobody_is_parked_after_everything_was_given),
        cmocka_unit_test(stream_with_room_is_not_parked_though_it_may_not_tell_progress),
        cmocka_unit_test(watcher_behind_is_given_the_past_packed_then_rides),
        cmocka_unit_test(many_behind_read_history_once),
        cmocka_unit_test(start_in_the_future_is_given_nothing_before),
        cmocka_unit_test(compacted_is_told_with_the_revision_and_the_id_stays_taken),
        cmocka_unit_test(stalled_watcher_goes_on_where_it_got_off),
        cmocka_unit_test(history_that_fails_again_and_again_holds_up_nobody_else),
        cmocka_unit_test(worker_is_due_when_a_wait_for_history_has_been_too_long),
        cmocka_unit_test(a_client_with_many_cursors_leaves_buses_to_others),
        cmocka_unit_test(the_second_bus_of_a_client_gives_way_to_one_without),
        cmocka_unit_test(clients_whose_history_does_not_come_hold_up_nobody),
        cmocka_unit_test(clients_whose_slices_do_not_come_hold_up_nobody),
        cmocka_unit_test(a_bus_without_memory_at_an_extent_tries_again),
        cmocka_unit_test(clients_that_are_far_behind_all_go_on),
        cmocka_unit_test(ids_are_the_smallest_never_assigned_and_taken_ones_are_refused),
        cmocka_unit_test(empty_range_and_negative_start_are_refused),
        cmocka_unit_test(no_event_follows_a_cancel_but_what_was_begun_is_finished),
        cmocka_unit_test(answers_that_wait_are_bounded),
        cmocka_unit_test(an_expelled_watcher_is_told_why_and_receives_nothing_more),
        cmocka_unit_test(memory_over_the_limit_refuses_new_watchers),
        cmocka_unit_test(a_stream_says_what_its_watchers_hold),
        cmocka_unit_test(workers_that_share_a_bound_are_counted_together),
        cmocka_unit_test(a_stream_that_was_closed_wants_a_turn),
        cmocka_unit_test(a_turn_says_what_it_spent),
        cmocka_unit_test(history_that_is_kept_refuses_no_watcher),
        cmocka_unit_test(manual_progress_waits_for_those_who_are_behind),
        cmocka_unit_test(stale_worker_tells_no_progress),
        cmocka_unit_test(periodic_progress_skips_those_who_were_active),
        cmocka_unit_test(progress_out_of_turn_is_for_those_who_were_active_too),
        cmocka_unit_test(periodic_progress_is_told_once_however_many_turns_it_takes),
        cmocka_unit_test(active_watchers_are_skipped_however_many_turns_it_takes),
        cmocka_unit_test(fragments_come_whole_with_nothing_between),
        cmocka_unit_test(revision_too_large_for_memory_reaches_all_who_want_it),
        cmocka_unit_test(huge_revision_is_measured_and_written_from_the_same_rows),
        cmocka_unit_test(batch_that_too_many_ranges_want_reaches_each_in_one_response),
        cmocka_unit_test(batch_that_too_many_ranges_want_reaches_those_who_are_behind),
        cmocka_unit_test(rewritten_past_cancels_everybody),
        cmocka_unit_test(worker_that_slept_through_a_rewrite_hears_of_it_from_the_next_cut),
        cmocka_unit_test(compaction_over_our_head_spares_who_starts_behind_it),
        cmocka_unit_test(cut_in_the_middle_of_a_hand_out_repeats_nothing),
        cmocka_unit_test(cut_upon_a_cut_leaves_the_turn_bounded),
        cmocka_unit_test(turn_is_bounded_and_goes_on),
        cmocka_unit_test(closed_stream_is_taken_down_over_turns),
        cmocka_unit_test(refused_allocations_lose_nothing),
        cmocka_unit_test(refused_allocation_is_tried_again_at_a_later_turn),
        cmocka_unit_test(views_of_a_stream_come_by_id_and_say_how_each_stands),
        cmocka_unit_test(view_of_one_who_is_behind_says_where_it_is_and_of_one_who_was_told_compacted_that_it_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
