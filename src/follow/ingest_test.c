/* src/follow/ingest_test.c */
#include "follow/ingest.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "follow/past_fixture.h"
#include "support/modelstore.h"
#include "support/refuse.h"

struct bench {
    struct past *past;
    struct store *store;
    struct evlog *evlog;
    struct ingest *ingest;
    uint64_t now;
};

static const struct modelstore_opts store_opts = {
    .history_rows = 100000, .history_age_s = 1000000, .extent_bytes = 1500};

static struct ingest *make_ingest(const struct bench *b, bool whole_scope)
{
    struct ingest_opts opts = {.store = b->store,
                               .evlog = b->evlog,
                               .extent_bytes = store_opts.extent_bytes,
                               .trim_rows = 16,
                               .whole_scope = whole_scope};
    struct ingest *ingest = NULL;
    assert_int_equal(ingest_create(&opts, &ingest), BELFRY_OK);
    return ingest;
}

static struct evlog *make_evlog(void)
{
    struct evlog_opts opts = {.capacity_log2 = 5, .max_bytes = 1 << 20, .n_workers = 1};
    struct evlog *evlog = NULL;
    assert_int_equal(evlog_create(&opts, &evlog), BELFRY_OK);
    return evlog;
}

/* The state at `rev` goes into the store as a listing would put it. */
static void list_at(struct bench *b, int64_t rev)
{
    assert_int_equal(b->store->api->fresh(b->store), BELFRY_OK);
    for (int key = 0; key < PAST_KEYS; key++) {
        struct past_kv at;
        uint8_t raw[128];
        struct belfry_wire_kv kv;
        if (!past_at(b->past, key, rev, &at))
            continue;
        assert_int_equal(belfry_scan_kv(belfry_bytes_of(raw, past_encode_kv(key, &at, raw)), &kv), BELFRY_OK);
        assert_int_equal(b->store->api->put(b->store, &kv), BELFRY_OK);
    }
    struct belfry_wire_header header = past_header(b->past, rev);
    assert_int_equal(ingest_adopt(b->ingest, rev, &header, EVLOG_CUT_START, 0), BELFRY_OK);
}

static void bench_init(struct bench *b)
{
    *b = (struct bench){
        .past = past_create(9), .store = modelstore_create(&store_opts), .evlog = make_evlog(), .now = 1000};
    b->ingest = make_ingest(b, true);
    list_at(b, 1);
}

static void bench_fini(struct bench *b)
{
    ingest_destroy(b->ingest);
    evlog_destroy(b->evlog);
    modelstore_destroy(b->store);
    past_destroy(b->past);
}

static enum belfry_err offer(struct bench *b, int64_t rev)
{
    struct ingest_revision revision = past_revision(b->past, rev, PAST_BARE);
    return ingest_revision(b->ingest, &revision, b->now);
}

/* ---- comparing with the past ---- */

struct rows {
    const struct past *past;
    int64_t rev;
    int next;
};

static bool row_is_right(struct belfry_bytes key, struct belfry_bytes kv, void *user)
{
    struct rows *rows = user;
    struct past_kv at;
    uint8_t raw[128];
    while (rows->next < PAST_KEYS && !past_at(rows->past, rows->next, rows->rev, &at))
        rows->next++;
    assert_true(rows->next < PAST_KEYS);
    size_t len = past_encode_kv(rows->next++, &at, raw);
    assert_true(belfry_bytes_equal(kv, belfry_bytes_of(raw, len)));
    (void)key;
    return true;
}

static void assert_state(struct bench *b, int64_t rev)
{
    struct rows rows = {.past = b->past, .rev = rev};
    struct store_read read = {.max_rows = 1000, .max_bytes = 1 << 20};
    struct store_page page;
    assert_int_equal(b->store->api->range(b->store, &read, row_is_right, &rows, &page), BELFRY_OK);
    assert_int_equal(page.at, rev);
    assert_false(page.more);
    struct past_kv left;
    for (; rows.next < PAST_KEYS; rows.next++)
        assert_false(past_at(b->past, rows.next, rev, &left));
}

static void assert_batch(const struct past *past, const struct batch *batch)
{
    const struct past_rev *rev = past->revs[batch->rev];
    if (batch->kind == BATCH_EXTENT) {
        assert_int_equal(batch->extent_events, rev->n);
        return;
    }
    assert_int_equal(batch->n_events, rev->n);
    for (size_t i = 0; i < rev->n; i++) {
        assert_true(belfry_bytes_equal(batch_bytes(batch, &batch->events[i], false), rev->events[0][i].raw));
        assert_true(belfry_bytes_equal(batch_prev_kv(batch, &batch->events[i]), rev->events[1][i].has_prev
                                                                                    ? rev->events[1][i].prev.raw
                                                                                    : (struct belfry_bytes){0}));
    }
}

