/* src/serve/sse/sse_stream_test.c: the life of a stream, from its request to its end. */
#include "serve/sse/sse_bed_test.h"

#define COMING  "prefix=/a/"
#define TWO     "prefix=/a/&prefix=/c/"
#define SLOW_MS 5000

/* A value of so many bytes, good until the next call. */
static const char *long_text(size_t len)
{
    static char text[3 << 20];
    assert_true(len < sizeof(text));
    memset(text, 'x', len);
    text[len] = '\0';
    return text;
}

static void stop_reading(struct fakeexchange *peer)
{
    peer->room = 0;
    fakeexchange_make_room(peer, 0);
}

/* ---- where it begins ---- */

static void stream_begins_now(void **state)
{
    (void)state;
    BED(bed);
    bed_put(&bed, "/a/old", "1");
    bed_run(&bed);
    struct fakeexchange *peer = bed_get(&bed, COMING);
    assert_int_equal(peer->status, 200); /* at once */
    assert_string_equal(fakeexchange_field(peer, "content-type"), "text/event-stream");
    assert_string_equal(fakeexchange_field(peer, "cache-control"), "no-store");
    assert_string_equal(fakeexchange_field(peer, "x-accel-buffering"), "no");
    assert_says(peer, RETRY PROGRESS("11"));
    bed_put(&bed, "/a/k", "v");
    bed_put(&bed, "/b/k", "v");
    bed_put(&bed, "/a/k", NULL);
    bed_run(&bed);
    assert_says(peer, CHANGES("12", PUT("/a/k", "v")) CHANGES("14", DELETE("/a/k")));
    assert_silent(peer);
    assert_int_equal(bed_stats(&bed).messages, 2);
    assert_int_equal(bed_stats(&bed).streams, 1);
    bed_close(&bed);
}

static void stream_goes_on_after_its_id(void **state)
{
    (void)state;
    BED(bed);
    bed_put(&bed, "/a/1", "x");
    bed_put(&bed, "/a/2", "y");
    bed_run(&bed);
    struct fakeexchange *tagged = bed_get(&bed, COMING "&snapshot=1&last-event-id=11-" TAG);
    struct fakeexchange *plain = bed_get(&bed, COMING "&last-event-id=11");
    bed_run(&bed);
    assert_says(tagged, RETRY CHANGES("12", PUT("/a/2", "y")));
    assert_silent(tagged);
    assert_says(plain, RETRY CHANGES("12", PUT("/a/2", "y")));
    assert_silent(plain);
    bed_close(&bed);
}

static void state_comes_first_and_then_what_follows_it(void **state)
{
    (void)state;
    BED(bed);
    bed_put(&bed, "/a/1", "x");
    bed_put(&bed, "/b/2", "y");
    bed_put(&bed, "/a/3", "z");
    bed_run(&bed);
    struct fakeexchange *peer = bed_get(&bed, COMING "&snapshot=1");
    assert_says(peer, RETRY RESET("snapshot"));
    bed_run(&bed);
    assert_says(peer, STATE(PUT("/a/1", "x") "," PUT("/a/3", "z")) SYNCED("13", "2"));
    bed_put(&bed, "/a/1", NULL);
    bed_run(&bed);
    assert_says(peer, CHANGES("14", DELETE("/a/1")));
    struct fakeexchange *empty = bed_get(&bed, "prefix=/nothing/&snapshot=1&last-event-id=0");
    bed_run(&bed);
    assert_says(empty, RETRY RESET("snapshot") SYNCED("14", "0"));
    assert_int_equal(bed_stats(&bed).snapshots, 2);
    assert_int_equal(bed_stats(&bed).resets, 0);
    bed_close(&bed);
}

static void change_during_a_state_comes_after_it(void **state)
{
    (void)state;
    BED(bed);
    bed_put(&bed, "/a/1", "x");
    bed_run(&bed);
    struct fakeexchange *peer = bed_get(&bed, TWO "&snapshot=1");
    assert_says(peer, RETRY RESET("snapshot"));
    stop_reading(peer);
    bed_turn(&bed);
    bed_put(&bed, "/c/2", "y"); /* after the first step, which determined the revision */
    bed_run(&bed);
    fakeexchange_make_room(peer, EXCHANGE_ROOM);
    bed_run(&bed);
    struct belfry_bytes body = bed_body(peer);
    bool had_step = memmem(body.data, body.len, "\"rev\":11", 8) != NULL;
    assert_says(peer, STATE(PUT("/a/1", "x")));
    if (had_step)
        assert_says(peer, SYNCED("11", "1") CHANGES("12", PUT("/c/2", "y")));
    else
        assert_says(peer, STATE(PUT("/c/2", "y")) SYNCED("12", "2"));
    assert_silent(peer);
    bed_close(&bed);
}

static void id_of_another_cluster_is_lost(void **state)
{
    (void)state;
    BED(bed);
    bed_put(&bed, "/a/1", "x");
    bed_run(&bed);
    struct fakeexchange *with = bed_get(&bed, COMING "&snapshot=1&last-event-id=11-00000052");
    struct fakeexchange *without = bed_get(&bed, COMING "&last-event-id=11-00000052");
    bed_run(&bed);
    assert_says(with, RETRY RESET("rewritten") STATE(PUT("/a/1", "x")) SYNCED("11", "1"));
    assert_says(without, RETRY LOST("11", "rewritten"));
    assert_int_equal(bed_stats(&bed).resets, 2);
    bed_close(&bed);
}

static void id_above_ours_is_asked_about(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = bed_get(&bed, COMING "&last-event-id=12");
    assert_int_equal(peer->status, 0);
    fence_answer(&bed.fence, BELFRY_OK, 12);
    assert_says(peer, RETRY);
    bed_put(&bed, "/a/11", "x");
    bed_put(&bed, "/a/12", "x");
    bed_put(&bed, "/a/13", "x");
    bed_run(&bed);
    assert_says(peer, CHANGES("13", PUT("/a/13", "x")));
    assert_silent(peer);
    bed_close(&bed);
}

static void id_that_upstream_never_reached_is_lost(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = bed_get(&bed, COMING "&last-event-id=9223372036854775807");
    fence_answer(&bed.fence, BELFRY_OK, 12);
    assert_says(peer, RETRY LOST("10", "ahead"));
    peer = bed_get(&bed, COMING "&snapshot=1&last-event-id=12");
    fence_answer(&bed.fence, BELFRY_OK, 11);
    bed_run(&bed);
    assert_says(peer, RETRY RESET("ahead") SYNCED("10", "0"));
    bed_close(&bed);
}

static void upstream_that_does_not_answer_is_asked_later(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = bed_get(&bed, COMING "&last-event-id=12");
    fence_answer(&bed.fence, BELFRY_ERR_TIMEOUT, 0);
    assert_int_equal(peer->status, 200);
    assert_ended(peer);
    bed.fence.err = BELFRY_ERR_LIMIT;
    peer = bed_get(&bed, COMING "&last-event-id=12");
    assert_int_equal(peer->status, 200);
    assert_ended(peer);
    assert_int_equal(bed_stats(&bed).later, 2);
    assert_int_equal(bed_stats(&bed).streams, 0);
    bed_close(&bed);
}