/* What the log has is what was written, up to the head; returns how many batches it has. */
static size_t assert_log(struct bench *b)
{
    struct evlog_view view;
    evlog_enter(b->evlog, 0, &view);
    int64_t expect = 0;
    for (uint64_t seq = view.first; seq < view.next; seq++) {
        const struct batch *batch = evlog_at(&view, seq);
        assert_true(expect == 0 || batch->rev == expect);
        expect = batch->rev + 1;
        assert_batch(b->past, batch);
    }
    assert_int_equal(view.head, ingest_head(b->ingest));
    size_t n = (size_t)(view.next - view.first);
    evlog_leave(b->evlog, 0);
    return n;
}

/* ---- the tests ---- */

static void revision_is_published_at_once_and_committed_when_drained(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_put(b.past, 3, "a");
    assert_int_equal(offer(&b, 2), BELFRY_OK);
    assert_int_equal(ingest_head(b.ingest), 2);
    assert_int_equal(ingest_committed(b.ingest), 1);
    assert_int_equal(evlog_commit_rev(b.evlog), 1);
    assert_int_equal(assert_log(&b), 1);
    ingest_drained(b.ingest, b.now);
    assert_int_equal(ingest_committed(b.ingest), 2);
    assert_int_equal(evlog_commit_rev(b.evlog), 2);
    assert_state(&b, 2);
    bench_fini(&b);
}

static void commit_comes_five_milliseconds_later_without_a_drain(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_put(b.past, 3, "a");
    assert_int_equal(offer(&b, 2), BELFRY_OK);
    assert_int_equal(ingest_due(b.ingest), b.now + INGEST_COMMIT_MS);
    ingest_tick(b.ingest, b.now + INGEST_COMMIT_MS - 1);
    assert_int_equal(ingest_committed(b.ingest), 1);
    ingest_tick(b.ingest, b.now + INGEST_COMMIT_MS);
    assert_int_equal(ingest_committed(b.ingest), 2);
    bench_fini(&b);
}

static void revision_that_is_not_the_next_is_a_breach(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_fill(b.past, 5, "a");
    assert_int_equal(offer(&b, 3), BELFRY_ERR_REWOUND);
    assert_int_equal(offer(&b, 2), BELFRY_OK);
    assert_int_equal(offer(&b, 2), BELFRY_ERR_REWOUND);
    assert_int_equal(offer(&b, 4), BELFRY_ERR_REWOUND);
    assert_string_equal(ingest_why(b.ingest), "revision 4 came after 2");
    assert_int_equal(offer(&b, 3), BELFRY_OK);
    bench_fini(&b);
}

/* A txn whose first event is right and whose second breaks a rule changes nothing. */
static void assert_breach(struct bench *b, const struct past *other)
{
    int64_t rev = ingest_head(b->ingest) + 1;
    struct ingest_revision revision = past_revision(other, rev, PAST_BARE);
    assert_int_equal(ingest_revision(b->ingest, &revision, b->now), BELFRY_ERR_REWOUND);
    assert_int_equal(ingest_head(b->ingest), rev - 1);
    ingest_drained(b->ingest, b->now);
    assert_state(b, rev - 1);
}

static void event_that_does_not_fit_the_state_is_a_breach_and_changes_nothing(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_put(b.past, 1, "a");
    past_put(b.past, 2, "a");
    assert_int_equal(offer(&b, 2), BELFRY_OK);
    assert_int_equal(offer(&b, 3), BELFRY_OK);

    static const char *const puts[] = {"new", "again"};
    static const char *const deletes[] = {"new", NULL};
    struct past *version = past_fork(b.past, 3); /* key 1 has one version more than we know of */
    version->now[1].version++;
    past_txn(version, 2, (int[]){5, 1}, puts);
    assert_breach(&b, version);
    struct past *create = past_fork(b.past, 3); /* key 1 was created at another revision */
    create->now[1].create_rev = 3;
    past_txn(create, 2, (int[]){5, 1}, puts);
    assert_breach(&b, create);
    struct past *missing = past_fork(b.past, 3); /* key 6 is not there to be deleted */
    missing->now[6].version = 1;
    past_txn(missing, 2, (int[]){5, 6}, deletes);
    assert_breach(&b, missing);
    struct past *there = past_fork(b.past, 3); /* key 2 is there and comes as new */
    there->now[2] = (struct past_kv){0};
    past_txn(there, 2, (int[]){5, 2}, puts);
    assert_breach(&b, there);

    past_put(b.past, 1, "b");
    assert_int_equal(offer(&b, 4), BELFRY_OK);
    past_destroy(version);
    past_destroy(create);
    past_destroy(missing);
    past_destroy(there);
    bench_fini(&b);
}

static void event_of_another_revision_is_a_breach(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_put(b.past, 1, "a");
    past_put(b.past, 2, "a");
    struct ingest_revision revision = past_revision(b.past, 3, PAST_BARE);
    revision.rev = 2;
    assert_int_equal(ingest_revision(b.ingest, &revision, b.now), BELFRY_ERR_REWOUND);
    revision.n = 0;
    assert_int_equal(ingest_revision(b.ingest, &revision, b.now), BELFRY_ERR_REWOUND);
    bench_fini(&b);
}