static void progress_never_moves_a_client_back(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = bed_get(&bed, COMING "&last-event-id=12");
    fence_answer(&bed.fence, BELFRY_OK, 12);
    assert_says(peer, RETRY);
    bed_pass(&bed, 3 * SSE_PROGRESS_MS); /* the tier lags: it is at 10 */
    struct belfry_bytes body = bed_body(peer);
    assert_null(memmem(body.data, body.len, "progress", 8));
    belfry_buf_clear(&peer->body);
    bed_put(&bed, "/b/11", "x");
    bed_put(&bed, "/b/12", "x");
    bed_pass(&bed, 3 * SSE_PROGRESS_MS);
    body = bed_body(peer);
    assert_non_null(memmem(body.data, body.len, PROGRESS("12"), strlen(PROGRESS("12"))));
    bed_close(&bed);
}

/* ---- several ranges ---- */

static void ranges_share_one_position(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *two = bed_get(&bed, TWO), *same = bed_get(&bed, TWO);
    assert_says(two, RETRY PROGRESS("10"));
    assert_says(same, RETRY PROGRESS("10"));
    static const char *const keys[] = {"/a/1", "/b/1", "/c/1", "/d/1"}, *const values[] = {"1", "2", "3", "4"};
    assert_int_equal(bed_commit(&bed, keys, values, 4), BELFRY_OK);
    bed_put(&bed, "/b/2", "x");
    bed_run(&bed);
    assert_says(two, CHANGES("11", PUT("/a/1", "1") "," PUT("/c/1", "3")));
    assert_silent(two);
    assert_says(same, CHANGES("11", PUT("/a/1", "1") "," PUT("/c/1", "3")));
    assert_silent(same);
    assert_int_equal(bed_stats(&bed).forms_made, 1);
    assert_int_equal(bed_stats(&bed).forms_shared, 1);
    bed_close(&bed);
}

static void overlapping_ranges_show_a_key_once(void **state)
{
    (void)state;
    BED(bed);
    bed_put(&bed, "/a/b/1", "x");
    bed_put(&bed, "/a/c", "y");
    bed_run(&bed);
    struct fakeexchange *peer = bed_get(&bed, "prefix=/a/b/&prefix=/a/&key=/a/c&snapshot=1");
    bed_run(&bed);
    assert_says(peer, RETRY RESET("snapshot") STATE(PUT("/a/b/1", "x")) STATE(PUT("/a/c", "y")) SYNCED("12", "2"));
    bed_put(&bed, "/a/c", "z");
    bed_run(&bed);
    assert_says(peer, CHANGES("13", PUT("/a/c", "z")));
    assert_silent(peer);
    bed_close(&bed);
}

/* ---- large revisions ---- */

/* A message with one event. */
static void assert_long_event(struct fakeexchange *peer, const char *head, const char *key, const char *value)
{
    assert_says(peer, head);
    assert_says(peer, "\"events\":[{\"op\":\"put\",\"key\":\"");
    assert_says(peer, key);
    assert_says(peer, "\",\"value\":\"");
    assert_says(peer, value);
    assert_says(peer, "\"}]}\n\n");
}

static void large_revision_comes_in_parts_of_which_the_last_has_the_id(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *one = bed_get(&bed, COMING), *two = bed_get(&bed, TWO);
    assert_says(one, RETRY PROGRESS("10"));
    assert_says(two, RETRY PROGRESS("10"));
    const char *text = long_text(SSE_PART_BYTES);
    const char *keys[] = {"/a/1", "/a/2", "/b/3", "/c/4"}, *values[] = {text, text, text, "end"};
    assert_int_equal(bed_commit(&bed, keys, values, 4), BELFRY_OK);
    for (int i = 0; i < 40; i++) {
        fakeexchange_make_room(one, 20000);
        fakeexchange_make_room(two, 20000);
        bed_run(&bed);
    }
    assert_long_event(one, "data: {\"rev\":11,\"more\":true,", "/a/1", text);
    assert_long_event(one, "id: 11-" TAG "\ndata: {\"rev\":11,", "/a/2", text);
    assert_silent(one);
    assert_long_event(two, "data: {\"rev\":11,\"more\":true,", "/a/1", text);
    assert_long_event(two, "data: {\"rev\":11,\"more\":true,", "/a/2", text);
    assert_says(two, CHANGES("11", PUT("/c/4", "end")));
    assert_silent(two);
    bed_close(&bed);
}

/* Keys "/a/000000", ... The first n of EVENTS_MAX. */
static const char *const *many_keys(const char *prefix)
{
    static char text[EVENTS_MAX][16];
    static const char *keys[EVENTS_MAX];
    for (size_t i = 0; i < EVENTS_MAX; i++) {
        snprintf(text[i], sizeof(text[i]), "%s%06zu", prefix, i);
        keys[i] = text[i];
    }
    return keys;
}

static size_t count(struct belfry_bytes body, const char *text)
{
    size_t n = 0, len = strlen(text);
    while (body.len > 0) {
        const char *at = memmem(body.data, body.len, text, len);
        if (at == NULL)
            break;
        n++;
        body = belfry_bytes_of(at + len, body.len - (size_t)(at - body.data) - len);
    }
    return n;
}

static void many_events_are_looked_at_a_few_at_a_time(void **state)
{
    (void)state;
    BED(bed);
    static const char *values[EVENTS_MAX];
    struct fakeexchange *some = bed_get(&bed, "key=/a/000000&prefix=/a/0000"), *all = bed_get(&bed, COMING);
    assert_says(some, RETRY PROGRESS("10"));
    assert_says(all, RETRY PROGRESS("10"));
    assert_int_equal(bed_commit(&bed, many_keys("/a/"), values, EVENTS_MAX), BELFRY_OK);
    for (int i = 0; i < 10; i++) {
        fakeexchange_make_room(some, EXCHANGE_ROOM);
        fakeexchange_make_room(all, EXCHANGE_ROOM);
        bed_run(&bed);
    }
    struct belfry_bytes body = bed_body(all);
    assert_int_equal(count(body, "\"op\":\"delete\""), EVENTS_MAX);
    assert_int_equal(count(body, "id: 11-" TAG), 1);
    assert_true(count(body, "\"more\":true") >= EVENTS_MAX / SSE_PART_EVENTS - 1);
    body = bed_body(some);
    assert_int_equal(count(body, "\"op\":\"delete\""), 100);
    assert_int_equal(count(body, "id: 11-" TAG), 1);
    bed_close(&bed);
}

static void revision_in_slices_ends_with_a_message_that_has_the_id(void **state)
{
    (void)state;
    for (size_t room = 40; room < 200; room += 37) {
        BED(bed);
        struct fakeexchange *one = bed_get(&bed, COMING), *two = bed_get(&bed, TWO), *none = bed_get(&bed, "prefix=/z");
        assert_says(one, RETRY PROGRESS("10"));
        assert_says(two, RETRY PROGRESS("10"));
        assert_says(none, RETRY PROGRESS("10"));
        static const char *const keys[] = {"/a/1", "/b/2", "/c/3", "/d/4", "/d/5"};
        static const char *const values[] = {"1", "2", "3", "4", "5"};
        bed.is_extent = true;
        assert_int_equal(bed_commit(&bed, keys, values, 5), BELFRY_OK);
        bed_put(&bed, "/a/6", "6");
        for (int i = 0; i < 40; i++) {
            fakeexchange_make_room(one, room);
            fakeexchange_make_room(two, room);
            bed_run(&bed);
        }
        assert_says(one, PART("11", PUT("/a/1", "1")));
        assert_says(one, CHANGES("11", "") CHANGES("12", PUT("/a/6", "6"))); /* its last row is not in the range */
        assert_silent(one);
        assert_says(two, PART("11", PUT("/a/1", "1")) PART("11", PUT("/c/3", "3")) CHANGES("11", ""));
        assert_says(two, CHANGES("12", PUT("/a/6", "6")));
        assert_silent(two);
        assert_silent(none);
        bed_close(&bed);
    }
}

/* ---- slow readers ---- */

static void slow_reader_receives_everything_when_it_reads_again(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = bed_get(&bed, COMING);
    assert_says(peer, RETRY PROGRESS("10"));
    stop_reading(peer);
    for (int i = 0; i < 50; i++) {
        bed_put(&bed, "/a/k", "v");
        bed_run(&bed);
    }
    assert_silent(peer);
    char wanted[128];
    for (int i = 0; i < 50; i++) {
        for (int turns = 0; turns < 20; turns++) {
            fakeexchange_make_room(peer, 7);
            bed_run(&bed);
        }
        snprintf(wanted, sizeof(wanted), CHANGES("%d", PUT("/a/k", "v")), 11 + i, 11 + i);
        assert_says(peer, wanted);
    }
    bed_close(&bed);
}

static void lost_stream_says_reset_and_goes_on(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *with = bed_get(&bed, COMING "&snapshot=1"), *without = bed_get(&bed, COMING);
    bed_run(&bed);
    belfry_buf_clear(&with->body);
    belfry_buf_clear(&without->body);
    stop_reading(with);
    stop_reading(without);
    for (int i = 0; i < 200; i++) { /* more than the log holds */
        bed_put(&bed, "/a/k", "v");
        bed_run(&bed);
    }
    fakeexchange_make_room(with, EXCHANGE_ROOM);
    fakeexchange_make_room(without, EXCHANGE_ROOM);
    bed_run(&bed);
    assert_says(with, SSE_HEARTBEAT RESET("compacted") STATE(PUT("/a/k", "v")) SYNCED("210", "1"));
    assert_says(without, SSE_HEARTBEAT LOST("210", "compacted"));
    bed_put(&bed, "/a/k", "w");
    bed_run(&bed);
    assert_says(with, CHANGES("211", PUT("/a/k", "w")));
    assert_says(without, CHANGES("211", PUT("/a/k", "w")));
    assert_int_equal(bed_stats(&bed).resets, 2);
    bed_close(&bed);
}

static void id_that_was_compacted_is_lost(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *with = bed_get(&bed, COMING "&snapshot=1&last-event-id=5"),
                        *without = bed_get(&bed, COMING "&last-event-id=5");
    bed_run(&bed);
    assert_says(with, RETRY SSE_HEARTBEAT RESET("compacted") SYNCED("10", "0"));
    assert_says(without, RETRY SSE_HEARTBEAT LOST("10", "compacted"));
    assert_silent(with);
    assert_silent(without);
    bed_close(&bed);
}

static void restored_backup_resets(void **state)
{
    (void)state;
    BED(bed);
    for (int i = 0; i < 5; i++)
        bed_put(&bed, "/a/k", "v");
    bed_run(&bed);
    struct fakeexchange *with = bed_get(&bed, COMING "&snapshot=1"), *without = bed_get(&bed, COMING);
    bed_run(&bed);
    belfry_buf_clear(&with->body);
    belfry_buf_clear(&without->body);
    bed_restore(&bed, 12);
    bed_run(&bed);
    assert_says(with, SSE_HEARTBEAT RESET("rewritten") SYNCED("12", "0"));
    assert_says(without, SSE_HEARTBEAT LOST("12", "rewritten"));
    bed_put(&bed, "/a/k", "new");
    bed_run(&bed);
    assert_says(with, CHANGES("13", PUT("/a/k", "new")));
    assert_says(without, CHANGES("13", PUT("/a/k", "new")));
    bed_close(&bed);
}

/* The store may be in the next past before the core knows of it, and the core before the store. */
static void state_of_another_past_than_the_cores_is_not_gone_on_from(void **state)
{
    (void)state;
    BED(bed);
    for (int i = 0; i < 5; i++)
        bed_put(&bed, "/a/k", "v");
    bed_run(&bed);
    bed.store.past++; /* the log is not cut yet */
    bed.store.rev = 12;
    struct fakeexchange *peer = bed_get(&bed, COMING "&snapshot=1");
    bed_run(&bed);
    struct belfry_bytes body = bed_body(peer);
    assert_null(memmem(body.data, body.len, "synced", 6));
    assert_null(memmem(body.data, body.len, "\"rev\":13", 8));
    assert_int_equal(peer->state, FAKEEXCHANGE_ENDED); /* and the client comes again */
    bed.store.past--;
    bed.store.rev = 15;
    peer = bed_get(&bed, COMING "&snapshot=1");
    stop_reading(peer);
    fakeexchange_make_room(peer, EXCHANGE_ROOM);
    assert_int_equal(evlog_cut(bed.log, 12, EVLOG_CUT_REWRITTEN, 0), BELFRY_OK);
    bed.head = 12;
    bed_turn(&bed); /* the core is in the new past, the store is not */
    assert_says(peer, RETRY RESET("snapshot") STATE(PUT("/a/k", "v")));
    body = bed_body(peer);
    assert_null(memmem(body.data, body.len, "synced", 6));
    bed.store.past = worker_past(bed.worker);
    bed.store.n_rows = 0;
    bed.store.rev = 12;
    fakeexchange_make_room(peer, EXCHANGE_ROOM);
    bed_run(&bed);
    body = bed_body(peer);
    assert_non_null(memmem(body.data, body.len, SYNCED("12", "0"), strlen(SYNCED("12", "0"))));
    bed_close(&bed);
}