static void progress_beyond_the_head_of_the_whole_scope_is_a_breach(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    struct belfry_wire_header header = past_header(b.past, 1);
    assert_int_equal(ingest_advance(b.ingest, 1, &header, b.now), BELFRY_OK);
    assert_int_equal(ingest_advance(b.ingest, 2, &header, b.now), BELFRY_ERR_REWOUND);
    assert_int_equal(ingest_head(b.ingest), 1);
    bench_fini(&b);
}

static void progress_of_a_prefix_is_published_as_an_advance(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    ingest_destroy(b.ingest);
    evlog_destroy(b.evlog);
    b.evlog = make_evlog();
    b.ingest = make_ingest(&b, false);
    bool warm;
    assert_int_equal(ingest_open(b.ingest, &warm), BELFRY_OK);
    past_fill(b.past, 9, "a");
    struct belfry_wire_header header = past_header(b.past, 5);
    assert_int_equal(ingest_advance(b.ingest, 5, &header, b.now), BELFRY_OK);
    assert_int_equal(ingest_head(b.ingest), 5);
    assert_int_equal(offer(&b, 8), BELFRY_OK);
    assert_int_equal(ingest_advance(b.ingest, 9, &header, b.now), BELFRY_OK);
    ingest_drained(b.ingest, b.now);
    struct evlog_view view;
    evlog_enter(b.evlog, 0, &view);
    assert_int_equal(view.next - view.first, 3);
    assert_int_equal(evlog_at(&view, view.first)->kind, BATCH_ADVANCE);
    assert_int_equal(evlog_at(&view, view.first)->rev, 5);
    assert_int_equal(evlog_at(&view, view.first + 2)->rev, 9);
    evlog_leave(b.evlog, 0);
    assert_int_equal(ingest_overlap(b.ingest), 8);

    /* opened anew, the overlap is found some way back from the head */
    ingest_destroy(b.ingest);
    evlog_destroy(b.evlog);
    b.evlog = make_evlog();
    b.ingest = make_ingest(&b, false);
    assert_int_equal(ingest_open(b.ingest, &warm), BELFRY_OK);
    assert_int_equal(ingest_head(b.ingest), 9);
    assert_int_equal(ingest_overlap(b.ingest), 8);
    bench_fini(&b);
}

static void huge_revision_is_committed_before_the_log_shows_its_extent(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    int keys[PAST_KEYS];
    const char *values[PAST_KEYS];
    for (int i = 0; i < PAST_KEYS; i++) {
        keys[i] = i;
        values[i] = "twenty bytes or more";
    }
    past_txn(b.past, PAST_KEYS, keys, values);
    past_txn(b.past, PAST_KEYS, keys, values);
    assert_int_equal(offer(&b, 2), BELFRY_OK);
    assert_int_equal(offer(&b, 3), BELFRY_OK);
    assert_int_equal(ingest_committed(b.ingest), 3);
    struct evlog_view view;
    evlog_enter(b.evlog, 0, &view);
    assert_int_equal(evlog_at(&view, view.next - 1)->kind, BATCH_EXTENT);
    evlog_leave(b.evlog, 0);
    assert_log(&b);
    assert_state(&b, 3);

    struct ingest_revision same = past_revision(b.past, 3, PAST_BARE), other = past_revision(b.past, 2, PAST_BARE);
    assert_int_equal(ingest_compare(b.ingest, &same, b.now), BELFRY_OK);
    other.rev = 3;
    assert_int_equal(ingest_compare(b.ingest, &other, b.now), BELFRY_ERR_REWOUND);
    bench_fini(&b);
}

static void log_full_of_uncommitted_batches_makes_it_commit(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_fill(b.past, 200, "a");
    for (int64_t rev = 2; rev <= 200; rev++)
        assert_int_equal(offer(&b, rev), BELFRY_OK);
    assert_int_equal(ingest_head(b.ingest), 200);
    assert_true(ingest_committed(b.ingest) > 100);
    assert_log(&b);
    bench_fini(&b);
}

/* Lets time pass until it is out of trouble, or for too long. */
static void outlast_trouble(struct bench *b)
{
    for (int i = 0; i < 200 && ingest_in_trouble(b->ingest); i++) {
        b->now = ingest_due(b->ingest) > b->now ? ingest_due(b->ingest) : b->now;
        ingest_tick(b->ingest, b->now);
    }
    assert_false(ingest_in_trouble(b->ingest));
}

static void published_revisions_are_applied_again_after_disk_trouble(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_fill(b.past, 12, "a");
    past_delete(b.past, 3);
    for (int64_t rev = 2; rev <= 10; rev++)
        assert_int_equal(offer(&b, rev), BELFRY_OK);
    modelstore_fail(b.store, 4);
    assert_int_equal(offer(&b, 11), BELFRY_OK); /* from memory */
    assert_true(ingest_in_trouble(b.ingest));
    assert_false(ingest_is_stuck(b.ingest));
    assert_int_equal(ingest_head(b.ingest), 11);
    assert_log(&b);
    assert_int_equal(ingest_committed(b.ingest), 1);
    assert_int_equal(offer(&b, 12), BELFRY_OK);
    outlast_trouble(&b);
    assert_int_equal(ingest_committed(b.ingest), 12);
    assert_state(&b, 12);
    assert_int_equal(offer(&b, 13), BELFRY_OK);
    ingest_drained(b.ingest, b.now);
    assert_state(&b, 13);
    assert_log(&b);
    bench_fini(&b);
}