static void state_whose_revision_is_gone_begins_anew(void **state)
{
    (void)state;
    BED(bed);
    static const char *values[EVENTS_MAX];
    for (size_t i = 0; i < 600; i++)
        values[i] = "v";
    assert_int_equal(bed_commit(&bed, many_keys("/a/"), values, 600), BELFRY_OK);
    bed_run(&bed);
    struct fakeexchange *peer = bed_get(&bed, COMING "&snapshot=1");
    fakeexchange_make_room(peer, 20000);
    bed_turn(&bed);
    belfry_buf_clear(&peer->body);
    stop_reading(peer);
    bed_put(&bed, "/b/k", "v");
    bed_run(&bed);
    bed.store.oldest = 12;
    for (int i = 0; i < 10; i++) {
        fakeexchange_make_room(peer, EXCHANGE_ROOM);
        bed_run(&bed);
    }
    struct belfry_bytes body = bed_body(peer);
    const char *anew = memmem(body.data, body.len, RESET("compacted"), strlen(RESET("compacted")));
    assert_non_null(anew);
    struct belfry_bytes rest = belfry_bytes_of(anew, body.len - (size_t)(anew - body.data));
    assert_int_equal(count(rest, "\"op\":\"put\""), 600);
    assert_int_equal(count(rest, SYNCED("12", "600")), 1);
    assert_int_equal(count(body, SYNCED("11", "600")), 0);
    bed_close(&bed);
}

static void state_is_read_as_fast_as_its_client_reads(void **state)
{
    (void)state;
    BED(bed);
    static const char *values[EVENTS_MAX];
    for (size_t i = 0; i < 4000; i++)
        values[i] = "a value of some length, so that the state is larger than the room";
    assert_int_equal(bed_commit(&bed, many_keys("/a/"), values, 4000), BELFRY_OK);
    bed_run(&bed);
    struct fakeexchange *peer = bed_get(&bed, COMING "&snapshot=1");
    for (int i = 0; i < 10; i++)
        bed_run(&bed);
    assert_true(bed_body(peer).len < EXCHANGE_ROOM + 2 * SSE_STATE_BYTES);
    size_t before = bed_body(peer).len;
    bed_pass(&bed, 100);
    assert_int_equal(bed_body(peer).len, before);
    for (int i = 0; i < 100; i++) {
        fakeexchange_make_room(peer, EXCHANGE_ROOM);
        bed_run(&bed);
    }
    assert_int_equal(count(bed_body(peer), "\"op\":\"put\""), 4000);
    assert_int_equal(count(bed_body(peer), SYNCED("11", "4000")), 1);
    bed_close(&bed);
}

static void state_that_cannot_be_read_ends_the_stream(void **state)
{
    (void)state;
    for (int is_empty = 0; is_empty < 2; is_empty++) {
        BED(bed);
        bed.store.err = is_empty ? BELFRY_OK : BELFRY_ERR_IO;
        bed.store.rev = is_empty ? 0 : bed.store.rev;
        struct fakeexchange *peer = bed_get(&bed, COMING "&snapshot=1");
        bed_run(&bed);
        assert_says(peer, RETRY RESET("snapshot"));
        assert_ended(peer);
        assert_int_equal(bed_stats(&bed).streams, 0);
        bed_close(&bed);
    }
}

/* Every row is of revision 9. */
static void ranges_of_a_state_are_read_one_after_the_other_and_show_a_key_once(void **state)
{
    (void)state;
    static const char *const keys[] = {"/a/1", "/a/11", "/b/1", "/c/1", "/c/2", "/e", "/e/1", "/f"};
    static const struct {
        const char *query, *says;
    } rows[] = {{"prefix=/c/&key=/a/1&from=/e&to=/f&snapshot=1",
                 STATE(PUT("/c/1", "v") "," PUT("/c/2", "v")) STATE(PUT("/a/1", "v"))
                     STATE(PUT("/e", "v") "," PUT("/e/1", "v")) SYNCED("10", "5")},
                {"prefix=/a/11&prefix=/a/&from=/a&to=/c&key=/a/11&snapshot=1",
                 STATE(PUT("/a/11", "v")) STATE(PUT("/a/1", "v")) STATE(PUT("/b/1", "v")) SYNCED("10", "3")},
                {"prefix=/c/&prefix=&snapshot=1",
                 STATE(PUT("/c/1", "v") "," PUT("/c/2", "v")) STATE(PUT("/a/1", "v") "," PUT("/a/11", "v") "," PUT(
                     "/b/1", "v") "," PUT("/e", "v") "," PUT("/e/1", "v") "," PUT("/f", "v")) SYNCED("10", "8")},
                {"prefix=/d/&prefix=/g/&snapshot=1", SYNCED("10", "0")}};
    BED(bed);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        fakestore_put(&bed.store, 9, keys[i], "v");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fakeexchange *peer = bed_get(&bed, rows[i].query);
        bed_run(&bed);
        assert_says(peer, RETRY RESET("snapshot"));
        assert_says(peer, rows[i].says);
        assert_silent(peer);
    }
    bed_close(&bed);
}

static size_t longest_line(struct belfry_bytes body)
{
    size_t longest = 0;
    for (size_t at = 0, begin = 0; at < body.len; at++) {
        if (body.data[at] != '\n')
            continue;
        longest = at - begin > longest ? at - begin : longest;
        begin = at + 1;
    }
    return longest;
}

static const char *const long_value = "a value that is so long that bytes and not rows end a step: aaaaaaaaaaaaaaaaaa";

/* Revision 11 has so many keys /a/000000, ...; its state is larger than the room if the values are long. */
static void fill(struct bed *bed, uint32_t n, const char *value)
{
    static const char *values[EVENTS_MAX];
    for (size_t i = 0; i < n; i++)
        values[i] = value;
    assert_int_equal(bed_commit(bed, many_keys("/a/"), values, n), BELFRY_OK);
    bed_run(bed);
}

/* The client reads all that there is. */
static void read_on(struct bed *bed, struct fakeexchange *peer)
{
    for (int i = 0; i < 40; i++) {
        fakeexchange_make_room(peer, EXCHANGE_ROOM);
        bed_run(bed);
    }
}

static void parts_of_a_state_are_small_and_miss_nothing(void **state)
{
    (void)state;
    for (int is_long = 0; is_long < 2; is_long++) {
        BED(bed);
        fill(&bed, 1500, is_long ? long_value : "v");
        struct fakeexchange *peer = bed_get(&bed, "prefix=/a/&prefix=/a/0001&snapshot=1");
        read_on(&bed, peer);
        assert_int_equal(count(bed_body(peer), "\"op\":\"put\""), 1500);
        assert_int_equal(count(bed_body(peer), SYNCED("11", "1500")), 1);
        assert_true(longest_line(bed_body(peer)) < 2 * SSE_STATE_BYTES);
        assert_true(bed.store.reads > 1500 / SSE_STATE_ROWS);
        bed_close(&bed);
    }
}