/* Puts and deletes of the same keys, again and again: previous values come from what is held, and what is committed. */
static void revisions_are_held_while_the_disk_takes_nothing(void **state)
{
    (void)state;
    struct belfry_rng rng = {7};
    struct bench b;
    bench_init(&b);
    for (int i = 0; i < 20; i++)
        past_random(b.past, &rng);
    for (int64_t rev = 2; rev <= 8; rev++)
        assert_int_equal(offer(&b, rev), BELFRY_OK);
    ingest_drained(b.ingest, b.now);
    assert_int_equal(ingest_committed(b.ingest), 8);
    modelstore_fail(b.store, UINT_MAX);
    for (int64_t rev = 9; rev <= 20; rev++) {
        enum belfry_err err = offer(&b, rev);
        if (err == BELFRY_ERR_AGAIN) { /* an extent is read from the store */
            assert_true(ingest_is_stuck(b.ingest));
            break;
        }
        assert_int_equal(err, BELFRY_OK);
        ingest_drained(b.ingest, b.now += 7);
        ingest_tick(b.ingest, b.now);
        assert_log(&b);
    }
    assert_in_range(ingest_head(b.ingest), 12, 20);
    assert_int_equal(ingest_committed(b.ingest), 8);
    assert_state(&b, 8);
    modelstore_fail(b.store, 0);
    outlast_trouble(&b);
    assert_state(&b, ingest_head(b.ingest));
    bench_fini(&b);
}

static void held_revision_that_does_not_fit_is_a_breach(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_put(b.past, 1, "a");
    past_put(b.past, 1, "b");
    struct past *other = past_fork(b.past, 3);
    past_put(other, 1, "c");
    past_put(other, 1, "d"); /* at version 4, of which we would be missing the third */
    past_delete(b.past, 1);
    past_put(b.past, 2, "e");
    assert_int_equal(offer(&b, 2), BELFRY_OK);
    modelstore_fail(b.store, UINT_MAX);
    assert_int_equal(offer(&b, 3), BELFRY_OK);
    assert_int_equal(offer(&b, 4), BELFRY_OK); /* deleted */
    struct ingest_revision revision = past_revision(other, 5, PAST_BARE);
    assert_int_equal(ingest_revision(b.ingest, &revision, b.now), BELFRY_ERR_REWOUND);
    assert_int_equal(ingest_head(b.ingest), 4);
    assert_int_equal(offer(&b, 5), BELFRY_OK);
    assert_log(&b);
    past_destroy(other);
    bench_fini(&b);
}

static enum belfry_err find(struct bench *b, int key, struct ingest_found *out)
{
    char name[16];
    size_t len = past_key(key, name);
    return ingest_find(b->ingest, belfry_bytes_of(name, len), b->now, out);
}

static void key_is_found_as_of_the_head_though_it_is_not_committed(void **state)
{
    (void)state;
    struct bench b;
    struct ingest_found found;
    bench_init(&b);
    past_put(b.past, 1, "a");
    past_put(b.past, 1, "b");
    past_delete(b.past, 1);
    assert_int_equal(find(&b, 1, &found), BELFRY_ERR_NOT_FOUND);
    assert_int_equal(offer(&b, 2), BELFRY_OK);
    assert_int_equal(find(&b, 1, &found), BELFRY_OK);
    assert_int_equal(found.mod_rev, 2);
    uint64_t first = found.value;
    modelstore_fail(b.store, UINT_MAX); /* from now on changes are held in memory */
    assert_int_equal(offer(&b, 3), BELFRY_OK);
    assert_int_equal(find(&b, 1, &found), BELFRY_OK);
    assert_int_equal(found.mod_rev, 3);
    assert_int_equal(found.create_rev, 2);
    assert_int_equal(found.version, 2);
    assert_true(found.value != first);
    assert_int_equal(offer(&b, 4), BELFRY_OK);
    assert_int_equal(find(&b, 1, &found), BELFRY_ERR_NOT_FOUND);
    assert_log(&b);
    bench_fini(&b);
}

static void no_more_is_held_than_the_log_may_have(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    struct evlog_opts small = {.capacity_log2 = 10, .max_bytes = 4096, .n_workers = 1};
    ingest_destroy(b.ingest);
    evlog_destroy(b.evlog);
    assert_int_equal(evlog_create(&small, &b.evlog), BELFRY_OK);
    b.ingest = make_ingest(&b, true);
    list_at(&b, 1);
    past_fill(b.past, 200, "a");
    modelstore_fail(b.store, UINT_MAX);
    int64_t rev = 2;
    while (offer(&b, rev) == BELFRY_OK)
        rev++;
    assert_in_range(rev, 10, 60);
    assert_true(ingest_is_stuck(b.ingest));
    assert_in_range(evlog_bytes(b.evlog), 2000, 4096);
    assert_int_equal(offer(&b, rev), BELFRY_ERR_AGAIN);
    modelstore_fail(b.store, 0);
    outlast_trouble(&b);
    assert_false(ingest_is_stuck(b.ingest));
    assert_int_equal(offer(&b, rev), BELFRY_OK);
    bench_fini(&b);
}