static void all_parts_of_a_state_are_of_the_first_ones_revision(void **state)
{
    (void)state;
    BED(bed);
    fill(&bed, 4000, long_value);
    bed_put(&bed, "/b", "before");
    bed_run(&bed);
    struct fakeexchange *peer = bed_get(&bed, "prefix=/a/&key=/b&snapshot=1");
    bed_run(&bed);
    assert_true(count(bed_body(peer), "\"op\":\"put\"") < 3000); /* there is no room for more */
    bed_put(&bed, "/b", "after");
    bed_put(&bed, "/a/003999", NULL);
    bed_put(&bed, "/a/003999x", "new");
    read_on(&bed, peer);
    struct belfry_bytes body = bed_body(peer);
    const char *synced = memmem(body.data, body.len, SYNCED("12", "4001"), strlen(SYNCED("12", "4001")));
    assert_non_null(synced);
    struct belfry_bytes shown = belfry_bytes_of(body.data, (size_t)(synced - body.data));
    assert_int_equal(count(shown, "\"op\":\"put\""), 4001);
    assert_int_equal(count(shown, "before"), 1);
    assert_int_equal(count(shown, "after"), 0);
    assert_int_equal(count(shown, "new"), 0);
    belfry_buf_take(&peer->body, shown.len);
    assert_says(peer, SYNCED("12", "4001") CHANGES("13", PUT("/b", "after")) CHANGES("14", DELETE("/a/003999"))
                          CHANGES("15", PUT("/a/003999x", "new")));
    bed_close(&bed);
}

static void read_of_a_state_that_finds_no_row_in_time_goes_on(void **state)
{
    (void)state;
    BED(bed);
    fill(&bed, 4000, long_value);
    struct fakeexchange *peer = bed_get(&bed, COMING "&snapshot=1");
    bed_run(&bed);
    bed.store.idle = 3;
    read_on(&bed, peer);
    assert_int_equal(bed.store.idle, 0);
    assert_int_equal(count(bed_body(peer), "\"op\":\"put\""), 4000);
    assert_int_equal(count(bed_body(peer), SYNCED("11", "4000")), 1);
    bed_close(&bed);
}

static void past_that_is_rewritten_during_a_state_begins_it_anew(void **state)
{
    (void)state;
    for (int is_lower = 0; is_lower < 2; is_lower++) {
        BED(bed);
        fill(&bed, 4000, long_value);
        struct fakeexchange *peer = bed_get(&bed, COMING "&snapshot=1");
        bed_run(&bed);
        bed.store.past++;
        bed.store.rev = is_lower ? 10 : 20; /* a revision that it has not, and one that it has */
        fakeexchange_make_room(peer, EXCHANGE_ROOM);
        bed_turn(&bed);
        assert_int_equal(count(bed_body(peer), RESET("rewritten")), 1);
        assert_int_equal(count(bed_body(peer), "synced"), 0);
        bed_close(&bed);
    }
}

/* ---- rights ---- */

static void nothing_is_said_before_all_rights_are_held(void **state)
{
    (void)state;
    BED(bed);
    permit_close(&bed.permit);
    const char *const fields[] = {"authorization: Bearer secret", NULL};
    struct fakeexchange *peer = bed_ask(&bed, "GET", "/v1/events?" TWO "&snapshot=1", fields);
    assert_int_equal(bed.permit.n, 2);
    assert_string_equal(bed.permit.questions[0].key, "/a/");
    assert_string_equal(bed.permit.questions[0].end, "/a0");
    assert_string_equal(bed.permit.questions[1].key, "/c/");
    assert_string_equal(bed.permit.questions[1].token, "secret");
    permit_answer(&bed.permit, 1, PERMIT_HELD, "");
    bed_run(&bed);
    assert_int_equal(peer->status, 0);
    permit_answer(&bed.permit, 0, PERMIT_HELD, "");
    bed_run(&bed);
    assert_says(peer, RETRY RESET("snapshot") SYNCED("10", "0"));
    bed_close(&bed);
}

static void question_that_could_not_be_asked_is_waited_for(void **state)
{
    (void)state;
    BED(bed);
    permit_close(&bed.permit);
    bed.permit.most = 1;
    struct fakeexchange *peer = bed_get(&bed, TWO);
    assert_int_equal(bed.permit.n, 1);
    permit_answer(&bed.permit, 0, PERMIT_HELD, "");
    bed_run(&bed);
    assert_int_equal(peer->status, 0); /* whether 200 or 403 is not known yet */
    bed.permit.most = 0;
    bed_pass(&bed, 2500);
    assert_int_equal(bed.permit.n, 2);
    permit_answer(&bed.permit, 1, PERMIT_REFUSED, PERMIT_DENIED);
    assert_int_equal(peer->status, 403);
    assert_int_equal(bed_stats(&bed).streams, 0);
    bed_close(&bed);
}

static void refusals_before_the_head_are_statuses(void **state)
{
    (void)state;
    static const struct {
        const char *reason;
        int status;
    } rows[] = {{PERMIT_DENIED, 403}, {PERMIT_BAD_TOKEN, 401}, {PERMIT_NO_USER, 401}, {PERMIT_OLD_REVISION, 401}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        BED(bed);
        permit_close(&bed.permit);
        struct fakeexchange *peer = bed_get(&bed, TWO);
        permit_answer(&bed.permit, 0, PERMIT_HELD, "");
        permit_answer(&bed.permit, 1, PERMIT_REFUSED, rows[i].reason);
        assert_int_equal(peer->status, rows[i].status);
        assert_int_equal(peer->state, FAKEEXCHANGE_ENDED);
        assert_null(bed.permit.questions[0].fn); /* it was cancelled */
        assert_int_equal(bed_stats(&bed).refused, 1);
        assert_int_equal(bed_stats(&bed).streams, 0);
        bed_close(&bed);
    }
}

static void rights_that_cannot_be_asked_for_are_asked_for_later(void **state)
{
    (void)state;
    BED(bed);
    permit_close(&bed.permit);
    struct fakeexchange *peer = bed_get(&bed, COMING);
    permit_answer(&bed.permit, 0, PERMIT_UNAVAILABLE, "no leader");
    assert_int_equal(peer->status, 200);
    assert_ended(peer);
    bed_close(&bed);
}

static void right_that_is_taken_away_ends_the_stream(void **state)
{
    (void)state;
    BED(bed);
    permit_close(&bed.permit);
    struct fakeexchange *peer = bed_get(&bed, TWO);
    permit_answer(&bed.permit, 0, PERMIT_HELD, "");
    permit_answer(&bed.permit, 1, PERMIT_HELD, "");
    assert_says(peer, RETRY PROGRESS("10"));
    bed_put(&bed, "/a/k", "v");
    permit_answer(&bed.permit, 0, PERMIT_REFUSED, PERMIT_DENIED);
    bed_run(&bed);
    assert_says(peer,
                "event: denied\ndata: {\"error\":\"upstream does not allow these keys to this user any more\"}\n\n");
    assert_int_equal(peer->state, FAKEEXCHANGE_ENDED);
    assert_int_equal(bed_body(peer).len, 0);
    assert_int_equal(bed_stats(&bed).expelled, 1);
    bed_close(&bed);
}

static void token_that_is_forgotten_ends_the_stream(void **state)
{
    (void)state;
    BED(bed);
    permit_close(&bed.permit);
    struct fakeexchange *peer = bed_get(&bed, COMING);
    permit_answer(&bed.permit, 0, PERMIT_HELD, "");
    assert_says(peer, RETRY PROGRESS("10"));
    bed.permit.party->fn(bed.permit.party, PERMIT_ENDED, PERMIT_BAD_TOKEN);
    assert_says(peer, "event: denied\ndata: {\"error\":\"Unauthorized\"}\n\n");
    assert_int_equal(peer->state, FAKEEXCHANGE_ENDED);
    peer = bed_get(&bed, COMING); /* while its rights are asked for */
    bed.permit.party->fn(bed.permit.party, PERMIT_ENDED, PERMIT_BAD_TOKEN);
    assert_int_equal(peer->status, 401);
    bed_close(&bed);
}

static void paused_stream_is_given_nothing(void **state)
{
    (void)state;
    BED(bed);
    permit_close(&bed.permit);
    struct fakeexchange *peer = bed_get(&bed, COMING);
    permit_answer(&bed.permit, 0, PERMIT_HELD, "");
    assert_says(peer, RETRY PROGRESS("10"));
    bed.permit.paused = true;
    bed.permit.party->fn(bed.permit.party, PERMIT_PAUSED, "");
    bed_put(&bed, "/a/k", "v");
    bed_run(&bed);
    assert_silent(peer);
    bed.permit.paused = false;
    bed.permit.party->fn(bed.permit.party, PERMIT_RESUMED, "");
    bed_run(&bed);
    assert_says(peer, CHANGES("11", PUT("/a/k", "v")));
    bed_close(&bed);
}

static void pause_holds_for_a_state_that_was_about_to_be_read(void **state)
{
    (void)state;
    BED(bed);
    bed_put(&bed, "/a/k", "v");
    bed_run(&bed);
    permit_close(&bed.permit);
    struct fakeexchange *peer = bed_get(&bed, COMING "&snapshot=1");
    permit_answer(&bed.permit, 0, PERMIT_HELD, "");
    assert_says(peer, RETRY RESET("snapshot"));
    bed.permit.paused = true;
    bed.permit.party->fn(bed.permit.party, PERMIT_PAUSED, "");
    bed_run(&bed);
    assert_silent(peer);
    assert_int_equal(bed.store.reads, 0);
    bed.permit.paused = false;
    bed.permit.party->fn(bed.permit.party, PERMIT_RESUMED, "");
    bed_run(&bed);
    assert_says(peer, STATE(PUT("/a/k", "v")) SYNCED("11", "1"));
    bed_close(&bed);
}

static void auth_that_is_turned_on_is_asked_about(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = bed_get(&bed, TWO);
    assert_says(peer, RETRY PROGRESS("10"));
    permit_close(&bed.permit);
    bed.permit.listener(bed.permit.listener_user);
    assert_true(sse_streams_are_going_round(sse_streams(bed.sse)));
    sse_streams_after_turn(sse_streams(bed.sse), bed.now); /* before the core has its next turn */
    assert_int_equal(bed.permit.n, 2);
    bed_put(&bed, "/a/k", "v");
    permit_answer(&bed.permit, 0, PERMIT_HELD, "");
    bed_run(&bed);
    assert_silent(peer); /* one of two is held */
    permit_answer(&bed.permit, 1, PERMIT_UNAVAILABLE, "no leader");
    bed_run(&bed);
    assert_silent(peer);
    bed_pass(&bed, 2500);
    assert_int_equal(bed.permit.n, 3);
    permit_answer(&bed.permit, 2, PERMIT_HELD, "");
    bed_run(&bed);
    assert_says(peer, CHANGES("11", PUT("/a/k", "v")));
    bed.permit.regime = PERMIT_OPEN; /* auth is turned off */
    bed.permit.listener(bed.permit.listener_user);
    bed_put(&bed, "/c/k", "v");
    bed_run(&bed);
    assert_says(peer, CHANGES("12", PUT("/c/k", "v")));
    bed_close(&bed);
}

static void auth_that_is_turned_off_while_it_is_asked_about_grants(void **state)
{
    (void)state;
    BED(bed);
    permit_close(&bed.permit);
    struct fakeexchange *peer = bed_get(&bed, TWO);
    bed.permit.regime = PERMIT_OPEN;
    permit_answer(&bed.permit, 0, PERMIT_GRANTED, "");
    assert_int_equal(peer->status, 0);
    permit_answer(&bed.permit, 1, PERMIT_GRANTED, "");
    assert_says(peer, RETRY PROGRESS("10"));
    bed_close(&bed);
}

/* ---- ends ---- */

static void stream_ends_at_every_point_when_its_client_leaves(void **state)
{
    (void)state;
    BED(bed);
    bed_put(&bed, "/a/k", long_text(100000));
    bed_run(&bed);
    struct fakeexchange *live = bed_get(&bed, COMING), *state_due = bed_get(&bed, COMING "&snapshot=1");
    struct fakeexchange *inside = bed_get(&bed, COMING "&last-event-id=10");
    struct fakeexchange *fencing = bed_get(&bed, COMING "&last-event-id=99");
    bed_turn(&bed);
    permit_close(&bed.permit);
    struct fakeexchange *asking = bed_get(&bed, TWO);
    assert_int_equal(bed_stats(&bed).streams, 5);
    fakeexchange_gone(live);
    fakeexchange_gone(state_due);
    fakeexchange_gone(inside);
    fakeexchange_gone(fencing);
    fakeexchange_gone(asking);
    assert_int_equal(bed_stats(&bed).streams, 0);
    assert_int_equal(bed_stats(&bed).bytes, 0);
    assert_null(bed.fence.wait.fn);
    assert_null(bed.permit.questions[0].fn);
    bed_run(&bed);
    struct worker_stats core;
    worker_stats(bed.worker, &core);
    assert_int_equal(core.streams, 0);
    bed_close(&bed);
}

static void service_that_ends_ends_every_stream(void **state)
{
    (void)state;
    BED(bed);
    bed_put(&bed, "/a/k", long_text(100000));
    bed_run(&bed);
    struct fakeexchange *live = bed_get(&bed, COMING), *state_due = bed_get(&bed, COMING "&snapshot=1");
    struct fakeexchange *inside = bed_get(&bed, COMING "&last-event-id=10");
    fakeexchange_make_room(inside, 1000);
    worker_turn(bed.worker, bed.now, 100000);
    struct fakeexchange *fencing = bed_get(&bed, COMING "&last-event-id=99");
    permit_close(&bed.permit);
    struct fakeexchange *asking = bed_get(&bed, TWO);
    sse_destroy(bed.sse);
    bed.sse = NULL;
    assert_int_equal(live->state, FAKEEXCHANGE_ENDED);
    assert_int_equal(state_due->state, FAKEEXCHANGE_ENDED);
    assert_int_equal(inside->state, FAKEEXCHANGE_RESET); /* of a message a part was sent */
    assert_int_equal(fencing->status, 200);
    assert_ended(fencing);
    assert_int_equal(asking->status, 200);
    assert_ended(asking);
    assert_null(bed.fence.wait.fn);
    bed_close(&bed);
}