/* What is held may be much more than one transaction should be. */
static void much_that_is_held_is_committed_in_parts(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    struct evlog_opts large = {.capacity_log2 = 14, .max_bytes = 16 << 20, .n_workers = 1};
    ingest_destroy(b.ingest);
    evlog_destroy(b.evlog);
    assert_int_equal(evlog_create(&large, &b.evlog), BELFRY_OK);
    b.ingest = make_ingest(&b, true);
    list_at(&b, 1);
    past_fill(b.past, 16000, "a");
    modelstore_fail(b.store, UINT_MAX);
    for (int64_t rev = 2; rev <= 16000; rev++)
        assert_int_equal(offer(&b, rev), BELFRY_OK);
    assert_true(evlog_bytes(b.evlog) > 2 * INGEST_COMMIT_BYTES);
    assert_int_equal(ingest_committed(b.ingest), 1);
    modelstore_fail(b.store, 0);
    outlast_trouble(&b);
    assert_int_equal(ingest_committed(b.ingest), 16000);
    assert_state(&b, 16000);
    bench_fini(&b);
}

static void progress_is_held_too(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    ingest_destroy(b.ingest);
    b.ingest = make_ingest(&b, false);
    list_at(&b, 1);
    past_fill(b.past, 20, "a");
    modelstore_fail(b.store, UINT_MAX);
    struct belfry_wire_header header = past_header(b.past, 7);
    assert_int_equal(ingest_advance(b.ingest, 7, &header, b.now), BELFRY_OK);
    assert_true(ingest_in_trouble(b.ingest));
    assert_int_equal(ingest_advance(b.ingest, 9, &header, b.now), BELFRY_OK);
    assert_int_equal(ingest_head(b.ingest), 9);
    modelstore_fail(b.store, 0);
    outlast_trouble(&b);
    assert_int_equal(ingest_committed(b.ingest), 9);
    bench_fini(&b);
}

/* How long it takes from a failed write until it is out of trouble. */
static uint64_t trouble_ms(struct bench *b)
{
    uint64_t began = b->now;
    modelstore_fail(b->store, 1);
    assert_int_equal(offer(b, ingest_head(b->ingest) + 1), BELFRY_OK);
    assert_true(ingest_in_trouble(b->ingest));
    outlast_trouble(b);
    return b->now - began;
}

/* A disk that takes one commit and not the next would else be in and out of trouble several times a second. */
static void trouble_is_over_after_a_calm_that_grows_when_it_comes_back(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_fill(b.past, 200, "a");
    uint64_t last = trouble_ms(&b);
    assert_in_range(last, INGEST_CALM_MS, INGEST_CALM_MS + 500);
    for (int i = 0; i < 10; i++) {
        uint64_t next = trouble_ms(&b);
        assert_in_range(next, last, 2 * last + 500);
        last = next;
    }
    assert_in_range(last, INGEST_CALM_MAX_MS, INGEST_CALM_MAX_MS + 500);
    b.now += 11 * INGEST_CALM_MAX_MS;
    assert_in_range(trouble_ms(&b), INGEST_CALM_MS, INGEST_CALM_MS + 500);
    bench_fini(&b);
}

static void overlap_is_equal_or_rewound_or_unknown(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_put(b.past, 1, "a");
    past_put(b.past, 1, "b");
    struct past *other = past_fork(b.past, 2);
    past_put(other, 1, "c");
    assert_int_equal(ingest_overlap(b.ingest), 0);
    assert_int_equal(offer(&b, 2), BELFRY_OK);
    assert_int_equal(offer(&b, 3), BELFRY_OK);
    ingest_drained(b.ingest, b.now);

    for (int round = 0; round < 2; round++) { /* as it went along, and opened anew */
        struct ingest_revision ours = past_revision(b.past, 3, PAST_PREV), theirs = past_revision(other, 3, PAST_BARE),
                               old = past_revision(b.past, 2, PAST_BARE);
        assert_int_equal(ingest_overlap(b.ingest), 3);
        assert_int_equal(ingest_compare(b.ingest, &ours, b.now), BELFRY_OK);
        assert_int_equal(ingest_compare(b.ingest, &theirs, b.now), BELFRY_ERR_REWOUND);
        assert_int_equal(ingest_compare(b.ingest, &old, b.now), BELFRY_ERR_NOT_FOUND);
        ingest_destroy(b.ingest);
        evlog_destroy(b.evlog);
        modelstore_crash(b.store);
        b.evlog = make_evlog();
        b.ingest = make_ingest(&b, true);
        bool warm = false;
        assert_int_equal(ingest_open(b.ingest, &warm), BELFRY_OK);
        assert_true(warm);
    }
    past_destroy(other);
    bench_fini(&b);
}