static void drain_ends_streams_of_connections_that_leave(void **state)
{
    (void)state;
    BED(bed);
    for (int i = 0; i < 20; i++)
        bed_get(&bed, COMING);
    bed_run(&bed);
    for (int i = 0; i < 10; i++)
        bed.peers[i].conn.leaving = true;
    sse_streams_drain(sse_streams(bed.sse), bed.now, 5000);
    bed_pass(&bed, 2500);
    size_t half = bed_stats(&bed).streams;
    assert_true(half > 10 && half < 20); /* not all at once */
    bed_pass(&bed, 2600);
    assert_int_equal(bed_stats(&bed).streams, 10);
    for (int i = 0; i < 20; i++)
        assert_int_equal(bed.peers[i].state, i < 10 ? FAKEEXCHANGE_ENDED : FAKEEXCHANGE_OPEN);
    assert_says(&bed.peers[0], RETRY PROGRESS("10"));
    assert_ended(&bed.peers[0]);
    bed.leaving = true;
    struct fakeexchange *peer = bed_get(&bed, COMING);
    assert_int_equal(peer->status, 200);
    assert_ended(peer);
    bed_close(&bed);
}

static void time_to_come_again_grows_with_the_number_of_streams(void **state)
{
    (void)state;
    BED(bed);
    unsigned long most = 0;
    for (int i = 0; i < 30; i++) {
        struct fakeexchange *peer = bed_get(&bed, COMING);
        unsigned long ms = strtoul(bed_body(peer).data + strlen("retry: "), NULL, 10);
        assert_true(ms >= SSE_RETRY_MS && ms < 2 * SSE_RETRY_MS + 5 * 31);
        most = ms > most ? ms : most;
    }
    assert_true(most > SSE_RETRY_MS + SSE_RETRY_MS / 2);
    bed_close(&bed);
}

/* ---- signs of life ---- */

static void silence_is_broken_by_heartbeats_and_progress(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = bed_get(&bed, COMING);
    bed_run(&bed);
    belfry_buf_clear(&peer->body);
    bed_pass(&bed, SSE_BEAT_MS * 5 / 2);
    assert_says(peer, SSE_HEARTBEAT);
    assert_silent(peer);
    bed_put(&bed, "/b/k", "v");
    bed_pass(&bed, SSE_PROGRESS_MS);
    struct belfry_bytes body = bed_body(peer);
    assert_int_equal(count(body, PROGRESS("11")), 1);
    assert_true(count(body, ":\n\n") >= 3);
    bed_close(&bed);
}

static void stream_with_traffic_has_no_heartbeats(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = bed_get(&bed, COMING);
    bed_run(&bed);
    for (int i = 0; i < 40; i++) {
        bed_put(&bed, "/a/k", "v");
        bed_pass(&bed, 1000);
    }
    assert_int_equal(count(bed_body(peer), "\n:\n"), 0);
    bed_close(&bed);
}

static void heartbeats_do_not_pile_up_for_a_client_that_does_not_read(void **state)
{
    (void)state;
    BED(bed);
    struct fakeexchange *peer = bed_get(&bed, COMING);
    bed_run(&bed);
    belfry_buf_clear(&peer->body);
    stop_reading(peer);
    bed_pass(&bed, 100 * SSE_BEAT_MS);
    assert_silent(peer);
    fakeexchange_make_room(peer, EXCHANGE_ROOM);
    bed_pass(&bed, 2 * SSE_BEAT_MS);
    assert_true(bed_body(peer).len > 0);
    bed_close(&bed);
}

/* ---- memory ---- */

static void stream_beyond_the_share_of_its_client_comes_again(void **state)
{
    (void)state;
    static struct bed bed;
    struct fakeshares fake;
    fakeshares_init(&fake, SHARES_WATCH_BYTES, 40000, 50);
    assert_int_equal(bed_open(&bed), BELFRY_OK);
    bed.shares = &fake;
    bed.client = "10.0.0.1";
    size_t served = 0;
    struct fakeexchange *peer = NULL;
    for (int i = 0; i < PEERS - 2; i++) {
        peer = bed_get(&bed, COMING);
        assert_int_equal(peer->status, 200);
        served += peer->state == FAKEEXCHANGE_OPEN;
        bed_run(&bed);
    }
    assert_true(served > 2 && served < PEERS - 5);
    assert_int_equal(peer->state, FAKEEXCHANGE_ENDED);
    struct belfry_bytes body = belfry_buf_bytes(&peer->body);
    assert_non_null(memmem(body.data, body.len, "retry: ", 7));
    assert_non_null(memmem(body.data, body.len, "\n: belfry: the streams of this client", 37));
    assert_int_equal(bed_stats(&bed).later, PEERS - 2 - served);
    assert_int_equal(bed_stats(&bed).streams, served);
    size_t used = fake.shares.pools[SHARES_WATCH_BYTES].used;
    assert_true(used > bed_stats(&bed).bytes && used <= 20000);
    bed.client = "10.0.0.2";
    assert_int_equal(bed_get(&bed, COMING)->state, FAKEEXCHANGE_OPEN);
    bed_close(&bed);
    assert_int_equal(fake.shares.pools[SHARES_WATCH_BYTES].used, 0);
    shares_fini(&fake.shares);
}

static void stream_that_stays_inside_a_message_is_cut_off_when_memory_is_short(void **state)
{
    (void)state;
    for (int is_short = 0; is_short < 2; is_short++) {
        static struct bed bed;
        struct bed_opts opts = {.scope = "", .memory_max = is_short ? 300000 : 0};
        assert_int_equal(bed_open_as(&bed, &opts), BELFRY_OK);
        sse_streams_set_unread_time(sse_streams(bed.sse), SLOW_MS);
        struct fakeexchange *peer = bed_get(&bed, COMING);
        assert_says(peer, RETRY PROGRESS("10"));
        fakeexchange_make_room(peer, 1000);
        bed_put(&bed, "/a/k", long_text(1 << 20));
        bed_run(&bed);
        bed_pass(&bed, SLOW_MS / 2);
        assert_int_equal(peer->state, FAKEEXCHANGE_OPEN);
        bed_pass(&bed, SLOW_MS);
        assert_int_equal(peer->state, is_short ? FAKEEXCHANGE_RESET : FAKEEXCHANGE_OPEN);
        assert_int_equal(bed_stats(&bed).slow, is_short);
        bed_close(&bed);
    }
}

static void stream_is_shown_as_it_is(void **state)
{
    (void)state;
    BED(bed);
    struct sse_stream_view view;
    uint64_t number;
    const char *const fields[] = {"user-agent: a page", NULL};
    assert_false(sse_streams_next(sse_streams(bed.sse), 0, &number, &view));
    struct fakeexchange *peer = bed_ask(&bed, "GET", "/v1/events?" TWO, fields);
    bed_run(&bed);
    assert_true(sse_streams_next(sse_streams(bed.sse), 0, &number, &view));
    assert_string_equal(view.client, "a page");
    assert_ptr_equal(view.conn, &peer->conn);
    assert_non_null(view.stream);
    assert_int_equal(view.ranges.n, 2);
    assert_int_equal(view.opened_ms, NOW);
    assert_int_equal(view.sent_bytes, strlen(PROGRESS("10")));
    assert_false(sse_streams_next(sse_streams(bed.sse), number, &number, &view));
    bed_close(&bed);
}

/* ---- refused allocations ---- */

/* A state, a change, a reset and a state again, of several ranges; what is said is right, or the client is told to come
 * again, or cut off. */
static enum belfry_err live(struct bed *bed, const char *query)
{
    static const char *const keys[] = {"/a/k", "/b/k", "/c/k"}, *const values[] = {"1", "2", "3"};
    enum belfry_err err = bed_commit(bed, keys, values, 3);
    if (err != BELFRY_OK)
        return err;
    worker_turn(bed->worker, bed->now, 1000);
    struct fakeexchange *peer = bed_get(bed, query);
    for (int i = 0; i < 20 && err == BELFRY_OK; i++) {
        if (i == 5 || i == 10)
            err = bed_commit(bed, keys, values, 3);
        worker_turn(bed->worker, bed->now, 1000);
        bed_answer_fetch(bed);
        sse_streams_after_turn(sse_streams(bed->sse), bed->now);
        bed->now += 10000;
        if (peer->lost && peer->state == FAKEEXCHANGE_OPEN)
            fakeexchange_gone(peer);
    }
    if (err != BELFRY_OK || peer->state != FAKEEXCHANGE_OPEN || bed->fence.wait.fn != NULL)
        return BELFRY_ERR_NOMEM;
    struct belfry_bytes body = bed_body(peer);
    if (count(body, CHANGES("12", PUT("/a/k", "1") "," PUT("/c/k", "3"))) != 1 ||
        count(body, CHANGES("13", PUT("/a/k", "1") "," PUT("/c/k", "3"))) != 1)
        fail_msg("it says \"%.*s\"", (int)body.len, body.data);
    return BELFRY_OK;
}

static enum belfry_err scenario(const char *query)
{
    static struct bed bed;
    enum belfry_err err = bed_open(&bed);
    if (err == BELFRY_OK)
        err = live(&bed, query);
    bed_close(&bed);
    return err;
}

static enum belfry_err state_scenario(void)
{
    return scenario(TWO "&snapshot=1");
}

static enum belfry_err resumed_scenario(void)
{
    return scenario(TWO "&last-event-id=11");
}

static enum belfry_err compacted_scenario(void)
{
    return scenario(TWO "&snapshot=1&last-event-id=2");
}

static void every_refused_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(refuse_sweep(state_scenario) > 20);
    assert_true(refuse_sweep(resumed_scenario) > 20);
    assert_true(refuse_sweep(compacted_scenario) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_begins_now),
        cmocka_unit_test(stream_goes_on_after_its_id),
        cmocka_unit_test(state_comes_first_and_then_what_follows_it),
        cmocka_unit_test(change_during_a_state_comes_after_it),
        cmocka_unit_test(id_of_another_cluster_is_lost),
        cmocka_unit_test(id_above_ours_is_asked_about),
        cmocka_unit_test(id_that_upstream_never_reached_is_lost),
        cmocka_unit_test(upstream_that_does_not_answer_is_asked_later),
        cmocka_unit_test(progress_never_moves_a_client_back),
        cmocka_unit_test(ranges_share_one_position),
        cmocka_unit_test(overlapping_ranges_show_a_key_once),
        cmocka_unit_test(large_revision_comes_in_parts_of_which_the_last_has_the_id),
        cmocka_unit_test(many_events_are_looked_at_a_few_at_a_time),
        cmocka_unit_test(revision_in_slices_ends_with_a_message_that_has_the_id),
        cmocka_unit_test(slow_reader_receives_everything_when_it_reads_again),
        cmocka_unit_test(lost_stream_says_reset_and_goes_on),
        cmocka_unit_test(id_that_was_compacted_is_lost),
        cmocka_unit_test(restored_backup_resets),
        cmocka_unit_test(state_of_another_past_than_the_cores_is_not_gone_on_from),
        cmocka_unit_test(state_whose_revision_is_gone_begins_anew),
        cmocka_unit_test(state_is_read_as_fast_as_its_client_reads),
        cmocka_unit_test(state_that_cannot_be_read_ends_the_stream),
        cmocka_unit_test(ranges_of_a_state_are_read_one_after_the_other_and_show_a_key_once),
        cmocka_unit_test(parts_of_a_state_are_small_and_miss_nothing),
        cmocka_unit_test(all_parts_of_a_state_are_of_the_first_ones_revision),
        cmocka_unit_test(read_of_a_state_that_finds_no_row_in_time_goes_on),
        cmocka_unit_test(past_that_is_rewritten_during_a_state_begins_it_anew),
        cmocka_unit_test(nothing_is_said_before_all_rights_are_held),
        cmocka_unit_test(question_that_could_not_be_asked_is_waited_for),
        cmocka_unit_test(refusals_before_the_head_are_statuses),
        cmocka_unit_test(rights_that_cannot_be_asked_for_are_asked_for_later),
        cmocka_unit_test(right_that_is_taken_away_ends_the_stream),
        cmocka_unit_test(token_that_is_forgotten_ends_the_stream),
        cmocka_unit_test(paused_stream_is_given_nothing),
        cmocka_unit_test(pause_holds_for_a_state_that_was_about_to_be_read),
        cmocka_unit_test(auth_that_is_turned_on_is_asked_about),
        cmocka_unit_test(auth_that_is_turned_off_while_it_is_asked_about_grants),
        cmocka_unit_test(stream_ends_at_every_point_when_its_client_leaves),
        cmocka_unit_test(service_that_ends_ends_every_stream),
        cmocka_unit_test(drain_ends_streams_of_connections_that_leave),
        cmocka_unit_test(time_to_come_again_grows_with_the_number_of_streams),
        cmocka_unit_test(silence_is_broken_by_heartbeats_and_progress),
        cmocka_unit_test(stream_with_traffic_has_no_heartbeats),
        cmocka_unit_test(heartbeats_do_not_pile_up_for_a_client_that_does_not_read),
        cmocka_unit_test(stream_beyond_the_share_of_its_client_comes_again),
        cmocka_unit_test(stream_that_stays_inside_a_message_is_cut_off_when_memory_is_short),
        cmocka_unit_test(stream_is_shown_as_it_is),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