static void killed_process_opens_warm_at_what_was_committed(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_fill(b.past, 20, "a");
    for (int64_t rev = 2; rev <= 20; rev++) {
        assert_int_equal(offer(&b, rev), BELFRY_OK);
        if (rev == 15)
            ingest_drained(b.ingest, b.now);
    }
    ingest_destroy(b.ingest);
    evlog_destroy(b.evlog);
    modelstore_crash(b.store);
    b.evlog = make_evlog();
    b.ingest = make_ingest(&b, true);
    bool warm = false;
    assert_int_equal(ingest_open(b.ingest, &warm), BELFRY_OK);
    assert_true(warm);
    assert_int_equal(ingest_head(b.ingest), 15);
    assert_int_equal(evlog_head(b.evlog), 15);
    for (int64_t rev = 16; rev <= 20; rev++)
        assert_int_equal(offer(&b, rev), BELFRY_OK);
    ingest_drained(b.ingest, b.now);
    assert_state(&b, 20);
    bench_fini(&b);
}

static void empty_store_opens_cold(void **state)
{
    (void)state;
    struct bench b = {.past = past_create(9), .store = modelstore_create(&store_opts), .evlog = make_evlog()};
    b.ingest = make_ingest(&b, true);
    bool warm = true;
    assert_int_equal(ingest_open(b.ingest, &warm), BELFRY_OK);
    assert_false(warm);
    assert_int_equal(ingest_head(b.ingest), 0);
    bench_fini(&b);
}

/* A worker sleeps inside a turn: what the log has let go of keeps its places, although all of it is committed. */
static void sleeping_worker_refuses_a_revision_and_nothing_changes(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_fill(b.past, 400, "a");
    assert_int_equal(offer(&b, 2), BELFRY_OK);
    struct evlog_view view;
    evlog_enter(b.evlog, 0, &view);
    int64_t rev = 3;
    enum belfry_err err;
    while ((err = offer(&b, rev)) == BELFRY_OK && rev < 300)
        rev++;
    assert_int_equal(err, BELFRY_ERR_AGAIN);
    assert_int_equal(ingest_head(b.ingest), rev - 1);
    ingest_drained(b.ingest, b.now);
    assert_int_equal(ingest_committed(b.ingest), rev - 1);
    assert_int_equal(offer(&b, rev), BELFRY_ERR_AGAIN); /* everything is committed, and still */
    assert_false(ingest_in_trouble(b.ingest));
    ingest_drained(b.ingest, b.now);
    assert_int_equal(ingest_committed(b.ingest), rev - 1);
    assert_state(&b, rev - 1);
    evlog_leave(b.evlog, 0);
    assert_int_equal(offer(&b, rev), BELFRY_OK);
    ingest_drained(b.ingest, b.now);
    assert_state(&b, rev);
    bench_fini(&b);
}

/* Also while the disk takes nothing, and when it takes everything later. */
static void revision_may_change_a_key_again(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        struct bench b;
        bench_init(&b);
        past_put(b.past, 1, "a");
        past_put(b.past, 2, "a");
        assert_int_equal(offer(&b, 2), BELFRY_OK);
        assert_int_equal(offer(&b, 3), BELFRY_OK);
        past_txn(b.past, 2, (const int[]){3, 3}, (const char *const[]){"new", NULL});
        past_txn(b.past, 2, (const int[]){1, 1}, (const char *const[]){"longer than it was", NULL});
        past_txn(b.past, 4, (const int[]){2, 7, 2, 2}, (const char *const[]){NULL, "b", "created anew", NULL});
        past_txn(b.past, 3, (const int[]){7, 3, 7}, (const char *const[]){NULL, "b", "b"});
        if (fails) {
            modelstore_fail(b.store, 1);
            ingest_drained(b.ingest, b.now);
        }
        for (int64_t rev = 4; rev <= 7; rev++)
            assert_int_equal(offer(&b, rev), BELFRY_OK);
        assert_int_equal(ingest_in_trouble(b.ingest), fails);
        outlast_trouble(&b);
        ingest_drained(b.ingest, b.now);
        assert_state(&b, 7);
        assert_log(&b);
        bench_fini(&b);
    }
}

static void repeated_change_that_does_not_fit_is_a_breach(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_put(b.past, 1, "a");
    assert_int_equal(offer(&b, 2), BELFRY_OK);
    struct past *twice = past_fork(b.past, 2); /* it is gone already */
    past_txn(twice, 2, (const int[]){1, 1}, (const char *const[]){NULL, "b"});
    twice->revs[3]->events[PAST_BARE][1] = twice->revs[3]->events[PAST_BARE][0];
    assert_breach(&b, twice);
    struct past *version = past_fork(b.past, 2); /* it is not the second version: it was deleted */
    past_txn(version, 1, (const int[]){1}, (const char *const[]){"b"});
    version->revs[3]->events[PAST_BARE][1] = version->revs[3]->events[PAST_BARE][0];
    version->revs[3]->events[PAST_BARE][0] = twice->revs[3]->events[PAST_BARE][0];
    version->revs[3]->n = 2;
    assert_breach(&b, version);
    past_destroy(twice);
    past_destroy(version);
    bench_fini(&b);
}

static void revision_that_changes_too_much_again_is_a_breach(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    int keys[PAST_KEYS];
    const char *puts[PAST_KEYS], *turns[PAST_KEYS];
    for (int i = 0; i < PAST_KEYS; i++) {
        keys[i] = i % (PAST_KEYS / 2);
        puts[i] = "twenty-three characters";
        turns[i] = i < PAST_KEYS / 2 ? "b" : NULL;
    }
    past_txn(b.past, PAST_KEYS / 2, keys, puts);
    past_txn(b.past, PAST_KEYS, keys, turns);
    assert_int_equal(offer(&b, 2), BELFRY_OK);
    ingest_destroy(b.ingest);
    struct ingest_opts opts = {.store = b.store, .evlog = b.evlog, .repeat_bytes = 300, .whole_scope = true};
    assert_int_equal(ingest_create(&opts, &b.ingest), BELFRY_OK);
    list_at(&b, 2);
    assert_int_equal(offer(&b, 3), BELFRY_ERR_REWOUND);
    assert_non_null(strstr(ingest_why(b.ingest), "too much again"));
    bench_fini(&b);
}

static void listing_is_compared_after_the_last_change_of_a_key(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_fill(b.past, 30, "a");
    past_txn(b.past, 5, (const int[]){3, 5, 3, 9, 9}, (const char *const[]){"b", NULL, NULL, NULL, "c"});
    list_at(&b, 31);
    struct ingest_revision ours = past_revision(b.past, 31, PAST_BARE);
    assert_int_equal(ingest_compare(b.ingest, &ours, b.now), BELFRY_OK);
    bench_fini(&b);
}

static void listing_is_compared_by_what_its_last_revision_left(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_fill(b.past, 30, "a");
    struct past *other = past_fork(b.past, 30);
    past_txn(b.past, 2, (const int[]){3, 5}, (const char *const[]){"b", NULL});
    past_txn(other, 2, (const int[]){3, 7}, (const char *const[]){"b", NULL});
    struct past *third = past_fork(b.past, 30);
    past_txn(third, 2, (const int[]){3, 5}, (const char *const[]){"c", NULL});
    list_at(&b, 31);
    struct ingest_revision ours = past_revision(b.past, 31, PAST_PREV), theirs = past_revision(other, 31, PAST_BARE),
                           value = past_revision(third, 31, PAST_BARE), old = past_revision(b.past, 30, PAST_BARE);
    struct digest digest;
    assert_int_equal(ingest_compare(b.ingest, &old, b.now), BELFRY_ERR_NOT_FOUND);
    assert_int_equal(ingest_compare(b.ingest, &theirs, b.now), BELFRY_ERR_REWOUND); /* its 7 is still there */
    assert_int_equal(ingest_compare(b.ingest, &value, b.now), BELFRY_ERR_REWOUND);
    assert_false(ingest_overlap_digest(b.ingest, &digest));
    modelstore_fail(b.store, 1);
    ingest_drained(b.ingest, b.now); /* the disk is in trouble: nothing can be said */
    assert_int_equal(ingest_compare(b.ingest, &ours, b.now), BELFRY_ERR_AGAIN);
    b.now += 1000;
    ingest_tick(b.ingest, b.now);
    assert_int_equal(ingest_compare(b.ingest, &ours, b.now), BELFRY_OK);
    assert_true(ingest_overlap_digest(b.ingest, &digest)); /* and is known from now on */
    assert_int_equal(ingest_compare(b.ingest, &theirs, b.now), BELFRY_ERR_REWOUND);
    past_destroy(third);
    past_destroy(other);
    bench_fini(&b);
}

static void adopting_cuts_the_log_and_drops_what_was_not_committed(void **state)
{
    (void)state;
    struct bench b;
    bench_init(&b);
    past_fill(b.past, 20, "a");
    for (int64_t rev = 2; rev <= 5; rev++)
        assert_int_equal(offer(&b, rev), BELFRY_OK);
    list_at(&b, 18);
    assert_int_equal(ingest_head(b.ingest), 18);
    assert_int_equal(ingest_overlap(b.ingest), 18);
    struct evlog_view view;
    evlog_enter(b.evlog, 0, &view);
    assert_int_equal(view.cut.past, 2);
    assert_int_equal(view.cut.rev, 18);
    assert_int_equal(view.first, view.next);
    evlog_leave(b.evlog, 0);
    assert_state(&b, 18);
    assert_int_equal(offer(&b, 19), BELFRY_OK);
    bench_fini(&b);
}

/* Random transactions, commits, disk trouble and crashes: log and store are always what was written. */
static void random_histories_arrive_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct belfry_rng rng = {seed};
        struct bench b;
        bench_init(&b);
        while (ingest_head(b.ingest) < 200) {
            b.now += belfry_rng_below(&rng, 4);
            if (belfry_rng_below(&rng, 30) == 0)
                modelstore_fail(b.store, 1 + (unsigned)belfry_rng_below(&rng, 6));
            if (belfry_rng_below(&rng, 10) == 0)
                ingest_drained(b.ingest, b.now);
            if (b.now >= ingest_due(b.ingest))
                ingest_tick(b.ingest, b.now);
            if (b.past->head == ingest_head(b.ingest))
                past_random(b.past, &rng);
            enum belfry_err err = offer(&b, ingest_head(b.ingest) + 1);
            if (err != BELFRY_OK) {
                assert_int_equal(err, BELFRY_ERR_AGAIN);
                assert_true(ingest_in_trouble(b.ingest));
                b.now = ingest_due(b.ingest);
            }
            assert_log(&b);
            assert_state(&b, ingest_committed(b.ingest));
        }
        bench_fini(&b);
    }
}

/* ---- refusals ---- */

static enum belfry_err all_of_it(struct bench *b)
{
    struct ingest_opts opts = {
        .store = b->store, .evlog = b->evlog, .extent_bytes = 1500, .trim_rows = 16, .whole_scope = true};
    enum belfry_err err = ingest_create(&opts, &b->ingest);
    bool warm;
    if (err == BELFRY_OK)
        err = ingest_open(b->ingest, &warm);
    for (int64_t rev = 3; rev <= 9 && err == BELFRY_OK; rev++) {
        if (rev == 6)
            modelstore_fail(b->store, 3); /* those that follow are held */
        err = offer(b, rev);
    }
    modelstore_fail(b->store, 0);
    if (err == BELFRY_OK)
        ingest_drained(b->ingest, b->now);
    return err;
}

static void refused_allocation_leaves_ingest_usable(void **state)
{
    (void)state;
    bool reached = true;
    for (size_t n = 0; reached; n++) {
        size_t held = refuse_held();
        struct bench b;
        bench_init(&b);
        past_fill(b.past, 12, "a");
        assert_int_equal(offer(&b, 2), BELFRY_OK);
        ingest_drained(b.ingest, b.now);
        ingest_destroy(b.ingest);
        evlog_destroy(b.evlog);
        b.evlog = make_evlog();
        b.ingest = NULL;
        refuse_begin(n);
        enum belfry_err err = all_of_it(&b);
        reached = refuse_end();
        if (!reached || err == BELFRY_OK)
            assert_int_equal(err, BELFRY_OK);
        else
            assert_true(err == BELFRY_ERR_NOMEM);
        if (b.ingest != NULL && ingest_head(b.ingest) > 0) { /* with memory again it goes on where it was */
            outlast_trouble(&b);
            while (ingest_head(b.ingest) < 12)
                assert_int_equal(offer(&b, ingest_head(b.ingest) + 1), BELFRY_OK);
            ingest_drained(b.ingest, b.now);
            assert_state(&b, 12);
            assert_log(&b);
        }
        bench_fini(&b);
        assert_int_equal(refuse_held(), held);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revision_is_published_at_once_and_committed_when_drained),
        cmocka_unit_test(commit_comes_five_milliseconds_later_without_a_drain),
        cmocka_unit_test(revision_that_is_not_the_next_is_a_breach),
        cmocka_unit_test(event_that_does_not_fit_the_state_is_a_breach_and_changes_nothing),
        cmocka_unit_test(event_of_another_revision_is_a_breach),
        cmocka_unit_test(progress_beyond_the_head_of_the_whole_scope_is_a_breach),
        cmocka_unit_test(progress_of_a_prefix_is_published_as_an_advance),
        cmocka_unit_test(huge_revision_is_committed_before_the_log_shows_its_extent),
        cmocka_unit_test(log_full_of_uncommitted_batches_makes_it_commit),
        cmocka_unit_test(published_revisions_are_applied_again_after_disk_trouble),
        cmocka_unit_test(revisions_are_held_while_the_disk_takes_nothing),
        cmocka_unit_test(held_revision_that_does_not_fit_is_a_breach),
        cmocka_unit_test(key_is_found_as_of_the_head_though_it_is_not_committed),
        cmocka_unit_test(no_more_is_held_than_the_log_may_have),
        cmocka_unit_test(much_that_is_held_is_committed_in_parts),
        cmocka_unit_test(progress_is_held_too),
        cmocka_unit_test(trouble_is_over_after_a_calm_that_grows_when_it_comes_back),
        cmocka_unit_test(overlap_is_equal_or_rewound_or_unknown),
        cmocka_unit_test(killed_process_opens_warm_at_what_was_committed),
        cmocka_unit_test(empty_store_opens_cold),
        cmocka_unit_test(sleeping_worker_refuses_a_revision_and_nothing_changes),
        cmocka_unit_test(revision_may_change_a_key_again),
        cmocka_unit_test(repeated_change_that_does_not_fit_is_a_breach),
        cmocka_unit_test(revision_that_changes_too_much_again_is_a_breach),
        cmocka_unit_test(listing_is_compared_after_the_last_change_of_a_key),
        cmocka_unit_test(listing_is_compared_by_what_its_last_revision_left),
        cmocka_unit_test(adopting_cuts_the_log_and_drops_what_was_not_committed),
        cmocka_unit_test(random_histories_arrive_whole),
        cmocka_unit_test(refused_allocation_leaves_ingest_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
